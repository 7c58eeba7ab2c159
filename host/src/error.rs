//! The library's one error type.

use crate::emulator::UNKNOWN_ARCH;
use crate::plan::Batch;
use crate::reference::hierarchy::{Tiles, TilesError};
use crate::tune::TuningFault;
use gemm_spec::{DType, Kernel, Layout, LayoutError, Shape, Target};
use std::fmt;
use std::ops::Range;

/// Why a product, a copy or a device failed; the message says what to do about it.
///
/// The kinds are private so that they can grow; callers ask by predicate.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct Error(Box<Kind>);

/// Which matrix of C = alpha * op(A) * op(B) + beta * C an error is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operand {
    A,
    B,
    C,
    Bias,
    Residual,
    RowScale,
    ColScale,
    Amax,
    Offsets,
}

impl fmt::Display for Operand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Operand::A => "A",
            Operand::B => "B",
            Operand::C => "C",
            Operand::Bias => "the bias",
            Operand::Residual => "the residual",
            Operand::RowScale => "the factors of rows",
            Operand::ColScale => "the factors of columns",
            Operand::Amax => "amax",
            Operand::Offsets => "the matrix of offsets",
        })
    }
}

/// What a driver call answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DriverCode {
    pub call: &'static str,
    pub code: i32,
    pub name: String,
    pub text: String,
}

