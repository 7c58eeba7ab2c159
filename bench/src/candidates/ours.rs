//! Our kernels, through the library's own entry.

use super::{Absence, Candidate, Entrant};
use crate::case::{Case, with_epilogue};
use crate::gpu::{Gpu, GpuWork, Operands};
use crate::record::Side;
use crate::suite::{Kernels, Row};
use crate::timing::Work;
use anyhow::{Context, Result};
use gemmite::cuda::{RawEpilogue, RawMatrix, RawOperands};
use gemmite::{Device, Element, Gemm, KernelChoice, Layout, MatrixMut, MatrixRef, Shape};
use std::any::Any;
use std::time::{Duration, Instant};

/// The name of the library's own choice.
pub const AUTO: &str = "gemmite";

/// The library's choice, and every kernel of the table where the row asks for all or `extra` names
/// it.
pub fn entrants<'a, T: Element>(
    gpu: &'a Gpu,
    operands: &'a Operands,
    case: &'a Case<T>,
    extra: &[String],
) -> Vec<Entrant<'a, T>> {
    let variants = gemm_spec::variants().filter(|name| {
        let has = gemm_spec::Kernel::find_in(name, T::DTYPE, case.row.precision).is_some();
        (case.row.kernels == Kernels::All && has) || extra.iter().any(|e| e == name)
    });
    let choices = variants.map(|name| (name.to_owned(), KernelChoice::from(name)));
    std::iter::once((AUTO.to_owned(), KernelChoice::Auto))
        .chain(choices)
        .map(|(name, choice)| {
            let gemm = gemm(case).kernel(choice);
            let (kernel, candidate) = match kernel_name(&gemm, &gpu.device, &case.row) {
                Ok(kernel) => (kernel, Ok(on_gpu(gpu, operands, case, gemm))),
                Err(error) => (String::new(), Err(Absence::unsupported(error.to_string()))),
            };
            Entrant { name, side: Side::Ours, note: kernel, candidate }
        })
        .collect()
}

fn gemm<T: Element>(case: &Case<T>) -> Gemm<T> {
    let gemm = Gemm::new().op_a(case.row.op_a).op_b(case.row.op_b).alpha(case.alpha());
    let gemm = gemm.precision(case.row.precision);
    match case.beta() {
        Some(beta) => gemm.beta(beta),
        None => gemm,
    }
}

fn kernel_name<T: Element>(
    gemm: &Gemm<T>,
    device: &Device,
    row: &Row,
) -> Result<String, gemmite::Error> {
    let [a, b, _] = row.layouts();
    let plan = gemm.plan(device.info(), a, b)?;
    Ok(plan.kernel.map_or("CPU engine", |kernel| kernel.name).to_owned())
}

fn on_gpu<'a, T: Element>(
    gpu: &'a Gpu,
    operands: &'a Operands,
    case: &'a Case<T>,
    gemm: Gemm<T>,
) -> Box<dyn Candidate<T> + 'a> {
    let [a_layout, b_layout, c_layout] = case.row.layouts();
    let [a, b, c] = case.row.batch_strides().map(|elements| elements as u64);
    let (bytes, c_bytes) = (size_of::<T>() as u64, size_of::<T::Output>() as u64);
    let strides = [a * bytes, b * bytes, c * c_bytes];
    let batch = case.row.batch as u64;
    let epilogue = case.row.epilogue;
    let bias = operands.bias();
    let bias_layout = Layout::row_major(Shape::new(1, case.row.n));
    Box::new(GpuWork::new(
        gpu,
        operands,
        case,
        Box::new(move |[a, b, c], stream| {
            // N.B. the library has no batched product yet: one launch a product.
            for index in 0..batch {
                let operands = RawOperands {
                    a: a + index * strides[0],
                    a_layout,
                    b: b + index * strides[1],
                    b_layout,
                    c: c + index * strides[2],
                    c_layout,
                };
                // SAFETY: the addresses are those of buffers with the row's layouts on this device,
                // and outlive the stream's work, which the caller waits for.
                unsafe {
                    if !epilogue.is_fused() {
                        gemm.enqueue_raw(&gpu.device, stream, operands)?;
                        continue;
                    }
                    let mut fused = RawEpilogue::new().activation(epilogue.activation);
                    if epilogue.bias {
                        fused = fused.bias(RawMatrix { address: bias, layout: bias_layout });
                    }
                    with_epilogue!(T::DTYPE, E => {
                        let gemm = (&gemm as &dyn Any).downcast_ref::<Gemm<E>>();
                        let gemm = gemm.context("a product of its own dtype")?;
                        Ok(gemm.fused(fused).enqueue_raw(&gpu.device, stream, operands)?)
                    })?;
                }
            }
            Ok(())
        }),
    ))
}

/// The library's CPU engine.
pub fn on_cpu<'a, T: Element>(case: &'a Case<T>) -> Entrant<'a, T> {
    let candidate: Box<dyn Candidate<T> + 'a> =
        Box::new(CpuEngine { gemm: gemm(case), device: Device::cpu(), case, c: case.c.clone() });
    let note = Device::cpu().name().to_owned();
    let candidate = match case.row.epilogue.is_fused() {
        true => Err(Absence::unsupported("bias and activation are measured on a GPU")),
        false => Ok(candidate),
    };
    Entrant { name: AUTO.into(), side: Side::Ours, note, candidate }
}

struct CpuEngine<'a, T: Element> {
    gemm: Gemm<T>,
    device: Device,
    case: &'a Case<T>,
    c: Vec<T::Output>,
}

impl<T: Element> CpuEngine<'_, T> {
    fn multiply(&mut self) -> Result<()> {
        let Row { batch, .. } = self.case.row;
        let [a_layout, b_layout, c_layout] = self.case.row.layouts();
        let strides = self.case.row.batch_strides();
        for index in 0..batch {
            let a = MatrixRef::new(&self.case.a[index * strides[0]..], a_layout)?;
            let b = MatrixRef::new(&self.case.b[index * strides[1]..], b_layout)?;
            let c = MatrixMut::new(&mut self.c[index * strides[2]..], c_layout)?;
            self.gemm.run_into(&self.device, a, b, c)?;
        }
        Ok(())
    }
}

impl<T: Element> Work for CpuEngine<'_, T> {
    fn sample(&mut self, runs: u32) -> Result<Duration> {
        let start = Instant::now();
        (0..runs).try_for_each(|_| self.multiply())?;
        Ok(start.elapsed())
    }
}

impl<T: Element> Candidate<T> for CpuEngine<'_, T> {
    fn product(&mut self) -> Result<Vec<T::Output>> {
        self.c.clone_from(&self.case.c);
        self.multiply()?;
        Ok(self.c.clone())
    }
}
