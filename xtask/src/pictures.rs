//! Draws the guide's pictures from the tiles of the table of kernels, or tells which of the
//! committed ones are not what it would draw.
//!
//! A picture is a plain SVG file. What it counts (sectors, banks, strips) it counts from the same
//! formulas by which the kernels address memory.

mod banks;
mod cluster;
mod packs;
mod places;
mod ring;
mod sectors;
mod strips;
mod svg;
mod tensor;
mod warps;
mod waves;

use anyhow::{Context, Result, bail};
use gemm_spec::{DType, Kernel};

use crate::workspace::Workspace;

/// Where the pictures are.
const FOLDER: &str = "docs/guide/pictures";

#[derive(clap::Args)]
pub struct Args {
    /// Changes nothing; fails where a committed picture is not what would be drawn
    #[arg(long)]
    pub check: bool,
}

pub fn run(workspace: &Workspace, args: &Args) -> Result<()> {
    let mut stale = Vec::new();
    for (name, text) in all(workspace)? {
        let said = format!("{FOLDER}/{name}.svg");
        let path = workspace.root.join(&said);
        if std::fs::read_to_string(&path).is_ok_and(|old| old == text) {
            continue;
        }
        if args.check {
            stale.push(said);
        } else {
            workspace.sh.write_file(&path, text)?;
            say!("{said} written")?;
        }
    }
    if !stale.is_empty() {
        bail!("{}: run `cargo xtask pictures` and commit the result", stale.join(", "));
    }
    Ok(())
}

/// Every picture: its name and its text.
fn all(workspace: &Workspace) -> Result<Vec<(&'static str, String)>> {
    Ok(vec![
        ("k01_naive", sectors::picture(kernel("k01_naive")?, kernel("k01_naive_uncoalesced")?)),
        ("k02_tiled", strips::picture(kernel("k02_tiled_16")?)),
        ("k03_thread_column", strips::picture(kernel("k03_thread_column")?)),
        ("k04_thread_tile", strips::picture(kernel("k04_thread_tile")?)),
        ("k05_vector_loads", packs::picture(kernel("k05_vector_loads")?)),
        (
            "k06_no_conflicts",
            banks::picture(
                kernel("k04_thread_tile")?,
                kernel("k05_vector_loads")?,
                kernel("k06_no_conflicts")?,
            ),
        ),
        ("k07_warp_tile", warps::picture(kernel("k06_no_conflicts")?, kernel("k07_warp_tile")?)),
        ("k08_double_buffer", ring::two_buffers(kernel("k08_double_buffer")?)),
        ("k09_async_copy", ring::stages(kernel("k09_async_copy")?)),
        (
            "k10_grouped_order",
            waves::picture(kernel("k10_grouped_order")?, waves::group(workspace)?),
        ),
        ("k11_tensor_core", tensor::picture(kernel_for("k11_tensor_core", DType::F16)?)),
        ("warp_group", cluster::picture(kernel_for("warp_group_128x256", DType::BF16)?)),
    ])
}

/// The instance that is drawn: that for f32, where there is one.
fn kernel(variant: &str) -> Result<&'static Kernel> {
    kernel_for(variant, DType::F32)
}

fn kernel_for(variant: &str, dtype: DType) -> Result<&'static Kernel> {
    Kernel::find(variant, dtype).with_context(|| format!("no kernel {variant} for {dtype}"))
}
