//! The cases of every family, for any engine: a crate that runs them on a GPU includes this file by
//! its path.

mod approximate;
mod atomic;
mod bits;
pub mod case;
mod convert;
mod float;
mod inputs;
mod integer;
mod matrix;
mod memory;
mod oracle;
mod warp;
mod wgmma;

pub use case::{Case, ENTRY};

/// A family's name and its cases.
pub type Family = (&'static str, fn() -> Vec<Case>);

/// Every family.
pub const FAMILIES: &[Family] = &[
    ("arithmetic", float::arithmetic_cases),
    ("selection", float::selection_cases),
    ("predicates", float::predicate_cases),
    ("approximations", approximate::cases),
    ("integer conversions", convert::integer_cases),
    ("mixed conversions", convert::mixed_cases),
    ("float conversions", convert::float_cases),
    ("packed conversions", convert::packed_cases),
    ("integers", integer::arithmetic_cases),
    ("bits", bits::cases),
    ("integer predicates", integer::predicate_cases),
    ("memory", memory::cases),
    ("atomics", atomic::cases),
    ("warps", warp::cases),
    ("matrix moves", matrix::matrix_cases),
    ("mma", matrix::mma_cases),
    ("wgmma", wgmma::cases),
];

/// The cases of a family.
pub fn family(name: &str) -> Vec<Case> {
    FAMILIES.iter().find(|family| family.0 == name).expect("a family of this name").1()
}
