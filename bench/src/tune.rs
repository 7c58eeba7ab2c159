//! Plans of the library timed on a GPU, for `gemmite tune`.

use crate::candidates::ours;
use crate::case::{Case, Data};
use crate::gpu::{Gpu, Operands};
use crate::suite::Row;
use crate::timing::{Effort, Work, alternate};
use anyhow::{Result, ensure};
use gemmite::tune::{Tuned, tune};
use gemmite::{Element, Gemm, Plan, with_element};

/// Verifies and times the plans of a row's product, in turn, on operands that have left the L2
/// cache.
///
/// # Errors
/// When the row is a batch or has an epilogue, the GPU's memory does not suffice, or no plan could
/// be timed.
pub fn row(gpu: &Gpu, row: Row, effort: &Effort) -> Result<Tuned> {
    ensure!(row.batch == 1, "plans of one product are tuned, and this row has {}", row.batch);
    ensure!(!row.epilogue.is_fused(), "plans are for products without bias and activation");
    with_element!(row.dtype, T => typed::<T>(gpu, row, effort))
}

fn typed<T: Element>(gpu: &Gpu, row: Row, effort: &Effort) -> Result<Tuned> {
    let gemm = Gemm::<T>::new().op_a(row.op_a).op_b(row.op_b).precision(row.precision);
    let [a, b, _] = row.layouts();
    let mut timer = |plans: &[Plan]| {
        times::<T>(gpu, row, &gemm, plans, effort)
            .unwrap_or_else(|error| plans.iter().map(|_| Err(format!("{error:#}"))).collect())
    };
    Ok(tune(&gpu.device, &gemm, [a, b], &mut timer)?)
}

/// Microseconds of each plan, or why there are none.
fn times<T: Element>(
    gpu: &Gpu,
    row: Row,
    gemm: &Gemm<T>,
    plans: &[Plan],
    effort: &Effort,
) -> Result<Vec<Result<f64, String>>> {
    let case = Case::<T>::generate(row, Data::Normal)?;
    let operands = Operands::new(gpu, &case)?;
    let of = |plan: &Plan| ours::on_gpu(gpu, &operands, &case, gemm.clone().kernel(plan));
    let mut works: Vec<_> = plans.iter().map(of).collect();
    let mut works: Vec<&mut dyn Work> =
        works.iter_mut().map(|work| &mut **work as &mut dyn Work).collect();
    let times = alternate(&mut works, effort).into_iter();
    Ok(times
        .map(|times| match times {
            Ok(times) => Ok(times.median_ms() * 1e3),
            Err(error) => Err(format!("{error:#}")),
        })
        .collect())
}
