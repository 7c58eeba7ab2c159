//! Tensor cores: fragment layouts, shapes and the arithmetic of `mma`, `wgmma`, `ldmatrix` and kin.
//!
//! [`layout`] says which lane holds which element; [`Product`] multiplies plain matrices with the
//! arithmetic of an architecture ([`Arithmetic`]); [`Mma`] and [`Wgmma`] join the two on registers.
//! Sections of the PTX ISA (9.1): 9.7.14.5 `mma`, `ldmatrix`, `stmatrix`, `movmatrix`; 9.7.15
//! `wgmma`.

mod arithmetic;
mod dot;
mod lanes;
pub mod layout;
mod mma;
mod planes;
mod product;
mod shape;
#[cfg(test)]
mod tests;
mod wgmma;

pub use arithmetic::{Arithmetic, Unit};
pub use mma::{Mma, Registers};
pub use product::Product;
pub use shape::{Accumulator, Element, MMA_SHAPES, MmaShape, Shape};
pub use wgmma::Wgmma;
