//! Foreign code: kernels in CUDA C++, compiled to PTX by nvcc (13.0, V13.0.88), unchanged. Source
//! and PTX lie side by side in tests/nvcc; what they compute is computed here in another way.

use ptx_emulator::{Arch, Argument, Emulator, Launch, Module, Options};

#[path = "nvcc/arithmetic.rs"]
mod arithmetic;
#[path = "nvcc/asynchronous.rs"]
mod asynchronous;
#[path = "nvcc/control.rs"]
mod control;
#[path = "nvcc/intrinsics.rs"]
mod intrinsics;
#[path = "nvcc/matrices.rs"]
mod matrices;
#[path = "nvcc/sums.rs"]
mod sums;

/// A number as it lies in device memory.
trait Number: Copy {
    fn to_bytes(self) -> Vec<u8>;
    fn from_bytes(bytes: &[u8]) -> Self;
}

macro_rules! numbers {
    ($($number:ty),*) => {$(
        impl Number for $number {
            fn to_bytes(self) -> Vec<u8> {
                self.to_le_bytes().to_vec()
            }
            fn from_bytes(bytes: &[u8]) -> Self {
                Self::from_le_bytes(bytes.try_into().expect("the size of a number"))
            }
        }
    )*};
}
numbers!(u8, u16, i32, u32, i64, u64, f32, f64);

/// A GPU with one module.
struct Gpu {
    emulator: Emulator,
    module: Module,
}

impl Gpu {
    /// An A100.
    fn new(ptx: &str) -> Self {
        Self::of(Arch::new(8, 0), ptx)
    }

    fn of(arch: Arch, ptx: &str) -> Self {
        let module = Module::parse(ptx).unwrap_or_else(|error| panic!("{error}"));
        let options = Options { arch, ..Options::default() };
        Self { emulator: Emulator::new(options), module }
    }

    /// Memory with these numbers.
    fn upload<T: Number>(&mut self, numbers: &[T]) -> u64 {
        let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_bytes()).collect();
        let address = self.emulator.allocate(bytes.len() as u64).expect("memory");
        self.emulator.write(address, &bytes).expect("the allocation is as large");
        address
    }

    /// Memory for so many numbers, not written.
    fn space<T: Number>(&mut self, count: usize) -> u64 {
        self.emulator.allocate((count * size_of::<T>()) as u64).expect("memory")
    }

    fn download<T: Number>(&self, address: u64, count: usize) -> Vec<T> {
        let mut bytes = vec![0; count * size_of::<T>()];
        self.emulator.read(address, &mut bytes).expect("the allocation is as large");
        bytes.chunks(size_of::<T>()).map(T::from_bytes).collect()
    }

    fn launch(&mut self, kernel: &str, launch: Launch, arguments: &[Argument]) {
        if let Err(report) = self.emulator.launch(&self.module, kernel, &launch, arguments) {
            panic!("{report}");
        }
    }
}

fn blocks(grid: [u32; 3], block: [u32; 3]) -> Launch {
    Launch { grid, block, cluster: [1, 1, 1], dynamic_shared: 0 }
}

/// Numbers that look random: the upper halves of a linear congruence.
fn noise(count: usize) -> Vec<u32> {
    let mut state = 0x5eed_u64;
    let mut next = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 32) as u32
    };
    (0..count).map(|_| next()).collect()
}

/// Whole numbers from -`most` to `most`: their sums are exact in any order.
fn whole(count: usize, most: u32) -> impl Iterator<Item = i32> {
    noise(count).into_iter().map(move |number| (number % (2 * most + 1)) as i32 - most as i32)
}
