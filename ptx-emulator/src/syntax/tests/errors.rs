//! What is wrong is said, and where.

use super::super::parse;
use super::module_text;

/// The error of a text as it is shown.
fn error(text: &str) -> String {
    parse(text).expect_err(text).to_string()
}

/// The error of a statement that stands at line 6, column 1.
fn statement_error(text: &str) -> String {
    error(&module_text(&format!(".entry f()\n{{\n{text}\n}}")))
}

#[test]
fn messages_and_places() {
    for (text, message) in [
        (
            "",
            "line 1, column 1: `.version` at a module's beginning is expected here, \
             not the end of the text",
        ),
        (
            ".version 8.0",
            "line 1, column 13: `.target` after `.version` is expected here, \
             not the end of the text",
        ),
        (
            ".version eight",
            "line 1, column 10: a version such as `8.3` is expected here, not `eight`",
        ),
        (
            ".version 8.0 // \u{e9}\n/* \u{e9} */ .taget sm_80",
            "line 2, column 9: `.target` after `.version` is expected here, not `.taget`",
        ),
        (
            ".version 8.0 \"\u{e9}\" x",
            "line 1, column 14: `.target` after `.version` is expected here, not `\"\u{e9}\"`",
        ),
    ] {
        assert_eq!(error(text), message);
    }
}

#[test]
fn directives() {
    for (text, message) in [
        (".globl .u32 x;", "line 4, column 1: the directive `.globl` is not known here"),
        (".global .u33 x;", "line 4, column 9: the directive `.u33` is not known here"),
        (
            ".entry f() .maxntidd 3 {}",
            "line 4, column 12: the directive `.maxntidd` is not known here",
        ),
        (
            ".entry f() .maxntid 1,2,3,4 {}",
            "line 4, column 12: `.maxntid` takes one to three numbers",
        ),
        (
            ".entry f() .maxnreg -1 {}",
            "line 4, column 21: the number of `.maxnreg` must be an integer from 0 to 4294967295",
        ),
        (".global .align 3 .u32 x;", "line 4, column 16: an alignment must be a power of two"),
        (
            ".global .u32 x[2] = {1, 2, 3};",
            "line 4, column 28: more initial values than the variable has elements",
        ),
        (".global .u32 x = {{1}};", "line 4, column 18: a number is expected here, not `{`"),
        (".global .u32 x[2][2] = {1, {2}};", "line 4, column 25: `{` is expected here, not `1`"),
        (".global .u32 x[0x7fffffffffffffff];", "line 4, column 35: the array is too large"),
        (".global .u32 x", "line 5, column 1: `;` is expected here, not the end of the text"),
        (
            ".entry f(.param .u32) {}",
            "line 4, column 21: a parameter's name is expected here, not `)`",
        ),
        (".entry f() {", "line 4, column 12: this brace is not closed"),
        (".section .debug_info { .b8 1", "line 4, column 22: the section is not closed"),
        ("mov.u32 %r1, 1;", "line 4, column 1: a directive is expected here, not `mov`"),
    ] {
        assert_eq!(error(&module_text(text)), message);
    }
}

#[test]
fn statements() {
    for (text, message) in [
        ("mov.u32 %r1, ;", "line 6, column 14: an operand is expected here, not `;`"),
        ("mov.u32 %r1, 1", "line 7, column 1: `;` is expected here, not `}`"),
        ("ld.u32 %r1, [%r2;", "line 6, column 17: `]` is expected here, not `;`"),
        (
            "mov.u32 %r1, 0f123;",
            "line 6, column 14: `0f123` is not `0f` and eight hexadecimal digits",
        ),
        ("mov.u32 %r1, 0x;", "line 6, column 14: `0x` is not a number"),
        ("mov.u32 %r1, 09;", "line 6, column 14: `09` is not a number"),
        (
            "mov.u32 %r1, 99999999999999999999;",
            "line 6, column 14: `99999999999999999999` does not fit in 64 bits",
        ),
        ("mov.u32 %r1, 1/0;", "line 6, column 15: a constant is divided by zero"),
        ("mov.u32 %r1, ~1.5;", "line 6, column 14: `~` has no meaning for a float"),
        ("mov.u32 %r1, [1.5];", "line 6, column 15: an integer is needed here, not a float"),
        ("mov.u32 %r1, #;", "line 6, column 14: '#' has no meaning in PTX"),
        ("@p", "line 7, column 1: an instruction is expected here, not `}`"),
        ("\tmov.u32 %r1, \"s\";", "line 6, column 15: an operand is expected here, not `\"s\"`"),
        (
            "p: .callprototype (.param .b32 _) f;",
            "line 6, column 1: a prototype names its function `_`",
        ),
        (".regs .b32 x;", "line 6, column 1: the directive `.regs` is not known here"),
        ("/* \n never closed", "line 6, column 1: the comment is not closed"),
        (".file 1 \"a\n", "line 6, column 9: the quotes are not closed on this line"),
    ] {
        assert_eq!(statement_error(text), message);
    }
}

#[test]
fn nesting_is_limited() {
    for (open, close) in [("{", "}"), ("mov x, {", "};"), ("mov x, (", ");"), ("mov x, -", "1;")] {
        let inner = &open[open.len() - 1..];
        for depth in [50, 200, 1_000_000] {
            let text = module_text(&format!(".entry f() {{ {open}{}", inner.repeat(depth)));
            let message = error(&text);
            assert_eq!(message.contains("nested deeper than 100 levels"), depth > 100, "{close}");
        }
    }
    let deep = format!("mov x, {}1;", "1+(".repeat(1_000_000));
    assert!(statement_error(&deep).contains("nested deeper"));
    let deep = format!("mov x, {}1;", "1?1:".repeat(1_000_000));
    assert!(statement_error(&deep).contains("nested deeper"));
}

#[test]
fn modifiers_are_limited() {
    assert!(parse(&module_text(&format!(".entry f() {{ op{}; }}", ".a".repeat(32)))).is_ok());
    let message = statement_error(&format!("op{};", ".a".repeat(33)));
    assert_eq!(message, "line 6, column 1: more than 32 modifiers of an instruction");
}

#[test]
fn long_tokens_are_cut_in_messages() {
    let message = statement_error(&format!("mov x, 1 {};", "a".repeat(1000)));
    assert_eq!(
        message,
        format!("line 6, column 10: `;` is expected here, not `{}..`", "a".repeat(60))
    );
}
