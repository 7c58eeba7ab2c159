//! Operands (PTX ISA chapter 6).

use super::Error;
use super::ast::{Address, Name, Operand};
use super::lexer::Kind;
use super::parser::Parser;

impl Parser<'_> {
    /// The operands of an instruction, at least one.
    pub fn operands(&mut self, opcode: &str) -> Result<Vec<Operand>, Error> {
        // Only a call has lists in parentheses; elsewhere they are constant expressions.
        match opcode {
            "call" => self.separated(|parser| match parser.is("(") {
                true => {
                    parser.advance()?;
                    let list = parser.separated_until(")", Self::operand)?;
                    Ok(Operand::List(list))
                }
                false => parser.operand(),
            }),
            _ => self.separated(Self::operand),
        }
    }

    /// One operand: a single one, or `d|p`.
    fn operand(&mut self) -> Result<Operand, Error> {
        self.nested(|parser| {
            let first = parser.single()?;
            let named = matches!(first, Operand::Name(_) | Operand::Sink);
            if !(named && parser.take("|")?) {
                return Ok(first);
            }
            let second = match parser.token.kind {
                Kind::Word => parser.single()?,
                _ => return Err(parser.unexpected("a register")),
            };
            Ok(Operand::Pair(Box::new((first, second))))
        })
    }

    fn single(&mut self) -> Result<Operand, Error> {
        match (self.token.kind, self.token.text) {
            (Kind::Word, "_") => {
                self.advance()?;
                Ok(Operand::Sink)
            }
            (Kind::Word, "WARP_SZ") => Ok(Operand::Constant(self.constant()?)),
            (Kind::Word, _) => self.named(),
            (Kind::Mark, "!") => {
                self.advance()?;
                match self.token.kind {
                    Kind::Word => Ok(Operand::Negated(self.component("a predicate register")?)),
                    _ => Ok(Operand::Constant(self.constant_after_not()?)),
                }
            }
            (Kind::Mark, "[") => self.address(),
            (Kind::Mark, "{") => {
                self.advance()?;
                Ok(Operand::Vector(self.separated_until("}", Self::operand)?))
            }
            (Kind::Number | Kind::Dotted, _) | (Kind::Mark, "-" | "+" | "~" | "(") => {
                Ok(Operand::Constant(self.constant()?))
            }
            _ => Err(self.unexpected("an operand")),
        }
    }

    /// What begins with a name.
    fn named(&mut self) -> Result<Operand, Error> {
        let name = self.component("a name")?;
        if self.is("+") || self.is("-") {
            return Ok(Operand::NameOffset(name, self.offset()?));
        }
        if self.take("[")? {
            let index = self.integer()?;
            self.expect("]")?;
            return Ok(Operand::Element(name, index));
        }
        Ok(Operand::Name(name))
    }

    /// A name with the component that is written directly behind it: `%tid.x`, `v.x`, `r.b0`.
    fn component(&mut self, what: &str) -> Result<Name, Error> {
        let start = self.word(what)?.start;
        if self.token.kind == Kind::Dotted && self.token.start == self.last_end {
            self.advance()?;
        }
        let text = self.text_since(start);
        Ok(self.name(text))
    }

    /// `[base+offset]` and its relatives.
    fn address(&mut self) -> Result<Operand, Error> {
        self.expect("[")?;
        let (base, offset) = match self.token.kind {
            Kind::Word => (Some(self.component("a register")?), self.offset()?),
            _ => (None, self.integer()?),
        };
        let coordinates = match self.take(",")? {
            true => self.separated(Self::operand)?,
            false => Vec::new(),
        };
        self.expect("]")?;
        Ok(Operand::Address(Address { base, offset, coordinates }))
    }
}
