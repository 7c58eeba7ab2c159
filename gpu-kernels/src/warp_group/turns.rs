//! Whose turn it is to multiply, where each group has tiles of its own.
//!
//! ```text
//! group 0:  multiply tile 0 | write tile 0    | multiply tile 2 | write tile 2
//! group 1:                  | multiply tile 1 | write tile 1    | multiply tile 3 ...
//! ```
//!
//! A group passes the turn on when its last products of a tile have started, so that the tensor
//! cores go on with the other's. (The schedule is that of CUTLASS's
//! `KernelTmaWarpSpecializedPingpong`.)
//!
//! The ring needs turns too: by its parity a stage's round is told from the one before and from no
//! other, so that a group may wait for a stage only when the rounds before are over. They are when
//! it is its turn, since the other group has waited for all stages in between.

use super::Geometry;
use crate::SharedTile;
use core::marker::PhantomData;
use cuda_std::mbarrier::{Mbarrier, Parity};
use cuda_std::thread;

/// Makes the barriers ready, one for each group: a phase ends when the other passes the turn on.
///
/// # Safety
/// By one thread, before anybody uses them.
#[inline(always)]
pub unsafe fn init<G: Geometry>(barriers: SharedTile<Mbarrier>) {
    if G::TAKES_TURNS {
        for group in 0..G::GROUPS {
            // SAFETY: the caller's promise.
            unsafe { barriers.add(group).init(1) };
        }
    }
}

/// A group's number, and its turns.
#[derive(Clone, Copy)]
pub struct Turns<G> {
    barriers: SharedTile<Mbarrier>,
    group: usize,
    /// How many it has had.
    had: u32,
    geometry: PhantomData<G>,
}

impl<G: Geometry> Turns<G> {
    /// Group number `group`'s, before its first.
    #[inline(always)]
    pub fn new(barriers: SharedTile<Mbarrier>, group: usize) -> Self {
        const { assert!(!G::TAKES_TURNS || G::GROUPS == 2) };
        Turns { barriers, group, had: 0, geometry: PhantomData }
    }

    /// The group's number.
    #[inline(always)]
    pub fn group(self) -> usize {
        self.group
    }

    /// Waits for the group's next turn; at once for group 0's first, and where none are taken.
    ///
    /// # Safety
    /// The barriers are ready.
    #[inline(always)]
    pub unsafe fn wait(&mut self) {
        if G::TAKES_TURNS {
            // Group 0 has had one turn more than it was given.
            let given = self.had.wrapping_add(self.group as u32).wrapping_sub(1);
            // SAFETY: the caller's promise.
            unsafe { self.barriers.add(self.group).wait(Parity::of(given)) };
            self.had = self.had.wrapping_add(1);
        }
    }

    /// Gives the other group its turn, whether or not a tile is left to it.
    ///
    /// # Safety
    /// By all threads of the group, whose turn it is; the barriers are ready.
    #[inline(always)]
    pub unsafe fn pass(self) {
        if G::TAKES_TURNS && thread::thread_idx_x() % 128 == 0 {
            // SAFETY: the caller's promise.
            unsafe { self.barriers.add(1 - self.group).arrive() };
        }
    }
}
