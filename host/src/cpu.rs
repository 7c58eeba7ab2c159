//! The CPU engine.
//!
//! f32 and f64 go to the crate `gemm`, whole. The other dtypes, and tf32, are cut into tiles of C,
//! one task each: a task packs blocks of A and B in the type of the sums, multiplies them (f32: the
//! crate `gemm`; i32: [`int`]), and rounds each element of C once at the end. (The crate's own f16
//! product rounds to f16 after every block of k.) Where rows must not depend on how many there are,
//! all are, and blocks are multiplied row by row ([`rows`]).

mod finish;
mod int;
mod rows;
mod scaled;
mod tiles;

pub(crate) use finish::activate_f64;

use crate::backend::{Backend, HostOperands, Memory, Operands, Queue};
use crate::device::{DeviceInfo, DeviceKind};
use crate::element::{Element, OutputOf, Scalar};
use crate::error::{Error, Kind, Operand};
use crate::plan::{Fusion, KernelChoice, Product, RowsProduct, SOURCES, ScaledProduct};
use crate::streaming::{Progress, Streaming};
use crate::{bf16, f16, with_elements};
use gemm_spec::{DType, Layout, Precision, Shape, Strides};
use std::any::Any;
use std::sync::{Arc, OnceLock};

#[derive(Debug)]
pub(crate) struct CpuBackend {
    info: DeviceInfo,
}

impl CpuBackend {
    /// The one CPU.
    pub(crate) fn shared() -> Arc<dyn Backend> {
        static CPU: OnceLock<Arc<CpuBackend>> = OnceLock::new();
        let cpu = CPU.get_or_init(|| {
            let threads = std::thread::available_parallelism().map_or(1, usize::from);
            let plural = if threads == 1 { "" } else { "s" };
            Arc::new(CpuBackend {
                info: DeviceInfo {
                    name: format!("CPU, {threads} thread{plural}"),
                    kind: DeviceKind::Cpu,
                    compute_capability: None,
                    total_memory: None,
                    memory_bandwidth: None,
                    l2_cache: None,
                    shared_memory_per_block: None,
                    shared_memory_per_block_optin: None,
                    multiprocessors: None,
                    clusters_of_eight: None,
                    driver_version: None,
                    launch_limits: None,
                },
            })
        });
        Arc::<CpuBackend>::clone(cpu)
    }
}

impl Backend for CpuBackend {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn allocate(&self, bytes: usize) -> Result<Box<dyn Memory>, Error> {
        let words = bytes.div_ceil(size_of::<u64>());
        let mut data = Vec::new();
        data.try_reserve_exact(words).map_err(|_| {
            Error::new(Kind::OutOfMemory { place: "the host".into(), wanted: bytes, free: None })
        })?;
        data.resize(words, 0);
        Ok(Box::new(HostMemory { data, bytes }))
    }

    fn queue(&self) -> Result<Box<dyn Queue>, Error> {
        Ok(Box::new(Immediate))
    }

    unsafe fn multiply_host(
        &self,
        product: &Product,
        kernel: &KernelChoice,
        operands: &HostOperands,
        streaming: &Streaming<'_>,
    ) -> Result<(), Error> {
        check_choice(kernel)?;
        let count = if product.c.shape.is_empty() { 0 } else { product.batch.count };
        for number in 0..count {
            // SAFETY: the caller vouches for the operands, and C is not empty.
            unsafe { multiply(&product.at_number(number), operands) };
        }
        streaming.say(Progress { done: 1, all: 1 });
        Ok(())
    }

    fn multiply(
        &self,
        queue: Option<&dyn Queue>,
        product: &Product,
        kernel: &KernelChoice,
        operands: Operands<'_>,
    ) -> Result<(), Error> {
        let operands = self.host_operands(queue, operands)?;
        // SAFETY: a `DeviceMatrix` keeps its layout inside its memory; C and amax are borrowed
        // exclusively.
        unsafe { self.multiply_host(product, kernel, &operands, &Streaming::new()) }
    }

    fn multiply_scaled(
        &self,
        queue: Option<&dyn Queue>,
        scaled: &ScaledProduct,
        kernel: &KernelChoice,
        operands: Operands<'_>,
        [a_scales, b_scales]: [&dyn Memory; 2],
    ) -> Result<(), Error> {
        check_choice(kernel)?;
        let operands = self.host_operands(queue, operands)?;
        let a_scales = self.host(a_scales, Operand::A)?.as_bytes().as_ptr();
        let b_scales = self.host(b_scales, Operand::B)?.as_bytes().as_ptr();
        let product = &scaled.product;
        if product.k == 0 || product.c.shape.is_empty() {
            // SAFETY: as above.
            return unsafe { self.multiply_host(product, kernel, &operands, &Streaming::new()) };
        }
        let HostOperands { a, b, c, .. } = operands;
        let sources = scaled::Sources {
            a: a.cast(),
            b: b.cast(),
            a_scales: a_scales.cast(),
            b_scales: b_scales.cast(),
        };
        // SAFETY: as above, for the scales as for A and B; memory is aligned for every dtype.
        unsafe {
            match product.output {
                DType::BF16 => scaled::multiply::<bf16>(scaled, sources, c.cast()),
                DType::F16 => scaled::multiply::<f16>(scaled, sources, c.cast()),
                DType::F32 => scaled::multiply::<f32>(scaled, sources, c.cast()),
                _ => unreachable!("{NO_PRODUCT}"),
            }
        }
        Ok(())
    }

