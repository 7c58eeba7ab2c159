//! The ring of stages: which is next, and the barriers that pass each of them from the thread that
//! fills it to the groups that read it, and back.

use super::Geometry;
use super::write::{sync, wait_for_copies};
use crate::SharedTile;
use core::marker::PhantomData;
use cuda_std::mbarrier::{Mbarrier, Parity};
use cuda_std::thread;

/// A place in the ring.
#[derive(Clone, Copy)]
pub struct Ring<G> {
    /// Barriers that a stage is full, then those that it is empty.
    barriers: SharedTile<Mbarrier>,
    stage: u32,
    /// How often the ring was gone around.
    round: u32,
    geometry: PhantomData<G>,
}

impl<G: Geometry> Ring<G> {
    /// At the first stage.
    #[inline(always)]
    pub fn new(barriers: SharedTile<Mbarrier>) -> Self {
        Ring { barriers, stage: 0, round: 0, geometry: PhantomData }
    }

    /// Makes the barriers ready: before a stage is full, so many threads have arrived, and before
    /// it is empty, the groups of all blocks that fill it give it back.
    ///
    /// # Safety
    /// By one thread, before anybody uses them.
    #[inline(always)]
    pub unsafe fn init(self, writers: u32) {
        let groups = if G::IN_TURN { 1 } else { G::GROUPS };
        let readers = (groups * G::CLUSTER) as u32;
        for stage in 0..G::STAGES {
            // SAFETY: the caller's promise.
            unsafe {
                self.barriers.add(stage).init(writers);
                self.barriers.add(G::STAGES + stage).init(readers);
            }
        }
    }

    /// The stage's number.
    #[inline(always)]
    pub fn stage(self) -> usize {
        self.stage as usize
    }

    /// Goes on to the next stage.
    #[inline(always)]
    pub fn next(&mut self) {
        self.stage += 1;
        if self.stage == G::STAGES as u32 {
            self.stage = 0;
            self.round += 1;
        }
    }

    /// Goes past so many stages, which another group gives back.
    #[inline(always)]
    pub fn skip(&mut self, stages: u32) {
        let stage = self.stage + stages;
        self.stage = stage % G::STAGES as u32;
        self.round += stage / G::STAGES as u32;
    }

    /// The place behind this one.
    #[inline(always)]
    pub fn after(mut self) -> Self {
        self.next();
        self
    }

    /// The place before this one.
    #[inline(always)]
    pub fn before(self) -> Self {
        match self.stage {
            0 => Ring { stage: G::STAGES as u32 - 1, round: self.round.wrapping_sub(1), ..self },
            stage => Ring { stage: stage - 1, ..self },
        }
    }

    /// The barrier on which this stage's copies are counted.
    #[inline(always)]
    pub fn full(self) -> SharedTile<Mbarrier> {
        // SAFETY: one of the ring's.
        unsafe { self.barriers.add(self.stage()) }
    }

    #[inline(always)]
    fn empty(self) -> SharedTile<Mbarrier> {
        // SAFETY: one of the ring's.
        unsafe { self.barriers.add(G::STAGES + self.stage()) }
    }

    /// Waits until the stage's copies have arrived.
    ///
    /// # Safety
    /// The barriers are ready.
    #[inline(always)]
    pub unsafe fn wait_full(self) {
        // SAFETY: the caller's promise.
        unsafe { self.full().wait(Parity::of(self.round)) }
    }

    /// Waits until all readers, in all blocks of the cluster, have given the stage back; at once in
    /// the first round.
    ///
    /// # Safety
    /// The barriers are ready.
    #[inline(always)]
    pub unsafe fn wait_empty(self) {
        if self.round != 0 {
            // SAFETY: the caller's promise.
            unsafe { self.empty().wait(Parity::of(self.round).flipped()) }
        }
    }

    /// Gives so many stages back that nobody reads here. Each when all warps of the group have
    /// seen it full: no products hold them together, and who waited for stages at a pace of its own
    /// might be left behind by a whole round, which a barrier's parity does not tell.
    ///
    /// # Safety
    /// By all threads of that group; the barriers are ready.
    #[inline(always)]
    pub unsafe fn pass(&mut self, stages: u32, group: usize) {
        for _ in 0..stages {
            // SAFETY: the caller's promise.
            unsafe {
                self.wait_full();
                sync::<G>(group);
                self.release();
            }
            self.next();
        }
    }

    /// Gives the stage back to every block that fills it, this one or all of the cluster: as many
    /// threads of a group as there are blocks tell one each.
    ///
    /// # Safety
    /// By all threads of a group, which is done with the stage and no longer waits for it; the
    /// barriers are ready.
    #[inline(always)]
    pub unsafe fn release(self) {
        let thread = thread::thread_idx_x() % 128;
        if thread < G::CLUSTER as u32 {
            // SAFETY: the caller's promise.
            unsafe {
                match G::CLUSTER {
                    1 => self.empty().arrive(),
                    _ => self.empty().in_block(thread).arrive(),
                }
            }
        }
    }
}

/// Waits for a warp's copies of C, and gives the stage before this place back, where that is asked
/// for.
///
/// # Safety
/// By all threads of a group, which is done with that stage.
#[inline(always)]
pub unsafe fn give_back<G: Geometry>(ring: Ring<G>, warp: u32, (waits, gives): (bool, bool)) {
    // SAFETY: the caller's promise.
    unsafe {
        if waits {
            wait_for_copies(warp);
        }
        if gives {
            ring.before().release();
        }
    }
}
