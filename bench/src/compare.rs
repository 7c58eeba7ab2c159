//! What moved between two records.

use crate::record::{Line, Record, State};
use std::collections::{HashMap, VecDeque};
use std::fmt::Write as _;

/// A candidate on a row that both records have a time for.
#[derive(Clone, Debug)]
pub struct Pair<'a> {
    /// The line of the first record.
    pub before: &'a Line,
    /// The line of the second record.
    pub after: &'a Line,
    /// Whether it is that of a launch.
    pub on_gpu: bool,
}

/// Differences under this fraction are never called a change: clocks and placement in memory move
/// medians by about so much from run to run.
const LEAST_NOISE: f64 = 0.02;

/// Microseconds by which the times of two processes may differ for the launch that they contain:
/// each process seems to have a launch cost of its own, whatever decides it. Three pairs of runs
/// differed by 0.1 to 0.25 us (docs/performance.md, "Operands made on all cores"). Spreads do not
/// show it, as all samples of a candidate are taken in one process.
pub const LAUNCH_NOISE_US: f64 = 0.25;

impl Pair<'_> {
    /// The first median over the second: above 1 it got faster.
    pub fn speed(&self) -> f64 {
        match (self.before.median_ms, self.after.median_ms) {
            (Some(before), Some(after)) => before / after,
            _ => f64::NAN,
        }
    }

    /// How far `speed` may be from 1: by the two lines' own spreads, the root of the sum of their
    /// squares and never less than 2 %, and by [`LAUNCH_NOISE_US`] on a GPU, a fraction of the
    /// shorter time.
    pub fn noise(&self) -> f64 {
        let spread = |line: &Line| line.spread().unwrap_or(0.0);
        let spreads = spread(self.before).hypot(spread(self.after)).max(LEAST_NOISE);
        let medians = [self.before, self.after].map(|line| line.median_ms.unwrap_or(f64::NAN));
        let launch = if self.on_gpu { LAUNCH_NOISE_US / 1e3 } else { 0.0 };
        spreads + launch / medians[0].min(medians[1])
    }

    /// True where the medians differ by more than the noise.
    pub fn moved(&self) -> bool {
        let speed = self.speed();
        speed.max(1.0 / speed) > 1.0 + self.noise()
    }
}

/// The lines that both records have a time for, in the order of the first; of a row that stands
/// several times the first with the first, the second with the second.
pub fn pairs<'a>(before: &'a Record, after: &'a Record) -> Vec<Pair<'a>> {
    let timed = |record: &'a Record| record.lines.iter().filter(|l| l.state == State::Timed);
    let mut later: HashMap<_, VecDeque<&Line>> = HashMap::new();
    for line in timed(after) {
        later.entry((line.row(), line.candidate.as_str())).or_default().push_back(line);
    }
    let on_gpu = before.on_gpu() && after.on_gpu();
    let pair = |line: &'a Line| {
        let after = later.get_mut(&(line.row(), line.candidate.as_str()))?.pop_front()?;
        Some(Pair { before: line, after, on_gpu })
    };
    timed(before).filter_map(pair).collect()
}

/// The comparison as text: what moved beyond the noise, slowest first, then a summary.
pub fn text(before: &Record, after: &Record) -> String {
    let mut text = String::new();
    for key in ["device", "driver", "commit", "date", "data"] {
        let value = |record: &Record| record.fact(key).unwrap_or("?").to_owned();
        let (a, b) = (value(before), value(after));
        let mark = if a == b { "" } else { "  <- differs" };
        let _ = writeln!(text, "{key:<8} {a}  |  {b}{mark}");
    }
    for (mark, only, other) in [('-', before, after), ('+', after, before)] {
        let is_new = |fact: &&(String, String)| fact.0 == "method" && !other.facts.contains(fact);
        for (_, method) in only.facts.iter().filter(is_new) {
            let _ = writeln!(text, "method   {mark} {method}");
        }
    }
    let pairs = pairs(before, after);
    let mut moved: Vec<&Pair<'_>> = pairs.iter().filter(|pair| pair.moved()).collect();
    moved.sort_by(|a, b| a.speed().total_cmp(&b.speed()));
    if !moved.is_empty() {
        text.push_str("\n  speed   noise  median before -> after, ms  what\n");
    }
    for pair in &moved {
        let (before, after) = (pair.before, pair.after);
        let _ = writeln!(
            text,
            "{:>7.3} {:>6.1}%  {:>12.5} -> {:>10.5}  {}: {} {}{}",
            pair.speed(),
            pair.noise() * 100.0,
            before.median_ms.unwrap_or(f64::NAN),
            after.median_ms.unwrap_or(f64::NAN),
            before.suite,
            before.problem(),
            before.candidate,
            before.mode.suffix(),
        );
    }
    let timed = |record: &Record| record.lines.iter().filter(|l| l.state == State::Timed).count();
    let _ = writeln!(
        text,
        "\n{} of {} times moved beyond the noise; {} are in the first record alone, {} in the \
         second",
        moved.len(),
        pairs.len(),
        timed(before) - pairs.len(),
        timed(after) - pairs.len(),
    );
    text + &rule(before.on_gpu() && after.on_gpu())
}

