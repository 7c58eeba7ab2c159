//! The parser's state, and the module scope (PTX ISA 11.1).

use std::collections::HashMap;
use std::sync::Arc;

use super::Error;
use super::ast::{Alias, Linkage, Module, Name};
use super::lexer::{Kind, Lexer, Token, shown};
use super::number::{self, Value};

/// How deep blocks, operands and constant expressions may nest, all together.
const MAX_DEPTH: u32 = 100;

/// An opcode and its modifiers.
pub(super) type Operation = (Name, Arc<[Name]>);

/// One token of look-ahead over the text.
pub(super) struct Parser<'a> {
    lexer: Lexer<'a>,
    /// The token that is looked at.
    pub token: Token<'a>,
    /// The end of the token before it.
    pub last_end: usize,
    depth: u32,
    /// Each distinct name once.
    names: HashMap<&'a str, Name>,
    /// Each distinct opcode with modifiers once, under its text.
    pub operations: HashMap<&'a str, Operation>,
}

impl<'a> Parser<'a> {
    pub fn new(text: &'a str) -> Result<Self, Error> {
        let mut lexer = Lexer::new(text)?;
        let token = lexer.token()?;
        Ok(Self {
            lexer,
            token,
            last_end: 0,
            depth: 0,
            names: HashMap::new(),
            operations: HashMap::new(),
        })
    }

