//! No text makes the parser panic, hang or overflow its stack.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};

use super::super::parse;
use super::files::{foreign, shipped};
use super::module_text;

/// Every kind of token, and beginnings of some.
const TOKENS: [&str; 72] = [
    ".version",
    "8.0",
    ".target",
    "sm_80",
    ".address_size",
    "64",
    ".visible",
    ".extern",
    ".entry",
    ".func",
    ".param",
    ".reg",
    ".global",
    ".shared",
    ".const",
    ".local",
    ".align",
    ".b8",
    ".u32",
    ".f32",
    ".pred",
    ".v4",
    ".ptr",
    ".maxntid",
    ".pragma",
    ".loc",
    ".file",
    ".section",
    ".branchtargets",
    ".callprototype",
    ".alias",
    ".attribute",
    ".managed",
    ".noreturn",
    ".shared::cluster",
    "mov",
    "call",
    "generic",
    "%r1",
    "%tid",
    ".x",
    "_",
    "x",
    "L1",
    "WARP_SZ",
    "0",
    "1",
    "16",
    "0xff",
    "0f3F800000",
    "0d3FF0000000000000",
    "1.5e3",
    "18446744073709551615",
    "\"s\"",
    "{",
    "}",
    "[",
    "]",
    "(",
    ")",
    "<",
    ">",
    ",",
    ";",
    ":",
    "|",
    "!",
    "@",
    "+",
    "-",
    "/",
    "=",
];

/// A piece of a shipped file, from the beginning of a line on, behind the header of a module.
fn piece() -> impl Strategy<Value = String> {
    let texts: Vec<String> = shipped().into_iter().chain(foreign()).map(|(_, text)| text).collect();
    (select(texts), any::<Index>(), 200..4000_usize).prop_map(|(text, from, length)| {
        let from = from.index(text.len());
        let from = text[..from].rfind(".visible").unwrap_or(0);
        let text: String = text[from..].chars().take(length).collect();
        module_text(&text)
    })
}

/// A change of a text: the place, how many bytes go, and what comes.
fn change() -> impl Strategy<Value = (Index, usize, String)> {
    let token = select(&TOKENS[..]).prop_map(str::to_owned);
    let inserted = prop_oneof![token, "\\PC{0,3}", Just(String::new())];
    (any::<Index>(), 0..12_usize, inserted)
}

fn changed(text: &str, (place, removed, inserted): &(Index, usize, String)) -> String {
    let characters: Vec<char> = text.chars().collect();
    let place = place.index(characters.len() + 1);
    let rest = (place + removed).min(characters.len());
    let mut text: String = characters[..place].iter().collect();
    text.push_str(inserted);
    text.extend(&characters[rest..]);
    text
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn any_bytes(bytes in vec(any::<u8>(), 0..200)) {
        let text = String::from_utf8_lossy(&bytes);
        let _ = parse(&text);
        let _ = parse(&module_text(&text));
        let _ = parse(&module_text(&format!(".entry f() {{ {text} }}")));
    }

    #[test]
    fn any_tokens(tokens in vec((select(&TOKENS[..]), any::<bool>()), 0..60)) {
        let spaced = |(token, space): &(&str, bool)| {
            if *space { format!("{token} ") } else { token.to_string() }
        };
        let text: String = tokens.iter().map(spaced).collect();
        let _ = parse(&text);
        let _ = parse(&module_text(&text));
        let _ = parse(&module_text(&format!(".entry f() {{ {text} }}")));
        let _ = parse(&module_text(&format!(".entry f() {{ mov {text} ; }}")));
        let _ = parse(&module_text(&format!(".global .u32 x[2][3] = {{ {text} }};")));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn real_text_with_changes(text in piece(), changes in vec(change(), 1..4)) {
        let text = changes.iter().fold(text, |text, change| changed(&text, change));
        if let Err(error) = parse(&text) {
            let lines = text.lines().count() as u32;
            prop_assert!((1..=lines + 1).contains(&error.line), "{error}");
            prop_assert!(error.column >= 1);
        }
    }
}

/// Time is linear: what would be quadratic in the length of a line, a name or a list is minutes.
#[test]
fn long_lines_are_no_trouble() {
    let one_line = "mov.u32 %r1, %r2; ".repeat(200_000);
    assert!(parse(&module_text(&format!(".entry f() {{ {one_line} }}"))).is_ok());
    let list = format!(".global .b8 x[] = {{{}}};", vec!["1"; 1_000_000].join(","));
    assert!(parse(&module_text(&list)).is_ok());
    let name = "a".repeat(4_000_000);
    assert!(parse(&module_text(&format!(".global .b8 {name};"))).is_ok());
    let digits = "1".repeat(4_000_000);
    assert!(parse(&module_text(&format!(".global .b8 x = {digits};"))).is_err());
    assert!(parse(&module_text(&format!(".global .f64 x = {digits}.5;"))).is_ok());
    let comments = "/* a comment */ // and another\n".repeat(100_000);
    assert!(parse(&module_text(&comments)).is_ok());
    let sum = format!(".global .b32 x = {};", vec!["1"; 500_000].join(" + "));
    assert!(parse(&module_text(&sum)).is_ok());
}
