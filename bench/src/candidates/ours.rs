//! Our kernels, through the library's own entry.

use super::{Absence, Candidate, Entrant};
use crate::case::{Case, with_epilogue};
use crate::gpu::{Gpu, GpuWork, Operands};
use crate::record::Side;
use crate::suite::{Kernels, Row};
use crate::timing::Work;
use anyhow::{Context, Result};
use cust::memory::DeviceBuffer;
use gemmite::cuda::{RawEpilogue, RawMatrix, RawOperands, RawScales};
use gemmite::{
    Batch, Device, Element, F8E4M3, Gemm, KernelChoice, Layout, MatrixMut, MatrixRef, Op, Plan,
    Shape,
};
use std::any::Any;
use std::time::{Duration, Instant};

/// The name of the library's own choice.
pub const AUTO: &str = "gemmite";

/// The library's choice, and every kernel of the table where the row asks for all or `extra` names
/// it, there also as `NAME/PARTS`, with K in so many parts; and so many `plans`, those that are
/// predicted to be the fastest.
pub fn entrants<'a, T: Element>(
    gpu: &'a Gpu,
    operands: &'a Operands,
    case: &'a Case<T>,
    extra: &[String],
    plans: usize,
) -> Vec<Entrant<'a, T>> {
    let mut extra = extra.to_vec();
    for name in other_plans(gpu, case, plans) {
        if !extra.contains(&name) {
            extra.push(name);
        }
    }
    let variants = gemm_spec::variants().filter(|name| {
        let has = gemm_spec::Kernel::find_in(name, T::DTYPE, case.row.precision).is_some();
        (case.row.kernels == Kernels::All && has) || extra.iter().any(|e| e == name)
    });
    let scaled = gemm_spec::scaled(T::DTYPE).filter(|kernel| {
        case.row.kernels == Kernels::All || extra.iter().any(|name| name == kernel.variant)
    });
    let scaled = scaled.map(|kernel| {
        let candidate = scaled_on_gpu(gpu, operands, case, kernel)
            .map_err(|error| Absence::unsupported(error.to_string()));
        let (name, note) = (kernel.variant.to_owned(), kernel.name.to_owned());
        Entrant { name, side: Side::Ours, note, candidate }
    });
    let split = extra.iter().filter(|name| name.contains('/')).cloned();
    let choice = |name: String| (KernelChoice::from(name.as_str()), name);
    let choices = variants.map(str::to_owned).chain(split).map(choice);
    std::iter::once((KernelChoice::Auto, AUTO.to_owned()))
        .chain(choices)
        .map(|(choice, name)| {
            let gemm = gemm(case).kernel(choice);
            let (kernel, candidate) = match plan(&gemm, &gpu.device, &case.row) {
                Ok(plan) => {
                    let kernel = named(&plan, |kernel| kernel.name);
                    (kernel, Ok(on_gpu(gpu, operands, case, gemm)))
                }
                Err(error) => (String::new(), Err(Absence::unsupported(error.to_string()))),
            };
            Entrant { name, side: Side::Ours, note: kernel, candidate }
        })
        .chain(scaled)
        .collect()
}

/// The product with scales for blocks of 128, all 1, so that it is the row's; those of A lie side
/// by side for rows that do.
fn scaled_on_gpu<'a, T: Element>(
    gpu: &'a Gpu,
    operands: &'a Operands,
    case: &'a Case<T>,
    kernel: &'static gemm_spec::Kernel,
) -> Result<Box<dyn Candidate<T> + 'a>> {
    let Row { m, n, k, op_a, op_b, batch, epilogue, .. } = case.row;
    let capability = gpu.device.info().compute_capability.unwrap_or_default();
    anyhow::ensure!(kernel.target.runs_on(capability), "no kernel for this GPU");
    anyhow::ensure!(batch == 1, "one product at a time");
    let blocks = |extent: usize| extent.div_ceil(gemm_spec::SCALE_BLOCK);
    let stored = |op, shape: Shape| if op == Op::None { shape } else { shape.transposed() };
    let a_layout = Layout::col_major(Shape::new(m, blocks(k))).apply(op_a);
    let b_layout = Layout::row_major(stored(op_b, Shape::new(blocks(k), blocks(n))));
    let ones = |layout: &Layout| {
        let len = layout.shape.checked_len().context("larger than any memory")?;
        anyhow::Ok(DeviceBuffer::from_slice(&vec![1.0f32; len])?)
    };
    let (a_scales, b_scales) = (ones(&a_layout)?, ones(&b_layout)?);
    let gemm = Gemm::<F8E4M3>::new().op_a(op_a).op_b(op_b).alpha(epilogue.alpha as f32);
    let gemm = match epilogue.beta {
        Some(beta) => gemm.beta(beta as f32),
        None => gemm,
    };
    let gemm = gemm.block_scaled();
    let layouts = case.row.layouts();
    let launch = move |[a, b, c]: [u64; 3], stream: &cust::stream::Stream| {
        let [of_a, of_b, of_c] = layouts;
        let reads = gpu.reads;
        let operands =
            RawOperands { a, a_layout: of_a, b, b_layout: of_b, c, c_layout: of_c, reads };
        let scales = RawScales {
            a: a_scales.as_device_ptr().as_raw(),
            a_layout,
            b: b_scales.as_device_ptr().as_raw(),
            b_layout,
        };
        // SAFETY: the addresses are those of buffers with the row's layouts on this device, whose
        // elements are F8E4M3, and of the scales, which this closure keeps; all outlive the
        // stream's work, which the caller waits for.
        unsafe { gemm.enqueue_raw(&gpu.device, stream, operands, scales)? };
        Ok(())
    };
    Ok(Box::new(GpuWork::new(gpu, operands, case, Box::new(launch))))
}

