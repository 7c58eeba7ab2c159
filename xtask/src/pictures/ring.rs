//! Steps 8 and 9: what happens at the same time.

use gemm_spec::{DType, Kernel};

use super::svg::Svg;

/// Pixels of one unit of the schematic time.
const UNIT: f64 = 25.0;
const LEFT: f64 = 150.0;

/// Step 8 beside step 7.
pub fn two_buffers(kernel: &Kernel) -> String {
    let about = "Step 7 loads a step's tiles, stores them, waits, multiplies and waits again, \
                 one after the other. Step 8 loads the next step's tiles while it multiplies \
                 this step's, stores them to the other pair of tiles, and waits once.";
    let title = "Step 8: the next tiles are on their way while these are multiplied";
    let mut svg = Svg::new(title, about, (900.0, 320.0));
    let note = "A scheme: lengths are not measured. Light and strong green: the two pairs of \
                tiles. A line is a barrier of the block.";
    svg.text("small muted", (20.0, 46.0), note);
    svg.text("", (20.0, 82.0), "step 7, one pair of tiles");
    labels(&mut svg, 98.0);
    let (load, store, multiply) = (4.0, 1.0, 5.0);
    let mut at = 0.0;
    for step in 0..3 {
        bar(&mut svg, "a", (at, 98.0), load, &format!("load {step}"));
        bar(&mut svg, "a2", (at + load, 98.0), store, "");
        at += load + store;
        barrier(&mut svg, at, 98.0);
        if at + multiply > 28.0 {
            break;
        }
        bar(&mut svg, "c", (at, 126.0), multiply, &format!("multiply {step}"));
        at += multiply;
        barrier(&mut svg, at, 98.0);
    }
    let stages = kernel.tiles.stages;
    svg.text("", (20.0, 202.0), &format!("step 8, {stages} pairs of tiles"));
    labels(&mut svg, 218.0);
    bar(&mut svg, "a", (0.0, 218.0), load, "load 0");
    bar(&mut svg, "a2", (load, 218.0), store, "");
    let mut at = load + store;
    barrier(&mut svg, at, 218.0);
    for step in 0..4 {
        let class = if step % stages == 0 { "c" } else { "c2" };
        bar(&mut svg, class, (at, 246.0), multiply, &format!("multiply {step}"));
        bar(&mut svg, "a", (at, 218.0), load, &format!("load {}", step + 1));
        bar(&mut svg, "a2", (at + multiply, 218.0), store, "");
        at += multiply + store;
        barrier(&mut svg, at, 218.0);
    }
    svg.rect("a2", (20.0, 296.0), (11.0, 11.0));
    svg.text("small", (38.0, 306.0), "from the registers to shared memory");
    svg.finish()
}

fn labels(svg: &mut Svg, y: f64) {
    svg.text("small muted", (20.0, y + 15.0), "memory");
    svg.text("small muted", (20.0, y + 43.0), "arithmetic");
}

fn bar(svg: &mut Svg, class: &str, (at, y): (f64, f64), length: f64, words: &str) {
    let x = LEFT + at * UNIT;
    svg.rect(&format!("{class} thin"), (x, y), (length * UNIT, 22.0));
    svg.text("small mid", (x + length * UNIT / 2.0, y + 15.0), words);
}

fn barrier(svg: &mut Svg, at: f64, y: f64) {
    let x = LEFT + at * UNIT;
    svg.line("bold", (x, y - 6.0), (x, y + 58.0));
}

/// What a stage of the ring does during a step.
#[derive(Debug, PartialEq)]
enum Use {
    /// Nothing was asked for yet.
    Idle,
    /// Copies for this step are under way, or have arrived.
    Copies(usize),
    /// The tiles of this step are multiplied.
    Reads(usize),
}

/// The ring of k09: the copies for step t + S - 1 start in step t.
fn usage(stages: usize, stage: usize, step: usize) -> Use {
    if step % stages == stage {
        return Use::Reads(step);
    }
    match (step + 1..step + stages).find(|later| later % stages == stage) {
        Some(later) => Use::Copies(later),
        None => Use::Idle,
    }
}

/// Step 9: the ring of stages, for f32 and f64.
pub fn stages(kernel: &Kernel) -> String {
    let mut rings = vec![kernel];
    if let Some(f64) = Kernel::find(kernel.variant, DType::F64) {
        rings.extend((f64.tiles.stages != kernel.tiles.stages).then_some(f64));
    }
    let of_ring = |ring: &Kernel| format!("{} stages for {}", ring.tiles.stages, ring.dtype);
    let lists = rings.iter().map(|ring| of_ring(ring)).collect::<Vec<_>>().join(", ");
    let about = format!(
        "A ring of stages, {lists}. In each step one stage is read, and the copies for the step \
         S - 1 later start into the stage that was read last."
    );
    let height = 60.0 + rings.iter().map(|r| 62.0 + r.tiles.stages as f64 * 30.0).sum::<f64>();
    let title = "Step 9: a ring of stages, filled past the registers";
    let mut svg = Svg::new(title, &about, (900.0, height));
    let note = "A row is a stage of shared memory, a column a step. Blue: the copies for that \
                step start here (strong) or are under way; green: its tiles are multiplied.";
    svg.text("small muted", (20.0, 46.0), note);
    let mut top = 82.0;
    for ring in rings {
        svg.text("", (20.0, top), &of_ring(ring));
        top = grid(&mut svg, ring.tiles.stages, top + 12.0) + 32.0;
    }
    svg.finish()
}

fn grid(svg: &mut Svg, stages: usize, top: f64) -> f64 {
    let (wide, high, shown) = (80.0, 26.0, 9);
    for stage in 0..stages {
        let y = top + stage as f64 * 30.0;
        svg.text("small muted", (20.0, y + 17.0), &format!("stage {stage}"));
        for step in 0..shown {
            let x = 100.0 + step as f64 * wide;
            // The stages that are full before step 0 were asked for before the loop.
            let (class, words) = match usage(stages, stage, step) {
                Use::Idle => ("empty", String::new()),
                Use::Copies(later) if later == step + stages - 1 => ("a2", format!("copy {later}")),
                Use::Copies(later) => ("a", format!("copy {later}")),
                Use::Reads(now) => ("c2", format!("multiply {now}")),
            };
            svg.rect(&format!("{class} thin"), (x, y), (wide - 4.0, high));
            svg.text("small mid", (x + (wide - 4.0) / 2.0, y + 17.0), &words);
        }
    }
    let bottom = top + stages as f64 * 30.0;
    for step in 0..shown {
        let x = 100.0 + step as f64 * wide + (wide - 4.0) / 2.0;
        svg.text("tiny mid muted", (x, bottom + 8.0), &format!("step {step}"));
    }
    bottom
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stage_is_copied_to_after_it_was_read() {
        for stages in [3, 4] {
            for step in 0..20 {
                let uses: Vec<Use> = (0..stages).map(|stage| usage(stages, stage, step)).collect();
                assert_eq!(
                    uses.iter().filter(|u| matches!(u, Use::Reads(s) if *s == step)).count(),
                    1
                );
                assert!(!uses.contains(&Use::Idle));
                // The stage that starts to be filled in this step was read in the step before.
                let filled =
                    uses.iter().position(|u| *u == Use::Copies(step + stages - 1)).unwrap();
                assert!(step == 0 || usage(stages, filled, step - 1) == Use::Reads(step - 1));
            }
        }
    }
}
