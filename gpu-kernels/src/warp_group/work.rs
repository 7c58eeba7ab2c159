//! What a cluster computes: the tiles of one product and its slices, or of a list of products that
//! have shapes of their own.

use super::tiles::{ClusterTiles, Place, first_step};
use super::{GROUP_ROWS, Geometry, Maps, Operands, Side, WarpGroup};
use crate::k_of;
use core::marker::PhantomData;
use core::ptr;
use cuda_std::tma::{self, TensorMap};
use cuda_std::{cluster, grid, misc};
use gemm_spec::{DIRECT_ROWS, GROUPED_MAX, GemmParams, GroupedProduct, halves_boxes};

/// The tiles that are left to a cluster, one after the other, and the product of each. All threads
/// that go through it see the same tiles.
pub trait Work<T: WarpGroup, G>: Clone {
    /// Whether it is one product, or slices of one shape: only these have C's old values brought
    /// near. For lists there are no registers.
    const IS_ONE: bool;
    /// Whether its products get epilogues.
    const EPILOGUES: bool;
    /// Whether A and B come by maps of every eighth row, and are cut out of chunks.
    const IS_DIRECT: bool = false;

    /// Has maps brought near, for the first copies not to wait for them: of a list those of the
    /// first product, with which most blocks begin.
    ///
    /// # Safety
    /// There are maps.
    #[inline(always)]
    unsafe fn prefetch_maps(&self) {
        // SAFETY: the caller's promise.
        unsafe { self.operands().prefetch_maps() };
    }

    /// Deals out tiles of `width` columns. Where [`Self::next`] reads memory, this waits until the
    /// kernels before this one have ended, which may write there.
    fn begin(&mut self, width: usize);

    /// Columns of a tile where they are fewer than the kernel's; else 0.
    #[inline(always)]
    fn tile_cols(&self) -> u32 {
        0
    }

    /// Rows that a tile's copy brings, of A and of B.
    fn box_rows<A: Side<T>, B: Side<T>>(&self) -> [u32; 2];

    /// Whether the boxes of A are [halved](gemm_spec::halves_boxes).
    #[inline(always)]
    fn halves_boxes<A: Side<T>>(&self) -> bool {
        false
    }

    /// Where this block's part of the next tile starts; what the other methods say is of that
    /// tile's product from here on.
    fn next(&mut self) -> Option<Place>;

    /// Reads what [`Self::operands`] and [`Self::params`] have of the tile's product, which is not
    /// kept in registers while tiles are multiplied. Where they are parameters, they are read
    /// wherever they are used.
    #[inline(always)]
    fn read(&mut self) {}

    /// The product's operands, as [`Self::read`] found them.
    fn operands(&self) -> &Operands<T>;

    /// Its block, likewise. Rows of C end where its m does.
    fn params(&self) -> &GemmParams<T::Sum>;

    /// Steps of the sums of a slice; at least one.
    fn steps(&self, slice: u32) -> u32;

    /// The step along K with which a tile begins, of a B that is read in rows along K or is not.
    #[inline(always)]
    fn first_step(&self, _tile: Place, _steps: u32, _b_along_k: bool) -> u32 {
        0
    }

    /// Whether the tile takes K from its last step back, since the tile before took it from the
    /// first.
    #[inline(always)]
    fn is_turned(&self) -> bool {
        false
    }

    /// Whether each byte of B is read once while those of A are read again and again, so that B
    /// need not stay in the L2 cache.
    #[inline(always)]
    fn reads_b_once(&self) -> bool {
        false
    }

    /// Where the slice's K starts in the maps of A and B.
    fn first_k(&self, slice: u32) -> u32;

    /// K from a step of a slice to the next.
    #[inline(always)]
    fn next_k(&self) -> u32 {
        T::DEPTH
    }

    /// The numbers of the slice's matrices in the maps of A and B.
    #[inline(always)]
    fn numbers(&self, _slice: u32) -> [i32; 2] {
        [0; 2]
    }

