//! `gemmite bench`: one product timed now, beside the peers that are on the machine.

use std::io::Write;

use anyhow::{Result, ensure};
use gemmite_bench::command;
use gemmite_bench::record::{Side, State};
use gemmite_bench::suite::Row;

use crate::args::BenchArgs;

/// Verifies and times the candidates.
pub fn run(args: &BenchArgs, out: &mut impl Write) -> Result<()> {
    let mut row = Row::new(args.dtype, args.layout, [args.m, args.n, args.k])?;
    row.precision = args.digits.precision(args.dtype)?;
    ensure!(args.batch > 0, "--batch: at least 1");
    let is_one = args.batch == 1 || args.measure.tuning.is_none();
    ensure!(is_one, "--tuning has plans of one product, and no --batch");
    row.batch = args.batch;
    row.epilogue.beta = args.beta;
    row.epilogue.alpha = args.alpha;
    row.check()?;
    let (bench, options) = args.measure.open()?;
    for (key, value) in bench.facts()? {
        writeln!(out, "{key:<15} {value}")?;
    }
    writeln!(out, "{:<15} {}", "data", options.data)?;
    out.flush()?;
    let lines = bench.row("bench", row, &options)?;
    writeln!(out, "{:<15} {}\n", "product", lines[0].problem())?;
    write!(out, "{}", command::table(&lines))?;
    let spoiled = lines.iter().find(|line| {
        line.side == Side::Ours && matches!(line.state, State::Refused | State::Failed)
    });
    let spoiled = spoiled.map(|line| format!("{}: {}", line.candidate, line.note));
    ensure!(spoiled.is_none(), "{}", spoiled.unwrap_or_default());
    Ok(())
}
