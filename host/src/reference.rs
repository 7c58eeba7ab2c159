//! The tutorials' CPU loops, by name: slow, short, and right.
//!
//! Each computes C = A * B on views of any strides, in the arithmetic of the kernels: products and
//! sums in [`Element::Scalar`], i32 wrapping around, and one rounding at the end where the elements
//! are f16 or bf16. Every loop but [`kij`] starts a sum at 0 and adds its products in the order of
//! k, so all of them give the same bits ([`kij`] too: it visits the elements in another order, and
//! each element's products in the same one).
//!
//! They are here to be read beside the kernels, to be timed as the tutorials time them, and to hold
//! the verification to something that shares no code with it. For products that are to be fast
//! there is [`crate::Device::cpu`].
//!
//! | loop | where the tutorials have it | what was corrected |
//! |---|---|---|
//! | [`ijk`] | "Tiled Matmul 101", loops 1; `matmul_cpu` [^cpu] | C is written, not added to |
//! | [`kij`] | "Tiled Matmul 101", loops 2 | C starts at 0 |
//! | [`unrolled_16`] | "Tiled Matmul 101", loops 3 | see there |
//! | [`tiled`] | "Tiled Matmul 101", loops 4; thread block tile [^hierarchy] | see there |
//! | [`hierarchy::matmul`] | warp tile, thread tile [^hierarchy] | see there |
//!
//! [^cpu]: of "Speed up matrix multiplication 2"; here M, N and K may differ.
//! [^hierarchy]: of "A description of a simple GEMM hierarchy".

pub mod hierarchy;

use crate::element::{Element, Scalar};
use crate::error::Error;
use crate::matrix::{Matrix, MatrixRef};
use gemm_spec::Shape;

/// A loop of this module, as a value.
pub type Loop<T> =
    fn(MatrixRef<'_, T>, MatrixRef<'_, T>) -> Result<Matrix<<T as Element>::Output>, Error>;