    /// The first elements of A and B of all slices, where they have maps of every eighth row.
    #[inline(always)]
    fn sources(&self) -> [*const T; 2] {
        [ptr::null(); 2]
    }

    /// The maps of every eighth row of A and B, where they have such.
    #[inline(always)]
    fn row_maps(&self) -> *const Maps {
        ptr::null()
    }

    /// Whether a box of C may be written whose first row is `row`: as far as it lies in C's map, it
    /// is the product's.
    #[inline(always)]
    fn has_box(&self, _row: u64) -> bool {
        true
    }

    /// Joins a group's sums of the tile with those that other clusters have of it. Whether they are
    /// all of the tile's then, and this one writes them.
    ///
    /// # Safety
    /// By all threads of the group of that number of those that multiply; no sums are on their way.
    #[inline(always)]
    unsafe fn join<const SUMS: usize>(&self, _: &mut [T::Sum; SUMS], _: usize) -> bool {
        true
    }
}

/// One product, or slices of one shape, of operands that have a map or one for every eighth
/// row; in tiles that may have fewer columns than the kernel's, or not.
#[derive(Clone, Copy)]
pub struct OneProduct<'a, T: WarpGroup, G, const DIRECT: bool, const NARROW: bool> {
    operands: &'a Operands<T>,
    p: &'a GemmParams<T::Sum>,
    sources: [*const T; 2],
    row_maps: *const Maps,
    /// The next tile's number.
    next: u32,
    /// How many tiles the cluster has taken.
    taken: u32,
    /// Columns of a tile.
    width: u32,
    geometry: PhantomData<G>,
}

impl<'a, T: WarpGroup, G, const DIRECT: bool, const NARROW: bool>
    OneProduct<'a, T, G, DIRECT, NARROW>
{
    #[inline(always)]
    fn of(operands: &'a Operands<T>, p: &'a GemmParams<T::Sum>, sources: [*const T; 2]) -> Self {
        let row_maps = ptr::null();
        OneProduct {
            operands,
            p,
            sources,
            row_maps,
            next: 0,
            taken: 0,
            width: 0,
            geometry: PhantomData,
        }
    }
}

impl<'a, T: WarpGroup, G: Geometry> OneProduct<'a, T, G, false, false> {
    /// All of it, of operands that have maps.
    #[inline(always)]
    pub fn new(operands: &'a Operands<T>, p: &'a GemmParams<T::Sum>) -> Self {
        OneProduct::of(operands, p, [ptr::null(); 2])
    }
}

impl<'a, T: WarpGroup, G: Geometry> OneProduct<'a, T, G, false, true> {
    /// All of it, of operands that have maps, in tiles of as many columns as the block says.
    #[inline(always)]
    pub fn narrow(operands: &'a Operands<T>, p: &'a GemmParams<T::Sum>) -> Self {
        OneProduct::of(operands, p, [ptr::null(); 2])
    }
}

impl<'a, T: WarpGroup, G: Geometry> OneProduct<'a, T, G, true, false> {
    /// All of it, of operands that begin there and have those maps.
    #[inline(always)]
    pub fn direct(
        operands: &'a Operands<T>,
        p: &'a GemmParams<T::Sum>,
        sources: [*const T; 2],
        row_maps: &'a Maps,
    ) -> Self {
        OneProduct { row_maps, ..OneProduct::of(operands, p, sources) }
    }
}

