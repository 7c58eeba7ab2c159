//! Reports of misuse, and the checkers of Level 1 that find data races by barrier interval.

mod report;
pub(crate) mod shadow;

pub(crate) use report::Fault;
pub use report::{AccessKind, AllocationNote, OtherSide, Report, ReportKind};
