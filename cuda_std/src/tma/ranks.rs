//! The instructions of the copy engine for each number of dimensions.

use crate::gpu_only;
use crate::mbarrier::Mbarrier;
use crate::shared::SharedPtr;
#[cfg(target_arch = "nvptx64")]
use core::arch::asm;

mod sealed {
    pub trait Sealed {}
}

/// Coordinates of a box in a tensor of 1 to 5 dimensions, innermost first: `[i32; RANK]`.
///
/// The methods are what the functions of [`tma`](super) call, with their preconditions.
#[allow(missing_docs, clippy::missing_safety_doc)]
pub trait Coordinates: sealed::Sealed + Copy {
    #[doc(hidden)]
    unsafe fn load(self, target: SharedPtr<u8>, map: *const u8, full: SharedPtr<Mbarrier>);
    #[doc(hidden)]
    unsafe fn load_with_policy(
        self,
        target: SharedPtr<u8>,
        map: *const u8,
        full: SharedPtr<Mbarrier>,
        policy: u64,
    );
    #[doc(hidden)]
    unsafe fn load_multicast(
        self,
        target: SharedPtr<u8>,
        map: *const u8,
        full: SharedPtr<Mbarrier>,
        blocks: u16,
    );
    #[doc(hidden)]
    unsafe fn load_multicast_with_policy(
        self,
        target: SharedPtr<u8>,
        map: *const u8,
        full: SharedPtr<Mbarrier>,
        blocks: u16,
        policy: u64,
    );
    #[doc(hidden)]
    unsafe fn store(self, map: *const u8, source: SharedPtr<u8>);
    #[doc(hidden)]
    unsafe fn store_with_policy(self, map: *const u8, source: SharedPtr<u8>, policy: u64);
    #[doc(hidden)]
    unsafe fn prefetch(self, map: *const u8);
}

macro_rules! ranks {
    ($($rank:literal: $first:literal $($more:literal)*;)*) => {$(
        impl sealed::Sealed for [i32; $rank] {}

        impl Coordinates for [i32; $rank] {
            #[gpu_only]
            #[inline(always)]
            unsafe fn load(self, target: SharedPtr<u8>, map: *const u8, full: SharedPtr<Mbarrier>) {
                // SAFETY: the caller's promise.
                unsafe {
                    asm!(
                        concat!(
                            "cp.async.bulk.tensor.", $rank,
                            "d.shared::cluster.global.mbarrier::complete_tx::bytes \
                            [{target}], [{map}, {{{", $first, "}", $(", {", $more, "}",)*
                            "}}], [{full}];"
                        ),
                        in(reg32) self[$first] $(, in(reg32) self[$more])*,
                        target = in(reg32) target.address(), map = in(reg64) map,
                        full = in(reg32) full.address(), options(nostack)
                    );
                }
            }

            #[gpu_only]
            #[inline(always)]
            unsafe fn load_with_policy(
                self,
                target: SharedPtr<u8>,
                map: *const u8,
                full: SharedPtr<Mbarrier>,
                policy: u64,
            ) {
                // SAFETY: the caller's promise.
                unsafe {
                    asm!(
                        concat!(
                            "cp.async.bulk.tensor.", $rank,
                            "d.shared::cluster.global.mbarrier::complete_tx::bytes\
                            .L2::cache_hint [{target}], [{map}, {{{", $first, "}",
                            $(", {", $more, "}",)* "}}], [{full}], {policy};"
                        ),
                        in(reg32) self[$first] $(, in(reg32) self[$more])*,
                        target = in(reg32) target.address(), map = in(reg64) map,
                        full = in(reg32) full.address(), policy = in(reg64) policy,
                        options(nostack)
                    );
                }
            }

            #[gpu_only]
            #[inline(always)]
            unsafe fn load_multicast(
                self,
                target: SharedPtr<u8>,
                map: *const u8,
                full: SharedPtr<Mbarrier>,
                blocks: u16,
            ) {
                // SAFETY: the caller's promise.
                unsafe {
                    asm!(
                        concat!(
                            "cp.async.bulk.tensor.", $rank,
                            "d.shared::cluster.global.mbarrier::complete_tx::bytes\
                            .multicast::cluster [{target}], [{map}, {{{", $first, "}",
                            $(", {", $more, "}",)* "}}], [{full}], {blocks};"
                        ),
                        in(reg32) self[$first] $(, in(reg32) self[$more])*,
                        target = in(reg32) target.address(), map = in(reg64) map,
                        full = in(reg32) full.address(), blocks = in(reg16) blocks,
                        options(nostack)
                    );
                }
            }

            #[gpu_only]
            #[inline(always)]
            unsafe fn load_multicast_with_policy(
                self,
                target: SharedPtr<u8>,
                map: *const u8,
                full: SharedPtr<Mbarrier>,
                blocks: u16,
                policy: u64,
            ) {
                // SAFETY: the caller's promise.
                unsafe {
                    asm!(
                        concat!(
                            "cp.async.bulk.tensor.", $rank,
                            "d.shared::cluster.global.mbarrier::complete_tx::bytes\
                            .multicast::cluster.L2::cache_hint [{target}], [{map}, {{{", $first,
                            "}", $(", {", $more, "}",)* "}}], [{full}], {blocks}, {policy};"
                        ),
                        in(reg32) self[$first] $(, in(reg32) self[$more])*,
                        target = in(reg32) target.address(), map = in(reg64) map,
                        full = in(reg32) full.address(), blocks = in(reg16) blocks,
                        policy = in(reg64) policy, options(nostack)
                    );
                }
            }

            #[gpu_only]
            #[inline(always)]
            unsafe fn store(self, map: *const u8, source: SharedPtr<u8>) {
                // SAFETY: the caller's promise.
                unsafe {
                    asm!(
                        concat!(
                            "cp.async.bulk.tensor.", $rank, "d.global.shared::cta.bulk_group \
                            [{map}, {{{", $first, "}", $(", {", $more, "}",)* "}}], [{source}];"
                        ),
                        in(reg32) self[$first] $(, in(reg32) self[$more])*,
                        source = in(reg32) source.address(), map = in(reg64) map, options(nostack)
                    );
                }
            }

            #[gpu_only]
            #[inline(always)]
            unsafe fn store_with_policy(self, map: *const u8, source: SharedPtr<u8>, policy: u64) {
                // SAFETY: the caller's promise.
                unsafe {
                    asm!(
                        concat!(
                            "cp.async.bulk.tensor.", $rank, "d.global.shared::cta.bulk_group\
                            .L2::cache_hint [{map}, {{{", $first, "}", $(", {", $more, "}",)*
                            "}}], [{source}], {policy};"
                        ),
                        in(reg32) self[$first] $(, in(reg32) self[$more])*,
                        source = in(reg32) source.address(), map = in(reg64) map,
                        policy = in(reg64) policy, options(nostack)
                    );
                }
            }

            #[gpu_only]
            #[inline(always)]
            unsafe fn prefetch(self, map: *const u8) {
                // SAFETY: the caller's promise.
                unsafe {
                    asm!(
                        concat!(
                            "cp.async.bulk.prefetch.tensor.", $rank, "d.L2.global [{map}, {{{",
                            $first, "}", $(", {", $more, "}",)* "}}];"
                        ),
                        in(reg32) self[$first] $(, in(reg32) self[$more])*,
                        map = in(reg64) map, options(nostack)
                    );
                }
            }
        }
    )*};
}

ranks! {
    1: 0;
    2: 0 1;
    3: 0 1 2;
    4: 0 1 2 3;
    5: 0 1 2 3 4;
}
