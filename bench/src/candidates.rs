//! Who takes part: our kernels, and peers where they are on the machine.

pub mod cpu;
pub mod cublas;
pub mod nvcc;
pub mod ours;
pub mod torch;
pub mod trial;

use crate::record::{Side, State};
use crate::timing::Work;
use anyhow::Result;
use gemmite::Element;
use std::fmt;
use std::str::FromStr;

/// Something that computes a case's product and can be timed doing so.
pub trait Candidate<T: Element>: Work {
    /// Computes the product once into a C that holds the case's `c`, and returns C's buffer.
    fn product(&mut self) -> Result<Vec<T::Output>>;
}

/// A candidate with its name, or the reason that there is none.
pub struct Entrant<'a, T: Element> {
    /// As records name it.
    pub name: String,
    /// Whose it is.
    pub side: Side,
    /// Which kernel it runs, where that is known.
    pub note: String,
    /// Itself, or why it is not there.
    pub candidate: Result<Box<dyn Candidate<T> + 'a>, Absence>,
}

/// Why a candidate does not take part.
#[derive(Clone, Debug, PartialEq)]
pub struct Absence {
    /// In one word.
    pub state: State,
    /// In a sentence.
    pub reason: String,
}

impl Absence {
    /// Its library is not on this machine.
    pub fn missing(reason: impl Into<String>) -> Absence {
        Absence { state: State::Missing, reason: reason.into() }
    }

    /// It does not compute such a problem.
    pub fn unsupported(reason: impl Into<String>) -> Absence {
        Absence { state: State::Unsupported, reason: reason.into() }
    }

    /// It gave up, or says itself why it does not take part.
    pub fn of(error: &anyhow::Error) -> Absence {
        let state = error.downcast_ref::<Absence>().map_or(State::Failed, |absence| absence.state);
        Absence { state, reason: format!("{error:#}") }
    }
}

impl fmt::Display for Absence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)
    }
}

impl std::error::Error for Absence {}

impl<'a, T: Element> Entrant<'a, T> {
    /// A peer that takes part.
    pub fn peer(name: &str, note: String, candidate: impl Candidate<T> + 'a) -> Self {
        let candidate: Box<dyn Candidate<T> + 'a> = Box::new(candidate);
        Entrant { name: name.into(), side: Side::Peer, note, candidate: Ok(candidate) }
    }

    /// A peer that does not.
    pub fn absent(name: &str, absence: Absence) -> Self {
        Entrant {
            name: name.into(),
            side: Side::Peer,
            note: String::new(),
            candidate: Err(absence),
        }
    }
}

/// The peers that the harness knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Peer {
    /// NVIDIA's cuBLAS, through cublasGemmStridedBatchedEx.
    Cublas,
    /// NVIDIA's cuBLASLt: its heuristic's first candidate, and the fastest of all of them.
    CublasLt,
    /// torch.matmul, torch.addmm or torch.baddbmm where C takes part, torch._int_mm for i8,
    /// torch._scaled_mm for floats of 8 bits.
    Torch,
    /// A matrix product in Triton, with its tiles tuned.
    Triton,
    /// The tutorials' kernels in CUDA C++, built by nvcc.
    Nvcc,
    /// The crate gemm.
    Gemm,
    /// The crate matrixmultiply.
    Matrixmultiply,
    /// The crate ndarray.
    Ndarray,
}

impl Peer {
    /// Those that run on a GPU.
    pub const ON_GPU: [Peer; 5] =
        [Peer::CublasLt, Peer::Cublas, Peer::Torch, Peer::Triton, Peer::Nvcc];
    /// Those that run on the CPU.
    pub const ON_CPU: [Peer; 3] = [Peer::Gemm, Peer::Matrixmultiply, Peer::Ndarray];

    /// Its name on a command line and in records.
    pub fn name(self) -> &'static str {
        match self {
            Peer::Cublas => "cublas",
            Peer::CublasLt => "cublaslt",
            Peer::Torch => "torch",
            Peer::Triton => "triton",
            Peer::Nvcc => "nvcc",
            Peer::Gemm => "gemm",
            Peer::Matrixmultiply => "matrixmultiply",
            Peer::Ndarray => "ndarray",
        }
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Peer {
    type Err = String;

    fn from_str(text: &str) -> Result<Peer, String> {
        let all = || Peer::ON_GPU.into_iter().chain(Peer::ON_CPU);
        all().find(|peer| peer.name() == text).ok_or_else(|| {
            let names: Vec<&str> = all().map(Peer::name).collect();
            format!("expected one of {}", names.join(", "))
        })
    }
}