impl fmt::Display for DriverCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} answered {} ({}): {}", self.call, self.name, self.code, self.text)
    }
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum Kind {
    #[error(
        "shapes do not match: op(A) is {a} and op(B) is {b}; the columns of op(A) must be as \
        many as the rows of op(B) (is a transpose missing?)"
    )]
    Inner { a: Shape, b: Shape },
    #[error("shapes do not match: op(A) * op(B) is {product} and C is {c}")]
    Output { product: Shape, c: Shape },
    #[error("a matrix of shape {expected} cannot be overwritten with one of shape {found}")]
    Overwrite { expected: Shape, found: Shape },
    #[error(
        "shapes do not match: op(A) * op(B) is {sums}, of which pairs of columns make {product}, \
        and C is {c}"
    )]
    Pairs { sums: Shape, product: Shape, c: Shape },
    #[error(
        "{operand}: shape {found}, which has to be {wanted}, or 1 in the place of an extent that \
        is the same throughout"
    )]
    Source { operand: Operand, found: Shape, wanted: Shape },
    #[error(
        "beta was given, and a gated epilogue has no place for it: pass a copy of C's old \
        value as its residual"
    )]
    GatedBeta,
    #[error("a gated epilogue takes columns in pairs, and op(A) * op(B) is {sums}")]
    OddPairs { sums: Shape },
    #[error("amax is one element, and the matrix for it is {found}")]
    Amax { found: Shape },
    #[error(
        "a {matrix} {operand} has {expected} scales and {scales} were given: A has one for each \
        row of op(A) and each 128 of K, B one for each block of 128 x 128"
    )]
    Scales { operand: Operand, matrix: Shape, scales: Shape, expected: Shape },
    #[error("a matrix of shape {shape} has {} elements and the data has {found}", len_of(*shape))]
    DataLength { shape: Shape, found: usize },
    #[error("rows {rows:?} and columns {cols:?} are not all in a matrix of shape {shape}")]
    Block { shape: Shape, rows: Range<usize>, cols: Range<usize> },
    #[error(
        "beta was given and there is no C to multiply it with: take a call that is given C, as \
        `run_into`, `run_grouped_into` and `run_device_batch` are"
    )]
    BetaWithoutC,
    #[error("{}: {source}", describe(*operand, layout))]
    Layout { operand: Option<Operand>, layout: Layout, source: LayoutError },
    #[error(
        "{}: two of its elements share one address, so the matrix cannot be written to",
        describe(Some(*operand), layout)
    )]
    Overlap { operand: Operand, layout: Layout },
    #[error("a {shape} matrix of {dtype} does not fit into the address space")]
    TooLarge { shape: Shape, dtype: DType },
    #[error("CUDA device {ordinal}: {reason}")]
    NoDevice { ordinal: usize, reason: String },
    #[error(
        "out of memory on {place}: {wanted} bytes were wanted{}; use smaller matrices, free \
        others, or multiply in panels",
        free_text(*free)
    )]
    OutOfMemory { place: String, wanted: usize, free: Option<(usize, usize)> },
    #[error(
        "out of memory on {place}, for the code of {module}; use smaller matrices, free others, \
        or load kernels first (`Gemm::load`)"
    )]
    CodeMemory { place: String, module: String },
    #[error("{operand} lies on another device than this call's: upload it to {expected}")]
    DifferentDevices { operand: Operand, expected: String },
    #[error("the stream belongs to another device than the matrices ({expected})")]
    ForeignStream { expected: String },
    #[error("{device} is no CUDA device, and this call takes device addresses")]
    NotCuda { device: String },
    #[error("{}; there are: {}", not_to_choose(name, *dtype), variant_list(*dtype))]
    UnknownKernel { name: String, dtype: DType },
    #[error("kernel {name:?} takes no scales for {dtype}; there is: {kernels}")]
    UnscaledKernel { name: String, dtype: DType, kernels: &'static str },
    #[error(
        "kernel {name} was chosen and the device is the CPU, which has an engine of its own: \
        leave the kernel to `KernelChoice::Auto`, or choose a GPU"
    )]
    KernelOnCpu { name: String },
    #[error(
        "kernel {} with tile {} is not one of the library's, so there is nothing to launch",
        kernel.name, tile(kernel)
    )]
    ForeignKernel { kernel: Kernel },
    #[error("kernel {kernel:?}, of another crate, cannot be taken: {reason}")]
    OwnKernel { kernel: &'static str, reason: String },
    #[error(
        "kernel {kernel} cannot be launched for a C of shape {shape} on {device}: it needs \
        {needed} {what} and the device has at most {limit}; choose another kernel"
    )]
    LaunchLimit {
        kernel: &'static str,
        shape: Shape,
        device: String,
        what: &'static str,
        needed: u64,
        limit: u64,
    },
    #[error("no {dtype} kernel can have these tiles: {source}; {tiles:?}")]
    Tiles { tiles: Tiles, dtype: DType, source: TilesError },
    #[error(
        "missing kernel for this GPU: {kernel} needs compute capability {} and {device} has \
        {}.{}",
        needed_capability(*target), has.0, has.1
    )]
    MissingKernel { kernel: &'static str, device: String, target: Target, has: (u32, u32) },
    #[error(
        "kernel {kernel} takes A and B as its name says (n: in rows, t: in columns), which {}, and \
        no empty sums: leave the kernel to `KernelChoice::Auto`, or copy A and B so",
        mappable_text(*by_rows)
    )]
    NotMappable { kernel: &'static str, by_rows: bool },
    #[error(
        "no plan for a C of shape {shape} on this device is kernel {variant} with K in {parts} \
        parts{}: take one of `Gemm::plans`, or leave the kernel to `KernelChoice::Auto`",
        copies_text(*copied)
    )]
    NotPlanned { variant: String, copied: [bool; 2], parts: usize, shape: Shape },
    #[error("{device} has no plans to be tuned: choose a GPU")]
    NotTunable { device: String },
    #[error("there is nothing to tune: {reason}")]
    NothingToTune { reason: &'static str },
    #[error("the tuning {0}; the device keeps its own plans; `gemmite tune` makes another")]
    Tuning(TuningFault),
    #[error("the tuning file {path} could not be {doing}: {source}")]
    TuningFile { path: String, doing: &'static str, source: std::io::Error },
    #[error(
        "{} the rows of a C of shape {shape} in an order that does not depend on their number: \
        leave the kernel to `KernelChoice::Auto`, or the product without `batch_invariant`",
        kernel.map_or("no kernel here sums".into(), |name| format!("kernel {name} does not sum"))
    )]
    NotInvariant { kernel: Option<&'static str>, shape: Shape },
    #[error(
        "kernel {kernel} sums each element of C in one part: leave out the number behind its name, \
        or take another kernel"
    )]
    NotSplit { kernel: &'static str },
    #[error(
        "the stream is being recorded: work goes to it from the thread that records, by products, \
        and it can be neither waited for nor recorded within"
    )]
    Recording,
    #[error(
        "panels of a product of shape {shape} do not fit into {limit} bytes of the memory of \
        {place}; raise the limit"
    )]
    PanelMemory { place: String, limit: usize, shape: Shape },
    #[error("{device} has no graphs; a CUDA device has")]
    NoGraphs { device: String },
    #[error("{kernel} computes one product and no batch; take another kernel")]
    NotBatched { kernel: &'static str },
    #[error(
        "matrices of C in the batch share elements, or lie within each other in a way that is not \
        known to keep them apart: {layout:?}, {} of them at {} elements from each other",
        .batch.count, .batch.c
    )]
    BatchOverlap { layout: Layout, batch: Batch },
    #[error("a batch of {a} matrices A and {b} matrices B; they must be as many, or one for all")]
    BatchCounts { a: usize, b: usize },
    #[error(
        "a batch of {c} matrices C takes as many matrices A and B, or one for all, and here are \
        {a} and {b}"
    )]
    BatchOutput { a: usize, b: usize, c: usize },
    #[error("matrices of a batch have one shape, and here are {first} and {other}")]
    BatchShapes { first: Shape, other: Shape },
    #[error("product number {number} of the list (the first is 0): {source}")]
    InList { number: usize, source: Error },
    #[error(
        "no kernel computes this list of products in one launch: it takes {}, of operands that \
        start at multiples of 16 bytes and go on from row to row by such, all stored alike, A in \
        rows, not all of them empty, on a GPU of compute capability 9.0, without \
        `batch_invariant`; leave the kernel to `KernelChoice::Auto`, or take `run` and `enqueue` \
        for each product",
        crate::plan::grouped_dtypes().map(DType::name).collect::<Vec<_>>().join(" and ")
    )]
    NotGrouped,
    #[error("kernel {name:?} takes no list of products; there are: {kernels}")]
    UngroupedKernel { name: String, kernels: String },
    #[error(
        "offsets of {found} for rows of products, of {products} matrices B: they are a row or a \
        column of elements side by side, one more than there are products"
    )]
    Offsets { found: Shape, products: usize },
    #[error(
        "the module {module} has no kernel {kernel}; rebuild it with `cargo xtask build-ptx` \
        ({driver})"
    )]
    NoEntry { kernel: &'static str, module: String, driver: DriverCode },
    #[error(
        "the driver did not accept the PTX of {module}: {driver}; a driver that knows PTX ISA \
         {}.{} or later is needed, this one is for CUDA {driver_version}\n{log}",
        ptx_version.0, ptx_version.1
    )]
    Jit {
        module: String,
        ptx_version: (u32, u32),
        driver_version: String,
        driver: DriverCode,
        log: String,
    },
    #[error("no tensor map is possible: {0}")]
    TensorLayout(crate::cuda::TensorLayoutError),
    #[error("{context}: {driver}{}", driver_remedy(driver.code))]
    Driver { context: String, driver: DriverCode },
    #[error("{device} is no emulated GPU, and this call is for one")]
    NotEmulated { device: String },
    #[error("no emulated GPU has compute capability {}.{}: {}", arch.0, arch.1, UNKNOWN_ARCH)]
    NoEmulator { arch: (u32, u32) },
    #[error("the emulator: {context}: {source}")]
    Emulator { context: String, source: ptx_emulator::Error },
    #[error("the emulator does not take the PTX of {context}: {source}")]
    EmulatorPtx { context: String, source: ptx_emulator::Error },
    #[error("the emulator: {context}: {source}")]
    EmulatorMap { context: String, source: ptx_emulator::bulk::TensorMapError },
    #[error(
        "the emulator stopped kernel {kernel}, launched for a C of shape {shape} on an {device}\n\
        {report}{lines}"
    )]
    EmulatorReport {
        kernel: &'static str,
        shape: Shape,
        device: String,
        report: Box<ptx_emulator::Report>,
        lines: String,
    },
}

