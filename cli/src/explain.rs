//! `gemmite explain`: what a product would run, why, and what else there is.

use std::io::Write;

use anyhow::{Result, bail, ensure};
use gemmite::{Batch, Device, Element, Gemm, Layout, Plan, Shape, with_element};
use gemmite_bench::suite::Ops;
use gemmite_bench::text;

use crate::args::{self, ExplainArgs};

/// Alternatives that are listed without `--all`.
const FEW: usize = 8;

/// Prints the plan of a product, its times as predicted, and the plans that it was chosen among.
pub fn run(args: &ExplainArgs, out: &mut impl Write) -> Result<()> {
    ensure!(args.batch > 0, "--batch: at least 1");
    let is_one = args.batch == 1;
    ensure!(is_one || args.tuning.is_none(), "--tuning has plans of one product, and no --batch");
    let device = match args.device {
        Some(choice) => choice.open()?,
        None => match Device::best() {
            gpu if gpu.info().compute_capability.is_some() => gpu,
            _ => Device::emulator((9, 0))?,
        },
    };
    if let Some(path) = &args.tuning {
        let plans = args::load_tuning(&device, path)?;
        writeln!(out, "tuning      {} has plans for {plans} products", path.display())?;
    }
    with_element!(args.dtype, T => explain::<T>(args, &device, out))
}

fn explain<T: Element>(args: &ExplainArgs, device: &Device, out: &mut impl Write) -> Result<()> {
    let info = device.info();
    let ExplainArgs { m, n, k, .. } = *args;
    let Ops { op_a, op_b } = args.layout;
    let stored = |op, shape: Shape| match op {
        gemmite::Op::None => Layout::row_major(shape),
        gemmite::Op::Transpose => Layout::row_major(shape.transposed()),
    };
    let (a, b) = (stored(op_a, Shape::new(m, k)), stored(op_b, Shape::new(k, n)));
    let precision = args.digits.precision(args.dtype)?;
    let gemm = Gemm::<T>::new().op_a(op_a).op_b(op_b).precision(precision);
    let gemm = gemm.batch_invariant(args.batch_invariant);
    let gemm = match &args.kernel {
        Some(name) => gemm.kernel(name.as_str()),
        None => gemm,
    };
    let distance = |rows: usize, cols: usize| rows.saturating_mul(cols).cast_signed();
    let (of_a, of_b, of_c) = (distance(m, k), distance(k, n), distance(m, n));
    let batch = Batch { count: args.batch, a: of_a, b: of_b, c: of_c };
    let plan = match args.batch {
        1 => gemm.plan_on(device, a, b)?,
        _ => gemm.plan_batch(info, a, b, batch)?,
    };
    if plan.kernel.is_none() {
        bail!("{} has no plans: its engine computes every product alike", info.name);
    }
    let name = precision.name(T::DTYPE);
    let times = if args.batch == 1 { String::new() } else { format!("{} times ", args.batch) };
    let of = format!("{} {name}: {times}{m}x{n}, sums of {k}", args.layout);
    writeln!(out, "product     {of}, on {}", info.name)?;
    writeln!(out, "plan        {plan}")?;
    let total = plan.prediction.total();
    let operations = 2.0 * m as f64 * n as f64 * k as f64 * args.batch as f64;
    let rate = text::rate(T::DTYPE.name(), operations / total * 1e6);
    writeln!(out, "predicted   {total:.1} us, {rate}")?;
    writeln!(out, "  of these  {}", parts(&plan))?;
    let mut plans = gemm.plans_batch(info, a, b, batch)?;
    let all = plans.len();
    if !args.all {
        plans.truncate(FEW);
    }
    writeln!(out, "\n{} of the {all} plans that are compared:", plans.len())?;
    let head = ["plan", "predicted", "multiplying", "memory", "copies", "parts", "rest"];
    let mut rows = vec![head.map(String::from).to_vec()];
    rows.extend(plans.iter().map(row));
    write!(out, "{}", text::table(1, &rows))?;
    Ok(())
}

/// What the time is made of.
fn parts(plan: &Plan) -> String {
    let of = &plan.prediction;
    let slower = match of.multiplying > of.memory {
        true => format!("multiplying {:.1} (memory, meanwhile, {:.1})", of.multiplying, of.memory),
        false => format!("memory {:.1} (multiplying, meanwhile, {:.1})", of.memory, of.multiplying),
    };
    let hidden = of.multiplying.min(of.memory) * of.visible;
    let mut text =
        format!("{slower}, of the latter not hidden {hidden:.1}, launches {:.1}", of.launches);
    if of.copies > 0.0 {
        text += &format!(", copies of operands {:.1}", of.copies);
    }
    if of.adding > 0.0 {
        text += &format!(", adding up {} parts {:.1}", plan.parts, of.adding);
    }
    if let Some(rest) = plan.rest {
        let what = if rest.of_rows { "rows" } else { "columns" };
        text += &format!(", {what} apart {:.1}", of.rest);
    }
    text
}

fn row(plan: &Plan) -> Vec<String> {
    let of = &plan.prediction;
    let micros = |time: f64| if time > 0.0 { format!("{time:.1}") } else { String::new() };
    vec![
        plan.to_string(),
        format!("{:.1} us", of.total()),
        micros(of.multiplying),
        micros(of.memory),
        micros(of.copies),
        micros(of.adding),
        micros(of.rest),
    ]
}
