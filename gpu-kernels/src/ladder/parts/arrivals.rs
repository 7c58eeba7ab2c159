//! When a stage may be read, and when it may be filled again.

use crate::SharedTile;
use cuda_std::mbarrier::{Mbarrier, Parity};
use cuda_std::{async_copy, thread};

/// How a warp knows that a stage's copies have arrived, and that it may be filled again: all
/// threads of the block meet once a step, or each stage has two barriers that count who has come so
/// far, and a warp waits for nobody who is behind.
///
/// All numbers are constants of the program but those of the stage.
#[derive(Clone, Copy)]
pub struct Arrivals<const PENDING: u32> {
    /// Barriers that a stage is full, then those that it is empty; none where threads meet.
    barriers: Option<SharedTile<Mbarrier>>,
    /// The stage that is read, and how often the ring was gone around.
    stage: u32,
    round: u32,
    stages: u32,
    /// Steps between the one that is read and the one that is filled meanwhile.
    ahead: u32,
}

impl<const PENDING: u32> Arrivals<PENDING> {
    /// The block's threads meet.
    #[inline(always)]
    pub fn together(stages: usize) -> Self {
        let stages = stages as u32;
        Arrivals { barriers: None, stage: 0, round: 0, stages, ahead: stages - 1 }
    }

    /// `threads` threads do not meet, and a warp may be `slack` steps ahead of another.
    ///
    /// # Safety
    /// By all threads of the block; there is room for two barriers a stage, which nothing else
    /// uses.
    #[inline(always)]
    pub unsafe fn apart(
        barriers: SharedTile<Mbarrier>,
        stages: usize,
        slack: usize,
        threads: usize,
    ) -> Self {
        // SAFETY: the caller's promise; the barriers are ready when all have met.
        unsafe {
            if thread::thread_idx_x() == 0 {
                for stage in 0..stages {
                    barriers.add(stage).init(threads as u32);
                    barriers.add(stages + stage).init(threads as u32);
                }
            }
            thread::sync_threads();
        }
        let (stages, ahead) = (stages as u32, (stages - 1 - slack) as u32);
        Arrivals { barriers: Some(barriers), stage: 0, round: 0, stages, ahead }
    }

    /// The stage that is filled while this one is read, and the round of it.
    #[inline(always)]
    fn filled(&self) -> (u32, u32) {
        match self.stage + self.ahead {
            stage if stage >= self.stages => (stage - self.stages, self.round + 1),
            stage => (stage, self.round),
        }
    }

    /// Behind the copies of stage number `stage`, before the first step.
    ///
    /// # Safety
    /// By all threads, once for each stage.
    #[inline(always)]
    pub unsafe fn copies_started(&self, stage: usize) {
        match self.barriers {
            // SAFETY: the caller's promise.
            Some(barriers) => unsafe { async_copy::arrive_on(barriers.add(stage)) },
            None => async_copy::commit_group(),
        }
    }

    /// Waits until all threads have given back the stage that is filled in this step; at once in
    /// the first round.
    ///
    /// # Safety
    /// By all threads.
    #[inline(always)]
    pub unsafe fn wait_empty(&self) {
        if let Some(barriers) = self.barriers {
            let (stage, round) = self.filled();
            // SAFETY: the barriers are ready.
            unsafe {
                let empty = barriers.add((self.stages + stage) as usize);
                empty.wait(Parity::of(round).flipped());
            }
        }
    }

    /// Behind a step's copies and its last read: goes on to the next stage.
    ///
    /// # Safety
    /// By all threads; behind [`Self::wait_empty`], and [`Self::wait_full`] for this stage.
    #[inline(always)]
    pub unsafe fn next(&mut self) {
        // SAFETY: the caller's promise.
        unsafe {
            self.copies_started(self.filled().0 as usize);
            if let Some(barriers) = self.barriers {
                barriers.add((self.stages + self.stage) as usize).arrive();
                self.stage += 1;
                if self.stage == self.stages {
                    self.stage = 0;
                    self.round += 1;
                }
            }
            self.wait_full();
        }
    }

    /// Waits until the stage's copies have arrived, those of all threads.
    ///
    /// # Safety
    /// By all threads; behind [`Self::copies_started`] for the stage.
    #[inline(always)]
    pub unsafe fn wait_full(&self) {
        match self.barriers {
            // SAFETY: the barriers are ready.
            Some(barriers) => unsafe {
                barriers.add(self.stage as usize).wait(Parity::of(self.round));
            },
            None => {
                async_copy::wait_group::<PENDING>();
                thread::sync_threads();
            }
        }
    }
}
