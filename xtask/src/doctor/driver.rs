//! The few questions to the NVIDIA driver that tell whether a GPU can be used.

use std::ffi::{CStr, c_char, c_int, c_uint};
use std::mem::transmute;

use anyhow::{Context, Result, bail};
use cuda_driver_loader::{describe, symbol};

/// What the driver says of a GPU.
pub struct Gpu {
    pub name: String,
    /// Compute capability, (major, minor).
    pub capability: (c_int, c_int),
}

/// What the driver says of itself and of its GPUs.
pub struct Driver {
    /// The CUDA release that it knows, (major, minor).
    pub cuda: (c_int, c_int),
    pub gpus: Vec<Gpu>,
}

/// `CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR`, and the next one is the minor's.
const CAPABILITY_MAJOR: c_int = 75;

// The functions' types as `cuda.h` declares them; their enums and device handles are ints.
type Init = unsafe extern "C" fn(c_uint) -> c_int;
type GetInt = unsafe extern "C" fn(*mut c_int) -> c_int;
type GetName = unsafe extern "C" fn(*mut c_char, c_int, c_int) -> c_int;
type GetAttribute = unsafe extern "C" fn(*mut c_int, c_int, c_int) -> c_int;

/// Asks the driver; the error says what it answered.
pub fn ask() -> Result<Driver> {
    if let Some(reason) = cuda_driver_loader::load_error() {
        bail!("no NVIDIA driver: {reason}");
    }
    // SAFETY: each address is the driver's function of that name, and the type is its own.
    let (init, version, count, name, attribute) = unsafe {
        (
            transmute::<*const (), Init>(function(c"cuInit")?),
            transmute::<*const (), GetInt>(function(c"cuDriverGetVersion")?),
            transmute::<*const (), GetInt>(function(c"cuDeviceGetCount")?),
            transmute::<*const (), GetName>(function(c"cuDeviceGetName")?),
            transmute::<*const (), GetAttribute>(function(c"cuDeviceGetAttribute")?),
        )
    };
    // SAFETY: no flag is defined but 0.
    succeed("cuInit", unsafe { init(0) })?;
    let (mut release, mut gpus) = (0, 0);
    // SAFETY: each writes one int.
    succeed("cuDriverGetVersion", unsafe { version(&mut release) })?;
    // SAFETY: as above.
    succeed("cuDeviceGetCount", unsafe { count(&mut gpus) })?;
    let gpu = |device| {
        let mut text = [0 as c_char; 256];
        // SAFETY: the driver writes at most 256 characters, a NUL among them.
        succeed("cuDeviceGetName", unsafe { name(text.as_mut_ptr(), 256, device) })?;
        // SAFETY: `text` ends with the NUL that it was filled with, or with the driver's.
        let text = unsafe { CStr::from_ptr(text.as_ptr()) };
        let mut capability = (0, 0);
        for (part, value) in [(0, &mut capability.0), (1, &mut capability.1)] {
            // SAFETY: it writes one int.
            let code = unsafe { attribute(value, CAPABILITY_MAJOR + part, device) };
            succeed("cuDeviceGetAttribute", code)?;
        }
        Ok(Gpu { name: text.to_string_lossy().into_owned(), capability })
    };
    let gpus = (0..gpus).map(gpu).collect::<Result<_>>()?;
    Ok(Driver { cuda: (release / 1000, release % 1000 / 10), gpus })
}

fn function(name: &CStr) -> Result<*const ()> {
    symbol(name).with_context(|| format!("the driver has no {}", name.to_string_lossy()))
}

fn succeed(function: &str, code: c_int) -> Result<()> {
    if code != 0 {
        let (name, text) = describe(code);
        bail!("{function}: {name} ({code}): {text}");
    }
    Ok(())
}
