//! Facts of a finished module that the builder vouches for.

use std::collections::HashSet;

use super::{PtxProblem, version, without_comments};

/// What a module must be like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expectations {
    /// The highest `.version` allowed, as (major, minor).
    pub version: (u32, u32),
    /// The `.target`, such as `sm_70`.
    pub target: String,
    /// Whether local memory may be used.
    pub allow_local: bool,
    /// Whether functions may be called.
    pub allow_call: bool,
}

/// Checks a module:
///
/// - `.version` is no higher than asked, `.target` is the asked one;
/// - unless allowed, nothing declares, reads or writes local memory (any `.local`), and nothing
///   is called (`call`);
/// - no instruction makes a generic address of a shared one (`cvta.shared`), and none of `ld`,
///   `st`, `atom`, `red` without a state space has an address that comes from the name of a
///   shared variable, directly or through `mov`, `add`, `sub`, `mad`, `cvt`, `selp`, `and`,
///   `or`, `xor` in the same function.
///
/// The limit of the last check: an address that went through memory, a parameter, a call or
/// another instruction is not followed.
///
/// # Errors
/// The first problem in the order of the text; the line is the line of `ptx`.
pub fn check(ptx: &str, expected: &Expectations) -> Result<(), PtxProblem> {
    let code = without_comments(ptx);
    check_header(&code, expected)?;
    let statements = statements(&code);
    for statement in &statements {
        let words = opcode(statement.text);
        let opcode = words.split('.').next().unwrap_or_default();
        if !expected.allow_local && has_local(statement.text) {
            return Err(statement.local());
        }
        if !expected.allow_call && opcode == "call" {
            return Err(statement.call());
        }
        if words.starts_with("cvta.shared") {
            return Err(statement.generic_shared());
        }
    }
    check_shared_addresses(&statements)
}

fn check_header(code: &str, expected: &Expectations) -> Result<(), PtxProblem> {
    let found = version(code).ok_or(PtxProblem::Missing(".version"))?;
    if found > expected.version {
        return Err(PtxProblem::Version { found, asked: expected.version });
    }
    let target = code.lines().find_map(|line| line.trim().strip_prefix(".target"));
    let target = target.ok_or(PtxProblem::Missing(".target"))?;
    let target = target.split(',').next().unwrap_or_default().trim();
    if target != expected.target {
        let (found, asked) = (target.to_owned(), expected.target.clone());
        return Err(PtxProblem::Target { found, asked });
    }
    Ok(())
}

/// An instruction, declaration or directive.
struct Statement<'a> {
    line: usize,
    function: &'a str,
    text: &'a str,
}

impl Statement<'_> {
    fn parts(&self) -> (usize, String, String) {
        let text: Vec<&str> = self.text.split_whitespace().collect();
        (self.line, self.function.to_owned(), text.join(" "))
    }

    fn local(&self) -> PtxProblem {
        let (line, function, text) = self.parts();
        PtxProblem::Local { line, function, text }
    }

    fn call(&self) -> PtxProblem {
        let (line, function, text) = self.parts();
        PtxProblem::Call { line, function, text }
    }

    fn generic_shared(&self) -> PtxProblem {
        let (line, function, text) = self.parts();
        PtxProblem::GenericShared { line, function, text }
    }
}

/// Splits comment-free text at `;`, `{`, `}` and after labels, and notes which function each
/// statement is in. Braces inside of operands (vectors) do not split.
fn statements(code: &str) -> Vec<Statement<'_>> {
    let mut found = Vec::new();
    let mut function = "module";
    let mut depth = 0;
    let mut in_section = false;
    let mut start = 0;
    let mut line = 1;
    let mut start_line = 1;
    for (at, byte) in code.bytes().enumerate() {
        if byte == b'\n' {
            line += 1;
        }
        let text = code[start..at].trim_start();
        if text.is_empty() {
            start = at;
            start_line = line;
        }
        let text = text.trim_end();
        let ends = match byte {
            b';' => true,
            b':' => is_label(text) && !code[at + 1..].starts_with(':'),
            // Directives such as `.version 7.0` and `.loc 1 2 3` end with their line.
            b'\n' => {
                text.starts_with('.')
                    && !text.contains(".entry")
                    && !text.contains(".func")
                    && depth == 0
                    && ends_with_line(text)
                    || text.starts_with(".loc")
                    || text.starts_with(".file")
            }
            b'{' => text.is_empty() || is_function(text) || is_section(text),
            b'}' => text.is_empty() || in_section,
            _ => false,
        };
        if !ends {
            continue;
        }
        if byte == b'{' {
            if is_function(text) {
                function = function_name(text);
            }
            in_section = is_section(text);
            depth += 1;
        }
        if !text.is_empty() {
            found.push(Statement { line: start_line, function, text });
        }
        if byte == b'}' {
            in_section = false;
            depth -= 1;
            if depth <= 0 {
                depth = 0;
                function = "module";
            }
        }
        start = at + 1;
        start_line = line;
    }
    found
}

