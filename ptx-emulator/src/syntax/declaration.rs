//! Types, variables, initial values, registers and parameters (PTX ISA chapter 5).

use super::Error;
use super::ast::{
    Initial, Linkage, Parameter, Pointer, RegisterName, Registers, Space, Type, Variable,
};
use super::constant::PRODUCT;
use super::lexer::Kind;
use super::number::{self, Value};
use super::parser::Parser;

/// More than any array has, so that their products stay cheap.
const MAX_DIMENSIONS: usize = 16;

/// What stands between a state space and the names.
struct Prefix {
    alignment: Option<u64>,
    pointer: Option<Pointer>,
    vector: u32,
    element: Type,
    managed: bool,
}

/// What a declaration of variables says once for all its names.
struct Head {
    space: Space,
    linkage: Linkage,
    prefix: Prefix,
}

/// A list of initial values, flattened.
struct Values {
    /// The number of components that one list holds, by its depth.
    spans: Vec<u64>,
    /// The first list may hold any number.
    unsized_array: bool,
    found: Vec<(u64, Initial)>,
}

pub(super) fn space(directive: &str) -> Option<Space> {
    Some(match directive {
        ".const" => Space::Const,
        ".global" => Space::Global,
        ".local" => Space::Local,
        ".param" => Space::Param,
        ".reg" => Space::Reg,
        ".shared" => Space::Shared,
        _ => return None,
    })
}

fn element(directive: &str) -> Option<Type> {
    Some(match directive {
        ".pred" => Type::Pred,
        ".b8" => Type::B8,
        ".b16" => Type::B16,
        ".b32" => Type::B32,
        ".b64" => Type::B64,
        ".b128" => Type::B128,
        ".u8" => Type::U8,
        ".u16" => Type::U16,
        ".u32" => Type::U32,
        ".u64" => Type::U64,
        ".s8" => Type::S8,
        ".s16" => Type::S16,
        ".s32" => Type::S32,
        ".s64" => Type::S64,
        ".f16" => Type::F16,
        ".f16x2" => Type::F16x2,
        ".bf16" => Type::Bf16,
        ".bf16x2" => Type::Bf16x2,
        ".f32" => Type::F32,
        ".f64" => Type::F64,
        ".texref" => Type::Texref,
        ".samplerref" => Type::Samplerref,
        ".surfref" => Type::Surfref,
        _ => return None,
    })
}

impl<'a> Parser<'a> {
    /// The variables of one declaration, each handed to `add`.
    pub fn variables(
        &mut self,
        linkage: Linkage,
        add: &mut dyn FnMut(Variable),
    ) -> Result<(), Error> {
        let space = match space(self.token.text) {
            Some(space) if self.token.kind == Kind::Dotted && space != Space::Reg => space,
            _ => return Err(self.unknown_directive()),
        };
        self.advance()?;
        let prefix = self.prefix()?;
        let head = Head { space, linkage, prefix };
        loop {
            add(self.variable(&head)?);
            if !self.take(",")? {
                break;
            }
        }
        self.expect(";")?;
        Ok(())
    }

    fn variable(&mut self, head: &Head) -> Result<Variable, Error> {
        let token = self.word("a variable's name")?;
        let dimensions = self.dimensions()?;
        let mut variable = Variable {
            space: head.space,
            alignment: head.prefix.alignment,
            vector: head.prefix.vector,
            element: head.prefix.element,
            name: self.name(token.text),
            count: self.elements(&dimensions)?,
            initial: Vec::new(),
            linkage: head.linkage,
            managed: head.prefix.managed,
            at: token.at,
        };
        if self.take("=")? {
            self.initial(&dimensions, &mut variable)?;
        }
        Ok(variable)
    }

    /// Alignment, attributes, vector length and type, in any order up to the type, which comes
    /// last but for a parameter's `.ptr`.
    fn prefix(&mut self) -> Result<Prefix, Error> {
        let (mut alignment, mut vector, mut managed) = (None, 1, false);
        loop {
            if self.token.kind != Kind::Dotted {
                return Err(self.unexpected("a type"));
            }
            match self.token.text {
                ".align" => alignment = Some(self.alignment()?),
                ".v2" | ".v4" | ".v8" => {
                    let token = self.advance()?;
                    vector = u32::from(token.text.as_bytes()[2] - b'0');
                }
                ".attribute" => managed |= self.attributes()?,
                text => {
                    let element = element(text).ok_or_else(|| self.unknown_directive())?;
                    self.advance()?;
                    return Ok(Prefix { alignment, pointer: None, vector, element, managed });
                }
            }
        }
    }

