//! The tensor maps of a product's operands.

use super::driver::last_failure;
use crate::element::Element;
use crate::error::{Error, Kind};
use crate::plan::{Product, mappable};
use cust::sys::CUresult;
use gemm_spec::{DType, Kernel, Layout};
use std::ffi::c_void;

/// A `CUtensorMap` of cuda.h: 128 bytes that only the driver reads.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
struct TensorMap([u64; 16]);

/// Maps of A, B and C for one launch; C's is all 0 where none can describe it.
#[derive(Debug)]
pub(super) struct TensorMaps([TensorMap; 3]);

impl TensorMaps {
    /// Maps of the operands, whose first elements lie at `addresses`, in boxes as `kernel` copies
    /// them: rows of 128 bytes, swizzled.
    pub(super) fn new<T: Element>(
        kernel: &Kernel,
        product: &Product,
        [a, b, c]: [u64; 3],
    ) -> Result<TensorMaps, Error> {
        let [rows, cols, depth] = kernel.tiles.block;
        let Product { a: a_layout, b: b_layout, c: c_layout, .. } = product;
        let b_outer = Layout { ..b_layout.apply(gemm_spec::Op::Transpose) };
        // Both as (outer, k). A box has one row of 128 bytes along the extent that is contiguous;
        // along the other one, what a block of the cluster brings of it.
        let map_a = operand_map(T::DTYPE, a_layout, a, rows, depth)?;
        let map_b = operand_map(T::DTYPE, &b_outer, b, cols / kernel.cluster(), depth)?;
        let map_c = match mappable(c_layout, T::Output::DTYPE, c) && c_layout.strides.col == 1 {
            true => encode(T::Output::DTYPE, c_layout, c, kernel.tiles.warp[0])?,
            false => TensorMap([0; 16]),
        };
        Ok(TensorMaps([map_a, map_b, map_c]))
    }

    /// Pointers to the three, for a launch.
    pub(super) fn arguments(&mut self) -> [*mut c_void; 3] {
        self.0.each_mut().map(|map| (&raw mut *map).cast())
    }
}

/// The map of an operand of (outer, k), of which `outer` x `depth` are a tile.
fn operand_map(
    dtype: DType,
    layout: &Layout,
    address: u64,
    outer: usize,
    depth: usize,
) -> Result<TensorMap, Error> {
    match layout.strides.col == 1 && layout.strides.row != 1 {
        true => encode(dtype, layout, address, outer),
        false => encode(dtype, &layout.apply(gemm_spec::Op::Transpose), address, depth),
    }
}

type Encode = unsafe extern "C" fn(
    map: *mut TensorMap,
    dtype: u32,
    rank: u32,
    address: u64,
    extents: *const u64,
    strides: *const u64,
    box_extents: *const u32,
    element_strides: *const u32,
    interleave: u32,
    swizzle: u32,
    promotion: u32,
    fill: u32,
) -> CUresult;

/// The map of a matrix with contiguous rows, in boxes of `rows` rows of 128 bytes.
fn encode(dtype: DType, layout: &Layout, address: u64, rows: usize) -> Result<TensorMap, Error> {
    let missing = || Error::new(Kind::NoTensorMaps);
    let encode = cuda_driver_loader::symbol(c"cuTensorMapEncodeTiled").ok_or_else(missing)?;
    // SAFETY: the function's type as cuda.h declares it.
    let encode: Encode = unsafe { std::mem::transmute(encode) };
    // CUtensorMapDataType of cuda.h.
    let kind = match dtype {
        DType::F16 => 6,
        DType::BF16 => 9,
        _ => return Err(missing()),
    };
    const SWIZZLE_128: u32 = 3;
    const PROMOTE_256: u32 = 3;
    let bytes = dtype.size_bytes();
    let extents = [layout.shape.cols as u64, layout.shape.rows as u64];
    let stride = [(layout.strides.row * bytes as isize) as u64];
    let box_extents = [(128 / bytes) as u32, rows as u32];
    let mut map = TensorMap([0; 16]);
    // SAFETY: arrays of as many numbers as a map of rank 2 has.
    let result = unsafe {
        encode(
            &raw mut map,
            kind,
            2,
            address,
            extents.as_ptr(),
            stride.as_ptr(),
            box_extents.as_ptr(),
            [1, 1].as_ptr(),
            0,
            SWIZZLE_128,
            PROMOTE_256,
            0,
        )
    };
    if result == CUresult::CUDA_SUCCESS {
        return Ok(map);
    }
    let _ = last_failure("cuTensorMapEncodeTiled");
    Err(missing())
}
