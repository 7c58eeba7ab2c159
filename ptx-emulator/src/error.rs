//! Errors that come before a kernel runs: of the text, of the host's memory calls.

use crate::syntax::ast::Position;
use std::fmt;

/// What kind of error it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// The text isn't PTX.
    Syntax,
    /// The text is PTX, but it names what isn't declared, or combines what can't be combined.
    Invalid,
    /// The text may be PTX, but this emulator doesn't know an instruction, modifier or directive of
    /// it. The message names it.
    Unsupported,
    /// A call of the host names memory that it doesn't own, or asks for more than there is.
    Memory,
}

/// An error with its place in the text, if it has one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// What kind of error it is.
    pub kind: ErrorKind,
    /// What is wrong.
    pub message: String,
    /// Line and column, both from 1.
    pub at: Option<Position>,
}

impl Error {
    /// An error of the text.
    pub(crate) fn new(kind: ErrorKind, at: Position, message: impl Into<String>) -> Error {
        Error { kind, message: message.into(), at: Some(at) }
    }

    /// Names of what isn't declared, impossible combinations.
    pub(crate) fn invalid(at: Position, message: impl Into<String>) -> Error {
        Error::new(ErrorKind::Invalid, at, message)
    }

    /// What this emulator doesn't know.
    pub(crate) fn unsupported(at: Position, message: impl Into<String>) -> Error {
        Error::new(ErrorKind::Unsupported, at, message)
    }

    /// A mistake of a call of the host.
    pub(crate) fn memory(message: impl Into<String>) -> Error {
        Error { kind: ErrorKind::Memory, message: message.into(), at: None }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(at) = self.at {
            write!(f, "line {}, column {}: ", at.line, at.column)?;
        }
        if self.kind == ErrorKind::Unsupported {
            write!(f, "not supported: ")?;
        }
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}
