//! The choice of a kernel: what can compute a product, and what does so soonest.

use super::floor::{Floor, Least};
use super::invariant::{Rows, keeps_order, may_be_chosen};
use super::maps::{mappable, mappable_by_rows, skew};
use super::model::{Prediction, narrow, part_len, predict, splits};
use super::variants::{Variant, candidates_of, variant_of};
use super::{Batch, KernelChoice, Product, Rest, is_mappable_step, is_near_step};
use crate::device::DeviceInfo;
use crate::error::{Error, Kind};
use gemm_spec::{
    Activation, DType, Kernel, KernelFamily, Layout, MAX_GRID_Y, Precision, Shape, Tiles,
    is_along_k, split_cols,
};
use std::cmp::Ordering;
use std::hash::{Hash, Hasher};

/// What the choice of a kernel goes by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Task {
    pub dtype: DType,
    /// The least that is asked for.
    pub precision: Precision,
    /// Of C.
    pub shape: Shape,
    /// The products that one sum has.
    pub k: usize,
    /// Of C.
    pub output: DType,
    /// Products of that shape, in one launch.
    pub batch: usize,
    /// Whether all of them have one A, and one B.
    pub shared: [bool; 2],
    /// Whether K may be split.
    pub splits: bool,
    /// Whether A and B lie along K; see [`GemmParams::a_is_along_k`].
    pub along_k: [bool; 2],
    /// A and B can be described by tensor maps (see [`mappable`]), as far as there is work to do.
    pub maps: bool,
    /// A and B can be described by maps of every eighth row (see [`mappable_by_rows`]), likewise.
    pub row_maps: bool,
    /// Which of A and B would have to be copied for `maps`, where there is work to do and elements
    /// of that size can be copied.
    pub unmapped: Option<[bool; 2]>,
    /// Of eight rows or columns of A and B that maps describe, those whose pieces of 128 bytes lie
    /// in two lines of the L2 cache each.
    pub skew: [u8; 2],
    /// Whether rows have to be alike.
    pub rows: Rows,
    /// Whether no rows or columns may be computed apart.
    pub whole: bool,
    /// The activation of an epilogue, where one follows: kernels of sums alone are not taken then.
    pub fused: Option<Activation>,
    /// Whether C's old values take part.
    pub reads_c: bool,
}

/// Of a few words, each of which costs a multiplication: the extents, and what tells tasks of the
/// same extents apart most often.
impl Hash for Task {
    #[inline]
    fn hash<H: Hasher>(&self, state: &mut H) {
        let [a, b] = self.along_k.map(u64::from);
        state.write_usize(self.shape.rows);
        state.write_usize(self.shape.cols);
        state.write_usize(self.k);
        state.write_usize(self.batch);
        state.write_u64(self.dtype as u64 | (self.output as u64) << 8 | a << 16 | b << 17);
    }
}

impl Task {
    /// The task of a product, as kernels take it, with operands from these device addresses on.
    pub fn of(product: &Product, bases: [u64; 2]) -> Self {
        let Product { a, b, batch, .. } = *product;
        Task::with(product, [(a, batch.a), (b, batch.b)], bases)
    }

    /// The task of a product that kernels take turned, or not, with operands from address 0 on.
    pub fn turned_if(turned: bool, product: &Product) -> Self {
        Task::with(product, product.operands(turned), [0, 0])
    }