impl Error {
    pub(crate) fn new(kind: Kind) -> Self {
        Error(Box::new(kind))
    }

    /// The same of a product in a list.
    pub(crate) fn of_product(self, number: usize) -> Self {
        Error::new(Kind::InList { number, source: self })
    }

    /// What went wrong, wherever in a list.
    fn kind(&self) -> &Kind {
        match &*self.0 {
            Kind::InList { source, .. } => source.kind(),
            kind => kind,
        }
    }

    /// Shapes or lengths do not match.
    pub fn is_shape(&self) -> bool {
        use Kind::*;
        matches!(
            *self.kind(),
            Inner { .. }
                | Output { .. }
                | Overwrite { .. }
                | Pairs { .. }
                | Scales { .. }
                | Block { .. }
                | DataLength { .. }
                | BetaWithoutC
                | Source { .. }
                | OddPairs { .. }
                | GatedBeta
                | Amax { .. }
                | BatchCounts { .. }
                | BatchOutput { .. }
                | BatchShapes { .. }
                | Offsets { .. }
                | TooLarge { .. }
        )
    }

    /// Strides do not fit the data, make elements of C overlap, or are those of no tensor map.
    pub fn is_layout(&self) -> bool {
        use Kind::*;
        matches!(
            *self.kind(),
            Layout { .. } | Overlap { .. } | BatchOverlap { .. } | TensorLayout(_)
        )
    }