impl<T: WarpGroup, G: Geometry, const DIRECT: bool, const NARROW: bool> Work<T, G>
    for OneProduct<'_, T, G, DIRECT, NARROW>
{
    const IS_ONE: bool = true;
    const EPILOGUES: bool = !DIRECT && !NARROW;
    const IS_DIRECT: bool = DIRECT;

    #[inline(always)]
    fn begin(&mut self, width: usize) {
        self.width = if self.tile_cols() == 0 { width as u32 } else { self.tile_cols() };
        let clusters = cluster::cluster_dim_x();
        self.next = self.p.order.first(cluster::cluster_idx_x(), clusters);
    }

    #[inline(always)]
    fn tile_cols(&self) -> u32 {
        if NARROW { self.p.slices.tile_cols } else { 0 }
    }

    #[inline(always)]
    fn box_rows<A: Side<T>, B: Side<T>>(&self) -> [u32; 2] {
        if DIRECT || G::IN_STEP {
            return [GROUP_ROWS as u32; 2];
        }
        let (of_a, of_b) = (A::box_rows(self.p.m, self.p.k), B::box_rows(self.p.n, self.p.k));
        match self.tile_cols() {
            0 => [of_a, of_b],
            cols => [of_a, of_b.min(cols)],
        }
    }

    #[inline(always)]
    fn halves_boxes<A: Side<T>>(&self) -> bool {
        A::IS_HALVED || A::ALONG_K && !DIRECT && !G::IN_STEP && halves_boxes(self.p.m)
    }

    #[inline(always)]
    fn next(&mut self) -> Option<Place> {
        let (slice, at) = self.p.order.place(self.next, G::CLUSTER as u32)?;
        self.next += cluster::cluster_dim_x();
        self.taken += 1;
        let tile = [(G::GROUPS * GROUP_ROWS) as u32, self.width];
        Some(Place::of_block(at, G::CLUSTER, tile, slice))
    }

    #[inline(always)]
    fn is_turned(&self) -> bool {
        self.p.order.is_turned(self.taken)
    }

    #[inline(always)]
    fn operands(&self) -> &Operands<T> {
        self.operands
    }

    #[inline(always)]
    fn params(&self) -> &GemmParams<T::Sum> {
        self.p
    }

    /// K is not 0.
    #[inline(always)]
    fn steps(&self, slice: u32) -> u32 {
        let steps = k_of(self.p, slice).div_ceil(T::DEPTH.into()) as u32;
        match G::PARTS {
            1 => steps,
            // Of one step the other block's lies behind K, where copies bring zeros.
            _ if cluster::block_rank() == 0 => steps.div_ceil(2),
            _ => (steps / 2).max(1),
        }
    }

    #[inline(always)]
    fn first_step(&self, tile: Place, steps: u32, b_along_k: bool) -> u32 {
        // Tiles one below the other want rows of A that all others want too, at one time, and
        // neighbours read one line of a B that lies along its columns.
        let is_alone = G::CLUSTER == 1 || tile.is_beside;
        if G::IN_STEP || G::PARTS > 1 || !is_alone || !b_along_k {
            return 0;
        }
        let order = &self.p.order;
        let step = first_step(order.rows, tile.col as u32 / self.width, G::CLUSTER as u32);
        // The last slice may have fewer.
        if steps == order.steps { order.step(step) } else { step % steps }
    }

    /// There is one row of tiles; of blocks that are alone, more than run at one time.
    #[inline(always)]
    fn reads_b_once(&self) -> bool {
        let order = &self.p.order;
        let is_wave = G::PARTS == 1 && order.cols <= cluster::cluster_dim_x();
        order.rows == 1 && self.p.slices.count == 1 && !is_wave
    }

    #[inline(always)]
    fn first_k(&self, slice: u32) -> u32 {
        let of_slice = slice * self.p.slices.map_k;
        if G::PARTS == 1 || cluster::block_rank() == 0 {
            return of_slice;
        }
        let steps = k_of(self.p, slice).div_ceil(T::DEPTH.into()) as u32;
        of_slice + steps.div_ceil(2) * T::DEPTH
    }

    /// Parts of K take its steps in turn, where blocks are in step.
    #[inline(always)]
    fn next_k(&self) -> u32 {
        match self.p.slices.map_k {
            map_k if G::IN_STEP && map_k != 0 => map_k * self.p.slices.count,
            _ => T::DEPTH,
        }
    }

    #[inline(always)]
    fn numbers(&self, slice: u32) -> [i32; 2] {
        [(slice * self.p.slices.map_batch) as i32; 2]
    }

    #[inline(always)]
    fn sources(&self) -> [*const T; 2] {
        self.sources
    }

    #[inline(always)]
    fn row_maps(&self) -> *const Maps {
        self.row_maps
    }

    #[inline(always)]
    unsafe fn prefetch_maps(&self) {
        // SAFETY: the caller's promise.
        unsafe {
            if !DIRECT {
                return self.operands.prefetch_maps();
            }
            let maps = &*self.row_maps;
            for class in 0..DIRECT_ROWS {
                tma::prefetch_map(&maps.a[class]);
                tma::prefetch_map(&maps.b[class]);
            }
        }
    }

    /// Rows past C's end are past that of its map, whose boxes have the columns of whole tiles.
    #[inline(always)]
    fn has_box(&self, _: u64) -> bool {
        !DIRECT && self.tile_cols() == 0
    }
}

