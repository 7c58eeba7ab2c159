//! Times of several candidates, taken in turn so that each sees the same state of the machine.

use anyhow::{Result, ensure};
use std::time::{Duration, Instant};

/// Something that can be timed.
pub trait Work {
    /// Runs it `runs` times without a pause and tells how long that took, by the clock of the
    /// device that does the work.
    fn sample(&mut self, runs: u32) -> Result<Duration>;

    /// From now on, whether the runs of a sample are recorded once and repeated by the GPU, in one
    /// launch. Answers whether it can.
    fn replay(&mut self, _on: bool) -> bool {
        false
    }

    /// The median time that the host spends on enqueuing one run, where work is enqueued.
    fn host_time(&mut self) -> Result<Option<Duration>> {
        Ok(None)
    }
}

/// Times of one candidate.
#[derive(Clone, Debug)]
pub struct Times {
    sorted_ms: Vec<f64>,
    runs: u32,
}

impl Times {
    /// Times of samples in milliseconds for one run, in any order, `runs` in each; at least one
    /// sample, each a positive number.
    pub fn new(mut ms: Vec<f64>, runs: u32) -> Result<Times> {
        ensure!(!ms.is_empty(), "no time was measured");
        ensure!(ms.iter().all(|ms| ms.is_finite() && *ms > 0.0), "a time that is no time: {ms:?}");
        ms.sort_by(f64::total_cmp);
        Ok(Times { sorted_ms: ms, runs })
    }

    /// The middle one, or halfway between the middle two.
    pub fn median_ms(&self) -> f64 {
        let count = self.sorted_ms.len();
        (self.sorted_ms[(count - 1) / 2] + self.sorted_ms[count / 2]) / 2.0
    }

    /// The time that the fraction `q` of all stays at or under (nearest rank).
    pub fn quantile_ms(&self, q: f64) -> f64 {
        let last = self.sorted_ms.len() - 1;
        self.sorted_ms[(q * last as f64).round() as usize]
    }

    /// The [`spread`] of the samples.
    pub fn spread(&self) -> f64 {
        spread(self.quantile_ms(0.1), self.median_ms(), self.quantile_ms(0.9))
    }

    /// How many samples there are.
    pub fn rounds(&self) -> usize {
        self.sorted_ms.len()
    }

    /// Runs in each sample.
    pub fn runs(&self) -> u32 {
        self.runs
    }
}

/// Half the distance from p10 to p90, as a fraction of the median.
pub fn spread(p10: f64, median: f64, p90: f64) -> f64 {
    (p90 - p10) / 2.0 / median
}

/// How much is measured.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Untimed samples of each candidate before the first timed one.
    pub warm_up: usize,
    /// The most timed samples of each candidate; up to [`MORE_ROUNDS`] times as many where times
    /// jump.
    pub rounds: usize,
    /// The fewest, however long they take.
    pub min_rounds: usize,
    /// How long all samples of a row may take together.
    pub budget: Duration,
    /// How long a sample is at least; shorter work runs several times in it, since the two events
    /// around a sample take a microsecond or two, and keep its first run from overlapping.
    pub min_sample: Duration,
}

impl Effort {
    /// For published numbers: 30 rounds, or as many as fit in two seconds but at least 3.
    pub const STANDARD: Effort = Effort {
        warm_up: 3,
        rounds: 30,
        min_rounds: 3,
        budget: Duration::from_secs(2),
        min_sample: Duration::from_micros(400),
    };
}

/// The most runs in one sample.
pub const MAX_RUNS: u32 = 64;

/// Where the [`spread`] of a candidate is more than this, there are more rounds: of times that jump
/// between two clocks, few samples say which there were more of by chance.
pub const SETTLED: f64 = 0.02;
/// So many times as many rounds as were asked for, at most.
pub const MORE_ROUNDS: usize = 4;

/// One sample of each candidate in turn, `effort.rounds` times or as often as the budget allows,
/// each round starting with another candidate; up to [`MORE_ROUNDS`] times as often, within the
/// budget, until the times are [`SETTLED`]. A candidate that fails gets its error and does not
/// disturb the others.
pub fn alternate(candidates: &mut [&mut dyn Work], effort: &Effort) -> Vec<Result<Times>> {
    let mut entries: Vec<Result<Entry>> =
        candidates.iter_mut().map(|work| Entry::warm(*work, effort)).collect();
    let round: Duration = entries.iter().flatten().map(|entry| entry.estimate).sum();
    let affordable = effort.budget.as_secs_f64() / round.as_secs_f64().max(1e-9);
    let rounds = (affordable as usize).clamp(effort.min_rounds, effort.rounds);
    let most = (affordable as usize).clamp(rounds, rounds * MORE_ROUNDS);
    for round in 0..most {
        if round >= rounds && entries.iter().flatten().all(Entry::has_settled) {
            break;
        }
        for index in 0..candidates.len() {
            let index = (index + round) % candidates.len();
            let Ok(entry) = &mut entries[index] else { continue };
            match candidates[index].sample(entry.runs) {
                Ok(time) => entry.ms.push(entry.per_run_ms(time)),
                Err(error) => entries[index] = Err(error),
            }
        }
    }
    entries.into_iter().map(|entry| entry.and_then(Entry::times)).collect()
}

