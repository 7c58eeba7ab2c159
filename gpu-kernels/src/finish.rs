//! Sums on their way to C: alpha, beta, and the epilogue that a launch asks for.
//!
//! # Idea
//!
//! ```text
//! for each run of four neighbours of a row, in parallel:
//!     x = the sums
//!     what EpilogueParams says, in its order
//!     C = x, rounded once
//! ```
//!
//! The kernel `finish` does this with sums of f32 that a product left in memory, which may be parts
//! of a product that was split along K; those of i32 and f64 know no epilogue but alpha and beta.
//! Kernels for Hopper do the usual, bias and activation, with the sums that they have.
//!
//! # Mapping
//!
//! A thread has a run of a row; see [`parts`] for the kernel, and [`mod@crate::warp_group`].
//!
//! # Preconditions
//!
//! None for C and what the epilogue reads: any strides. Runs move in one access where they are
//! aligned. What C's elements are is asked for where they are read and written, and not by a type:
//! the code stands in a kernel once.

pub mod parts;

use core::f32::consts::LOG2_E;
use cuda_std::atomic::{AtomicI32, Ordering};
use cuda_std::float::approx;
use cuda_std::half::{HalfExt, bf16, f16};
use cuda_std::{GpuFloat, warp};
use gemm_spec::{Activation, DType, EpilogueParams, GemmParams, Source};

/// Neighbours of a row that a thread finishes together.
pub const RUN: usize = 4;

const F16: u32 = DType::F16 as u32;
const BF16: u32 = DType::BF16 as u32;
const F32: u32 = DType::F32 as u32;

/// Writes sums of a row from (row, col) on, an even column, as [`EpilogueParams`] says; those past
/// the end of the row don't count. Returns the bits of the largest magnitude that was written,
/// before it was rounded, where somebody asks for it, else 0.
///
/// # Safety
///
/// `row < p.m`, `col < p.n`; C and the parameter block describe matrices that this thread may read,
/// and a C that it may write (and read, where `p.reads_c` is set); no other thread touches the
/// run's elements. C's dtype is one of floats of 16 or 32 bits.
#[inline(always)]
unsafe fn finish(c: *mut u8, p: &GemmParams<f32>, (row, col): (u64, u64), sums: [f32; RUN]) -> u32 {
    let at = (row, col);
    let left = (p.n - col).min(RUN as u64) as usize;
    let (row_stride, col_stride) = (p.c_row_stride, p.c_col_stride);
    let to = Source { address: c as u64, row_stride, col_stride };
    // SAFETY: the caller's promise.
    unsafe {
        let code = p.output;
        let mut x = sums.map(|sum| p.alpha * sum);
        let epilogue = p.epilogue;
        scale(&mut x, epilogue.row_scale, at, left);
        scale(&mut x, epilogue.col_scale, at, left);
        if p.reads_c != 0 {
            let old = read::<RUN>(to, at, left, code);
            for i in 0..RUN {
                x[i] = GpuFloat::mul_add(p.beta, old[i], x[i]);
            }
        }
        add(&mut x, epilogue.bias, at, left, code);
        let ups = x;
        activate::<RUN, true>(&mut x, epilogue.activation);
        if epilogue.gated != 0 {
            let pairs = [x[0] * ups[1], x[2] * ups[3]];
            return write_out(pairs, epilogue, to, ((row, col / 2), left / 2), code);
        }
        write_out(x, epilogue, to, (at, left), code)
    }
}

/// # Safety
/// As [`finish`].
#[inline(always)]
unsafe fn scale(x: &mut [f32; RUN], source: Source, at: (u64, u64), left: usize) {
    if source.is_there() {
        // SAFETY: the caller's promise.
        let scales = unsafe { read::<RUN>(source, at, left, F32) };
        for i in 0..RUN {
            x[i] *= scales[i];
        }
    }
}

