//! The table of kernels and their launch geometry.

use crate::{DType, Shape};

/// The most blocks that a grid has along x (CUDA C++ Programming Guide, technical specifications).
pub const MAX_GRID_X: usize = (1 << 31) - 1;
/// The most blocks that a grid has along y.
pub const MAX_GRID_Y: usize = 65_535;

/// The algorithm of a kernel: one body in the device crate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KernelFamily {
    /// One thread an output element, operands straight from global memory (`k01_naive`).
    Naive,
    /// One thread an output element, operands through square tiles in shared memory (`k02_tiled`).
    Tiled,
}

impl KernelFamily {
    /// The module that holds the family's kernels.
    pub const fn target(self) -> Target {
        match self {
            KernelFamily::Naive | KernelFamily::Tiled => Target::Sm70,
        }
    }
}

/// Which way the x index of a thread runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ThreadOrder {
    /// x along the columns of C: neighbouring threads touch neighbouring addresses of row-major
    /// data, so a warp's accesses coalesce.
    AlongColumns,
    /// x along the rows of C: neighbouring threads are a row stride apart. Slower on row-major
    /// data, kept to be measured.
    AlongRows,
}

/// What a PTX module is compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Target {
    /// Compute capability 7.0 and later.
    Sm70,
}

impl Target {
    /// Every target; one PTX file each.
    pub const ALL: [Target; 1] = [Target::Sm70];

    /// The name for `.target` in PTX and in file names.
    pub const fn arch(self) -> &'static str {
        match self {
            Target::Sm70 => "sm_70",
        }
    }

    /// The least compute capability (major, minor) that runs it.
    pub const fn min_capability(self) -> (u32, u32) {
        match self {
            Target::Sm70 => (7, 0),
        }
    }

    /// The PTX ISA version (major, minor) it is written in; a driver that loads it knows at least
    /// this one.
    pub const fn ptx_version(self) -> (u32, u32) {
        match self {
            Target::Sm70 => (7, 0),
        }
    }
}

/// One kernel: an entry point of a PTX module, and what the host has to know to launch it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kernel {
    /// The entry point: the variant's name and the dtype's, as in `k02_tiled_16_f32`.
    pub name: &'static str,
    /// The name without the dtype, by which a user chooses: `k02_tiled_16`.
    pub variant: &'static str,
    /// Its algorithm.
    pub family: KernelFamily,
    /// Its elements.
    pub dtype: DType,
    /// Rows and columns of C that one block computes; a block has `tile * tile` threads.
    pub tile: usize,
    /// Which way the x index of its threads runs.
    pub order: ThreadOrder,
    /// The module that holds it.
    pub target: Target,
}

/// Calls `$with!` once with every `k01_naive` kernel: entry point, variant, element, tile, thread
/// order.
///
/// A kernel of the family is registered here and nowhere else: the device crate makes its entry
/// points from this list, and the table is filled from it.
#[macro_export]
macro_rules! k01_naive_kernels {
    ($with:ident) => {
        $with! {
            (k01_naive_i32, "k01_naive", i32, 16, AlongColumns),
            (k01_naive_f16, "k01_naive", f16, 16, AlongColumns),
            (k01_naive_bf16, "k01_naive", bf16, 16, AlongColumns),
            (k01_naive_f32, "k01_naive", f32, 16, AlongColumns),
            (k01_naive_f64, "k01_naive", f64, 16, AlongColumns),
            (k01_naive_uncoalesced_i32, "k01_naive_uncoalesced", i32, 16, AlongRows),
            (k01_naive_uncoalesced_f16, "k01_naive_uncoalesced", f16, 16, AlongRows),
            (k01_naive_uncoalesced_bf16, "k01_naive_uncoalesced", bf16, 16, AlongRows),
            (k01_naive_uncoalesced_f32, "k01_naive_uncoalesced", f32, 16, AlongRows),
            (k01_naive_uncoalesced_f64, "k01_naive_uncoalesced", f64, 16, AlongRows),
        }
    };
}

