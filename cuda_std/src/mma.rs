//! Tensor cores, one warp at a time: `mma.sync` and `ldmatrix`, for compute capability 8.0 and
//! later, `stmatrix` for 9.0.
//!
//! D = A * B + C for small matrices that the 32 lanes of a warp hold together. With `group` = lane
//! / 4 and `member` = lane % 4 a lane holds, of the 16 x 8 matrices C and D, the elements (`group`,
//! 2 * `member`), (`group`, 2 * `member` + 1) and the same two 8 rows further down; what it holds
//! of A and B is said at each function. Of the elements in a word, the first is in the low bits.
//! (PTX ISA, warp-level matrix instructions.)
//!
//! # Safety
//! All functions here are for whole warps: every lane runs them together, at one place of the
//! program. rustc does not know that of `asm!`, so they must stand where no lane can be elsewhere;
//! each of them is volatile and so neither left out nor moved over another. A test counts them in
//! the built PTX.

use crate::gpu_only;
use crate::shared::SharedPtr;
#[cfg(target_arch = "nvptx64")]
use core::arch::asm;

/// Four 8 x 8 matrices of 16-bit elements from shared memory: lane l gives the address of row l % 8
/// of matrix l / 8, and gets elements 2 * `member` and 2 * `member` + 1 of row `group` of each.
///
/// Lowers to `ldmatrix.sync.aligned.m8n8.x4.shared.b16` (PTX ISA, `ldmatrix`).
///
/// # Safety
/// As the module says; `row` points to 8 elements in shared memory, at a multiple of 16 bytes,
/// which the warp may read.
#[gpu_only]
#[inline(always)]
pub unsafe fn load_matrices<T>(row: SharedPtr<T>) -> [u32; 4] {
    let (a, b, c, d): (u32, u32, u32, u32);
    // SAFETY: the caller's promise.
    unsafe {
        asm!("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {{{}, {}, {}, {}}}, [{}];", out(reg32) a,
            out(reg32) b, out(reg32) c, out(reg32) d, in(reg32) row.address(), options(nostack));
    }
    [a, b, c, d]
}

/// As [`load_matrices`], each matrix transposed: a lane gets elements 2 * `member` and 2 * `member`
/// + 1 of column `group`.
///
/// Lowers to `ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16` (PTX ISA, `ldmatrix`).
///
/// # Safety
/// As [`load_matrices`].
#[gpu_only]
#[inline(always)]
pub unsafe fn load_matrices_transposed<T>(row: SharedPtr<T>) -> [u32; 4] {
    let (a, b, c, d): (u32, u32, u32, u32);
    // SAFETY: the caller's promise.
    unsafe {
        asm!("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {{{}, {}, {}, {}}}, [{}];",
            out(reg32) a, out(reg32) b, out(reg32) c, out(reg32) d, in(reg32) row.address(),
            options(nostack));
    }
    [a, b, c, d]
}

/// Stores four 8 x 8 matrices of 16-bit elements to shared memory: lane l gives the address of row
/// l % 8 of matrix l / 8, and the elements that [`load_matrices`] would give it. Compute capability
/// 9.0.
///
/// Lowers to `stmatrix.sync.aligned.m8n8.x4.shared.b16` (PTX ISA, `stmatrix`).
///
/// # Safety
/// As the module says; `row` points to 8 elements in shared memory, at a multiple of 16 bytes,
/// which nothing else accesses until a barrier.
#[gpu_only]
#[inline(always)]
pub unsafe fn store_matrices<T>(row: SharedPtr<T>, [a, b, c, d]: [u32; 4]) {
    // SAFETY: the caller's promise.
    unsafe {
        asm!("stmatrix.sync.aligned.m8n8.x4.shared.b16 [{}], {{{}, {}, {}, {}}};",
            in(reg32) row.address(), in(reg32) a, in(reg32) b, in(reg32) c, in(reg32) d,
            options(nostack));
    }
}

/// As [`store_matrices`], each matrix transposed: the elements are those that
/// [`load_matrices_transposed`] would give.
///
/// Lowers to `stmatrix.sync.aligned.m8n8.x4.trans.shared.b16` (PTX ISA, `stmatrix`).
///
/// # Safety
/// As [`store_matrices`].
#[gpu_only]
#[inline(always)]
pub unsafe fn store_matrices_transposed<T>(row: SharedPtr<T>, [a, b, c, d]: [u32; 4]) {
    // SAFETY: the caller's promise.
    unsafe {
        asm!("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [{}], {{{}, {}, {}, {}}};",
            in(reg32) row.address(), in(reg32) a, in(reg32) b, in(reg32) c, in(reg32) d,
            options(nostack));
    }
}

