//! Products of host data on a device with memory of its own: copies there and back.

mod panels;

use crate::backend::{Each, HostOperands, Memory};
use crate::device::DeviceInfo;
use crate::error::{Error, Kind};
use crate::plan::{Fusion, KernelChoice, Product, SOURCES, Task, Transfer, choose, span, transfer};
use crate::streaming::{Progress, Streaming};
use bytemuck::Pod;
use gemm_spec::{DType, Layout, Shape};

/// A device with memory of its own.
pub(crate) trait Stage {
    /// A piece of its memory.
    type Memory: Memory;

    /// Its facts.
    fn device_info(&self) -> &DeviceInfo;

    /// Bytes of its memory that are free, if it says.
    fn free_memory(&self) -> Option<usize>;

    /// Runs `work` on this thread, which may be another than the caller's.
    fn within<R>(&self, work: impl FnOnce() -> Result<R, Error>) -> Result<R, Error> {
        work()
    }

    /// Memory of `bytes` bytes, whose contents are unspecified, at a multiple of 256.
    fn new_memory(&self, bytes: usize) -> Result<Self::Memory, Error>;

    /// Multiplies memory of this device, to the end.
    fn run(
        &self,
        product: &Product,
        kernel: &KernelChoice,
        operands: Each<&Self::Memory>,
    ) -> Result<(), Error>;
}

/// Copies what the product reads to the device, multiplies there, and copies C's elements back;
/// panel by panel where the device has not memory enough.
///
/// # Safety
/// The product's layouts are valid for the pointers, as [`HostOperands`] says.
pub(crate) unsafe fn multiply_host<S: Stage + Sync>(
    device: &S,
    product: &Product,
    kernel: &KernelChoice,
    operands: &HostOperands,
    streaming: &Streaming<'_>,
) -> Result<(), Error> {
    let (dtype, shape) = (product.dtype, product.shape());
    check_choice(device.device_info(), product, kernel)?;
    if shape.is_empty() {
        streaming.say(Progress { done: 1, all: 1 });
        return Ok(());
    }
    let limit = streaming.limit(device.free_memory());
    let is_large = limit.is_some_and(|limit| panels::bytes(product).is_none_or(|of| of > limit));
    // An epilogue knows rows and columns of the whole C.
    let has_epilogue = !product.fusion.is_none() || matches!(kernel, KernelChoice::Own(_));
    if let (Some(limit), true) = (limit, is_large && product.k > 0 && !has_epilogue) {
        // SAFETY: the caller's promise.
        match unsafe { panels::multiply(device, product, kernel, operands, (limit, streaming)) } {
            Some(done) => return done,
            None if streaming.is_limited() => {
                let (place, wanted) = (device.device_info().name.clone(), limit);
                return Err(Error::new(Kind::PanelMemory { place, limit: wanted, shape }));
            }
            // The device may have more than half of it.
            None => {}
        }
    }
    let mut staged = *product;
    let (a, b);
    // SAFETY: the caller's promise; A and B are read if k is not 0.
    unsafe {
        (a, b) = if product.k > 0 {
            let (a, a_layout) = copy_in(device, dtype, operands.a, &product.a)?;
            let (b, b_layout) = copy_in(device, dtype, operands.b, &product.b)?;
            (staged.a, staged.b) = (a_layout, b_layout);
            (a, b)
        } else {
            (device.new_memory(0)?, device.new_memory(0)?)
        };
        multiply_staged(device, &staged, kernel, operands, [&a, &b])?;
    }
    streaming.say(Progress { done: 1, all: 1 });
    Ok(())
}

/// Checks, before any copy, that the choice runs on operands as they lie when they have travelled:
/// one that does not shall not cost a copy.
fn check_choice(info: &DeviceInfo, product: &Product, kernel: &KernelChoice) -> Result<(), Error> {
    let travelled = |layout: &Layout| match product.k {
        0 => Ok(*layout),
        _ => fitting(product.dtype, layout).map(|transfer| transfer.copy),
    };
    let (a, b) = (travelled(&product.a)?, travelled(&product.b)?);
    let c = fitting(product.output, &product.c)?.copy;
    let on_device = Product { a, b, c, ..*product };
    let turned = on_device.is_taken_turned(kernel, info);
    choose(kernel, &Task::turned_if(turned, &on_device), info).map(drop)
}