    #[inline]
    fn with(product: &Product, operands: [(Layout, isize); 2], bases: [u64; 2]) -> Self {
        let Product { dtype, output, precision, k, batch: Batch { count: batch, c, .. }, .. } =
            *product;
        let [(a, a_step), (b, b_step)] = operands;
        let shape = Shape::new(a.shape.rows, b.shape.cols);
        let [a_strides, b_strides] = [a.strides, b.strides];
        let along_k =
            [is_along_k(a_strides.row, a_strides.col), is_along_k(b_strides.col, b_strides.row)];
        let is_mapped = |i: usize| {
            let (layout, step) = &operands[i];
            mappable(layout, dtype, bases[i]) && is_mappable_step(batch, dtype, *step)
        };
        // `map` of an array is not inlined, which counts where a plan is found.
        let mapped = [is_mapped(0), is_mapped(1)];
        let unmapped = [!mapped[0], !mapped[1]];
        // Kernels that take maps take C's for granted where it begins at multiples of 16 bytes.
        let reaches_c = is_near_step(batch, output, c);
        let maps = shape.is_empty() || reaches_c && k > 0 && mapped == [true; 2];
        let by_rows = |i: usize| mappable_by_rows(&operands[i].0, dtype, (batch, operands[i].1));
        let row_maps = shape.is_empty() || k > 0 && by_rows(0) && by_rows(1);
        let unmapped = Some(unmapped).filter(|_| reaches_c && k > 0 && !shape.is_empty());
        let unmapped = unmapped.filter(|_| gemm_spec::repack(dtype, precision).is_some());
        let skew = |i: usize| if mapped[i] { skew(&operands[i].0, dtype) } else { 0 };
        let skew = [skew(0), skew(1)];
        let rows = Rows::of(product);
        let splits = batch <= 1 && rows == Rows::Free;
        let shared = [a_step == 0, b_step == 0];
        Task {
            dtype,
            precision,
            shape,
            k,
            output,
            batch,
            shared,
            splits,
            along_k,
            maps,
            row_maps,
            unmapped,
            skew,
            rows,
            whole: false,
            fused: None,
            reads_c: product.beta.is_some(),
        }
    }

    /// The same where there is no memory for copies and parts.
    pub fn in_place(self) -> Self {
        Task { unmapped: None, splits: false, ..self }
    }

    /// The same of the transposed C.
    pub(super) fn turned(self) -> Self {
        let swap = |[a, b]: [bool; 2]| [b, a];
        let [a, b] = self.skew;
        Task {
            shape: self.shape.transposed(),
            shared: swap(self.shared),
            along_k: swap(self.along_k),
            unmapped: self.unmapped.map(swap),
            skew: [b, a],
            ..self
        }
    }

    /// As the kernel takes it, which may be given the transposed operands.
    pub(super) fn taken_by(self, kernel: &Kernel) -> Self {
        if kernel.swaps_operands() { self.turned() } else { self }
    }

    /// The same with copies of operands, as they are made for that kernel.
    pub(super) fn after_copies(self, kernel: &Kernel, copied: [bool; 2]) -> Self {
        let is_mapped = |unmapped: [bool; 2]| (0..2).all(|i| copied[i] || !unmapped[i]);
        let along_k = |i: usize| match copied[i] {
            true => kernel.copies_are_along_k().unwrap_or(self.along_k[i]),
            false => self.along_k[i],
        };
        let maps = self.maps || self.unmapped.is_some_and(is_mapped);
        let skew = [0, 1].map(|i| if copied[i] { 0 } else { self.skew[i] });
        Task { along_k: [0, 1].map(along_k), maps, skew, ..self }
    }

    /// Whether rows of A (0) or B (1) along M or N, which may be copied, are short and end within
    /// sectors of 32 bytes, of which copies of a tile then read most twice. Not of a part of C.
    pub(super) fn splits_sectors(&self, operand: usize) -> bool {
        let extent = [self.shape.rows, self.shape.cols][operand];
        let splits = !extent.saturating_mul(self.dtype.size_bytes()).is_multiple_of(32);
        extent < 64 && splits && !self.along_k[operand] && self.unmapped.is_some()
    }

    /// The instances of a variant that may be taken, for any way of storing the operands: those of
    /// the precision asked for, then those that have more.
    pub(super) fn instances(&self, variant: &str) -> [Option<&'static Kernel>; 2] {
        let variant = variant_of(self.dtype, variant);
        [self.precision, Precision::Full].map(|precision| variant?.instances(precision).next())
    }

    /// The instance of a variant for the operands as they are stored.
    pub(super) fn find(&self, variant: &str) -> Option<&'static Kernel> {
        self.find_in(variant_of(self.dtype, variant)?)
    }

    fn find_in(&self, variant: &Variant) -> Option<&'static Kernel> {
        let find = |precision| {
            variant.instances(precision).find(|kernel| kernel.stored.takes(self.along_k))
        };
        find(self.precision).or_else(|| find(Precision::Full))
    }
}