/// The last part of [`finish`].
///
/// # Safety
/// As there.
#[inline(always)]
unsafe fn write_out<const N: usize>(
    mut x: [f32; N],
    epilogue: EpilogueParams,
    to: Source,
    (at, left): ((u64, u64), usize),
    code: u32,
) -> u32 {
    let mut largest = 0;
    // SAFETY: the caller's promise.
    unsafe {
        add(&mut x, epilogue.residual, at, left, code);
        if epilogue.amax != 0 {
            for i in 0..N {
                // As bits, of which NaN's are the largest.
                let bits = x[i].abs().to_bits().max(largest);
                largest = if i < left { bits } else { largest };
            }
        }
        write(to, at, left, code, x);
    }
    largest
}

/// # Safety
/// As [`finish`].
#[inline(always)]
unsafe fn add<const N: usize>(
    x: &mut [f32; N],
    source: Source,
    at: (u64, u64),
    left: usize,
    code: u32,
) {
    if source.is_there() {
        // SAFETY: the caller's promise.
        let addends = unsafe { read::<N>(source, at, left, code) };
        for i in 0..N {
            x[i] += addends[i];
        }
    }
}

/// The functions of [`Activation`]. GELU by the error function of Abramowitz and Stegun, formula
/// 7.1.26, whose absolute error is 1.5e-7; the others by [`approx`], with absolute errors of some
/// 2e-7 times max(|x|, 1). Below -6 and -30, where they are less than 1e-10, the latter keep their
/// value.
///
/// Without `ERF`, [`Activation::Gelu`], the longest, is left out.
///
/// Two elements share a reciprocal, 1 / a = b (1 / a b): the unit that computes it is the slowest.
#[inline(always)]
pub fn activate<const N: usize, const ERF: bool>(x: &mut [f32; N], activation: u32) {
    const { assert!(N.is_multiple_of(2)) };
    const RELU: u32 = Activation::Relu as u32;
    const GELU: u32 = Activation::Gelu as u32;
    const GELU_TANH: u32 = Activation::GeluTanh as u32;
    const SILU: u32 = Activation::Silu as u32;
    match activation {
        RELU => in_pairs(x, |pair| pair.map(relu)),
        GELU if ERF => in_pairs(x, gelu),
        GELU_TANH => in_pairs(x, |pair| {
            let x = pair.map(|x| if x < -6.0 { -6.0 } else { x });
            let of =
                |x: f32| GpuFloat::mul_add(x * x, -0.071_354_81 * LOG2_E, -1.595_769_2 * LOG2_E);
            times_sigmoid(x, |x| x * of(x))
        }),
        SILU => in_pairs(x, |pair| {
            times_sigmoid(pair.map(|x| if x < -30.0 { -30.0 } else { x }), |x| x * -LOG2_E)
        }),
        _ => {}
    }
}

#[inline(always)]
fn in_pairs<const N: usize>(x: &mut [f32; N], function: impl Fn([f32; 2]) -> [f32; 2]) {
    for i in 0..N / 2 {
        [x[2 * i], x[2 * i + 1]] = function([x[2 * i], x[2 * i + 1]]);
    }
}

#[inline(always)]
fn relu(x: f32) -> f32 {
    if x < 0.0 { 0.0 } else { x }
}

/// x / (1 + 2^of(x)).
#[inline(always)]
fn times_sigmoid(x: [f32; 2], of: impl Fn(f32) -> f32) -> [f32; 2] {
    // The lesser of a number and NaN is the number: of NaN the neighbour gets nothing.
    let [a, b] = x.map(|x| 1.0 + approx::exp2_ftz(of(x).min(60.0)));
    let both = approx::recip_ftz(a * b);
    [x[0] * (both * b), x[1] * (both * a)]
}

