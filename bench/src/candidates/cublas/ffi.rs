//! The functions and numbers of the two libraries that are used here, as their documentation
//! declares them.

use anyhow::{Context, Result};
use libloading::Library;
use std::ffi::{c_int, c_void};

/// cudaDataType_t.
pub const R_32F: c_int = 0;
pub const R_64F: c_int = 1;
pub const R_16F: c_int = 2;
pub const R_16BF: c_int = 14;
pub const R_8I: c_int = 3;
pub const R_32I: c_int = 10;
pub const R_8F_E4M3: c_int = 28;
pub const R_8F_E5M2: c_int = 29;
/// cublasComputeType_t.
pub const COMPUTE_32F: c_int = 68;
pub const COMPUTE_32F_FAST_TF32: c_int = 77;
pub const COMPUTE_64F: c_int = 70;
pub const COMPUTE_32I: c_int = 72;
/// Of cublasStatus_t.
pub const NOT_SUPPORTED: c_int = 15;
/// cublasOperation_t.
pub const OP_N: c_int = 0;
pub const OP_T: c_int = 1;
/// CUBLAS_GEMM_DEFAULT of cublasGemmAlgo_t.
pub const GEMM_DEFAULT: c_int = -1;
/// cublasLtMatmulDescAttributes_t.
pub const DESC_EPILOGUE: c_int = 7;
pub const DESC_BIAS_POINTER: c_int = 8;

pub const EPILOGUE_RELU: u32 = 2;
pub const EPILOGUE_BIAS: u32 = 4;
pub const EPILOGUE_GELU: u32 = 32; // the approximation by tanh

pub const DESC_TRANSA: c_int = 3;
pub const DESC_TRANSB: c_int = 4;
pub const DESC_FAST_ACCUM: c_int = 25;
/// cublasLtMatrixLayoutAttribute_t.
pub const LAYOUT_BATCH_COUNT: c_int = 5;
pub const LAYOUT_STRIDED_BATCH_OFFSET: c_int = 6;
/// cublasLtMatmulPreferenceAttributes_t.
pub const PREF_MAX_WORKSPACE_BYTES: c_int = 1;
pub const PREF_REDUCTION_SCHEME_MASK: c_int = 3;
/// cublasLtReductionScheme_t: every scheme, and those that keep partial sums in the compute type.
pub const REDUCTION_ANY: u32 = 7;
pub const REDUCTION_COMPUTE_TYPE: u32 = 1 | 2;

/// The name of a cublasStatus_t.
pub fn status_name(status: c_int) -> &'static str {
    match status {
        1 => "not initialized",
        3 => "allocation failed",
        7 => "invalid value",
        8 => "architecture mismatch",
        11 => "mapping error",
        13 => "execution failed",
        14 => "internal error",
        NOT_SUPPORTED => "not supported",
        16 => "licence error",
        _ => "unknown status",
    }
}

/// 130100 as 13.1.0.
pub fn version_text(version: usize) -> String {
    let (major, minor, patch) = (version / 10_000, version / 100 % 100, version % 100);
    format!("{major}.{minor}.{patch}")
}

/// cublasLtMatmulAlgo_t, which is opaque.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Algo {
    data: [u64; 8],
}

/// cublasLtMatmulHeuristicResult_t.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct HeuristicResult {
    pub algo: Algo,
    pub workspace_bytes: usize,
    pub state: c_int,
    pub waves: f32,
    reserved: [c_int; 4],
}

type Handle = *mut c_void;

/// Declares a struct of function pointers with a constructor that looks them up.
macro_rules! functions {
    (
        $(#[$doc:meta])*
        $name:ident { $($field:ident: $symbol:literal ($($argument:ty),* $(,)?);)* }
    ) => {
        $(#[$doc])*
        pub struct $name {
            $(pub $field: unsafe extern "C" fn($($argument),*) -> c_int,)*
            _library: Library,
        }

        impl $name {
            /// Looks up every function.
            pub fn new(library: Library) -> Result<Self> {
                $(
                    // SAFETY: the symbol is a function of this type, by the documentation.
                    let $field = *unsafe {
                        library.get::<unsafe extern "C" fn($($argument),*) -> c_int>($symbol)
                    }
                    .with_context(|| String::from_utf8_lossy($symbol).into_owned())?;
                )*
                Ok($name { $($field,)* _library: library })
            }
        }
    };
}

functions! {
    /// Of libcublas.
    Functions {
        create: b"cublasCreate_v2" (*mut Handle);
        destroy: b"cublasDestroy_v2" (Handle);
        set_stream: b"cublasSetStream_v2" (Handle, *mut c_void);
        set_workspace: b"cublasSetWorkspace_v2" (Handle, *mut c_void, usize);
        get_version: b"cublasGetVersion_v2" (Handle, *mut c_int);
        gemm_strided_batched_ex: b"cublasGemmStridedBatchedEx" (
            Handle, c_int, c_int, c_int, c_int, c_int, *const c_void,
            *const c_void, c_int, c_int, i64,
            *const c_void, c_int, c_int, i64, *const c_void,
            *mut c_void, c_int, c_int, i64, c_int, c_int, c_int,
        );
    }
}

functions! {
    /// Of libcublasLt.
    LtFunctions {
        create: b"cublasLtCreate" (*mut Handle);
        destroy: b"cublasLtDestroy" (Handle);
        desc_create: b"cublasLtMatmulDescCreate" (*mut Handle, c_int, c_int);
        desc_set: b"cublasLtMatmulDescSetAttribute" (Handle, c_int, *const c_void, usize);
        desc_destroy: b"cublasLtMatmulDescDestroy" (Handle);
        layout_create: b"cublasLtMatrixLayoutCreate" (*mut Handle, c_int, u64, u64, i64);
        layout_set: b"cublasLtMatrixLayoutSetAttribute" (Handle, c_int, *const c_void, usize);
        layout_destroy: b"cublasLtMatrixLayoutDestroy" (Handle);
        preference_create: b"cublasLtMatmulPreferenceCreate" (*mut Handle);
        preference_set: b"cublasLtMatmulPreferenceSetAttribute" (
            Handle, c_int, *const c_void, usize,
        );
        preference_destroy: b"cublasLtMatmulPreferenceDestroy" (Handle);
        heuristic: b"cublasLtMatmulAlgoGetHeuristic" (
            Handle, Handle, Handle, Handle, Handle, Handle, Handle, c_int, *mut HeuristicResult,
            *mut c_int,
        );
        matmul: b"cublasLtMatmul" (
            Handle, Handle, *const c_void, *const c_void, Handle, *const c_void, Handle,
            *const c_void, *const c_void, Handle, *mut c_void, Handle, *const Algo, *mut c_void,
            usize, *mut c_void,
        );
    }
}

/// cublasLtGetVersion, which returns the version instead of a status.
pub fn lt_version(library: &Library) -> Result<usize> {
    // SAFETY: the symbol is a function of this type, by the documentation.
    let version = unsafe { library.get::<unsafe extern "C" fn() -> usize>(b"cublasLtGetVersion")? };
    // SAFETY: it takes nothing and touches nothing.
    Ok(unsafe { version() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_those_of_the_header() {
        assert_eq!(size_of::<Algo>(), 64);
        assert_eq!(size_of::<HeuristicResult>(), 64 + 8 + 4 + 4 + 16);
        assert_eq!(version_text(130_100), "13.1.0");
        assert_eq!(status_name(15), "not supported");
    }
}
