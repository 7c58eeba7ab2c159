//! The copy engine ("tensor memory accelerator"): one thread starts the copy of a whole box of a
//! tensor, for compute capability 9.0.
//!
//! The host describes the tensor once in a [`TensorMap`] (`cuTensorMapEncodeTiled`; package
//! `gemmite` has a builder for it): where it is, its sizes and strides, the size of the box, and
//! how the box lies in shared memory. A copy then names the box by the coordinates of its first
//! element, innermost dimension first. What of a box lies outside of the tensor is read as zeros
//! and is not written.
//!
//! - A load ([`load`] and its kin) reports its bytes, those outside of the tensor too, to an
//!   [`Mbarrier`].
//! - A store ([`store`]) belongs to a group of its thread, as those of
//!   [`async_copy`](crate::async_copy) do: [`commit_group`] closes it, [`wait_group`] and
//!   [`wait_group_read`] wait. [`fence::async_shared`](crate::fence::async_shared) comes between
//!   the writes and the store.
//!
//! N.B. Not in the manual, or not at the instruction:
//! - The innermost coordinate times the element's size is a multiple of 16 bytes, and a store has
//!   no negative coordinates; an H100 answers "illegal instruction" to others. A load may have
//!   negative ones.
//! - A store writes whole chunks of 16 bytes. Where the innermost size is no multiple of that, it
//!   writes to the bytes behind the row's end too, up to the next multiple (triton issue 11583).
//!
//! A map is best passed as a `#[grid_constant]` argument of the kernel. One that lies in global
//! memory has been written by the host before the launch and stays as it is.
//!
//! Copies are each one thread's, so that nothing here has to be convergent. (PTX ISA,
//! `cp.async.bulk`, `cp.async.bulk.tensor`, "Tensors".)

use crate::cluster::ClusterPtr;
use crate::gpu_only;
use crate::mbarrier::Mbarrier;
use crate::shared::SharedPtr;
#[cfg(target_arch = "nvptx64")]
use core::arch::asm;

mod ranks;

pub use ranks::Coordinates;

/// What the copy engine knows of a tensor of `RANK` dimensions, the size of a box included.
///
/// Opaque: the driver makes it on the host. `RANK` keeps coordinates of another number of
/// dimensions from being used with it.
///
/// ```compile_fail,E0308
/// use cuda_std::{SharedPtr, mbarrier::Mbarrier, tma};
/// // Three coordinates for a tensor of two dimensions.
/// unsafe fn load(map: &tma::TensorMap<2>, to: SharedPtr<f32>, full: SharedPtr<Mbarrier>) {
///     unsafe { tma::load(to, map, [0, 0, 0], full) }
/// }
/// ```
#[repr(C, align(64))]
#[derive(Clone, Copy, Debug)]
pub struct TensorMap<const RANK: usize>([u64; 16]);

