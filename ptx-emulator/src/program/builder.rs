//! The state of lowering: scopes of names, registers, constants, labels, layouts.

use super::flow::{self, Flow, Graph};
use super::instruction::{
    Branch, CARRY, CONSTANT, Detail, Instruction, NEGATED, Predicate, Slot, TRUE,
};
use super::modifiers::bits;
use super::module::{self, Function, Special, Value};
use super::target::{self, Needs};
use super::unset::unset;
use crate::error::Error;
use crate::memory::{RANK_SHIFT, SHARED_START};
use crate::syntax::ast::{self, Label, Linkage, Name, Position, Space, Statement, Type, Variable};
use std::collections::HashMap;

/// What a name stands for.
#[derive(Clone, Debug)]
pub(crate) enum Entity {
    /// A register and its bits.
    Register(Slot, u32),
    Predicate(Predicate),
    /// A vector register: the names of its components.
    Vector(Vec<Name>),
    /// A local variable or parameter at an offset in the function's frame.
    Frame(u64),
    /// A kernel's parameter at an offset in the parameter block.
    Parameter(u64),
    /// A shared variable at an address.
    Shared(u64),
    /// Dynamic shared memory.
    DynamicShared,
    /// A variable in global or constant memory, by its index in the module.
    Variable(usize, Space),
    Special(Special),
    /// A device function at an address.
    Function(u64),
    /// A clock, or its upper half.
    Clock {
        high: bool,
    },
}

/// The names of a block.
#[derive(Default)]
struct Scope {
    id: usize,
    names: HashMap<Name, Entity>,
}

/// A branch whose labels are looked up when all are known.
struct Fixup {
    instruction: usize,
    labels: Vec<Name>,
    scope: usize,
    at: Position,
}

/// What the functions of a kernel share.
pub(crate) struct Shared<'t> {
    tree: &'t ast::Module,
    /// Functions in the order of their indices.
    functions: Vec<Name>,
    /// Addresses of module-scope shared variables.
    variables: HashMap<Name, u64>,
    layout: Layout,
    dynamic_alignment: u64,
    /// Registers that all functions declare by their number.
    declared: u64,
}

/// The most registers of a function.
const MAX_REGISTERS: u64 = 1 << 16;

/// What a whole kernel uses.
#[derive(Default)]
pub(crate) struct Layout {
    pub regions: Vec<(String, u64, u64)>,
    pub end: u64,
    pub bytes: u64,
    pub communicates: bool,
    pub orders_blocks: bool,
    pub beyond_barriers: bool,
}

/// The next address that is a multiple of the alignment, and of no greater power of two: what
/// relies on more alignment than it declares is to fail.
fn barely_aligned(address: u64, alignment: u64) -> u64 {
    let next = address.next_multiple_of(alignment);
    if next.is_multiple_of(2 * alignment) { next + alignment } else { next }
}

impl<'t> Shared<'t> {
    pub fn new(tree: &'t ast::Module, kernel: Name) -> Shared<'t> {
        let layout = Layout { end: SHARED_START, ..Layout::default() };
        let variables = HashMap::new();
        Shared {
            tree,
            functions: vec![kernel],
            variables,
            layout,
            dynamic_alignment: 1,
            declared: 0,
        }
    }

    /// The function of an index, if there is one.
    pub fn next_function(&self, index: usize) -> Option<&'t ast::Function> {
        let name = self.functions.get(index)?;
        self.tree.functions.iter().find(|f| f.name == *name && f.body.is_some())
    }

    /// A function by its name or alias, and its index.
    pub fn function(&mut self, name: &str) -> Option<(usize, &'t ast::Function)> {
        let alias = self.tree.aliases.iter().find(|alias| &*alias.name == name);
        let name = alias.map_or(name, |alias| &alias.target);
        let functions = &mut self.tree.functions.iter();
        let function = functions.find(|f| &*f.name == name && f.body.is_some())?;
        let known = self.functions.iter().position(|known| *known == function.name);
        let index = known.unwrap_or_else(|| {
            self.functions.push(function.name.clone());
            self.functions.len() - 1
        });
        Some((index, function))
    }