fn ends_with_line(text: &str) -> bool {
    [".version", ".target", ".address_size"].iter().any(|word| text.starts_with(word))
}

fn is_label(text: &str) -> bool {
    !text.is_empty()
        && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '$' | '%'))
}

fn is_function(text: &str) -> bool {
    text.starts_with('.') && (text.contains(".entry") || text.contains(".func"))
}

fn is_section(text: &str) -> bool {
    text.starts_with(".section")
}

/// `f` of `.visible .entry f(...)` and of `.func (.param .b32 r) f(...)`.
fn function_name(text: &str) -> &str {
    let after = text.split_once(".entry").or_else(|| text.split_once(".func"));
    let mut rest = after.map_or("", |(_, rest)| rest).trim_start();
    if rest.starts_with('(') {
        rest = rest.split_once(')').map_or("", |(_, rest)| rest).trim_start();
    }
    rest.split(|c: char| c == '(' || c.is_whitespace()).next().unwrap_or_default()
}

/// `ld.global.b32` of `@%p1 ld.global.b32 %r1, [%rd1];`.
fn opcode(statement: &str) -> &str {
    let mut words = statement.split_whitespace();
    match words.next() {
        Some(guard) if guard.starts_with('@') => words.next().unwrap_or_default(),
        first => first.unwrap_or_default(),
    }
}

/// Whether `.local` is among the dotted parts of the words (`ld.local.b32`, `.local .align`).
fn has_local(statement: &str) -> bool {
    statement
        .split_whitespace()
        .filter(|word| word.contains('.'))
        .any(|word| word.split('.').skip(1).any(|part| part == "local"))
}

/// The names of variables in shared memory: `.shared .align 16 .b8 NAME[64]`.
fn shared_variables<'a>(statements: &[Statement<'a>]) -> HashSet<&'a str> {
    let declarations = statements.iter().filter(|statement| {
        let first = statement
            .text
            .split_whitespace()
            .find(|word| !matches!(*word, ".extern" | ".visible" | ".weak" | ".common"));
        first == Some(".shared")
    });
    declarations
        .filter_map(|statement| {
            let text = statement.text.split(['[', '=']).next()?;
            text.split_whitespace().last()
        })
        .collect()
}

/// The instructions through which an address is followed.
const ADDRESS_MATH: [&str; 10] =
    ["mov", "add", "sub", "mad", "cvt", "cvta", "selp", "and", "or", "xor"];

fn check_shared_addresses(statements: &[Statement]) -> Result<(), PtxProblem> {
    let shared = shared_variables(statements);
    if shared.is_empty() {
        return Ok(());
    }
    // Registers are named within a function: (function, register).
    let mut tainted: HashSet<(&str, &str)> = HashSet::new();
    let is_shared = |tainted: &HashSet<(&str, &str)>, function, operand| {
        shared.contains(operand) || tainted.contains(&(function, operand))
    };
    // A loop may carry an address backwards in the text, so go round until nothing is new.
    loop {
        let before = tainted.len();
        for statement in statements {
            let operation = opcode(statement.text).split('.').next().unwrap_or_default();
            if !ADDRESS_MATH.contains(&operation) {
                continue;
            }
            let mut names = operands(statement.text);
            let Some(destination) = names.next() else { continue };
            if names.any(|name| is_shared(&tainted, statement.function, name)) {
                tainted.insert((statement.function, destination));
            }
        }
        if tainted.len() == before {
            break;
        }
    }
    for statement in statements.iter().filter(|s| is_generic_access(opcode(s.text))) {
        let address = statement.text.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
        let Some((address, _)) = address else { continue };
        if names(address).any(|name| is_shared(&tainted, statement.function, name)) {
            return Err(statement.generic_shared());
        }
    }
    Ok(())
}

/// Whether the instruction reaches memory and names no state space.
fn is_generic_access(opcode: &str) -> bool {
    let mut parts = opcode.split('.');
    if !matches!(parts.next(), Some("ld" | "st" | "atom" | "red")) {
        return false;
    }
    !parts.any(|part| {
        let space = part.split("::").next().unwrap_or_default();
        matches!(space, "global" | "shared" | "local" | "const" | "param")
    })
}

/// The names in the operands of an instruction, destination first.
fn operands(statement: &str) -> impl Iterator<Item = &str> {
    let opcode = opcode(statement);
    let at = statement.find(opcode).unwrap_or(0) + opcode.len();
    names(&statement[at..])
}

