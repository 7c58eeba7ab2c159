//! The mutants of a text.
//!
//! What is changed are instructions that order or count: `bar`, `barrier`, `membar`, `fence`, the
//! groups of `cp.async`, `cp.async.bulk` and `wgmma`, `mbarrier`, `griddepcontrol`, `setmaxnreg`
//! (PTX ISA 9.7.13, 9.7.9.25, 9.7.15, 9.7.19).

use std::collections::BTreeMap;
use std::fmt;

/// A text with one change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mutant {
    /// The instruction with its modifiers, as `bar.sync`.
    pub opcode: String,
    /// Which of the text's instructions of that name it is, from 0.
    pub ordinal: usize,
    /// What is done to it, as `deleted`.
    pub change: String,
    /// The lines, from 1, and what they become.
    pub edits: Vec<(u32, String)>,
}

impl fmt::Display for Mutant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} #{} {} (line {})", self.opcode, self.ordinal, self.change, self.edits[0].0)
    }
}

impl Mutant {
    /// The text with the change.
    pub fn apply(&self, text: &str) -> String {
        let changed: BTreeMap<usize, &str> =
            self.edits.iter().map(|(line, new)| (*line as usize - 1, &**new)).collect();
        let lines = text.lines().enumerate();
        let lines = lines.map(|(i, line)| changed.get(&i).copied().unwrap_or(line));
        lines.flat_map(|line| [line, "\n"]).collect()
    }
}

/// An instruction in a line.
#[derive(Clone, Copy)]
struct Statement<'a> {
    /// The line, from 1, and what stands in it before and after.
    line: u32,
    before: &'a str,
    after: &'a str,
    /// Its guard, with the space behind it.
    guard: &'a str,
    opcode: &'a str,
    operands: &'a str,
}

/// The instructions that are changed.
const OPCODES: [&str; 13] = [
    "bar.",
    "barrier.",
    "membar.",
    "fence.",
    "cp.async.commit_group",
    "cp.async.wait_",
    "cp.async.mbarrier.",
    "cp.async.bulk.commit_group",
    "cp.async.bulk.wait_group",
    "mbarrier.",
    "griddepcontrol.",
    "setmaxnreg.",
    "wgmma.",
];

fn is_mutated(opcode: &str) -> bool {
    let is_product = opcode.starts_with("wgmma.mma_async");
    OPCODES.iter().any(|start| opcode.starts_with(start)) && !is_product
}

/// The instructions of a line that are changed.
fn statements(line: &str, number: u32) -> Vec<Statement<'_>> {
    let code = line.find("//").unwrap_or(line.len());
    let mut found = Vec::new();
    let mut start = 0;
    while let Some(length) = line[start..code].find(';') {
        let end = start + length;
        let skipped = |c: char| c.is_whitespace() || c == '{';
        let mut first = end - line[start..end].trim_start_matches(skipped).len();
        let begin = first;
        if line[first..end].starts_with('@') {
            let guard = line[first..end].find(char::is_whitespace).unwrap_or(0);
            first = end - line[first + guard..end].trim_start().len();
        }
        let statement = &line[first..end];
        let opcode = statement.split(char::is_whitespace).next().unwrap_or("");
        if is_mutated(opcode) {
            found.push(Statement {
                line: number,
                before: &line[..begin],
                after: &line[end + 1..],
                guard: &line[begin..first],
                opcode,
                operands: statement[opcode.len()..].trim(),
            });
        }
        start = end + 1;
    }
    found
}

/// An operand, with a number added to it first.
fn plus(statement: &Statement<'_>, operand: &str, number: i32) -> String {
    let Statement { guard, opcode, operands, .. } = statement;
    let operands = operands.replacen(operand, "changed", 1);
    format!(
        "{{ .reg .b32 changed; add.s32 changed, {operand}, {number}; {guard}{opcode} {operands}; }}"
    )
}

