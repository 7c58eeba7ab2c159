//! Bodies: declarations, labels and instructions (PTX ISA 4.3 and 9.3).

use std::sync::Arc;

use super::Error;
use super::ast::{Guard, Instruction, Label, Linkage, Prototype, Statement, Targets};
use super::lexer::{Kind, Token};
use super::parser::{Operation, Parser};

/// More than any instruction has; who looks them up may count on it.
const MAX_MODIFIERS: usize = 32;

impl<'a> Parser<'a> {
    /// `{ .. }`
    pub fn block(&mut self) -> Result<Vec<Statement>, Error> {
        let open = self.expect("{")?;
        self.nested(|parser| {
            let mut statements = Vec::new();
            while !parser.take("}")? {
                if parser.token.kind == Kind::End {
                    return Err(Error::new(open.at, "this brace is not closed"));
                }
                parser.statement(&mut statements)?;
            }
            Ok(statements)
        })
    }

    fn statement(&mut self, statements: &mut Vec<Statement>) -> Result<(), Error> {
        match (self.token.kind, self.token.text) {
            (Kind::Mark, ";") => {
                self.advance()?;
            }
            (Kind::Mark, "{") => {
                let block = self.block()?;
                statements.push(Statement::Block(block));
            }
            (Kind::Mark, "@") => {
                self.advance()?;
                let negated = self.take("!")?;
                let register = self.word("a predicate register")?;
                let guard = Guard { register: self.name(register.text), negated };
                let opcode = self.word("an instruction")?;
                self.instruction(Some(guard), opcode, statements)?;
            }
            (Kind::Word, _) => {
                let word = self.advance()?;
                match self.take(":")? {
                    true => self.labelled(word, statements)?,
                    false => self.instruction(None, word, statements)?,
                }
            }
            (Kind::Dotted, ".reg") => {
                let registers = self.registers()?;
                statements.push(Statement::Registers(registers));
            }
            (Kind::Dotted, _) => {
                if !self.ignored_directive()? {
                    let mut add = |variable| statements.push(Statement::Variable(variable));
                    self.variables(Linkage::Internal, &mut add)?;
                }
            }
            _ => return Err(self.unexpected("a statement")),
        }
        Ok(())
    }

    /// What may follow `name:`.
    fn labelled(&mut self, label: Token<'a>, statements: &mut Vec<Statement>) -> Result<(), Error> {
        let name = self.name(label.text);
        let at = label.at;
        if self.take_directive(".branchtargets")? {
            let targets = self.target_list("a label")?;
            statements.push(Statement::BranchTargets(Targets { name, targets, at }));
        } else if self.take_directive(".calltargets")? {
            let targets = self.target_list("a function's name")?;
            statements.push(Statement::CallTargets(Targets { name, targets, at }));
        } else if self.take_directive(".callprototype")? {
            let returns = if self.is("(") { self.parameters()? } else { Vec::new() };
            if self.word("`_` in the place of the function's name")?.text != "_" {
                return Err(Error::new(at, "a prototype names its function `_`"));
            }
            let parameters = if self.is("(") { self.parameters()? } else { Vec::new() };
            let no_return = self.take_directive(".noreturn")?;
            while self.token.kind == Kind::Dotted {
                match self.token.text {
                    ".abi_preserve" | ".abi_preserve_control" => {
                        self.advance()?;
                        self.plain_number()?;
                    }
                    _ => return Err(self.unknown_directive()),
                }
            }
            self.expect(";")?;
            let prototype = Prototype { name, returns, parameters, no_return, at };
            statements.push(Statement::CallPrototype(prototype));
        } else {
            statements.push(Statement::Label(Label { name, at }));
        }
        Ok(())
    }

    fn target_list(&mut self, what: &str) -> Result<Vec<super::ast::Name>, Error> {
        let targets = self.separated(|parser| {
            let token = parser.word(what)?;
            Ok(parser.name(token.text))
        })?;
        self.expect(";")?;
        Ok(targets)
    }

    /// From behind the opcode on.
    fn instruction(
        &mut self,
        guard: Option<Guard>,
        word: Token<'a>,
        statements: &mut Vec<Statement>,
    ) -> Result<(), Error> {
        let (opcode, modifiers) = self.operation(word)?;
        let operands = if self.is(";") { Vec::new() } else { self.operands(&opcode)? };
        self.expect(";")?;
        let at = word.at;
        statements.push(Statement::Instruction(Instruction {
            guard,
            opcode,
            modifiers,
            operands,
            at,
        }));
        Ok(())
    }

    /// The opcode and its modifiers.
    fn operation(&mut self, word: Token<'a>) -> Result<Operation, Error> {
        let mut modifiers = Vec::new();
        while self.token.kind == Kind::Dotted {
            modifiers.push(self.advance()?.text);
            if modifiers.len() > MAX_MODIFIERS {
                let message = format!("more than {MAX_MODIFIERS} modifiers of an instruction");
                return Err(Error::new(word.at, message));
            }
        }
        let text = self.text_since(word.start);
        if let Some(operation) = self.operations.get(text) {
            return Ok(operation.clone());
        }
        let names = modifiers.iter().map(|modifier| self.name(&modifier[1..]));
        let modifiers: Arc<[_]> = names.collect::<Vec<_>>().into();
        let operation = (self.name(word.text), modifiers);
        self.operations.insert(text, operation.clone());
        Ok(operation)
    }
}
