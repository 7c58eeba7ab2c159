//! From the text of PTX to a syntax tree.
//!
//! A lexer and a recursive-descent parser, both written by hand: PTX needs one token of look-ahead.
//! They know the grammar of declarations and the shapes of operands, and nothing of opcodes. Time
//! and memory are linear in the length of the text, nesting is limited, and no text panics.

pub mod ast;
mod constant;
mod declaration;
mod function;
mod lexer;
mod number;
mod operand;
mod parser;
mod statement;
#[cfg(test)]
mod tests;

use std::fmt;

/// Why a text is not PTX, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// What is wrong, for a reader of the text.
    pub message: String,
    /// The line, from 1.
    pub line: u32,
    /// The column in characters, from 1.
    pub column: u32,
}

impl Error {
    /// An error at a place.
    pub fn new(at: ast::Position, message: impl Into<String>) -> Self {
        Self { message: message.into(), line: at.line, column: at.column }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}: {}", self.line, self.column, self.message)
    }
}

impl std::error::Error for Error {}

/// Reads a module. A closing NUL, as drivers expect it, may end the text.
///
/// # Errors
/// The first place that the grammar of PTX does not allow, or that this parser does not know.
pub fn parse(text: &str) -> Result<ast::Module, Error> {
    parser::Parser::new(text)?.module()
}
