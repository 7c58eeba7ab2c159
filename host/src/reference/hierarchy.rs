//! The loops of a GPU's product, level by level: block tile, warp tile, thread tile.
//!
//! ```text
//! for each block_m x block_n tile of C, in parallel:                    block
//!     for k in 0..K step block_k:
//!         shared_a = A[rows of the tile][k..k + block_k], transposed
//!         shared_b = B[k..k + block_k][columns of the tile]
//!         wait until both are written
//!         for each warp_m x warp_n tile of these, in parallel:          warp
//!             for each thread_m x thread_n tile of these, in parallel:  lane
//!                 for k0 in 0..block_k:
//!                     fragment_a = shared_a[k0][rows of the tile]
//!                     fragment_b = shared_b[k0][columns of the tile]
//!                     sums += fragment_a * fragment_b                   an outer product
//!         wait until both are read
//!     C[tile] = sums
//! ```
//!
//! Each level keeps what it reads nearer to the arithmetic and uses it more often: a block's
//! element of A, once in shared memory, serves block_n columns of C; a lane's, once in a register,
//! serves thread_n. [`matmul`] counts the reads of each level in a [`Traffic`]. Where the tiles
//! divide M, N and K, that is for MNK multiply-adds:
//!
//! | what | naive kernel | here |
//! |---|---|---|
//! | [`Traffic::global_loads`] | 2 MNK | MNK (1 / block_m + 1 / block_n) |
//! | [`Traffic::warp_loads`] | | MNK (1 / warp_m + 1 / warp_n) |
//! | [`Traffic::shared_loads`] | | MNK (1 / thread_m + 1 / thread_n) |
//!
//! At ragged edges the last tiles are computed whole and loaded in part; [`Traffic`] says how that
//! counts.
//!
//! The loops come from "A description of a simple GEMM hierarchy on Nvidia GPUs". What differs from
//! its sketch of the thread tile: the tiles need not divide M, N and K (the sketch says it the
//! other way round); a warp has 32 lanes, where the sketch's warps, with 4 x 8 elements in tiles of
//! 4 x 4, have two; sums stay in registers until they are complete, where the sketch reads and
//! writes `output` in each step; and a lane goes through the block's K one k at a time, with no
//! pieces in between for the warp.

mod tiles;

pub use tiles::{LANES, MAX_REGISTERS, MAX_SHARED_BYTES, MAX_THREADS, Tiles, TilesError};

use super::{multiply_add, output, steps};
use crate::element::{Element, Scalar};
use crate::error::{Error, Kind};
use crate::matrix::{Matrix, MatrixRef};
use gemm_spec::{Shape, order};

/// Rows of tiles in a group of [`order::grouped`]. No element of C depends on it.
const GROUP: u32 = 8;

/// What a product moved and computed, counted while it ran: elements, and multiply-adds.
///
/// In the formulas tiles_m = ceil(M / block_m), tiles_n = ceil(N / block_n), and M', N', K' are M,
/// N, K rounded up to multiples of block_m, block_n, block_k.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Elements of A and B read from global memory: M K tiles_n + K N tiles_m. What lies outside of
    /// a matrix is not read.
    pub global_loads: u64,
    /// Elements of C written to global memory: M N.
    pub global_stores: u64,
    /// Elements written to shared memory, zeros past an edge among them: M' K' tiles_n + K' N'
    /// tiles_m.
    pub shared_stores: u64,
    /// Elements read from shared memory by lanes: M' N' K' (1 / thread_m + 1 / thread_n).
    pub shared_loads: u64,
    /// The same, with what several lanes of a warp read by one instruction from one address counted
    /// once, because it is one read and a broadcast: M' N' K' (1 / warp_m + 1 / warp_n).
    pub warp_loads: u64,
    /// Multiply-adds of all lanes: M' N' K'.
    pub multiply_adds: u64,
}

