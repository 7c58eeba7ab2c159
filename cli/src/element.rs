//! From a dtype, known when a file has been opened, to a type, known when the program was compiled.

use anyhow::{Context, Result, ensure};
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
                let text = &text.0;
                let value: Self::Scalar = text.parse().with_context(|| none::<Self>(text))?;
                // Infinity has no digits: one that was read from some is too large a number.
                let is_inf = !text.contains(|c: char| c.is_ascii_digit());
                ensure!(is_inf || value.to_f64().is_finite(), none::<Self>(text));
                Ok(value)
            }
        }
    )*};
}

fn none<T: Element>(text: &str) -> String {
    let (dtype, scalar) = (T::DTYPE, T::DTYPE.accumulator());
    format!("alpha and beta of {dtype} matrices are numbers of {scalar}, and {text} is none")
}

cli_elements!(i8, i32, F8E4M3, F8E5M2, f16, bf16, f32, f64);
