//! Rules of Cargo.toml files: each dependency stands once, in the root, with the reason that it is
//! there.

/// In the root: each dependency from the registry has a comment, behind it or above it.
///
/// A comment above speaks for the lines below it that have none of their own, up to an empty line
/// or to one that has.
pub fn reasons(manifest: &str, report: &mut impl FnMut(usize, String)) {
    let mut commented = false;
    for (number, section, line) in entries(manifest) {
        if section != "workspace.dependencies" || line.is_empty() {
            commented = false;
        } else if line.starts_with('#') {
            commented = true;
        } else if line.contains(" # ") {
            commented = false;
        } else if !commented && !line.contains("path =") {
            report(number, format!("a dependency without its reason: {}", name(line)));
        }
    }
}

/// In a member: each dependency is the workspace's, or has a comment behind it or just above it.
pub fn inherited(manifest: &str, report: &mut impl FnMut(usize, String)) {
    let mut commented = false;
    for (number, section, line) in entries(manifest) {
        let is_entry = section.ends_with("dependencies") && line.contains('=');
        let is_ours = line.contains("workspace = true") || line.contains("path =");
        if is_entry && !line.starts_with('#') && !is_ours && !commented && !line.contains(" # ") {
            let name = name(line);
            report(number, format!("{name} should be `workspace = true`, or say why it is not"));
        }
        commented = line.starts_with('#');
    }
}

/// In both: a dependency with a section of its own, where neither rule above looks.
pub fn tables(manifest: &str, report: &mut impl FnMut(usize, String)) {
    for (number, line) in (1..).zip(manifest.lines().map(str::trim)) {
        if line.starts_with('[') && line.contains("dependencies.") {
            report(number, format!("{line}: a dependency is a line, and no section of its own"));
        }
    }
}

/// (line number, section, trimmed line) of every line that is no section's head.
fn entries(manifest: &str) -> impl Iterator<Item = (usize, &str, &str)> {
    let mut section = "";
    (1..).zip(manifest.lines().map(str::trim)).filter_map(move |(number, line)| {
        if let Some(head) = line.strip_prefix('[') {
            section = head.split(']').next().unwrap_or_default();
            return None;
        }
        Some((number, section, line))
    })
}

fn name(line: &str) -> &str {
    line.split(['=', '.', ' ']).next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dependencies_of_the_root_have_reasons() {
        let manifest = "[workspace.dependencies]\n# Ours.\na = { path = \"a\" }\n# Both for c.\n\
                        b = \"1\"\nc = \"1\"\nd = \"1\" # own\ne = \"1\"\n\n\
                        f = \"1\"\n[x]\ng = 1\n";
        let mut lines = Vec::new();
        reasons(manifest, &mut |line, _| lines.push(line));
        assert_eq!(lines, [8, 10]);
    }

    #[test]
    fn dependencies_are_lines() {
        let manifest = "[workspace.dependencies]\na.workspace = true\n[dependencies.b]\n\
                        version = \"1\"\n[target.'cfg(unix)'.dev-dependencies.c]\n\
                        [workspace.dependencies.d]\n[lints]\nworkspace = true\n";
        let mut lines = Vec::new();
        tables(manifest, &mut |line, _| lines.push(line));
        assert_eq!(lines, [3, 5, 6]);
    }

    #[test]
    fn members_inherit_or_say_why() {
        let manifest = "[dependencies]\na.workspace = true\nb = { workspace = true }\nc = \"1\"\n\
                        # The genuine one.\nd = \"1\"\n[dev-dependencies]\n\
                        e = \"1\"\n[lints]\nf = 1\n";
        let mut lines = Vec::new();
        inherited(manifest, &mut |line, _| lines.push(line));
        assert_eq!(lines, [4, 8]);
    }
}
