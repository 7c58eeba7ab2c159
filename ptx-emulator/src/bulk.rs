//! What the copy engine and the tensor cores do with addresses: tensor maps, boxes, swizzles, bulk
//! copies, reductions and matrix descriptors.
//!
//! Pure: addresses in, runs of addresses out; nothing here touches memory. (PTX ISA, "Tensors" and
//! "Data Movement and Conversion Instructions: Asynchronous copy"; CUDA driver API,
//! `cuTensorMapEncodeTiled`.)

mod copy;
mod descriptor;
mod encode;
#[cfg(test)]
mod read_back;
mod reduce;
mod tensor_map;
mod tile;

pub use copy::{BulkCopyError, check_bulk_copy};
pub use descriptor::{DescriptorError, Major, MatrixDescriptor, OperandShape};
pub use encode::NotATensorMap;
pub use reduce::{ReduceOp, ReduceType, UnsupportedReduction, check_reduction, reduce_bytes};
pub use tensor_map::{
    Fill, Interleave, Promotion, Swizzle, TensorElement, TensorMap, TensorMapError,
};
pub use tile::{BoxError, LoadRun, StoreRun};