/// What counts as noise, in words.
fn rule(on_gpu: bool) -> String {
    let spreads = "noise: the root of the sum of both spreads' squares, at least 2 %";
    if !on_gpu {
        return format!("{spreads}\n");
    }
    format!(
        "{spreads}, and {LAUNCH_NOISE_US} us a launch on top:\n\
         times of different processes differ by up to about so much.\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Mode;

    const HEAD: &str = "suite,dtype,layout,m,n,k,batch,lda,ldb,ldc,epilogue,candidate,side,mode,\
                        state,median_ms,p10_ms,p90_ms,rounds,runs,tflops,gbps,error_over_bound,\
                        sm_mhz,temp_c,power_w,throttle,note\n";

    fn record(lines: &[(&str, &str)]) -> Record {
        let mut text = HEAD.to_owned();
        for (candidate, times) in lines {
            let _ = writeln!(
                text,
                "s,f32,nn,2,2,2,1,2,2,2,none,{candidate},ours,burst,{times},30,1,1,1,0,,,,,"
            );
        }
        Record::from_csv(&text).unwrap()
    }

    #[test]
    fn only_what_exceeds_both_spreads_moved() {
        let before = record(&[
            ("steady", "timed,1.0,0.999,1.001"),
            ("noisy", "timed,1.0,0.9,1.1"),
            ("slower", "timed,1.0,0.99,1.01"),
            ("faster", "timed,1.0,0.99,1.01"),
            ("gone", "timed,1.0,0.99,1.01"),
            ("refused", "refused,,,"),
        ]);
        let after = record(&[
            ("steady", "timed,1.019,1.018,1.02"),
            ("noisy", "timed,1.13,1.03,1.23"),
            ("slower", "timed,1.1,1.09,1.11"),
            ("faster", "timed,0.5,0.49,0.51"),
            ("refused", "timed,1.0,1.0,1.0"),
        ]);
        let pairs = pairs(&before, &after);
        let moved: Vec<&str> =
            pairs.iter().filter(|p| p.moved()).map(|p| p.before.candidate.as_str()).collect();
        assert_eq!((pairs.len(), moved), (4, vec!["slower", "faster"]));
        let text = text(&before, &after);
        assert!(text.find("slower").unwrap() < text.find("faster").unwrap());
        assert!(text.contains("2 of 4 times moved beyond the noise; 1 are in the first"), "{text}");
        assert!(text.contains("at least 2 %\n"), "no launches on the CPU: {text}");
    }

    #[test]
    fn methods_that_differ_are_told() {
        let [mut before, mut after] = [(); 2].map(|()| record(&[("same", "timed,1.0,1.0,1.0")]));
        let method = |text: &str| ("method".to_owned(), text.to_owned());
        before.facts.extend([method("burst: 5 rounds"), method("clock: events")]);
        after.facts.extend([method("clock: events"), method("tuning: plans of a.txt")]);
        let text = text(&before, &after);
        let told: Vec<&str> = text.lines().filter(|line| line.starts_with("method")).collect();
        assert_eq!(told, ["method   - burst: 5 rounds", "method   + tuning: plans of a.txt"]);
    }

    #[test]
    fn rows_that_stand_twice_are_paired_in_their_order() {
        let twice = record(&[("same", "timed,1.0,0.999,1.001"), ("same", "timed,2.0,1.999,2.001")]);
        let once = record(&[("same", "timed,1.0,0.999,1.001")]);
        assert!(pairs(&twice, &twice).iter().all(|pair| !pair.moved()));
        let alone = |a, b| text(a, b).split_once("noise; ").unwrap().1.to_owned();
        assert!(alone(&twice, &once).starts_with("1 are in the first record alone, 0 in"));
        assert!(alone(&once, &twice).starts_with("0 are in the first record alone, 1 in"));
        let mut later = record(&[("same", "timed,2.0,1.999,2.001")]);
        let mut graph = once.clone();
        [&mut later, &mut graph].into_iter().for_each(|of| of.lines[0].mode = Mode::Graph);
        assert!(text(&graph, &later).contains("s: f32 nn 2x2x2 same, as graphs\n"));
    }

    #[test]
    fn processes_differ_by_so_much_a_launch() {
        let us = |us: f64| format!("timed,{},{},{}", us / 1e3, us / 1e3, us / 1e3);
        let on_gpu = |times: [f64; 3]| {
            let names = ["short", "long", "shorter"];
            let texts = times.map(us);
            let lines: Vec<(&str, &str)> =
                names.into_iter().zip(texts.iter().map(String::as_str)).collect();
            let mut record = record(&lines);
            record.facts.push(("timer_floor_us".into(), "1.28".into()));
            record
        };
        let before = on_gpu([5.0, 500.0, 5.0]);
        let moved = |after: [f64; 3]| -> Vec<bool> {
            let after = on_gpu(after);
            pairs(&before, &after).iter().map(Pair::moved).collect()
        };
        // 2 % and 0.25 us of 5 us are 0.35 us; of 500 us they are 10.25 us.
        assert_eq!(moved([5.34, 510.2, 4.67]), [false; 3]);
        assert_eq!(moved([5.36, 510.3, 4.65]), [true; 3]);
        assert!(text(&before, &on_gpu([5.0, 500.0, 5.0])).contains("0.25 us a launch"));
    }
}
