//! `gemmite tune`: measures plans on this GPU, and keeps the fastest in a file.

use std::io::Write;

use anyhow::{Context, Result, bail, ensure};
use gemmite::DeviceKind;
use gemmite::tune::{Measured, Tuned, Tuning};
use gemmite_bench::gpu::Gpu;
use gemmite_bench::suite::{Row, Suite};
use gemmite_bench::text;
use gemmite_bench::timing::Effort;
use gemmite_bench::tune;

use crate::args::TuneArgs;
use crate::output::Output;

/// Plans of a product that are listed.
const FEW: usize = 5;

/// Measures the plans of each product, and writes the file after each, so that an interrupted run
/// has what it measured.
pub fn run(args: &TuneArgs, out: &mut impl Write) -> Result<()> {
    let rows = rows(args)?;
    ensure!(args.rounds > 0, "--rounds: at least 1");
    Output::new(&args.output, true)?;
    let device = args.device.open()?;
    let DeviceKind::Cuda { ordinal } = device.info().kind else {
        bail!(
            "{device} has no plans to be timed: `gemmite tune` measures on a GPU; the CPU's engine \
             computes every product alike, and the emulator's times are not a GPU's"
        );
    };
    let gpu = Gpu::open(ordinal)?;
    let mut tuning = match args.output.exists() && !args.force {
        false => Tuning::new(&device)?,
        true => {
            let old = Tuning::read(&args.output);
            let old = old.and_then(|old| old.check_origin(&device).map(|()| old));
            old.with_context(|| format!("{}: --force starts anew", args.output.display()))?
        }
    };
    let rounds = args.rounds;
    let min_rounds = Effort::STANDARD.min_rounds.min(rounds);
    let effort = Effort { rounds, min_rounds, ..Effort::STANDARD };
    let (mut tuned, mut wrong) = (0, 0);
    for row in rows {
        writeln!(out, "{}", product(&row))?;
        match tune::row(&gpu, row, &effort) {
            Ok(product) => {
                tuned += 1;
                wrong += report(&product, out)?;
                tuning.add(&product);
                tuning.write(&args.output)?;
            }
            Err(error) => writeln!(out, "  left to the model: {error:#}")?,
        }
        out.flush()?;
    }
    let (plans, path) = (tuning.len(), args.output.display());
    ensure!(tuned > 0, "no product could be tuned; nothing was written to {path}");
    writeln!(out, "{plans} products have plans in {path}; `--tuning {path}` takes them")?;
    ensure!(wrong == 0, "{wrong} plans computed wrong products: please report this");
    Ok(())
}

/// The products that the arguments ask for; of a suite, those that have plans of their own.
fn rows(args: &TuneArgs) -> Result<Vec<Row>> {
    if let Some(suite) = &args.suite {
        let mut rows = Suite::find(suite)?.rows;
        rows.retain(|row| row.batch == 1 && !row.epilogue.is_fused());
        ensure!(!rows.is_empty(), "suite {suite} has no product without a batch and an epilogue");
        return Ok(rows);
    }
    // Three, as the arguments are declared.
    let [m, n, k] = [0, 1, 2].map(|i| args.sizes[i]);
    let row = Row::new(args.dtype, args.layout, [m, n, k])?;
    let precision = args.digits.precision(args.dtype)?;
    Ok(vec![Row { precision, ..row }])
}

/// As in `nt bf16: 4096x4096, sums of 512`.
fn product(row: &Row) -> String {
    let letter = |op| if op == gemmite::Op::None { 'n' } else { 't' };
    let (a, b) = (letter(row.op_a), letter(row.op_b));
    let name = row.precision.name(row.dtype);
    format!("{a}{b} {name}: {}x{}, sums of {}", row.m, row.n, row.k)
}

/// Prints the fastest plans, and those that were wrong; says how many were.
fn report(tuned: &Tuned, out: &mut impl Write) -> Result<usize> {
    let best = tuned.best();
    let mut timed: Vec<&Measured> =
        tuned.measured().iter().filter(|of| of.micros.is_ok()).collect();
    let time = |of: &Measured| of.micros.as_ref().copied().unwrap_or(f64::INFINITY);
    timed.sort_by(|a, b| time(a).total_cmp(&time(b)));
    let model = &tuned.measured()[0];
    let mut rows = vec![["  plan", "measured", "predicted", ""].map(String::from).to_vec()];
    let is_listed = |i: usize, of: &Measured| i < FEW || of == model || of == best;
    for (_, of) in timed.iter().enumerate().filter(|(i, of)| is_listed(*i, of)) {
        let note = match (*of == best, *of == model) {
            (true, true) => "kept, the model's choice",
            (true, false) => "kept",
            (false, true) => "the model's choice",
            (false, false) => "",
        };
        rows.push(vec![
            format!("  {}", of.plan),
            format!("{:.1} us", time(of)),
            format!("{:.1} us", of.plan.prediction.total()),
            note.into(),
        ]);
    }
    write!(out, "{}", text::table(1, &rows))?;
    let mut wrong = 0;
    for of in tuned.measured() {
        if let Err(why) = &of.micros {
            let what = if of.is_wrong { "WRONG" } else { "not timed" };
            writeln!(out, "  {what}: {}: {why}", of.plan)?;
            wrong += usize::from(of.is_wrong);
        }
    }
    Ok(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Cli, Command};
    use clap::Parser;

    fn args(line: &str) -> TuneArgs {
        let cli = Cli::try_parse_from(line.split(' ')).unwrap();
        match cli.command {
            Command::Tune(args) => args,
            _ => unreachable!("the line says tune"),
        }
    }

    fn error(line: &str) -> String {
        format!("{:#}", run(&args(line), &mut Vec::new()).unwrap_err())
    }

    #[test]
    fn products_are_taken_from_arguments_or_a_suite() {
        let rows = |line: &str| rows(&args(line));
        let one = rows("gemmite tune 30 40 50 --dtype f32 --layout nt --tf32").unwrap();
        assert_eq!(one.iter().map(product).collect::<String>(), "nt tf32: 30x40, sums of 50");
        let split = rows("gemmite tune 3 4 5 --dtype f32 --bf16x6").unwrap();
        assert_eq!(split.iter().map(product).collect::<String>(), "nn bf16x6: 3x4, sums of 5");
        let suite = rows("gemmite tune --suite llm").unwrap();
        assert!(suite.len() > 10 && suite.iter().all(|row| row.batch == 1));
        assert!(rows("gemmite tune --suite batched").is_err());
        assert!(Cli::try_parse_from("gemmite tune".split(' ')).is_err());
        assert!(Cli::try_parse_from("gemmite tune 30 40".split(' ')).is_err());
        assert!(Cli::try_parse_from("gemmite tune 1 2 3 --suite llm".split(' ')).is_err());
    }

    #[test]
    fn the_cpu_and_the_emulator_are_refused() {
        for device in ["cpu", "emulator"] {
            let line = format!("gemmite tune 30 40 50 --device {device}");
            assert!(error(&line).contains("measures on a GPU"), "{}", error(&line));
        }
    }

    #[test]
    fn a_file_that_cannot_be_is_refused_before_anything_is_measured() {
        let message = error("gemmite tune 30 40 50 -o no-such-folder/plans.txt --device cpu");
        assert!(message.contains("the folder no-such-folder does not exist"), "{message}");
    }
}
