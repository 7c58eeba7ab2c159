//! The ladder: one idea a file, each step the last one with one thing changed.

mod parts;

/// Makes the entry points of a family from its list: `body::<element, TM, TN, NA, NB>` gets the
/// three pointers, the parameter block, [`Tiles`](gemm_spec::Tiles) and the tiles of A and of B in
/// shared memory. NA and NB are how many elements (`units: 1`) or packs of 16 bytes (`units:
/// LANES`) of each tile a thread brings.
macro_rules! entries {
    ($body:ident, padding: $padding:expr, units: $units:tt, min_blocks: $min_blocks:literal;
    $((
        $name:ident, $variant:literal, $element:ident, [$bm:literal, $bn:literal, $bk:literal],
        $warp:tt, [$tm:literal, $tn:literal], $stages:literal
    ),)*) => {$(
        #[doc = concat!("`", $variant, "` for `", stringify!($element), "`; see the module.")]
        ///
        /// # Safety
        ///
        /// The pointers and the block describe matrices that the grid may read (A, B) and write
        /// (C); nothing else touches C during the launch; the grid is one of `Kernel::launches`.
        #[cuda_std::kernel(max_threads = $bm * $bn / ($tm * $tn), min_blocks = $min_blocks)]
        pub unsafe fn $name(
            a: *const $element,
            b: *const $element,
            c: *mut $element,
            p: gemm_spec::GemmParams<<$element as crate::Element>::Sum>,
        ) {
            const TILES: gemm_spec::Tiles = gemm_spec::Tiles {
                block: [$bm, $bn, $bk],
                warp: $warp,
                thread: [$tm, $tn],
                stages: $stages,
            };
            const PER_THREAD: usize =
                $bm * $bn / ($tm * $tn) * entries!(@units $units $element);
            // SAFETY: the tiles are this block's own; the rest is the host's promise, passed on.
            unsafe {
                let tile_a = cuda_std::shared_array![
                    <$element as crate::Element>::Sum; ($bm + $padding) * $bk * $stages
                ];
                let tile_b = cuda_std::shared_array![
                    <$element as crate::Element>::Sum; ($bn + $padding) * $bk * $stages
                ];
                $body::<
                    $element, $tm, $tn, { $bm * $bk / PER_THREAD }, { $bn * $bk / PER_THREAD }
                >((a, b, c), p, TILES, tile_a, tile_b)
            }
        }
    )*};
    (@units 1 $element:ident) => { 1 };
    (@units LANES $element:ident) => { <$element as crate::Packed>::LANES };
}

/// As [`entries`], for steps whose tiles lie in the shared memory that the launch asks for:
/// `async_copy::<element, TM, TN, NA, NB, PENDING>` gets the tile of C that `order` gives the block.
macro_rules! async_entries {
    (order: $order:ident;
    $((
        $name:ident, $variant:literal, $element:ident, [$bm:literal, $bn:literal, $bk:literal],
        $warp:tt, [$tm:literal, $tn:literal], $stages:literal
    ),)*) => {$(
        #[doc = concat!("`", $variant, "` for `", stringify!($element), "`; see the module.")]
        ///
        /// # Safety
        ///
        /// The pointers and the block describe matrices that the grid may read (A, B) and write
        /// (C); nothing else touches C during the launch; the grid is one of `Kernel::launches`.
        #[cuda_std::kernel(max_threads = $bm * $bn / ($tm * $tn))]
        pub unsafe fn $name(
            a: *const $element,
            b: *const $element,
            c: *mut $element,
            p: gemm_spec::GemmParams<$element>,
        ) {
            const TILES: gemm_spec::Tiles = gemm_spec::Tiles {
                block: [$bm, $bn, $bk],
                warp: $warp,
                thread: [$tm, $tn],
                stages: $stages,
            };
            const THREADS: usize = $bm * $bn / ($tm * $tn);
            // SAFETY: the shared memory is this block's own; the rest is the host's promise, passed
            // on.
            unsafe {
                let tiles = cuda_std::shared::dynamic_shared_mem::<$element>();
                let place = $order(&TILES, [p.m, p.n]);
                async_copy::<
                    $element,
                    $tm,
                    $tn,
                    { $bm * $bk / THREADS },
                    { $bn * $bk / THREADS },
                    { $stages - 2 }
                >((a, b, c), p, TILES, tiles, place)
            }
        }
    )*};
}

#[cfg(feature = "sm_70")]
pub mod k01_naive;
#[cfg(feature = "sm_70")]
pub mod k02_tiled;
#[cfg(feature = "sm_70")]
pub mod k03_thread_column;
#[cfg(feature = "sm_70")]
pub mod k04_thread_tile;
#[cfg(feature = "sm_70")]
pub mod k05_vector_loads;
#[cfg(feature = "sm_70")]
pub mod k06_no_conflicts;
#[cfg(feature = "sm_70")]
pub mod k07_warp_tile;
#[cfg(feature = "sm_70")]
pub mod k08_double_buffer;
#[cfg(feature = "sm_80")]
pub mod k09_async_copy;
#[cfg(feature = "sm_80")]
pub mod k10_grouped_order;
