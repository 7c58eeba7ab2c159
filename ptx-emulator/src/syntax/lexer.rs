//! From text to tokens, one at a time (PTX ISA 4.1 to 4.4).

use super::Error;
use super::ast::Position;

/// What a token is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A name or opcode: `mov`, `%r1`, `$L__BB0_1`, `_`.
    Word,
    /// A point and what follows it: `.global`, `.2d`, `.shared::cluster`.
    Dotted,
    /// A number in any notation, not yet read.
    Number,
    /// `".."`, with its quotes.
    Quoted,
    /// An operator or a bracket.
    Mark,
    /// The end of the text.
    End,
}

/// A piece of the text.
#[derive(Clone, Copy, Debug)]
pub(super) struct Token<'a> {
    pub kind: Kind,
    pub text: &'a str,
    /// The byte at which it begins.
    pub start: usize,
    pub at: Position,
}

impl Token<'_> {
    /// The byte after its last one.
    pub fn end(&self) -> usize {
        self.start + self.text.len()
    }

    /// The token for a message: quoted, and not longer than a line.
    pub fn shown(&self) -> String {
        match self.kind {
            Kind::End => "the end of the text".to_owned(),
            _ => shown(self.text),
        }
    }
}

/// A piece of the text for a message.
pub(super) fn shown(text: &str) -> String {
    match text.char_indices().nth(60) {
        Some((end, _)) => format!("`{}..`", &text[..end]),
        None => format!("`{text}`"),
    }
}

pub(super) struct Lexer<'a> {
    text: &'a str,
    next: usize,
    line: u32,
    /// What is subtracted from a byte's offset to have its column from 0: where the line begins,
    /// plus the bytes since then that begin no character.
    line_start: usize,
}

impl<'a> Lexer<'a> {
    pub fn new(text: &'a str) -> Result<Self, Error> {
        let lexer = Self { text: text.trim_end_matches('\0'), next: 0, line: 1, line_start: 0 };
        if u32::try_from(text.len()).is_err() {
            return Err(Error::new(lexer.position(), "the text is longer than 4 GiB"));
        }
        Ok(lexer)
    }