/// A way to compute a product.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Chosen {
    pub kernel: &'static Kernel,
    /// Which of A and B are copied first, as [`Kernel::copies_are_along_k`] says.
    pub copied: [bool; 2],
    /// Parts of K, each summed on its own.
    pub parts: usize,
    /// As [`Plan::tile_cols`](super::Plan::tile_cols).
    pub tile_cols: usize,
    /// What is computed apart.
    pub rest: Option<Rest>,
    pub prediction: Prediction,
}

impl Chosen {
    /// A task by a kernel, with K in so many parts or fewer.
    pub(super) fn new(
        kernel: &'static Kernel,
        copied: [bool; 2],
        parts: usize,
        task: &Task,
        info: &DeviceInfo,
    ) -> Self {
        let parts = match parts {
            0 | 1 => 1,
            // A grid has no more layers.
            _ => task.k.div_ceil(part_len(kernel, task.k, parts.min(MAX_GRID_Y))).max(1),
        };
        let narrows = kernel.narrows() && parts == 1 && task.batch <= 1;
        let tile_cols = if narrows { narrow(kernel, task.shape, info) } else { 0 };
        let prediction = predict(&kernel.narrowed(tile_cols), copied, parts, task, info);
        Chosen { kernel, copied, parts, tile_cols, rest: None, prediction }
    }

    /// The one that is predicted to be faster, first.
    pub(crate) fn compare(&self, other: &Self) -> Ordering {
        self.prediction.total().total_cmp(&other.prediction.total())
    }
}

/// Chooses the way to compute a task, and holds it against the device.
///
/// [`KernelChoice::Auto`] takes the one that is predicted to be the fastest; where nothing runs on
/// the device, the error is that of the smallest kernel.
pub(crate) fn choose(
    choice: &KernelChoice,
    task: &Task,
    info: &DeviceInfo,
) -> Result<Chosen, Error> {
    let plain = |kernel| Chosen::new(kernel, always_copied(kernel, task), 1, task, info);
    match choice {
        KernelChoice::Auto => match fastest(task, info) {
            Some(chosen) => Ok(chosen),
            None if task.rows != Rows::Free => {
                Err(Error::new(Kind::NotInvariant { kernel: None, shape: task.shape }))
            }
            None => named("k02_tiled_16", task, info).map(plain),
        },
        KernelChoice::Named(name) => named(name, task, info).map(plain),
        KernelChoice::Split { variant, parts } => {
            let kernel = named(variant, task, info)?;
            if !kernel.takes_slices() || task.batch > 1 {
                return Err(Error::new(Kind::NotSplit { kernel: kernel.name }));
            }
            Ok(Chosen::new(kernel, always_copied(kernel, task), *parts, task, info))
        }
        KernelChoice::Planned { variant, copied, parts } => {
            planned(variant, *copied, *parts, task, info)
        }
        KernelChoice::Spec(kernel) => {
            let task = &task.after_copies(kernel, always_copied(kernel, task));
            let row = task.find(kernel.variant).filter(|row| *row == kernel);
            if row.is_some() || is_countable(kernel, task) {
                check_launch(kernel, task, info)?;
            }
            let row = row.ok_or_else(|| Error::new(Kind::ForeignKernel { kernel: *kernel }))?;
            check_order(row, task)?;
            Ok(plain(row))
        }
        KernelChoice::Own(own) => {
            let kernel = own.kernel();
            if !is_countable(kernel, task) {
                return Err(Error::new(Kind::ForeignKernel { kernel: *kernel }));
            }
            own.check(task)?;
            check_launch(kernel, task, info)?;
            check_order(kernel, task)?;
            Ok(plain(kernel))
        }
    }
}