/// The same with A and B on the device already, where `product` has them.
///
/// # Safety
/// As [`multiply_host`], for C and the epilogue.
unsafe fn multiply_staged<S: Stage>(
    device: &S,
    product: &Product,
    kernel: &KernelChoice,
    operands: &HostOperands,
    [a, b]: [&S::Memory; 2],
) -> Result<(), Error> {
    let mut staged = *product;
    let c;
    // SAFETY: the caller's promise; C is read if there is a beta.
    unsafe {
        let dtype = product.output;
        let Transfer { dense, len, source, copy } = fitting(dtype, &product.c)?;
        let bytes = len * dtype.size_bytes();
        (c, staged.c) = if product.beta.is_some() {
            copy_in(device, dtype, operands.c, &product.c)?
        } else {
            (device.new_memory(bytes)?, copy)
        };
        let sources = Sources::copy_in(device, product, operands)?;
        staged.fusion.sources = sources.layouts;
        let amax = operands.amax.map(|amax| copy_in(device, DType::F32, amax, &ONE)).transpose()?;
        let (amax, sources) = (amax.map(|(memory, _)| memory), &sources.memory);
        let amax = amax.as_ref();
        let sources = sources.each_ref().map(Option::as_ref);
        device.run(&staged, kernel, Each { a, b, c: &c, sources, amax })?;
        if let (Some(memory), Some(to)) = (amax, operands.amax) {
            memory.read(0, std::slice::from_raw_parts_mut(to, size_of::<f32>()))?;
        }
        if dense {
            let first = span(&source).0 * dtype.size_bytes();
            c.read(0, std::slice::from_raw_parts_mut(operands.c.add(first), bytes))
        } else {
            let mut packed = bytes_of(bytes)?;
            c.read(0, &mut packed)?;
            scatter(dtype, &packed, operands.c, &source);
            Ok(())
        }
    }
}

/// The layout of amax.
const ONE: Layout = Layout::row_major(Shape::new(1, 1));

/// What an epilogue reads, on the device.
struct Sources<M> {
    memory: [Option<M>; SOURCES],
    layouts: [Option<Layout>; SOURCES],
}

impl<M: Memory> Sources<M> {
    /// # Safety
    /// As [`multiply_host`].
    unsafe fn copy_in<S: Stage<Memory = M>>(
        device: &S,
        product: &Product,
        operands: &HostOperands,
    ) -> Result<Self, Error> {
        let mut sources = Sources { memory: [const { None }; SOURCES], layouts: [None; SOURCES] };
        for (i, dtype) in Fusion::dtypes(product.output).into_iter().enumerate() {
            if let (Some(layout), Some(data)) = (&product.fusion.sources[i], operands.sources[i]) {
                // SAFETY: the caller's promise.
                let (memory, layout) = unsafe { copy_in(device, dtype, data, layout)? };
                (sources.memory[i], sources.layouts[i]) = (Some(memory), Some(layout));
            }
        }
        Ok(sources)
    }
}

/// Copies what the product needs of a host matrix to the device; the layout is the one there.
///
/// # Safety
/// Every element of the layout from `data` is valid to read, and aligned for the dtype.
unsafe fn copy_in<S: Stage>(
    device: &S,
    dtype: DType,
    data: *const u8,
    layout: &Layout,
) -> Result<(S::Memory, Layout), Error> {
    let Transfer { source, dense, len, copy } = fitting(dtype, layout)?;
    let bytes = len * dtype.size_bytes();
    let mut memory = device.new_memory(bytes)?;
    // SAFETY: the source's elements are the layout's, and side by side where it is dense.
    unsafe {
        if dense {
            let first = span(&source).0 * dtype.size_bytes();
            memory.write(0, std::slice::from_raw_parts(data.add(first), bytes))?;
        } else {
            memory.write(0, &gather(dtype, data, &source)?)?;
        }
    }
    Ok((memory, copy))
}

