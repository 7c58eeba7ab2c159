//! Rounding modes.

/// How a result that has no exact pattern is rounded (PTX ISA 9.7, "Rounding Modifiers").
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Rounding {
    /// `.rn`, `.rni`: to the nearest, ties to even.
    #[default]
    NearestEven,
    /// `.rna`: to the nearest, ties away from zero (`cvt` to tf32 alone).
    NearestAway,
    /// `.rz`, `.rzi`: toward zero.
    TowardZero,
    /// `.rm`, `.rmi`: toward minus infinity.
    Down,
    /// `.rp`, `.rpi`: toward plus infinity.
    Up,
}

impl Rounding {
    /// Whether a magnitude goes up by one unit, from its lowest kept bit, the first bit cut off
    /// and whether anything beyond that bit is set.
    #[inline]
    pub(crate) fn increments(self, negative: bool, odd: bool, half: bool, rest: bool) -> bool {
        match self {
            Self::NearestEven => half && (rest || odd),
            Self::NearestAway => half,
            Self::TowardZero => false,
            Self::Down => negative && (half || rest),
            Self::Up => !negative && (half || rest),
        }
    }

    /// Whether an overflow of this sign becomes infinite; otherwise the largest finite number.
    #[inline]
    pub(crate) fn overflows_to_infinity(self, negative: bool) -> bool {
        match self {
            Self::NearestEven | Self::NearestAway => true,
            Self::TowardZero => false,
            Self::Down => negative,
            Self::Up => !negative,
        }
    }
}