/// Whether the limits of a kernel that is no row of the table can be computed for a task: its tiles
/// are not empty, neither they nor C are beyond what numbers hold, and its warps have windows of K
/// where its family takes such.
fn is_countable(kernel: &Kernel, task: &Task) -> bool {
    let Tiles { block, warp, thread, stages, min_blocks, cluster } = kernel.tiles;
    let tiles = [&block[..], &warp, &thread, &[stages, min_blocks, cluster]].concat();
    let extents = task.shape.rows.max(task.shape.cols);
    let is_small = tiles.iter().all(|extent| (1..=1 << 16).contains(extent));
    // A block's warps stand next to each other over its columns, and behind each other along K.
    let warps = gemm_spec::SKINNY_THREADS / 32;
    let has_windows = kernel.family != KernelFamily::Skinny
        || is_small && (1..=warps).contains(&(block[1] / warp[1]));
    is_small && has_windows && extents <= isize::MAX as usize
}

/// The instance of a variant for a task, where it runs.
fn named(name: &str, task: &Task, info: &DeviceInfo) -> Result<&'static Kernel, Error> {
    let dtype = task.dtype;
    let kernel = task
        .find(name)
        // Stored otherwise than its instances take them, which the check below says.
        .or_else(|| task.instances(name).into_iter().flatten().next())
        .ok_or_else(|| Error::new(Kind::UnknownKernel { name: name.to_string(), dtype }))?;
    check_launch(kernel, &task.after_copies(kernel, always_copied(kernel, task)), info)?;
    check_order(kernel, task)?;
    Ok(kernel)
}

/// Which of A and B are copied for a kernel in any case: both where copies make what it reads, if
/// there is anything to copy.
fn always_copied(kernel: &Kernel, task: &Task) -> [bool; 2] {
    [kernel.splits_elements() && task.unmapped.is_some(); 2]
}

/// An error for a kernel whose order of sums goes by the number of rows, where it must not.
fn check_order(kernel: &Kernel, task: &Task) -> Result<(), Error> {
    match keeps_order(kernel, task) {
        true => Ok(()),
        false => {
            let (kernel, shape) = (Some(kernel.name), task.shape);
            Err(Error::new(Kind::NotInvariant { kernel, shape }))
        }
    }
}

/// That way to compute a task and no other.
fn planned(
    variant: &str,
    copied: [bool; 2],
    parts: usize,
    task: &Task,
    info: &DeviceInfo,
) -> Result<Chosen, Error> {
    let can_copy = copied == [false; 2] || task.unmapped.is_some();
    let kernel = variant_of(task.dtype, variant).filter(|_| can_copy);
    let kernel = kernel.and_then(|variant| instance(variant, copied, task, info));
    let may_split = |kernel: &&Kernel| kernel.takes_slices() && task.batch <= 1;
    let kernel = kernel.filter(|kernel| parts <= 1 || may_split(kernel));
    let chosen = kernel.map(|kernel| Chosen::new(kernel, copied, parts, task, info));
    let chosen = chosen.filter(|chosen| chosen.parts == parts.max(1)).ok_or_else(|| {
        let (variant, shape) = (variant.to_string(), task.shape);
        Error::new(Kind::NotPlanned { variant, copied, parts, shape })
    })?;
    check_order(chosen.kernel, task)?;
    Ok(chosen.cut(task, info))
}

/// The fastest of [`candidates`].
fn fastest(task: &Task, info: &DeviceInfo) -> Option<Chosen> {
    let (mut whole, mut most) = (Vec::new(), f64::INFINITY);
    let floor = Floor::new(task, info);
    let is_looked_at = |variant: &&Variant| !variant.is_left_out(task, info);
    let variants = candidates_of(task.dtype).enumerate().filter(|(_, of)| is_looked_at(of));
    let mut variants: Vec<_> =
        variants.map(|(i, variant)| (variant.least(&floor), i, variant)).collect();
    // What may be the fastest comes first, so that little of the others is looked at.
    variants.sort_by(|(a, ..), (b, ..)| a.all().total_cmp(&b.all()));
    for (least, i, variant) in variants {
        for way in ways_of(variant, (floor, least, most), task, info) {
            most = most.min(way.prediction.total());
            whole.push((i, way));
        }
    }
    // Of equals, the first of the candidates.
    whole.sort_by_key(|&(i, _)| i);
    let (_, mut best) = *whole.iter().min_by(|(_, a), (_, b)| a.compare(b))?;
    whole.retain(|(_, way)| way.prediction.total() <= WITHOUT_REST * most);
    for (_, way) in &whole {
        best = way.cut_below(best.prediction.total(), task, info).unwrap_or(best);
    }
    Some(best)
}

