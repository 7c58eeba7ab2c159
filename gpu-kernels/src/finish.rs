//! Sums on their way to C: alpha, beta, and the epilogue that a launch asks for.
//!
//! # Idea
//!
//! ```text
//! for each run of four neighbours of a row, in parallel:
//!     x = the sum of the parts, the first first
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
//! A block of `finish` takes 8 rows, a warp 128 neighbouring columns of one. Where there are many
//! parts, which are often those of a small C, a block takes one row (`finish_deep`): its 8 warps
//! stand behind each other along the parts, and the first adds up what they have.
//!
//! # Shared memory
//!
//! For `finish_deep` the sums of its warps.
//!
//! # Preconditions
//!
//! None for C and what the epilogue reads: any strides. Runs move in one access where they are
//! aligned. What C's elements are is asked for where they are read and written, and not by a type:
//! the code stands in a kernel once.

use crate::{Element, SharedTile, Sum, store};
use cuda_std::atomic::{AtomicI32, Ordering};
use cuda_std::float::approx;
#[cfg(feature = "sm_90")]
use cuda_std::grid;
use cuda_std::half::{HalfExt, bf16, f16};
use cuda_std::{GpuFloat, thread, warp};
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
            times_sigmoid(x, |x| x * (1.595_769_2 + 0.071_354_81 * (x * x)))
        }),
        SILU => in_pairs(x, |pair| {
            times_sigmoid(pair.map(|x| if x < -30.0 { -30.0 } else { x }), |x| x)
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

/// x σ(of(x)).
#[inline(always)]
fn times_sigmoid(x: [f32; 2], of: impl Fn(f32) -> f32) -> [f32; 2] {
    // The lesser of a number and NaN is the number: of NaN the neighbour gets nothing.
    let [a, b] = x.map(|x| 1.0 + approx::exp2_ftz((of(x) * -core::f32::consts::LOG2_E).min(60.0)));
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
        let series = 1.061_405_4 * t - 1.453_152;
        let series = ((series * t + 1.421_413_8) * t - 0.284_496_74) * t + 0.254_829_6;
        let power = size * size * (-0.5 * core::f32::consts::LOG2_E);
        relu(x) - size * (0.5 * (series * t) * approx::exp2_ftz(power))
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

/// Parts that are on their way at a time: without the others a thread would wait for each.
const AHEAD: usize = 16;

/// The sum of `parts` parts, the first first, read [`AHEAD`] at a time.
#[inline(always)]
fn add_up<S: Sum, const N: usize>(parts: u64, read: impl Fn(u64) -> [S; N]) -> [S; N] {
    let mut sums = [S::ZERO; N];
    let mut part = 0;
    while part < parts {
        let mut ahead = [[S::ZERO; N]; AHEAD];
        for i in 0..AHEAD {
            if part + (i as u64) < parts {
                ahead[i] = read(part + i as u64);
            }
        }
        for i in 0..AHEAD {
            for j in 0..N {
                sums[j] = sums[j].add(ahead[i][j]);
            }
        }
        part += AHEAD as u64;
    }
    sums
}

/// Which sums a thread of a block of 256 adds up: those of a row, of some of the parts. `DEPTH`
/// warps stand behind each other along the parts, and have parts that are neighbours.
struct Share {
    row: u64,
    /// The block's first column.
    col: u64,
    /// The warp's place along the parts.
    along: u64,
    lane: u64,
    /// The warp's first part.
    first: u64,
    /// How many it has.
    parts: u64,
}

impl Share {
    #[inline(always)]
    fn new<const DEPTH: u64>(parts: u64) -> Self {
        let thread = u64::from(thread::thread_idx_x());
        let (warp, lane) = (thread / 32, thread % 32);
        let along = warp % DEPTH;
        let each = parts.div_ceil(DEPTH);
        let first = (along * each).min(parts);
        Share {
            row: u64::from(thread::block_idx_y()) * (8 / DEPTH) + warp / DEPTH,
            col: u64::from(thread::block_idx_x()) * (32 * RUN as u64),
            along,
            lane,
            first,
            parts: (parts - first).min(each),
        }
    }

    /// The sums of all warps along the parts, in their order, to the first of them; `sums` are this
    /// lane's of this warp.
    ///
    /// # Safety
    ///
    /// By all threads of the block; `memory` has room for [`RUN`] sums of each of them, and nobody
    /// else uses it.
    #[inline(always)]
    unsafe fn join<S: Sum, const DEPTH: u64>(
        &self,
        memory: Option<SharedTile<S>>,
        mut sums: [S; RUN],
    ) -> [S; RUN] {
        let Some(memory) = memory else { return sums };
        // SAFETY: each thread writes places of its own, and between that and the reads of others
        // stands a barrier.
        unsafe {
            // Neighbouring lanes at neighbouring sums.
            let place = |along: u64, i: usize| (along * RUN as u64 + i as u64) * 32 + self.lane;
            for i in 0..RUN {
                memory.add(place(self.along, i) as usize).write(sums[i]);
            }
            thread::sync_threads();
            if self.along == 0 {
                for along in 1..DEPTH {
                    for i in 0..RUN {
                        sums[i] = sums[i].add(memory.add(place(along, i) as usize).read());
                    }
                }
            }
        }
        sums
    }
}

/// Finishes sums in memory: `parts` of them, which are added, the first first. The parameter block
/// stands for C as it does in a product's kernel; A's strides are those of a part, K is the number
/// of parts, and B's row stride leads from part to part. Parts start at multiples of 16 bytes, and
/// so do their rows, which are contiguous.
///
/// # Safety
///
/// By all threads of a block as [`Share`] says; `sums` may be read, and the rest as `finish`; where
/// `DEPTH` is not 1 there is memory as [`Share::join`] needs it.
#[inline(always)]
pub unsafe fn finish_parts<const DEPTH: u64>(
    sums: *const f32,
    c: *mut u8,
    p: &GemmParams<f32>,
    memory: Option<SharedTile<f32>>,
) {
    let share = Share::new::<DEPTH>(p.k);
    let (row, col) = (share.row, share.col + share.lane * RUN as u64);
    let is_inside = row < p.m && col < p.n;
    let (mut largest, mut x) = (0, [0.0; RUN]);
    // SAFETY: the caller's promise; runs lie in C, and so in the parts.
    unsafe {
        if is_inside {
            let left = (p.n - col).min(RUN as u64) as usize;
            let offset = row as i64 * p.a_row_stride + col as i64 * p.a_col_stride;
            let start = sums.wrapping_offset(offset as isize);
            let part = |part: u64| {
                let part = (share.first + part) as i64;
                start.wrapping_offset((part * p.b_row_stride) as isize)
            };
            x = match left {
                // As a word, which is one access.
                RUN => add_up(share.parts, |of| {
                    core::mem::transmute::<u128, [f32; RUN]>(part(of).cast::<u128>().read())
                }),
                _ => add_up(share.parts, |of| {
                    let mut x = [0.0; RUN];
                    for i in 0..RUN {
                        if i < left {
                            x[i] = part(of).wrapping_add(i).read();
                        }
                    }
                    x
                }),
            };
        }
        x = share.join::<_, DEPTH>(memory, x);
        if share.along == 0 {
            if is_inside {
                largest = finish(c, p, (row, col), x);
            }
            if p.epilogue.amax != 0 {
                raise(p.epilogue.amax, largest);
            }
        }
    }
}

/// Finishes sums of elements without epilogues, as [`finish_parts`] does: alpha and beta alone.
///
/// # Safety
///
/// As [`finish_parts`].
#[inline(always)]
pub unsafe fn add_parts<T: Element, const DEPTH: u64>(
    sums: *const T::Sum,
    c: *mut T::Output,
    p: &GemmParams<T::Sum>,
    memory: Option<SharedTile<T::Sum>>,
) {
    let share = Share::new::<DEPTH>(p.k);
    let row = share.row;
    // Neighbouring lanes at neighbouring sums.
    let col = |run: usize| share.col + run as u64 * 32 + share.lane;
    let mut x = [T::Sum::ZERO; RUN];
    for run in 0..RUN {
        let col = col(run);
        if row < p.m && col < p.n {
            let offset = row as i64 * p.a_row_stride + col as i64 * p.a_col_stride;
            let from = sums.wrapping_offset(offset as isize);
            let [sum] = add_up(share.parts, |part| {
                let part = (share.first + part) as isize;
                let part = from.wrapping_offset(part * p.b_row_stride as isize);
                // SAFETY: the caller's promise; (row, col) lies in C, and so in the parts.
                unsafe { [part.read()] }
            });
            x[run] = sum;
        }
    }
    // SAFETY: the caller's promise.
    unsafe {
        x = share.join::<_, DEPTH>(memory, x);
        for run in 0..RUN {
            let col = col(run);
            if share.along == 0 && row < p.m && col < p.n {
                store::<T>(c, p, row, col, x[run]);
            }
        }
    }
}

/// Makes entry points from rows of a list.
#[cfg(any(feature = "sm_70", feature = "sm_90"))]
macro_rules! entries {
    ($((
        $name:ident, $variant:literal, $element:ident, [$bm:literal, $bn:literal, $depth:tt],
        $warp:tt, [1, $run:literal], $stages:literal, $min_blocks:literal
    ),)*) => {$(
        /// `finish`, which adds up parts of sums and writes C; see the module.
        ///
        /// # Safety
        ///
        /// The pointers and the block describe sums that the grid may read and a C that it may
        /// write, which nothing else touches during the launch; the grid is one of
        /// `Kernel::launches`.
        #[cuda_std::kernel(max_threads = 256, min_blocks = $min_blocks)]
        pub unsafe fn $name(sums: *const $element, c: *mut u8, p: GemmParams<$element>) {
            const { assert!($bm * $depth == 8 && $bn == 32 * RUN && $run == RUN) };
            let memory = entries!(@memory $element, $depth);
            // The next kernel may get ready; the one before has ended.
            #[cfg(feature = "sm_90")]
            {
                grid::launch_dependents();
                grid::wait_for_grids();
            }
            // SAFETY: the host's promise, passed on.
            unsafe { entries!(@body $element, $depth, (sums, c, &p, memory)) }
        }
    )*};
    (@memory $element:ident, 1) => { None };
    (@memory $element:ident, $depth:literal) => {
        Some(cuda_std::shared_array![$element; $depth * 32 * RUN])
    };
    (@body f32, $depth:literal, ($sums:ident, $c:ident, $p:expr, $memory:ident)) => {
        finish_parts::<$depth>($sums, $c, $p, $memory)
    };
    // What sums of i8 become, those of i32 become too.
    (@body i32, $depth:literal, ($sums:ident, $c:ident, $p:expr, $memory:ident)) => {
        add_parts::<i8, $depth>($sums, $c.cast(), $p, $memory)
    };
    (@body f64, $depth:literal, ($sums:ident, $c:ident, $p:expr, $memory:ident)) => {
        add_parts::<f64, $depth>($sums, $c.cast(), $p, $memory)
    };
}

#[cfg(feature = "sm_70")]
gemm_spec::finish_kernels!(entries);

#[cfg(feature = "sm_90")]
gemm_spec::finish_overlapped_kernels!(entries);

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