/// Each candidate in turn without a pause, for `seconds` in all: half of it in a first turn, half
/// in a second one, so that a drift of the clocks meets all of them.
pub fn sustain(
    candidates: &mut [&mut dyn Work],
    effort: &Effort,
    seconds: f64,
) -> Vec<Result<Times>> {
    let effort = Effort { min_sample: Duration::from_millis(10), ..*effort };
    let mut entries: Vec<Result<Entry>> =
        candidates.iter_mut().map(|work| Entry::warm(*work, &effort)).collect();
    for _turn in 0..2 {
        for (work, slot) in candidates.iter_mut().zip(&mut entries) {
            let start = Instant::now();
            while start.elapsed().as_secs_f64() < seconds / 2.0 {
                let Ok(entry) = slot else { break };
                match work.sample(entry.runs) {
                    Ok(time) => entry.ms.push(entry.per_run_ms(time)),
                    Err(error) => *slot = Err(error),
                }
            }
        }
    }
    entries.into_iter().map(|entry| entry.and_then(Entry::times)).collect()
}

/// What is known of a candidate while it is measured.
struct Entry {
    runs: u32,
    /// Of one sample.
    estimate: Duration,
    ms: Vec<f64>,
}

impl Entry {
    /// Runs it until caches, clocks and lazily loaded code have settled, and finds how many runs
    /// fill a sample.
    fn warm(work: &mut dyn Work, effort: &Effort) -> Result<Entry> {
        let first = work.sample(1)?;
        // Where a run takes so long, there is nothing to settle that matters.
        let long = first > effort.budget / 10;
        let one = if long { first } else { work.sample(1)? };
        let runs = effort.min_sample.as_secs_f64() / one.as_secs_f64().max(1e-9);
        let runs = (runs.ceil() as u32).clamp(1, MAX_RUNS);
        let mut estimate = one;
        if !long {
            for _ in 0..effort.warm_up {
                estimate = work.sample(runs)?;
            }
        }
        Ok(Entry { runs, estimate, ms: Vec::new() })
    }

    fn per_run_ms(&self, time: Duration) -> f64 {
        time.as_secs_f64() * 1e3 / f64::from(self.runs)
    }

    fn times(self) -> Result<Times> {
        Times::new(self.ms, self.runs)
    }

    fn has_settled(&self) -> bool {
        Times::new(self.ms.clone(), self.runs).is_ok_and(|times| times.spread() <= SETTLED)
    }
}