/// What is left to a kernel without its last wave is half of its time at least.
const WITHOUT_REST: f64 = 2.0;

/// Every way to compute a task that the library knows.
pub(crate) fn candidates(task: &Task, info: &DeviceInfo) -> impl Iterator<Item = Chosen> {
    let all = (Floor::new(task, info), Least::NONE, f64::INFINITY);
    let whole =
        candidates_of(task.dtype).flat_map(move |variant| ways_of(variant, all, task, info));
    whole.map(move |way| way.cut(task, info))
}

/// The ways to compute a task by a variant, with no rest apart; without some that cannot win where
/// another takes `most` microseconds.
fn ways_of(
    variant: &'static Variant,
    (floor, least, most): (Floor<'_>, Least, f64),
    task: &Task,
    info: &DeviceInfo,
) -> impl Iterator<Item = Chosen> {
    let whole_may_win = least.whole <= WITHOUT_REST * most && least.of_one_tile <= most;
    let parts_may_win = task.splits && least.of_parts <= most;
    let may_win = whole_may_win || parts_may_win;
    let ways = may_win.then(|| with_copies(variant, task, info));
    let ways = ways.into_iter().flatten().filter(move |(kernel, _)| {
        // Blocks that join need memory.
        may_be_chosen(kernel, task, info) && (task.splits || !kernel.joins())
    });
    ways.flat_map(move |(kernel, copied)| {
        let splits = splits(kernel, task, info).filter(move |&parts| match parts {
            1 => whole_may_win,
            _ => parts_may_win && floor.of_parts(kernel, parts) <= most,
        });
        splits.map(move |parts| Chosen::new(kernel, copied, parts, task, info))
    })
}

/// The instances of a variant for a task, with the operands that are copied for each: none; no
/// more than has to be; what does not lie as copies would too.
fn with_copies(
    variant: &'static Variant,
    task: &Task,
    info: &DeviceInfo,
) -> impl Iterator<Item = (&'static Kernel, [bool; 2])> {
    let copies_are_along_k = variant.any().copies_are_along_k();
    let unmapped = task.unmapped;
    // A that lies along K step 12 turns round on its way.
    let lies_otherwise = |i: usize| match copies_are_along_k {
        Some(false) => i == 1 && task.along_k[i],
        _ => !task.along_k[i],
    };
    let splits = variant.any().splits_elements();
    let tries = [
        Some([false; 2]).filter(|_| !splits),
        unmapped.filter(|&copied| copied != [false; 2]),
        // One of both may do.
        unmapped
            .map(|[of_a, of_b]| [of_a, of_b || lies_otherwise(1)])
            .filter(|&copied| copies_are_along_k == Some(true) && Some(copied) != unmapped),
        unmapped
            .map(|unmapped| [0, 1].map(|i| splits || unmapped[i] || lies_otherwise(i)))
            .filter(|&copied| copied != [false; 2] && Some(copied) != unmapped),
    ];
    let instance = move |copied| Some((instance(variant, copied, task, info)?, copied));
    // For maps, but of short rows, the first that does; so too where rows have to be alike.
    let (is_free, by_maps) = (task.rows == Rows::Free, copies_are_along_k == Some(true));
    let most = if by_maps || !is_free { 1 } else { tries.len() };
    let short = unmapped.map(|of| [0, 1].map(|i| of[i] || task.splits_sectors(i)));
    let short = short.filter(|&copied| is_free && by_maps && Some(copied) != unmapped);
    tries.into_iter().flatten().filter_map(instance).take(most).chain(short.and_then(instance))
}

/// The instance of a variant for a task whose operands are copied so, where it takes that.
pub(super) fn instance(
    variant: &Variant,
    copied: [bool; 2],
    task: &Task,
    info: &DeviceInfo,
) -> Option<&'static Kernel> {
    let task = task.after_copies(variant.any(), copied);
    let kernel = task.find_in(variant)?;
    // What has maps of its own is no slower by them.
    let is_of_use = (copied == [false; 2] || kernel.copies_are_along_k().is_some())
        && !(kernel.takes_row_maps() && task.maps)
        && (copied == [true; 2] || !kernel.splits_elements());
    (is_of_use && check_launch(kernel, &task, info).is_ok()).then_some(kernel)
}

