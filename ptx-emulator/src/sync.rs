//! State machines of what threads wait on: barriers, asynchronous groups, the register pool.
//!
//! Pure: no memory, no registers, no scheduler. The machine calls these, blocks the lanes that they
//! say must wait, and prints their descriptions when nothing can go on.

mod cluster;
mod groups;
mod mbarrier;
mod named;
mod registers;
mod wgmma;

pub use cluster::{ClusterBarrier, ClusterBarrierError};
pub use groups::AsyncGroups;
pub use mbarrier::{ArrivalState, Mbarrier, MbarrierError, Waited};
pub use named::{Arrival, NamedBarrier, NamedBarrierError, Reduction, Released, Threads};
pub use registers::{RegisterChange, RegisterPool, RegisterPoolError};
pub use wgmma::{WARPS_OF_GROUP, WarpGroupOps, WgmmaMismatch};