/// Calls `$with!` once with every `k02_tiled` kernel: entry point, variant, element, tile, thread
/// order.
///
/// A kernel of the family is registered here and nowhere else: the device crate makes its entry
/// points from this list, and the table is filled from it.
#[macro_export]
macro_rules! k02_tiled_kernels {
    ($with:ident) => {
        $with! {
            (k02_tiled_8_i32, "k02_tiled_8", i32, 8, AlongColumns),
            (k02_tiled_8_f16, "k02_tiled_8", f16, 8, AlongColumns),
            (k02_tiled_8_bf16, "k02_tiled_8", bf16, 8, AlongColumns),
            (k02_tiled_8_f32, "k02_tiled_8", f32, 8, AlongColumns),
            (k02_tiled_8_f64, "k02_tiled_8", f64, 8, AlongColumns),
            (k02_tiled_16_i32, "k02_tiled_16", i32, 16, AlongColumns),
            (k02_tiled_16_f16, "k02_tiled_16", f16, 16, AlongColumns),
            (k02_tiled_16_bf16, "k02_tiled_16", bf16, 16, AlongColumns),
            (k02_tiled_16_f32, "k02_tiled_16", f32, 16, AlongColumns),
            (k02_tiled_16_f64, "k02_tiled_16", f64, 16, AlongColumns),
            (k02_tiled_32_i32, "k02_tiled_32", i32, 32, AlongColumns),
            (k02_tiled_32_f16, "k02_tiled_32", f16, 32, AlongColumns),
            (k02_tiled_32_bf16, "k02_tiled_32", bf16, 32, AlongColumns),
            (k02_tiled_32_f32, "k02_tiled_32", f32, 32, AlongColumns),
            (k02_tiled_32_f64, "k02_tiled_32", f64, 32, AlongColumns),
            (k02_tiled_16_uncoalesced_i32, "k02_tiled_16_uncoalesced", i32, 16, AlongRows),
            (k02_tiled_16_uncoalesced_f16, "k02_tiled_16_uncoalesced", f16, 16, AlongRows),
            (k02_tiled_16_uncoalesced_bf16, "k02_tiled_16_uncoalesced", bf16, 16, AlongRows),
            (k02_tiled_16_uncoalesced_f32, "k02_tiled_16_uncoalesced", f32, 16, AlongRows),
            (k02_tiled_16_uncoalesced_f64, "k02_tiled_16_uncoalesced", f64, 16, AlongRows),
        }
    };
}

macro_rules! dtype {
    (i32) => {
        DType::I32
    };
    (f16) => {
        DType::F16
    };
    (bf16) => {
        DType::BF16
    };
    (f32) => {
        DType::F32
    };
    (f64) => {
        DType::F64
    };
}

/// One row of the table from a line of a family's list; the family and its target come from the
/// caller.
macro_rules! rows {
    ($(($name:ident, $variant:literal, $element:ident, $tile:literal, $order:ident),)*) => {
        &[$(Kernel {
            name: stringify!($name),
            variant: $variant,
            family: FAMILY,
            dtype: dtype!($element),
            tile: $tile,
            order: ThreadOrder::$order,
            target: FAMILY.target(),
        }),*]
    };
}

static NAIVE: &[Kernel] = {
    const FAMILY: KernelFamily = KernelFamily::Naive;
    k01_naive_kernels!(rows)
};

static TILED: &[Kernel] = {
    const FAMILY: KernelFamily = KernelFamily::Tiled;
    k02_tiled_kernels!(rows)
};

/// Every kernel, family by family.
pub fn kernels() -> impl Iterator<Item = &'static Kernel> + Clone {
    [NAIVE, TILED].into_iter().flatten()
}

/// The names by which a user chooses a kernel, each once, in the table's order.
pub fn variants() -> impl Iterator<Item = &'static str> + Clone {
    // Every variant has an f32 instance (a test holds the table to it).
    kernels().filter(|kernel| kernel.dtype == DType::F32).map(|kernel| kernel.variant)
}

