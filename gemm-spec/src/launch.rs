//! From a kernel and a C to grids: the launches that cover it.

use crate::order::{CLUSTER_GROUP, TileOrder};
use crate::{Kernel, Places, Shape, ThreadOrder, order};

/// The most blocks that a grid has along x (CUDA C++ Programming Guide, technical specifications).
pub const MAX_GRID_X: usize = (1 << 31) - 1;
/// The most blocks that a grid has along y.
pub const MAX_GRID_Y: usize = 65_535;

impl Kernel {
    /// Tiles of clusters of a kernel that [`joins`](Kernel::joins), in a C of `shape`.
    pub fn joined_tiles(&self, shape: Shape) -> u32 {
        let [rows, cols, _] = self.tiles.block.map(|extent| extent.max(1));
        let tiles = [shape.rows.div_ceil(rows), shape.cols.div_ceil(cols)];
        let tiles = tiles.map(|count| u32::try_from(count).unwrap_or(u32::MAX));
        order::side_by_side(tiles, self.cluster() as u32)
    }

    /// The launches that together compute a C of `shape`.
    ///
    /// The grid covers C with the block's tiles: x along the tiles of a row of C, y along those of
    /// a column; for [`ThreadOrder::AlongRows`] the other way round. Where y has more tiles than a
    /// grid may have blocks ([`MAX_GRID_Y`]), C is cut into panels, one launch each. An empty C
    /// needs no launch. `None` where x would need more than [`MAX_GRID_X`] blocks, or a tile is
    /// empty.
    pub fn launches(&self, shape: Shape) -> Option<Launches> {
        let [rows, cols, _] = self.tiles.block;
        if rows == 0 || cols == 0 {
            return None;
        }
        let tiles = Shape::new(shape.rows.div_ceil(rows), shape.cols.div_ceil(cols));
        if self.is_resident() {
            // All tiles in one row of blocks, whole clusters of them.
            let [down, across] = self.cluster_tiles();
            let (rows, cols) =
                (tiles.rows.next_multiple_of(down), tiles.cols.next_multiple_of(across));
            let x = rows.checked_mul(cols).filter(|&x| x <= MAX_GRID_X)?;
            let x = match self.joins() {
                true => self.cluster() * self.joined_tiles(shape) as usize,
                false => x.checked_mul(self.parts_of_cluster()).filter(|&x| x <= MAX_GRID_X)?,
            };
            let y = usize::from(!shape.is_empty());
            return Some(Launches { kernel: *self, shape, x, y, next_y: 0 });
        }
        let (x, y) = match self.order {
            ThreadOrder::AlongColumns => (tiles.cols, tiles.rows),
            ThreadOrder::AlongRows => (tiles.rows, tiles.cols),
        };
        let y = if shape.is_empty() { 0 } else { y };
        (x <= MAX_GRID_X).then_some(Launches { kernel: *self, shape, x, y, next_y: 0 })
    }

    /// The launch of so many slices (see [`Slices`](crate::Slices)), at least one: a layer of
    /// blocks for each; or no more blocks than run at one time, for a kernel whose blocks stay. For
    /// one that [`joins`](Kernel::joins) slices are the [`blocks_of_tile`](Kernel::blocks_of_tile).
    pub fn resident(&self, launch: Launch, slices: u32, places: Places) -> Launch {
        if !self.is_resident() {
            return Launch { layers: slices, ..launch };
        }
        let cluster = self.cluster() as u32;
        let blocks = cluster.saturating_mul(self.tiles.min_blocks as u32);
        let most = self.clusters_at_once(places).saturating_mul(blocks);
        let (x, y) = launch.grid;
        // Shares that end with tiles, where that leaves few multiprocessors without one.
        let most = match most.checked_div(x).map(|times| times * x) {
            Some(even) if self.joins() && u64::from(even) * 20 >= u64::from(most) * 19 => even,
            _ => most,
        };
        Launch { grid: (x.saturating_mul(slices).min(most), y), ..launch }
    }

