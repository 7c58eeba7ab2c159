//! What is said, to whoever still reads it.

use std::fmt::Arguments;
use std::io::{self, ErrorKind, Write};

/// Prints a line, as `println!`; a reader that has gone (`cargo xtask doctor | head -1`) is no
/// error, and what is done goes on.
macro_rules! say {
    ($($text:tt)*) => { crate::say::line(std::io::stdout(), format_args!($($text)*)) };
}

/// The same on stderr.
macro_rules! note {
    ($($text:tt)*) => { crate::say::line(std::io::stderr(), format_args!($($text)*)) };
}

pub fn line(mut to: impl Write, text: Arguments<'_>) -> io::Result<()> {
    match writeln!(to, "{text}") {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        done => done,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_may_go() {
        let (reader, writer) = io::pipe().unwrap();
        drop(reader);
        line(writer, format_args!("nobody reads this")).unwrap();
        line(&mut [0; 2][..], format_args!("no room")).unwrap_err();
    }
}