/// How a matrix travels, if its bytes fit into the address space.
fn fitting(dtype: DType, layout: &Layout) -> Result<Transfer, Error> {
    let fits = |transfer: &Transfer| {
        let bytes = transfer.len.checked_mul(dtype.size_bytes());
        bytes.is_some_and(|bytes| isize::try_from(bytes).is_ok())
    };
    transfer(layout)
        .filter(fits)
        .ok_or_else(|| Error::new(Kind::TooLarge { shape: layout.shape, dtype }))
}

/// Zeroed bytes on the host, aligned for every dtype by the allocator's rule for large blocks or by
/// the caller's use.
fn bytes_of(len: usize) -> Result<Vec<u8>, Error> {
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(len).map_err(|_| {
        Error::new(Kind::OutOfMemory { place: "the host".into(), wanted: len, free: None })
    })?;
    bytes.resize(len, 0);
    Ok(bytes)
}

/// The layout's elements, row by row.
///
/// # Safety
/// Every element of the layout from `data` is valid to read, and aligned for the dtype.
unsafe fn gather(dtype: DType, data: *const u8, layout: &Layout) -> Result<Vec<u8>, Error> {
    // `transfer` has checked the product.
    let mut packed = bytes_of(layout.shape.rows * layout.shape.cols * dtype.size_bytes())?;
    // SAFETY: the caller's promise, for a type of the dtype's size.
    unsafe {
        match dtype.size_bytes() {
            1 => gather_as::<u8>(data, layout, &mut packed),
            2 => gather_as::<u16>(data.cast(), layout, &mut packed),
            4 => gather_as::<u32>(data.cast(), layout, &mut packed),
            _ => gather_as::<u64>(data.cast(), layout, &mut packed),
        }
    }
    Ok(packed)
}

/// # Safety
/// Every element of the layout from `data` is valid to read.
unsafe fn gather_as<W: Pod>(data: *const W, layout: &Layout, packed: &mut [u8]) {
    let cols = layout.shape.cols;
    for (index, bytes) in packed.chunks_exact_mut(size_of::<W>()).enumerate() {
        // SAFETY: the place lies in the layout's shape.
        let word = unsafe { *data.add(layout.index(index / cols, index % cols)) };
        bytes.copy_from_slice(bytemuck::bytes_of(&word));
    }
}

/// Writes packed elements, row by row, to their places, and to nothing between them.
///
/// # Safety
/// Every element of the layout from `data` is valid to write, and aligned for the dtype.
unsafe fn scatter(dtype: DType, packed: &[u8], data: *mut u8, layout: &Layout) {
    // SAFETY: the caller's promise, for a type of the dtype's size.
    unsafe {
        match dtype.size_bytes() {
            1 => scatter_as::<u8>(packed, data, layout),
            2 => scatter_as::<u16>(packed, data.cast(), layout),
            4 => scatter_as::<u32>(packed, data.cast(), layout),
            _ => scatter_as::<u64>(packed, data.cast(), layout),
        }
    }
}

/// # Safety
/// Every element of the layout from `data` is valid to write.
unsafe fn scatter_as<W: Pod>(packed: &[u8], data: *mut W, layout: &Layout) {
    let cols = layout.shape.cols;
    for (index, bytes) in packed.chunks_exact(size_of::<W>()).enumerate() {
        let word = bytemuck::pod_read_unaligned(bytes);
        // SAFETY: the place lies in the layout's shape.
        unsafe { *data.add(layout.index(index / cols, index % cols)) = word };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gemm_spec::Strides;

    #[test]
    fn scatter_undoes_gather_and_leaves_the_rest() {
        let layout = Layout { shape: Shape::new(2, 3), strides: Strides::new(-7, 2), offset: 8 };
        let data: Vec<u32> = (0..20).collect();
        let mut copy = vec![99u32; 20];
        // SAFETY: the layout's indices are 1 to 12, within both vectors.
        unsafe {
            let packed = gather(DType::F32, data.as_ptr().cast(), &layout).unwrap();
            scatter(DType::F32, &packed, copy.as_mut_ptr().cast(), &layout);
        }
        let places = [8, 10, 12, 1, 3, 5];
        for (index, &value) in copy.iter().enumerate() {
            assert_eq!(value, if places.contains(&index) { data[index] } else { 99 });
        }
    }
}
