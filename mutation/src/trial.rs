//! Trials: all mutants of a kernel, and its score.

use crate::case::{self, Case, Found};
use crate::{Harmless, Mutant, mutants};
use anyhow::{Result, bail};
use gemm_spec::Kernel;
use gemmite::emulator::{Timing, ptx_of};
use std::collections::BTreeSet;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// When asynchronous operations take effect: late, at once, and two orders between.
const TIMINGS: [Timing; 4] = [Timing::Latest, Timing::Eager, Timing::Seeded(1), Timing::Seeded(2)];

/// How a kernel is tried.
#[derive(Clone, Copy, Debug)]
pub struct Trial<'a> {
    /// What may survive.
    pub harmless: &'a Harmless,
    /// Mutants that are tried at a time.
    pub jobs: usize,
    /// Every which mutant is tried: 1 for all.
    pub every: usize,
}

/// A mutant that no run has found.
#[derive(Clone, Debug)]
pub struct Survivor {
    /// The mutant.
    pub mutant: Mutant,
    /// Whether the emulator panicked, which is no way to find it.
    pub panicked: bool,
    /// Whether a case comes to the changed line at all.
    pub reached: bool,
    /// The entry of the list that names it.
    pub entry: Option<usize>,
}

/// An entry of the list, and the ordinal of an instruction of a kernel that it names.
pub type Named = (usize, usize);

/// The mutants of a kernel.
#[derive(Clone, Debug, Default)]
pub struct Score {
    /// The kernel.
    pub kernel: &'static str,
    /// Mutants that the emulator reports.
    pub reported: usize,
    /// Mutants whose product is wrong, without a report.
    pub wrong: usize,
    /// Those that neither has found.
    pub survivors: Vec<Survivor>,
    /// What the list names and was found.
    found: BTreeSet<Named>,
    /// What the list names and was not tried.
    untried: BTreeSet<Named>,
}

impl Score {
    /// Mutants that were tried.
    pub fn tried(&self) -> usize {
        self.reported + self.wrong + self.survivors.len()
    }

    /// Survivors that the list does not name, or at which the emulator panicked.
    pub fn unknown(&self) -> impl Iterator<Item = &Survivor> {
        self.survivors.iter().filter(|survivor| survivor.entry.is_none() || survivor.panicked)
    }

    /// What the list names for nothing: instructions of which no mutant survives, or may among
    /// those that were not tried.
    pub fn stale(&self) -> impl Iterator<Item = Named> {
        let survives = |named: &Named| {
            self.survivors.iter().any(|s| s.entry == Some(named.0) && s.mutant.ordinal == named.1)
        };
        self.found.difference(&self.untried).copied().filter(move |named| !survives(named))
    }
}

impl fmt::Display for Score {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Score { kernel, reported, wrong, survivors, .. } = self;
        let (tried, found) = (self.tried(), reported + wrong);
        write!(f, "{kernel}: {found} of {tried} found, {reported} by a report, ")?;
        write!(f, "{wrong} by the product; {} harmless", survivors.len() - self.unknown().count())?;
        for survivor in self.unknown() {
            let Survivor { mutant, panicked, reached, .. } = survivor;
            let why = match (panicked, reached) {
                (true, _) => "the emulator panics",
                (false, true) => "not found and not on the list",
                (false, false) => "no case comes to it",
            };
            write!(f, "\n  {mutant}: {why}")?;
        }
        Ok(())
    }
}

