//! The instructions for each N and element type, and accumulators, which are arrays of registers.

use super::{Element, Major, Tf32, sealed};
use crate::gpu_only;
use crate::half::{bf16, f16};
use crate::{F8E4M3, F8E5M2};
#[cfg(target_arch = "nvptx64")]
use core::arch::asm;

/// Registers that `wgmma` writes to or reads: accumulators, fragments of A, arrays of them, none.
pub trait Registers: sealed::Sealed {
    /// Nothing, but the compiler has to have the values in the registers here: what changes them
    /// stays before, what uses them behind. Lowers to no instruction.
    fn pin(&mut self);
}

impl sealed::Sealed for () {}

impl Registers for () {
    #[inline(always)]
    fn pin(&mut self) {}
}

impl<R: Registers, const LEN: usize> sealed::Sealed for [R; LEN] {}

impl<R: Registers, const LEN: usize> Registers for [R; LEN] {
    #[inline(always)]
    fn pin(&mut self) {
        for registers in self.iter_mut() {
            registers.pin();
        }
    }
}

impl<A: Registers, B: Registers> sealed::Sealed for (&mut A, &mut B) {}

impl<A: Registers, B: Registers> Registers for (&mut A, &mut B) {
    #[inline(always)]
    fn pin(&mut self) {
        self.0.pin();
        self.1.pin();
    }
}

/// The sums of a 64 x N tile, N / 2 in each thread of the warpgroup, for elements `T`: `[f32; N /
/// 2]` for floats, `[i32; N / 2]` for `i8`; N is 8, 16, 32, 48, 64, 80, 96, 112, 128, 160,
/// 176, 192, 224 or 256.
///
/// The methods are what the functions of [`wgmma`](super) call, with their preconditions.
#[allow(missing_docs, clippy::missing_safety_doc)]
pub trait Accumulator<T: Element>: Registers {
    /// Columns of the tile.
    const N: usize;

    #[doc(hidden)]
    unsafe fn multiply<MA: Major<T>, MB: Major<T>>(&mut self, a: u64, b: u64, accumulate: u32);

    #[doc(hidden)]
    unsafe fn multiply_registers<MB: Major<T>>(&mut self, a: &[u32; 4], b: u64, accumulate: u32);
}

/// Calls `$then` for each N: what it was given, then N, the number of a thread's registers, and
/// their indices.
macro_rules! each_n {
    ($then:ident! { $($given:tt)* }) => {
        $then! { $($given)* 8, 4, 0 1 2 3 }
        $then! { $($given)* 16, 8, 0 1 2 3 4 5 6 7 }
        $then! { $($given)* 32, 16, 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 }
        $then! { $($given)* 48, 24, 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 }
        $then! { $($given)* 64, 32, 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21
            22 23 24 25 26 27 28 29 30 31 }
        $then! { $($given)* 80, 40, 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24
            25 26 27 28 29 30 31 32 33 34 35 36 37 38 39 }
        $then! { $($given)* 96, 48, 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21
            22 23 24 25 26 27 28 29 30 31 32 33 34 35 36 37 38 39 40 41 42 43 44 45 46 47 }
        $then! { $($given)* 112, 56, 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23
            24 25 26 27 28 29 30 31 32 33 34 35 36 37 38 39 40 41 42 43 44 45 46 47 48 49 50 51 52
            53 54 55 }
        $then! { $($given)* 128, 64, 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21
            22 23 24 25 26 27 28 29 30 31 32 33 34 35 36 37 38 39 40 41 42 43 44 45 46 47 48 49
            50 51 52 53 54 55 56 57 58 59 60 61 62 63 }
        $then! { $($given)* 160, 80, 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21
            22 23 24 25 26 27 28 29 30 31 32 33 34 35 36 37 38 39 40 41 42 43 44 45 46 47 48 49
            50 51 52 53 54 55 56 57 58 59 60 61 62 63 64 65 66 67 68 69 70 71 72 73 74 75 76 77
            78 79 }
        $then! { $($given)* 176, 88, 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21
            22 23 24 25 26 27 28 29 30 31 32 33 34 35 36 37 38 39 40 41 42 43 44 45 46 47 48 49
            50 51 52 53 54 55 56 57 58 59 60 61 62 63 64 65 66 67 68 69 70 71 72 73 74 75 76 77
            78 79 80 81 82 83 84 85 86 87 }
        $then! { $($given)* 192, 96, 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21
            22 23 24 25 26 27 28 29 30 31 32 33 34 35 36 37 38 39 40 41 42 43 44 45 46 47 48 49
            50 51 52 53 54 55 56 57 58 59 60 61 62 63 64 65 66 67 68 69 70 71 72 73 74 75 76 77
            78 79 80 81 82 83 84 85 86 87 88 89 90 91 92 93 94 95 }
        $then! { $($given)* 224, 112, 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20
            21 22 23 24 25 26 27 28 29 30 31 32 33 34 35 36 37 38 39 40 41 42 43 44 45 46 47 48
            49 50 51 52 53 54 55 56 57 58 59 60 61 62 63 64 65 66 67 68 69 70 71 72 73 74 75 76
            77 78 79 80 81 82 83 84 85 86 87 88 89 90 91 92 93 94 95 96 97 98 99 100 101 102 103
            104 105 106 107 108 109 110 111 }
        $then! { $($given)* 256, 128, 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20
            21 22 23 24 25 26 27 28 29 30 31 32 33 34 35 36 37 38 39 40 41 42 43 44 45 46 47 48
            49 50 51 52 53 54 55 56 57 58 59 60 61 62 63 64 65 66 67 68 69 70 71 72 73 74 75 76
            77 78 79 80 81 82 83 84 85 86 87 88 89 90 91 92 93 94 95 96 97 98 99 100 101 102 103
            104 105 106 107 108 109 110 111 112 113 114 115 116 117 118 119 120 121 122 123 124
            125 126 127 }
    };
}

