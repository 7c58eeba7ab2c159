//! One launch of a kernel, all of it but addresses; and products that are one launch, which are
//! kept so for when they come again.

use super::block::Block;
use super::maps::{self, Tensor};
use super::{Addresses, Driver, Parts, address, address_of_c, transposed};
use super::{does_epilogue, is_shared, reads_of, writes_of};
use crate::cuda::TensorLayout;
use crate::device::DeviceInfo;
use crate::error::Error;
use crate::plan::{Chosen, KernelChoice, Product, SOURCES, layers};
use gemm_spec::order::TileOrder;
use gemm_spec::{Kernel, Launch, Places, Slices, Strides, Writes, is_mappable};
use smallvec::SmallVec;
use std::hash::{Hash, Hasher};
use std::ops::Range;

/// Addresses count by where they lie between two multiples of this: what maps begin at.
const GRANULE: u64 = 16;

/// How clusters go through the tiles of a launch. Of what a GPU's memory holds there are fewer than
/// an order takes.
///
/// Where they sum parts of K, the kernel that adds these starts when all are done: blocks of it
/// that wait before take places and time of theirs, up to 9 % (docs/performance.md).
fn order_of(
    kernel: &Kernel,
    launch: &Launch,
    (slices, k): (&Slices, usize),
    by_rows: bool,
    places: Places,
) -> TileOrder {
    let order = kernel.tile_order(launch, (slices.count, k), by_rows, places);
    match slices.map_k != 0 && kernel.is_resident() {
        true => order.spread(),
        false => order,
    }
}

/// The entry point of a kernel for a launch whose C begins at an address: the lean one where it
/// does all that is asked for.
fn entry_point(
    kernel: &'static Kernel,
    product: &Product,
    launch: &Launch,
    (slices, c): (&Slices, u64),
) -> &'static Kernel {
    let Product { output, beta, fusion, .. } = product;
    let Strides { row, col } = product.c.strides;
    let (strides, n) = match kernel.swaps_operands() {
        true => ([col, row], launch.shape.rows),
        false => ([row, col], launch.shape.cols),
    };
    let strides = strides.map(|stride| stride as i64);
    let is_plain = beta.is_none() && fusion.is_none() && *output == kernel.dtype.output();
    let is_lean = is_plain
        && slices.tile_cols == 0
        && is_mappable(output.size_bytes() as u64, c, strides, n as u64, slices.c);
    kernel.lean().filter(|_| is_lean).unwrap_or(kernel)
}

/// A launch of a kernel that takes the product.
#[derive(Clone, Debug)]
pub(super) struct OneLaunch {
    kernel: &'static Kernel,
    launch: Launch,
    block: Block,
    /// From the addresses of A, B and C to the first elements of each.
    distances: [u64; 3],
    maps: SmallVec<[MapOf; 3]>,
}

/// The map of an operand, whose number is `of`, from so many bytes behind its address on.
#[derive(Clone, Debug)]
struct MapOf {
    layout: TensorLayout,
    of: usize,
    distance: u64,
}

impl OneLaunch {
    /// All launches of a kernel that takes the product, with K in parts. Those for other addresses
    /// with the same [`places`] differ in nothing.
    ///
    /// # Errors
    /// Where no map describes an operand of a kernel that takes maps.
    pub fn all(
        info: &DeviceInfo,
        kernel: &'static Kernel,
        product: &Product,
        addresses: &Addresses,
        parts: Parts,
    ) -> impl Iterator<Item = Result<OneLaunch, Error>> {
        let count = parts.count.max(product.batch.count);
        // `choose` has seen that the shape can be launched.
        let launches = kernel.narrowed(parts.tile_cols).launches(product.shape());
        let launches = move || launches.clone().into_iter().flatten();
        let each = layers(count).flat_map(move |of| launches().map(move |l| (of.clone(), l)));
        each.map(move |of| Self::of(info, kernel, (product, addresses), parts, of))
    }

