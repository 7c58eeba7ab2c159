//! The ladder: one idea a file, each step the last one with one thing changed.

pub mod k01_naive;
pub mod k02_tiled;
