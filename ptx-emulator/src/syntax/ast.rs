//! The syntax tree of a PTX module: what the text says, with nothing looked up or checked yet.
//!
//! The tree is generic: an instruction is an opcode, its modifiers and its operands, whatever the
//! opcode. Names are shared strings, one per distinct name of the module, so that a clone is cheap
//! and the tree owns everything it names. Debugging directives (`.loc`, `.file`, `.section`) and
//! `.pragma` leave no trace. Sources: PTX ISA, chapters 4 (syntax), 5 (state spaces, types and
//! variables), 6 (operands), 7 (functions) and 11 (directives).

use std::sync::Arc;

/// A name as written, with its `%` or `$`, and with the component where it has one: `%tid.x`.
pub type Name = Arc<str>;

/// A place in the text. Both count from 1; a column counts characters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    /// The line.
    pub line: u32,
    /// The column.
    pub column: u32,
}

/// A whole text of PTX.
#[derive(Clone, Debug, PartialEq)]
pub struct Module {
    /// `.version 8.3` is `(8, 3)`.
    pub version: (u32, u32),
    /// `.target sm_90a, debug` is `["sm_90a", "debug"]`.
    pub target: Vec<Name>,
    /// `.address_size`: 32 or 64. 32 where the module does not say (PTX ISA 11.1.3).
    pub address_size: u32,
    /// The variables at module scope, in the order of the text.
    pub variables: Vec<Variable>,
    /// Entries, device functions and prototypes, in the order of the text. A function that has a
    /// prototype and later a body is here twice.
    pub functions: Vec<Function>,
    /// `.alias a, f;`: other names of functions.
    pub aliases: Vec<Alias>,
}

/// `.alias name, target;`
#[derive(Clone, Debug, PartialEq)]
pub struct Alias {
    /// The new name.
    pub name: Name,
    /// The function it stands for.
    pub target: Name,
    /// Where it is written.
    pub at: Position,
}

/// How a name is seen by other modules.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Linkage {
    /// No linkage directive: known in this module alone.
    #[default]
    Internal,
    /// `.visible`
    Visible,
    /// `.extern`: declared here, defined elsewhere; of dynamic shared memory, sized at launch.
    Extern,
    /// `.weak`
    Weak,
    /// `.common`
    Common,
}

/// A state space that a variable or a parameter can live in (PTX ISA 5.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Space {
    /// `.const`
    Const,
    /// `.global`
    Global,
    /// `.local`
    Local,
    /// `.param`
    Param,
    /// `.reg`, as a parameter of a device function.
    Reg,
    /// `.shared`
    Shared,
}

/// A fundamental type, packed type or opaque type (PTX ISA 5.2, 5.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "each is the type of the same spelling")]
pub enum Type {
    Pred,
    B8,
    B16,
    B32,
    B64,
    B128,
    U8,
    U16,
    U32,
    U64,
    S8,
    S16,
    S32,
    S64,
    F16,
    F16x2,
    Bf16,
    Bf16x2,
    F32,
    F64,
    Texref,
    Samplerref,
    Surfref,
}

/// A variable at module scope or in a body; one of these for each name of a declaration.
#[derive(Clone, Debug, PartialEq)]
pub struct Variable {
    /// `.const`, `.global`, `.local`, `.param` or `.shared`.
    pub space: Space,
    /// `.align`, in bytes. Without it, the alignment is that of the element (PTX ISA 5.4.5).
    pub alignment: Option<u64>,
    /// `.v2`, `.v4`, `.v8` as their number; 1 for a scalar.
    pub vector: u32,
    /// The type of an element (of a component, where `vector` is not 1).
    pub element: Type,
    /// Its name.
    pub name: Name,
    /// The number of elements: 1 for a scalar, the product of the dimensions for an array, and
    /// `None` for an array of no stated size, `name[]` without initial values.
    pub count: Option<u64>,
    /// The initial values that are written, each with the index of its component in the flattened
    /// variable, rising. What is not here is zero.
    pub initial: Vec<(u64, Initial)>,
    /// Whether other modules see it.
    pub linkage: Linkage,
    /// `.attribute(.managed)`: the host sees it as well.
    pub managed: bool,
    /// Where its name is written.
    pub at: Position,
}