    /// The device functions whose parameters and results have these sizes, and whose addresses are
    /// taken.
    pub fn functions_like(&self, prototype: &ast::Prototype) -> Vec<(u64, Name)> {
        let sizes = |parameters: &[ast::Parameter]| {
            let places = super::lower::offsets(parameters).map(|(places, _)| places);
            places.map(|places| places.into_iter().map(|place| place.1).collect::<Vec<_>>()).ok()
        };
        let addressed = module::addressed(self.tree);
        let fits = |f: &&ast::Function| {
            addressed.contains(&*f.name)
                && sizes(&f.parameters) == sizes(&prototype.parameters)
                && sizes(&f.returns) == sizes(&prototype.returns)
        };
        let address = |f: &ast::Function| {
            Some((module::function_address(self.tree, &f.name)?, f.name.clone()))
        };
        self.tree.functions.iter().filter(fits).filter_map(address).collect()
    }

    /// Places a shared variable.
    fn place(&mut self, variable: &Variable) -> Result<Entity, Error> {
        if variable.count.is_none() || variable.linkage == Linkage::Extern {
            let element = u64::from(bits(variable.element) / 8) * u64::from(variable.vector);
            let alignment = variable.alignment.unwrap_or(element).clamp(1, 1 << 16);
            self.dynamic_alignment = self.dynamic_alignment.max(alignment);
            return Ok(Entity::DynamicShared);
        }
        let (bytes, alignment) = module::layout(variable)?;
        let address = barely_aligned(self.layout.end, alignment);
        self.layout.end = address.saturating_add(bytes);
        if self.layout.end >= 1 << RANK_SHIFT {
            return Err(Error::invalid(variable.at, "more than 16 MB of shared memory"));
        }
        self.layout.bytes = self.layout.bytes.next_multiple_of(alignment) + bytes;
        self.layout.regions.push((variable.name.to_string(), address, bytes));
        Ok(Entity::Shared(address))
    }

    /// Places dynamic shared memory and ends.
    pub fn finish(mut self, functions: &mut [Function]) -> Layout {
        let end = barely_aligned(self.layout.end, self.dynamic_alignment);
        self.layout.end = end;
        for value in functions.iter_mut().flat_map(|function| &mut function.constants) {
            if let Value::DynamicShared(offset) = value {
                *value = Value::Shared(end.wrapping_add_signed(*offset));
            }
        }
        self.layout
    }
}

/// Lowers one function.
pub(crate) struct Builder<'s, 't> {
    pub shared: &'s mut Shared<'t>,
    pub source: &'t ast::Function,
    out: Function,
    scopes: Vec<Scope>,
    /// The enclosing scope of each scope.
    parents: Vec<usize>,
    labels: HashMap<(usize, Name), u32>,
    /// Lists of labels, by name: `.branchtargets`.
    pub tables: HashMap<Name, Vec<Name>>,
    /// `.callprototype`, by name.
    pub prototypes: HashMap<Name, &'t ast::Prototype>,
    fixups: Vec<Fixup>,
    constants: HashMap<Value, Slot>,
    specials: HashMap<Special, Slot>,
    guard: Predicate,
    /// Where the instruction that is being lowered is written.
    pub at: Position,
}

impl<'s, 't> Builder<'s, 't> {
    pub fn new(
        shared: &'s mut Shared<'t>,
        source: &'t ast::Function,
    ) -> Result<Builder<'s, 't>, Error> {
        let out = Function {
            registers: 1, // 0 takes what nobody wants
            predicates: CARRY as usize + 1,
            ..Function::default()
        };
        let mut builder = Builder {
            shared,
            source,
            out,
            scopes: vec![Scope::default()],
            parents: vec![0],
            labels: HashMap::new(),
            tables: HashMap::new(),
            prototypes: HashMap::new(),
            fixups: Vec::new(),
            constants: HashMap::new(),
            specials: HashMap::new(),
            guard: TRUE,
            at: source.at,
        };
        builder.parameters()?;
        Ok(builder)
    }

