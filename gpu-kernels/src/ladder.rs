//! The ladder: one idea a file, each step the last one with one thing changed.
//!
//! A step's file has its body, generic over element and tiles. Its entry points are made from its
//! list in gemm-spec; `cargo xtask sweep` makes others, with tiles of its own, to find out which
//! are fast.

/// Makes entry points of a body, one for each row of a list. `units` says what a thread brings into
/// shared memory: single elements (1) or packs of 16 bytes (LANES).
///
/// With `shared: padding` the tiles are declared, with so many elements behind each of their rows,
/// and the entry calls `body::<element, TM, TN, NA, NB>((a, b, c), p, tiles, tile_a, tile_b)`;
/// with `shared: dynamic` the launch has to ask for the memory, and the entry calls
/// `body::<element, TM, TN, NA, NB, PENDING, _>((a, b, c), p, tiles, memory, epilogue)`, with the
/// [`Epilogue`](crate::Epilogue) that the row has behind it, `with (parameters,) => value`, or
/// none. TM and TN are the thread's rows and columns, NA and NB its units of each tile, PENDING
/// the groups of copies that may still be on their way when a tile is read. The latter body finds
/// out itself which layer of the grid it computes.
#[macro_export]
macro_rules! ladder_entries {
    ($body:path, shared: $shared:tt, units: $units:tt;
    $((
        $name:ident, $variant:literal, $element:ident, [$bm:literal, $bn:literal, $bk:literal],
        $warp:tt, [$tm:literal, $tn:literal], $stages:literal, $min_blocks:literal
    ) $(with ($($parameter:tt)*) => $epilogue:expr)?,)*) => {$(
        #[doc = concat!("`", $variant, "` for `", stringify!($element), "`; see the body.")]
        ///
        /// # Safety
        ///
        /// The pointers and the block describe matrices that the grid may read (A, B) and write
        /// (C); nothing else touches C during the launch; the grid is one of `Kernel::launches`.
        #[::cuda_std::kernel(max_threads = $bm * $bn / ($tm * $tn), min_blocks = $min_blocks)]
        pub unsafe fn $name(
            a: *const $element,
            b: *const $element,
            c: *mut <$element as $crate::Element>::Output,
            p: ::gemm_spec::GemmParams<<$element as $crate::Element>::Sum>,
            $($($parameter)*)?
        ) {
            const TILES: ::gemm_spec::Tiles = ::gemm_spec::Tiles::of_threads(
                [$bm, $bn, $bk],
                $warp,
                [$tm, $tn],
                $stages,
                $min_blocks,
            );
            const PER_UNIT: usize =
                $bm * $bn / ($tm * $tn) * $crate::ladder_entries!(@units $units $element);
            const NA: usize = $bm * $bk / PER_UNIT;
            const NB: usize = $bn * $bk / PER_UNIT;
            // SAFETY: the shared memory is this block's own; the rest is the host's promise, passed
            // on.
            unsafe {
                $crate::ladder_entries!(
                    @call $shared, $body, ((a, b, c), p, TILES), $element, [$bm, $bn, $bk],
                    [$tm, $tn, NA, NB], $stages $(, $epilogue)?
                )
            }
        }
    )*};
    (@units 1 $element:ident) => { 1 };
    (@units LANES $element:ident) => { <$element as $crate::Packed>::LANES };
    (@call dynamic, $body:path, ($operands:expr, $p:expr, $tiles:expr), $element:ident,
        $block:tt, [$tm:literal, $tn:literal, $na:ident, $nb:ident], $stages:literal
        $(, $epilogue:expr)?) => {{
        use $body as body;
        let memory = ::cuda_std::shared::dynamic_shared_mem::<$element>();
        let epilogue = $crate::epilogue_or_plain!($($epilogue)?);
        body::<$element, $tm, $tn, $na, $nb, { $stages - 2 }, _>(
            $operands,
            $p,
            $tiles,
            memory,
            epilogue,
        )
    }};
    (@call $padding:literal, $body:path, ($operands:expr, $p:expr, $tiles:expr), $element:ident,
        [$bm:literal, $bn:literal, $bk:literal],
        [$tm:literal, $tn:literal, $na:ident, $nb:ident], $stages:literal) => {{
        use $body as body;
        let (operands, p) = $crate::of_layer::<$element>($operands, $p);
        let tile_a = ::cuda_std::shared_array![
            <$element as $crate::Element>::Sum; ($bm + $padding) * $bk * $stages
        ];
        let tile_b = ::cuda_std::shared_array![
            <$element as $crate::Element>::Sum; ($bn + $padding) * $bk * $stages
        ];
        body::<$element, $tm, $tn, $na, $nb>(operands, p, $tiles, tile_a, tile_b)
    }};
}

mod parts;

pub use parts::warp_and_lane;

#[cfg_attr(not(feature = "sm_70"), allow(unused))]
// Without its entry points only the body is left.
pub mod k01_naive;
#[cfg_attr(not(feature = "sm_70"), allow(unused))] // As above.
pub mod k02_tiled;
pub mod k03_thread_column;
pub mod k04_thread_tile;
pub mod k05_vector_loads;
pub mod k06_no_conflicts;
pub mod k07_warp_tile;
pub mod k08_double_buffer;
pub mod k09_async_copy;
pub mod k10_grouped_order;
pub mod k11_tensor_core;
pub mod k12_warp_specialized;