    /// `.align 16`
    fn alignment(&mut self) -> Result<u64, Error> {
        self.advance()?;
        let at = self.token.at;
        let value = self.plain_number()?;
        if !value.is_power_of_two() {
            return Err(Error::new(at, "an alignment must be a power of two"));
        }
        Ok(value)
    }

    /// `.attribute(.managed, .unified(1, 2))`; whether `.managed` is among them.
    pub fn attributes(&mut self) -> Result<bool, Error> {
        self.advance()?;
        self.expect("(")?;
        let mut managed = false;
        self.separated(|parser| {
            if parser.take_directive(".unified")? {
                parser.expect("(")?;
                parser.separated(|parser| parser.expression())?;
                parser.expect(")")?;
            } else if parser.take_directive(".managed")? {
                managed = true;
            } else {
                return Err(parser.unexpected("`.managed` or `.unified`"));
            }
            Ok(())
        })?;
        self.expect(")")?;
        Ok(managed)
    }

    /// `[4][8]`; `None` is the open dimension of `[]`, which only the first can be.
    fn dimensions(&mut self) -> Result<Vec<Option<u64>>, Error> {
        let mut dimensions = Vec::new();
        while self.take("[")? {
            if self.is("]") && dimensions.is_empty() {
                dimensions.push(None);
            } else {
                dimensions.push(Some(self.count("an array's size", i64::MAX as u64)?));
            }
            let close = self.expect("]")?;
            if dimensions.len() > MAX_DIMENSIONS {
                let message = format!("an array has at most {MAX_DIMENSIONS} dimensions");
                return Err(Error::new(close.at, message));
            }
        }
        Ok(dimensions)
    }

    /// The product of the dimensions.
    fn elements(&self, dimensions: &[Option<u64>]) -> Result<Option<u64>, Error> {
        if dimensions.first() == Some(&None) {
            return Ok(None);
        }
        self.product(dimensions).map(Some)
    }

    /// The product of the dimensions that are stated. No array is larger than 2^63 components.
    fn product(&self, dimensions: &[Option<u64>]) -> Result<u64, Error> {
        dimensions
            .iter()
            .flatten()
            .try_fold(1_u64, |product, &size| product.checked_mul(size))
            .filter(|&product| product <= (i64::MAX as u64) / 8)
            .ok_or_else(|| Error::new(self.token.at, "the array is too large"))
    }

    /// What follows `=`.
    fn initial(
        &mut self,
        dimensions: &[Option<u64>],
        variable: &mut Variable,
    ) -> Result<(), Error> {
        let vector = u64::from(variable.vector);
        let mut spans = Vec::new();
        for depth in 0..dimensions.len() {
            spans.push(self.product(&dimensions[depth..])? * vector);
        }
        if vector > 1 {
            spans.push(vector);
        }
        let unsized_array = dimensions.first() == Some(&None);
        let mut values = Values { spans, unsized_array, found: Vec::new() };
        if values.spans.is_empty() {
            let value = self.initial_value()?;
            variable.initial = vec![(0, value)];
            return Ok(());
        }
        let end = self.initial_list(&mut values, 0, 0)?;
        if unsized_array {
            let row = self.product(&dimensions[1..])? * vector;
            if row == 0 {
                return Err(Error::new(variable.at, "the array's rows are empty"));
            }
            variable.count = Some(end.div_ceil(row) * (row / vector));
        }
        variable.initial = values.found;
        Ok(())
    }

    /// `{ .. }` at this depth of brackets, from this component on; the component after its last.
    fn initial_list(&mut self, values: &mut Values, depth: usize, from: u64) -> Result<u64, Error> {
        let open = self.expect("{")?;
        let span = values.spans.get(depth).copied().unwrap_or(1);
        let inner = values.spans.get(depth + 1).copied().unwrap_or(1);
        let end = match depth {
            0 if values.unsized_array => u64::MAX,
            _ => from.saturating_add(span),
        };
        let mut next = from;
        self.separated_until("}", |parser| {
            let at = parser.token.at;
            if next >= end {
                return Err(Error::new(at, "more initial values than the variable has elements"));
            }
            if depth + 1 == values.spans.len() {
                let value = parser.initial_value()?;
                values.found.push((next, value));
                next += 1;
                return Ok(());
            }
            parser.initial_list(values, depth + 1, next)?;
            next = next
                .checked_add(inner)
                .ok_or_else(|| Error::new(open.at, "the array is too large"))?;
            Ok(())
        })?;
        Ok(next)
    }

