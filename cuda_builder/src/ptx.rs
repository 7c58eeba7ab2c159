//! Reading and finishing PTX text: the entries of a module, the directives that `#[kernel]` asks
//! for, and the facts that the builder vouches for.
//!
//! This works on the text that LLVM writes and on hand-written inline assembly in it. It is not
//! a PTX compiler: only `ptxas` and the driver accept or refuse a module.

use std::ops::Range;

mod checks;
mod directives;

pub use checks::{Expectations, check};
pub use directives::apply_kernel_lines;

/// What is wrong with a PTX text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PtxProblem {
    /// The text lacks a directive that every module has.
    #[error("there is no `{0}` directive")]
    Missing(&'static str),
    /// The module needs a newer PTX than was asked for.
    #[error(
        "it says `.version {}.{}`, but no more than {}.{} was asked for",
        .found.0, .found.1, .asked.0, .asked.1
    )]
    Version {
        /// As the text says, (major, minor).
        found: (u32, u32),
        /// As was asked for.
        asked: (u32, u32),
    },
    /// The module is for another target.
    #[error("it says `.target {found}`, but `{asked}` was asked for")]
    Target {
        /// As the text says.
        found: String,
        /// As was asked for.
        asked: String,
    },
    /// Something is kept in local memory, which is as slow as global memory.
    #[error(
        "line {line}, in `{function}`: local memory is used (`{text}`); the usual causes are an \
         array indexed by what is no constant after unrolling, an array iterated by value, and a \
         reference to a variable"
    )]
    Local {
        /// Line number in the compiler's text, from 1.
        line: usize,
        /// The function, or `module` outside of functions.
        function: String,
        /// The instruction or declaration.
        text: String,
    },
    /// A function is called.
    #[error(
        "line {line}, in `{function}`: a function is called (`{text}`); `#[inline(always)]` on it \
         is the remedy"
    )]
    Call {
        /// Line number in the compiler's text, from 1.
        line: usize,
        /// The calling function.
        function: String,
        /// The instruction.
        text: String,
    },
    /// Shared memory is reached through a generic address, which costs a fifth of the speed.
    #[error(
        "line {line}, in `{function}`: shared memory is reached by a generic address (`{text}`); \
         read and write it through `SharedPtr`"
    )]
    GenericShared {
        /// Line number in the compiler's text, from 1.
        line: usize,
        /// The function.
        function: String,
        /// The instruction.
        text: String,
    },
    /// A `//@kernel` line is not as `#[kernel]` writes it.
    #[error("`{line}`: {reason}")]
    KernelLine {
        /// The line.
        line: String,
        /// What is wrong with it.
        reason: String,
    },
}

/// A kernel of a module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The name to look it up by.
    pub name: String,
    /// The parameters, in order.
    pub params: Vec<Param>,
    /// The performance directives between the parameter list and the body, such as
    /// `.maxntid 256, 1, 1`, with single spaces.
    pub directives: Vec<String>,
}

/// A parameter of a kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Param {
    /// Size in bytes.
    pub bytes: usize,
    /// Alignment in bytes.
    pub align: usize,
}

/// The kernels of a module, in the order of the text. Declarations without a body are left out.
pub fn entries(ptx: &str) -> Vec<Entry> {
    let code = without_comments(ptx);
    headers(&code)
        .into_iter()
        .map(|header| Entry {
            name: header.name.to_owned(),
            params: split_params(&code[header.params.clone()]),
            directives: split_directives(&code[header.directives.clone()]),
        })
        .collect()
}

/// The `.version` of a module, as (major, minor).
pub fn version(ptx: &str) -> Option<(u32, u32)> {
    let code = without_comments(ptx);
    let text = code.lines().find_map(|line| line.trim().strip_prefix(".version"))?;
    let (major, minor) = text.trim().split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// Where the parts of an entry's header lie in the text.
struct Header<'a> {
    name: &'a str,
    params: Range<usize>,
    /// From the end of the parameter list to the `{`.
    directives: Range<usize>,
}

/// The headers of all entries with a body, in comment-free text.
fn headers(code: &str) -> Vec<Header<'_>> {
    let mut found = Vec::new();
    for (at, word) in code.match_indices(".entry") {
        let rest = &code[at + word.len()..];
        if !rest.starts_with(|c: char| c.is_whitespace()) {
            continue;
        }
        let name_at = at + word.len() + (rest.len() - rest.trim_start().len());
        let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '$' | '%');
        let name = &code[name_at..];
        let name = &name[..name.find(|c| !is_name(c)).unwrap_or(name.len())];
        let name_end = name_at + name.len();
        let Some(body) = code[name_end..].find(['{', ';']).map(|i| name_end + i) else { continue };
        if code.as_bytes()[body] == b';' {
            continue;
        }
        let between = &code[name_end..body];
        let (params, directives) = match (between.find('('), between.rfind(')')) {
            (Some(open), Some(close)) if open < close => {
                (name_end + open + 1..name_end + close, name_end + close + 1..body)
            }
            _ => (name_end..name_end, name_end..body),
        };
        found.push(Header { name, params, directives });
    }
    found
}

