//! As much of Rust's grammar as the rules need: where the code is, and where a function begins and
//! ends.

/// A function with a body.
#[derive(Debug, PartialEq)]
pub struct Function {
    pub name: String,
    /// Line of the word `fn`, from 1.
    pub line: usize,
    /// Lines from there to the closing brace, both counted.
    pub lines: usize,
}

/// `source` with comments and the contents of strings and characters replaced by spaces; lines stay
/// where they are.
pub fn code_only(source: &str) -> String {
    let chars: Vec<char> = source.chars().collect();
    let mut code = String::with_capacity(source.len());
    let mut at = 0;
    while at < chars.len() {
        let end = skipped_until(&chars, at);
        if end > at {
            code.extend(chars[at..end].iter().map(|&c| if c == '\n' { '\n' } else { ' ' }));
            at = end;
        } else {
            code.push(chars[at]);
            at += 1;
        }
    }
    code
}

/// Where the comment, string or character that begins at `at` ends; `at` itself where none does.
fn skipped_until(chars: &[char], at: usize) -> usize {
    let next = chars.get(at + 1);
    match chars[at] {
        '/' if next == Some(&'/') => find(chars, at, |rest| rest[0] == '\n').unwrap_or(chars.len()),
        '/' if next == Some(&'*') => block_comment_end(chars, at),
        '"' => quoted_end(chars, at, '"'),
        'r' if at == 0 || !continues_name(chars[at - 1]) || "bc".contains(chars[at - 1]) => {
            raw_string_end(chars, at).unwrap_or(at)
        }
        // 'a' and '\n' are characters; 'a alone is a lifetime.
        '\'' if next == Some(&'\\') || chars.get(at + 2) == Some(&'\'') => {
            quoted_end(chars, at, '\'')
        }
        _ => at,
    }
}

fn find(chars: &[char], from: usize, is_end: impl Fn(&[char]) -> bool) -> Option<usize> {
    (from..chars.len()).find(|&at| is_end(&chars[at..]))
}

fn block_comment_end(chars: &[char], start: usize) -> usize {
    let mut depth = 0;
    let mut at = start;
    while at < chars.len() {
        match &chars[at..chars.len().min(at + 2)] {
            ['/', '*'] => (depth, at) = (depth + 1, at + 2),
            ['*', '/'] => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            break;
        }
    }
    at
}

fn quoted_end(chars: &[char], start: usize, quote: char) -> usize {
    let mut at = start + 1;
    while at < chars.len() && chars[at] != quote {
        at += if chars[at] == '\\' { 2 } else { 1 };
    }
    (at + 1).min(chars.len())
}

fn raw_string_end(chars: &[char], start: usize) -> Option<usize> {
    let quote = find(chars, start + 1, |rest| rest[0] != '#')?;
    if chars[quote] != '"' {
        return None;
    }
    let hashes = quote - start - 1;
    let closes = |rest: &[char]| {
        rest[0] == '"' && rest.len() > hashes && rest[1..=hashes].iter().all(|&c| c == '#')
    };
    find(chars, quote + 1, closes).map(|end| end + 1 + hashes)
}

/// True where `c` may stand inside a name.
pub fn continues_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// The functions with a body in `code`, which went through [`code_only`]; those inside others and
/// in macros too.
pub fn functions(code: &str) -> Vec<Function> {
    let mut functions = Vec::new();
    for (start, _) in code.match_indices("fn ") {
        let is_word = !code[..start].ends_with(continues_name);
        // In a macro a name may be `$name`.
        let in_name = |&c: &char| continues_name(c) || c == '$';
        let name: String = code[start + 3..].chars().take_while(in_name).collect();
        // A type such as `fn (u32)` has no name.
        if !is_word || name.is_empty() {
            continue;
        }
        if let Some(end) = body_end(&code[start..]) {
            let line = 1 + newlines(&code[..start]);
            let lines = 1 + newlines(&code[start..start + end]);
            functions.push(Function { name, line, lines });
        }
    }
    functions
}

fn newlines(text: &str) -> usize {
    text.matches('\n').count()
}

/// The index after the brace that closes the function at the start of `code`; `None` where it has
/// no body.
fn body_end(code: &str) -> Option<usize> {
    let mut brackets = 0;
    let mut braces = 0;
    for (at, c) in code.char_indices() {
        match c {
            '(' | '[' => brackets += 1,
            ')' | ']' => brackets -= 1,
            ';' if brackets == 0 && braces == 0 => return None,
            '{' => braces += 1,
            '}' => {
                braces -= 1;
                if braces == 0 && brackets == 0 {
                    return Some(at + 1);
                }
            }
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_strings_and_characters_are_blank() {
        let blank = |text: &str| code_only(text).trim().is_empty();
        for text in [
            "// a {",
            "/* a /* b */ { */",
            "\"a \\\" {\"",
            "r#\"a \" { \"#",
            "r\"\\\"",
            "'{'",
            "'\\''",
            "'\\u{7b}'",
            "/* never closed {",
            "\"never closed {",
        ] {
            assert!(blank(text), "{text}: {:?}", code_only(text));
        }
        for text in ["'a", "&'static str", "r#fn", "a / b", "for"] {
            assert_eq!(code_only(text), text);
        }
        assert_eq!(code_only("x\n// é\ny"), "x\n    \ny");
    }

    #[test]
    fn functions_are_measured() {
        let source = "fn one() {}\n\n\
             pub fn two(x: [u8; 2]) -> fn(u8) -> u8 {\n    if x { \"}\"; }\n}\n\
             trait T { fn none(&self); }\n";
        let function = |name: &str, line, lines| Function { name: name.into(), line, lines };
        let expected = [function("one", 1, 1), function("two", 3, 3)];
        assert_eq!(functions(&code_only(source)), expected);
        let of_macro = "macro_rules! m {\n    ($name:ident) => {\n        fn $name() {\n        }\n\
                        pub fn $name<$t>() {}\n    };\n}\n";
        let expected = [function("$name", 3, 2), function("$name", 5, 1)];
        assert_eq!(functions(of_macro), expected);
    }
}