macro_rules! words {
    ($(#[$doc:meta])* $name:ident, $sum:ident, $instruction:literal) => {
        $(#[$doc])*
        #[gpu_only]
        #[inline(always)]
        pub unsafe fn $name(a: [u32; 4], b: [u32; 2], c: [$sum; 4]) -> [$sum; 4] {
            let [mut c0, mut c1, mut c2, mut c3] = c;
            // SAFETY: the caller's promise.
            unsafe {
                asm!(
                    concat!($instruction, " {{{0}, {1}, {2}, {3}}}, {{{4}, {5}, {6}, {7}}}, \
                        {{{8}, {9}}}, {{{0}, {1}, {2}, {3}}};"),
                    inout(reg32) c0, inout(reg32) c1, inout(reg32) c2, inout(reg32) c3,
                    in(reg32) a[0], in(reg32) a[1], in(reg32) a[2], in(reg32) a[3],
                    in(reg32) b[0], in(reg32) b[1], options(nostack)
                );
            }
            [c0, c1, c2, c3]
        }
    };
}

words! {
    /// 16 x 16 times 16 x 8 elements of `f16`, summed in f32.
    ///
    /// `a`: pairs of neighbours along K, at rows `group` and `group` + 8 of K 2 * `member`, then
    /// the same of K 8 + 2 * `member`. `b`: pairs of column `group`, at K 2 * `member` and 8 + 2 *
    /// `member`. Lowers to `mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32` (PTX ISA, `mma`).
    ///
    /// # Safety
    /// As the module says.
    multiply_f16, f32, "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"
}

words! {
    /// As [`multiply_f16`], for `bf16`.
    ///
    /// Lowers to `mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32` (PTX ISA, `mma`).
    ///
    /// # Safety
    /// As the module says.
    multiply_bf16, f32, "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32"
}

words! {
    /// 16 x 32 times 32 x 8 bytes with sign, summed in i32, modulo 2^32.
    ///
    /// `a`: four neighbours along K, at rows `group` and `group` + 8 of K 4 * `member`, then the
    /// same of K 16 + 4 * `member`. `b`: four neighbours of column `group`, at K 4 * `member` and
    /// 16 + 4 * `member`. Lowers to `mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32` (PTX ISA,
    /// `mma`).
    ///
    /// # Safety
    /// As the module says.
    multiply_i8, i32, "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32"
}

/// 16 x 16 times 16 x 8 bytes without sign, summed in 32 bits, modulo 2^32.
///
/// `a`: four neighbours along K at K 4 * `member`, of rows `group` and `group` + 8. `b`: the same
/// of column `group`. Lowers to `mma.sync.aligned.m16n8k16.row.col.s32.u8.u8.s32` (PTX ISA, `mma`).
///
/// # Safety
/// As the module says.
#[gpu_only]
#[inline(always)]
pub unsafe fn multiply_u8(a: [u32; 2], b: u32, c: [u32; 4]) -> [u32; 4] {
    let [mut c0, mut c1, mut c2, mut c3] = c;
    // SAFETY: the caller's promise.
    unsafe {
        asm!(
            "mma.sync.aligned.m16n8k16.row.col.s32.u8.u8.s32 {{{0}, {1}, {2}, {3}}}, {{{4}, {5}}}, \
                {{{6}}}, {{{0}, {1}, {2}, {3}}};",
            inout(reg32) c0, inout(reg32) c1, inout(reg32) c2, inout(reg32) c3,
            in(reg32) a[0], in(reg32) a[1], in(reg32) b, options(nostack)
        );
    }
    [c0, c1, c2, c3]
}

/// 16 x 8 times 8 x 8 elements of f64. Compute capability 9.0.
///
/// `a`: rows `group` and `group` + 8 at K `member`, then at K `member` + 4. `b`: column `group` at
/// the same two. Lowers to `mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64` (PTX ISA, `mma`).
///
/// # Safety
/// As the module says.
#[gpu_only]
#[inline(always)]
pub unsafe fn multiply_f64(a: [[f64; 2]; 2], b: [f64; 2], c: [f64; 4]) -> [f64; 4] {
    let [mut c0, mut c1, mut c2, mut c3] = c;
    // SAFETY: the caller's promise.
    unsafe {
        asm!(
            "mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64 {{{0}, {1}, {2}, {3}}}, \
                {{{4}, {5}, {6}, {7}}}, {{{8}, {9}}}, {{{0}, {1}, {2}, {3}}};",
            inout(reg64) c0, inout(reg64) c1, inout(reg64) c2, inout(reg64) c3,
            in(reg64) a[0][0], in(reg64) a[0][1], in(reg64) a[1][0], in(reg64) a[1][1],
            in(reg64) b[0], in(reg64) b[1], options(nostack)
        );
    }
    [c0, c1, c2, c3]
}

/// Four bytes of two words: byte i of the result is byte `selector >> 4 * i & 7` of `low` (0 to 3)
/// and `high` (4 to 7), or where the next bit of the selector, 4 * i + 3, is set, eight times the
/// highest bit of that byte.
///
/// Lowers to `prmt.b32` (PTX ISA, data movement and conversion instructions).
#[inline(always)]
pub fn permute_bytes(low: u32, high: u32, selector: u32) -> u32 {
    #[cfg(target_arch = "nvptx64")]
    {
        let result: u32;
        // SAFETY: a function of its operands alone.
        unsafe {
            asm!("prmt.b32 {}, {}, {}, {};", out(reg32) result, in(reg32) low, in(reg32) high,
                in(reg32) selector, options(pure, nomem, nostack));
        }
        result
    }
    #[cfg(not(target_arch = "nvptx64"))]
    {
        let bytes = u64::from(low) | u64::from(high) << 32;
        (0..4).fold(0, |result, i| {
            let selector = selector >> (4 * i);
            let byte = (bytes >> (8 * (selector & 7))) as u8;
            let byte = if selector & 8 == 0 { byte } else { (byte.cast_signed() >> 7) as u8 };
            result | u32::from(byte) << (8 * i)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::permute_bytes;

    #[test]
    fn bytes_are_chosen() {
        assert_eq!(permute_bytes(0x0302_0100, 0x0706_0504, 0x7250), 0x0702_0500);
        // With bit 3: the sign of byte 0, 0x7f, and of byte 5, 0x80.
        assert_eq!(permute_bytes(0x0302_017f, 0x0706_8004, 0xd80d), 0xff00_7fff);
    }
}
