//! Modules: a kernel's machine code, or its PTX, compiled by the driver.

use super::context::CudaContext;
use super::driver::{Check, OUT_OF_MEMORY, failure, last_failure};
use super::launch_ex::clusters_at_once;
use crate::device::Device;
use crate::error::{DriverCode, Error, Kind, is_sticky};
use crate::{cubin, ptx};
use cust::module::Module;
use cust::sys::{self, CUfunction, CUjit_option};
use gemm_spec::Kernel;
use rustc_hash::FxHashMap;
use std::ffi::{CStr, CString, c_void};

/// The kernels of a context, each loaded when first asked for.
#[derive(Debug, Default)]
pub(super) struct Modules {
    /// By the address of the kernel's row.
    loaded: FxHashMap<usize, (Module, Function)>,
}

/// A kernel of a loaded module, for as long as the context lives.
#[derive(Clone, Copy, Debug)]
pub(super) struct Function(pub CUfunction);

// SAFETY: a handle, which the driver takes from any thread.
unsafe impl Send for Function {}

impl Modules {
    /// The kernel's entry point. The context is current, and is `context`.
    pub(super) fn function(
        &mut self,
        kernel: &'static Kernel,
        context: &CudaContext,
    ) -> Result<Function, Error> {
        let row = std::ptr::from_ref(kernel).addr();
        if let Some((_, function)) = self.loaded.get(&row) {
            return Ok(*function);
        }
        let name = ptx::file_name(kernel);
        let module = match machine_code(context, kernel)? {
            Some(module) => module,
            None => load(context, &name, &ptx::of_kernel(kernel))?,
        };
        let function = module.get_function(kernel.name).map_err(|_| {
            let driver = last_failure("cuModuleGetFunction");
            Error::new(Kind::NoEntry { kernel: kernel.name, module: name, driver })
        })?;
        let function = Function(function.to_raw());
        allow_shared(context, kernel, function)?;
        self.loaded.insert(row, (module, function));
        Ok(function)
    }
}

/// The kernel's machine code as a module, where there is such code and the driver takes it: an
/// older driver may not, and compiles the PTX. The context is current.
///
/// `CUDA_FORCE_PTX_JIT` is the driver's own variable (CUDA Programming Guide, environment
/// variables); set, it has programs compile their PTX, to see whether they have any.
fn machine_code(context: &CudaContext, kernel: &Kernel) -> Result<Option<Module>, Error> {
    if std::env::var_os("CUDA_FORCE_PTX_JIT").is_some_and(|value| value != "0") {
        return Ok(None);
    }
    let capability = context.info().compute_capability;
    let Some(code) = capability.and_then(|of| cubin::of_kernel(kernel, of)) else {
        return Ok(None);
    };
    match Module::from_cubin(&code, &[]) {
        Ok(module) => Ok(Some(module)),
        Err(_) => refused(context, kernel.name, "cuModuleLoadDataEx").map_or(Ok(None), Err),
    }
}

/// Why a module was not loaded, where that is not for what it says: there is no memory for it, or
/// the context is lost.
fn refused(context: &CudaContext, name: &str, call: &'static str) -> Option<Error> {
    match cuda_driver_loader::last_error() {
        OUT_OF_MEMORY => Some(Error::new(Kind::CodeMemory {
            place: context.name().to_string(),
            module: name.to_string(),
        })),
        code if is_sticky(code) => {
            Some(failure(call, format!("loading {name} on {}", context.name())))
        }
        _ => None,
    }
}

/// Clusters of eight blocks that run at one time on the context's device, as the driver says it of
/// one of the kernels that have such, each of which takes a multiprocessor for a block. It is not
/// asked where that kernel would have to be compiled first. The context is current.
pub(super) fn clusters_of_eight(context: &CudaContext) -> Option<u32> {
    let capability = context.info().compute_capability?;
    let has_eight = |kernel: &&Kernel| kernel.cluster() == 8 && kernel.target.runs_on(capability);
    let kernel = gemm_spec::kernels().find(has_eight)?;
    let module = machine_code(context, kernel).ok()??;
    let function = Function(module.get_function(kernel.name).ok()?.to_raw());
    allow_shared(context, kernel, function).ok()?;
    // SAFETY: the function is of the module, which is loaded.
    unsafe { clusters_at_once(kernel, function.0) }
}

