//! Mutation of the kernels: each barrier, fence and wait of their PTX is deleted or altered in
//! turn, and the emulator has to find it.
//!
//! A mutant ([`mutants`]) is the text of a kernel with one such change. It is found if the emulator
//! reports something, a deadlock included, or the product is wrong, in one of some cases under one
//! of some timings ([`Trial`]). One that is not found is a survivor: it has to be on a list with
//! the reason why it is harmless ([`Harmless`]), and what is on the list must survive.

mod case;
mod harmless;
mod mutant;
mod trial;

pub use harmless::{Entry, Harmless};
pub use mutant::{Mutant, mutants};
pub use trial::{Named, Score, Survivor, Trial};