    fn parameters(&mut self) -> Result<(), Error> {
        let source = self.source;
        if source.kind == ast::FunctionKind::Entry {
            let (places, _) = super::lower::offsets(&source.parameters)?;
            for (parameter, (offset, _)) in source.parameters.iter().zip(places) {
                self.name(parameter.name.clone(), Entity::Parameter(offset));
            }
            return Ok(());
        }
        let (parameters, results, bytes) = frame_layout(source)?;
        let all = source.parameters.iter().zip(&parameters);
        for (parameter, (offset, _)) in all.chain(source.returns.iter().zip(&results)) {
            self.name(parameter.name.clone(), Entity::Frame(*offset));
        }
        (self.out.parameters, self.out.results, self.out.frame) = (parameters, results, bytes);
        Ok(())
    }

    fn name(&mut self, name: Name, entity: Entity) {
        let scope = self.scopes.last_mut().expect("the function's scope stays");
        scope.names.insert(name, entity);
    }

    pub fn open(&mut self) {
        let parent = self.scopes.last().map_or(0, |scope| scope.id);
        self.scopes.push(Scope { id: self.parents.len(), names: HashMap::new() });
        self.parents.push(parent);
    }

    pub fn close(&mut self) {
        self.scopes.pop();
    }

    /// A new register.
    pub fn register(&mut self) -> Slot {
        self.out.registers += 1;
        self.out.registers as Slot - 1
    }

    /// A new predicate register.
    pub fn predicate(&mut self) -> Predicate {
        self.out.predicates += 1;
        self.out.predicates as Predicate - 1
    }

    /// Makes the names known that a statement declares.
    pub fn declare(&mut self, statement: &'t Statement) -> Result<(), Error> {
        match statement {
            Statement::Registers(registers) => {
                for declared in &registers.names {
                    match declared.count {
                        None => self.declare_register(declared.name.clone(), registers),
                        Some(count) if self.too_many(count, registers.vector) => {
                            let most = format!("more than {MAX_REGISTERS} registers");
                            return Err(Error::unsupported(declared.at, most));
                        }
                        Some(count) => {
                            for i in 0..count {
                                let name = format!("{}{i}", declared.name);
                                self.declare_register(name.into(), registers);
                            }
                        }
                    }
                }
            }
            Statement::Variable(variable) => {
                let entity = match variable.space {
                    Space::Shared => self.shared.place(variable)?,
                    Space::Local | Space::Param => self.frame_variable(variable)?,
                    _ => {
                        let what = format!("`{}` in a function", variable.name);
                        return Err(Error::unsupported(variable.at, what));
                    }
                };
                self.name(variable.name.clone(), entity);
            }
            Statement::BranchTargets(targets) => {
                self.tables.insert(targets.name.clone(), targets.targets.clone());
            }
            Statement::CallTargets(ast::Targets { at, .. }) => {
                return Err(Error::unsupported(*at, ".calltargets"));
            }
            Statement::CallPrototype(prototype) => {
                self.prototypes.insert(prototype.name.clone(), prototype);
            }
            Statement::Label(_) | Statement::Instruction(_) | Statement::Block(_) => {}
        }
        Ok(())
    }

    /// Whether so many more registers are more than a function, or all that a kernel calls, may
    /// have: a few bytes of text could ask for any number.
    fn too_many(&mut self, count: u32, vector: u32) -> bool {
        let count = u64::from(count) * u64::from(vector);
        let declared = (self.out.registers + self.out.predicates) as u64;
        self.shared.declared += count;
        declared + count > MAX_REGISTERS || self.shared.declared > 16 * MAX_REGISTERS
    }

    fn declare_register(&mut self, name: Name, registers: &ast::Registers) {
        if registers.vector > 1 {
            let letters = ["x", "y", "z", "w"].into_iter().zip(["r", "g", "b", "a"]);
            let mut names = Vec::new();
            for (xyz, rgb) in letters.take(registers.vector as usize) {
                let component: Name = format!("{name}.{xyz}").into();
                self.declare_scalar(component.clone(), registers.element);
                let entity = self.scopes.last().and_then(|s| s.names.get(&component)).cloned();
                self.name(format!("{name}.{rgb}").into(), entity.expect("it was just declared"));
                names.push(component);
            }
            self.name(name, Entity::Vector(names));
        } else {
            self.declare_scalar(name, registers.element);
        }
    }