/// What becomes of an instruction, each with its name; nothing for `deleted`.
fn changes(statement: &Statement<'_>) -> Vec<(String, String)> {
    let Statement { guard, opcode, operands, .. } = *statement;
    let list: Vec<&str> = operands.split(", ").map(str::trim).collect();
    let last = list.last().copied().unwrap_or("");
    let mut changes = vec![("deleted".to_string(), String::new())];
    let mut change = |name: &str, new: String| changes.push((name.to_string(), new));
    if opcode.contains("wait_group") {
        if let Ok(groups) = last.parse::<u32>() {
            change("waits for one group less", format!("{guard}{opcode} {};", groups + 1));
        }
    } else if opcode.starts_with("bar.sync") && list.len() == 2 {
        let (number, count) = (list[0], list[1].parse::<u32>().unwrap_or(0));
        let other = if number == "1" { 2 } else { 1 };
        change("at another barrier", format!("{guard}{opcode} {other}, {count};"));
        change("of a warp more", format!("{guard}{opcode} {number}, {};", count + 32));
        change("of a warp less", format!("{guard}{opcode} {number}, {};", count - 32));
    } else if opcode.starts_with("mbarrier.init") {
        change("expects one more", plus(statement, last, 1));
        change("expects one less", plus(statement, last, -1));
    } else if opcode.contains("arrive.expect_tx") {
        let plain = opcode.replace(".expect_tx", "");
        let place = operands.trim_end_matches(last).trim_end().trim_end_matches(',');
        change("expects no bytes", format!("{guard}{plain} {place};"));
        change("expects 16 bytes more", plus(statement, last, 16));
        change("expects 16 bytes less", plus(statement, last, -16));
    } else if opcode.starts_with("mbarrier.arrive") {
        change("twice", format!("{guard}{opcode} {operands}; {guard}{opcode} {operands};"));
    } else if opcode.contains("_wait.parity") {
        changes[0] = ("does not wait".to_string(), format!("setp.eq.u32 {}, 0, 0;", list[0]));
        let flipped = operands.replacen(last, "changed", 1);
        let new = format!(
            "{{ .reg .b32 changed; xor.b32 changed, {last}, 1; {guard}{opcode} {flipped}; }}"
        );
        changes.push(("of the other parity".to_string(), new));
    }
    changes
}

/// Every mutant of a text, in the order of its lines.
pub fn mutants(text: &str) -> Vec<Mutant> {
    let lines = text.lines().zip(1..);
    let statements: Vec<Statement<'_>> =
        lines.flat_map(|(line, number)| statements(line, number)).collect();
    let mut ordinals: BTreeMap<&str, usize> = BTreeMap::new();
    let mut mutants = Vec::new();
    for (i, statement) in statements.iter().enumerate() {
        let ordinal = ordinals.entry(statement.opcode).or_default();
        let line = |statement: &Statement<'_>, new: &str| {
            (statement.line, format!("{}{new}{}", statement.before, statement.after))
        };
        let mut add = |change: String, edits| {
            let opcode = statement.opcode.to_string();
            mutants.push(Mutant { opcode, ordinal: *ordinal, change, edits });
        };
        for (change, new) in changes(statement) {
            add(change, vec![line(statement, &new)]);
        }
        // Alone they are a misuse.
        let wait = statements[i..].iter().find(|s| s.opcode.starts_with("barrier.cluster.wait"));
        if let (true, Some(wait)) = (statement.opcode.starts_with("barrier.cluster.arrive"), wait) {
            add("deleted with its wait".to_string(), vec![line(statement, ""), line(wait, "")]);
        }
        *ordinal += 1;
    }
    mutants
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changed(text: &str) -> Vec<String> {
        mutants(text).iter().map(|mutant| mutant.apply(text)).collect()
    }

    #[test]
    fn an_instruction_is_deleted() {
        let text = "\tbar.sync \t0; // bar.sync 1;\n\tadd.s32 %r1, %r2, %r3;\n";
        assert_eq!(changed(text), ["\t // bar.sync 1;\n\tadd.s32 %r1, %r2, %r3;\n"]);
        assert_eq!(changed("@%p1 fence.proxy.async;"), ["\n"]);
        assert_eq!(changed("wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%r1};").len(), 0);
    }

    #[test]
    fn a_wait_waits_for_less() {
        let text = "cp.async.wait_group 1;";
        assert_eq!(changed(text), ["\n", "cp.async.wait_group 2;\n"]);
        let text = "{ .reg .pred p; mbarrier.try_wait.parity.b64 p, [%r9], %r8;";
        let flipped = "{ .reg .b32 changed; xor.b32 changed, %r8, 1; mbarrier.try_wait.parity.b64 \
                       p, [%r9], changed; }";
        assert_eq!(
            changed(text),
            [
                "{ .reg .pred p; setp.eq.u32 p, 0, 0;\n".to_string(),
                format!("{{ .reg .pred p; {flipped}\n")
            ]
        );
    }

    #[test]
    fn counts_change() {
        let text = "mbarrier.arrive.expect_tx.b64 _, [%r1], %r2;";
        let more = "{ .reg .b32 changed; add.s32 changed, %r2, 16; mbarrier.arrive.expect_tx.b64 \
                    _, [%r1], changed; }\n";
        let changed = changed(text);
        assert_eq!(changed[..3], ["\n", "mbarrier.arrive.b64 _, [%r1];\n", more]);
    }

    #[test]
    fn ordinals_count_by_instruction() {
        let text = "bar.sync 0;\nfence.acq_rel.gpu;\nbar.sync 0;\n";
        let names: Vec<String> = mutants(text).iter().map(Mutant::to_string).collect();
        let fence = "fence.acq_rel.gpu #0 deleted (line 2)";
        assert_eq!(names, ["bar.sync #0 deleted (line 1)", fence, "bar.sync #1 deleted (line 3)"]);
    }
}
