//! The products that a warpgroup has in flight, and their groups.
//!
//! PTX ISA, "Asynchronous Warpgroup Level Matrix Multiply-Accumulate Instructions". The four warps
//! execute each instruction together, but each comes in its own time: an operation starts when the
//! last of them has come, and what the warps say must agree.

use std::collections::VecDeque;
use std::fmt;

/// Warps of a warpgroup.
pub const WARPS_OF_GROUP: usize = 4;

/// One step that all warps of the group take, in the order in which they take it.
#[derive(Clone, Debug, PartialEq)]
enum Step<K> {
    Multiply(K),
    Commit,
}

/// The warps of a group do not execute the same instructions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WgmmaMismatch {
    /// The warp of the group, 0 to 3, that differs from those before it.
    pub warp: usize,
    /// What it does and what the others did.
    pub what: String,
}

impl fmt::Display for WgmmaMismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "warp {} of its warpgroup {}", self.warp, self.what)
    }
}

impl std::error::Error for WgmmaMismatch {}

/// A warpgroup's products; `K` says all in which the four warps must agree: instruction,
/// descriptors, immediates.
#[derive(Clone, Debug)]
pub struct WarpGroupOps<K> {
    /// Steps from number `first` on.
    steps: VecDeque<Step<K>>,
    first: u64,
    /// How many steps each warp has taken.
    taken: [u64; WARPS_OF_GROUP],
    /// How many steps each warp has waited for.
    waited: [u64; WARPS_OF_GROUP],
}

impl<K> Default for WarpGroupOps<K> {
    fn default() -> Self {
        WarpGroupOps { steps: VecDeque::new(), first: 0, taken: [0; 4], waited: [0; 4] }
    }
}

impl<K: Clone + PartialEq + fmt::Debug> WarpGroupOps<K> {
    fn take(&mut self, warp: usize, step: Step<K>) -> Result<(u64, bool), WgmmaMismatch> {
        let number = self.taken[warp];
        match self.steps.get((number - self.first) as usize) {
            None => self.steps.push_back(step),
            Some(others) if *others == step => {}
            Some(others) => {
                let what = format!("executes {step:?}, where others executed {others:?}");
                return Err(WgmmaMismatch { warp, what });
            }
        }
        self.taken[warp] += 1;
        Ok((number, self.taken.iter().all(|&taken| taken > number)))
    }

    /// `wgmma.mma_async` by a warp: the operation's number, and whether all four warps have now
    /// executed it.
    pub fn multiply(&mut self, warp: usize, operation: K) -> Result<(u64, bool), WgmmaMismatch> {
        self.take(warp, Step::Multiply(operation))
    }

    /// `wgmma.commit_group` by a warp.
    pub fn commit(&mut self, warp: usize) -> Result<(), WgmmaMismatch> {
        self.take(warp, Step::Commit).map(|_| ())
    }

    /// The number of the first step that a wait of the warp, which lets the `latest` groups go on,
    /// does not cover.
    fn covered(&self, warp: usize, latest: usize) -> u64 {
        let taken = (self.taken[warp] - self.first) as usize;
        let mut commits = latest;
        for (index, step) in self.steps.iter().enumerate().take(taken).rev() {
            match step {
                Step::Commit if commits == 0 => return self.first + index as u64 + 1,
                Step::Commit => commits -= 1,
                Step::Multiply(_) => {}
            }
        }
        self.waited[warp]
    }

    /// `wgmma.wait_group N` by a warp: the numbers of the operations that must be complete and
    /// that the warp has not waited for before, or `None` while other warps have not come to all
    /// of them.
    pub fn wait(&mut self, warp: usize, latest: usize) -> Option<Vec<u64>> {
        let end = self.covered(warp, latest).max(self.waited[warp]);
        if self.taken.iter().any(|&taken| taken < end) {
            return None;
        }
        let start = self.waited[warp];
        self.waited[warp] = end;
        let is_multiply =
            |&number: &u64| matches!(self.steps[(number - self.first) as usize], Step::Multiply(_));
        let numbers = (start..end).filter(is_multiply).collect();
        while self.waited.iter().all(|&waited| waited > self.first) {
            self.steps.pop_front();
            self.first += 1;
        }
        Some(numbers)
    }

    /// Operations that the warp has started and not waited for.
    pub fn in_flight(&self, warp: usize) -> usize {
        let range = self.waited[warp]..self.taken[warp];
        let step = |number: u64| &self.steps[(number - self.first) as usize];
        range.filter(|&number| matches!(step(number), Step::Multiply(_))).count()
    }

    /// What a warp that waits misses.
    pub fn describe(&self, warp: usize) -> String {
        let behind = |w: &usize| self.taken[*w] < self.taken[warp];
        let warps: Vec<String> =
            (0..WARPS_OF_GROUP).filter(behind).map(|w| w.to_string()).collect();
        format!(
            "waits for {} products of its warpgroup, to which warps {} of the group have not come",
            self.in_flight(warp),
            warps.join(", ")
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operation_starts_with_the_last_warp() {
        let mut ops = WarpGroupOps::default();
        for warp in 0..4 {
            assert_eq!(ops.multiply(warp, "a"), Ok((0, warp == 3)));
        }
        for warp in 0..4 {
            ops.commit(warp).unwrap();
        }
        assert_eq!(ops.wait(0, 1), Some(vec![]));
        assert_eq!(ops.wait(0, 0), Some(vec![0]));
        assert_eq!(ops.wait(0, 0), Some(vec![]));
        assert_eq!(ops.wait(1, 0), Some(vec![0]));
        assert_eq!((ops.in_flight(1), ops.in_flight(2)), (0, 1));
    }

    #[test]
    fn a_wait_waits_for_the_other_warps() {
        let mut ops = WarpGroupOps::default();
        for warp in 0..3 {
            ops.multiply(warp, 1).unwrap();
            ops.commit(warp).unwrap();
        }
        assert_eq!(ops.wait(0, 0), None);
        assert!(ops.describe(0).ends_with("to which warps 3 of the group have not come"));
        ops.multiply(3, 1).unwrap();
        assert_eq!(ops.wait(0, 0), None);
        ops.commit(3).unwrap();
        assert_eq!(ops.wait(0, 0), Some(vec![0]));
    }

    #[test]
    fn the_latest_groups_go_on() {
        let mut ops = WarpGroupOps::default();
        for step in 0..10 {
            for warp in 0..4 {
                ops.multiply(warp, step).unwrap();
                ops.commit(warp).unwrap();
            }
            for warp in 0..4 {
                let done: Vec<u64> = (step > 0).then(|| step * 2 - 2).into_iter().collect();
                assert_eq!(ops.wait(warp, 1), Some(done));
            }
        }
        assert!(ops.steps.len() <= 4);
        assert_eq!(ops.wait(2, 0), Some(vec![18]));
    }

    #[test]
    fn products_that_no_group_has_are_not_waited_for() {
        let mut ops = WarpGroupOps::default();
        for warp in 0..4 {
            ops.multiply(warp, 0).unwrap();
        }
        assert_eq!(ops.wait(0, 0), Some(vec![]));
        assert_eq!(ops.in_flight(0), 1);
    }

    #[test]
    fn warps_must_agree() {
        let mut ops = WarpGroupOps::default();
        ops.multiply(0, 7).unwrap();
        let error = ops.multiply(1, 8).unwrap_err();
        assert_eq!(
            error.to_string(),
            "warp 1 of its warpgroup executes Multiply(8), where others executed Multiply(7)"
        );
        assert!(ops.commit(2).is_err());
    }
}
