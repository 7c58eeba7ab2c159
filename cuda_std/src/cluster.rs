//! Clusters: a few blocks that run at the same time, wait for one another and reach one another's
//! shared memory. For compute capability 9.0; `#[kernel(cluster = ...)]` says how many.
//!
//! All is in the PTX ISA under "Cluster of Cooperative Thread Arrays", "Special Registers" and
//! `barrier.cluster`.

use crate::gpu_only;
use crate::shared::SharedPtr;
use core::marker::PhantomData;

#[cfg(target_arch = "nvptx64")]
use core::arch::asm;

macro_rules! registers {
    ($($(#[$doc:meta])* $name:ident, $intrinsic:ident, $register:literal;)*) => {$(
        $(#[$doc])*
        ///
        #[doc = concat!("Lowers to a read of `", $register, "` (PTX ISA, special registers).")]
        #[gpu_only]
        #[inline(always)]
        pub fn $name() -> u32 {
            // SAFETY: reading a special register has no precondition.
            unsafe { crate::intrinsics::$intrinsic() }
        }
    )*};
}

registers! {
    /// The block's number in its cluster, below [`block_count`].
    block_rank, cluster_block_rank, "%cluster_ctarank";
    /// Blocks of the cluster: 1 where the launch has no clusters.
    block_count, cluster_block_count, "%cluster_nctarank";
    /// The cluster's index in the grid along x.
    cluster_idx_x, cluster_idx_x, "%clusterid.x";
    /// The cluster's index in the grid along y.
    cluster_idx_y, cluster_idx_y, "%clusterid.y";
    /// The cluster's index in the grid along z.
    cluster_idx_z, cluster_idx_z, "%clusterid.z";
    /// Clusters of the grid along x.
    cluster_dim_x, cluster_count_x, "%nclusterid.x";
    /// Clusters of the grid along y.
    cluster_dim_y, cluster_count_y, "%nclusterid.y";
    /// Clusters of the grid along z.
    cluster_dim_z, cluster_count_z, "%nclusterid.z";
}

/// Says that this thread has come to the cluster's barrier; what it wrote before is visible behind
/// the [`wait`]s.
///
/// Lowers to `barrier.cluster.arrive.aligned` (PTX ISA, `barrier.cluster`), which releases.
///
/// # Safety
/// All threads of the warp call this at one place. Every thread of the cluster arrives once and
/// waits once, in turn.
#[gpu_only]
#[inline(always)]
pub unsafe fn arrive() {
    // SAFETY: the caller's promise.
    unsafe { crate::intrinsics::cluster_arrive() }
}

/// As [`arrive`], without a promise about memory; cheaper.
///
/// Lowers to `barrier.cluster.arrive.relaxed.aligned` (PTX ISA, `barrier.cluster`).
///
/// # Safety
/// As [`arrive`].
#[gpu_only]
#[inline(always)]
pub unsafe fn arrive_relaxed() {
    // SAFETY: the caller's promise.
    unsafe { crate::intrinsics::cluster_arrive_relaxed() }
}

/// Waits until every thread of the cluster that has not ended has arrived.
///
/// Lowers to `barrier.cluster.wait.aligned` (PTX ISA, `barrier.cluster`), which acquires.
///
/// # Safety
/// As [`arrive`].
#[gpu_only]
#[inline(always)]
pub unsafe fn wait() {
    // SAFETY: the caller's promise.
    unsafe { crate::intrinsics::cluster_wait() }
}

/// [`arrive`] and [`wait`]: the cluster's `sync_threads`. A block whose shared memory others still
/// reach must not end before it.
///
/// # Safety
/// As [`arrive`].
#[gpu_only]
#[inline(always)]
pub unsafe fn sync() {
    // SAFETY: the caller's promise.
    unsafe {
        arrive();
        wait();
    }
}

/// A pointer into the shared memory of a block of the cluster: the 32-bit address in the window
/// `shared::cluster`.
pub struct ClusterPtr<T> {
    #[cfg_attr(not(target_arch = "nvptx64"), allow(dead_code))]
    address: u32,
    pointee: PhantomData<*mut T>,
}

impl<T> Clone for ClusterPtr<T> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for ClusterPtr<T> {}

impl<T> SharedPtr<T> {
    /// What this pointer is to in the shared memory of block `rank` of the cluster: the same place
    /// of the same kernel's memory.
    ///
    /// Lowers to `mapa.shared::cluster.u32` (PTX ISA, `mapa`).
    ///
    /// # Safety
    /// `rank` is below [`block_count`].
    #[gpu_only]
    #[inline(always)]
    pub unsafe fn in_block(self, rank: u32) -> ClusterPtr<T> {
        let address: u32;
        // SAFETY: a function of its operands alone; the caller vouches for the rank.
        unsafe {
            asm!("mapa.shared::cluster.u32 {}, {}, {};", out(reg32) address,
                in(reg32) self.address(), in(reg32) rank, options(pure, nomem, nostack));
        }
        ClusterPtr { address, pointee: PhantomData }
    }
}

impl<T> ClusterPtr<T> {
    /// The address in the window `shared::cluster`, in bytes.
    #[cfg(target_arch = "nvptx64")]
    #[inline(always)]
    pub fn address(self) -> u32 {
        self.address
    }
}

/// Accesses of 4 bytes; a type of another size does not compile.
impl<T: Copy> ClusterPtr<T> {
    /// The value that the pointer points to.
    ///
    /// Lowers to `ld.shared::cluster.b32` (PTX ISA, `ld`).
    ///
    /// # Safety
    /// As [`SharedPtr::read`], with [`sync`] in the place of the block's barrier; the block has not
    /// ended.
    #[gpu_only]
    #[inline(always)]
    pub unsafe fn read(self) -> T {
        const { assert!(size_of::<T>() == 4, "a value in another block has 4 bytes") };
        let bits: u32;
        // SAFETY: the caller's promise.
        unsafe {
            asm!("ld.shared::cluster.b32 {}, [{}];", out(reg32) bits, in(reg32) self.address,
                options(readonly, nostack));
            core::mem::transmute_copy(&bits)
        }
    }

    /// Writes `value` where the pointer points.
    ///
    /// Lowers to `st.shared::cluster.b32` (PTX ISA, `st`).
    ///
    /// # Safety
    /// As [`SharedPtr::write`], with [`sync`] in the place of the block's barrier; the block has
    /// not ended.
    #[gpu_only]
    #[inline(always)]
    pub unsafe fn write(self, value: T) {
        const { assert!(size_of::<T>() == 4, "a value in another block has 4 bytes") };
        // SAFETY: the caller's promise; `T` has 4 bytes.
        unsafe {
            let bits: u32 = core::mem::transmute_copy(&value);
            asm!("st.shared::cluster.b32 [{}], {};", in(reg32) self.address, in(reg32) bits,
                options(nostack));
        }
    }
}