/// One initial value (PTX ISA 5.4.4).
#[derive(Clone, Debug, PartialEq)]
pub enum Initial {
    /// A number, to be converted to the type of the element.
    Constant(Constant),
    /// The address of a variable or function: `name+4`, `generic(name)+4`, `0xFF00(name)`.
    Address {
        /// The variable or function.
        name: Name,
        /// `generic(..)`: its address in the generic space rather than in its own.
        generic: bool,
        /// What is added to it.
        offset: i64,
        /// `0xFF00(name)`: the bits of the address that are kept, then shifted down so that the
        /// lowest bit of the mask becomes bit 0. `None`: all of it.
        mask: Option<u64>,
    },
}

/// A constant as written (PTX ISA 4.5). Float constants are kept as bits: payloads of NaN survive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Constant {
    /// 64 bits in two's complement; a number from 2^63 on is in its wrapped, negative form.
    Integer(i64),
    /// `0f3F800000`: the bits of an f32.
    Single(u32),
    /// `0d3FF0000000000000` or `1.0`: the bits of an f64.
    Double(u64),
}

/// Whether a function is launched or called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FunctionKind {
    /// `.entry`: a kernel.
    Entry,
    /// `.func`: a device function.
    Device,
}

/// `.entry` or `.func`.
#[derive(Clone, Debug, PartialEq)]
pub struct Function {
    /// Kernel or device function.
    pub kind: FunctionKind,
    /// Its name.
    pub name: Name,
    /// Whether other modules see it.
    pub linkage: Linkage,
    /// What it returns: none for a kernel, at most one for most functions.
    pub returns: Vec<Parameter>,
    /// Its parameters in order.
    pub parameters: Vec<Parameter>,
    /// Its performance-tuning and cluster directives.
    pub directives: Directives,
    /// Its statements; `None` for a prototype.
    pub body: Option<Vec<Statement>>,
    /// Where its name is written.
    pub at: Position,
}

/// A parameter or return value of a function or prototype.
#[derive(Clone, Debug, PartialEq)]
pub struct Parameter {
    /// `.param` or `.reg`.
    pub space: Space,
    /// `.align` of the parameter itself, in bytes.
    pub alignment: Option<u64>,
    /// `.ptr`: the parameter is a pointer, and this is known of it.
    pub pointer: Option<Pointer>,
    /// `.v2`, `.v4` as their number; 1 for a scalar.
    pub vector: u32,
    /// The type of an element.
    pub element: Type,
    /// Its name; `_` in a prototype that names none.
    pub name: Name,
    /// The number of elements: 1 for a scalar, `None` for `name[]`.
    pub count: Option<u64>,
    /// Where it is written.
    pub at: Position,
}

/// `.ptr .global .align 16` of a kernel's parameter (PTX ISA 7.1 and 5.1.6.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pointer {
    /// The space it points into; `None` is the generic space.
    pub space: Option<Space>,
    /// The alignment of what it points at, in bytes: 4 where the text does not say.
    pub alignment: u64,
}

/// The directives between a function's parameters and its body (PTX ISA 11.4).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Directives {
    /// `.maxntid x, y, z`: missing dimensions are 1. The launch may have at most x*y*z threads.
    pub max_threads: Option<[u32; 3]>,
    /// `.reqntid x, y, z`: missing dimensions are 1.
    pub required_threads: Option<[u32; 3]>,
    /// `.minnctapersm`
    pub min_blocks: Option<u32>,
    /// `.maxnctapersm` (deprecated).
    pub max_blocks: Option<u32>,
    /// `.maxnreg`
    pub max_registers: Option<u32>,
    /// `.reqnctapercluster x, y, z`: missing dimensions are 1.
    pub required_cluster: Option<[u32; 3]>,
    /// `.explicitcluster`: a launch must give a cluster shape.
    pub explicit_cluster: bool,
    /// `.maxclusterrank`
    pub max_cluster_rank: Option<u32>,
    /// `.blocksareclusters`: a launch's grid counts clusters.
    pub blocks_are_clusters: bool,
    /// `.noreturn`
    pub no_return: bool,
}

