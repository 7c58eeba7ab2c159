//! The report of a race.

use super::Space;
use super::ops::{OpId, Ops};
use super::shadow::{OP, Stamp};
use std::fmt;

/// One of the two accesses of a race.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Site {
    /// The warp of the cluster that made the access, or issued the operation that did.
    pub warp: u32,
    /// The first of its lanes.
    pub lane: u32,
    /// The line of the PTX text.
    pub line: u32,
    /// Whether it writes.
    pub writes: bool,
    /// Whether an asynchronous operation made it.
    pub by_operation: bool,
}

impl Site {
    pub(super) fn new(stamp: &Stamp, writes: bool, ops: &Ops) -> Self {
        let by_operation = stamp.agent == OP;
        let warp = if by_operation { ops.get(OpId(stamp.time)).warp } else { stamp.agent };
        let lane = stamp.lanes.trailing_zeros();
        Site { warp: warp.into(), lane, line: stamp.line, writes, by_operation }
    }
}

/// Why two accesses are not ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// No chain of synchronisation leads from one to the other.
    Unordered,
    /// They are of different lanes of one warp, with no `bar.warp.sync` between.
    SameWarp,
    /// The first is an asynchronous operation's, for whose completion nobody has waited.
    InFlight,
    /// The first is a write of the generic proxy, the second the async proxy's, with no
    /// `fence.proxy.async` between.
    NoProxyFence,
}

/// A race.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Race {
    /// The access that found it.
    pub this: Site,
    /// The one before it.
    pub other: Site,
    /// Where.
    pub space: Space,
    /// The first byte.
    pub address: u64,
    /// Why they are not ordered.
    pub why: Why,
}

impl fmt::Display for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Site { warp, lane, line, writes, by_operation } = *self;
        let access = if writes { "write" } else { "read" };
        let asynchronous = if by_operation { "asynchronous " } else { "" };
        write!(f, "{asynchronous}{access} of line {line} by warp {warp}, lane {lane}")
    }
}

impl fmt::Display for Race {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let why = match self.why {
            Why::Unordered => "nothing orders them",
            Why::SameWarp => "nothing orders these lanes of one warp (no bar.warp.sync)",
            Why::InFlight => "nobody has waited until the asynchronous operation is complete",
            Why::NoProxyFence => {
                "no fence.proxy.async lies between the generic write and the asynchronous access"
            }
        };
        let place = match self.space {
            Space::Shared(block) => format!("shared+{:#x} of block {block}", self.address),
            Space::Global => format!("global {:#x}", self.address),
        };
        write!(f, "race at {place}: {}, after the {}: {why}", self.this, self.other)
    }
}

impl std::error::Error for Race {}