/// max(x, 0) - |x| Φ(-|x|), and no infinity times 0.
#[inline(always)]
fn gelu(x: [f32; 2]) -> [f32; 2] {
    let size = x.map(|x| if x.abs() < 1e18 { x.abs() } else { 1e18 });
    let [a, b] = size.map(|x| 1.0 + x * (0.327_591_1 * core::f32::consts::FRAC_1_SQRT_2));
    let both = approx::recip_ftz(a * b);
    let of = |x: f32, size: f32, t: f32| {
        let mut series = 1.061_405_4;
        for term in [-1.453_152, 1.421_413_8, -0.284_496_74, 0.254_829_6] {
            series = GpuFloat::mul_add(series, t, term);
        }
        let tail = series * t * approx::exp2_ftz(size * size * (-0.5 * LOG2_E));
        GpuFloat::mul_add(-0.5 * size, tail, relu(x))
    };
    [of(x[0], size[0], both * b), of(x[1], size[1], both * a)]
}

/// `N` neighbours of a row, of which `left` are there; the others are 0.
///
/// # Safety
/// Those that are there may be read.
#[inline(always)]
unsafe fn read<const N: usize>(source: Source, at: (u64, u64), left: usize, code: u32) -> [f32; N] {
    let start = place(source, at, code);
    let is_pack = is_pack::<N>(source, start, left, code);
    let mut x = [0.0; N];
    // SAFETY: the caller's promise.
    unsafe {
        match (is_pack, code) {
            (true, F32) => {
                let words: [u32; N] = read_pack(start);
                for i in 0..N {
                    x[i] = f32::from_bits(words[i]);
                }
            }
            (true, _) => {
                let halves: [u16; N] = read_pack(start);
                for i in 0..N {
                    x[i] = widen(halves[i], code);
                }
            }
            (false, _) => {
                for i in 0..N {
                    let step = i as i64 * source.col_stride * bytes(code);
                    let element = start.wrapping_add_signed(step);
                    if i < left {
                        x[i] = match code {
                            F32 => (element as *const f32).read(),
                            _ => widen((element as *const u16).read(), code),
                        };
                    }
                }
            }
        }
    }
    x
}

/// Writes as [`read`] reads, rounded to nearest, ties to even.
///
/// # Safety
/// Those that are there may be written.
#[inline(always)]
unsafe fn write<const N: usize>(to: Source, at: (u64, u64), left: usize, code: u32, x: [f32; N]) {
    let start = place(to, at, code);
    let half = |i: usize| match code {
        F16 => f16::from_f32_gpu(x[i]).to_bits(),
        _ => bf16::from_f32_gpu(x[i]).to_bits(),
    };
    // SAFETY: the caller's promise.
    unsafe {
        match (is_pack::<N>(to, start, left, code), code) {
            (true, F32) => write_pack(start, x),
            (true, _) => {
                let mut halves = [0u16; N];
                for i in 0..N {
                    halves[i] = half(i);
                }
                write_pack(start, halves);
            }
            (false, _) => {
                for i in 0..N {
                    let step = i as i64 * to.col_stride * bytes(code);
                    let element = start.wrapping_add_signed(step);
                    if i < left {
                        match code {
                            F32 => (element as *mut f32).write(x[i]),
                            _ => (element as *mut u16).write(half(i)),
                        }
                    }
                }
            }
        }
    }
}

/// Neighbours in one access, at a multiple of their size.
///
/// # Safety
/// They may be read.
#[inline(always)]
unsafe fn read_pack<W: Copy, const N: usize>(address: u64) -> [W; N] {
    use core::mem::transmute_copy;
    // SAFETY: the caller's promise.
    unsafe {
        match size_of::<[W; N]>() {
            4 => transmute_copy(&(address as *const u32).read()),
            8 => transmute_copy(&(address as *const u64).read()),
            _ => transmute_copy(&(address as *const u128).read()),
        }
    }
}