/// A statement of a body.
#[derive(Clone, Debug, PartialEq)]
pub enum Statement {
    /// `.reg .b32 %r<12>, x;`
    Registers(Registers),
    /// `.shared`, `.local`, `.param`, `.global` or `.const` in a body.
    Variable(Variable),
    /// `name:` before an instruction.
    Label(Label),
    /// An instruction.
    Instruction(Instruction),
    /// `{ .. }`: names declared in it, labels included, are known in it alone.
    Block(Vec<Statement>),
    /// `name: .branchtargets a, b;`
    BranchTargets(Targets),
    /// `name: .calltargets f, g;`
    CallTargets(Targets),
    /// `name: .callprototype (..) _ (..);`
    CallPrototype(Prototype),
}

/// A label.
#[derive(Clone, Debug, PartialEq)]
pub struct Label {
    /// Its name.
    pub name: Name,
    /// Where it is written.
    pub at: Position,
}

/// The list that a label of `brx.idx` or of an indirect call names.
#[derive(Clone, Debug, PartialEq)]
pub struct Targets {
    /// The name of the list.
    pub name: Name,
    /// Labels or functions.
    pub targets: Vec<Name>,
    /// Where the list's name is written.
    pub at: Position,
}

/// The types of a function that is called through a register.
#[derive(Clone, Debug, PartialEq)]
pub struct Prototype {
    /// The label that names it.
    pub name: Name,
    /// What it returns.
    pub returns: Vec<Parameter>,
    /// Its parameters.
    pub parameters: Vec<Parameter>,
    /// `.noreturn`
    pub no_return: bool,
    /// Where the label is written.
    pub at: Position,
}

/// A declaration of registers of one type.
#[derive(Clone, Debug, PartialEq)]
pub struct Registers {
    /// The type of a register (of a component, where `vector` is not 1).
    pub element: Type,
    /// `.v2`, `.v4` as their number; 1 for a scalar.
    pub vector: u32,
    /// The names.
    pub names: Vec<RegisterName>,
    /// Where the declaration begins.
    pub at: Position,
}

/// One name of a declaration of registers.
#[derive(Clone, Debug, PartialEq)]
pub struct RegisterName {
    /// The name; the common beginning of the names where there is a count.
    pub name: Name,
    /// `%r<12>`: the registers `%r0` to `%r11`.
    pub count: Option<u32>,
    /// Where it is written.
    pub at: Position,
}

/// `@p opcode.modifiers operands;`
#[derive(Clone, Debug, PartialEq)]
pub struct Instruction {
    /// `@p` or `@!p`.
    pub guard: Option<Guard>,
    /// The opcode: the word before the first point. `mad` of `mad.lo.s32`, `setp`, `cp`.
    pub opcode: Name,
    /// The words after it, without points and with `::` inside: `["async", "L2::128B"]`. At most
    /// 32, shared by all instructions that are spelt the same.
    pub modifiers: Arc<[Name]>,
    /// The operands in order.
    pub operands: Vec<Operand>,
    /// Where the opcode is written.
    pub at: Position,
}

/// The predicate that an instruction depends on.
#[derive(Clone, Debug, PartialEq)]
pub struct Guard {
    /// The predicate register.
    pub register: Name,
    /// `@!p`: executed where it is false.
    pub negated: bool,
}

/// An operand of an instruction (PTX ISA chapter 6).
#[derive(Clone, Debug, PartialEq)]
pub enum Operand {
    /// A register, special register (`%tid.x`), variable, label or function; a vector register's
    /// component (`v.x`).
    Name(Name),
    /// `name+4`, `name-4`: the address of a variable and an offset.
    NameOffset(Name, i64),
    /// `name[4]`: the address of a variable's element, here 4 elements after the first.
    Element(Name, i64),
    /// `!p`
    Negated(Name),
    /// A number.
    Constant(Constant),
    /// `_`
    Sink,
    /// `[a]`, `[a+4]`, `[4096]`, `[map, {x, y}]`.
    Address(Address),
    /// `{a, b, ..}`
    Vector(Vec<Operand>),
    /// `d|p`
    Pair(Box<(Operand, Operand)>),
    /// `(a, b)` of a call: the return value's or the arguments' list.
    List(Vec<Operand>),
}

/// What stands in brackets.
#[derive(Clone, Debug, PartialEq)]
pub struct Address {
    /// The register or variable; `None` where the address is a number alone.
    pub base: Option<Name>,
    /// What is added to it, in bytes; the address itself where there is no base.
    pub offset: i64,
    /// What follows after commas: `{x, y}` of `[map, {x, y}]`. Empty for plain addresses.
    pub coordinates: Vec<Operand>,
}
