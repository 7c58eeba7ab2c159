//! Constant expressions (PTX ISA 4.5.3 to 4.5.6), computed while they are read.

use super::Error;
use super::ast::{Constant, Position};
use super::lexer::{Kind, Token};
use super::number::{self, Value};
use super::parser::Parser;

/// The binary operators from the loosest to the tightest.
const LEVELS: [&[&str]; 10] = [
    &["||"],
    &["&&"],
    &["|"],
    &["^"],
    &["&"],
    &["==", "!="],
    &["<", "<=", ">", ">="],
    &["<<", ">>"],
    &["+", "-"],
    &["*", "/", "%"],
];

/// The level of `*`: what an offset after a name is made of.
pub(super) const PRODUCT: usize = 9;

impl Parser<'_> {
    /// A constant of any type.
    pub fn constant(&mut self) -> Result<Constant, Error> {
        Ok(self.expression()?.into())
    }

    /// A constant whose `!` has been read.
    pub fn constant_after_not(&mut self) -> Result<Constant, Error> {
        let value = self.nested(Self::unary)?;
        self.constant_after(Value::Signed(i64::from(!value.is_true())))
    }

    /// A constant whose first number has been read.
    pub fn constant_after(&mut self, first: Value) -> Result<Constant, Error> {
        let condition = self.binary_after(first, 0)?;
        Ok(self.choice(condition)?.into())
    }

    /// A constant that must be an integer.
    pub fn integer(&mut self) -> Result<i64, Error> {
        let at = self.token.at;
        let value = self.expression()?;
        value.integer().ok_or_else(|| Error::new(at, "an integer is needed here, not a float"))
    }

    /// A constant that must be a non-negative integer of at most this value.
    pub fn count(&mut self, what: &str, max: u64) -> Result<u64, Error> {
        let at = self.token.at;
        match self.expression()? {
            Value::Signed(value) if u64::try_from(value).is_ok_and(|value| value <= max) => {
                Ok(value as u64)
            }
            Value::Unsigned(value) if value <= max => Ok(value),
            _ => Err(Error::new(at, format!("{what} must be an integer from 0 to {max}"))),
        }
    }

    /// Like `count`, for 32 bits.
    pub fn count_u32(&mut self, what: &str) -> Result<u32, Error> {
        Ok(self.count(what, u64::from(u32::MAX))? as u32)
    }

    /// A whole expression: `a ? b : c` or what binds tighter.
    pub fn expression(&mut self) -> Result<Value, Error> {
        self.nested(|parser| {
            let condition = parser.binary(0)?;
            parser.choice(condition)
        })
    }

    /// What may follow a condition.
    fn choice(&mut self, condition: Value) -> Result<Value, Error> {
        if !self.take("?")? {
            return Ok(condition);
        }
        let yes = self.expression()?;
        self.expect(":")?;
        let no = self.expression()?;
        Ok(if condition.is_true() { yes } else { no })
    }

    /// Operators of this level and tighter ones.
    pub fn binary(&mut self, level: usize) -> Result<Value, Error> {
        let first = self.unary()?;
        self.binary_after(first, level)
    }

    fn binary_after(&mut self, first: Value, level: usize) -> Result<Value, Error> {
        let mut left = first;
        while self.token.kind == Kind::Mark {
            let text = self.token.text;
            let found = LEVELS.iter().position(|operators| operators.contains(&text));
            let Some(tight) = found.filter(|&tight| tight >= level) else {
                break;
            };
            let operator = self.advance()?;
            let right = self.nested(|parser| parser.binary(tight + 1))?;
            left = apply(&operator, left, right)?;
        }
        Ok(left)
    }

    fn unary(&mut self) -> Result<Value, Error> {
        let token = self.token;
        match (token.kind, token.text) {
            (Kind::Number, _) => {
                self.advance()?;
                number::read(&token)
            }
            // `.5`
            (Kind::Dotted, text) if text.as_bytes()[1].is_ascii_digit() => {
                self.advance()?;
                number::read(&token)
            }
            (Kind::Word, "WARP_SZ") => {
                self.advance()?;
                Ok(Value::Signed(32))
            }
            (Kind::Mark, "-" | "+" | "!" | "~") => {
                self.advance()?;
                let value = self.nested(Self::unary)?;
                negate(token.at, token.text, value)
            }
            (Kind::Mark, "(") => {
                self.advance()?;
                if let Some(signed) = self.cast()? {
                    let at = self.token.at;
                    let value = self.nested(Self::unary)?;
                    let value = value
                        .integer()
                        .ok_or_else(|| Error::new(at, "a float cannot be cast to an integer"))?;
                    return Ok(match signed {
                        true => Value::Signed(value),
                        false => Value::Unsigned(value as u64),
                    });
                }
                let value = self.expression()?;
                self.expect(")")?;
                Ok(value)
            }
            _ => Err(self.unexpected("a number")),
        }
    }

    /// `.s64)` or `.u64)` after an opening parenthesis; whether it is the signed one.
    fn cast(&mut self) -> Result<Option<bool>, Error> {
        let signed = match (self.token.kind, self.token.text) {
            (Kind::Dotted, ".s64") => true,
            (Kind::Dotted, ".u64") => false,
            _ => return Ok(None),
        };
        self.advance()?;
        self.expect(")")?;
        Ok(Some(signed))
    }
}

