//! cuBLASLt: what a plain caller gets, and the fastest of all that its heuristic offers.

use super::ffi::{self, Algo, HeuristicResult};
use super::{LtFunctions, Scalars, Types, WORKSPACE_BYTES, check, open, operation};
use crate::candidates::{Absence, Candidate, Entrant, Peer};
use crate::case::Case;
use crate::gpu::{Gpu, GpuWork, Operands};
use crate::timing::quick;
use anyhow::{Context, Result};
use cust::memory::DeviceBuffer;
use gemmite::{Activation, Element, Op};
use std::ffi::{c_int, c_void};
use std::path::PathBuf;
use std::rc::Rc;

/// The most candidates that the heuristic is asked for; it seldom has half as many.
const MOST: usize = 64;

/// cuBLASLt with a handle.
pub struct CublasLt {
    functions: LtFunctions,
    handle: *mut c_void,
    workspace: DeviceBuffer<u8>,
    /// As in 13.1.0.
    pub version: String,
}

impl CublasLt {
    /// Opens the library and makes a handle.
    pub fn open(python_folders: &[PathBuf]) -> Result<CublasLt, Absence> {
        let library = open("libcublasLt", python_folders)?;
        let with = || {
            let version = ffi::version_text(ffi::lt_version(&library)?);
            let functions = LtFunctions::new(library)?;
            let workspace = DeviceBuffer::zeroed(WORKSPACE_BYTES)?;
            let mut handle = std::ptr::null_mut();
            // SAFETY: a place for a handle.
            check("cublasLtCreate", unsafe { (functions.create)(&raw mut handle) })?;
            Ok(CublasLt { functions, handle, workspace, version })
        };
        with().map_err(|error: anyhow::Error| Absence::of(&error))
    }

    /// `cublaslt_first`, the heuristic's first candidate, and `cublaslt_best`, the fastest of all
    /// that compute the right product.
    pub fn entrants<'a, T: Element>(
        &'a self,
        gpu: &'a Gpu,
        operands: &'a Operands,
        case: &'a Case<T>,
    ) -> Vec<Entrant<'a, T>> {
        let names = [format!("{}_first", Peer::CublasLt), format!("{}_best", Peer::CublasLt)];
        let absent = |absence: Absence| {
            names.iter().map(|name| Entrant::absent(name, absence.clone())).collect()
        };
        let problem = match Problem::new(self, operands, case) {
            Ok(problem) => Rc::new(problem),
            Err(absence) => return absent(absence),
        };
        let algos = match problem.candidates() {
            Ok(algos) if algos.is_empty() => {
                return absent(Absence::unsupported("the heuristic has no candidate"));
            }
            Ok(algos) => algos,
            Err(error) => return absent(Absence::of(&error)),
        };
        let work = |index: usize| problem.clone().work(gpu, operands, case, algos[index]);
        let count = algos.len();
        let best = match fastest(case, count, work) {
            Ok(best) => {
                let note = format!("candidate {} of {count}", best + 1);
                Entrant::peer(&names[1], note, work(best))
            }
            Err(error) => Entrant::absent(&names[1], Absence::of(&error)),
        };
        vec![Entrant::peer(&names[0], format!("candidate 1 of {count}"), work(0)), best]
    }
}

/// The index of the fastest candidate whose product is right.
fn fastest<'a, T: Element, W: Candidate<T> + 'a>(
    case: &Case<T>,
    count: usize,
    work: impl Fn(usize) -> W,
) -> Result<usize> {
    let mut times = Vec::new();
    let mut last_error = None;
    for index in 0..count {
        match quick(&mut work(index)) {
            Ok(time) => times.push((time, index)),
            Err(error) => last_error = Some(error), // a candidate that does not run is none
        }
    }
    times.sort_by(|a, b| a.0.total_cmp(&b.0));
    for (_, index) in times {
        match work(index).product().and_then(|out| case.verify(&out)) {
            Ok(_) => return Ok(index),
            Err(error) => last_error = Some(error),
        }
    }
    Err(last_error.context("no candidate")?.context("every candidate failed; the last"))
}

impl Drop for CublasLt {
    fn drop(&mut self) {
        // SAFETY: the handle is ours, and no work is in flight: every sample waits for its own.
        unsafe { (self.functions.destroy)(self.handle) };
    }
}

