//! The driver's result codes: into cust_raw's enum, and into words.

use crate::symbol;
use cust_raw::CUresult;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::ffi::{CStr, CString, c_char, c_int};
use std::sync::{Mutex, OnceLock, PoisonError};

/// `CUDA_ERROR_NOT_INITIALIZED`: a call before `cuInit`, or with no driver.
pub const NOT_INITIALIZED: i32 = 3;
/// `CUDA_ERROR_NO_DEVICE`: no GPU, or no driver.
pub const NO_DEVICE: i32 = 100;
/// `CUDA_ERROR_NOT_FOUND`: no such symbol.
pub const NOT_FOUND: i32 = 500;
/// `CUDA_ERROR_UNKNOWN`, which stands for the codes that cust_raw does not know.
const UNKNOWN: i32 = 999;

thread_local! {
    static LAST_ERROR: Cell<i32> = const { Cell::new(0) };
}

/// The code of this thread's last driver call that did not succeed, as the driver gave it; 0 before
/// the first.
///
/// Call it right after the call that failed: cust folds many codes into `UnknownError`, and this
/// one is not folded.
pub fn last_error() -> i32 {
    LAST_ERROR.get()
}

/// The codes that cust_raw's enum has.
fn is_known(code: i32) -> bool {
    matches!(
        code,
        0..=8
            | 34
            | 100..=102
            | 200..=202
            | 205..=224
            | 300..=304
            | 400
            | 401
            | 500
            | 600
            | 700..=705
            | 708..=720
            | 800..=809
            | 900..=911
            | 999
    )
}

/// What a forwarder makes of the driver's answer, for those who call a function by its
/// [`symbol`]: keeps an error's `code` for [`last_error`] and makes it a `CUresult`,
/// `CUDA_ERROR_UNKNOWN` where cust_raw's enum lacks it.
///
/// The function's type has to return `c_int`: a code that is no variant must not be read as the
/// enum.
///
/// ```
/// use cuda_driver_loader::{answered, last_error};
///
/// // `CUDA_ERROR_INVALID_CLUSTER_SIZE`, as cuLaunchKernelEx answers it.
/// assert_eq!(answered(912) as i32, 999);
/// assert_eq!(last_error(), 912);
/// ```
pub fn answered(code: c_int) -> CUresult {
    if code != 0 {
        LAST_ERROR.set(code);
    }
    let known = if is_known(code) { code } else { UNKNOWN };
    // SAFETY: the enum is `repr(i32)` and has the codes that `is_known` lists; a test compares
    // them.
    unsafe { std::mem::transmute::<i32, CUresult>(known) }
}