    fn of(
        info: &DeviceInfo,
        kernel: &'static Kernel,
        (product, addresses): (&Product, &Addresses),
        parts: Parts,
        (range, launch): (Range<usize>, Launch),
    ) -> Result<OneLaunch, Error> {
        let places = info.places();
        let (slices, k) = parts.slices(kernel, product, &range);
        let product = &product.at_number(range.start);
        let blocks = slices.count.saturating_mul(kernel.blocks_of_tile(k));
        let reads = reads_of(product, &launch, blocks, places.multiprocessors);
        let launch = kernel.resident(launch, blocks, places);
        let (row, col) = launch.start;
        let a = address(addresses.a, product.dtype, &product.a, row, 0);
        let b = address(addresses.b, product.dtype, &product.b, 0, col);
        let c = address_of_c(product, addresses, &launch);
        let writes = match product.writes {
            Writes::Plain => writes_of(product, kernel, parts.is_read_next, info),
            told => told,
        };
        let narrowed = kernel.narrowed(parts.tile_cols);
        let order = order_of(&narrowed, &launch, (&slices, k), writes == Writes::Late, places)
            .turning(!product.batch_invariant);
        let of_launch = Product { k, reads, writes, ..*product };
        let block = Block::of(&of_launch, &launch, (slices, order));
        let bases = [addresses.a, addresses.b, addresses.c];
        let from_base = |Tensor { layout, of, address }| {
            let distance = address.wrapping_sub(bases[of]);
            layout.check().map(|()| MapOf { layout, of, distance })
        };
        let maps = if kernel.takes_maps() {
            let of_each = maps::of_operands(kernel, product, slices, [a, b, c]);
            of_each.into_iter().map(from_base).collect::<Result<_, _>>()?
        } else if kernel.takes_row_maps() {
            let of_both = maps::of_rows(kernel, product, slices, [a, b]);
            of_both.into_iter().flatten().map(from_base).collect::<Result<_, _>>()?
        } else {
            SmallVec::new()
        };
        let distances = [0, 1, 2].map(|i| [a, b, c][i].wrapping_sub(bases[i]));
        let kernel = entry_point(kernel, product, &launch, (&slices, c));
        Ok(OneLaunch { kernel, launch, block, distances, maps })
    }

    /// Enqueues it; `more` are the values of parameters behind those of every kernel.
    ///
    /// # Safety
    /// As [`enqueue`](super::enqueue), for the product that it is of; the kernel takes `more` over
    /// memory that it may use.
    pub unsafe fn enqueue(
        &self,
        driver: &dyn Driver,
        addresses: &Addresses,
        more: &[&[u8]],
    ) -> Result<(), Error> {
        let bases = [addresses.a, addresses.b, addresses.c];
        let mut maps = SmallVec::<[[u64; 16]; 3]>::new();
        for MapOf { layout, of, distance } in &self.maps {
            let map = driver.encode(layout, bases[*of].wrapping_add(*distance))?;
            maps.push(*map.words());
        }
        let starts = [0, 1, 2].map(|i| bases[i].wrapping_add(self.distances[i]));
        let [a, b, c] = starts.each_ref().map(bytemuck::bytes_of);
        let block = self.block.at(addresses);
        let mut arguments = SmallVec::<[&[u8]; 8]>::new();
        if self.kernel.takes_maps() {
            arguments.extend(maps.iter().map(bytemuck::bytes_of));
            arguments.extend([c, block.bytes()]);
        } else {
            arguments.extend([a, b, c, block.bytes()]);
            let of_rows = bytemuck::cast_slice(&maps[..]);
            arguments.extend(self.kernel.takes_row_maps().then_some(of_rows));
        }
        arguments.extend_from_slice(more);
        // SAFETY: a kernel takes three addresses and the block by value, and behind them maps of
        // rows where it takes such; or three maps, C's address and the block; the caller vouches
        // for the memory.
        unsafe { driver.launch(self.kernel, &self.launch, &arguments) }
    }
}

/// Where addresses of A, B, C and an epilogue's sources lie, as far as a launch goes by it.
fn places(addresses: &Addresses) -> [u8; 3 + SOURCES] {
    let Addresses { a, b, c, sources: [bias, residual, rows, cols], .. } = *addresses;
    let place = |address: u64| (address % GRANULE) as u8;
    let of = |source: Option<u64>| place(source.unwrap_or(0));
    [place(a), place(b), place(c), of(bias), of(residual), of(rows), of(cols)]
}

/// A product as the caller has it, and what of its addresses its launch goes by.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Again {
    product: Product,
    places: [u8; 3 + SOURCES],
}

// Factors are compared by their bits.
impl Eq for Again {}

/// Of a few words, each of which costs a multiplication.
impl Hash for Again {
    #[inline]
    fn hash<H: Hasher>(&self, state: &mut H) {
        let Product { a, b, c, k, dtype, batch, .. } = &self.product;
        for word in [a.shape.rows, b.shape.cols, *k, batch.count, *dtype as usize] {
            state.write_usize(word);
        }
        for strides in [a, b, c].map(|layout| layout.strides) {
            state.write_isize(strides.row.wrapping_add(strides.col.rotate_left(32)));
        }
    }
}