/// Writes as [`read_pack`] reads.
///
/// # Safety
/// They may be written.
#[inline(always)]
unsafe fn write_pack<W: Copy, const N: usize>(address: u64, words: [W; N]) {
    use core::mem::transmute_copy;
    // SAFETY: the caller's promise.
    unsafe {
        match size_of::<[W; N]>() {
            4 => (address as *mut u32).write(transmute_copy(&words)),
            8 => (address as *mut u64).write(transmute_copy(&words)),
            _ => (address as *mut u128).write(transmute_copy(&words)),
        }
    }
}

/// The value of an element of 16 bits.
#[inline(always)]
pub fn widen(bits: u16, code: u32) -> f32 {
    match code {
        BF16 => f32::from_bits(u32::from(bits) << 16),
        _ => f16::from_bits(bits).to_f32_gpu(),
    }
}

const fn bytes(code: u32) -> i64 {
    if code == F32 { 4 } else { 2 }
}

/// The address of an element.
#[inline(always)]
fn place(source: Source, (row, col): (u64, u64), code: u32) -> u64 {
    let elements = row as i64 * source.row_stride + col as i64 * source.col_stride;
    source.address.wrapping_add_signed(elements * bytes(code))
}

/// Whether `N` neighbours are all there and one access.
#[inline(always)]
fn is_pack<const N: usize>(source: Source, start: u64, left: usize, code: u32) -> bool {
    left == N && source.col_stride == 1 && start.is_multiple_of((N as i64 * bytes(code)) as u64)
}

/// Raises the f32 at an address to the largest of the lanes' magnitudes, by their bits.
///
/// # Safety
/// All lanes of a warp call it together, and the f32 is the grid's to change.
#[inline(always)]
pub unsafe fn raise(address: u64, magnitude: u32) {
    // SAFETY: the caller's promise.
    unsafe {
        let mut bits = magnitude;
        for i in 0..5 {
            let (other, _) = warp::warp_shuffle_xor(u32::MAX, bits, 16 >> i, 32);
            bits = bits.max(other);
        }
        if warp::lane_id() == 0 {
            // Signed: whatever is negative is less than a magnitude.
            (*(address as *const AtomicI32)).fetch_max(bits.cast_signed(), Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Within `bound` of the function, in f64.
    fn check(activation: Activation, bound: f64, exact: impl Fn(f64) -> f64) {
        for i in -4000..=4000 {
            let x = i as f32 / 400.0;
            let mut run = [x; RUN];
            activate::<RUN, true>(&mut run, activation as u32);
            let error = (f64::from(run[3]) - exact(f64::from(x))).abs();
            assert!(error <= bound * f64::from(x.abs()).max(1.0), "{activation} of {x}: {error}");
        }
    }

    /// By the series, which converges everywhere.
    fn erf(x: f64) -> f64 {
        let (mut term, mut sum) = (x, x);
        for n in 1..400 {
            term *= -x * x / f64::from(n);
            sum += term / f64::from(2 * n + 1);
        }
        2.0 / std::f64::consts::PI.sqrt() * sum
    }

    #[test]
    fn activations_are_within_their_bounds() {
        check(Activation::Identity, 0.0, |x| x);
        check(Activation::Relu, 0.0, |x| x.max(0.0));
        check(Activation::Silu, 3e-7, |x| x / (1.0 + (-x).exp()));
        check(Activation::GeluTanh, 5e-7, |x| {
            let inner = (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x * x * x);
            0.5 * x * (1.0 + inner.tanh())
        });
        check(Activation::Gelu, 4e-7, |x| match x.abs() < 5.5 {
            true => 0.5 * x * (1.0 + erf(x / 2f64.sqrt())),
            false => x.max(0.0),
        });
    }

    #[test]
    fn nan_and_infinity_pass() {
        for activation in Activation::ALL {
            let mut run = [f32::NAN, f32::INFINITY, 0.0, 0.0];
            activate::<RUN, true>(&mut run, activation as u32);
            assert!(run[0].is_nan() && run[1] == f32::INFINITY && run[2] == 0.0, "{activation}");
        }
    }
}