/// Registers and symbols of a piece of text.
fn names(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '_' | '$' | '%')))
        .filter(|name| name.starts_with(|c: char| !c.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expected() -> Expectations {
        Expectations {
            version: (7, 0),
            target: "sm_70".to_owned(),
            allow_local: false,
            allow_call: false,
        }
    }

    /// Line 7 is the first one of `body`.
    fn module(body: &str) -> String {
        format!(
            ".version 7.0\n.target sm_70, debug\n.shared .align 16 .b8 tile[1024];\n\
             .visible .entry k(\n\t.param .u64 p) .maxntid 8, 1, 1\n{{\n{body}\n\tret;\n}}\n"
        )
    }

    fn checked(body: &str) -> Result<(), PtxProblem> {
        check(&module(body), &expected())
    }

    #[test]
    fn a_good_module_passes() {
        checked(
            "\t.reg .b32 %r<4>;\n\tmov.u32 %r1, tile;\n\tadd.s32 %r2, %r1, 4;\n\
             $L__BB0_1:\n\tld.shared.b32 %r3, [%r2];\n\tst.shared::cta.v2.b32 [%r2], {%r3, %r3};\n\
             \tcvta.to.global.u64 %rd1, %rd0; @%p1 ld.b32 %r3, [%rd1+4]; // call .local\n\
             \t{ .reg .pred p; bra $L__BB0_1; }\n\tred.shared.add.u32 [%r1], 1;\n\
             \t.loc 1 2 3\n\tcvta.to.shared.u64 %rd9, %rd8;\n\
             \tmbarrier.init.shared::cta.b64 [%r2], 1;",
        )
        .unwrap();
    }

    #[test]
    fn version_and_target() {
        let text = module("");
        let newer = text.replace(".version 7.0", ".version 7.8");
        assert_eq!(
            check(&newer, &expected()),
            Err(PtxProblem::Version { found: (7, 8), asked: (7, 0) })
        );
        check(&text.replace(".version 7.0", ".version 6.5"), &expected()).unwrap();
        let other = check(&text.replace("sm_70", "sm_75"), &expected());
        assert!(matches!(other, Err(PtxProblem::Target { .. })), "{other:?}");
        for key in [".version", ".target"] {
            let without = text.replace(key, "//");
            assert_eq!(check(&without, &expected()), Err(PtxProblem::Missing(key)));
        }
        // (7, 10) is above (7, 9), which a comparison of decimals would not see.
        let asked = Expectations { version: (7, 9), ..expected() };
        assert!(check(&text.replace(".version 7.0", ".version 7.10"), &asked).is_err());
    }

    #[test]
    fn local_memory_is_found() {
        for body in [
            "\t.local .align 16 .b8 __local_depot0[64];",
            "\tld.local.b32 %r1, [%rd1];",
            "\t@!%p2 st.local.v4.b32 [%SP+16], {%r1, %r2, %r3, %r4};",
            "\tcvta.local.u64 %SP, %SPL;",
        ] {
            let problem = checked(body).unwrap_err();
            assert!(
                matches!(&problem, PtxProblem::Local { line: 7, function, .. } if function == "k"),
                "{problem:?}"
            );
            let allowed = Expectations { allow_local: true, ..expected() };
            check(&module(body), &allowed).unwrap();
        }
    }

    #[test]
    fn calls_are_found() {
        let body =
            "\t{ // callseq 0, 0\n\t.param .b32 param0;\n\tcall.uni (retval0), f, (param0);\n\t}";
        let problem = checked(body).unwrap_err();
        assert!(matches!(&problem, PtxProblem::Call { line: 9, .. }), "{problem:?}");
        assert!(problem.to_string().contains("call.uni (retval0), f, (param0)"), "{problem}");
        check(&module(body), &Expectations { allow_call: true, ..expected() }).unwrap();
    }

    #[test]
    fn generic_access_to_shared_memory_is_found() {
        for (line, body) in [
            (7, "\tcvta.shared.u64 %rd1, %rd2;"),
            (7, "\tld.b32 %r1, [tile+4];"),
            (9, "\tmov.u64 %rd1, tile;\n\tadd.s64 %rd2, %rd1, %rd7;\n\tst.b32 [%rd2+8], %r1;"),
            (
                9,
                "\tmov.u32 %r1, tile;\n\tcvt.u64.u32 %rd2, %r1;\n\
                 \t@%p1 atom.add.u32 %r3, [%rd2], 1;",
            ),
            // Carried backwards by a loop.
            (
                8,
                "$L1:\n\tld.volatile.b32 %r9, [%rd3];\n\tmov.b64 %rd3, %rd2;\n\
                 \tmov.b64 %rd2, tile;\n\tbra $L1;",
            ),
        ] {
            let problem = checked(body).unwrap_err();
            let PtxProblem::GenericShared { line: found, function, .. } = &problem else {
                panic!("{problem:?}");
            };
            assert_eq!((*found, function.as_str()), (line, "k"), "{body}");
        }
    }

    #[test]
    fn registers_belong_to_their_function() {
        let text = module("\tmov.b64 %rd1, tile;")
            + ".func (.param .b32 r) g(.param .b32 x)\n{\n\tld.b32 %r1, [%rd1];\n\tret;\n}\n";
        check(&text, &expected()).unwrap();
        let bad = text.replace("[%rd1]", "[tile]");
        let problem = check(&bad, &expected()).unwrap_err();
        assert!(
            matches!(&problem, PtxProblem::GenericShared { function, .. } if function == "g"),
            "{problem:?}"
        );
    }
}
