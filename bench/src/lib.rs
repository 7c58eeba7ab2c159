//! Timing of our kernels against peers in the same run, on the same data, with results verified
//! first.

extern crate cuda_driver_loader as _; // defines the driver's symbols that cust links against

pub mod record;
pub mod timing;
pub mod twins;