/// Codes that are newer than cust_raw, or that the driver's own text would not explain where there
/// is no driver. (CUDA 13.0's `cuda.h`.)
const NAMES: &[(i32, &str, &str)] = &[
    (0, "CUDA_SUCCESS", "no error"),
    (1, "CUDA_ERROR_INVALID_VALUE", "invalid argument"),
    (2, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"),
    (NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED", "the driver is not loaded or not initialised"),
    (36, "CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER", "the call needs a newer driver"),
    (46, "CUDA_ERROR_DEVICE_UNAVAILABLE", "the device is busy or unavailable"),
    (NO_DEVICE, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device, or no driver library"),
    (218, "CUDA_ERROR_INVALID_PTX", "a PTX compilation failed"),
    (222, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION", "the driver is older than the PTX"),
    (226, "CUDA_ERROR_CONTAINED", "a contained memory error"),
    (NOT_FOUND, "CUDA_ERROR_NOT_FOUND", "no symbol of that name"),
    (700, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access"),
    (719, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"),
    (721, "CUDA_ERROR_TENSOR_MEMORY_LEAK", "tensor memory was not freed"),
    (912, "CUDA_ERROR_INVALID_CLUSTER_SIZE", "a launch with an invalid cluster size"),
    (UNKNOWN, "CUDA_ERROR_UNKNOWN", "unknown error"),
];

/// Name and text of a result code: the driver's own, else ours, else the number.
///
/// ```
/// let (name, text) = cuda_driver_loader::describe(31_415);
/// assert!(name.contains("31415") && !text.is_empty());
/// ```
pub fn describe(code: i32) -> (String, String) {
    let ours = NAMES.iter().find(|entry| entry.0 == code);
    let name = from_driver(c"cuGetErrorName", code)
        .unwrap_or_else(|| ours.map_or_else(|| format!("CUDA error {code}"), |o| o.1.to_string()));
    let text = from_driver(c"cuGetErrorString", code).unwrap_or_else(|| {
        let unknown = "a code that this program does not know";
        ours.map_or(unknown, |entry| entry.2).to_string()
    });
    (name, text)
}

/// What the driver's `function`, one of `cuGetErrorName` and `cuGetErrorString`, says of a code.
fn from_driver(function: &CStr, code: i32) -> Option<String> {
    type Describe = unsafe extern "C" fn(c_int, *mut *const c_char) -> c_int;
    let address = symbol(function)?;
    // SAFETY: both functions have this type in `cuda.h`; their enum is an int, and they answer any
    // value.
    let describe = unsafe { std::mem::transmute::<*const (), Describe>(address) };
    let mut text = std::ptr::null();
    // SAFETY: `text` may be written to. The driver keeps the string for ever.
    let failed = unsafe { describe(code, &mut text) } != 0;
    if failed || text.is_null() {
        return None;
    }
    // SAFETY: the driver has set it to a C string.
    Some(unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
}

/// A C string that lives for ever, made once for each text.
fn forever(text: String) -> *const c_char {
    static TEXTS: OnceLock<Mutex<BTreeMap<String, &'static CStr>>> = OnceLock::new();
    let texts = TEXTS.get_or_init(Mutex::default);
    let mut texts = texts.lock().unwrap_or_else(PoisonError::into_inner);
    let text = texts.entry(text).or_insert_with_key(|text| {
        let text = CString::new(text.replace('\0', " ")).unwrap_or_default();
        Box::leak(text.into_boxed_c_str())
    });
    text.as_ptr()
}

/// The code that an error value of cust_raw's stands for: 999 may stand for a newer one, the
/// thread's last.
fn unfolded(error: CUresult) -> i32 {
    let code = error as i32;
    if code == UNKNOWN && !is_known(last_error()) { last_error() } else { code }
}

/// `cuGetErrorString` that never fails: cust's `Display` would, and its `to_string()` panic, where
/// there is no driver.
///
/// # Safety
/// `pStr` may be written to.
#[unsafe(no_mangle)]
#[allow(non_snake_case, reason = "the driver's names")]
pub unsafe extern "C" fn cuGetErrorString(error: CUresult, pStr: *mut *const c_char) -> CUresult {
    let code = unfolded(error);
    let (name, text) = describe(code);
    // SAFETY: the caller's promise.
    unsafe { *pStr = forever(format!("{text} ({name}, {code})")) };
    CUresult::CUDA_SUCCESS
}

/// `cuGetErrorName` that never fails.
///
/// # Safety
/// `pStr` may be written to.
#[unsafe(no_mangle)]
#[allow(non_snake_case, reason = "the driver's names")]
pub unsafe extern "C" fn cuGetErrorName(error: CUresult, pStr: *mut *const c_char) -> CUresult {
    // SAFETY: the caller's promise.
    unsafe { *pStr = forever(describe(unfolded(error)).0) };
    CUresult::CUDA_SUCCESS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_codes_are_the_enums() {
        // A variant's `Debug` is its name; building one from each known code shows that it exists.
        for code in (-10..3000).filter(|&code| is_known(code)) {
            let name = format!("{:?}", answered(code));
            assert!(name.starts_with("CUDA_"), "{code}: {name}");
            assert_eq!(answered(code) as i32, code);
        }
    }

    #[test]
    fn newer_codes_are_unknown_and_kept() {
        for code in [46, 225, 721, 810, 912, 2000, -5] {
            assert_eq!(answered(code), CUresult::CUDA_ERROR_UNKNOWN);
            assert_eq!(last_error(), code);
            let mut text = std::ptr::null();
            // SAFETY: `text` may be written to, and is a C string then.
            let text = unsafe {
                assert_eq!(cuGetErrorString(answered(code), &mut text), CUresult::CUDA_SUCCESS);
                CStr::from_ptr(text).to_str().unwrap()
            };
            assert!(text.contains(&code.to_string()), "{text}");
        }
        answered(0);
        assert_eq!(last_error(), -5, "a success does not hide the last error");
        answered(999);
        assert_eq!(unfolded(CUresult::CUDA_ERROR_UNKNOWN), 999);
    }
}
