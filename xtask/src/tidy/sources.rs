//! Rules of a single file.

use super::rust_text::{self, continues_name};

/// Most characters of a line of Rust.
const LINE_CHARS: usize = 100;
/// Most lines of a file of Rust.
const FILE_LINES: usize = 600;
/// Most lines of a function; the style says "about 70".
const FUNCTION_LINES: usize = 75;
/// Most lines of a kernel's body.
const KERNEL_LINES: usize = 150;

/// What says that work is unfinished or a test switched off; with what may not stand before it.
const UNFINISHED: [&str; 5] = ["todo!(", "unimplemented!(", "dbg!(", "#[ignore]", "#[ignore ="];

/// Folders that exist on one machine and not on another. Written apart, so that this file passes
/// its own check.
const MACHINE_PATHS: [&str; 5] = [
    concat!("/", "work/"),
    concat!("/", "root/"),
    concat!("/", "home/"),
    concat!("/", "tmp/"),
    concat!("/", "Users/"),
];

/// Most lines of a function in the file at `path`.
pub fn function_limit(path: &str) -> usize {
    if path.starts_with("gpu-kernels/") { KERNEL_LINES } else { FUNCTION_LINES }
}

/// The rules of a Rust file.
pub fn check(source: &str, function_limit: usize, report: &mut impl FnMut(usize, String)) {
    let lines = source.lines().count();
    if lines > FILE_LINES {
        report(lines, format!("a file of {lines} lines; {FILE_LINES} at most"));
    }
    if !source.starts_with("//!") {
        report(1, "the file does not open with //!".into());
    }
    for (number, line) in (1..).zip(source.lines()) {
        let chars = line.chars().count();
        if chars > LINE_CHARS && !line.contains("://") {
            report(number, format!("a line of {chars} characters; {LINE_CHARS} at most"));
        }
    }
    let code = rust_text::code_only(source);
    for function in rust_text::functions(&code) {
        if function.lines > function_limit {
            let (name, lines) = (function.name, function.lines);
            report(function.line, format!("{name} has {lines} lines; {function_limit} at most"));
        }
    }
    for (number, line) in (1..).zip(code.lines()) {
        for word in UNFINISHED {
            let mut found = line.match_indices(word);
            if found.any(|(at, _)| !line[..at].ends_with(continues_name)) {
                report(number, format!("{word} is left in the code"));
            }
        }
    }
}

/// No tracked text names a folder of the machine that it was written on.
pub fn machine_paths(text: &str, report: &mut impl FnMut(usize, String)) {
    for (number, line) in (1..).zip(text.lines()) {
        for path in MACHINE_PATHS {
            // Inside a longer path or an address it is no folder of the root.
            let at_root = |at: usize| {
                let before = line[..at].chars().next_back();
                !before.is_some_and(|c| continues_name(c) || ".-~/}*)>".contains(c))
            };
            if line.match_indices(path).any(|(at, _)| at_root(at)) {
                report(number, format!("names {path}, a folder of one machine"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_all(source: &str) -> Vec<(usize, String)> {
        let mut found = Vec::new();
        check(source, FUNCTION_LINES, &mut |line, message| found.push((line, message)));
        found
    }

    fn machine_path_lines(text: &str) -> Vec<usize> {
        let mut found = Vec::new();
        machine_paths(text, &mut |line, _| found.push(line));
        found
    }

    #[test]
    fn clean_source_passes() {
        assert_eq!(check_all("//! Words.\n\nfn f() {\n    let todo = 1;\n}\n"), []);
    }

    #[test]
    fn each_rule_is_reported_with_its_line() {
        let first_line = |source: &str| check_all(source).first().map(|(line, _)| *line);
        assert_eq!(first_line("fn f() {}\n"), Some(1));
        assert_eq!(first_line("//! a\nfn f() { todo!() }\n"), Some(2));
        assert_eq!(first_line("//! a\n\n#[ignore]\nfn f() {}\n"), Some(3));
        assert_eq!(first_line(&format!("//! a\n// {}\n", "é".repeat(98))), Some(2));
        assert_eq!(first_line(&format!("//! a\n// {}\n", "é".repeat(97))), None);
        assert_eq!(first_line(&format!("//! a\n// https://{}\n", "b".repeat(98))), None);
        assert_eq!(first_line(&format!("//! a\nfn f() {{{}}}\n", "\n".repeat(74))), None);
        assert_eq!(first_line(&format!("//! a\nfn f() {{{}}}\n", "\n".repeat(75))), Some(2));
        assert_eq!(first_line(&format!("//! a\n{}", "\n".repeat(600))), Some(601));
    }

    #[test]
    fn words_in_comments_and_strings_are_no_code() {
        assert_eq!(check_all("//! dbg!(x)\nconst A: &str = \"#[ignore]\";\nmy_todo!();\n"), []);
    }

    #[test]
    fn machine_paths_are_found_and_longer_paths_are_not() {
        let text = "see _tmp_x\n\"_work_y\"\ncuda_work_z\nhttps://a.org_home_b\n".replace('_', "/");
        assert_eq!(machine_path_lines(&text), [1, 2]);
    }
}
