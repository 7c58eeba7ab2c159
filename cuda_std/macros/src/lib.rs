//! The macros of `cuda_std`: `#[kernel]`, `#[gpu_only]` and `shared_array!`.
//!
//! Use them through `cuda_std`, which re-exports them: what they expand to names `::cuda_std`.

mod gpu_only;
mod kernel;
mod shared_array;

use proc_macro::TokenStream;

/// Makes a function an entry point that the host can launch.
///
/// The function must be `unsafe`, must return nothing, and must have no type or const parameters;
/// its arguments must be `Copy`. On the device it becomes `#[unsafe(no_mangle)] extern
/// "ptx-kernel"`, so its name is the entry's name in the PTX. On the host it stays a plain `unsafe
/// fn`.
///
/// # Arguments
/// A `&[T]` or `&mut [T]` becomes two parameters of the entry, the pointer (8 bytes) and then the
/// length in elements (8 bytes), as in Rust-CUDA; a launch passes `buffer.as_device_ptr(),
/// buffer.len()`. Every other argument is one parameter, passed by value, or none if it has no
/// size. Other wide pointers (`&str`, `*const [T]`, `&dyn Trait`) are refused, and so are slices
/// behind a type alias. A type aligned to more than 16 bytes is refused: rustc can't pass one to an
/// entry.
///
/// `#[grid_constant] x: &T` is one parameter of `size_of::<T>()` bytes with `T`'s alignment: the
/// launch passes a `T` by value, and the body has a reference to the parameter itself, of which no
/// copy is made (CUDA's `const __grid_constant__ T`). So a tensor map is passed. Compute capability
/// 7.0, PTX 7.7.
///
/// # Launch bounds
/// `#[kernel(max_threads = EXPR, min_blocks = EXPR, cluster = EXPR)]`, each of them optional, each
/// a constant `u32`:
/// - `max_threads`: the most threads a block has at any launch, 1 to 1024. `.maxntid` (PTX ISA,
///   performance-tuning directives).
/// - `min_blocks`: blocks that should fit on one multiprocessor; needs `max_threads`.
///   `.minnctapersm`.
/// - `cluster`: blocks of a cluster along x, or `(X, Y, Z)`, at most 16 together, of which 8 run on
///   every GPU with clusters; sm_90 and later. `.explicitcluster` and `.reqnctapercluster`.
///
/// `suffix = "..."` beside them is put behind the function's name, so that a `macro_rules` macro
/// can make several entries of one name that it is given.
///
/// rustc can't write these directives. The macro leaves a line `//@kernel NAME max_threads=N ...`
/// in the module's assembly, from which `cuda_builder` writes them into the entry's header.
#[proc_macro_attribute]
pub fn kernel(arguments: TokenStream, item: TokenStream) -> TokenStream {
    finish(kernel::expand(arguments.into(), item.into()))
}

/// Keeps a function's body for the device; on the host the function panics and says that it runs
/// only on the GPU.
#[proc_macro_attribute]
pub fn gpu_only(arguments: TokenStream, item: TokenStream) -> TokenStream {
    finish(gpu_only::expand(arguments.into(), item.into()))
}

/// `shared_array![T; LEN]`: an uninitialised array in the block's static shared memory, as a
/// `SharedPtr<T>` to its first element.
///
/// Each place in the source where the macro stands is one array of `size_of::<T>() * LEN` bytes,
/// aligned to 16 bytes or to `T`'s alignment if that is more; running the place again gives the
/// same array. Inside a function that is generic, `T` and `LEN` can't name the function's
/// parameters (nor can they in Rust-CUDA): instantiate by a macro.
///
/// Lowers to a `.shared` variable of the module (PTX ISA, state spaces) and a `mov.u32` of its
/// address. On the host it panics.
///
/// # Safety
/// The expression needs `unsafe`. The array is uninitialised; all threads of a block share it and
/// no other block does. A write by one thread may be read by another only after
/// `thread::sync_threads` between them, and no two threads may access an element at the same time
/// where one of them writes.
#[proc_macro]
pub fn shared_array(input: TokenStream) -> TokenStream {
    finish(shared_array::expand(input.into()))
}

fn finish(expansion: syn::Result<proc_macro2::TokenStream>) -> TokenStream {
    expansion.unwrap_or_else(syn::Error::into_compile_error).into()
}