/// Checks a kernel against the device's compute capability and launch limits.
pub(super) fn check_launch(kernel: &Kernel, task: &Task, info: &DeviceInfo) -> Result<(), Error> {
    let shape = task.taken_by(kernel).shape;
    let (Some(has), Some(limits)) = (info.compute_capability, info.launch_limits) else {
        return Err(Error::new(Kind::KernelOnCpu { name: kernel.variant.to_string() }));
    };
    if !kernel.target.runs_on(has) {
        let (device, target) = (info.name.clone(), kernel.target);
        return Err(Error::new(Kind::MissingKernel { kernel: kernel.name, device, target, has }));
    }
    if task.batch > 1 && !kernel.takes_slices() {
        return Err(Error::new(Kind::NotBatched { kernel: kernel.name }));
    }
    let is_stored_so = shape.is_empty() || kernel.stored.takes(task.along_k);
    // Coordinates in maps are signed, copies' too; of nothing there are none.
    let k = if kernel.splits_elements() { split_cols(task.k) } else { Some(task.k) };
    let most = k.map(|k| k.max(shape.rows).max(shape.cols));
    let is_within = shape.is_empty() || most.is_some_and(|most| most <= i32::MAX as usize);
    let has_maps = (!kernel.takes_maps() || task.maps && is_within)
        && (!kernel.takes_row_maps() || task.row_maps && is_within);
    if !is_stored_so || !has_maps {
        let by_rows = kernel.takes_row_maps();
        return Err(Error::new(Kind::NotMappable { kernel: kernel.name, by_rows }));
    }
    let limit = |what, needed: u128, limit: u32| {
        if needed <= u128::from(limit) {
            return Ok(());
        }
        Err(Error::new(Kind::LaunchLimit {
            kernel: kernel.name,
            shape,
            device: info.name.clone(),
            what,
            needed: u64::try_from(needed).unwrap_or(u64::MAX),
            limit: limit.into(),
        }))
    };
    let (x, y) = kernel.block();
    limit("threads per block", u128::from(x) * u128::from(y), limits.threads_per_block)?;
    limit("threads per block along x", x.into(), limits.block[0])?;
    limit("threads per block along y", y.into(), limits.block[1])?;
    let shared = kernel.shared_bytes() as u128;
    let most = match kernel.dynamic_shared_bytes() {
        0 => limits.shared_bytes_per_block,
        _ => limits.shared_bytes_per_block_optin,
    };
    limit("bytes of shared memory per block", shared, most)?;
    if kernel.joins() {
        let steps = task.k.div_ceil(kernel.tiles.block[2].max(1));
        let steps = steps.saturating_mul(kernel.joined_tiles(shape) as usize);
        limit("steps of all tiles", steps as u128, u32::MAX)?;
    }
    if shape.is_empty() {
        return Ok(());
    }
    // x is covered by one grid; y is cut into panels.
    let Some(mut launches) = kernel.launches(shape) else {
        let tile = kernel.tiles.block[0].min(kernel.tiles.block[1]);
        let blocks = shape.rows.max(shape.cols).div_ceil(tile) as u128;
        return limit("blocks along x", blocks, limits.grid[0].min(i32::MAX as u32));
    };
    if let Some(first) = launches.next() {
        limit("blocks along x", first.grid.0.into(), limits.grid[0])?;
        limit("blocks along y", first.grid.1.into(), limits.grid[1])?;
    }
    Ok(())
}