/// An operator before its operand.
fn negate(at: Position, operator: &str, value: Value) -> Result<Value, Error> {
    Ok(match (operator, value) {
        ("+", value) => value,
        ("-", Value::Signed(value)) => Value::Signed(value.wrapping_neg()),
        ("-", Value::Unsigned(value)) => Value::Unsigned(value.wrapping_neg()),
        ("-", Value::Single(bits)) => Value::Single(bits ^ 0x8000_0000),
        ("-", Value::Double(value)) => Value::Double(-value),
        ("~", Value::Signed(value)) => Value::Signed(!value),
        ("~", Value::Unsigned(value)) => Value::Unsigned(!value),
        ("!", value) => Value::Signed(i64::from(!value.is_true())),
        _ => return Err(Error::new(at, format!("`{operator}` has no meaning for a float"))),
    })
}

/// An operator between two operands. An unsigned integer makes both unsigned; a shift looks at its
/// left side alone, and `%` takes both as unsigned. Seen with ptxas 13.0: `-7 % 4` is 1, and a
/// shift's distance counts modulo 64.
fn apply(operator: &Token, left: Value, right: Value) -> Result<Value, Error> {
    let truth = |value: bool| Ok(Value::Signed(i64::from(value)));
    match operator.text {
        "&&" => return truth(left.is_true() && right.is_true()),
        "||" => return truth(left.is_true() || right.is_true()),
        _ => {}
    }
    let result = match (left.integer(), right.integer()) {
        (Some(a), Some(b)) => match (left, right, operator.text) {
            (Value::Signed(_), Value::Signed(_), _) | (Value::Signed(_), _, "<<" | ">>") => {
                signed(operator.text, a, b)
            }
            _ => unsigned(operator.text, a as u64, b as u64),
        },
        (None, None) => float(operator.text, left.double(), right.double()),
        _ => return Err(Error::new(operator.at, "an integer and a float do not mix")),
    };
    result.ok_or_else(|| {
        let message = match (operator.text, right.integer()) {
            ("/" | "%", Some(0)) => "a constant is divided by zero".to_owned(),
            (text, _) => format!("`{text}` has no meaning for floats"),
        };
        Error::new(operator.at, message)
    })
}

fn signed(operator: &str, a: i64, b: i64) -> Option<Value> {
    Some(match operator {
        "/" if b == 0 => return None,
        "/" => Value::Signed(a.wrapping_div(b)),
        "<" => Value::Signed(i64::from(a < b)),
        "<=" => Value::Signed(i64::from(a <= b)),
        ">" => Value::Signed(i64::from(a > b)),
        ">=" => Value::Signed(i64::from(a >= b)),
        ">>" => Value::Signed(a.wrapping_shr(b as u32)),
        _ => Value::Signed(unsigned(operator, a as u64, b as u64)?.integer()?),
    })
}

fn unsigned(operator: &str, a: u64, b: u64) -> Option<Value> {
    let truth = |value: bool| Value::Signed(i64::from(value));
    Some(match operator {
        "<" => truth(a < b),
        "<=" => truth(a <= b),
        ">" => truth(a > b),
        ">=" => truth(a >= b),
        "==" => truth(a == b),
        "!=" => truth(a != b),
        _ => Value::Unsigned(match operator {
            "*" => a.wrapping_mul(b),
            "/" => a.checked_div(b)?,
            "%" => a.checked_rem(b)?,
            "+" => a.wrapping_add(b),
            "-" => a.wrapping_sub(b),
            "<<" => a.wrapping_shl(b as u32),
            ">>" => a.wrapping_shr(b as u32),
            "&" => a & b,
            "^" => a ^ b,
            "|" => a | b,
            _ => return None,
        }),
    })
}

fn float(operator: &str, a: f64, b: f64) -> Option<Value> {
    let truth = |value: bool| Value::Signed(i64::from(value));
    Some(match operator {
        "+" => Value::Double(a + b),
        "-" => Value::Double(a - b),
        "*" => Value::Double(a * b),
        "/" => Value::Double(a / b),
        "<" => truth(a < b),
        "<=" => truth(a <= b),
        ">" => truth(a > b),
        ">=" => truth(a >= b),
        "==" => truth(a == b),
        "!=" => truth(a != b),
        _ => return None,
    })
}
