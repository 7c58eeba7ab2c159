//! Fills the generated regions of README.md, docs/reliability.md and the guide, or tells which are
//! not what their sources give.
//!
//! A region stands between two comments:
//!
//! ```text
//! <!-- table: ladder record=bench/record/GPU/FILE.csv -->
//! <!-- table: ladder record=bench/record/GPU/FILE.csv variants=k01_naive,k02_tiled_16 -->
//! <!-- table: traffic variants=k01_naive,k02_tiled_16 -->
//! <!-- table: unsafe -->
//! <!-- code: PATH from "a part of its first line" to "a part of its last line" -->
//! <!-- end -->
//! ```

mod code;
mod ladder;
mod record;
mod regions;
mod traffic;
mod unsafe_code;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use gemm_spec::Kernel;

use crate::workspace::{Workspace, files_under};
use regions::Marker;

#[derive(clap::Args)]
pub struct Args {
    /// Changes nothing; fails where a region is not what its source gives
    #[arg(long)]
    pub check: bool,
}

pub fn run(workspace: &Workspace, args: &Args) -> Result<()> {
    let stale = stale(workspace)?;
    for (path, text) in &stale {
        let said = workspace.display(path);
        if args.check {
            say!("{said}: a generated region is not what its source gives")?;
        } else {
            workspace.sh.write_file(path, text)?;
            say!("{said} written")?;
        }
    }
    if args.check && !stale.is_empty() {
        bail!("run `cargo xtask tables` and commit the result");
    }
    Ok(())
}

/// The files whose regions are not what they should be, with the text that they should have.
fn stale(workspace: &Workspace) -> Result<Vec<(PathBuf, String)>> {
    let mut files =
        ["README.md", "docs/reliability.md"].map(|file| workspace.root.join(file)).to_vec();
    let guide = workspace.root.join("docs/guide");
    if guide.is_dir() {
        let is_markdown = |path: &PathBuf| path.extension().is_some_and(|end| end == "md");
        files.extend(files_under(&guide)?.into_iter().filter(is_markdown));
    }
    let mut stale = Vec::new();
    for path in files {
        let said = workspace.display(&path);
        let text = std::fs::read_to_string(&path).with_context(|| format!("reading {said}"))?;
        let to_root = "../".repeat(said.matches('/').count());
        let filled = regions::fill(&text, |marker| content(&workspace.root, &to_root, marker))
            .with_context(|| said.clone())?;
        if filled != text {
            stale.push((path, filled));
        }
    }
    Ok(stale)
}

/// What belongs into the region of `marker`, in a file from which `to_root` leads to the root.
fn content(root: &Path, to_root: &str, marker: &Marker) -> Result<String> {
    match marker {
        Marker::Code { path, from, to } => code::quote(root, to_root, path, from, to),
        Marker::Table { name, options } => {
            let option = |key: &str| options.iter().find(|(k, _)| k == key).map(|(_, v)| &v[..]);
            let variants = option("variants").map(variants).transpose()?;
            match name.as_str() {
                "ladder" => {
                    let path = option("record").context("record=... says where the times are")?;
                    let record = record::Record::read(&root.join(path))?;
                    ladder::table(&record, &format!("{to_root}{path}"), variants.as_deref())
                }
                "traffic" => traffic::table(&variants.context("variants=... says which kernels")?),
                "unsafe" => unsafe_code::table(root),
                _ => bail!("there is no table {name:?}"),
            }
        }
    }
}

/// The variants of a list with commas, which have to be in the table of kernels.
fn variants(list: &str) -> Result<Vec<&'static str>> {
    let find = |name| gemm_spec::variants().find(|variant| *variant == name);
    list.split(',').map(|name| find(name).with_context(|| format!("no variant {name:?}"))).collect()
}

/// The kernel by which a variant is described: its first instance.
fn first_instance(variant: &str) -> Result<&'static Kernel> {
    gemm_spec::kernels()
        .find(|kernel| kernel.variant == variant)
        .with_context(|| format!("no variant {variant:?}"))
}

/// A Markdown table: the head, then the rows.
fn markdown(head: &[String], rows: &[Vec<String>]) -> String {
    let line = |cells: &[String]| {
        let cells: Vec<String> = cells
            .iter()
            .map(|c| if c.is_empty() { " ".into() } else { format!(" {c} ") })
            .collect();
        format!("|{}|\n", cells.join("|"))
    };
    let mut text = line(head);
    text += &format!("|{}\n", "---|".repeat(head.len()));
    for row in rows {
        text += &line(row);
    }
    text
}