macro_rules! registers {
    ($type:ty, $n:literal, $len:literal, $($i:literal)*) => {
        impl sealed::Sealed for [$type; $len] {}

        impl Registers for [$type; $len] {
            #[gpu_only]
            #[inline(always)]
            fn pin(&mut self) {
                // SAFETY: no instruction.
                unsafe {
                    // The operands have to be named, so they are in a comment.
                    asm!(concat!("//", $(" {", $i, "}",)*), $(inout(reg32) self[$i],)*
                        options(nostack));
                }
            }
        }
    };
}

each_n! { registers! { f32, } }
each_n! { registers! { i32, } }
// Fragments of A.
registers! { u32, 0, 4, 0 1 2 3 }

/// An element type: its sums' type, K, the types in the instruction's name, and what stands behind
/// scale-d, with A from shared memory and from registers: text and operands.
macro_rules! instruction {
    (
        $element:ty, $sum:ty, $name:literal,
        $tail:literal [$($operand:tt)*], $tail_registers:literal [$($operand_registers:tt)*],
        $n:literal, $len:literal, $first:literal $($i:literal)*
    ) => {
        impl Accumulator<$element> for [$sum; $len] {
            const N: usize = $n;

            #[gpu_only]
            #[inline(always)]
            unsafe fn multiply<MA: Major<$element>, MB: Major<$element>>(
                &mut self,
                a: u64,
                b: u64,
                accumulate: u32,
            ) {
                // SAFETY: the caller's promise.
                unsafe {
                    asm!(
                        "{{ .reg .pred p; setp.ne.b32 p, {accumulate}, 0;",
                        concat!(
                            "wgmma.mma_async.sync.aligned.m64n", $n, $name, " {{{", $first, "}",
                            $(", {", $i, "}",)* "}}, {a}, {b}, p", $tail, "; }}"
                        ),
                        inout(reg32) self[$first] $(, inout(reg32) self[$i])*,
                        a = in(reg64) a, b = in(reg64) b, accumulate = in(reg32) accumulate,
                        $($operand)* options(nostack)
                    );
                }
            }

            #[gpu_only]
            #[inline(always)]
            unsafe fn multiply_registers<MB: Major<$element>>(
                &mut self,
                a: &[u32; 4],
                b: u64,
                accumulate: u32,
            ) {
                // SAFETY: the caller's promise.
                unsafe {
                    asm!(
                        "{{ .reg .pred p; setp.ne.b32 p, {accumulate}, 0;",
                        concat!(
                            "wgmma.mma_async.sync.aligned.m64n", $n, $name, " {{{", $first, "}",
                            $(", {", $i, "}",)* "}}, {{{a0}, {a1}, {a2}, {a3}}}, {b}, p",
                            $tail_registers, "; }}"
                        ),
                        inout(reg32) self[$first] $(, inout(reg32) self[$i])*,
                        a0 = in(reg32) a[0], a1 = in(reg32) a[1], a2 = in(reg32) a[2],
                        a3 = in(reg32) a[3], b = in(reg64) b,
                        accumulate = in(reg32) accumulate, $($operand_registers)* options(nostack)
                    );
                }
            }
        }
    };
}

each_n! { instruction! {
    f16, f32, "k16.f32.f16.f16",
    ", 1, 1, {ta}, {tb}" [ta = const MA::TRANSPOSED, tb = const MB::TRANSPOSED,],
    ", 1, 1, {tb}" [tb = const MB::TRANSPOSED,],
} }
each_n! { instruction! {
    bf16, f32, "k16.f32.bf16.bf16",
    ", 1, 1, {ta}, {tb}" [ta = const MA::TRANSPOSED, tb = const MB::TRANSPOSED,],
    ", 1, 1, {tb}" [tb = const MB::TRANSPOSED,],
} }
each_n! { instruction! { Tf32, f32, "k8.f32.tf32.tf32", ", 1, 1" [], ", 1, 1" [], } }
each_n! { instruction! { F8E4M3, f32, "k32.f32.e4m3.e4m3", ", 1, 1" [], ", 1, 1" [], } }
each_n! { instruction! { F8E5M2, f32, "k32.f32.e5m2.e5m2", ", 1, 1" [], ", 1, 1" [], } }
each_n! { instruction! { i8, i32, "k32.s32.s8.s8", "" [], "" [], } }