impl Again {
    /// Of a product for which the library chooses.
    pub fn of(product: &Product, choice: &KernelChoice, addresses: &Addresses) -> Option<Again> {
        let of = || Again { product: *product, places: places(addresses) };
        (*choice == KernelChoice::Auto).then(of)
    }
}

/// A product that is one launch, with no memory beside its operands'.
#[derive(Debug)]
pub(crate) struct Whole {
    one: OneLaunch,
    /// Whether A's place is the caller's B.
    exchanged: bool,
}

impl Whole {
    /// What was chosen for a product, as kernels take it or turned, if that is one launch.
    pub(super) fn of(
        info: &DeviceInfo,
        (product, turned): (&Product, bool),
        addresses: &Addresses,
        chosen: &Chosen,
    ) -> Result<Option<Whole>, Error> {
        let Chosen { kernel, copied, parts, tile_cols, rest, .. } = *chosen;
        let is_alone = parts == 1 && copied == [false; 2] && rest.is_none();
        let is_done = product.fusion.is_none() || does_epilogue(kernel, product, addresses);
        if !is_alone || !is_done || is_shared(info, kernel, product) {
            return Ok(None);
        }
        let parts = Parts { tile_cols, ..Parts::ONE };
        let (product, addresses, swapped) = as_taken(kernel, product, addresses);
        let mut launches = OneLaunch::all(info, kernel, &product, &addresses, parts);
        let one = launches.next().transpose()?.filter(|_| launches.next().is_none());
        Ok(one.map(|one| Whole { one, exchanged: turned != swapped }))
    }

    /// Enqueues it for operands of the caller's.
    ///
    /// # Safety
    /// As [`enqueue`](super::enqueue), for the product that it is of, as it is in [`Again`].
    pub unsafe fn enqueue(&self, driver: &dyn Driver, addresses: &Addresses) -> Result<(), Error> {
        let addresses = if self.exchanged { transposed(*addresses) } else { *addresses };
        let more = if self.one.kernel.joins() { &NOWHERE[..] } else { &[] };
        // SAFETY: the caller's promise; nothing is joined.
        unsafe { self.one.enqueue(driver, &addresses, more) }
    }
}

/// What kernels that join shares take where there are none: no sums, no keys, no key.
pub(super) const NOWHERE: [&[u8]; 3] = [&[0; 8]; 3];