/// How long the L2 cache should keep what a copy touches.
#[derive(Clone, Copy, Debug)]
pub struct CachePolicy(#[cfg_attr(not(target_arch = "nvptx64"), allow(dead_code))] u64);

impl CachePolicy {
    /// First to go: for what is read once.
    ///
    /// Lowers to `createpolicy.fractional.L2::evict_first.b64` (PTX ISA, `createpolicy`).
    #[gpu_only]
    #[inline(always)]
    pub fn evict_first() -> Self {
        let policy;
        // SAFETY: makes a number.
        unsafe {
            asm!("createpolicy.fractional.L2::evict_first.b64 {}, 1.0;", out(reg64) policy,
                options(pure, nomem, nostack));
        }
        CachePolicy(policy)
    }

    /// Last to go: for what many blocks read again.
    ///
    /// Lowers to `createpolicy.fractional.L2::evict_last.b64` (PTX ISA, `createpolicy`).
    #[gpu_only]
    #[inline(always)]
    pub fn evict_last() -> Self {
        let policy;
        // SAFETY: makes a number.
        unsafe {
            asm!("createpolicy.fractional.L2::evict_last.b64 {}, 1.0;", out(reg64) policy,
                options(pure, nomem, nostack));
        }
        CachePolicy(policy)
    }
}

/// Starts the copy of the box at `at` to shared memory; its bytes count for `full`.
///
/// Lowers to `cp.async.bulk.tensor.Nd.shared::cluster.global.mbarrier::complete_tx::bytes` (PTX
/// ISA, `cp.async.bulk.tensor`).
///
/// # Safety
/// `map` describes a tensor of the kernel's lifetime; `at[0]` elements are a multiple of 16 bytes.
/// `target` is to as many bytes of this block's
/// shared memory as the box has, aligned to 128 bytes, and to the swizzle's 8 rows (1024 bytes for
/// 128-byte rows) for its pattern to begin there. Nobody touches them until the phase of `full` in
/// which the bytes are expected has ended, and all earlier accesses of them are known to be over,
/// through a barrier (and [`fence::async_shared`](crate::fence::async_shared) where they were
/// writes).
#[inline(always)]
pub unsafe fn load<T, const RANK: usize>(
    target: SharedPtr<T>,
    map: &TensorMap<RANK>,
    at: [i32; RANK],
    full: SharedPtr<Mbarrier>,
) where
    [i32; RANK]: Coordinates,
{
    // SAFETY: the caller's promise.
    unsafe { at.load(target.cast(), (&raw const *map).cast(), full) }
}

/// [`load`], with a hint to the L2 cache: `.L2::cache_hint`.
///
/// # Safety
/// As [`load`].
#[inline(always)]
pub unsafe fn load_with_policy<T, const RANK: usize>(
    target: SharedPtr<T>,
    map: &TensorMap<RANK>,
    at: [i32; RANK],
    full: SharedPtr<Mbarrier>,
    policy: CachePolicy,
) where
    [i32; RANK]: Coordinates,
{
    // SAFETY: the caller's promise.
    unsafe { at.load_with_policy(target.cast(), (&raw const *map).cast(), full, policy.0) }
}

/// [`load`] into several blocks of the cluster: bit i of `blocks` is for block i. Each gets the box
/// at the same place of its shared memory, and its bytes count for the barrier at the same place.
///
/// Lowers to `cp.async.bulk.tensor.Nd.shared::cluster.global.mbarrier::complete_tx::bytes` with
/// `.multicast::cluster` (PTX ISA, `cp.async.bulk.tensor`).
///
/// # Safety
/// As [`load`], in each of the blocks; they are of this cluster and have not ended.
#[inline(always)]
pub unsafe fn load_multicast<T, const RANK: usize>(
    target: SharedPtr<T>,
    map: &TensorMap<RANK>,
    at: [i32; RANK],
    full: SharedPtr<Mbarrier>,
    blocks: u16,
) where
    [i32; RANK]: Coordinates,
{
    // SAFETY: the caller's promise.
    unsafe { at.load_multicast(target.cast(), (&raw const *map).cast(), full, blocks) }
}

/// [`load_multicast`], with a hint to the L2 cache: `.L2::cache_hint`.
///
/// # Safety
/// As [`load_multicast`].
#[inline(always)]
pub unsafe fn load_multicast_with_policy<T, const RANK: usize>(
    target: SharedPtr<T>,
    map: &TensorMap<RANK>,
    at: [i32; RANK],
    full: SharedPtr<Mbarrier>,
    blocks: u16,
    policy: CachePolicy,
) where
    [i32; RANK]: Coordinates,
{
    let (target, map) = (target.cast(), (&raw const *map).cast());
    // SAFETY: the caller's promise.
    unsafe { at.load_multicast_with_policy(target, map, full, blocks, policy.0) }
}

/// Starts the copy of a box from shared memory to the tensor, at `at`.
///
/// Lowers to `cp.async.bulk.tensor.Nd.global.shared::cta.bulk_group` (PTX ISA,
/// `cp.async.bulk.tensor`).
///
/// # Safety
/// `map`, `at` and `source` as [`load`] has `map`, `at` and `target`; no coordinate is negative.
/// The tensor's rows are whole chunks of 16 bytes, or the rest of the last chunk is memory that may
/// be written. What threads wrote at `source` is followed by
/// [`fence::async_shared`](crate::fence::async_shared) of theirs and a barrier; nobody writes there
/// until [`wait_group_read`], and nobody touches the box in the tensor until [`wait_group`], or the
/// end of the kernel.
#[inline(always)]
pub unsafe fn store<T, const RANK: usize>(
    map: &TensorMap<RANK>,
    at: [i32; RANK],
    source: SharedPtr<T>,
) where
    [i32; RANK]: Coordinates,
{
    // SAFETY: the caller's promise.
    unsafe { at.store((&raw const *map).cast(), source.cast()) }
}

/// [`store`], with a hint to the L2 cache: `.L2::cache_hint`.
///
/// # Safety
/// As [`store`].
#[inline(always)]
pub unsafe fn store_with_policy<T, const RANK: usize>(
    map: &TensorMap<RANK>,
    at: [i32; RANK],
    source: SharedPtr<T>,
    policy: CachePolicy,
) where
    [i32; RANK]: Coordinates,
{
    // SAFETY: the caller's promise.
    unsafe { at.store_with_policy((&raw const *map).cast(), source.cast(), policy.0) }
}

/// Brings the box at `at` into the L2 cache.
///
/// Lowers to `cp.async.bulk.prefetch.tensor.Nd.L2.global` (PTX ISA,
/// `cp.async.bulk.prefetch.tensor`).
///
/// # Safety
/// `map` and `at` as [`load`] has them.
#[inline(always)]
pub unsafe fn prefetch<const RANK: usize>(map: &TensorMap<RANK>, at: [i32; RANK])
where
    [i32; RANK]: Coordinates,
{
    // SAFETY: the caller's promise.
    unsafe { at.prefetch((&raw const *map).cast()) }
}

/// Has the map itself at hand for the first copy that uses it.
///
/// Lowers to `prefetch.tensormap` (PTX ISA, `prefetch`).
#[gpu_only]
#[inline(always)]
pub fn prefetch_map<const RANK: usize>(map: &TensorMap<RANK>) {
    // SAFETY: reads the map at most.
    unsafe { asm!("prefetch.tensormap [{}];", in(reg64) map, options(nostack)) }
}

/// Starts the copy of `bytes` neighbouring bytes from global to shared memory; they count for
/// `full`. No tensor map is needed.
///
/// Lowers to `cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes` (PTX ISA,
/// `cp.async.bulk`).
///
/// # Safety
/// `bytes` and both addresses are multiples of 16; `source` points to as many bytes in global
/// memory, and `target` to as many of this block's shared memory, for which [`load`]'s words hold.
#[gpu_only]
#[inline(always)]
pub unsafe fn load_bytes<T>(
    target: SharedPtr<T>,
    source: *const T,
    bytes: u32,
    full: SharedPtr<Mbarrier>,
) {
    // N.B. The address is generic, and the instruction wants a global one: outside of the windows
    // of the other spaces the two are the same (PTX ISA, "Generic Addressing").
    // SAFETY: the caller's promise.
    unsafe {
        asm!("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes \
                [{}], [{}], {}, [{}];", in(reg32) target.address(), in(reg64) source,
            in(reg32) bytes, in(reg32) full.address(), options(nostack));
    }
}

/// Starts the copy of `bytes` neighbouring bytes from this block's shared memory to that of a block
/// of the cluster, where they count for `full`.
///
/// Lowers to `cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes` (PTX ISA,
/// `cp.async.bulk`).
///
/// # Safety
/// `bytes` and both addresses are multiples of 16; `target` and `full` are in one block, which has
/// not ended, and for both [`load`]'s words hold there. This block neither writes at `source` nor
/// ends before `full` has counted the bytes; they were written before an
/// [`async_shared`](crate::fence::async_shared).
#[gpu_only]
#[inline(always)]
pub unsafe fn send<T>(
    target: ClusterPtr<T>,
    source: SharedPtr<T>,
    bytes: u32,
    full: ClusterPtr<Mbarrier>,
) {
    // SAFETY: the caller's promise.
    unsafe {
        asm!("cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes \
                [{}], [{}], {}, [{}];", in(reg32) target.address(), in(reg32) source.address(),
            in(reg32) bytes, in(reg32) full.address(), options(nostack));
    }
}

/// Starts the copy of `bytes` neighbouring bytes from shared to global memory.
///
/// Lowers to `cp.async.bulk.global.shared::cta.bulk_group` (PTX ISA, `cp.async.bulk`).
///
/// # Safety
/// `bytes` and both addresses are multiples of 16; `target` points to as many bytes in global
/// memory, and for them and those at `source` [`store`]'s words hold.
#[gpu_only]
#[inline(always)]
pub unsafe fn store_bytes<T>(target: *mut T, source: SharedPtr<T>, bytes: u32) {
    // SAFETY: the caller's promise; of the address, as in `load_bytes`.
    unsafe {
        asm!("cp.async.bulk.global.shared::cta.bulk_group [{}], [{}], {};", in(reg64) target,
            in(reg32) source.address(), in(reg32) bytes, options(nostack));
    }
}

/// Closes this thread's stores since the last group into a group, which may be empty.
///
/// Lowers to `cp.async.bulk.commit_group` (PTX ISA, `cp.async.bulk.commit_group`).
#[gpu_only]
#[inline(always)]
pub fn commit_group() {
    // SAFETY: no operands; without options the compiler keeps it behind the stores.
    unsafe { asm!("cp.async.bulk.commit_group;", options(nostack)) }
}

/// Waits until at most the latest `PENDING` of this thread's groups are not yet in global memory.
///
/// Lowers to `cp.async.bulk.wait_group` (PTX ISA, `cp.async.bulk.wait_group`).
#[gpu_only]
#[inline(always)]
pub fn wait_group<const PENDING: u32>() {
    // SAFETY: no operands but a constant; without options the compiler keeps it in its place.
    unsafe { asm!("cp.async.bulk.wait_group {};", const PENDING, options(nostack)) }
}

/// Waits until at most the latest `PENDING` of this thread's groups still read shared memory, which
/// may then be written again.
///
/// Lowers to `cp.async.bulk.wait_group.read` (PTX ISA, `cp.async.bulk.wait_group`).
#[gpu_only]
#[inline(always)]
pub fn wait_group_read<const PENDING: u32>() {
    // SAFETY: no operands but a constant; without options the compiler keeps it in its place.
    unsafe { asm!("cp.async.bulk.wait_group.read {};", const PENDING, options(nostack)) }
}
