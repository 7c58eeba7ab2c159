//! Numbers in all their notations (PTX ISA 4.5.1 and 4.5.2).

use super::Error;
use super::ast::Constant;
use super::lexer::Token;

/// The value of a literal or of a constant expression. Integers are 64 bits wide, and whether they
/// are signed decides what division, shift and comparison do (PTX ISA 4.5.6).
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Value {
    Signed(i64),
    Unsigned(u64),
    /// `0f..`, kept apart so that the payload of a NaN survives.
    Single(u32),
    Double(f64),
}

/// Reads a token of the kind `Number`, or a point and digits.
pub(super) fn read(token: &Token) -> Result<Value, Error> {
    let text = token.text;
    let bad = |what: &str| Error::new(token.at, format!("{} {what}", token.shown()));
    let bytes = text.as_bytes();
    let radix = match (bytes[0], bytes.get(1)) {
        (b'0', Some(b'f' | b'F')) => {
            return bits(&text[2..], 8)
                .map(|bits| Value::Single(bits as u32))
                .ok_or_else(|| bad("is not `0f` and eight hexadecimal digits"));
        }
        (b'0', Some(b'd' | b'D')) => {
            return bits(&text[2..], 16)
                .map(|bits| Value::Double(f64::from_bits(bits)))
                .ok_or_else(|| bad("is not `0d` and sixteen hexadecimal digits"));
        }
        (b'0', Some(b'x' | b'X')) => 16,
        (b'0', Some(b'b' | b'B')) => 2,
        // Rust reads exactly the decimal floats of PTX once the token has digits around its point.
        _ if text.contains(['.', 'e', 'E']) => {
            return text.parse().map(Value::Double).map_err(|_| bad("is not a number"));
        }
        (b'0', Some(b'0'..=b'9')) => 8,
        _ => 10,
    };
    let (digits, suffix) = match text.strip_suffix('U') {
        Some(digits) => (digits, true),
        None => (text, false),
    };
    let digits = if matches!(radix, 16 | 2) { digits.get(2..).unwrap_or("") } else { digits };
    if digits.is_empty() || !digits.chars().all(|digit| digit.is_digit(radix)) {
        return Err(bad("is not a number"));
    }
    let value = u64::from_str_radix(digits, radix).map_err(|_| bad("does not fit in 64 bits"))?;
    match i64::try_from(value) {
        Ok(value) if !suffix => Ok(Value::Signed(value)),
        _ => Ok(Value::Unsigned(value)),
    }
}

fn bits(digits: &str, count: usize) -> Option<u64> {
    let hex = digits.len() == count && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    if hex { u64::from_str_radix(digits, 16).ok() } else { None }
}

impl From<Value> for Constant {
    fn from(value: Value) -> Self {
        match value {
            Value::Signed(value) => Self::Integer(value),
            Value::Unsigned(value) => Self::Integer(value as i64),
            Value::Single(bits) => Self::Single(bits),
            Value::Double(value) => Self::Double(value.to_bits()),
        }
    }
}

impl Value {
    /// The number as 64 bits in two's complement; `None` for a float.
    pub fn integer(self) -> Option<i64> {
        match self {
            Self::Signed(value) => Some(value),
            Self::Unsigned(value) => Some(value as i64),
            Self::Single(_) | Self::Double(_) => None,
        }
    }

    /// The number in double precision, whatever it is.
    pub fn double(self) -> f64 {
        match self {
            Self::Signed(value) => value as f64,
            Self::Unsigned(value) => value as f64,
            Self::Single(bits) => f64::from(f32::from_bits(bits)),
            Self::Double(value) => value,
        }
    }

    /// Whether a condition holds for it.
    pub fn is_true(self) -> bool {
        match self.integer() {
            Some(value) => value != 0,
            None => self.double() != 0.0,
        }
    }
}
