//! From a dtype, known when a file has been opened, to a type, known when the program was compiled.

use anyhow::{Context, Result};
use gemmite::{Element, F8E4M3, F8E5M2, bf16, f16};

use crate::args::Scalar;

/// What the command needs to know of a dtype beyond what the library knows.
pub trait CliElement: Element {
    /// alpha or beta from the command line.
    fn scalar(text: &Scalar) -> Result<Self::Scalar>;
}

macro_rules! cli_elements {
    ($($element:ty),*) => {$(
        impl CliElement for $element {
            fn scalar(text: &Scalar) -> Result<Self::Scalar> {
                text.0.parse().with_context(|| {
                    format!("alpha and beta of {} matrices are numbers of {}, and {} is none",
                        Self::DTYPE, Self::DTYPE.accumulator(), text.0)
                })
            }
        }
    )*};
}

cli_elements!(i8, i32, F8E4M3, F8E5M2, f16, bf16, f32, f64);
