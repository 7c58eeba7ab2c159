//! The case table, the engines it runs on, and one runner for all of them.
//!
//! A case says what to multiply and where the operands lie ([`Case`], listed in [`table`]). The
//! runner ([`run_case`]) builds the operands with guard bands around them and in the gaps between
//! their elements, poisons C, runs one [`Engine`], and then checks that every element of C is
//! within the bound of docs/numerics.md and that nothing else has changed. An engine that this
//! machine lacks is skipped in sight: see [`cuda`]. The emulator is everywhere, for short cases:
//! [`emulator_engines`].

mod case;
mod emulator;
mod engine;
mod place;
mod runner;
mod table;

pub use case::{Case, Data};
pub use emulator::{emulated_kernel, emulator_engines, is_short, timing};
pub use engine::{
    Engine, Path, cpu_engines, cuda, cuda_engines, cuda_is_required, engines, hopper, is_hopper,
    runs, say, skip, skipped, variants_on,
};
pub use place::{GUARD, Place, Placed, poison};
pub use runner::{Summary, run_case, run_case_with, run_table, run_table_where};
pub use table::{Chosen, many_tiles, table};
