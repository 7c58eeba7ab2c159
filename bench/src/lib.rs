//! Timing of our kernels against peers in the same run, on the same data, with results verified
//! first.
//!
//! A [`suite`] lists problems; a [`run`] makes a [`case`](mod@case) of each, lets every one of the
//! [`candidates`] compute it, refuses those that are wrong, times the others in turn
//! ([`timing`]) and enters what came of it in a [`record`](mod@record).

extern crate cuda_driver_loader as _; // defines the driver's symbols that cust links against

pub mod candidates;
pub mod case;
pub mod command;
pub mod compare;
pub mod environment;
pub mod gpu;
pub mod record;
pub mod report;
pub mod run;
pub mod suite;
pub mod text;
pub mod timing;
pub mod tune;