    fn declare_scalar(&mut self, name: Name, ty: Type) {
        let entity = match ty {
            Type::Pred => Entity::Predicate(self.predicate()),
            _ => Entity::Register(self.register(), bits(ty)),
        };
        self.name(name, entity);
    }

    fn frame_variable(&mut self, variable: &Variable) -> Result<Entity, Error> {
        let (bytes, alignment) = module::layout(variable)?;
        let offset = barely_aligned(self.out.frame, alignment);
        self.out.frame = offset + bytes;
        self.out.alignment = self.out.alignment.max(alignment);
        if self.out.frame > 1 << 19 {
            return Err(Error::invalid(variable.at, "more than 512 KB of local memory"));
        }
        Ok(Entity::Frame(offset))
    }

    /// What a name stands for.
    pub fn lookup(&mut self, name: &Name) -> Result<Entity, Error> {
        for scope in self.scopes.iter().rev() {
            if let Some(entity) = scope.names.get(name) {
                return Ok(entity.clone());
            }
        }
        if name.starts_with('%')
            && let Some(entity) = super::operands::special(name)
        {
            if name.contains("cluster") {
                self.need(Needs::From(9, 0))?;
            }
            return Ok(entity);
        }
        let variables = &self.shared.tree.variables;
        if let Some(address) = module::function_address(self.shared.tree, name) {
            return Ok(Entity::Function(address));
        }
        let Some(index) = variables.iter().position(|variable| variable.name == *name) else {
            return Err(Error::invalid(self.at, format!("`{name}` is not declared")));
        };
        let variable = &variables[index];
        match variable.space {
            Space::Global | Space::Const => Ok(Entity::Variable(index, variable.space)),
            Space::Shared => {
                if let Some(address) = self.shared.variables.get(name) {
                    return Ok(Entity::Shared(*address));
                }
                let entity = self.shared.place(variable)?;
                if let Entity::Shared(address) = entity {
                    self.shared.variables.insert(name.clone(), address);
                }
                Ok(entity)
            }
            _ => Err(Error::unsupported(self.at, format!("the variable `{name}`"))),
        }
    }

    /// The offset of a variable in the function's frame, that has `bytes` bytes at least.
    pub fn frame_offset(&mut self, name: &Name, bytes: u64) -> Result<u64, Error> {
        match self.lookup(name)? {
            Entity::Frame(offset) if offset + bytes <= self.out.frame => Ok(offset),
            _ => {
                let message = format!("`{name}` is no .param variable of {bytes} bytes");
                Err(Error::invalid(self.at, message))
            }
        }
    }

    /// Fails if the module's `.target` lacks what is written here.
    pub fn need(&self, needs: Needs) -> Result<(), Error> {
        target::need(self.shared.tree, needs, self.at)
    }

    /// Begins an instruction: what is added belongs to it.
    pub fn begin(&mut self, instruction: &ast::Instruction) -> Result<(), Error> {
        self.at = instruction.at;
        if let Some(guard) = &instruction.guard {
            let Entity::Predicate(predicate) = self.lookup(&guard.register)? else {
                let message = format!("`{}` is not a predicate", guard.register);
                return Err(Error::invalid(instruction.at, message));
            };
            self.guard = if guard.negated { predicate | NEGATED } else { predicate };
        }
        Ok(())
    }

    pub fn end(&mut self) {
        self.guard = TRUE;
    }

    /// Adds an instruction under the guard of the one that is being lowered.
    pub fn add(&mut self, mut instruction: Instruction) {
        instruction.guard = self.guard;
        instruction.line = self.at.line;
        self.out.code.push(instruction);
    }

    /// The instruction that was added last.
    pub fn last(&mut self) -> &mut Instruction {
        self.out.code.last_mut().expect("an instruction was added")
    }

    /// Adds an instruction that all lanes execute.
    pub fn add_unguarded(&mut self, instruction: Instruction) {
        let guard = std::mem::replace(&mut self.guard, TRUE);
        self.add(instruction);
        self.guard = guard;
    }

    /// Adds a branch to labels, one or a table.
    pub fn add_branch(&mut self, instruction: Instruction, labels: Vec<Name>) {
        let scope = self.scopes.last().map_or(0, |scope| scope.id);
        let fixup = Fixup { instruction: self.out.code.len(), labels, scope, at: self.at };
        self.fixups.push(fixup);
        self.add(instruction);
    }