/// The product and its addresses as the kernel takes them, and whether they were turned for that:
/// what computes C transposed takes the transposed operands.
pub(super) fn as_taken(
    kernel: &Kernel,
    product: &Product,
    addresses: &Addresses,
) -> (Product, Addresses, bool) {
    match kernel.swaps_operands() {
        true => (product.turned_if(true), transposed(*addresses), true),
        false => (*product, *addresses, false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cuda::TensorMap;
    use crate::element::{Element, OutputOf};
    use crate::gemm::Gemm;
    use crate::launch::enqueue;
    use crate::plan::tests::h100;
    use crate::plan::{Batch, Found, Fusion, PlanCache, choose};
    use gemm_spec::{Activation, Layout, Shape, Strides};
    use rustc_hash::FxHashMap;
    use std::cell::RefCell;

    /// A kernel's name, its launch and its arguments.
    type Launched = (&'static str, Launch, Vec<Vec<u8>>);

    /// Says what it was told to launch.
    struct Recorder {
        info: DeviceInfo,
        plans: PlanCache,
        launched: RefCell<Vec<Launched>>,
        allocated: RefCell<u64>,
    }

    impl Recorder {
        fn new() -> Recorder {
            let (plans, launched) = (PlanCache::default(), RefCell::default());
            Recorder { info: h100(), plans, launched, allocated: RefCell::new(0) }
        }

        /// What a product at these addresses launches, and whether it takes memory.
        fn of(&self, product: &Product, at: &Addresses) -> (Vec<Launched>, bool) {
            self.launched.borrow_mut().clear();
            *self.allocated.borrow_mut() = 0;
            // SAFETY: nothing runs.
            unsafe { enqueue(self, product, &KernelChoice::Auto, *at) }.unwrap();
            (self.launched.borrow().clone(), *self.allocated.borrow() > 0)
        }

        fn knows(&self, product: &Product, at: &Addresses) -> bool {
            let again = Again::of(product, &KernelChoice::Auto, at).unwrap();
            matches!(self.plans.launch(&again), Found::Before(_))
        }
    }

    impl Driver for Recorder {
        fn info(&self) -> &DeviceInfo {
            &self.info
        }

        fn plans(&self) -> &PlanCache {
            &self.plans
        }

        /// Made of all that a map goes by.
        fn encode(&self, layout: &TensorLayout, address: u64) -> Result<TensorMap, Error> {
            layout.check_at(address)?;
            let mut words = [0; 16];
            for (i, byte) in format!("{layout:?}").bytes().enumerate() {
                words[1 + i % 15] = u64::rotate_left(words[1 + i % 15], 7) ^ u64::from(byte);
            }
            words[0] = address;
            Ok(TensorMap::from_words(words))
        }

        fn allocate(&self, bytes: usize) -> Result<u64, Error> {
            let mut allocated = self.allocated.borrow_mut();
            *allocated += 1 + bytes as u64 / 256;
            Ok((1 << 50) + 256 * *allocated)
        }

        fn let_read(&self, _: u64, _: usize) -> Result<(), Error> {
            Ok(())
        }

        fn release(&self, _: u64) {}

        unsafe fn launch(
            &self,
            kernel: &'static Kernel,
            launch: &Launch,
            arguments: &[&[u8]],
        ) -> Result<(), Error> {
            let arguments = arguments.iter().map(|bytes| bytes.to_vec()).collect();
            self.launched.borrow_mut().push((kernel.name, *launch, arguments));
            Ok(())
        }
    }

    /// Addresses that lie so many elements behind multiples of 256 bytes.
    fn at(place: u64, elements: u64, bytes: usize) -> Addresses {
        let behind = elements * bytes as u64;
        let [a, b, c, bias, residual, rows, cols, amax] =
            [1, 2, 3, 4, 5, 6, 7, 8].map(|i| (i << 40) + (place << 8) + behind);
        let sources = [Some(bias), Some(residual), Some(rows), Some(cols)];
        Addresses { a, b, c, sources, amax: Some(amax) }
    }

    /// The product with a row of biases and an activation, and with all that an epilogue may have.
    fn fused(one: &Product) -> [Product; 2] {
        let (c, rows, cols) = (one.c, one.shape().rows, one.shape().cols);
        let bias = Layout { offset: 8, ..Layout::row_major(Shape::new(1, cols)) };
        let of_rows = Layout::row_major(Shape::new(rows, 1));
        let activation = Activation::GeluTanh;
        let usual = Fusion { sources: [Some(bias), None, None, None], activation, ..one.fusion };
        let sources = [Some(bias), Some(c), Some(of_rows), Some(bias)];
        let all = Fusion { sources, amax: Some(0), ..usual };
        [usual, all].map(|fusion| {
            let fusion = fusion.spread(one.shape()).unwrap();
            Product { fusion, ..*one }
        })
    }

    /// Products of that dtype by layouts, factors and batches.
    fn products<T: Element>() -> Vec<Product>
    where
        T::Output: OutputOf<T>,
    {
        let mut products = Vec::new();
        for (m, n, k) in
            [(1, 300, 512), (64, 4096, 512), (300, 136, 40), (128, 128, 128), (17, 5, 0)]
        {
            for (a_by_rows, b_by_rows, c_by_rows) in
                [(true, true, true), (true, false, true), (false, true, true), (true, true, false)]
            {
                let of = |rows, cols, by_rows, pad| {
                    let (shape, pitch) =
                        (Shape::new(rows, cols), if by_rows { cols } else { rows });
                    let pitch = (pitch + pad) as isize;
                    let strides = if by_rows { (pitch, 1) } else { (1, pitch) };
                    Layout { shape, strides: Strides::new(strides.0, strides.1), offset: 32 }
                };
                for pad in [0, 1] {
                    let layouts = [
                        of(m, k, a_by_rows, pad),
                        of(k, n, b_by_rows, pad),
                        of(m, n, c_by_rows, pad),
                    ];
                    let options = Gemm::<T>::new().options();
                    let one = Product::new::<T, T::Output>(options, layouts, Fusion::default());
                    let one = one.unwrap();
                    let (a, b, c) = (1 << 22, 0, 1 << 22);
                    let some = one.batched(Batch { count: 3, a, b, c }).unwrap();
                    products.extend([one, Product { beta: Some(one.alpha), ..one }, some]);
                    if T::Output::DTYPE.size_bytes() == 2 {
                        products.extend(fused(&one));
                    }
                }
            }
        }
        products
    }

    /// How many of them are launched from what was kept, of how many.
    fn kept_of(products: &[Product]) -> [usize; 2] {
        let mut kept = 0;
        for product in products {
            let bytes = product.dtype.size_bytes();
            for elements in [0, 1] {
                let (again, fresh) = (Recorder::new(), Recorder::new());
                let [here, there] = [1, 77].map(|place| at(place, elements, bytes));
                again.of(product, &here);
                let is_kept = again.knows(product, &there);
                let (second, takes_memory) = again.of(product, &there);
                let (expected, fresh_takes_memory) = fresh.of(product, &there);
                assert_eq!(takes_memory, fresh_takes_memory);
                // Keys of shared tiles differ each time.
                if is_kept || !takes_memory {
                    assert_eq!(second, expected, "{product:?}");
                }
                assert!(
                    !(is_kept && takes_memory) && (is_kept || expected.len() != 1 || takes_memory)
                );
                kept += usize::from(is_kept);
            }
        }
        [kept, 2 * products.len()]
    }

    #[test]
    fn a_product_that_comes_again_is_launched_as_the_first_time() {
        let of_bf16 = products::<half::bf16>();
        let (plain, fused): (Vec<_>, Vec<_>) =
            of_bf16.into_iter().partition(|product| product.fusion.is_none());
        let [kept, all] = kept_of(&plain);
        assert!(2 * kept > all, "{kept} of {all}");
        // Where maps describe C and all that an epilogue has is a row of biases and an activation.
        let [kept, all] = kept_of(&fused);
        assert!((4..all / 2).contains(&kept), "{kept} of {all} with an epilogue");
        for [kept, all] in [kept_of(&products::<f32>()), kept_of(&products::<i8>())] {
            assert!(4 * kept > all, "{kept} of {all}");
        }
        kept_of(&products::<f64>());
    }

    #[test]
    fn what_adds_parts_waits_for_them() {
        let shape = Shape::new(256, 256);
        let places = h100().places();
        let holds = |variant, map_k| {
            let kernel = Kernel::find(variant, gemm_spec::DType::BF16).unwrap();
            let launch = kernel.launches(shape).unwrap().next().unwrap();
            let launch = kernel.resident(launch, 4, places);
            let slices = Slices { count: 4, map_k, ..Slices::one(4096) };
            order_of(kernel, &launch, (&slices, 4096), false, places).holds_next()
        };
        for variant in ["warp_group_in_step_64x128", "warp_group_64x64", "warp_group_direct_64x64"]
        {
            assert!(holds(variant, 4096) && !holds(variant, 0), "{variant}");
        }
    }

    #[test]
    fn other_places_factors_and_tunings_are_others() {
        let layout = Layout::row_major(Shape::new(128, 128));
        let product = crate::plan::tests::product(layout, layout);
        let (recorder, here) = (Recorder::new(), at(1, 0, 2));
        recorder.of(&product, &here);
        assert!(recorder.knows(&product, &here) && recorder.knows(&product, &at(9, 8, 2)));
        assert!(!recorder.knows(&product, &at(1, 1, 2)));
        let other = Product { alpha: crate::plan::Factor::F32(-0.5), ..product };
        assert!(!recorder.knows(&other, &here));
        assert!(Again::of(&product, &"k02_tiled_16".into(), &here).is_none());
        // What was tuned takes the place of what was launched.
        let again = Again::of(&product, &KernelChoice::Auto, &here).unwrap();
        let Found::Never(since) = Recorder::new().plans.launch(&again) else { panic!() };
        let task = crate::plan::Task::of(&product, [here.a, here.b]);
        let tuned = choose(&"k02_tiled_16".into(), &task, &recorder.info).unwrap();
        let before = recorder.of(&product, &here).0;
        recorder.plans.tune([(task, tuned)].into_iter().collect());
        assert!(!recorder.knows(&product, &here));
        assert_eq!(recorder.of(&product, &here).0[0].0, "k02_tiled_16_bf16");
        recorder.plans.tune(FxHashMap::default());
        // Who chose before that keeps nothing.
        let whole = Whole::of(&recorder.info, (&product, false), &here, &tuned).unwrap().unwrap();
        recorder.plans.keep_launch(again, whole, since);
        assert!(!recorder.knows(&product, &here));
        assert_eq!(recorder.of(&product, &here).0, before);
    }
}
