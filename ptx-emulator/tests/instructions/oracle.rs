//! Rounding by search: the neighbours of an exact result are found by comparing, nothing is shared
//! with the emulator's arithmetic.

use std::cmp::Ordering;

/// A rounding modifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    Nearest,
    /// To the nearest, ties away from zero.
    Away,
    Zero,
    Down,
    Up,
}

/// An exact number, which need not have a pattern.
#[derive(Clone, Copy, Debug)]
pub enum Exact {
    /// The number itself.
    Number(f64),
    /// An integer.
    Integer(i128),
    /// The sum of two numbers, the second at most half a unit in the last place of the first.
    Pair(f64, f64),
    /// A quotient.
    Quotient(f64, f64),
    /// A square root.
    Root(f64),
}

impl Exact {
    /// `a + b` of moderate numbers.
    pub fn sum(a: f64, b: f64) -> Exact {
        let sum = a + b;
        let shadow = sum - a;
        Exact::Pair(sum, (a - (sum - shadow)) + (b - shadow))
    }

    /// `a * b` of moderate numbers.
    pub fn product(a: f64, b: f64) -> Exact {
        Exact::Pair(a * b, a.mul_add(b, -(a * b)))
    }

    /// How it compares with `v`.
    pub fn compare(&self, v: f64) -> Ordering {
        let sign = |x: f64| x.partial_cmp(&0.0).unwrap();
        match *self {
            Exact::Number(x) => x.partial_cmp(&v).unwrap(),
            Exact::Integer(x) if v.abs() < 1e37 => match x.cmp(&(v.floor() as i128)) {
                Ordering::Equal => sign(v.floor() - v),
                other => other,
            },
            Exact::Integer(_) => sign(-v),
            Exact::Pair(s, e) if v == s => sign(e),
            Exact::Pair(s, _) => s.partial_cmp(&v).unwrap(),
            // The sign of a correctly rounded result is that of the exact one.
            Exact::Quotient(a, b) if b > 0.0 => sign(v.mul_add(-b, a)),
            Exact::Quotient(a, b) => sign(v.mul_add(b, -a)),
            Exact::Root(_) if v < 0.0 => Ordering::Greater,
            Exact::Root(a) => sign(v.mul_add(-v, a)),
        }
    }
}

/// A binary format: its patterns of positive numbers are in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Float {
    F16,
    Bf16,
    F32,
    F64,
    Tf32,
    E4m3,
    E5m2,
}

impl Float {
    /// Bits of the exponent field and of the fraction.
    fn fields(self) -> (u32, u32) {
        match self {
            Float::F16 => (5, 10),
            Float::Bf16 => (8, 7),
            Float::F32 => (8, 23),
            Float::F64 => (11, 52),
            Float::Tf32 => (8, 10),
            Float::E4m3 => (4, 3),
            Float::E5m2 => (5, 2),
        }
    }

    pub fn sign_bit(self) -> u64 {
        let (exponent, fraction) = self.fields();
        1 << (exponent + fraction)
    }

    /// The pattern above the largest number: infinity, or of E4M3 NaN.
    pub fn infinity(self) -> u64 {
        let (exponent, fraction) = self.fields();
        let field = (1 << exponent) - 1;
        if self == Float::E4m3 { 0x7f } else { field << fraction }
    }

    /// The pattern of a NaN result.
    pub fn nan(self) -> u64 {
        if self == Float::F64 { 0xfff8 << 48 } else { self.sign_bit() - 1 }
    }

    /// The value of a pattern.
    pub fn value(self, bits: u64) -> f64 {
        let (exponent, fraction) = self.fields();
        let sign = if bits & self.sign_bit() != 0 { -1.0 } else { 1.0 };
        let magnitude = bits & (self.sign_bit() - 1);
        if magnitude == self.infinity() && self != Float::E4m3 {
            return sign * f64::INFINITY;
        }
        if magnitude >= self.infinity() {
            return f64::NAN;
        }
        if self == Float::F64 {
            return f64::from_bits(bits);
        }
        sign * self.scaled(magnitude, exponent, fraction)
    }

    /// As if the largest exponent were an ordinary one.
    fn scaled(self, magnitude: u64, exponent: u32, fraction: u32) -> f64 {
        let bias = (1 << (exponent - 1)) - 1;
        let field = (magnitude >> fraction) as i32;
        let below = (magnitude & ((1 << fraction) - 1)) as f64 / (1u64 << fraction) as f64;
        if field == 0 {
            below * 2f64.powi(1 - bias)
        } else {
            (1.0 + below) * 2f64.powi(field - bias)
        }
    }

    /// Whether it is a subnormal number.
    pub fn is_subnormal(self, bits: u64) -> bool {
        let magnitude = bits & (self.sign_bit() - 1);
        magnitude != 0 && magnitude >> self.fields().1 == 0
    }

    /// Rounds; an exact zero gets the sign given.
    pub fn round(self, exact: Exact, zero_is_negative: bool, mode: Mode) -> u64 {
        let order = exact.compare(0.0);
        let negative = order == Ordering::Less || order == Ordering::Equal && zero_is_negative;
        let sign = if negative { self.sign_bit() } else { 0 };
        let compare = |v: f64| {
            if negative { exact.compare(-v).reverse() } else { exact.compare(v) }
        };
        // The largest pattern whose value is not above the magnitude.
        let (mut low, mut high) = (0, self.infinity());
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if compare(self.value(middle)) == Ordering::Less { high = middle } else { low = middle }
        }
        if compare(self.value(low)) == Ordering::Equal {
            return sign | low;
        }
        let up = match mode {
            Mode::Zero => false,
            Mode::Down => negative,
            Mode::Up => !negative,
            Mode::Nearest | Mode::Away => {
                let (exponent, fraction) = self.fields();
                let [x, y] = [low, low + 1].map(|bits| self.scaled(bits, exponent, fraction));
                match compare((x + y) / 2.0) {
                    Ordering::Less => false,
                    Ordering::Equal => mode == Mode::Away || low & 1 == 1,
                    Ordering::Greater => true,
                }
            }
        };
        sign | (low + u64::from(up))
    }
}
