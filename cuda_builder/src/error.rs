//! What can go wrong between a Rust crate and its PTX.

use std::io;
use std::path::PathBuf;

use crate::arch::NvvmArch;
use crate::ptx::PtxProblem;
use crate::toolchain::ToolchainError;

/// Why [`CudaBuilder::build`](crate::CudaBuilder::build) made no PTX.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CudaBuilderError {
    /// There is no `Cargo.toml` in the folder given to
    /// [`CudaBuilder::new`](crate::CudaBuilder::new).
    #[error("no crate at {0}: there is no Cargo.toml")]
    CratePathDoesntExist(PathBuf),
    /// An option asks for what this back end (rustc's own NVPTX target) does not have.
    #[error("option `{option}` cannot be honoured by rustc's NVPTX back end: {reason}")]
    UnsupportedOption {
        /// The option with its value, as it is written in a call.
        option: String,
        /// Why, and what to do instead.
        reason: String,
    },
    /// A PTX version was asked for that does not know the architecture.
    #[error(
        "PTX {}.{} does not know {arch}: it needs {}.{} or later",
        .asked.0, .asked.1, .needed.0, .needed.1
    )]
    PtxTooOld {
        /// The architecture that was asked for.
        arch: NvvmArch,
        /// The version that was asked for, as (major, minor).
        asked: (u32, u32),
        /// The lowest version that knows the architecture.
        needed: (u32, u32),
    },
    /// Not the name of an architecture.
    #[error("unknown GPU architecture `{0}` (expected for example `compute_70` or `sm_90a`)")]
    UnknownArch(String),
    /// There is no compiler that can make device code.
    #[error(transparent)]
    Toolchain(#[from] ToolchainError),
    /// Cargo could not tell about the crate.
    #[error("cargo could not read the kernel crate at {path}:\n{message}")]
    Metadata {
        /// The crate's folder.
        path: PathBuf,
        /// Cargo's own message.
        message: String,
    },
    /// The crate does not compile for the device. The message is the compiler's own.
    #[error("the kernel crate `{package}` does not compile for {arch}:\n{message}")]
    BuildFailed {
        /// The package's name.
        package: String,
        /// The architecture that was asked for.
        arch: NvvmArch,
        /// The diagnostics as rustc rendered them, or cargo's message where rustc never ran.
        message: String,
    },
    /// The compiler's PTX breaks a rule that the builder checks.
    #[error("the PTX of `{package}` ({path}) is not as asked: {problem}")]
    BadPtx {
        /// The package's name.
        package: String,
        /// The compiler's text, kept for a look.
        path: PathBuf,
        /// What is wrong, and where.
        problem: PtxProblem,
    },
    /// The finished file could not be copied to where
    /// [`CudaBuilder::copy_to`](crate::CudaBuilder::copy_to) says.
    #[error("could not copy the PTX file to {path}")]
    FailedToCopyPtxFile {
        /// The destination.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A file could not be read or written, or a program could not be started.
    #[error("{action}")]
    Io {
        /// What was being done, with the path.
        action: String,
        /// The system's error.
        source: io::Error,
    },
}

impl CudaBuilderError {
    /// For `map_err`: the system's error and what was being done.
    pub(crate) fn io(action: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let action = action.into();
        move |source| Self::Io { action, source }
    }
}