    /// There is no such CUDA device, or no driver; or no such emulated GPU.
    pub fn is_no_device(&self) -> bool {
        matches!(*self.kind(), Kind::NoDevice { .. } | Kind::NoEmulator { .. })
    }

    /// Matrices and stream are not all on one device, or on a device of the wrong kind.
    pub fn is_device_mismatch(&self) -> bool {
        use Kind::*;
        matches!(
            *self.kind(),
            DifferentDevices { .. }
                | ForeignStream { .. }
                | NotCuda { .. }
                | NotEmulated { .. }
                | NoGraphs { .. }
        )
    }

    /// The stream is being recorded ([`Stream::record`](crate::Stream::record)), by another thread
    /// or by this one: it can be used so when that has ended.
    pub fn is_recording(&self) -> bool {
        matches!(*self.kind(), Kind::Recording)
    }

    /// Host or device memory ran out; the device can still be used.
    pub fn is_out_of_memory(&self) -> bool {
        use Kind::*;
        matches!(*self.kind(), OutOfMemory { .. } | CodeMemory { .. } | PanelMemory { .. })
    }

    /// What ran out is memory for matrices, copies or sums, and not for a kernel's code.
    pub(crate) fn is_out_of_data_memory(&self) -> bool {
        matches!(*self.kind(), Kind::OutOfMemory { .. })
    }

    /// The kernel is unknown, this device cannot run it, or its tiles could run nowhere; the device
    /// can still be used.
    pub fn is_unsupported(&self) -> bool {
        use Kind::*;
        matches!(
            *self.kind(),
            UnknownKernel { .. }
                | UnscaledKernel { .. }
                | UngroupedKernel { .. }
                | NotGrouped
                | KernelOnCpu { .. }
                | ForeignKernel { .. }
                | OwnKernel { .. }
                | LaunchLimit { .. }
                | Tiles { .. }
                | MissingKernel { .. }
                | NotMappable { .. }
                | NotSplit { .. }
                | NotBatched { .. }
                | NotInvariant { .. }
                | NotPlanned { .. }
                | NotTunable { .. }
                | NoEntry { .. }
        )
    }

    /// A tuning is corrupt, of another version, or made for another GPU, driver or library; or one
    /// of its plans is none of the device's or computes a wrong product. The device keeps its own
    /// plans.
    pub fn is_tuning(&self) -> bool {
        matches!(*self.kind(), Kind::Tuning(_))
    }

    /// The emulator stopped a kernel: it misused memory or a barrier, or has an instruction that
    /// the emulator does not know. The message is the whole report, with the lines of PTX. The
    /// device can still be used; C's elements are unspecified.
    pub fn is_emulator_report(&self) -> bool {
        matches!(*self.kind(), Kind::EmulatorReport { .. })
    }

    /// The driver's compiler refused a PTX module, and the message holds its log; or an emulated
    /// GPU did.
    pub fn is_jit(&self) -> bool {
        matches!(*self.kind(), Kind::Jit { .. } | Kind::EmulatorPtx { .. })
    }

    /// The device's context is destroyed by an earlier fault (an illegal address, say): every
    /// further call on it fails until all its matrices, streams and `Device`s are dropped, or for
    /// the rest of the process.
    pub fn is_context_lost(&self) -> bool {
        self.driver_code().is_some_and(is_sticky)
    }

    /// The code of the driver call that failed, as in `cuda.h`.
    pub fn driver_code(&self) -> Option<i32> {
        match self.kind() {
            Kind::Driver { driver, .. }
            | Kind::Jit { driver, .. }
            | Kind::NoEntry { driver, .. } => Some(driver.code),
            _ => None,
        }
    }
}