/// The products of a launch: three maps each, of A, B and C, and their numbers.
#[repr(C, align(64))]
#[derive(Clone, Copy)]
pub struct Table {
    /// The maps.
    pub maps: [[TensorMap<3>; 3]; GROUPED_MAX],
    /// The numbers.
    pub products: [GroupedProduct; GROUPED_MAX],
}

/// Products one behind the other, as many as the block has slices. Each has its maps and its
/// numbers; or rows of one A and one C, from its offset to the next one, and the matrix of its
/// number of B's map.
///
/// Clusters take the tiles of all products in turn. Each goes through the list on its own, so that
/// nobody has to know all offsets before. An offset that lies before another one of a smaller
/// number, or outside of the rows, counts as the nearest that does not.
///
/// Boxes of A and B have 64 rows in any case; of rows of A that are another product's, the sums
/// are not written.
#[derive(Clone)]
pub struct List<'a, T: WarpGroup, G> {
    table: &'a Table,
    /// Where the products' rows begin, and where the last one's end; null where each has a C.
    offsets: *const i32,
    /// From where products say where C is.
    start: *mut T::Output,
    /// The number of the product behind this one.
    next: u32,
    /// This product's tiles.
    tiles: ClusterTiles<G>,
    /// Its rows of A and C: the first, and the one behind the last.
    rows: [u32; 2],
    operands: Operands<T>,
    /// Its block, when it has been read.
    p: GemmParams<T::Sum>,
}

impl<'a, T: WarpGroup, G: Geometry> List<'a, T, G> {
    /// In front of the first of the products; of `p` count the factors, C's dtype and the slices.
    #[inline(always)]
    pub fn new(
        table: &'a Table,
        start: *mut T::Output,
        offsets: *const i32,
        p: &GemmParams<T::Sum>,
    ) -> Self {
        // There is always a first.
        let [a, b, c] = table.maps[0].each_ref().map(|map| &raw const *map);
        let operands = Operands { maps: [a, b, c], start };
        let p = GemmParams { m: 0, n: 0, ..*p };
        let tiles = ClusterTiles::none(0);
        List { table, offsets, start, next: 0, tiles, rows: [0; 2], operands, p }
    }

    /// Whether the products are rows of one A and one C.
    #[inline(always)]
    fn has_offsets(&self) -> bool {
        !self.offsets.is_null()
    }

    /// The numbers of the product in front of `self.next`, which there is; and, if they are asked
    /// for, where its maps are.
    #[inline(always)]
    fn product(&self) -> (*const GroupedProduct, *const [TensorMap<3>; 3]) {
        // Afresh, so that what is read of it is read again each time.
        let number = misc::afresh(self.next) as usize;
        let index = if self.has_offsets() { 0 } else { number - 1 };
        let products: *const GroupedProduct = (&raw const self.table.products).cast();
        let maps: *const [TensorMap<3>; 3] = (&raw const self.table.maps).cast();
        (products.wrapping_add(index), maps.wrapping_add(index))
    }