    /// Goes to the next token and gives the one left.
    pub fn advance(&mut self) -> Result<Token<'a>, Error> {
        let token = self.token;
        self.last_end = token.end();
        self.token = self.lexer.token()?;
        Ok(token)
    }

    pub fn is(&self, mark: &str) -> bool {
        self.token.kind == Kind::Mark && self.token.text == mark
    }

    /// Takes the mark if it is next.
    pub fn take(&mut self, mark: &str) -> Result<bool, Error> {
        let here = self.is(mark);
        if here {
            self.advance()?;
        }
        Ok(here)
    }

    pub fn expect(&mut self, mark: &str) -> Result<Token<'a>, Error> {
        match self.is(mark) {
            true => self.advance(),
            false => Err(self.unexpected(&format!("`{mark}`"))),
        }
    }

    /// Takes the directive if it is next.
    pub fn take_directive(&mut self, directive: &str) -> Result<bool, Error> {
        let here = self.token.kind == Kind::Dotted && self.token.text == directive;
        if here {
            self.advance()?;
        }
        Ok(here)
    }

    /// A name of something, without component.
    pub fn word(&mut self, what: &str) -> Result<Token<'a>, Error> {
        match self.token.kind {
            Kind::Word => self.advance(),
            _ => Err(self.unexpected(what)),
        }
    }

    /// Items between commas, at least one.
    pub fn separated<T>(
        &mut self,
        mut item: impl FnMut(&mut Self) -> Result<T, Error>,
    ) -> Result<Vec<T>, Error> {
        let mut items = vec![item(self)?];
        while self.take(",")? {
            items.push(item(self)?);
        }
        Ok(items)
    }

    /// Items between commas up to a closing mark, perhaps none.
    pub fn separated_until<T>(
        &mut self,
        close: &str,
        item: impl FnMut(&mut Self) -> Result<T, Error>,
    ) -> Result<Vec<T>, Error> {
        let items = if self.is(close) { Vec::new() } else { self.separated(item)? };
        self.expect(close)?;
        Ok(items)
    }

    /// Reads what lies one level deeper.
    pub fn nested<T>(
        &mut self,
        inner: impl FnOnce(&mut Self) -> Result<T, Error>,
    ) -> Result<T, Error> {
        if self.depth == MAX_DEPTH {
            let message = format!("nested deeper than {MAX_DEPTH} levels");
            return Err(Error::new(self.token.at, message));
        }
        self.depth += 1;
        let result = inner(self);
        self.depth -= 1;
        result
    }

    /// The shared string of a name.
    pub fn name(&mut self, text: &'a str) -> Name {
        self.names.entry(text).or_insert_with(|| text.into()).clone()
    }

    /// The text from a byte to the end of the last token taken.
    pub fn text_since(&self, start: usize) -> &'a str {
        self.lexer.slice(start, self.last_end)
    }

    pub fn unexpected(&self, wanted: &str) -> Error {
        Error::new(self.token.at, format!("{wanted} is expected here, not {}", self.token.shown()))
    }

    /// The error for a directive that is not known where it stands.
    pub fn unknown_directive(&self) -> Error {
        let message = format!("the directive {} is not known here", self.token.shown());
        Error::new(self.token.at, message)
    }

    pub fn module(mut self) -> Result<Module, Error> {
        if !self.take_directive(".version")? {
            return Err(self.unexpected("`.version` at a module's beginning"));
        }
        let version = self.version()?;
        if !self.take_directive(".target")? {
            return Err(self.unexpected("`.target` after `.version`"));
        }
        let target = self.targets()?;
        let mut module = Module {
            version,
            target,
            address_size: 32,
            variables: Vec::new(),
            functions: Vec::new(),
            aliases: Vec::new(),
        };
        while self.token.kind != Kind::End {
            self.module_item(&mut module)?;
        }
        Ok(module)
    }

    fn module_item(&mut self, module: &mut Module) -> Result<(), Error> {
        if self.token.kind != Kind::Dotted {
            return Err(self.unexpected("a directive"));
        }
        if self.ignored_directive()? || self.take(";")? {
            return Ok(());
        }
        match self.token.text {
            ".version" => {
                self.advance()?;
                module.version = self.version()?;
            }
            ".target" => {
                self.advance()?;
                module.target.extend(self.targets()?);
            }
            ".address_size" => {
                self.advance()?;
                let at = self.token.at;
                module.address_size = self.count_u32("the size of addresses")?;
                if !matches!(module.address_size, 32 | 64) {
                    return Err(Error::new(at, "the size of addresses must be 32 or 64"));
                }
            }
            ".alias" => {
                self.advance()?;
                let name = self.word("a function's name")?;
                self.expect(",")?;
                let target = self.word("a function's name")?;
                self.expect(";")?;
                let (at, name) = (name.at, self.name(name.text));
                let target = self.name(target.text);
                module.aliases.push(Alias { name, target, at });
            }
            ".section" => self.section()?,
            _ => {
                let linkage = self.linkage()?;
                match self.token.text {
                    ".entry" | ".func" => {
                        let function = self.function(linkage)?;
                        module.functions.push(function);
                    }
                    _ => {
                        self.variables(linkage, &mut |variable| module.variables.push(variable))?
                    }
                }
            }
        }
        Ok(())
    }

    fn linkage(&mut self) -> Result<Linkage, Error> {
        let linkage = match (self.token.kind, self.token.text) {
            (Kind::Dotted, ".visible") => Linkage::Visible,
            (Kind::Dotted, ".extern") => Linkage::Extern,
            (Kind::Dotted, ".weak") => Linkage::Weak,
            (Kind::Dotted, ".common") => Linkage::Common,
            _ => return Ok(Linkage::Internal),
        };
        self.advance()?;
        Ok(linkage)
    }

    /// `8.3`
    fn version(&mut self) -> Result<(u32, u32), Error> {
        let token = self.token;
        let parts = token.text.split_once('.');
        let parts = parts.and_then(|(a, b)| Some((a.parse().ok()?, b.parse().ok()?)));
        match parts {
            Some(version) if token.kind == Kind::Number => {
                self.advance()?;
                Ok(version)
            }
            _ => Err(self.unexpected("a version such as `8.3`")),
        }
    }

    fn targets(&mut self) -> Result<Vec<Name>, Error> {
        self.separated(|parser| {
            let target = parser.word("a target such as `sm_80`")?;
            Ok(parser.name(target.text))
        })
    }

    /// Skips a directive that means nothing to a run, if one is next (PTX ISA 11.2 and 11.5).
    pub fn ignored_directive(&mut self) -> Result<bool, Error> {
        if self.token.kind != Kind::Dotted {
            return Ok(false);
        }
        match self.token.text {
            ".file" => {
                self.advance()?;
                self.plain_number()?;
                if self.token.kind != Kind::Quoted {
                    return Err(self.unexpected("a file's name in quotes"));
                }
                self.advance()?;
                while self.take(",")? {
                    self.plain_number()?;
                }
            }
            ".loc" => self.loc()?,
            ".pragma" => {
                self.advance()?;
                self.separated(|parser| match parser.token.kind {
                    Kind::Quoted => parser.advance(),
                    _ => Err(parser.unexpected("a string in quotes")),
                })?;
                self.expect(";")?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// `.loc file line column {, function_name label {+n}, inlined_at file line column}`
    fn loc(&mut self) -> Result<(), Error> {
        self.advance()?;
        for _ in 0..3 {
            self.plain_number()?;
        }
        while self.take(",")? {
            match self.word("`function_name` or `inlined_at`")?.text {
                "function_name" => {
                    self.word("a label")?;
                    if self.take("+")? {
                        self.plain_number()?;
                    }
                }
                "inlined_at" => {
                    for _ in 0..3 {
                        self.plain_number()?;
                    }
                }
                other => {
                    let message = format!("{} has no meaning in `.loc`", shown(other));
                    return Err(Error::new(self.token.at, message));
                }
            }
        }
        Ok(())
    }

    /// `.section .debug_info { .. }`
    fn section(&mut self) -> Result<(), Error> {
        self.advance()?;
        if self.token.kind != Kind::Dotted {
            return Err(self.unexpected("a section's name"));
        }
        self.advance()?;
        let open = self.expect("{")?;
        while !self.take("}")? {
            if self.token.kind == Kind::End || self.is("{") {
                return Err(Error::new(open.at, "the section is not closed"));
            }
            self.advance()?;
        }
        Ok(())
    }

    /// A number as a literal, without an expression: no sign, no operator.
    pub fn plain_number(&mut self) -> Result<u64, Error> {
        let token = self.token;
        if token.kind != Kind::Number {
            return Err(self.unexpected("a number"));
        }
        match number::read(&token)? {
            Value::Signed(value) if value >= 0 => {
                self.advance()?;
                Ok(value as u64)
            }
            _ => Err(self.unexpected("an integer below 2^63")),
        }
    }
}