/// C = A * B by the hierarchy of `tiles`, and what it took.
///
/// a: (m, k), b: (k, n), result: (m, n), of any sizes and strides.
///
/// The bits are those of [`ijk`](super::ijk): each lane adds its products in the order of k.
///
/// ```
/// use gemmite::{Shape, random, reference};
/// use gemmite::reference::hierarchy::{self, Tiles};
///
/// let tiles = Tiles {
///     block_m: 32,
///     block_n: 64,
///     block_k: 8,
///     warp_m: 16,
///     warp_n: 32,
///     thread_m: 4,
///     thread_n: 4,
/// };
/// let (m, n, k) = (96, 128, 40); // The tiles divide them; they need not.
/// let a = random::normal::<f32>(Shape::new(m, k), 1)?;
/// let b = random::normal::<f32>(Shape::new(k, n), 2)?;
/// let (c, traffic) = hierarchy::matmul(tiles, a.view(), b.view())?;
/// assert_eq!(c, reference::ijk(a.view(), b.view())?);
///
/// let mnk = (m * n * k) as u64;
/// assert_eq!(traffic.multiply_adds, mnk);
/// assert_eq!(traffic.shared_loads, mnk / 4 + mnk / 4);
/// assert_eq!(traffic.warp_loads, mnk / 16 + mnk / 32);
/// assert_eq!(traffic.global_loads, mnk / 32 + mnk / 64);
/// # Ok::<(), gemmite::Error>(())
/// ```
///
/// # Errors
/// When A has not as many columns as B has rows, when no kernel can have the tiles
/// ([`Error::is_unsupported`]; [`Tiles::check`] says why), or there is no memory for C.
pub fn matmul<T: Element>(
    tiles: Tiles,
    a: MatrixRef<'_, T>,
    b: MatrixRef<'_, T>,
) -> Result<(Matrix<T::Output>, Traffic), Error> {
    let refused = |source| Error::new(Kind::Tiles { tiles, dtype: T::DTYPE, source });
    let (shape, depth) = output(a, b)?;
    tiles.check(T::DTYPE).map_err(refused)?;
    let (tiles_m, tiles_n) = tiles.grid(shape).map_err(refused)?;
    let mut c = Matrix::zeros(shape)?;
    let mut traffic = Traffic::default();
    // On a GPU the blocks run in parallel, a wave of them at a time.
    for linear in 0..tiles_m * tiles_n {
        let (tile_m, tile_n) = order::grouped(linear, tiles_m, tiles_n, GROUP);
        let corner = (tile_m as usize * tiles.block_m, tile_n as usize * tiles.block_n);
        let mut block = Block::new(tiles, corner);
        for k in steps(depth, tiles.block_k) {
            block.load(a, b, k, &mut traffic);
            // A barrier: no warp reads before every warp has written,
            block.multiply(&mut traffic);
            // and another: no warp writes before every warp has read.
        }
        block.store::<T>(&mut c, &mut traffic);
    }
    Ok((c, traffic))
}

/// A thread block: computes the tile of C from (`row`, `col`) on.
struct Block<S> {
    tiles: Tiles,
    row: usize,
    col: usize,
    /// (block_k, block_m), row-major: A transposed, so that the rows of a fragment lie side by
    /// side, and a lane can load several by one instruction.
    shared_a: Vec<S>,
    /// (block_k, block_n), row-major.
    shared_b: Vec<S>,
    warps: Vec<Warp<S>>,
}

/// A warp: computes the tile of the block's tile from (`row`, `col`) on.
///
/// Its registers are arrays of 32, as in the register file: `sums[r][lane]` is register r of that
/// lane, and no lane reads another's.
struct Warp<S> {
    row: usize,
    col: usize,
    /// thread_m registers.
    fragment_a: Vec<[S; LANES]>,
    /// thread_n registers.
    fragment_b: Vec<[S; LANES]>,
    /// thread_m * thread_n registers: (i, j) of the thread's tile is i * thread_n + j.
    sums: Vec<[S; LANES]>,
}

impl<S: Scalar> Block<S> {
    fn new(tiles: Tiles, (row, col): (usize, usize)) -> Self {
        let warps_n = tiles.block_n / tiles.warp_n;
        let registers = |count| vec![[S::ZERO; LANES]; count];
        let warp = |warp: usize| Warp {
            row: warp / warps_n * tiles.warp_m,
            col: warp % warps_n * tiles.warp_n,
            fragment_a: registers(tiles.thread_m),
            fragment_b: registers(tiles.thread_n),
            sums: registers(tiles.thread_m * tiles.thread_n),
        };
        Block {
            tiles,
            row,
            col,
            shared_a: vec![S::ZERO; tiles.block_k * tiles.block_m],
            shared_b: vec![S::ZERO; tiles.block_k * tiles.block_n],
            warps: (0..tiles.warps()).map(warp).collect(),
        }
    }

