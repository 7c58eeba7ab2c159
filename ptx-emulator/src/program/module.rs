//! Modules, their variables in a GPU's memory, and lowered kernels.

use super::instruction::{Instruction, Slot};
use super::lower;
use crate::error::{Error, ErrorKind};
use crate::memory::{FUNCTION_STEP, FUNCTION_WINDOW, GlobalMemory};
use crate::program::modifiers::bits;
use crate::syntax::ast::{
    self, Constant, Initial, Operand, Position, Space, Statement, Type, Variable,
};
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// A text of PTX, parsed.
#[derive(Debug)]
pub struct Module {
    pub(crate) tree: ast::Module,
    id: u64,
    /// Kernels that have been lowered.
    programs: Mutex<HashMap<String, Result<Arc<Program>, Error>>>,
}

impl Module {
    /// Reads a text of PTX. Instructions are looked at when their kernel is first launched, or by
    /// [`Module::check`].
    pub fn parse(text: &str) -> Result<Module, Error> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let tree = crate::syntax::parse(text).map_err(|error| {
            let at = Position { line: error.line, column: error.column };
            Error::new(ErrorKind::Syntax, at, error.message)
        })?;
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        Ok(Module { tree, id, programs: Mutex::default() })
    }

    /// The names of the kernels, in the order of the text.
    pub fn kernels(&self) -> impl Iterator<Item = &str> {
        let entries = self.tree.functions.iter().filter(|f| f.kind == ast::FunctionKind::Entry);
        entries.map(|function| &*function.name)
    }

    /// Looks at every instruction of a kernel and of what it calls; the first that the emulator
    /// can't execute is the error.
    pub fn check(&self, kernel: &str) -> Result<(), Error> {
        self.program(kernel).map(|_| ())
    }

    /// A number that no other module has.
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// The lowered kernel.
    pub(crate) fn program(&self, kernel: &str) -> Result<Arc<Program>, Error> {
        let mut programs = self.programs.lock().unwrap_or_else(|poison| poison.into_inner());
        if let Some(program) = programs.get(kernel) {
            return program.clone();
        }
        let program = lower::program(&self.tree, kernel).map(Arc::new);
        programs.insert(kernel.to_string(), program.clone());
        program
    }
}

/// A kernel and the functions that it calls.
#[derive(Debug)]
pub(crate) struct Program {
    /// The kernel is the first.
    pub functions: Vec<Function>,
    /// The kernel's parameters: offset and size of each in the parameter block.
    pub parameters: Vec<(u64, u64)>,
    /// Shared variables that it uses: name, first address, bytes.
    pub shared: Vec<(String, u64, u64)>,
    /// The first address after the declared shared variables; dynamic shared memory begins there.
    pub shared_end: u64,
    /// The bytes of shared memory that the declared variables take.
    pub shared_bytes: u64,
    /// The kernel's directives.
    pub directives: ast::Directives,
    /// Blocks may talk to each other: global memory is accessed by atomics or strong operations.
    pub communicates: bool,
    /// Fences of the whole GPU order accesses of different blocks.
    pub orders_blocks: bool,
    /// mbarriers, clusters or asynchronous operations order memory too.
    pub beyond_barriers: bool,
}

/// A function, lowered.
#[derive(Debug, Default)]
pub(crate) struct Function {
    pub code: Vec<Instruction>,
    /// Numbers of registers.
    pub registers: usize,
    pub predicates: usize,
    /// Registers that it may read before it has written them.
    pub unset: Vec<Slot>,
    pub constants: Vec<Value>,
    /// Special registers that it reads, and where their values are put when it begins.
    pub specials: Vec<(Special, Slot)>,
    /// Bytes of local memory, parameters of device functions included.
    pub frame: u64,
    /// The largest alignment of its local variables, 0 where it has none.
    pub alignment: u64,
    /// Offsets in the frame and sizes of the parameters and results, of device functions.
    pub parameters: Vec<(u64, u64)>,
    pub results: Vec<(u64, u64)>,
}

/// A constant operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Value {
    Bits(u64),
    /// The address of a variable in global or constant memory, by its index in the module.
    Variable(usize, i64),
    /// A place in the block's shared memory.
    Shared(u64),
    /// An offset in dynamic shared memory; becomes `Shared` when the layout is known.
    DynamicShared(i64),
}

/// Special registers whose value doesn't change while a thread runs (PTX ISA chapter 10).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Special {
    Thread(usize),
    BlockSize(usize),
    Block(usize),
    GridSize(usize),
    Lane,
    Warp,
    WarpCount,
    LaneMask(LaneMask),
    Cluster(usize),
    ClusterCount(usize),
    BlockInCluster(usize),
    ClusterSize(usize),
    ClusterRank,
    ClusterRanks,
    ExplicitCluster,
    Multiprocessor,
    Multiprocessors,
    GridId,
    DynamicShared,
    TotalShared,
    Zero,
}

/// Which lanes `%lanemask_*` has, seen from a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum LaneMask {
    Equal,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
}

/// A module's variables in one GPU's memory.
#[derive(Debug)]
pub(crate) struct Instance {
    /// The address of each variable; 0 of those that aren't in global memory.
    pub addresses: Vec<u64>,
    names: HashMap<String, (u64, u64)>,
}

impl Instance {
    /// Allocates the variables and writes their initial values.
    pub fn new(module: &Module, memory: &mut GlobalMemory) -> Result<Instance, Error> {
        let mut instance = Instance { addresses: Vec::new(), names: HashMap::new() };
        let placed = instance.place(module, memory);
        if let Err(error) = placed {
            for address in instance.addresses.iter().filter(|address| **address != 0) {
                memory.free(*address)?;
            }
            return Err(error);
        }
        Ok(instance)
    }