/// Codes after which a context answers nothing else (CUDA driver API, `CUresult`: "the process must
/// be terminated and relaunched", "leaves the process in an inconsistent state").
pub(crate) fn is_sticky(code: i32) -> bool {
    matches!(code, 214 | 220 | 226 | 700 | 702 | 709 | 710 | 714..=719 | 721 | 810)
}

fn driver_remedy(code: i32) -> &'static str {
    match code {
        _ if is_sticky(code) => {
            "; the device's context is lost: drop its matrices and devices, or restart the program"
        }
        46 => "; another process has the GPU to itself, or nobody may compute on it (`nvidia-smi`)",
        3 | 4 => "; is the NVIDIA driver's library loaded? `cargo xtask doctor` says",
        701 => "; choose a kernel with a smaller tile",
        _ => "",
    }
}

/// How operands have to be for tensor maps.
fn mappable_text(by_rows: bool) -> &'static str {
    match by_rows {
        true => "go forward, of a batch one matrix right behind the other",
        false => "start at multiples of 16 bytes",
    }
}

fn copies_text(copied: [bool; 2]) -> &'static str {
    match copied {
        [false, false] => "",
        [true, false] => " and a copy of A",
        [false, true] => " and a copy of B",
        [true, true] => " and copies of A and B",
    }
}

fn len_of(shape: Shape) -> u128 {
    shape.rows as u128 * shape.cols as u128
}

fn describe(operand: Option<Operand>, layout: &Layout) -> String {
    let Layout { shape, strides, offset } = layout;
    let name = operand.map_or_else(|| "a matrix".to_string(), |operand| operand.to_string());
    format!(
        "{name} of shape {shape} with strides ({}, {}) from element {offset}",
        strides.row, strides.col
    )
}

fn free_text(free: Option<(usize, usize)>) -> String {
    free.map_or_else(String::new, |(free, total)| format!(", {free} of {total} are free"))
}

fn needed_capability(target: Target) -> String {
    let (major, minor) = target.min_capability();
    let later = if target.runs_on((u32::MAX, 0)) { "or later" } else { "and no other" };
    format!("{major}.{minor} {later}")
}

/// Why no kernel of this name can be chosen.
fn not_to_choose(name: &str, dtype: DType) -> String {
    match gemm_spec::purpose(name) {
        Some(purpose) => format!(
            "kernel {name:?} is for {purpose}, where the library takes it by itself: leave the \
            choice to it, or choose one for two operands of {dtype}"
        ),
        None => format!("no kernel is named {name:?} for {dtype}"),
    }
}

fn variant_list(dtype: DType) -> String {
    let has = |variant: &&str| Kernel::find(variant, dtype).is_some();
    gemm_spec::variants().filter(has).collect::<Vec<_>>().join(", ")
}

/// As `32x32x8`: rows and columns of C that a block computes, and its step along K.
fn tile(kernel: &Kernel) -> String {
    let [rows, cols, depth] = kernel.tiles.block;
    format!("{rows}x{cols}x{depth}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_name_shapes_and_remedies() {
        let error = Error::new(Kind::Inner { a: Shape::new(3, 4), b: Shape::new(5, 6) });
        assert!(error.is_shape() && !error.is_unsupported());
        let text = error.to_string();
        assert!(
            text.contains("3x4") && text.contains("5x6") && text.contains("transpose"),
            "{text}"
        );

        let error = Error::new(Kind::UnknownKernel { name: "k99".into(), dtype: DType::F32 });
        assert!(error.to_string().contains("k02_tiled_16"), "{error}");

        let name = "warp_group_scaled_128x128".to_owned();
        let text = Error::new(Kind::UnknownKernel { name, dtype: DType::F8E4M3 }).to_string();
        assert!(text.contains("is for operands with scales") && text.contains("leave"), "{text}");
    }

    #[test]
    fn sticky_codes_are_context_losses() {
        let error = |code| {
            let driver =
                DriverCode { call: "cuX", code, name: "E".into(), text: "what it means".into() };
            Error::new(Kind::Driver { context: "k02 on 3x4".into(), driver })
        };
        assert!(error(700).is_context_lost());
        assert!(error(700).to_string().contains("restart"));
        assert!(!error(1).is_context_lost());
        assert_eq!(error(1).driver_code(), Some(1));
    }

    #[test]
    fn an_error_is_one_pointer() {
        assert_eq!(size_of::<Error>(), size_of::<usize>());
    }
}