/// The library's epilogue for a case's, where that has one.
fn epilogue<T: Element>(case: &Case<T>) -> Result<Option<u32>, Absence> {
    let epilogue = case.row.epilogue;
    let bias = if epilogue.bias { ffi::EPILOGUE_BIAS } else { 0 };
    let activation = match epilogue.activation {
        Activation::Identity => 0,
        Activation::Relu => ffi::EPILOGUE_RELU,
        Activation::GeluTanh => ffi::EPILOGUE_GELU,
        other => return Err(Absence::unsupported(format!("cuBLASLt has no {other}"))),
    };
    Ok(Some(bias | activation).filter(|&which| which != 0))
}

/// A case in cuBLASLt's terms.
struct Problem<'a> {
    lt: &'a CublasLt,
    desc: *mut c_void,
    /// Of B, A and C: the library's A, B, and both C and D.
    layouts: [*mut c_void; 3],
    scalars: Scalars,
}

impl<'a> Problem<'a> {
    fn new<T: Element>(
        lt: &'a CublasLt,
        operands: &Operands,
        case: &Case<T>,
    ) -> Result<Self, Absence> {
        let epilogue = epilogue(case)?;
        let types = Types::of(T::DTYPE, case.row.precision)?;
        let null = std::ptr::null_mut();
        let scalars = Scalars::of(case);
        // Freed by `drop`, also where the next lines fail.
        let mut problem = Problem { lt, desc: null, layouts: [null; 3], scalars };
        let mut describe = || {
            problem.describe(types, case)?;
            problem.set_epilogue(epilogue, operands.bias())
        };
        describe().map_err(|error| Absence::of(&error))?;
        Ok(problem)
    }

    fn describe<T: Element>(&mut self, types: Types, case: &Case<T>) -> Result<()> {
        let functions = &self.lt.functions;
        let row = &case.row;
        let (first, second) = (operation(row.op_b), operation(row.op_a));
        // SAFETY: places for handles; each attribute has the type that the documentation gives it.
        unsafe {
            check(
                "cublasLtMatmulDescCreate",
                (functions.desc_create)(&raw mut self.desc, types.compute, types.scalar),
            )?;
            for (attribute, op) in [(ffi::DESC_TRANSA, first), (ffi::DESC_TRANSB, second)] {
                let status = (functions.desc_set)(
                    self.desc,
                    attribute,
                    (&raw const op).cast(),
                    size_of::<c_int>(),
                );
                check("cublasLtMatmulDescSetAttribute", status)?;
            }
            if T::DTYPE.is_fp8() {
                // Sums stay in the tensor cores, as ours do; no scales, which are 1 then.
                let fast = 1i8;
                let value = (&raw const fast).cast();
                let status = (functions.desc_set)(self.desc, ffi::DESC_FAST_ACCUM, value, 1);
                check("cublasLtMatmulDescSetAttribute", status)?;
            }
        }
        let columns = |op, rows: usize, cols: usize| match op {
            Op::None => (rows as u64, cols as u64),
            Op::Transpose => (cols as u64, rows as u64),
        };
        let [lda, ldb, ldc] = row.leading;
        let [stride_a, stride_b, stride_c] = row.batch_strides();
        let matrices = [
            (types.data, columns(row.op_b, row.n, row.k), ldb, stride_b),
            (types.data, columns(row.op_a, row.k, row.m), lda, stride_a),
            (types.output, (row.n as u64, row.m as u64), ldc, stride_c),
        ];
        for (layout, (data, (rows, cols), leading, stride)) in self.layouts.iter_mut().zip(matrices)
        {
            let batch = c_int::try_from(row.batch).context("batch")?;
            let stride = stride as i64;
            // SAFETY: as above.
            unsafe {
                let status = (functions.layout_create)(layout, data, rows, cols, leading as i64);
                check("cublasLtMatrixLayoutCreate", status)?;
                let set = |attribute, value: *const c_void, bytes| {
                    let status = (functions.layout_set)(*layout, attribute, value, bytes);
                    check("cublasLtMatrixLayoutSetAttribute", status)
                };
                set(ffi::LAYOUT_BATCH_COUNT, (&raw const batch).cast(), size_of::<c_int>())?;
                let offset = (&raw const stride).cast();
                set(ffi::LAYOUT_STRIDED_BATCH_OFFSET, offset, size_of::<i64>())?;
            }
        }
        Ok(())
    }

