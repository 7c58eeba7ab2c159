//! The list of mutants that survive for a reason.
//!
//! A line is `kernels | instruction | which | change | reason`: the beginning of kernels' names, an
//! instruction, its ordinals with commas between them or `*`, a change or `*`.

use crate::Mutant;
use anyhow::{Context, Result, ensure};

/// A line of the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    kernels: String,
    opcode: String,
    ordinals: Option<Vec<usize>>,
    change: Option<String>,
    /// Why it is harmless.
    pub reason: String,
    /// The line, as it stands.
    pub text: String,
}

/// The list.
#[derive(Clone, Debug, Default)]
pub struct Harmless(Vec<Entry>);

impl Harmless {
    /// The project's list, `mutation/harmless.txt`.
    ///
    /// # Panics
    /// Where it has a line that is none; a test sees to it that it has not.
    pub fn of_the_project() -> Harmless {
        Harmless::parse(include_str!("../harmless.txt")).expect("the list is in order")
    }

    /// Reads a list. Lines that are empty or begin with `#` don't count.
    ///
    /// # Errors
    /// Where a line has not the five fields, or its ordinals are no numbers.
    pub fn parse(text: &str) -> Result<Harmless> {
        let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
        lines.map(Entry::parse).collect::<Result<_>>().map(Harmless)
    }

    /// Its entries.
    pub fn entries(&self) -> &[Entry] {
        &self.0
    }

    /// The entry that names a mutant of a kernel.
    pub fn find(&self, kernel: &str, mutant: &Mutant) -> Option<usize> {
        self.0.iter().position(|entry| entry.names(kernel, mutant))
    }
}

impl Entry {
    fn parse(line: &str) -> Result<Entry> {
        let fields: Vec<&str> = line.split(" | ").map(str::trim).collect();
        let [kernels, opcode, ordinals, change, reason] = fields[..] else {
            anyhow::bail!("not five fields: {line}");
        };
        ensure!(!reason.is_empty(), "no reason: {line}");
        let ordinals = match ordinals {
            "*" => None,
            list => {
                let numbers: Result<Vec<usize>, _> = list.split(',').map(str::parse).collect();
                Some(numbers.with_context(|| format!("ordinals: {line}"))?)
            }
        };
        Ok(Entry {
            kernels: kernels.to_string(),
            opcode: opcode.to_string(),
            ordinals,
            change: (change != "*").then(|| change.to_string()),
            reason: reason.to_string(),
            text: line.to_string(),
        })
    }

    fn names(&self, kernel: &str, mutant: &Mutant) -> bool {
        kernel.starts_with(&self.kernels)
            && self.opcode == mutant.opcode
            && self.ordinals.as_ref().is_none_or(|list| list.contains(&mutant.ordinal))
            && self.change.as_ref().is_none_or(|change| *change == mutant.change)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mutants;

    #[test]
    fn an_entry_names_mutants() {
        let list = "# why\n\nk02 | bar.sync | 1,2 | deleted | nobody reads\n";
        let list = Harmless::parse(list).unwrap();
        let mutants = mutants("bar.sync 0;\nbar.sync 0;\n");
        assert_eq!(list.find("k02_tiled", &mutants[0]), None);
        assert_eq!(list.find("k02_tiled", &mutants[1]), Some(0));
        assert_eq!(list.find("k03", &mutants[1]), None);
        assert_eq!(list.entries()[0].reason, "nobody reads");
    }

    #[test]
    fn the_projects_list_is_in_order() {
        Harmless::of_the_project();
        assert!(Harmless::parse("k02 | bar.sync | 1 | deleted").is_err());
        assert!(Harmless::parse("k02 | bar.sync | x | deleted | why").is_err());
    }
}
