//! Instructions as the machine executes them: operands are places, everything is looked up.

use crate::machine::{Context, Outcome};

/// A register of 32 lanes, or, with [`CONSTANT`], an entry of the function's constants.
pub(crate) type Slot = u32;
/// The bit of a slot that says that it is a constant.
pub(crate) const CONSTANT: Slot = 1 << 31;

/// A predicate register; with [`NEGATED`], its opposite.
pub(crate) type Predicate = u32;
/// The bit of a predicate that negates it.
pub(crate) const NEGATED: Predicate = 1 << 31;
/// The predicate that is always false; its opposite is always true.
pub(crate) const FALSE: Predicate = 0;
/// See [`FALSE`].
pub(crate) const TRUE: Predicate = FALSE | NEGATED;
/// The predicate that takes results that nobody wants.
pub(crate) const SINK: Predicate = 1;
/// The predicate that is a thread's carry, `CC.CF`.
pub(crate) const CARRY: Predicate = 2;

/// What executes an instruction.
pub(crate) type Handler = fn(&mut Context<'_>, &Instruction) -> Outcome;

/// The kinds of instruction that statistics count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    Integer,
    Float,
    Move,
    Memory,
    Control,
    Warp,
    Synchronization,
    Matrix,
}

/// Number of [`Class`]es.
pub(crate) const CLASSES: usize = 8;

/// One instruction.
#[derive(Clone, Debug)]
pub(crate) struct Instruction {
    pub run: Handler,
    /// The lanes that execute it.
    pub guard: Predicate,
    /// The destination.
    pub d: Slot,
    /// The sources.
    pub a: Slot,
    pub b: Slot,
    pub c: Slot,
    /// The predicates that it writes and reads.
    pub p: Predicate,
    pub q: Predicate,
    /// More operands: of vectors, calls, matrices.
    pub list: Box<[Slot]>,
    /// How many of them, from the first on, are destinations.
    pub writes: u8,
    /// A number that the opcode gives a meaning.
    pub number: u64,
    /// More of what the opcode needs.
    pub detail: Detail,
    pub class: Class,
    pub line: u32,
    /// It uses a register that a product of a warpgroup may own.
    pub watched: bool,
}

impl Instruction {
    /// An instruction that no predicate guards, without operands.
    pub fn new(run: Handler, class: Class) -> Instruction {
        Instruction {
            run,
            guard: TRUE,
            d: 0,
            a: 0,
            b: 0,
            c: 0,
            p: SINK,
            q: TRUE,
            list: Box::default(),
            writes: 0,
            number: 0,
            detail: Detail::None,
            class,
            line: 0,
            watched: false,
        }
    }

    /// Whether it is a product of a warpgroup.
    pub fn is_group_product(&self) -> bool {
        use crate::machine::hopper::Operation;
        match &self.detail {
            Detail::Hopper(operation) => matches!(**operation, Operation::Product(_)),
            _ => false,
        }
    }
}

/// What single families of instructions need besides operands.
#[derive(Clone, Debug)]
pub(crate) enum Detail {
    None,
    Branch(Branch),
    Table(Box<[Branch]>),
    Call(Box<Call>),
    /// The functions that a call through a register may reach, with their addresses.
    Calls(Box<[(u64, Call)]>),
    Memory(Memory),
    Atomic(crate::machine::atomics::Operation),
    Convert(Box<crate::machine::convert::Conversion>),
    /// A product of a warp. Its operands are in the list: D, A, B, C one after the other.
    Matrix(Box<crate::tensor_core::Mma>),
    Hopper(Box<crate::machine::hopper::Operation>),
}

/// A jump.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Branch {
    /// Where to.
    pub target: u32,
    /// Where the lanes that jump and those that don't meet again: the immediate post-dominator, or
    /// [`END`].
    pub meet: u32,
}

/// The meeting place of lanes that only the function's end brings together.
pub(crate) const END: u32 = u32::MAX;

/// A call of a device function.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    /// The function's index in the program.
    pub function: usize,
    /// For each argument, its offset in the caller's frame and its parameter's in the callee's, and
    /// its size.
    pub arguments: Vec<(u64, u64, u64)>,
    /// For each result, its offset in the callee's frame, that in the caller's, and its size.
    pub results: Vec<(u64, u64, u64)>,
}

/// A load or store.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Memory {
    /// `None`: generic.
    pub space: Option<crate::memory::Space>,
    /// A shared address may be another block's of the cluster.
    pub cluster: bool,
    /// The address is relative to the function's frame in local memory.
    pub frame: bool,
    /// Bytes of an element.
    pub size: u8,
    /// Elements.
    pub count: u8,
    /// The sign of a loaded element is extended to the register's width.
    pub signed: bool,
    /// Whether it is volatile, relaxed, acquire, release or atomic, and of which scope.
    pub reach: crate::check::shadow::Reach,
    /// It acquires beyond its cluster.
    pub acquires: bool,
    /// It releases beyond its cluster.
    pub releases: bool,
    /// Bits of a destination register.
    pub bits: u8,
}