    /// Bias and activation; the bias is one element for each of the library's rows, our columns.
    fn set_epilogue(&mut self, epilogue: Option<u32>, bias: u64) -> Result<()> {
        let Some(epilogue) = epilogue else { return Ok(()) };
        let set = |attribute, value: *const c_void, bytes| {
            // SAFETY: the attributes are a uint32_t and a pointer.
            let status =
                unsafe { (self.lt.functions.desc_set)(self.desc, attribute, value, bytes) };
            check("cublasLtMatmulDescSetAttribute", status)
        };
        set(ffi::DESC_EPILOGUE, (&raw const epilogue).cast(), size_of::<u32>())?;
        if epilogue & ffi::EPILOGUE_BIAS != 0 {
            set(ffi::DESC_BIAS_POINTER, (&raw const bias).cast(), size_of::<u64>())?;
        }
        Ok(())
    }

    /// All that the heuristic offers, its favourite first; after those that a plain caller gets,
    /// those that are only offered to a caller who wants partial sums kept in the compute type.
    fn candidates(&self) -> Result<Vec<Algo>> {
        let mut algos = self.offered(ffi::REDUCTION_ANY)?;
        for algo in self.offered(ffi::REDUCTION_COMPUTE_TYPE)? {
            if !algos.contains(&algo) {
                algos.push(algo);
            }
        }
        Ok(algos)
    }

    fn offered(&self, reduction: u32) -> Result<Vec<Algo>> {
        let functions = &self.lt.functions;
        let [b, a, c] = self.layouts;
        let mut results = vec![HeuristicResult::default(); MOST];
        let mut count = 0;
        let mut preference = std::ptr::null_mut();
        let bytes = WORKSPACE_BYTES;
        // SAFETY: places for a handle, for `MOST` results and for their count; the attributes are a
        // size_t and a uint32_t; descriptors are alive.
        let status = unsafe {
            check(
                "cublasLtMatmulPreferenceCreate",
                (functions.preference_create)(&raw mut preference),
            )?;
            let set = |attribute, value: *const c_void, bytes| {
                (functions.preference_set)(preference, attribute, value, bytes)
            };
            let value = (&raw const bytes).cast();
            let workspace = set(ffi::PREF_MAX_WORKSPACE_BYTES, value, size_of::<usize>());
            let value = (&raw const reduction).cast();
            let scheme = set(ffi::PREF_REDUCTION_SCHEME_MASK, value, size_of::<u32>());
            let status = (functions.heuristic)(
                self.lt.handle,
                self.desc,
                b,
                a,
                c,
                c,
                preference,
                MOST as c_int,
                results.as_mut_ptr(),
                &raw mut count,
            );
            (functions.preference_destroy)(preference);
            check("cublasLtMatmulPreferenceSetAttribute", workspace.max(scheme))?;
            status
        };
        if status == ffi::NOT_SUPPORTED {
            return Ok(Vec::new());
        }
        check("cublasLtMatmulAlgoGetHeuristic", status)?;
        results.truncate(usize::try_from(count)?);
        Ok(results.into_iter().filter(|result| result.state == 0).map(|r| r.algo).collect())
    }

    /// The product by one candidate.
    fn work<T: Element>(
        self: Rc<Self>,
        gpu: &'a Gpu,
        operands: &'a Operands,
        case: &'a Case<T>,
        algo: Algo,
    ) -> GpuWork<'a, T> {
        let launch = move |[a, b, c]: [u64; 3], stream: &cust::stream::Stream| {
            let pointer = |address: u64| address as *mut c_void;
            let [b_layout, a_layout, c_layout] = self.layouts;
            // SAFETY: handle and descriptors are alive; the addresses are those of buffers that the
            // layouts describe; the workspace is the handle's own and the stream the run's only.
            let status = unsafe {
                (self.lt.functions.matmul)(
                    self.lt.handle,
                    self.desc,
                    self.scalars.alpha(),
                    pointer(b),
                    b_layout,
                    pointer(a),
                    a_layout,
                    self.scalars.beta(),
                    pointer(c),
                    c_layout,
                    pointer(c),
                    c_layout,
                    &raw const algo,
                    pointer(self.lt.workspace.as_device_ptr().as_raw()),
                    WORKSPACE_BYTES,
                    stream.as_inner().cast(),
                )
            };
            check("cublasLtMatmul", status)
        };
        GpuWork::new(gpu, operands, case, Box::new(launch))
    }
}

impl Drop for Problem<'_> {
    fn drop(&mut self) {
        let functions = &self.lt.functions;
        // SAFETY: descriptors of ours, or null, which the calls refuse.
        unsafe {
            for layout in self.layouts.into_iter().filter(|layout| !layout.is_null()) {
                (functions.layout_destroy)(layout);
            }
            if !self.desc.is_null() {
                (functions.desc_destroy)(self.desc);
            }
        }
    }
}
