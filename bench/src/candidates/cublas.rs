//! cuBLAS and cuBLASLt, opened at run time.
//!
//! Both think in columns. A row-major matrix with leading dimension ld is the transpose of a
//! column-major one with the same ld, and C = op(A) * op(B) is Cᵀ = op(B)ᵀ * op(A)ᵀ: so they get B
//! first, with m and n exchanged, and nothing is copied. Numbers and functions are those of
//! NVIDIA's cuBLAS documentation (cublasLt.h, cublas_api.h, library_types.h).

mod ffi;
mod lt;

use super::{Absence, Entrant, Peer};
use crate::case::Case;
use crate::gpu::{Gpu, GpuWork, Operands};
use crate::suite::Row;
use anyhow::{Context, Result, anyhow};
use cust::memory::DeviceBuffer;
use ffi::{Functions, LtFunctions};
use gemmite::{DType, Element, Op, Precision};
use libloading::Library;
use std::ffi::{c_int, c_void};
use std::path::PathBuf;

pub use lt::CublasLt;

/// Bytes of scratch memory that each library may use: what NVIDIA recommends for Hopper (32 MiB)
/// and twice that.
const WORKSPACE_BYTES: usize = 64 << 20;

/// Opens the library of that name, from the places where it is usually: the system's, those of a
/// toolkit, those of Python's packages.
fn open(name: &str, python_folders: &[PathBuf]) -> Result<Library, Absence> {
    let versions = [".so.13", ".so.12", ".so"];
    let mut folders = vec![PathBuf::new()]; // wherever the system looks
    let toolkits = ["CUDA_PATH", "CUDA_HOME"].into_iter().filter_map(std::env::var_os);
    for root in toolkits.map(PathBuf::from).chain([PathBuf::from("/usr/local/cuda")]) {
        folders.push(root.join("lib64"));
    }
    folders.extend_from_slice(python_folders);
    let mut reasons = Vec::new();
    for folder in &folders {
        for version in versions {
            let path = folder.join(format!("{name}{version}"));
            // SAFETY: the library's initialisers run; it is NVIDIA's.
            match unsafe { Library::new(&path) } {
                Ok(library) => return Ok(library),
                Err(error) if path.exists() => reasons.push(format!("{}: {error}", path.display())),
                Err(_) => {}
            }
        }
    }
    let places = "the system's library path, CUDA_PATH, CUDA_HOME, /usr/local/cuda, Python's \
                  nvidia packages";
    let found =
        if reasons.is_empty() { String::new() } else { format!("; {}", reasons.join("; ")) };
    Err(Absence::missing(format!("no {name}.so.13 or .so.12 in {places}{found}")))
}

/// How the two libraries name a dtype, its sums, and alpha and beta.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Types {
    data: c_int,
    output: c_int,
    compute: c_int,
    scalar: c_int,
}

impl Types {
    fn of(dtype: DType, precision: Precision) -> Result<Types, Absence> {
        use ffi::{COMPUTE_32F, COMPUTE_32F_FAST_TF32, COMPUTE_32I, COMPUTE_64F};
        use ffi::{R_8F_E4M3, R_8F_E5M2, R_8I, R_16BF, R_16F, R_32F, R_32I, R_64F};
        let (data, compute, scalar) = match dtype {
            DType::I8 => (R_8I, COMPUTE_32I, R_32I),
            DType::F8E4M3 => (R_8F_E4M3, COMPUTE_32F, R_32F),
            DType::F8E5M2 => (R_8F_E5M2, COMPUTE_32F, R_32F),
            DType::F16 => (R_16F, COMPUTE_32F, R_32F),
            DType::BF16 => (R_16BF, COMPUTE_32F, R_32F),
            DType::F32 if precision == Precision::Tf32 => (R_32F, COMPUTE_32F_FAST_TF32, R_32F),
            DType::F32 => (R_32F, COMPUTE_32F, R_32F), // plain f32
            DType::F64 => (R_64F, COMPUTE_64F, R_64F),
            DType::I32 => {
                return Err(Absence::unsupported("cuBLAS has no product of i32 matrices"));
            }
        };
        let output = match dtype {
            DType::I8 => R_32I,
            DType::F8E4M3 | DType::F8E5M2 => R_16BF,
            _ => data,
        };
        Ok(Types { data, output, compute, scalar })
    }
}