    /// The text between two tokens' ends.
    pub fn slice(&self, start: usize, end: usize) -> &'a str {
        &self.text[start..end]
    }

    pub fn token(&mut self) -> Result<Token<'a>, Error> {
        self.skip_space()?;
        let bytes = self.text.as_bytes();
        let start = self.next;
        let at = self.position();
        let Some(&first) = bytes.get(start) else {
            return Ok(Token { kind: Kind::End, text: "", start, at });
        };
        let second = bytes.get(start + 1).copied().unwrap_or(0);
        let (kind, end) = match first {
            b'%' if !is_word(second) => (Kind::Mark, start + 1),
            b'a'..=b'z' | b'A'..=b'Z' | b'_' | b'$' | b'%' => {
                (Kind::Word, self.run(start + 1, is_word))
            }
            b'0'..=b'9' => (Kind::Number, self.number_end()),
            b'.' if is_word(second) => (Kind::Dotted, self.dotted_end()),
            b'"' => (Kind::Quoted, self.quoted_end(at)?),
            b'<' | b'>' if second == first => (Kind::Mark, start + 2),
            b'&' | b'|' if second == first => (Kind::Mark, start + 2),
            b'<' | b'>' | b'=' | b'!' if second == b'=' => (Kind::Mark, start + 2),
            b'{' | b'}' | b'[' | b']' | b'(' | b')' | b'<' | b'>' | b',' | b';' | b':' | b'|'
            | b'!' | b'@' | b'+' | b'-' | b'*' | b'/' | b'~' | b'^' | b'&' | b'?' | b'=' => {
                (Kind::Mark, start + 1)
            }
            _ => {
                let found = self.text[start..].chars().next().unwrap_or(' ');
                return Err(Error::new(at, format!("{found:?} has no meaning in PTX")));
            }
        };
        self.next = end;
        Ok(Token { kind, text: &self.text[start..end], start, at })
    }

    fn position(&self) -> Position {
        // Lexer::new has checked that the text's length is a u32.
        Position { line: self.line, column: (self.next - self.line_start) as u32 + 1 }
    }

    /// The end of the run of such bytes.
    fn run(&self, start: usize, of: fn(u8) -> bool) -> usize {
        let rest = &self.text.as_bytes()[start..];
        start + rest.iter().position(|&byte| !of(byte)).unwrap_or(rest.len())
    }

    /// `.word`, `.word::word`, `.word::word::word`: a single colon is not part of it.
    fn dotted_end(&self) -> usize {
        let bytes = self.text.as_bytes();
        let mut end = self.run(self.next + 1, is_word);
        while let [b':', b':', after, ..] = bytes[end..] {
            if !is_word(after) {
                break;
            }
            end = self.run(end + 2, is_word);
        }
        end
    }

    /// Digits, letters and one point; the sign of a decimal exponent. What it means is not asked.
    fn number_end(&self) -> usize {
        let bytes = self.text.as_bytes();
        let start = self.next;
        let mut end = self.run(start, is_word);
        if bytes[start..end].iter().all(u8::is_ascii_digit) && bytes.get(end) == Some(&b'.') {
            end = self.run(end + 1, is_word);
        }
        let radix = bytes.get(start + 1).is_some_and(|b| b"xXbBfFdD".contains(b));
        let exponent = matches!(bytes[end - 1], b'e' | b'E') && !radix;
        if exponent && matches!(bytes.get(end), Some(b'+' | b'-')) {
            end = self.run(end + 1, is_word);
        }
        end
    }

    /// No escapes: PTX has none, and nobody reads what is in the quotes.
    fn quoted_end(&mut self, at: Position) -> Result<usize, Error> {
        let bytes = self.text.as_bytes();
        let end = self.run(self.next + 1, |byte| byte != b'"' && byte != b'\n');
        if bytes.get(end) != Some(&b'"') {
            return Err(Error::new(at, "the quotes are not closed on this line"));
        }
        self.line_start += bytes[self.next..end].iter().filter(|&&b| continues(b)).count();
        Ok(end + 1)
    }

    fn skip_space(&mut self) -> Result<(), Error> {
        let bytes = self.text.as_bytes();
        while let Some(&byte) = bytes.get(self.next) {
            match byte {
                b'\n' => self.new_line(),
                b' ' | b'\t' | b'\r' | 0x0b | 0x0c => self.next += 1,
                b'/' if bytes.get(self.next + 1) == Some(&b'/') => {
                    // Characters of several bytes do not matter: no token follows on the line.
                    self.next = self.run(self.next, |byte| byte != b'\n');
                }
                b'/' if bytes.get(self.next + 1) == Some(&b'*') => self.skip_comment()?,
                _ => break,
            }
        }
        Ok(())
    }

    fn new_line(&mut self) {
        self.next += 1;
        self.line += 1;
        self.line_start = self.next;
    }

    /// `/* .. */`, which does not nest.
    fn skip_comment(&mut self) -> Result<(), Error> {
        let bytes = self.text.as_bytes();
        let at = self.position();
        self.next += 2;
        while let Some(&byte) = bytes.get(self.next) {
            if byte == b'*' && bytes.get(self.next + 1) == Some(&b'/') {
                self.next += 2;
                return Ok(());
            }
            if byte == b'\n' {
                self.new_line();
            } else {
                self.next += 1;
                self.line_start += usize::from(continues(byte));
            }
        }
        Err(Error::new(at, "the comment is not closed"))
    }
}

/// Whether a name may go on with this byte (PTX ISA 4.4).
fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'$'
}

/// Whether the byte is inside a UTF-8 character, not its first.
fn continues(byte: u8) -> bool {
    byte & 0xc0 == 0x80
}