    /// Goes on to the product of number `self.next`, which there is.
    ///
    /// # Safety
    /// The offsets may be read.
    #[inline(always)]
    unsafe fn go_on(&mut self) {
        let number = self.next;
        self.next = number + 1;
        let (product, _) = self.product();
        // SAFETY: the host lists as many products as there are slices, and no more than there is
        // room for; with offsets, the first. There is an offset more than products.
        let cols = unsafe {
            let all = (*product).m as u32;
            self.rows = match self.has_offsets() {
                true => {
                    let row = |offset: *const i32| (offset.read().max(0) as u32).min(all);
                    let first = if number == 0 { row(self.offsets) } else { self.rows[1] };
                    [first, first.max(row(self.offsets.add(number as usize + 1)))]
                }
                false => [0, all],
            };
            (*product).n
        };
        self.tiles.go_on(u64::from(self.rows[1] - self.rows[0]), cols);
    }

    /// The product's K.
    #[inline(always)]
    fn k(&self) -> u64 {
        // SAFETY: as in `go_on`.
        unsafe { (*self.product().0).k }
    }
}

impl<T: WarpGroup, G: Geometry> Work<T, G> for List<'_, T, G> {
    const IS_ONE: bool = false;
    const EPILOGUES: bool = false;

    #[inline(always)]
    fn begin(&mut self, width: usize) {
        grid::wait_for_grids();
        self.tiles = ClusterTiles::none(width);
    }

    #[inline(always)]
    fn box_rows<A: Side<T>, B: Side<T>>(&self) -> [u32; 2] {
        [GROUP_ROWS as u32; 2]
    }

    #[inline(always)]
    fn next(&mut self) -> Option<Place> {
        loop {
            if let Some(place) = self.tiles.next() {
                let row = place.row + u64::from(self.rows[0]);
                return Some(Place { row, slice: 0, ..place });
            }
            if self.next == self.p.slices.count {
                return None;
            }
            // SAFETY: the kernel may read the offsets.
            unsafe { self.go_on() };
        }
    }

    #[inline(always)]
    fn read(&mut self) {
        let (product, maps) = self.product();
        // SAFETY: as in `go_on`.
        unsafe {
            let [a, b, c] = &*maps;
            let GroupedProduct { n, k, c: at, c_row_stride, c_col_stride, .. } = product.read();
            let start = self.start.wrapping_byte_offset(at as isize);
            self.operands = Operands { maps: [a, b, c], start };
            let m = u64::from(self.rows[1]);
            self.p = GemmParams { m, n, k, c_row_stride, c_col_stride, ..self.p };
        }
    }

    #[inline(always)]
    fn operands(&self) -> &Operands<T> {
        &self.operands
    }

    #[inline(always)]
    fn params(&self) -> &GemmParams<T::Sum> {
        &self.p
    }

    /// One where K is 0: of zeros.
    #[inline(always)]
    fn steps(&self, _: u32) -> u32 {
        (self.k().div_ceil(T::DEPTH.into()) as u32).max(1)
    }

    /// Behind the end of maps that the host makes where K is 0, where copies bring zeros.
    #[inline(always)]
    fn first_k(&self, _: u32) -> u32 {
        if self.k() == 0 { T::DEPTH } else { 0 }
    }

    #[inline(always)]
    fn numbers(&self, _: u32) -> [i32; 2] {
        [0, if self.has_offsets() { self.next as i32 - 1 } else { 0 }]
    }

    /// Rows past the product's are the next one's where all have one C.
    #[inline(always)]
    fn has_box(&self, row: u64) -> bool {
        !self.has_offsets() || row + GROUP_ROWS as u64 <= u64::from(self.rows[1])
    }
}