/// alpha and beta where the library reads them: f32, f64 or i32, of which the bytes are kept.
struct Scalars {
    alpha: [u8; 8],
    beta: [u8; 8],
}

impl Scalars {
    fn of<T: Element>(case: &Case<T>) -> Scalars {
        let epilogue = case.row.epilogue;
        Scalars::new(T::DTYPE, epilogue.alpha, epilogue.beta.unwrap_or(0.0))
    }

    fn new(dtype: DType, alpha: f64, beta: f64) -> Scalars {
        let bytes = |value: f64| {
            let mut bytes = [0; 8];
            match dtype {
                DType::F64 => bytes.copy_from_slice(&value.to_ne_bytes()),
                DType::I8 => bytes[..4].copy_from_slice(&(value as i32).to_ne_bytes()),
                _ => bytes[..4].copy_from_slice(&(value as f32).to_ne_bytes()),
            }
            bytes
        };
        Scalars { alpha: bytes(alpha), beta: bytes(beta) }
    }

    fn alpha(&self) -> *const c_void {
        self.alpha.as_ptr().cast()
    }

    fn beta(&self) -> *const c_void {
        self.beta.as_ptr().cast()
    }
}

fn operation(op: Op) -> c_int {
    match op {
        Op::None => ffi::OP_N,
        Op::Transpose => ffi::OP_T,
    }
}

/// Turns a status into an error that names the call.
fn check(call: &str, status: c_int) -> Result<()> {
    let answer = || format!("{call} answered {status} ({})", ffi::status_name(status));
    match status {
        0 => Ok(()),
        ffi::NOT_SUPPORTED => Err(Absence::unsupported(answer()).into()),
        _ => Err(anyhow!(answer())),
    }
}

/// cuBLAS with a handle on the run's stream.
pub struct Cublas {
    functions: Functions,
    handle: *mut c_void,
    /// As in 13.1.0.
    pub version: String,
    _workspace: DeviceBuffer<u8>,
}

impl Cublas {
    /// Opens the library and makes a handle.
    pub fn open(gpu: &Gpu, python_folders: &[PathBuf]) -> Result<Cublas, Absence> {
        let library = open("libcublas", python_folders)?;
        Cublas::with(library, gpu).map_err(|error| Absence::of(&error))
    }

    fn with(library: Library, gpu: &Gpu) -> Result<Cublas> {
        let functions = Functions::new(library)?;
        let mut handle = std::ptr::null_mut();
        // SAFETY: a place for a handle.
        check("cublasCreate", unsafe { (functions.create)(&raw mut handle) })?;
        let workspace = DeviceBuffer::zeroed(WORKSPACE_BYTES)?;
        let mut version = 0;
        // SAFETY: the handle was just made; the stream lives as long as the GPU, which outlives
        // this, and the workspace is kept beside the handle.
        unsafe {
            check("cublasSetStream", (functions.set_stream)(handle, gpu.stream.as_inner().cast()))?;
            let address = workspace.as_device_ptr().as_raw() as *mut c_void;
            check(
                "cublasSetWorkspace",
                (functions.set_workspace)(handle, address, WORKSPACE_BYTES),
            )?;
            check("cublasGetVersion", (functions.get_version)(handle, &raw mut version))?;
        }
        let version = ffi::version_text(version as usize);
        Ok(Cublas { functions, handle, version, _workspace: workspace })
    }

    /// Enqueues C = A * B for row-major bf16 at three addresses, m, n and k.
    ///
    /// # Safety
    /// The addresses are of matrices of these sizes in device memory that nobody else touches until
    /// the stream has got past this.
    pub unsafe fn multiply_bf16(&self, at: [u64; 3], [m, n, k]: [usize; 3]) -> Result<()> {
        let types = Types::of(DType::BF16, Precision::Full);
        let call = Call {
            ops: [Op::None; 2],
            sizes: Sizes::new([m, n, k, 1], [k, n, n])?,
            strides: [0; 3],
            types: types.map_err(|absence| anyhow!(absence.reason))?,
            scalars: Scalars::new(DType::BF16, 1.0, 0.0),
        };
        // SAFETY: the caller's promise.
        unsafe { self.multiply(&call, at) }
    }