    fn multiply_grouped(
        &self,
        queue: Option<&dyn Queue>,
        products: &[Product],
        kernel: &KernelChoice,
        operands: Vec<Operands<'_>>,
    ) -> Result<(), Error> {
        for (number, (product, operands)) in products.iter().zip(operands).enumerate() {
            let done = self.multiply(queue, product, kernel, operands);
            done.map_err(|error| error.of_product(number))?;
        }
        Ok(())
    }

    fn multiply_rows(
        &self,
        queue: Option<&dyn Queue>,
        rows: &RowsProduct,
        kernel: &KernelChoice,
        operands: Operands<'_>,
        offsets: &dyn Memory,
    ) -> Result<(), Error> {
        check_choice(kernel)?;
        let operands = self.host_operands(queue, operands)?;
        let offsets = self.host(offsets, Operand::Offsets)?.as_bytes();
        let offsets: &[i32] = bytemuck::cast_slice(offsets);
        for product in rows.products(&offsets[rows.first_offset..]) {
            // SAFETY: as above; rows of a product are rows of A and C.
            unsafe { self.multiply_host(&product, kernel, &operands, &Streaming::new())? };
        }
        Ok(())
    }
}

impl CpuBackend {
    fn foreign(&self, operand: Operand) -> Error {
        Error::new(Kind::DifferentDevices { operand, expected: self.info.name.clone() })
    }

    fn host<'a>(&self, memory: &'a dyn Memory, operand: Operand) -> Result<&'a HostMemory, Error> {
        (memory as &dyn Any).downcast_ref::<HostMemory>().ok_or_else(|| self.foreign(operand))
    }

    /// Where the operands lie; an error for a queue or for memory of another device.
    fn host_operands(
        &self,
        queue: Option<&dyn Queue>,
        operands: Operands<'_>,
    ) -> Result<HostOperands, Error> {
        if queue.is_some_and(|queue| !(queue as &dyn Any).is::<Immediate>()) {
            return Err(Error::new(Kind::ForeignStream { expected: self.info.name.clone() }));
        }
        let read = |memory, operand| {
            Ok::<_, Error>(self.host(memory, operand)?.as_bytes().as_ptr().cast_mut())
        };
        let written = |memory, operand| {
            let memory = (memory as &mut dyn Any).downcast_mut::<HostMemory>();
            let memory = memory.ok_or_else(|| self.foreign(operand))?;
            Ok::<_, Error>(memory.as_mut_bytes().as_mut_ptr())
        };
        let Operands { a, b, c, sources, amax } = operands;
        let mut operands = HostOperands {
            a: read(a, Operand::A)?,
            b: read(b, Operand::B)?,
            c: written(c, Operand::C)?,
            sources: [None; SOURCES],
            amax: amax.map(|amax| written(amax, Operand::Amax)).transpose()?,
        };
        for (i, source) in sources.into_iter().enumerate() {
            operands.sources[i] =
                source.map(|source| read(source, Fusion::NAMES[i])).transpose()?;
        }
        Ok(operands)
    }
}

/// An error for a kernel, of which the CPU has none.
fn check_choice(kernel: &KernelChoice) -> Result<(), Error> {
    let name = match kernel {
        KernelChoice::Auto => return Ok(()),
        KernelChoice::Named(name) => name.clone(),
        KernelChoice::Split { variant, .. } | KernelChoice::Planned { variant, .. } => {
            variant.clone()
        }
        KernelChoice::Spec(kernel) => kernel.variant.to_string(),
        KernelChoice::Own(own) => own.kernel().name.to_string(),
    };
    Err(Error::new(Kind::KernelOnCpu { name }))
}

/// Host memory, aligned for every dtype.
#[derive(Debug)]
struct HostMemory {
    data: Vec<u64>,
    bytes: usize,
}

impl HostMemory {
    fn as_bytes(&self) -> &[u8] {
        &bytemuck::cast_slice(&self.data)[..self.bytes]
    }

    fn as_mut_bytes(&mut self) -> &mut [u8] {
        &mut bytemuck::cast_slice_mut(&mut self.data)[..self.bytes]
    }
}

impl Memory for HostMemory {
    fn bytes(&self) -> usize {
        self.bytes
    }

