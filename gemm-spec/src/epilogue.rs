//! What a sum goes through between the product and C.

use core::fmt;
use core::str::FromStr;

/// A function of each element, applied in f32.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Activation {
    /// x.
    #[default]
    Identity,
    /// max(x, 0); NaN stays NaN.
    Relu,
    /// x Φ(x), Φ the normal distribution's: "exact" GELU (Hendrycks and Gimpel, 2016).
    Gelu,
    /// x σ(2 √(2/π) (x + 0.044715 x³)), the same paper's approximation, which most models that name
    /// GELU use.
    GeluTanh,
    /// x σ(x), also called swish.
    Silu,
}

impl Activation {
    /// Every one.
    pub const ALL: [Activation; 5] = [
        Activation::Identity,
        Activation::Relu,
        Activation::Gelu,
        Activation::GeluTanh,
        Activation::Silu,
    ];

    /// The name on the command line and in suites.
    pub const fn name(self) -> &'static str {
        match self {
            Activation::Identity => "identity",
            Activation::Relu => "relu",
            Activation::Gelu => "gelu",
            Activation::GeluTanh => "gelu_tanh",
            Activation::Silu => "silu",
        }
    }
}

impl fmt::Display for Activation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// An activation's name was not one of `identity`, `relu`, `gelu`, `gelu_tanh`, `silu`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownActivation;

impl fmt::Display for UnknownActivation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("unknown activation: expected identity, relu, gelu, gelu_tanh or silu")
    }
}

impl core::error::Error for UnknownActivation {}

impl FromStr for Activation {
    type Err = UnknownActivation;

    fn from_str(name: &str) -> Result<Self, UnknownActivation> {
        Activation::ALL.into_iter().find(|of| of.name() == name).ok_or(UnknownActivation)
    }
}

/// A matrix that an epilogue reads, repeated along an extent whose stride is 0.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Source {
    /// The address of element (0, 0); 0 where there is no such matrix.
    pub address: u64,
    /// Elements from (i, j) to (i + 1, j).
    pub row_stride: i64,
    /// Elements from (i, j) to (i, j + 1).
    pub col_stride: i64,
}

impl Source {
    /// Whether there is one.
    #[inline(always)]
    pub const fn is_there(self) -> bool {
        self.address != 0
    }
}

/// The part of a parameter block that says what becomes of the sums; all zeros: nothing more than
/// alpha and beta. In f32, in this order, with x the sum of row i and column j:
///
/// 1. x = alpha x row_scale(i) col_scale(j) + beta C(i, j)
/// 2. x = activation(x + bias(i, j))
/// 3. Where it is gated, columns are pairs: x(i, j) = x(i, 2j) (x(i, 2j + 1) + bias), the
///    activation of the even one times the odd one as it is, and C has half as many columns; beta
///    takes no part.
/// 4. x = x + residual(i, j)
/// 5. amax = max(amax, |x|); C(i, j) = x, rounded once.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct EpilogueParams {
    /// Of C's dtype; as many columns as there are sums, or repeated.
    pub bias: Source,
    /// Of C's dtype and shape, or repeated.
    pub residual: Source,
    /// Of f32, one for each row.
    pub row_scale: Source,
    /// Of f32, one for each column of sums.
    pub col_scale: Source,
    /// The address of an f32 that is raised to the largest magnitude; 0: none.
    pub amax: u64,
    /// [`Activation`] as u32.
    pub activation: u32,
    /// 1 where columns are pairs.
    pub gated: u32,
}

impl EpilogueParams {
    /// Whether nothing is done.
    #[inline(always)]
    pub const fn is_none(&self) -> bool {
        let addresses = self.bias.address
            | self.residual.address
            | self.row_scale.address
            | self.col_scale.address
            | self.amax;
        addresses == 0 && self.activation == 0 && self.gated == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    #[test]
    fn names_round_trip() {
        for activation in Activation::ALL {
            assert_eq!(activation.to_string().parse(), Ok(activation));
        }
        assert!("swish".parse::<Activation>().is_err());
    }

    #[test]
    fn none_is_all_zeros() {
        let none = EpilogueParams::default();
        assert!(none.is_none());
        let there = Source { address: 4, ..Source::default() };
        let some = [
            EpilogueParams { bias: there, ..none },
            EpilogueParams { residual: there, ..none },
            EpilogueParams { row_scale: there, ..none },
            EpilogueParams { col_scale: there, ..none },
            EpilogueParams { amax: 4, ..none },
            EpilogueParams { activation: Activation::Relu as u32, ..none },
            EpilogueParams { gated: 1, ..none },
        ];
        assert!(some.iter().all(|some| !some.is_none()));
    }
}