    fn place(&mut self, module: &Module, memory: &mut GlobalMemory) -> Result<(), Error> {
        let variables = &module.tree.variables;
        for variable in variables {
            if !matches!(variable.space, Space::Global | Space::Const) {
                self.addresses.push(0);
                continue;
            }
            let (bytes, alignment) = layout(variable)?;
            let base = memory.allocate(bytes, alignment)?;
            memory.describe(base, &variable.name, variable.space == Space::Const);
            self.addresses.push(base);
            self.names.insert(variable.name.to_string(), (base, bytes));
        }
        for (variable, base) in variables.iter().zip(&self.addresses) {
            let size = u64::from(bits(variable.element) / 8);
            for (index, initial) in &variable.initial {
                let value = self.initial(&module.tree, variable, initial)?.to_le_bytes();
                if size > value.len() as u64 {
                    let message = "initial values of more than 64 bits".to_string();
                    return Err(Error::unsupported(variable.at, message));
                }
                memory.host_write(base + index * size, &value[..size as usize])?;
            }
        }
        Ok(())
    }

    /// Address and size of a variable.
    pub fn variable(&self, name: &str) -> Option<(u64, u64)> {
        self.names.get(name).copied()
    }

    fn initial(
        &self,
        tree: &ast::Module,
        variable: &Variable,
        initial: &Initial,
    ) -> Result<u64, Error> {
        match initial {
            Initial::Constant(constant) => {
                constant_bits(*constant, variable.element).ok_or_else(|| {
                    let message =
                        format!("an initial value that {:?} can't have", variable.element);
                    Error::unsupported(variable.at, message)
                })
            }
            Initial::Address { name, offset, mask, .. } => {
                let base = self.variable(name).map(|(base, _)| base);
                let base = base.or_else(|| function_address(tree, name)).ok_or_else(|| {
                    Error::unsupported(variable.at, format!("the address of `{name}`"))
                })?;
                let address = base.wrapping_add_signed(*offset);
                Ok(mask.map_or(address, |mask| (address & mask) >> mask.trailing_zeros().min(63)))
            }
        }
    }
}

/// The address of a device function, by which it is called through a register.
pub(super) fn function_address(tree: &ast::Module, name: &str) -> Option<u64> {
    let is_it = |f: &ast::Function| {
        f.kind == ast::FunctionKind::Device && f.body.is_some() && *f.name == *name
    };
    let index = tree.functions.iter().position(is_it)?;
    Some(FUNCTION_WINDOW + FUNCTION_STEP * index as u64)
}

/// Names whose addresses are taken, by an instruction or by a variable: those of device functions
/// that may be called through a register among them.
pub(super) fn addressed(tree: &ast::Module) -> HashSet<&str> {
    let mut names = HashSet::new();
    for (_, initial) in tree.variables.iter().flat_map(|variable| &variable.initial) {
        if let Initial::Address { name, .. } = initial {
            names.insert(&**name);
        }
    }
    for body in tree.functions.iter().filter_map(|function| function.body.as_deref()) {
        collect_names(body, &mut names);
    }
    names
}

/// Adds the names that are operands of instructions other than calls.
fn collect_names<'t>(body: &'t [Statement], names: &mut HashSet<&'t str>) {
    for statement in body {
        match statement {
            Statement::Block(body) => collect_names(body, names),
            Statement::Instruction(instruction) if &*instruction.opcode != "call" => {
                let parts = |operand: &'t Operand| match operand {
                    Operand::Vector(parts) => parts.as_slice(),
                    operand => std::slice::from_ref(operand),
                };
                for operand in instruction.operands.iter().flat_map(parts) {
                    if let Operand::Name(name) | Operand::NameOffset(name, _) = operand {
                        names.insert(name);
                    }
                }
            }
            _ => {}
        }
    }
}

/// Bytes and alignment of a variable.
pub(super) fn layout(variable: &Variable) -> Result<(u64, u64), Error> {
    let Some(count) = variable.count else {
        return Err(Error::unsupported(variable.at, format!("`{}[]` here", variable.name)));
    };
    let element = u64::from(bits(variable.element) / 8) * u64::from(variable.vector);
    let bytes = count.checked_mul(element).filter(|bytes| *bytes < 1 << 40);
    let bytes = bytes
        .ok_or_else(|| Error::invalid(variable.at, format!("`{}` is too large", variable.name)))?;
    let alignment = variable.alignment.unwrap_or(element).max(1);
    if alignment > 1 << 16 {
        return Err(Error::invalid(variable.at, "an alignment of more than 65536 bytes"));
    }
    Ok((bytes, alignment))
}

/// The bits of a constant as a value of a type; `None` where the two don't go together.
pub(super) fn constant_bits(constant: Constant, ty: Type) -> Option<u64> {
    let width = bits(ty);
    match (constant, ty) {
        (Constant::Integer(_), Type::F32 | Type::F64) => None,
        (Constant::Integer(value), _) => Some(truncate(value as u64, width)),
        (Constant::Single(bits), Type::F64) => Some(f64::from(f32::from_bits(bits)).to_bits()),
        (Constant::Single(bits), _) if width == 32 => Some(bits.into()),
        (Constant::Double(bits), Type::F32) => Some((f64::from_bits(bits) as f32).to_bits().into()),
        (Constant::Double(bits), _) if width == 64 => Some(bits),
        _ => None,
    }
}

/// The low bits of a value.
pub(super) fn truncate(value: u64, bits: u32) -> u64 {
    if bits >= 64 { value } else { value & ((1 << bits) - 1) }
}
