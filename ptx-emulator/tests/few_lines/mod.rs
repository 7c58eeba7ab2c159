//! Kernels of few lines, and what the emulator says of them.

use ptx_emulator::{Argument, Emulator, Launch, Module, Options, Report};

/// Runs the entry point `f` of a text on that many bytes of memory, of which the first `written`
/// are 0 and nobody has written the others.
pub fn run(text: &str, (bytes, written): (u64, usize), launch: &Launch) -> Result<(), Box<Report>> {
    let module = Module::parse(text).unwrap();
    let mut gpu = Emulator::new(Options { step_limit: 1_000_000, ..Options::default() });
    let words = gpu.allocate(bytes).unwrap();
    gpu.write(words, &vec![0; written]).unwrap();
    gpu.launch(&module, "f", launch, &[Argument::from(words)]).map(drop)
}
