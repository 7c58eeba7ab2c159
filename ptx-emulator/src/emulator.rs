//! The emulated GPU: options, memory calls of the host, launches.

use crate::bulk::{TensorMap, TensorMapError};
use crate::check::{Report, ReportKind};
use crate::error::{Error, ErrorKind};
use crate::machine::{self, Statistics};
use crate::memory::GlobalMemory;
use crate::program::{Instance, Module};
use std::collections::HashMap;

/// A compute capability.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Arch {
    /// The first number: 9 of 9.0.
    pub major: u32,
    /// The second number: 0 of 9.0.
    pub minor: u32,
}

impl Arch {
    /// Compute capability `major.minor`.
    pub const fn new(major: u32, minor: u32) -> Arch {
        Arch { major, minor }
    }
}

/// When asynchronous copies and products take effect, and who has to wait for its turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Timing {
    /// At the latest legal moment, the destination unreadable until then: what waits too little
    /// is found.
    #[default]
    Latest,
    /// At once.
    Eager,
    /// Between the two, each operation at a moment that the seed decides; and one warp of a
    /// cluster, another one from time to time, is late: it goes on when all others wait. What
    /// relies on warps that keep pace, and does not make them, is found.
    Seeded(u64),
}

impl Timing {
    /// What the seed has for a number, if there is one: evenly distributed bits.
    pub(crate) fn draw(self, number: u64) -> Option<u64> {
        let Timing::Seeded(seed) = self else { return None };
        // The finaliser of SplitMix64.
        let mut x = seed ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        Some(x ^ x >> 31)
    }
}

/// How to emulate.
#[derive(Clone, Debug)]
pub struct Options {
    /// The architecture: its limits of a launch, its tensor cores' arithmetic.
    pub arch: Arch,
    /// Whether to look for uninitialised reads and data races as well. Bounds, alignment and
    /// barriers are always checked.
    pub checks: bool,
    /// When asynchronous operations take effect.
    pub timing: Timing,
    /// Threads of the CPU to run blocks on; 0: as many as there are. The result doesn't depend on
    /// it.
    pub threads: usize,
    /// Instructions that one warp may execute in a launch.
    pub step_limit: u64,
    /// Bytes of device memory.
    pub memory: u64,
    /// Whether to count sectors, bank conflicts and lines as well, which takes time.
    pub statistics: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            arch: Arch::new(9, 0),
            checks: true,
            timing: Timing::Latest,
            threads: 0,
            step_limit: 1 << 28,
            memory: 16 << 30,
            statistics: false,
        }
    }
}

/// The shape of a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Launch {
    /// Blocks along x, y, z.
    pub grid: [u32; 3],
    /// Threads of a block along x, y, z.
    pub block: [u32; 3],
    /// Blocks of a cluster along x, y, z. All 1: no clusters, unless the kernel requires them.
    pub cluster: [u32; 3],
    /// Bytes of shared memory beyond the declared.
    pub dynamic_shared: u32,
}

impl Launch {
    /// A grid and a block of one dimension, no clusters, no dynamic shared memory.
    pub const fn new(blocks: u32, threads: u32) -> Launch {
        Launch {
            grid: [blocks, 1, 1],
            block: [threads, 1, 1],
            cluster: [1, 1, 1],
            dynamic_shared: 0,
        }
    }
}

/// The value of one parameter, as the bytes that the device sees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Argument(pub(crate) Vec<u8>);

impl Argument {
    /// A parameter of any type, as its bytes.
    pub fn bytes(bytes: impl Into<Vec<u8>>) -> Argument {
        Argument(bytes.into())
    }
}

macro_rules! argument_from {
    ($($number:ty),*) => {$(
        impl From<$number> for Argument {
            fn from(number: $number) -> Argument {
                Argument(number.to_le_bytes().to_vec())
            }
        }
    )*};
}
argument_from!(u8, i8, u16, i16, u32, i32, u64, i64, f32, f64);

/// A GPU with memory of its own.
#[derive(Debug)]
pub struct Emulator {
    options: Options,
    memory: GlobalMemory,
    /// The modules that have been launched: where their variables are in this GPU's memory.
    instances: HashMap<u64, Instance>,
}

impl Emulator {
    /// A GPU with nothing in its memory.
    pub fn new(options: Options) -> Emulator {
        let memory = GlobalMemory::new(options.memory);
        Emulator { options, memory, instances: HashMap::new() }
    }

    /// The options that it was made with.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// An allocation of `bytes` bytes, aligned to 256, that nothing has written yet. No two
    /// allocations touch.
    pub fn allocate(&mut self, bytes: u64) -> Result<u64, Error> {
        self.memory.allocate(bytes, 256)
    }

    /// Frees what `allocate` gave. Its addresses are never given again.
    pub fn free(&mut self, address: u64) -> Result<(), Error> {
        self.memory.free(address)
    }

    /// The allocations that `free` has not taken back: how many, and their bytes.
    pub fn allocated(&self) -> (usize, u64) {
        self.memory.alive().fold((0, 0), |(count, bytes), a| (count + 1, bytes + a.bytes))
    }

    /// Copies from the host. All of it must lie in one allocation.
    pub fn write(&mut self, address: u64, bytes: &[u8]) -> Result<(), Error> {
        self.memory.host_write(address, bytes)
    }

    /// Copies to the host. All of it must lie in one allocation; bytes that nothing has written are
    /// 0xa5.
    pub fn read(&self, address: u64, bytes: &mut [u8]) -> Result<(), Error> {
        self.memory.host_read(address, bytes)
    }

    /// Checks a tensor map and makes the 128 bytes that a kernel takes for it, as the driver's
    /// `cuTensorMapEncodeTiled` does. Their format is the emulator's own.
    pub fn encode_tensor_map(&self, map: &TensorMap) -> Result<[u64; 16], TensorMapError> {
        map.encode()
    }

    /// Address and size in bytes of a variable of `module` at module scope, in `.global` or
    /// `.const`.
    pub fn variable(&mut self, module: &Module, name: &str) -> Result<(u64, u64), Error> {
        self.instance(module)?.variable(name).ok_or_else(|| {
            Error::memory(format!("the module has no variable `{name}` in global memory"))
        })
    }

    /// Launches a kernel and waits for it. Stops at the first misuse.
    ///
    /// The result and the report don't depend on the number of threads of the CPU: the report is
    /// the one that the blocks give when they run one after the other.
    pub fn launch(
        &mut self,
        module: &Module,
        kernel: &str,
        launch: &Launch,
        arguments: &[Argument],
    ) -> Result<Statistics, Box<Report>> {
        self.instance(module).map_err(|error| {
            let kind = match error.kind {
                ErrorKind::Memory => ReportKind::LaunchLimit,
                ErrorKind::Unsupported => ReportKind::Unsupported,
                _ => ReportKind::Invalid,
            };
            let mut report = Report::of_launch(kind, kernel, error.message);
            report.line = error.at.map(|at| at.line);
            report
        })?;
        let instance = &self.instances[&module.id()];
        let job = machine::Job { module, instance, kernel, launch, arguments };
        machine::launch(&self.options, &mut self.memory, &job)
    }

    /// The module's variables in this GPU's memory, placed there at the first call.
    fn instance(&mut self, module: &Module) -> Result<&Instance, Error> {
        if !self.instances.contains_key(&module.id()) {
            let instance = Instance::new(module, &mut self.memory)?;
            self.instances.insert(module.id(), instance);
        }
        Ok(&self.instances[&module.id()])
    }
}