/// The seconds of one run, the least of a few samples: enough to choose between candidates, not to
/// publish.
pub fn quick(work: &mut dyn Work) -> Result<f64> {
    let mut entry = Entry::warm(work, &Effort { warm_up: 1, ..Effort::STANDARD })?;
    for _ in 0..5 {
        let time = work.sample(entry.runs)?;
        entry.ms.push(entry.per_run_ms(time));
    }
    Ok(entry.times()?.quantile_ms(0.0) / 1e3)
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::bail;
    use std::cell::RefCell;
    use std::rc::Rc;

    /// Takes a fixed time for each run, by its own account, and notes who ran.
    struct Fixed {
        name: char,
        run: Duration,
        log: Rc<RefCell<String>>,
        fails_after: usize,
        samples: usize,
    }

    impl Work for Fixed {
        fn sample(&mut self, runs: u32) -> Result<Duration> {
            self.samples += 1;
            if self.samples > self.fails_after {
                bail!("broken");
            }
            self.log.borrow_mut().push(self.name);
            Ok(self.run * runs)
        }
    }

    fn fixed(name: char, us: u64, log: &Rc<RefCell<String>>) -> Fixed {
        let run = Duration::from_micros(us);
        Fixed { name, run, log: Rc::clone(log), fails_after: usize::MAX, samples: 0 }
    }

    #[test]
    fn quantiles_are_nearest_ranks() {
        let times = Times::new(vec![3.0, 1.0, 2.0, 5.0, 4.0], 1).unwrap();
        assert_eq!(times.median_ms(), 3.0);
        assert_eq!(Times::new(vec![4.0, 1.0, 2.0, 9.0], 1).unwrap().median_ms(), 3.0);
        assert_eq!(times.quantile_ms(0.0), 1.0);
        assert_eq!(times.quantile_ms(1.0), 5.0);
        assert_eq!(times.rounds(), 5);
    }

    #[test]
    fn no_time_nan_and_zero_are_refused() {
        assert!(Times::new(vec![], 1).is_err());
        assert!(Times::new(vec![1.0, f64::NAN], 1).is_err());
        assert!(Times::new(vec![1.0, 0.0], 1).is_err());
    }

    #[test]
    fn rounds_alternate_and_start_with_another_each_time() {
        let log = Rc::new(RefCell::new(String::new()));
        let (mut a, mut b) = (fixed('a', 100, &log), fixed('b', 200, &log));
        let effort = Effort { warm_up: 0, rounds: 4, min_rounds: 1, ..Effort::STANDARD };
        let times = alternate(&mut [&mut a, &mut b], &effort);
        assert_eq!(&log.borrow()[4..], "abbaabba");
        let [a, b] = [0, 1].map(|i| times[i].as_ref().unwrap().median_ms());
        assert!((a - 0.1).abs() < 1e-9 && (b - 0.2).abs() < 1e-9, "{a} {b}");
    }

    #[test]
    fn short_work_runs_several_times_and_long_work_seldom() {
        let log = Rc::new(RefCell::new(String::new()));
        let mut short = fixed('s', 31, &log);
        let times = alternate(&mut [&mut short], &Effort::STANDARD);
        let times = times[0].as_ref().unwrap();
        assert_eq!((times.runs(), times.rounds()), (13, 30));
        assert!((times.median_ms() - 0.031).abs() < 1e-9);
        let mut long = fixed('l', 3_000_000, &log);
        let times = alternate(&mut [&mut long], &Effort::STANDARD);
        assert_eq!(times[0].as_ref().unwrap().rounds(), 3);
    }

    /// Takes every third time twice as long.
    struct Jumping(Fixed);

    impl Work for Jumping {
        fn sample(&mut self, runs: u32) -> Result<Duration> {
            let time = self.0.sample(runs)?;
            Ok(if self.0.samples.is_multiple_of(3) { 2 * time } else { time })
        }
    }

    #[test]
    fn times_that_jump_are_taken_more_often() {
        let log = Rc::new(RefCell::new(String::new()));
        let effort = Effort { rounds: 5, ..Effort::STANDARD };
        let mut pair = [fixed('s', 100, &log), fixed('s', 100, &log)];
        let [a, b] = &mut pair;
        assert_eq!(alternate(&mut [a, b], &effort)[1].as_ref().unwrap().rounds(), 5);
        let (mut steady, mut jumping) = (fixed('s', 100, &log), Jumping(fixed('j', 100, &log)));
        let times = alternate(&mut [&mut steady, &mut jumping], &effort);
        let [steady, jumping] = [0, 1].map(|i| times[i].as_ref().unwrap());
        assert_eq!([steady.rounds(), jumping.rounds()], [5 * MORE_ROUNDS; 2]);
        assert!((jumping.median_ms() - 0.1).abs() < 1e-9);
    }

    #[test]
    fn a_failure_stays_with_its_candidate() {
        let log = Rc::new(RefCell::new(String::new()));
        let (mut good, mut bad) = (fixed('g', 100, &log), fixed('b', 100, &log));
        bad.fails_after = 7;
        let times = alternate(&mut [&mut bad, &mut good], &Effort::STANDARD);
        assert!(times[0].is_err());
        assert_eq!(times[1].as_ref().unwrap().rounds(), 30);
    }

    #[test]
    fn sustained_work_fills_its_time() {
        struct Real;
        impl Work for Real {
            /// What it says is not what it takes where the machine has other work.
            fn sample(&mut self, runs: u32) -> Result<Duration> {
                let time = Duration::from_millis(2) * runs;
                std::thread::sleep(time);
                Ok(time)
            }
        }
        let start = Instant::now();
        let times = sustain(&mut [&mut Real], &Effort::STANDARD, 1.0);
        assert!(start.elapsed() >= Duration::from_secs(1));
        let times = times[0].as_ref().unwrap();
        assert!(times.rounds() >= 4 && times.runs() >= 4, "{times:?}");
    }
}
