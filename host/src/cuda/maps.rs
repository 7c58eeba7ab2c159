//! The tensor maps of a product's operands.

use super::tensor_map::{L2Promotion, TensorElement, TensorLayout, TensorMap, TensorSwizzle};
use crate::element::Element;
use crate::error::Error;
use crate::plan::{Product, mappable};
use gemm_spec::{DType, Layout, Op};
use std::ffi::c_void;

/// Maps of A, B and C for one launch; C's is A's, and not used, where none can describe it.
#[derive(Debug)]
pub(super) struct TensorMaps([TensorMap; 3]);

impl TensorMaps {
    /// Maps of the operands, whose first elements lie at `addresses`, in boxes as the
    /// kernels copy them: 64 rows of 128 bytes, swizzled.
    pub(super) fn new<T: Element>(
        product: &Product,
        [a, b, c]: [u64; 3],
    ) -> Result<TensorMaps, Error> {
        let Product { a: a_layout, b: b_layout, c: c_layout, .. } = product;
        let map_a = operand_map(T::DTYPE, a_layout, a)?;
        let map_b = operand_map(T::DTYPE, &b_layout.apply(Op::Transpose), b)?;
        let map_c = match mappable(c_layout, T::Output::DTYPE, c) && c_layout.strides.col == 1 {
            true => encode(T::Output::DTYPE, c_layout, c)?,
            false => map_a,
        };
        Ok(TensorMaps([map_a, map_b, map_c]))
    }

    /// Pointers to the three, for a launch.
    pub(super) fn arguments(&mut self) -> [*mut c_void; 3] {
        self.0.each_mut().map(|map| (&raw mut *map).cast())
    }
}

/// The map of an operand of (outer, k), whose rows are the extent that is contiguous.
fn operand_map(dtype: DType, layout: &Layout, address: u64) -> Result<TensorMap, Error> {
    match layout.strides.col == 1 && layout.strides.row != 1 {
        true => encode(dtype, layout, address),
        false => encode(dtype, &layout.apply(Op::Transpose), address),
    }
}

/// The map of a matrix with contiguous rows, in boxes of 64 rows of 128 bytes.
fn encode(dtype: DType, layout: &Layout, address: u64) -> Result<TensorMap, Error> {
    let element = match dtype {
        DType::F16 => TensorElement::F16,
        DType::BF16 => TensorElement::Bf16,
        DType::F32 => TensorElement::F32,
        DType::F64 => TensorElement::F64,
        DType::I32 => TensorElement::I32,
        DType::I8 => TensorElement::U8,
    };
    let Layout { shape, strides, .. } = *layout;
    let bytes = dtype.size_bytes() as u64;
    let sizes = [shape.cols as u64, shape.rows as u64];
    TensorLayout::new(element, &sizes, &[(128 / bytes) as u32, 64])
        .strides(&[strides.row as u64 * bytes])
        .swizzle(TensorSwizzle::B128)
        .promotion(L2Promotion::B256)
        .encode(address)
}
