//! The emulated memories and where they lie in the generic address space.
//!
//! Addresses of global and constant memory are the same in their own space and in the generic one.
//! Shared memory, local memory and kernel parameters have windows so high that an address of their
//! own space, taken for a generic one, is nobody's (PTX ISA 6.4.1.1).

mod global;
mod local;
mod shared;

pub(crate) use global::{Allocation, GlobalMemory, PAGE_WORDS};
pub(crate) use local::LocalMemory;
pub(crate) use shared::SharedMemory;

use crate::check::{AllocationNote, Fault, ReportKind};

/// Generic address of shared address 0.
pub(crate) const SHARED_WINDOW: u64 = 0x0100_0000_0000_0000;
/// Generic address of local address 0.
pub(crate) const LOCAL_WINDOW: u64 = 0x0200_0000_0000_0000;
/// Generic address of the kernel's first parameter.
pub(crate) const PARAM_WINDOW: u64 = 0x0300_0000_0000_0000;
/// Address of the first function of a module; functions are [`FUNCTION_STEP`] apart.
pub(crate) const FUNCTION_WINDOW: u64 = 0x0400_0000_0000_0000;
/// The distance of two functions' addresses.
pub(crate) const FUNCTION_STEP: u64 = 16;
/// Bytes of each window.
pub(crate) const WINDOW_BYTES: u64 = 1 << 32;
/// Shared addresses below this one are the system's (1 KB of each block, as on sm_80).
pub(crate) const SHARED_START: u64 = 1024;
/// In an address of shared memory, the place of the block's rank in its cluster, plus 1: also in a
/// block's own addresses, as on Hopper, where what leaves the upper bits out reads another block's.
/// Blocks that are no cluster have 0 there.
pub(crate) const RANK_SHIFT: u32 = 24;

/// The address before a block's own shared memory, in a cluster of so many blocks.
pub(crate) fn own_window(rank: usize, blocks: usize) -> u64 {
    if blocks > 1 { (rank as u64 + 1) << RANK_SHIFT } else { 0 }
}

/// What is read where nobody wrote, if that is not reported.
pub(crate) const UNWRITTEN: u8 = 0xa5;

/// The state space of an access, once it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Space {
    Global,
    Shared,
    Local,
    Param,
    Const,
}

/// Bytes as numbers: little-endian, at most 8.
pub(crate) fn number(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    word[..bytes.len()].copy_from_slice(bytes);
    u64::from_le_bytes(word)
}

/// The fault of bytes read before anything wrote them.
pub(crate) fn uninitialized(
    lane: usize,
    what: &str,
    address: u64,
    note: Option<AllocationNote>,
) -> Box<Fault> {
    let message = format!("{what} is read before anything has written it");
    Fault::of_lane(ReportKind::Uninitialized, lane, message).at(address).inside(note)
}
