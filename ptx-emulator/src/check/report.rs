//! What a launch that went wrong says.

use std::fmt;

/// What went wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ReportKind {
    /// An access that no allocation, variable or parameter covers.
    OutOfBounds,
    /// An access to memory that was freed.
    UseAfterFree,
    /// An address that isn't a multiple of the access's size.
    Misaligned,
    /// A read of bytes that nothing has written.
    Uninitialized,
    /// A write to what may only be read.
    ReadOnly,
    /// Two accesses, one of them a write, that nothing orders.
    DataRace,
    /// An instruction that all threads of a warp must execute together, and they don't.
    Divergence,
    /// A barrier used against its rules: a wrong count, a thread that exits and never arrives.
    Barrier,
    /// An mbarrier object used against its rules.
    Mbarrier,
    /// An asynchronous operation used against its rules.
    Asynchronous,
    /// Nothing can go on: who waits for what is in the message.
    Deadlock,
    /// The launch breaks a limit of the architecture or a promise of the kernel.
    LaunchLimit,
    /// The arguments don't fit the kernel's parameters.
    Argument,
    /// No kernel of that name.
    NoSuchKernel,
    /// The kernel has an instruction that this emulator doesn't know; the message names it.
    Unsupported,
    /// The kernel's text names what isn't declared, or combines what can't be combined.
    Invalid,
    /// The kernel executed `trap`.
    Trap,
    /// A thread took more steps than [`Options::step_limit`](crate::Options::step_limit).
    StepLimit,
}

/// What an access did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AccessKind {
    /// It read.
    Read,
    /// It wrote.
    Write,
}

/// The allocation or variable that an address lies in or near.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AllocationNote {
    /// Its first address.
    pub base: u64,
    /// Its size in bytes.
    pub bytes: u64,
    /// The distance of the accessed address from `base`.
    pub offset: i64,
    /// The name of the variable, if it is one.
    pub name: Option<String>,
}

/// The earlier of the two accesses of a race.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OtherSide {
    /// What it did.
    pub access: AccessKind,
    /// Its line of PTX.
    pub line: u32,
    /// Its block.
    pub block: [u32; 3],
    /// Its thread in the block.
    pub thread: [u32; 3],
}

/// The first misuse of a launch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// What went wrong.
    pub kind: ReportKind,
    /// What went wrong, in a sentence.
    pub message: String,
    /// The kernel.
    pub kernel: String,
    /// The line of PTX, from 1; `None` if it isn't a line's fault.
    pub line: Option<u32>,
    /// The block, if it is one block's fault.
    pub block: Option<[u32; 3]>,
    /// The thread in the block, if it is one thread's fault.
    pub thread: Option<[u32; 3]>,
    /// The accessed address, in its state space.
    pub address: Option<u64>,
    /// What the address lies in, or nearest to.
    pub allocation: Option<AllocationNote>,
    /// The other side of a race.
    pub other: Option<OtherSide>,
}

impl Report {
    /// A report of the launch as a whole.
    pub(crate) fn of_launch(
        kind: ReportKind,
        kernel: &str,
        message: impl Into<String>,
    ) -> Box<Report> {
        Box::new(Report {
            kind,
            message: message.into(),
            kernel: kernel.to_string(),
            line: None,
            block: None,
            thread: None,
            address: None,
            allocation: None,
            other: None,
        })
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let triple = |[x, y, z]: [u32; 3]| format!("({x}, {y}, {z})");
        write!(f, "{:?}: {} [kernel {}", self.kind, self.message, self.kernel)?;
        if let Some(line) = self.line {
            write!(f, ", PTX line {line}")?;
        }
        if let Some(block) = self.block {
            write!(f, ", block {}", triple(block))?;
        }
        if let Some(thread) = self.thread {
            write!(f, ", thread {}", triple(thread))?;
        }
        if let Some(address) = self.address {
            write!(f, ", address {address:#x}")?;
        }
        if let Some(AllocationNote { base, bytes, offset, name }) = &self.allocation {
            let name = name.as_deref().unwrap_or("allocation");
            write!(f, ", at {offset:+} in {name} of {bytes} bytes at {base:#x}")?;
        }
        if let Some(OtherSide { access, line, block, thread }) = &self.other {
            let access = match access {
                AccessKind::Read => "read",
                AccessKind::Write => "write",
            };
            let (block, thread) = (triple(*block), triple(*thread));
            write!(f, "; the other side: {access} at PTX line {line}, block {block}, ")?;
            write!(f, "thread {thread}")?;
        }
        write!(f, "]")
    }
}

impl std::error::Error for Report {}

/// A misuse as an instruction finds it; the machine adds kernel, line, block and thread.
#[derive(Clone, Debug)]
pub(crate) struct Fault {
    pub kind: ReportKind,
    pub message: String,
    /// The lane at fault, or that of any thread that took part.
    pub lane: Option<usize>,
    /// The block in the cluster and the warp in the block, where they aren't those that found it.
    pub warp: Option<(usize, usize)>,
    pub address: Option<u64>,
    pub allocation: Option<AllocationNote>,
    pub other: Option<OtherSide>,
    /// The line, where it isn't that of the instruction.
    pub line: Option<u32>,
}

impl Fault {
    /// A fault of no lane in particular.
    pub fn new(kind: ReportKind, message: impl Into<String>) -> Box<Fault> {
        Box::new(Fault {
            kind,
            message: message.into(),
            lane: None,
            warp: None,
            address: None,
            allocation: None,
            other: None,
            line: None,
        })
    }

    /// A fault of one lane.
    pub fn of_lane(kind: ReportKind, lane: usize, message: impl Into<String>) -> Box<Fault> {
        let mut fault = Fault::new(kind, message);
        fault.lane = Some(lane);
        fault
    }

    /// The same fault at an address.
    pub fn at(mut self: Box<Self>, address: u64) -> Box<Fault> {
        self.address = Some(address);
        self
    }

    /// The same fault in an allocation.
    pub fn inside(mut self: Box<Self>, allocation: Option<AllocationNote>) -> Box<Fault> {
        self.allocation = allocation;
        self
    }

    /// The same fault with the other side of a race.
    pub fn against(mut self: Box<Self>, other: OtherSide) -> Box<Fault> {
        self.other = Some(other);
        self
    }
}