/// Lets launches of a kernel ask for its dynamic shared memory, which is more than any kernel gets
/// without this. The context is current.
fn allow_shared(context: &CudaContext, kernel: &Kernel, function: Function) -> Result<(), Error> {
    let bytes = kernel.dynamic_shared_bytes();
    if bytes == 0 {
        return Ok(());
    }
    let attribute = sys::CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
    // SAFETY: the function is of a module that stays loaded; the plan has held the size against the
    // device's limit.
    unsafe { sys::cuFuncSetAttribute(function.0, attribute, bytes as i32) }
        .check("cuFuncSetAttribute", || {
            format!("{bytes} bytes of shared memory for {} on {}", kernel.name, context.name())
        })
}

/// Has the driver compile a module for `device`, and forgets it again: a check of PTX from
/// elsewhere.
///
/// `name` is what an error calls it.
///
/// # Errors
/// When the driver does not accept it ([`Error::is_jit`]; the message holds the compiler's log), or
/// `device` is no CUDA device.
pub fn check_ptx(device: &Device, name: &str, ptx: &str) -> Result<(), Error> {
    let context = super::backend::context_of(device)?;
    let _current = context.make_current()?;
    load(context, name, ptx).map(drop)
}

/// The PTX ISA version that a module states, (0, 0) where it states none.
fn version_of(ptx: &str) -> (u32, u32) {
    let stated = ptx.lines().find_map(|line| line.trim().strip_prefix(".version"));
    let parse = |text: &str| {
        let (major, minor) = text.trim().split_once('.')?;
        Some((major.parse().ok()?, minor.parse().ok()?))
    };
    stated.and_then(parse).unwrap_or((0, 0))
}

/// Compiles a module. The context is current.
fn load(context: &CudaContext, name: &str, ptx: &str) -> Result<Module, Error> {
    let jit_error = |driver, log| {
        let (major, minor) = context.info().driver_version.unwrap_or((0, 0));
        Error::new(Kind::Jit {
            module: name.to_string(),
            ptx_version: version_of(ptx),
            driver_version: format!("{major}.{minor}"),
            driver,
            log,
        })
    };
    let Ok(source) = CString::new(ptx) else {
        let (call, code) = ("cuModuleLoadDataEx", 218);
        let (name, text) = ("CUDA_ERROR_INVALID_PTX".into(), "the text holds a NUL".into());
        return Err(jit_error(DriverCode { call, code, name, text }, String::new()));
    };
    Module::from_ptx_cstr(&source, &[]).map_err(|_| {
        let call = "cuModuleLoadDataEx";
        let driver = last_failure(call);
        refused(context, name, call).unwrap_or_else(|| jit_error(driver, compiler_log(&source)))
    })
}

/// The compiler's words on a module that it has refused: cust has no option for them, so it is
/// compiled again.
fn compiler_log(source: &CStr) -> String {
    let mut log = vec![0u8; 16 << 10];
    let mut options =
        [CUjit_option::CU_JIT_ERROR_LOG_BUFFER, CUjit_option::CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES];
    let mut values = [log.as_mut_ptr().cast::<c_void>(), log.len() as *mut c_void];
    let mut module = std::ptr::null_mut();
    // SAFETY: two options with their values, a buffer of the stated size, and a NUL-terminated
    // source.
    let result = unsafe {
        sys::cuModuleLoadDataEx(
            &mut module,
            source.as_ptr().cast(),
            options.len() as u32,
            options.as_mut_ptr(),
            values.as_mut_ptr(),
        )
    };
    if result == sys::CUresult::CUDA_SUCCESS {
        // SAFETY: just loaded, and used by nobody.
        let _ = unsafe { sys::cuModuleUnload(module) };
        return "(the second try succeeded)".to_string();
    }
    let end = log.iter().position(|&byte| byte == 0).unwrap_or(log.len());
    let text = String::from_utf8_lossy(&log[..end]).trim().to_string();
    if text.is_empty() { "(the driver gave no log)".to_string() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_from_the_text() {
        assert_eq!(version_of("// a comment\n.version 8.3\n.target sm_90\n"), (8, 3));
        assert_eq!(version_of(&ptx::head(gemm_spec::Target::Sm70)), (7, 0));
        assert_eq!(version_of("nonsense"), (0, 0));
    }
}