    /// Enqueues a product of matrices at three addresses, by cublasGemmStridedBatchedEx.
    ///
    /// # Safety
    /// The addresses are of matrices as the call has them, in device memory that nobody else
    /// touches until the stream has got past this.
    unsafe fn multiply(&self, call: &Call, [a, b, c]: [u64; 3]) -> Result<()> {
        let Call { ops: [op_a, op_b], sizes, strides, types, scalars } = call;
        let Sizes { m, n, k, batch, lda, ldb, ldc } = *sizes;
        let [stride_a, stride_b, stride_c] = *strides;
        let pointer = |address: u64| address as *mut c_void;
        // SAFETY: the handle is alive; addresses, sizes, leading dimensions and strides are the
        // caller's; the scalars have the type that the compute type asks for.
        let status = unsafe {
            (self.functions.gemm_strided_batched_ex)(
                self.handle,
                operation(*op_b),
                operation(*op_a),
                n,
                m,
                k,
                scalars.alpha(),
                pointer(b),
                types.data,
                ldb,
                stride_b,
                pointer(a),
                types.data,
                lda,
                stride_a,
                scalars.beta(),
                pointer(c),
                types.output,
                ldc,
                stride_c,
                batch,
                types.compute,
                ffi::GEMM_DEFAULT,
            )
        };
        check("cublasGemmStridedBatchedEx", status)
    }

    /// cublasGemmStridedBatchedEx with the default algorithm.
    pub fn entrant<'a, T: Element>(
        &'a self,
        gpu: &'a Gpu,
        operands: &'a Operands,
        case: &'a Case<T>,
    ) -> Entrant<'a, T> {
        let name = Peer::Cublas.name();
        match self.work(gpu, operands, case) {
            Ok(work) => Entrant::peer(name, "cublasGemmStridedBatchedEx".into(), work),
            Err(absence) => Entrant::absent(name, absence),
        }
    }

    fn work<'a, T: Element>(
        &'a self,
        gpu: &'a Gpu,
        operands: &'a Operands,
        case: &'a Case<T>,
    ) -> Result<GpuWork<'a, T>, Absence> {
        if case.row.epilogue.is_fused() {
            return Err(Absence::unsupported("it has no epilogue; cuBLASLt's does"));
        }
        if T::DTYPE.is_fp8() {
            return Err(Absence::unsupported("floats of 8 bits are cuBLASLt's alone"));
        }
        let call = Call {
            ops: [case.row.op_a, case.row.op_b],
            sizes: Sizes::of(&case.row).map_err(|error| Absence::of(&error))?,
            strides: case.row.batch_strides().map(|stride| stride as i64),
            types: Types::of(T::DTYPE, case.row.precision)?,
            scalars: Scalars::of(case),
        };
        // SAFETY: the addresses are those of the row's buffers.
        let launch = move |at, _: &cust::stream::Stream| unsafe { self.multiply(&call, at) };
        Ok(GpuWork::new(gpu, operands, case, Box::new(launch)))
    }
}

impl Drop for Cublas {
    fn drop(&mut self) {
        // SAFETY: the handle is ours, and no work is in flight: every sample waits for its own.
        unsafe { (self.functions.destroy)(self.handle) };
    }
}

/// What cublasGemmStridedBatchedEx computes, of row-major matrices.
struct Call {
    ops: [Op; 2],
    sizes: Sizes,
    /// Elements from product to product, of A, B and C.
    strides: [i64; 3],
    types: Types,
    scalars: Scalars,
}

/// A row's sizes as cuBLAS takes them.
#[derive(Clone, Copy, Debug)]
struct Sizes {
    m: c_int,
    n: c_int,
    k: c_int,
    batch: c_int,
    lda: c_int,
    ldb: c_int,
    ldc: c_int,
}

impl Sizes {
    fn of(row: &Row) -> Result<Sizes> {
        Sizes::new([row.m, row.n, row.k, row.batch], row.leading)
    }

    fn new(extents: [usize; 4], leading: [usize; 3]) -> Result<Sizes> {
        let int = |value: usize| c_int::try_from(value).context("too large for cuBLAS's int");
        let ([m, n, k, batch], [lda, ldb, ldc]) = (extents.map(int), leading.map(int));
        Ok(Sizes { m: m?, n: n?, k: k?, batch: batch?, lda: lda?, ldb: ldb?, ldc: ldc? })
    }
}