impl Kernel {
    /// The instance of `variant` for `dtype`.
    pub fn find(variant: &str, dtype: DType) -> Option<&'static Kernel> {
        kernels().find(|kernel| kernel.variant == variant && kernel.dtype == dtype)
    }

    /// Threads of a block along (x, y).
    pub const fn block(&self) -> (u32, u32) {
        (self.tile as u32, self.tile as u32)
    }

    /// Bytes of statically declared shared memory of a block.
    pub const fn shared_bytes(&self) -> usize {
        match self.family {
            KernelFamily::Naive => 0,
            KernelFamily::Tiled => {
                let sum_bytes = self.dtype.accumulator().size_bytes();
                self.tile.saturating_mul(self.tile).saturating_mul(2 * sum_bytes)
            }
        }
    }

    /// The launches that together compute a C of `shape`.
    ///
    /// The grid covers C with square tiles: x along the tiles of a row of C, y along those of a
    /// column; for [`ThreadOrder::AlongRows`] the other way round. Where y has more tiles than a
    /// grid may have blocks ([`MAX_GRID_Y`]), C is cut into panels, one launch each. An empty C
    /// needs no launch. `None` where x would need more than [`MAX_GRID_X`] blocks, or the tile is
    /// 0.
    pub fn launches(&self, shape: Shape) -> Option<Launches> {
        if self.tile == 0 {
            return None;
        }
        let tiles = Shape::new(shape.rows.div_ceil(self.tile), shape.cols.div_ceil(self.tile));
        let (x, y) = match self.order {
            ThreadOrder::AlongColumns => (tiles.cols, tiles.rows),
            ThreadOrder::AlongRows => (tiles.rows, tiles.cols),
        };
        let y = if shape.is_empty() { 0 } else { y };
        (x <= MAX_GRID_X).then_some(Launches { kernel: *self, shape, x, y, next_y: 0 })
    }
}

/// One launch: a grid, and the panel of C that it computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Launch {
    /// Blocks along (x, y).
    pub grid: (u32, u32),
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
        let first = self.next_y * self.kernel.tile;
        let extent = blocks * self.kernel.tile;
        self.next_y += blocks;
        let Shape { rows, cols } = self.shape;
        let (start, shape) = match self.kernel.order {
            ThreadOrder::AlongColumns => ((first, 0), Shape::new(extent.min(rows - first), cols)),
            ThreadOrder::AlongRows => ((0, first), Shape::new(rows, extent.min(cols - first))),
        };
        Some(Launch {
            grid: (self.x as u32, blocks as u32),
            block: self.kernel.block(),
            start,
            shape,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;
    use std::format;
    use std::vec::Vec;

    #[test]
    fn names_are_variant_and_dtype_and_unique() {
        let mut seen = HashSet::new();
        for kernel in kernels() {
            assert_eq!(kernel.name, format!("{}_{}", kernel.variant, kernel.dtype));
            assert!(seen.insert(kernel.name), "{} is registered twice", kernel.name);
            assert_eq!(Kernel::find(kernel.variant, kernel.dtype), Some(kernel));
        }
        assert_eq!(Kernel::find("k99", DType::F32), None);
    }

    #[test]
    fn every_variant_has_every_dtype() {
        for variant in kernels().map(|kernel| kernel.variant) {
            for dtype in DType::ALL {
                assert!(Kernel::find(variant, dtype).is_some(), "{variant} lacks {dtype}");
            }
        }
        assert_eq!(variants().count() * DType::ALL.len(), kernels().count());
    }

    #[test]
    fn blocks_respect_every_gpu_of_their_target() {
        for kernel in kernels() {
            assert!(kernel.tile * kernel.tile <= 1024, "{}", kernel.name);
            assert!(kernel.shared_bytes() <= 48 * 1024, "{}", kernel.name);
        }
    }

    #[test]
    fn launches_cover_c_once() {
        let tall = MAX_GRID_Y * 8 * 2 + 3;
        for kernel in kernels().filter(|kernel| kernel.dtype == DType::F32) {
            for shape in [(1, 1), (8, 17), (tall, 9), (9, tall), (33, 64)] {
                let shape = Shape::new(shape.0, shape.1);
                let launches: Vec<_> = kernel.launches(shape).unwrap().collect();
                let area: usize = launches.iter().map(|l| l.shape.rows * l.shape.cols).sum();
                assert_eq!(area, shape.rows * shape.cols, "{} {shape}", kernel.name);
                for launch in &launches {
                    let (x, y) = match kernel.order {
                        ThreadOrder::AlongColumns => (launch.shape.cols, launch.shape.rows),
                        ThreadOrder::AlongRows => (launch.shape.rows, launch.shape.cols),
                    };
                    assert_eq!(launch.grid.0 as usize, x.div_ceil(kernel.tile));
                    assert_eq!(launch.grid.1 as usize, y.div_ceil(kernel.tile));
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
    }
}