    /// The order in which the clusters of a [`resident`](Kernel::resident) launch go through the
    /// tiles of so many slices, with sums of `k` products, or nothing for a kernel that takes none;
    /// row after row where it is asked for and the kernel can (see
    /// [`goes_by_rows`](Kernel::goes_by_rows)), or where that is faster for one product; on an idle
    /// GPU of these places where that is faster, see [`placing`](Kernel::placing).
    ///
    /// # Preconditions
    ///
    /// Those of [`TileOrder::new`].
    pub fn tile_order(
        &self,
        launch: &Launch,
        (slices, k): (u32, usize),
        by_rows: bool,
        places: Places,
    ) -> TileOrder {
        if !self.is_resident() || self.joins() {
            return TileOrder::default();
        }
        let cluster = self.cluster() as u32;
        let of_tiles = cluster / self.parts_of_cluster() as u32;
        let [rows, cols, depth] = self.tiles.block.map(|extent| extent.max(1));
        let count =
            |extent: usize, of: usize| u32::try_from(extent.div_ceil(of)).unwrap_or(u32::MAX);
        let tiles = [count(launch.shape.rows, rows), count(launch.shape.cols, cols)];
        let at_once = launch.grid.0 / cluster;
        let asked = by_rows && self.goes_by_rows();
        let placing = match slices {
            1 => self.placing(launch.shape, k, places),
            _ => Placing::Any,
        };
        let is_near = placing == Placing::Near;
        let gains = is_near || slices == 1 && self.gains_by_rows(launch.shape, k, at_once);
        let group = if asked || gains { 1 } else { CLUSTER_GROUP / of_tiles };
        let order = TileOrder::new(tiles, of_tiles, [slices, count(k, depth)], at_once, group);
        match placing {
            Placing::Any => order,
            Placing::Spread => order.spread(),
            Placing::Near => order.near(places.gpcs(), places.pairs_before()),
        }
    }

    /// Where the clusters of one product of that shape and K are to be on a GPU of these places:
    /// of one wave of clusters of two whose steps ask the L2 cache for more than it gives while
    /// they are multiplied. By measurements on an H200 (docs/performance.md).
    pub fn placing(&self, shape: Shape, k: usize, places: Places) -> Placing {
        /// Steps from which on more is gained than the start of the next kernel, half a
        /// microsecond, takes.
        const LEAST_STEPS: usize = 24;
        /// Cycles in which a multiprocessor gets a row of 128 bytes where all ask for rows of their
        /// own.
        const ROW: f64 = 4.1;
        /// Of tiles of 128 x 128, which gain nothing, 1.54 times as long as they are multiplied.
        const LEAST_RATIO: f64 = 1.6;
        let is_of_pairs = self.is_resident() && self.cluster() == 2 && !self.joins();
        if !is_of_pairs || self.parts_of_cluster() > 1 || places.gpcs() == 0 {
            return Placing::Any;
        }
        let [rows, cols, depth] = self.tiles.block;
        let asked = ROW * (rows + cols / 2) as f64;
        // What tensor cores take for rows of 128 bytes: 1024 cycles for 128 x 256.
        let multiplied = (rows * cols) as f64 / 32.0;
        if asked < LEAST_RATIO * multiplied || k.div_ceil(depth) < LEAST_STEPS {
            return Placing::Any;
        }
        let tiles = [shape.rows.div_ceil(rows), shape.cols.div_ceil(cols)];
        let tiles = tiles.map(|count| u32::try_from(count).unwrap_or(u32::MAX));
        let at_once = self.clusters_at_once(places);
        let clusters = order::of_clusters(tiles, 2, 1, at_once);
        match 10 * u64::from(clusters) {
            of_ten if of_ten <= 8 * u64::from(at_once) => Placing::Spread,
            of_ten if of_ten < 9 * u64::from(at_once) || clusters > at_once => Placing::Any,
            _ if self.swaps_operands() => Placing::Near,
            _ => Placing::Any,
        }
    }

    /// Whether `at_once` clusters that go through one product's tiles row after row are faster than
    /// by groups of rows, so that [`tile_order`](Kernel::tile_order) has them do so: B, which each
    /// row reads again, stays in the L2 cache, clusters at work at one time have two rows at least,
    /// and there are enough of both for them to be of many rows and of many columns. By
    /// measurements, whose reason is not known (docs/performance.md).
    pub fn gains_by_rows(&self, shape: Shape, k: usize, at_once: u32) -> bool {
        const MOST_BYTES_OF_B: usize = 40_000_000;
        const MOST_BYTES_OF_A: usize = 128_000_000;
        const LEAST_STEPS: usize = 16;
        if self.cluster() != 2 || self.parts_of_cluster() > 1 {
            return false;
        }
        let bytes =
            |extent: usize| extent.saturating_mul(k).saturating_mul(self.dtype.size_bytes());
        let [height, width, depth] = self.tiles.block;
        let (rows, cols) = (shape.rows.div_ceil(2 * height), shape.cols.div_ceil(width));
        let is_wide = (9..=at_once as usize / 2).contains(&cols) && rows >= 4;
        let is_tall = (4..9).contains(&cols) && rows >= 16;
        (is_wide || is_tall)
            && k.div_ceil(depth) >= LEAST_STEPS
            && bytes(shape.rows) <= MOST_BYTES_OF_A
            && bytes(shape.cols) <= MOST_BYTES_OF_B
    }
}

