//! The forwarders.

use crate::codes::{NO_DEVICE, NOT_FOUND, NOT_INITIALIZED, answered};
use crate::{library, symbol};
use cust_raw::*;
use std::ffi::CStr;
use std::os::raw::*;
use std::sync::OnceLock;

/// The answer of a function that there is none of.
#[cold]
fn missing(name: &CStr) -> CUresult {
    answered(match library() {
        Err(_) if name == c"cuInit" => NO_DEVICE,
        Err(_) => NOT_INITIALIZED,
        Ok(_) => NOT_FOUND,
    })
}

/// Defines each function as a call of the driver's of the same name, whose address is looked up
/// once.
macro_rules! forward {
    ($(fn $name:ident($($arg:ident: $type:ty),* $(,)?);)*) => {
        $(
            /// Forwards to the driver's function of this name.
            ///
            /// # Safety
            /// As the CUDA driver API says of the function.
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name($($arg: $type),*) -> CUresult {
                type Function = unsafe extern "C" fn($($type),*) -> c_int;
                static FUNCTION: OnceLock<Option<Function>> = OnceLock::new();
                const NAME: &CStr = match CStr::from_bytes_with_nul(
                    concat!(stringify!($name), "\0").as_bytes(),
                ) {
                    Ok(name) => name,
                    Err(_) => panic!("an identifier holds no NUL"),
                };
                let function = FUNCTION.get_or_init(|| {
                    symbol(NAME).map(|address| {
                        // SAFETY: the driver keeps its functions' types for their names, and
                        // cust_raw declares this one so. The result is read as an int, since the
                        // driver may answer codes that the enum lacks.
                        unsafe { std::mem::transmute::<*const (), Function>(address) }
                    })
                });
                match function {
                    // SAFETY: the caller's promise.
                    Some(function) => answered(unsafe { function($($arg),*) }),
                    None => missing(NAME),
                }
            }
        )*

        /// The names of the functions that are forwarded.
        pub const FORWARDED: &[&str] = &[$(stringify!($name)),*];
    };
}

/// The list, in a module of its own because the names are C's.
#[allow(
    non_snake_case,
    clippy::too_many_arguments,
    reason = "names and argument lists are the driver's"
)]
mod list {
    use super::*;
    include!("forwards.rs");
}

pub use list::FORWARDED;