fn gemm<T: Element>(case: &Case<T>) -> Gemm<T> {
    let gemm = Gemm::new().op_a(case.row.op_a).op_b(case.row.op_b).alpha(case.alpha());
    let gemm = gemm.precision(case.row.precision);
    match case.beta() {
        Some(beta) => gemm.beta(beta),
        None => gemm,
    }
}

/// The row's products.
fn batch_of(row: &Row) -> Batch {
    let [a, b, c] = row.batch_strides().map(|elements| elements as isize);
    Batch { count: row.batch, a, b, c }
}

/// The names of so many plans beside the library's choice, the fastest first as they are predicted;
/// none of a product that has none.
fn other_plans<T: Element>(gpu: &Gpu, case: &Case<T>, count: usize) -> Vec<String> {
    let (gemm, row) = (gemm(case), &case.row);
    let [a, b, _] = row.layouts();
    let (true, Ok(choice)) = (count > 0, plan(&gemm, &gpu.device, row)) else {
        return Vec::new();
    };
    let plans = gemm.plans_batch(gpu.device.info(), a, b, batch_of(row)).unwrap_or_default();
    let variant = |plan: &Plan| named(plan, |kernel| kernel.variant);
    let choice = variant(&choice);
    // Plans that differ by what is copied have one name.
    let mut names: Vec<String> = Vec::new();
    for name in plans.iter().map(variant) {
        if name != choice && !names.contains(&name) {
            names.push(name);
        }
    }
    names.truncate(count);
    names
}

/// What a product on the device would be computed by.
fn plan<T: Element>(gemm: &Gemm<T>, device: &Device, row: &Row) -> Result<Plan> {
    let [a, b, _] = row.layouts();
    if row.epilogue.is_fused() {
        return with_epilogue!(T::DTYPE, E => {
            Ok(of_dtype::<T, E>(gemm)?.fused(fused(row, 0)).plan_on(device, a, b)?)
        });
    }
    Ok(match batch_of(row) {
        Batch { count: 1, .. } => gemm.plan_on(device, a, b)?,
        batch => gemm.plan_batch(device.info(), a, b, batch)?,
    })
}

/// A row's bias, at that address, and activation.
fn fused(row: &Row, bias: u64) -> RawEpilogue {
    let epilogue = RawEpilogue::new().activation(row.epilogue.activation);
    match row.epilogue.bias {
        true => {
            let layout = Layout::row_major(Shape::new(1, row.n));
            epilogue.bias(RawMatrix { address: bias, layout })
        }
        false => epilogue,
    }
}

/// A product of `T` as one of `E`, which is the same.
fn of_dtype<T: Element, E: Element>(gemm: &Gemm<T>) -> Result<&Gemm<E>> {
    (gemm as &dyn Any).downcast_ref::<Gemm<E>>().context("a product of its own dtype")
}

/// A plan by a name of its kernel, with its parts of K.
fn named(plan: &Plan, name: fn(&gemm_spec::Kernel) -> &'static str) -> String {
    let name = plan.kernel.map_or("CPU engine", name);
    if plan.parts > 1 { format!("{name}/{}", plan.parts) } else { name.to_owned() }
}

/// A product on the GPU, by that choice.
pub(crate) fn on_gpu<'a, T: Element>(
    gpu: &'a Gpu,
    operands: &'a Operands,
    case: &'a Case<T>,
    gemm: Gemm<T>,
) -> Box<dyn Candidate<T> + 'a> {
    let [a_layout, b_layout, c_layout] = case.row.layouts();
    let batch = batch_of(&case.row);
    let is_fused = case.row.epilogue.is_fused();
    let epilogue = fused(&case.row, operands.bias());
    Box::new(GpuWork::new(
        gpu,
        operands,
        case,
        Box::new(move |[a, b, c], stream| {
            let reads = gpu.reads;
            let operands = RawOperands { a, a_layout, b, b_layout, c, c_layout, reads };
            // SAFETY: the addresses are those of buffers with the row's layouts on this device, for
            // all products of the batch, and outlive the stream's work, which the caller waits for.
            unsafe {
                if !is_fused {
                    return Ok(gemm.enqueue_raw_batch(&gpu.device, stream, operands, batch)?);
                }
                // Rows with an epilogue have one product.
                with_epilogue!(T::DTYPE, E => {
                    let gemm = of_dtype::<T, E>(&gemm)?.fused(epilogue.clone());
                    Ok(gemm.enqueue_raw(&gpu.device, stream, operands)?)
                })
            }
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
