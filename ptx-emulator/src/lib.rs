//! Runs PTX, NVIDIA's assembly language of GPU kernels, on the CPU, and reports what a GPU hides.
//!
//! A [`Module`] is a text of PTX. An [`Emulator`] is a GPU of a named architecture: it has memory,
//! launches a module's kernels, and stops with a [`Report`] at the first misuse: a stray, stale,
//! misaligned or uninitialised access, a data race, a barrier that not all threads reach, a
//! deadlock. Each report names the line of PTX, the block and the thread.
//!
//! ```
//! use ptx_emulator::{Argument, Emulator, Launch, Module, Options};
//!
//! let module = Module::parse(
//!     ".version 7.0 .target sm_70 .address_size 64
//!      .visible .entry square(.param .u64 p) {
//!          .reg .b64 %rd<3>; .reg .b32 %r<3>;
//!          ld.param.u64 %rd1, [p];
//!          mov.u32 %r1, %tid.x;
//!          mul.lo.u32 %r2, %r1, %r1;
//!          mad.wide.u32 %rd2, %r1, 4, %rd1;
//!          st.global.u32 [%rd2], %r2;
//!          ret;
//!      }",
//! )?;
//! let mut gpu = Emulator::new(Options::default());
//! let squares = gpu.allocate(4 * 32)?;
//! gpu.launch(&module, "square", &Launch::new(1, 32), &[Argument::from(squares)])?;
//! let mut bytes = [0; 4 * 32];
//! gpu.read(squares, &mut bytes)?;
//! assert_eq!(bytes[4 * 31..], 961u32.to_le_bytes());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod bulk;
mod check;
mod emulator;
mod error;
mod machine;
mod memory;
pub mod numeric;
pub mod order;
mod program;
pub mod sync;
pub mod syntax;
pub mod tensor_core;

pub use check::{AccessKind, AllocationNote, OtherSide, Report, ReportKind};
pub use emulator::{Arch, Argument, Emulator, Launch, Options, Timing};
pub use error::{Error, ErrorKind};
pub use machine::Statistics;
pub use program::Module;
