//! What host and device share of a matrix product C = alpha * op(A) * op(B) + beta * C.
//!
//! Layouts, dtypes, the kernels' parameter block, launch geometry, the order of blocks, and the one
//! table of kernels. The device crate makes its entry points from the table, the host launches by
//! it, and tests, benches and the README list it. The crate has no dependencies, no `std`, and
//! knows neither a GPU nor a host API.
#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

#[macro_use]
mod elements;

mod boxes;
mod dtype;
mod epilogue;
mod family;
mod kernel;
mod launch;
mod layout;
mod module;
pub mod order;
mod params;
mod places;
mod skinny;
mod split;
mod table;
mod target;
mod warp_group;

pub use boxes::{
    C_BOXES, DIRECT_FURTHER_BYTES, DIRECT_ROWS, box_cols, box_rows, c_boxes, c_row_bytes,
    halves_boxes, is_mappable, shared_box_rows, swapped_box_rows,
};
pub use dtype::{DType, Precision};
pub use epilogue::{Activation, EpilogueParams, Source, UnknownActivation};
pub use family::{KernelFamily, purpose};
pub use kernel::{BRINGERS, Kernel, Stored, ThreadOrder, Tiles};
pub use launch::{Launch, Launches, MAX_GRID_X, MAX_GRID_Y, Placing};
pub use layout::{Layout, LayoutError, Op, Shape, Strides};
pub use module::{EntryText, module_entries, module_head};
pub use params::{
    GROUPED_MAX, GemmParams, GroupedProduct, Reads, RepackParams, SCALE_BLOCK, ScaleParams, Slices,
    Writes, is_along_k,
};
pub use places::Places;
pub use skinny::{LANES as SKINNY_LANES, THREADS as SKINNY_THREADS};
pub use split::{SPLIT, SPLIT_DEPTH, split_cols};
pub use table::{entries, finish, grouped, kernels, of_module, repack, scaled, variants};
pub use target::Target;