    /// A constant, or the address of a name.
    fn initial_value(&mut self) -> Result<Initial, Error> {
        if self.token.kind == Kind::Word && self.token.text != "WARP_SZ" {
            return self.initial_address(None);
        }
        // `0xFF00(name)` begins with a number, as a constant expression may.
        let first = self.token;
        if first.kind == Kind::Number {
            self.advance()?;
            let value = number::read(&first)?;
            if self.is("(") {
                let mask = value
                    .integer()
                    .ok_or_else(|| Error::new(first.at, "a mask must be an integer"))?;
                self.advance()?;
                let address = self.initial_address(Some(mask as u64))?;
                self.expect(")")?;
                return Ok(address);
            }
            return Ok(Initial::Constant(self.constant_after(value)?));
        }
        Ok(Initial::Constant(self.constant()?))
    }

    /// `name`, `generic(name)`, and an offset.
    fn initial_address(&mut self, mask: Option<u64>) -> Result<Initial, Error> {
        let mut token = self.word("a name")?;
        let generic = token.text == "generic" && self.take("(")?;
        if generic {
            token = self.word("a name")?;
            self.expect(")")?;
        }
        let name = self.name(token.text);
        Ok(Initial::Address { name, generic, offset: self.offset()?, mask })
    }

    /// What is added to a name: none or several terms of `+4` or `-4`.
    pub fn offset(&mut self) -> Result<i64, Error> {
        let mut offset = 0_i64;
        while self.is("+") || self.is("-") {
            let sign = self.advance()?;
            let value = match self.binary(PRODUCT)? {
                Value::Signed(value) => value,
                Value::Unsigned(value) => value as i64,
                _ => return Err(Error::new(sign.at, "an offset must be an integer")),
            };
            offset = match sign.text {
                "+" => offset.wrapping_add(value),
                _ => offset.wrapping_sub(value),
            };
        }
        Ok(offset)
    }

    /// `.reg .b32 %r<12>, x;`
    pub fn registers(&mut self) -> Result<Registers, Error> {
        let at = self.advance()?.at;
        let prefix = self.prefix()?;
        let names = self.separated(|parser| {
            let token = parser.word("a register's name")?;
            let count = match parser.take("<")? {
                true => {
                    let place = parser.token;
                    let count = u32::try_from(parser.plain_number()?).map_err(|_| {
                        Error::new(place.at, format!("{} registers are too many", place.text))
                    })?;
                    parser.expect(">")?;
                    Some(count)
                }
                false => None,
            };
            Ok(RegisterName { name: parser.name(token.text), count, at: token.at })
        })?;
        self.expect(";")?;
        Ok(Registers { element: prefix.element, vector: prefix.vector, names, at })
    }

    /// `(.param .u64 a, .reg .b32 b)`
    pub fn parameters(&mut self) -> Result<Vec<Parameter>, Error> {
        self.expect("(")?;
        self.separated_until(")", Self::parameter)
    }

    fn parameter(&mut self) -> Result<Parameter, Error> {
        let space = match (self.token.kind, self.token.text) {
            (Kind::Dotted, ".param") => Space::Param,
            (Kind::Dotted, ".reg") => Space::Reg,
            _ => return Err(self.unexpected("`.param` or `.reg`")),
        };
        self.advance()?;
        let mut prefix = self.prefix()?;
        if self.take_directive(".ptr")? {
            prefix.pointer = Some(self.pointer()?);
        }
        let token = self.word("a parameter's name")?;
        let dimensions = self.dimensions()?;
        Ok(Parameter {
            space,
            alignment: prefix.alignment,
            pointer: prefix.pointer,
            vector: prefix.vector,
            element: prefix.element,
            name: self.name(token.text),
            count: self.elements(&dimensions)?,
            at: token.at,
        })
    }

    /// What follows `.ptr`.
    fn pointer(&mut self) -> Result<Pointer, Error> {
        let mut pointer = Pointer { space: None, alignment: 4 };
        while self.token.kind == Kind::Dotted {
            match self.token.text {
                ".align" => pointer.alignment = self.alignment()?,
                ".const" | ".global" | ".local" | ".shared" => {
                    pointer.space = space(self.advance()?.text);
                }
                _ => return Err(self.unknown_directive()),
            }
        }
        Ok(pointer)
    }
}
