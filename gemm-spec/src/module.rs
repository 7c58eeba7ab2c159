//! PTX modules as text: what each of their kernels takes.

/// An entry point in a module's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntryText<'a> {
    /// The kernel's name.
    pub name: &'a str,
    /// The number of its first line in the module, from 1.
    pub line: usize,
    /// Its lines.
    pub text: &'a str,
}

const ENTRY: &str = ".visible .entry ";

/// What stands before the first entry point of a module: version, target, and the declarations that
/// its kernels share. With an entry's text it is a module of that kernel alone.
pub fn module_head(module: &str) -> &str {
    match module.find(ENTRY) {
        Some(end) => &module[..end],
        None => module,
    }
}

/// The entry points of a module whose lines end in `\n`. Each begins at the start of a line, and
/// ends with a brace at the start of one; nothing that counts stands between them.
pub fn module_entries(module: &str) -> impl Iterator<Item = EntryText<'_>> {
    let mut at = module_head(module).len();
    let mut line = module[..at].matches('\n').count() + 1;
    core::iter::from_fn(move || {
        let text = &module[at..];
        let rest = text.strip_prefix(ENTRY)?;
        let name = &rest[..rest.find('(')?];
        let end = text.find("\n}\n")? + 3;
        let entry = EntryText { name, line, text: &text[..end] };
        let next = text[end..].find(ENTRY).map_or(text.len(), |next| end + next);
        line += text[..next].matches('\n').count();
        at += next;
        Some(entry)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    #[test]
    fn a_module_is_a_head_and_entries() {
        let (first, second) =
            (".visible .entry ab(\n)\n{\n}\n", ".visible .entry a(\n)\n{\n\tret;\n}\n");
        let head = ".version 8.0\n.shared .b8 x[4];\n";
        let module = [head, first, "\n\t// .globl\ta\n", second, "\n"].concat();
        assert_eq!(module_head(&module), head);
        let expected = [
            EntryText { name: "ab", line: 3, text: first },
            EntryText { name: "a", line: 9, text: second },
        ];
        assert_eq!(module_entries(&module).collect::<Vec<_>>(), expected);
        assert_eq!(module.lines().nth(8), Some(".visible .entry a("));
        assert_eq!((module_head(head), module_entries(head).count()), (head, 0));
    }
}
