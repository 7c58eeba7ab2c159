//! Kernels and device functions (PTX ISA 11.2 to 11.4 and chapter 7).

use super::Error;
use super::ast::{Directives, Function, FunctionKind, Linkage};
use super::lexer::Kind;
use super::parser::Parser;

impl Parser<'_> {
    /// From `.entry` or `.func` on.
    pub fn function(&mut self, linkage: Linkage) -> Result<Function, Error> {
        let kind = match self.advance()?.text {
            ".entry" => FunctionKind::Entry,
            _ => FunctionKind::Device,
        };
        if self.token.kind == Kind::Dotted && self.token.text == ".attribute" {
            self.attributes()?;
        }
        let returns = match kind == FunctionKind::Device && self.is("(") {
            true => self.parameters()?,
            false => Vec::new(),
        };
        let token = self.word("a function's name")?;
        let parameters = if self.is("(") { self.parameters()? } else { Vec::new() };
        let directives = self.function_directives()?;
        let body = match self.take(";")? {
            true => None,
            false => Some(self.block()?),
        };
        let name = self.name(token.text);
        Ok(Function { kind, name, linkage, returns, parameters, directives, body, at: token.at })
    }

    fn function_directives(&mut self) -> Result<Directives, Error> {
        let mut directives = Directives::default();
        while self.token.kind == Kind::Dotted {
            if self.ignored_directive()? {
                continue;
            }
            match self.token.text {
                ".maxntid" => directives.max_threads = Some(self.extent()?),
                ".reqntid" => directives.required_threads = Some(self.extent()?),
                ".reqnctapercluster" => directives.required_cluster = Some(self.extent()?),
                ".minnctapersm" => directives.min_blocks = Some(self.one()?),
                ".maxnctapersm" => directives.max_blocks = Some(self.one()?),
                ".maxnreg" => directives.max_registers = Some(self.one()?),
                ".maxclusterrank" => directives.max_cluster_rank = Some(self.one()?),
                ".explicitcluster" => {
                    self.advance()?;
                    directives.explicit_cluster = true;
                }
                ".blocksareclusters" => {
                    self.advance()?;
                    directives.blocks_are_clusters = true;
                }
                ".noreturn" => {
                    self.advance()?;
                    directives.no_return = true;
                }
                // How registers are saved over a call: without meaning for virtual registers.
                ".abi_preserve" | ".abi_preserve_control" => {
                    self.one()?;
                }
                _ => return Err(self.unknown_directive()),
            }
        }
        Ok(directives)
    }

    /// The number after a directive.
    fn one(&mut self) -> Result<u32, Error> {
        let directive = self.advance()?;
        self.count_u32(&format!("the number of `{}`", directive.text))
    }

    /// The one to three numbers after a directive.
    fn extent(&mut self) -> Result<[u32; 3], Error> {
        let directive = self.advance()?;
        let what = format!("a number of `{}`", directive.text);
        let numbers = self.separated(|parser| parser.count_u32(&what))?;
        match numbers[..] {
            [x] => Ok([x, 1, 1]),
            [x, y] => Ok([x, y, 1]),
            [x, y, z] => Ok([x, y, z]),
            _ => {
                let message = format!("`{}` takes one to three numbers", directive.text);
                Err(Error::new(directive.at, message))
            }
        }
    }
}