impl Trial<'_> {
    /// Tries the mutants of a kernel.
    ///
    /// # Errors
    /// Where the kernel as it is does not pass.
    pub fn run(&self, kernel: &'static Kernel) -> Result<Score> {
        let text = ptx_of(kernel);
        let all = mutants(&text);
        let named = |mutant: &Mutant| {
            self.harmless.find(kernel.name, mutant).map(|entry| (entry, mutant.ordinal))
        };
        let left = all.iter().enumerate().filter(|(i, _)| !i.is_multiple_of(self.every));
        let untried = left.filter_map(|(_, mutant)| named(mutant)).collect();
        let mutants: Vec<Mutant> = all.into_iter().step_by(self.every).collect();
        let cases = cases(kernel, &text, &mutants)?;
        let score = Mutex::new(Score { kernel: kernel.name, untried, ..Score::default() });
        let next = AtomicUsize::new(0);
        let work = || {
            while let Some(mutant) = mutants.get(next.fetch_add(1, Ordering::Relaxed)) {
                let (found, reached) = try_mutant(&cases, &text, mutant);
                let named = named(mutant);
                let mut score = score.lock().unwrap_or_else(PoisonError::into_inner);
                match found {
                    Some(Found::Report) => score.reported += 1,
                    Some(Found::Wrong) => score.wrong += 1,
                    Some(Found::Panic) | None => {
                        let (mutant, panicked) = (mutant.clone(), found.is_some());
                        let entry = named.map(|(entry, _)| entry);
                        score.survivors.push(Survivor { mutant, panicked, reached, entry });
                        continue;
                    }
                }
                score.found.extend(named);
            }
        };
        std::thread::scope(|scope| {
            (0..self.jobs.max(1)).for_each(|_| drop(scope.spawn(work)));
        });
        let mut score = score.into_inner().unwrap_or_else(PoisonError::into_inner);
        score.survivors.sort_by_key(|survivor| survivor.mutant.edits[0].0);
        Ok(score)
    }
}

/// A case, and the lines among those that mutants change that it comes to.
type Reaching = (Box<dyn Case>, BTreeSet<u32>);

/// The cases that are needed to come to all lines that mutants change.
fn cases(kernel: &'static Kernel, text: &str, mutants: &[Mutant]) -> Result<Vec<Reaching>> {
    let text: Arc<str> = text.into();
    let all: BTreeSet<u32> =
        mutants.iter().flat_map(|mutant| mutant.edits.iter().map(|(line, _)| *line)).collect();
    let (mut left, mut needed) = (all.clone(), Vec::new());
    for (case, is_usual) in case::cases(kernel) {
        // What a mutant does to a pipeline depends on its length.
        let all_needed = kernel.is_resident() && is_usual;
        if left.is_empty() && !all_needed {
            break;
        }
        let counted = match case.run(&text, Timing::Latest, true) {
            Ok(counted) => counted,
            Err(found) => bail!("{} itself: {found:?} for {}", kernel.name, case.describe()),
        };
        let reached: BTreeSet<u32> =
            all.iter().copied().filter(|line| counted.executed(*line) > 0).collect();
        if all_needed || !left.is_disjoint(&reached) {
            left.retain(|line| !reached.contains(line));
            needed.push((case, reached));
        }
    }
    Ok(needed)
}

/// Tries a mutant in every case that comes to it, until one finds it. Says too whether any does.
fn try_mutant(cases: &[Reaching], text: &str, mutant: &Mutant) -> (Option<Found>, bool) {
    let text: Arc<str> = mutant.apply(text).into();
    let comes =
        |reached: &BTreeSet<u32>| mutant.edits.iter().any(|(line, _)| reached.contains(line));
    let reaching: Vec<&dyn Case> =
        cases.iter().filter(|(_, reached)| comes(reached)).map(|(case, _)| &**case).collect();
    for timing in TIMINGS {
        for case in &reaching {
            if let Err(found) = case.run(&text, timing, false) {
                return (Some(found), true);
            }
        }
    }
    (None, !reaching.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_tried_and_found_is_named_for_nothing() {
        let all = mutants("bar.sync 0;\nbar.sync 0;\n");
        let survivor = |ordinal, entry| {
            let mutant = all.iter().find(|mutant| mutant.ordinal == ordinal).cloned().unwrap();
            Survivor { mutant, panicked: false, reached: true, entry }
        };
        let mut score = Score {
            found: BTreeSet::from([(0, 0), (0, 1), (0, 2), (1, 1)]),
            untried: BTreeSet::from([(0, 2)]),
            survivors: vec![survivor(0, Some(0)), survivor(1, None)],
            ..Score::default()
        };
        // Of the entry's first instruction a mutant survives, of its third one was not tried.
        assert_eq!(score.stale().collect::<Vec<_>>(), [(0, 1), (1, 1)]);
        score.survivors.push(survivor(1, Some(0)));
        assert_eq!(score.stale().collect::<Vec<_>>(), [(1, 1)]);
    }
}