    fn device_address(&self) -> Option<u64> {
        None
    }

    fn write(&mut self, at: usize, data: &[u8]) -> Result<(), Error> {
        self.as_mut_bytes()[at..at + data.len()].copy_from_slice(data);
        Ok(())
    }

    fn read(&self, at: usize, data: &mut [u8]) -> Result<(), Error> {
        data.copy_from_slice(&self.as_bytes()[at..at + data.len()]);
        Ok(())
    }

    fn clear(&mut self) -> Result<(), Error> {
        self.data.fill(0);
        Ok(())
    }
}

/// The CPU's queue: work is done before `enqueue` returns.
#[derive(Debug)]
struct Immediate;

impl Queue for Immediate {
    fn synchronize(&self) -> Result<(), Error> {
        Ok(())
    }
}

/// The product; C is not empty.
///
/// # Safety
/// As [`HostOperands`] says.
unsafe fn multiply(product: &Product, operands: &HostOperands) {
    // SAFETY: the caller's promise, for the dtypes that the product has.
    unsafe {
        match product.dtype {
            dtype if product.k == 0 && product.fusion.is_none() => {
                with_elements!(dtype, product.output, (T, C) => {
                scale::<T, C>(product, operands.c.cast());
            }, else => unreachable!("{NO_PRODUCT}"))
            }
            // The crate's order of summation goes by all three extents.
            dtype if product.batch_invariant => with_elements!(dtype, product.output, (T, C) => {
                tiles::multiply::<T, C>(product, operands);
            }, else => unreachable!("{NO_PRODUCT}")),
            DType::F32 if product.precision != Precision::Tf32 && product.fusion.is_none() => {
                whole::<f32>(product, operands)
            }
            DType::F64 => whole::<f64>(product, operands),
            dtype => with_elements!(dtype, product.output, (T, C) => {
                tiles::multiply::<T, C>(product, operands);
            }, else => unreachable!("{NO_PRODUCT}")),
        }
    }
}

/// What [`Product::new`] does not make.
const NO_PRODUCT: &str = "a product is made of types that go together";

/// C = beta * C, or 0 where there is no beta.
///
/// # Safety
/// Every element of C's layout from `c` is valid to read and write.
unsafe fn scale<T: Element, C: OutputOf<T>>(product: &Product, c: *mut C) {
    let beta = product.beta.map(|beta| beta.get::<C::Scalar>());
    for i in 0..product.c.shape.rows {
        for j in 0..product.c.shape.cols {
            // SAFETY: (i, j) is an element of the layout.
            unsafe {
                let element = c.add(product.c.index(i, j));
                *element = match beta {
                    Some(beta) => C::narrow(beta.times((*element).widen())),
                    None => C::default(),
                };
            }
        }
    }
}

/// The product by the crate `gemm`, for the dtypes that are their own sums.
///
/// # Safety
/// As [`HostOperands`] says; T is f32 or f64, and no extent is 0.
unsafe fn whole<T: Scalar + OutputOf<T>>(product: &Product, operands: &HostOperands) {
    let (a, b, c) = (operands.a.cast::<T>(), operands.b.cast::<T>(), operands.c.cast::<T>());
    let Product { a: a_layout, b: b_layout, c: c_layout, k, .. } = *product;
    let alpha = product.alpha.get::<T>();
    if alpha != T::ONE && (k <= 2 || c_layout.shape.rows == 1 || c_layout.shape.cols == 1) {
        // For these shapes the crate multiplies alpha into an operand, which may overflow where the
        // product does not.
        // SAFETY: the caller's promise.
        return unsafe { tiles::multiply::<T, T>(product, operands) };
    }
    // Strides of extents of 1 lead nowhere, and the crate computes with them.
    let strides = |layout: &Layout| {
        let Layout { shape: Shape { rows, cols }, strides: Strides { row, col }, .. } = *layout;
        let of = |extent: usize, stride: isize| if extent == 1 { 1 } else { stride };
        [of(cols, col), of(rows, row)]
    };
    let [a_strides, b_strides, c_strides] = [a_layout, b_layout, c_layout].each_ref().map(strides);
    // SAFETY: the caller's promise is the crate's condition: every element is valid to read, C's to
    // write and apart. It has engines for f32 and f64.
    unsafe {
        ::gemm::gemm(
            c_layout.shape.rows,
            c_layout.shape.cols,
            k,
            c.add(c_layout.offset),
            c_strides[0],
            c_strides[1],
            product.beta.is_some(),
            a.add(a_layout.offset),
            a_strides[0],
            a_strides[1],
            b.add(b_layout.offset),
            b_strides[0],
            b_strides[1],
            product.beta.map_or(T::ZERO, |beta| beta.get()),
            alpha,
            false,
            false,
            false,
            ::gemm::Parallelism::Rayon(0),
        );
    }
}

#[cfg(test)]
mod tests;
