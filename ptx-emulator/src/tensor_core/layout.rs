//! Which lane holds which element of a matrix, as formulas.
//!
//! Every `mma.sync` fragment follows one rule (PTX ISA 9.7.14.5.1 to 9.7.14.5.13). With
//! `group = lane / 4` and `place = lane % 4`, a register of A or B holds `e` neighbours along k,
//! those from `place * e`, and four lanes cover `4 * e` of k. Registers of A go down the two halves
//! of 8 rows first and along k then; registers of B go along k.

/// Elements along k that a register holds: 1 for f64 too, whose registers have 64 bits.
#[inline]
const fn per_register(bits: usize) -> usize {
    if bits >= 32 { 1 } else { 32 / bits }
}

/// The (row, column) of A's element `index` of a lane; `bits` are those of an element, `m` is 8 or
/// 16.
#[inline]
pub const fn a(bits: usize, m: usize, lane: usize, index: usize) -> (usize, usize) {
    let e = per_register(bits);
    let (register, within) = (index / e, index % e);
    let halves = m / 8;
    let row = lane / 4 + 8 * (register % halves);
    (row, lane % 4 * e + within + 4 * e * (register / halves))
}

/// The (row, column), that is (k, n), of B's element `index` of a lane.
#[inline]
pub const fn b(bits: usize, lane: usize, index: usize) -> (usize, usize) {
    let e = per_register(bits);
    (lane % 4 * e + index % e + 4 * e * (index / e), lane / 4)
}

/// The (row, column) of the element `index` of C or D of a lane, n = 8.
#[inline]
pub const fn c(lane: usize, index: usize) -> (usize, usize) {
    (lane / 4 + 8 * (index / 2), lane % 4 * 2 + index % 2)
}

/// The (row, column) of the accumulator's element `index` of a thread of a warpgroup (0 to 127) in
/// `wgmma` (PTX ISA 9.7.15.5.1.1): warp `thread / 32` has 16 rows, like C of `mma`, 8 columns at a
/// time.
#[inline]
pub const fn wgmma_accumulator(thread: usize, index: usize) -> (usize, usize) {
    let (row, column) = c(thread % 32, index % 4);
    (thread / 32 * 16 + row, index / 4 * 8 + column)
}

/// The (row, column) of the element `index` of A in registers in `wgmma`: 16 rows a warp, like A of
/// `mma`.
#[inline]
pub const fn wgmma_a(bits: usize, thread: usize, index: usize) -> (usize, usize) {
    let (row, column) = a(bits, 16, thread % 32, index);
    (thread / 32 * 16 + row, column)
}

/// The (row, column) in an 8 x 8 matrix of 16-bit elements of the two halves of a lane's register,
/// the lower first, in `ldmatrix` and `stmatrix` (PTX ISA 9.7.14.5.15, 9.7.14.5.16).
#[inline]
pub const fn ldmatrix(lane: usize, transposed: bool) -> [(usize, usize); 2] {
    let (group, pair) = (lane / 4, lane % 4 * 2);
    if transposed { [(pair, group), (pair + 1, group)] } else { [(group, pair), (group, pair + 1)] }
}

/// An 8 x 8 matrix of 16-bit patterns, row by row.
pub type Matrix8x8 = [[u16; 8]; 8];

/// `ldmatrix` of one matrix: its rows to the register of a warp.
#[inline]
pub fn distribute(rows: &Matrix8x8, transposed: bool) -> [u32; 32] {
    std::array::from_fn(|lane| {
        let [low, high] = ldmatrix(lane, transposed);
        u32::from(rows[low.0][low.1]) | u32::from(rows[high.0][high.1]) << 16
    })
}

/// `stmatrix` of one matrix: the register of a warp to its rows.
#[inline]
pub fn collect(register: &[u32; 32], transposed: bool) -> Matrix8x8 {
    let mut rows = Matrix8x8::default();
    for (lane, &bits) in register.iter().enumerate() {
        let [low, high] = ldmatrix(lane, transposed);
        rows[low.0][low.1] = bits as u16;
        rows[high.0][high.1] = (bits >> 16) as u16;
    }
    rows
}

/// `movmatrix.sync.aligned.m8n8.trans.b16` (PTX ISA 9.7.14.5.17).
#[inline]
pub fn transpose(register: &[u32; 32]) -> [u32; 32] {
    distribute(&collect(register, false), true)
}