fn split_params(list: &str) -> Vec<Param> {
    list.split(',').filter(|param| !param.trim().is_empty()).map(parse_param).collect()
}

/// Reads `.param .u64 .ptr .align 1 f_param_0` or `.param .align 16 .b8 p[128]`.
fn parse_param(text: &str) -> Param {
    let words: Vec<&str> = text.split_whitespace().collect();
    let element = words.iter().find_map(|word| type_bytes(word)).unwrap_or(0);
    let count = text
        .split_once('[')
        .and_then(|(_, rest)| rest.split_once(']'))
        .and_then(|(count, _)| count.trim().parse().ok())
        .unwrap_or(1);
    // `.align` after `.ptr` is about what the pointer points to.
    let own = words.iter().take_while(|word| **word != ".ptr");
    let align = own
        .skip_while(|word| **word != ".align")
        .nth(1)
        .and_then(|align| align.parse().ok())
        .unwrap_or(element);
    Param { bytes: element * count, align }
}

/// Size of a fundamental type such as `.b32`.
fn type_bytes(word: &str) -> Option<usize> {
    let word = word.strip_prefix('.')?;
    let digits = word.strip_prefix("bf").or_else(|| word.strip_prefix(['b', 'u', 's', 'f']))?;
    match digits {
        "8" => Some(1),
        "16" => Some(2),
        "32" => Some(4),
        "64" => Some(8),
        "128" => Some(16),
        _ => None,
    }
}

fn split_directives(text: &str) -> Vec<String> {
    let mut directives: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match directives.last_mut() {
            Some(last) if !word.starts_with('.') => {
                last.push(' ');
                last.push_str(word);
            }
            _ => directives.push(word.to_owned()),
        }
    }
    directives
}

/// The same text with comments blanked out, byte for byte, so that positions stay true.
fn without_comments(ptx: &str) -> String {
    let mut code = ptx.as_bytes().to_vec();
    let blank = |code: &mut Vec<u8>, range: Range<usize>| {
        for byte in &mut code[range] {
            if *byte != b'\n' {
                *byte = b' ';
            }
        }
    };
    let mut at = 0;
    while at < ptx.len() {
        let rest = &ptx.as_bytes()[at..];
        let length = |found: Option<usize>, skip: usize| found.map_or(rest.len(), |i| i + skip);
        if rest.starts_with(b"//") {
            let end = at + length(rest.iter().position(|&b| b == b'\n'), 0);
            blank(&mut code, at..end);
            at = end;
        } else if rest.starts_with(b"/*") {
            let end = at + length(rest[2..].windows(2).position(|w| w == b"*/"), 4);
            blank(&mut code, at..end);
            at = end;
        } else if rest[0] == b'"' {
            at += 1 + length(rest[1..].iter().position(|&b| b == b'"'), 1).min(rest.len() - 1);
        } else {
            at += 1;
        }
    }
    String::from_utf8_lossy(&code).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MODULE: &str = r#"
//
// Generated by LLVM NVPTX Back-End
//
.version 7.0
.target sm_70
.address_size 64
// .entry not_this_one(
.visible .entry first(
	.param .u64 .ptr .align 1 first_param_0,
	.param .u32 first_param_1,
	.param .align 16 .b8 first_param_2[128] // a struct
)
.maxntid 256, 1, 1
.minnctapersm 2
{
	ret;
}
.extern .entry declared(.param .f32 x);
.visible .entry second()
{
	ret;
}
.entry bare { ret; }
.file 1 "/a//b.rs"
.entry last(.param .bf16 h, .param .b128 w) { /* .entry no() { } */ ret; }
"#;

    #[test]
    fn entries_with_their_parameters() {
        let entries = entries(MODULE);
        let names: Vec<_> = entries.iter().map(|entry| entry.name.as_str()).collect();
        assert_eq!(names, ["first", "second", "bare", "last"]);
        let param = |bytes, align| Param { bytes, align };
        assert_eq!(entries[0].params, [param(8, 8), param(4, 4), param(128, 16)]);
        assert_eq!(entries[0].directives, [".maxntid 256, 1, 1", ".minnctapersm 2"]);
        assert!(entries[1].params.is_empty() && entries[1].directives.is_empty());
        assert!(entries[2].params.is_empty());
        assert_eq!(entries[3].params, [param(2, 2), param(16, 16)]);
    }

    #[test]
    fn comments_go_and_positions_stay() {
        let text = "a // b\n\"x//y\" /* c\nd */ e // f";
        let code = without_comments(text);
        assert_eq!(code, "a     \n\"x//y\"     \n     e     ");
        assert_eq!(without_comments("/* open"), "       ");
        assert_eq!(without_comments("\"open //"), "\"open //");
        assert!(entries("").is_empty() && entries(".entry").is_empty());
    }
}
