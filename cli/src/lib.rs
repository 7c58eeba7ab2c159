//! What the command `gemmite` reads and writes, for tests of it.

pub mod npy;