/// Every loop of this module with its name, [`tiled`] with tiles of 16. ([`hierarchy`] counts while
/// it runs, so it is not timed beside them.)
pub fn loops<T: Element>() -> [(&'static str, Loop<T>); 4] {
    [("ijk", ijk), ("kij", kij), ("unrolled_16", unrolled_16), ("tiled_16", tiled::<T, 16>)]
}

/// C = A * B, one element after the other: the dot product of row i of A and column j of B.
///
/// a: (m, k), b: (k, n), result: (m, n).
///
/// # Errors
/// When A has not as many columns as B has rows, or there is no memory for C.
pub fn ijk<T: Element>(
    a: MatrixRef<'_, T>,
    b: MatrixRef<'_, T>,
) -> Result<Matrix<T::Output>, Error> {
    let (c, depth) = output(a, b)?;
    Matrix::from_fn(c, |i, j| {
        let mut sum = T::Scalar::ZERO;
        for k in 0..depth {
            sum = multiply_add(sum, a[(i, k)], b[(k, j)]);
        }
        T::narrow(sum)
    })
}

/// C = A * B, one rank-1 update after the other: column k of A times row k of B, added to all of C.
///
/// a: (m, k), b: (k, n), result: (m, n).
///
/// # Errors
/// When A has not as many columns as B has rows, or there is no memory for C and its sums.
pub fn kij<T: Element>(
    a: MatrixRef<'_, T>,
    b: MatrixRef<'_, T>,
) -> Result<Matrix<T::Output>, Error> {
    let (c, depth) = output(a, b)?;
    let mut sums = Matrix::<T::Scalar>::zeros(c)?;
    if !c.is_empty() {
        for k in 0..depth {
            for (i, row) in sums.as_mut_slice().chunks_exact_mut(c.cols).enumerate() {
                let a = a[(i, k)];
                for (j, sum) in row.iter_mut().enumerate() {
                    *sum = multiply_add(*sum, a, b[(k, j)]);
                }
            }
        }
    }
    narrow::<T>(&sums)
}

/// C = A * B with each of the three loops cut into steps of 16 and 16 steps within.
///
/// The tutorial's sketch steps over `range(M, 16)`, which starts at M and does nothing where M is
/// 16 or more; it indexes C and A with `i` and B and C with `j` where it means `i + i0` and `j +
/// j0`, so that only every sixteenth row and column would be computed, sixteen times over; and it
/// takes sizes that 16 does not divide for such as it does. Here the steps start at 0, the inner
/// index is added everywhere, and the last step of each loop ends at the matrix's edge.
///
/// a: (m, k), b: (k, n), result: (m, n).
///
/// # Errors
/// When A has not as many columns as B has rows, or there is no memory for C and its sums.
pub fn unrolled_16<T: Element>(
    a: MatrixRef<'_, T>,
    b: MatrixRef<'_, T>,
) -> Result<Matrix<T::Output>, Error> {
    const STEP: usize = 16;
    let (c, depth) = output(a, b)?;
    let mut sums = Matrix::<T::Scalar>::zeros(c)?;
    if c.is_empty() {
        return narrow::<T>(&sums);
    }
    let data = sums.as_mut_slice();
    for i in steps(c.rows, STEP) {
        for i0 in 0..STEP.min(c.rows - i) {
            for j in steps(c.cols, STEP) {
                for j0 in 0..STEP.min(c.cols - j) {
                    let sum = &mut data[(i + i0) * c.cols + (j + j0)];
                    for k in steps(depth, STEP) {
                        for k0 in 0..STEP.min(depth - k) {
                            *sum = multiply_add(*sum, a[(i + i0, k + k0)], b[(k + k0, j + j0)]);
                        }
                    }
                }
            }
        }
    }
    narrow::<T>(&sums)
}

/// C = A * B tile by tile, as a GPU does it: a block for each TILE x TILE tile of C, which goes
/// through K in steps of TILE, copies a tile of A and a tile of B, and adds their product.
///
/// The tutorial's sketch has the index errors that [`unrolled_16`] lists. The tiles past an edge
/// are filled with zeros, as the tutorials' kernels fill them; the kernel of "Speed up matrix
/// multiplication 2" then writes past the edge of C, which this loop does not. The GEMM hierarchy's
/// sketch takes tiles that divide the shape, and adds to an `output` that it reads and writes in
/// every step; here a tile's sums are kept until they are complete.
///
/// a: (m, k), b: (k, n), result: (m, n).
///
/// # Errors
/// When A has not as many columns as B has rows, or there is no memory for C and its sums.
pub fn tiled<T: Element, const TILE: usize>(
    a: MatrixRef<'_, T>,
    b: MatrixRef<'_, T>,
) -> Result<Matrix<T::Output>, Error> {
    const { assert!(TILE > 0, "a tile has at least one element") };
    let (c, depth) = output(a, b)?;
    let mut result = Matrix::<T::Output>::zeros(c)?;
    if c.is_empty() {
        return Ok(result);
    }
    let data = result.as_mut_slice();
    for i in steps(c.rows, TILE) {
        for j in steps(c.cols, TILE) {
            let mut sums = [[T::Scalar::ZERO; TILE]; TILE];
            for k in steps(depth, TILE) {
                let tile_a: [[T; TILE]; TILE] = load(a, i, k);
                let tile_b: [[T; TILE]; TILE] = load(b, k, j);
                for i0 in 0..TILE {
                    for j0 in 0..TILE {
                        // The zeros past K's end stay out of the sums: -0 + 0 is 0, and 0 * inf is
                        // NaN.
                        for k0 in 0..TILE.min(depth - k) {
                            sums[i0][j0] =
                                multiply_add(sums[i0][j0], tile_a[i0][k0], tile_b[k0][j0]);
                        }
                    }
                }
            }
            for (i0, sums) in sums.iter().enumerate().take(c.rows - i) {
                for (j0, &sum) in sums.iter().enumerate().take(c.cols - j) {
                    data[(i + i0) * c.cols + (j + j0)] = T::narrow(sum);
                }
            }
        }
    }
    Ok(result)
}

/// The tile of `matrix` from (`row`, `col`) on, zeros where it reaches past the edge.
fn load<T: Element, const TILE: usize>(
    matrix: MatrixRef<'_, T>,
    row: usize,
    col: usize,
) -> [[T; TILE]; TILE] {
    std::array::from_fn(|i| {
        std::array::from_fn(|j| matrix.get(row + i, col + j).unwrap_or_default())
    })
}

/// 0, step, 2 * step, ... below `end`.
fn steps(end: usize, step: usize) -> impl Iterator<Item = usize> {
    (0..end).step_by(step)
}

fn multiply_add<T: Element>(sum: T::Scalar, a: T, b: T) -> T::Scalar {
    sum.plus(a.widen().times(b.widen()))
}

fn narrow<T: Element>(sums: &Matrix<T::Scalar>) -> Result<Matrix<T::Output>, Error> {
    Matrix::from_fn(sums.shape(), |i, j| T::narrow(sums[(i, j)]))
}

/// The shape of C, and K.
fn output<T: Element>(a: MatrixRef<'_, T>, b: MatrixRef<'_, T>) -> Result<(Shape, usize), Error> {
    let shape =
        crate::plan::output_shape(Default::default(), Default::default(), a.layout(), b.layout())?;
    Ok((shape, a.shape().cols))
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod tutorials;