    /// Marks the kernel as one whose blocks may talk to each other.
    pub fn communicates(&mut self) {
        self.shared.layout.communicates = true;
    }

    /// Marks the kernel as one whose fences order accesses of different blocks.
    pub fn orders_blocks(&mut self) {
        self.shared.layout.orders_blocks = true;
        self.communicates();
        self.beyond_barriers();
    }

    /// Puts a label here.
    pub fn place(&mut self, label: &Label) {
        let scope = self.scopes.last().map_or(0, |scope| scope.id);
        self.labels.insert((scope, label.name.clone()), self.out.code.len() as u32);
    }

    /// Marks the kernel as one whose order isn't that of its barriers alone.
    pub fn beyond_barriers(&mut self) {
        self.shared.layout.beyond_barriers = true;
    }

    /// The constant's slot.
    pub fn constant(&mut self, value: Value) -> Slot {
        let next = self.out.constants.len() as Slot | CONSTANT;
        let slot = *self.constants.entry(value).or_insert(next);
        if slot == next {
            self.out.constants.push(value);
        }
        slot
    }

    /// The slot that has a special register's value.
    pub fn special(&mut self, special: Special) -> Slot {
        if let Some(slot) = self.specials.get(&special) {
            return *slot;
        }
        let slot = self.register();
        self.specials.insert(special, slot);
        self.out.specials.push((special, slot));
        slot
    }

    fn label(&self, name: &Name, mut scope: usize, at: Position) -> Result<u32, Error> {
        loop {
            if let Some(place) = self.labels.get(&(scope, name.clone())) {
                return Ok(*place);
            }
            if scope == 0 {
                return Err(Error::invalid(at, format!("no label `{name}` here")));
            }
            scope = self.parents[scope];
        }
    }

    /// Resolves the labels and finds where lanes meet again.
    pub fn finish(mut self) -> Result<Function, Error> {
        // What runs off the end returns; labels may stand there.
        self.guard = TRUE;
        self.add(crate::machine::end_of_function());
        crate::machine::hopper::watch(&mut self.out.code);
        let mut flows: Vec<Flow> = self.out.code.iter().map(crate::machine::flow).collect();
        for fixup in &self.fixups {
            let find = |name| self.label(name, fixup.scope, fixup.at);
            let targets: Vec<u32> = fixup.labels.iter().map(find).collect::<Result<_, _>>()?;
            let always = self.out.code[fixup.instruction].guard == TRUE;
            let flow = if always { Flow::Jump } else { Flow::Branch };
            flows[fixup.instruction] = flow(targets);
        }
        let graph = Graph::new(&flows);
        self.out.unset = unset(&self.out.code, &graph, self.out.registers);
        let meets = flow::meeting_points(&graph, &flows);
        for fixup in &self.fixups {
            let (Flow::Branch(targets) | Flow::Jump(targets)) = &flows[fixup.instruction] else {
                continue;
            };
            let meet = meets[fixup.instruction];
            let branches: Vec<Branch> =
                targets.iter().map(|target| Branch { target: *target, meet }).collect();
            let detail = &mut self.out.code[fixup.instruction].detail;
            *detail = match detail {
                Detail::Table(_) => Detail::Table(branches.into()),
                _ => Detail::Branch(branches[0]),
            };
        }
        Ok(self.out)
    }
}

/// Offset and size of each of some parameters.
pub(crate) type Places = Vec<(u64, u64)>;

/// Offsets and sizes of a device function's parameters and results, and the end of both.
pub(crate) fn frame_layout(function: &ast::Function) -> Result<(Places, Places, u64), Error> {
    let all: Vec<_> = function.parameters.iter().chain(&function.returns).cloned().collect();
    if let Some(register) = all.iter().find(|parameter| parameter.space == Space::Reg) {
        return Err(Error::unsupported(register.at, "parameters in registers"));
    }
    let (mut places, end) = super::lower::offsets(&all)?;
    let results = places.split_off(function.parameters.len());
    Ok((places, results, end))
}
