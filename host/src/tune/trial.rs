//! Products by which a plan shows that it is right.

use crate::device::{Device, DeviceMatrix};
use crate::element::{Element, OutputOf};
use crate::error::Error;
use crate::gemm::Gemm;
use crate::matrix::MatrixRef;
use crate::plan::{Chosen, KernelChoice, Task};
use crate::verify::{Problem, Rows, check};
use crate::{random, with_elements};
use gemm_spec::{DType, Layout, Shape, Strides};

/// Multiplications of a reference: a tenth of a second or so on two cores.
const AFFORDABLE: usize = 1 << 27;

/// Random operands, here and on the device.
pub(super) struct Trial<T> {
    layouts: [Layout; 2],
    host: [Vec<T>; 2],
    device: [DeviceMatrix<T>; 2],
}

impl<T: Element> Trial<T> {
    /// Operands in buffers that end with them.
    pub fn new(device: &Device, layouts: [Layout; 2]) -> Result<Trial<T>, Error> {
        let fill = |i: usize| {
            let Layout { shape: Shape { rows, cols }, strides, offset } = layouts[i];
            let reach = |extent: usize, stride: isize| {
                let steps = extent.saturating_sub(1);
                steps.saturating_mul(usize::try_from(stride).unwrap_or(0))
            };
            let reach = reach(rows, strides.row).saturating_add(reach(cols, strides.col));
            let len = offset.saturating_add(reach).saturating_add(1);
            Ok::<_, Error>(random::normal::<T>(Shape::new(1, len), i as u64)?.into_vec())
        };
        let host = [fill(0)?, fill(1)?];
        let upload = |i: usize| device.upload_buffer(&host[i], layouts[i]);
        let device = [upload(0)?, upload(1)?];
        Ok(Trial { layouts, host, device })
    }

    /// Multiplies and compares: `Err` inside says what is wrong with the product.
    pub fn run<C: OutputOf<T>>(
        &self,
        device: &Device,
        gemm: &Gemm<T, C>,
    ) -> Result<Result<(), String>, Error> {
        let [a, b] = self.layouts;
        let (product, options) = (gemm.product(a, b)?, gemm.options());
        let shape = product.shape();
        // What is not written shows: NaN, or a number that no sum here reaches.
        let byte = if C::DTYPE == DType::I32 { 0x5a } else { 0xff };
        let poison: C = bytemuck::pod_read_unaligned(&vec![byte; size_of::<C>()]);
        let mut c = device.upload(&crate::Matrix::from_fn(shape, |_, _| poison)?)?;
        gemm.run_device(&self.device[0], &self.device[1], &mut c)?;
        let c = c.download()?;
        let problem = Problem {
            op_a: options.op_a,
            op_b: options.op_b,
            precision: options.precision,
            alpha: options.alpha,
            ..Problem::product(MatrixRef::new(&self.host[0], a)?, MatrixRef::new(&self.host[1], b)?)
        };
        let row = shape.cols.saturating_mul(product.k).max(1);
        let rows = Rows::drawn((AFFORDABLE / row).max(6));
        Ok(check(&problem, c.view(), rows).map(drop).map_err(|wrong| wrong.to_string()))
    }
}

/// A small product of a task's kind by a choice for it, verified: `Err` inside says what is wrong.
pub(super) fn small(
    device: &Device,
    task: &Task,
    chosen: &Chosen,
) -> Result<Result<(), String>, Error> {
    with_elements!(task.dtype, task.output, (T, C) => {
        small_of::<T, C>(device, task, chosen)
    }, else => Ok(Err(format!("no product of {} is one of {}", task.dtype, task.output))))
}

fn small_of<T: Element, C: OutputOf<T>>(
    device: &Device,
    task: &Task,
    chosen: &Chosen,
) -> Result<Result<(), String>, Error> {
    let ([a, b], shape, k) = layouts(task, chosen);
    let gemm = Gemm::<T>::new().output::<C>().precision(task.precision);
    let choice = KernelChoice::Planned {
        variant: chosen.kernel.variant.into(),
        copied: chosen.copied,
        parts: chosen.parts,
    };
    let (product, turned) = gemm.product(a, b)?.oriented(&choice, device.info());
    let found = Task::of(&product, [0, 0]);
    if turned || found != (Task { shape, k, skew: found.skew, ..*task }) {
        return Ok(Err("no operands lie as it says".into()));
    }
    Trial::<T>::new(device, [a, b])?.run(device, &gemm.kernel(choice))
}

/// Layouts of A and B as the kernel takes them, with fewer tiles and steps, but the same ends of
/// tiles, and as many parts; and C's shape and K.
fn layouts(task: &Task, chosen: &Chosen) -> ([Layout; 2], Shape, usize) {
    let [rows, cols, depth] = chosen.kernel.tiles.block;
    let few = |extent: usize, tile: usize| match extent % tile {
        _ if extent <= 2 * tile => extent,
        0 => 2 * tile,
        rest => tile + rest,
    };
    let [down, across] = chosen.kernel.cluster_tiles();
    let shape = Shape::new(few(task.shape.rows, rows * down), few(task.shape.cols, cols * across));
    // All parts but the last have two steps.
    let last = if task.k.is_multiple_of(depth) { 2 * depth } else { depth + task.k % depth };
    let k = task.k.min((chosen.parts - 1) * 2 * depth + last);
    // Where there is no copy for such elements, nobody has said which of the two it is.
    let unmapped = task.unmapped.unwrap_or([!task.maps; 2]);
    let operand = |i: usize, outer: usize| {
        let contiguous = if task.along_k[i] { k } else { outer };
        let pitch = contiguous.next_multiple_of(16) + usize::from(unmapped[i]);
        match task.along_k[i] {
            true => Strides::new(pitch as isize, 1),
            false => Strides::new(1, pitch as isize),
        }
    };
    let a = Layout::strided(Shape::new(shape.rows, k), operand(0, shape.rows));
    // As the transposed B lies.
    let b = Layout::strided(Shape::new(shape.cols, k), operand(1, shape.cols));
    ([a, b.apply(gemm_spec::Op::Transpose)], shape, k)
}

/// Holds a small product against the task it stands for, without running it.
#[cfg(test)]
pub(super) fn is_alike<T: Element>(
    task: &Task,
    chosen: &Chosen,
    info: &crate::DeviceInfo,
) -> Result<(), String> {
    let ([a, b], shape, k) = layouts(task, chosen);
    let gemm = Gemm::<T>::new().precision(task.precision);
    let product = gemm.product(a, b).map_err(|error| error.to_string())?;
    let (product, turned) = product.oriented(&KernelChoice::Auto, info);
    let found = Task::of(&product, [0, 0]);
    let choice = KernelChoice::Planned {
        variant: chosen.kernel.variant.into(),
        copied: chosen.copied,
        parts: chosen.parts,
    };
    let planned = crate::plan::choose(&choice, &found, info).map_err(|error| error.to_string())?;
    match !turned
        && found == (Task { shape, k, skew: found.skew, ..*task })
        && planned.kernel == chosen.kernel
    {
        true => Ok(()),
        false => Err(format!("{found:?} for {task:?} by {chosen:?}, turned: {turned}")),
    }
}