/// Where the clusters of a launch are to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placing {
    /// Wherever others end.
    Any,
    /// Evenly on all GPCs; see [`TileOrder::spread`].
    Spread,
    /// So, and those of neighbouring tiles on one GPC; see [`TileOrder::near`].
    Near,
}

/// One launch: a grid, and the panel of C that it computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Launch {
    /// Blocks along (x, y).
    pub grid: (u32, u32),
    /// Blocks along z.
    pub layers: u32,
    /// Threads of a block along (x, y).
    pub block: (u32, u32),
    /// Row and column of C at which the panel starts.
    pub start: (usize, usize),
    /// Rows and columns of the panel.
    pub shape: Shape,
}

/// Iterator over the launches of a product; see [`Kernel::launches`].
#[derive(Clone, Debug)]
pub struct Launches {
    kernel: Kernel,
    shape: Shape,
    x: usize,
    y: usize,
    next_y: usize,
}

impl Iterator for Launches {
    type Item = Launch;

    fn next(&mut self) -> Option<Launch> {
        let blocks = (self.y - self.next_y).min(MAX_GRID_Y);
        if blocks == 0 {
            return None;
        }
        let [tile_rows, tile_cols, _] = self.kernel.tiles.block;
        let tile = match self.kernel.order {
            ThreadOrder::AlongColumns => tile_rows,
            ThreadOrder::AlongRows => tile_cols,
        };
        let first = self.next_y * tile;
        let extent = blocks * tile;
        self.next_y += blocks;
        let Shape { rows, cols } = self.shape;
        if self.kernel.is_resident() {
            let (grid, block) = ((self.x as u32, 1), self.kernel.block());
            return Some(Launch { grid, layers: 1, block, start: (0, 0), shape: self.shape });
        }
        let (start, shape) = match self.kernel.order {
            ThreadOrder::AlongColumns => ((first, 0), Shape::new(extent.min(rows - first), cols)),
            ThreadOrder::AlongRows => ((0, first), Shape::new(rows, extent.min(cols - first))),
        };
        Some(Launch {
            grid: (self.x as u32, blocks as u32),
            layers: 1,
            block: self.kernel.block(),
            start,
            shape,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DType, Tiles, kernels};
    use std::vec::Vec;

    #[test]
    fn launches_cover_c_once() {
        let of_f32 = |kernel: &&Kernel| kernel.dtype == DType::F32 && !kernel.is_resident();
        for kernel in kernels().filter(of_f32) {
            let [rows, cols, _] = kernel.tiles.block;
            let tall = MAX_GRID_Y * rows.max(cols) * 2 + 3;
            for shape in [(1, 1), (8, 17), (tall, 9), (9, tall), (33, 64)] {
                let shape = Shape::new(shape.0, shape.1);
                let launches: Vec<_> = kernel.launches(shape).unwrap().collect();
                let area: usize = launches.iter().map(|l| l.shape.rows * l.shape.cols).sum();
                assert_eq!(area, shape.rows * shape.cols, "{} {shape}", kernel.name);
                for launch in &launches {
                    let along_rows = launch.shape.rows.div_ceil(rows);
                    let along_cols = launch.shape.cols.div_ceil(cols);
                    let (x, y) = match kernel.order {
                        ThreadOrder::AlongColumns => (along_cols, along_rows),
                        ThreadOrder::AlongRows => (along_rows, along_cols),
                    };
                    assert_eq!((launch.grid.0 as usize, launch.grid.1 as usize), (x, y));
                    assert!(launch.grid.1 as usize <= MAX_GRID_Y);
                    assert!(launch.start.0 + launch.shape.rows <= shape.rows);
                    assert!(launch.start.1 + launch.shape.cols <= shape.cols);
                }
                let mut starts: Vec<_> = launches.iter().map(|l| l.start).collect();
                starts.dedup();
                assert_eq!(starts.len(), launches.len());
            }
        }
    }

    #[test]
    fn empty_and_impossible_products() {
        let kernel = Kernel::find("k02_tiled_16", DType::F32).unwrap();
        assert_eq!(kernel.launches(Shape::new(0, 5)).unwrap().count(), 0);
        assert_eq!(kernel.launches(Shape::new(5, 0)).unwrap().count(), 0);
        assert!(kernel.launches(Shape::new(1, usize::MAX)).is_none());
        let none = Kernel { tiles: Tiles::square(0), ..*kernel };
        assert!(none.launches(Shape::new(1, 1)).is_none());
        let huge = Kernel { tiles: Tiles::square(usize::MAX), ..*kernel };
        assert!(huge.launches(Shape::new(1, 1)).is_some() && huge.shared_bytes() == usize::MAX);
    }
}