    /// Fills the tiles in shared memory with A(row.., k..) and B(k.., col..); past an edge with
    /// zeros. On a GPU the block's threads share the elements out: neighbours take neighbours in
    /// global memory, for A of a row, and write them to shared memory a row apart.
    fn load<T: Element<Scalar = S>>(
        &mut self,
        a: MatrixRef<'_, T>,
        b: MatrixRef<'_, T>,
        k: usize,
        traffic: &mut Traffic,
    ) {
        let Tiles { block_m, block_n, block_k, .. } = self.tiles;
        let mut masked = |element: Option<T>| {
            traffic.global_loads += u64::from(element.is_some());
            traffic.shared_stores += 1;
            element.map_or(S::ZERO, T::widen)
        };
        for i in 0..block_m {
            for k0 in 0..block_k {
                self.shared_a[k0 * block_m + i] = masked(a.get(self.row + i, k + k0));
            }
        }
        for k0 in 0..block_k {
            for j in 0..block_n {
                self.shared_b[k0 * block_n + j] = masked(b.get(k + k0, self.col + j));
            }
        }
    }

    /// Adds the product of the tiles in shared memory to the sums.
    ///
    /// The zeros past K's end take part, as in a kernel, whose loop is unrolled for all of block_k.
    /// They change nothing: zeros of A meet zeros of B there and no infinity, and a sum that starts
    /// at 0 is never the -0 to which adding 0 makes a difference.
    fn multiply(&mut self, traffic: &mut Traffic) {
        let Tiles { block_m, block_n, block_k, .. } = self.tiles;
        // On a GPU the warps run in parallel.
        for warp in &mut self.warps {
            for k0 in 0..block_k {
                let row_a = &self.shared_a[k0 * block_m..][..block_m];
                let row_b = &self.shared_b[k0 * block_n..][..block_n];
                warp.outer_product(&self.tiles, row_a, row_b, traffic);
            }
        }
    }

    /// The epilogue: writes the sums, but none outside of C.
    fn store<T: Element<Scalar = S>>(&self, c: &mut Matrix<T::Output>, traffic: &mut Traffic) {
        let Tiles { thread_m, thread_n, .. } = self.tiles;
        let Shape { rows, cols } = c.shape();
        let data = c.as_mut_slice();
        for warp in &self.warps {
            for lane in 0..LANES {
                let (lane_row, lane_col) = warp.lane(&self.tiles, lane);
                for i in 0..thread_m {
                    for j in 0..thread_n {
                        let (row, col) = (self.row + lane_row + i, self.col + lane_col + j);
                        if row < rows && col < cols {
                            data[row * cols + col] = T::narrow(warp.sums[i * thread_n + j][lane]);
                            traffic.global_stores += 1;
                        }
                    }
                }
            }
        }
    }
}

impl<S: Scalar> Warp<S> {
    /// Row and column within the block's tile at which the thread tile of `lane` starts.
    fn lane(&self, tiles: &Tiles, lane: usize) -> (usize, usize) {
        let (_, lanes_n) = tiles.lanes();
        let (lane_m, lane_n) = (lane / lanes_n, lane % lanes_n);
        (self.row + lane_m * tiles.thread_m, self.col + lane_n * tiles.thread_n)
    }

    /// For one k: loads each lane's fragments from that row of the shared tiles, and adds their
    /// outer product to its sums. Each iteration of the loops over `i` and `j` is one instruction
    /// of the warp.
    fn outer_product(&mut self, tiles: &Tiles, row_a: &[S], row_b: &[S], traffic: &mut Traffic) {
        let places: [(usize, usize); LANES] = std::array::from_fn(|lane| self.lane(tiles, lane));
        for (i, register) in self.fragment_a.iter_mut().enumerate() {
            *register = load_shared(row_a, places.map(|(row, _)| row + i), traffic);
        }
        for (j, register) in self.fragment_b.iter_mut().enumerate() {
            *register = load_shared(row_b, places.map(|(_, col)| col + j), traffic);
        }
        for (i, a) in self.fragment_a.iter().enumerate() {
            for (j, b) in self.fragment_b.iter().enumerate() {
                let sums = &mut self.sums[i * tiles.thread_n + j];
                for lane in 0..LANES {
                    sums[lane] = multiply_add(sums[lane], a[lane], b[lane]);
                }
                traffic.multiply_adds += LANES as u64;
            }
        }
    }
}

/// A warp's load from shared memory: each lane names an index. (Bank conflicts are not looked at.)
fn load_shared<S: Scalar>(
    shared: &[S],
    indices: [usize; LANES],
    traffic: &mut Traffic,
) -> [S; LANES] {
    let mut sorted = indices;
    sorted.sort_unstable();
    let distinct = 1 + sorted.windows(2).filter(|pair| pair[0] != pair[1]).count();
    traffic.shared_loads += LANES as u64;
    traffic.warp_loads += distinct as u64;
    indices.map(|index| shared[index])
}

#[cfg(test)]
mod tests;
