//! What an emulated GPU has done, in a few lines.

use std::io::Write;

use anyhow::Result;
use gemmite::emulator::Statistics;
use gemmite_bench::text;

/// Writes instructions by class, then bytes and what they cost.
pub fn write(out: &mut impl Write, counted: &Statistics) -> Result<()> {
    let classes = counted.classes().into_iter().filter(|(_, count)| *count > 0);
    let classes: Vec<String> = classes.map(|(name, count)| format!("{name} {count}")).collect();
    writeln!(out, "executed {} instructions of warps: {}", counted.total(), classes.join(", "))?;
    let Statistics { global_loaded, global_stored, global_accesses, global_sectors, .. } = *counted;
    writeln!(
        out,
        "global   {} loaded, {} stored; {global_accesses} accesses of warps, {} sectors each",
        text::bytes(global_loaded),
        text::bytes(global_stored),
        text::three_digits(global_sectors as f64 / global_accesses.max(1) as f64),
    )?;
    let Statistics { shared_loaded, shared_stored, shared_accesses, bank_conflicts, .. } = *counted;
    writeln!(
        out,
        "shared   {} loaded, {} stored; {shared_accesses} accesses of warps, {bank_conflicts} \
         rounds more for bank conflicts",
        text::bytes(shared_loaded),
        text::bytes(shared_stored),
    )?;
    Ok(())
}
