//! Whole files: the instructions that a modern GEMM uses, the kernels that this repository ships,
//! and what NVIDIA's compiler made of CUDA C++. Each instruction is compared with its text.

use std::fmt::Write as _;
use std::path::Path;

use super::super::ast::{Constant, FunctionKind, Instruction, Operand, Statement};
use super::super::parse;
use super::{body, instruction};

const INSTRUCTIONS: &str = include_str!("instructions.txt");

/// The texts in a folder beside this crate's manifest, with their paths.
fn texts(folder: &str) -> Vec<(String, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let entries = std::fs::read_dir(&folder).expect("the folder is in the repository");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let mut files: Vec<_> = paths
        .filter(|path| path.extension().is_some_and(|extension| extension == "ptx"))
        .map(|path| (path.display().to_string(), std::fs::read_to_string(&path).expect("a text")))
        .collect();
    files.sort();
    assert!(!files.is_empty());
    files
}

/// The kernels of this repository, as built by LLVM.
pub(super) fn shipped() -> Vec<(String, String)> {
    texts("../host/ptx")
}

/// Kernels as built by nvcc.
pub(super) fn foreign() -> Vec<(String, String)> {
    texts("tests/nvcc")
}

/// An instruction as LLVM would print it, without spaces.
fn printed(instruction: &Instruction) -> String {
    let mut text = instruction.opcode.to_string();
    for modifier in instruction.modifiers.iter() {
        write!(text, ".{modifier}").expect("a string takes all");
    }
    let operands: Vec<String> = instruction.operands.iter().map(operand).collect();
    text + &operands.join(",") + ";"
}

fn operand(operand: &Operand) -> String {
    let list = |items: &[Operand]| items.iter().map(self::operand).collect::<Vec<_>>().join(",");
    let added = |offset: i64| if offset == 0 { String::new() } else { format!("+{offset}") };
    match operand {
        Operand::Name(name) => name.to_string(),
        Operand::NameOffset(name, offset) => format!("{name}+{offset}"),
        Operand::Element(name, index) => format!("{name}[{index}]"),
        Operand::Negated(name) => format!("!{name}"),
        Operand::Constant(Constant::Integer(value)) => value.to_string(),
        Operand::Constant(Constant::Single(bits)) => format!("0f{bits:08X}"),
        Operand::Constant(Constant::Double(bits)) => format!("0d{bits:016X}"),
        Operand::Sink => "_".to_owned(),
        Operand::Vector(items) => format!("{{{}}}", list(items)),
        Operand::List(items) => format!("({})", list(items)),
        Operand::Pair(pair) => format!("{}|{}", self::operand(&pair.0), self::operand(&pair.1)),
        Operand::Address(address) => {
            let mut text = match &address.base {
                Some(base) => format!("{base}{}", added(address.offset)),
                None => address.offset.to_string(),
            };
            if !address.coordinates.is_empty() {
                write!(text, ",{}", list(&address.coordinates)).expect("a string takes all");
            }
            format!("[{text}]")
        }
    }
}

#[test]
fn instructions_of_a_gemm() {
    for line in INSTRUCTIONS.lines() {
        let found = instruction(line);
        let spaceless: String = line.chars().filter(|c| !c.is_whitespace()).collect();
        let printed = match &found.guard {
            Some(guard) => {
                let not = if guard.negated { "!" } else { "" };
                format!("@{not}{}{}", guard.register, printed(&found))
            }
            None => printed(&found),
        };
        // Numbers that are not written as the printer writes them.
        if !spaceless.contains("0x") && !spaceless.contains("1.0") {
            assert_eq!(printed, spaceless);
        }
    }
    assert_eq!(body(INSTRUCTIONS).len(), INSTRUCTIONS.lines().count());
}

/// Walks a body; the instructions in the order of the text.
fn instructions<'a>(statements: &'a [Statement], found: &mut Vec<&'a Instruction>) {
    for statement in statements {
        match statement {
            Statement::Instruction(instruction) => found.push(instruction),
            Statement::Block(inner) => instructions(inner, found),
            _ => {}
        }
    }
}

#[test]
fn the_shipped_kernels() {
    for (path, text) in shipped() {
        compare(&path, &text);
    }
}

#[test]
fn foreign_kernels() {
    for (path, text) in foreign().into_iter().chain(texts("tests/misuse")) {
        compare(&path, &text);
    }
}

/// Every instruction is there, and is what its text says.
fn compare(path: &str, text: &str) {
    let module = parse(text).unwrap_or_else(|error| panic!("{path}: {error}"));
    let entries = module.functions.iter().filter(|f| f.kind == FunctionKind::Entry).count();
    assert_eq!(entries, text.matches(".entry").count(), "{path}");
    let mut found = Vec::new();
    for body in module.functions.iter().filter_map(|function| function.body.as_ref()) {
        instructions(body, &mut found);
    }
    let lines: Vec<&str> = text.lines().collect();
    for instruction in &found {
        let first = instruction.at.line as usize - 1;
        let from = &lines[first][instruction.at.column as usize - 1..];
        let mut source = String::new();
        for line in [from].iter().chain(&lines[first + 1..]) {
            let end = line.find(';').map_or(line.len(), |end| end + 1);
            source.extend(line[..end].chars().filter(|c| !c.is_whitespace()));
            if end > 0 && line[..end].ends_with(';') {
                break;
            }
        }
        // Hexadecimal numbers, fractions and offsets of zero are not printed as they are written.
        let source = source.replace("+0]", "]");
        let by_hand = ["0x", "//", ",1.0;"].iter().any(|part| source.contains(part));
        assert!(by_hand || printed(instruction) == source, "{path}: {source}");
    }
    let whole = |line: &&&str| {
        let begins = line.trim_start().starts_with(|c: char| c == '@' || c.is_ascii_lowercase());
        begins && line.trim_end().ends_with(';') && !line.contains(" : ")
    };
    assert!(found.len() >= lines.iter().filter(whole).count(), "{path}");
}
