//! LLVM's NVPTX intrinsics.
//!
//! Whatever several threads run together has to be an intrinsic and not `asm!`: LLVM marks these
//! intrinsics convergent, so that it never moves one into a branch or copies it to both sides of
//! one. rustc gives `asm!` no such mark. `core::arch::nvptx` has only some of them, and their types
//! have changed between compilers.

/// A value and a predicate, as LLVM's `{ i32, i1 }`.
#[repr(C)]
pub struct WithPredicate {
    pub value: u32,
    pub predicate: bool,
}

// `unadjusted`: arguments and results have the intrinsics' own types, not those of the C ABI.
#[allow(improper_ctypes)]
unsafe extern "unadjusted" {
    #[link_name = "llvm.nvvm.read.ptx.sreg.tid.x"]
    pub fn thread_idx_x() -> u32;
    #[link_name = "llvm.nvvm.read.ptx.sreg.tid.y"]
    pub fn thread_idx_y() -> u32;
    #[link_name = "llvm.nvvm.read.ptx.sreg.tid.z"]
    pub fn thread_idx_z() -> u32;
    #[link_name = "llvm.nvvm.read.ptx.sreg.ctaid.x"]
    pub fn block_idx_x() -> u32;
    #[link_name = "llvm.nvvm.read.ptx.sreg.ctaid.y"]
    pub fn block_idx_y() -> u32;
    #[link_name = "llvm.nvvm.read.ptx.sreg.ctaid.z"]
    pub fn block_idx_z() -> u32;
    #[link_name = "llvm.nvvm.read.ptx.sreg.ntid.x"]
    pub fn block_dim_x() -> u32;
    #[link_name = "llvm.nvvm.read.ptx.sreg.ntid.y"]
    pub fn block_dim_y() -> u32;
    #[link_name = "llvm.nvvm.read.ptx.sreg.ntid.z"]
    pub fn block_dim_z() -> u32;
    #[link_name = "llvm.nvvm.read.ptx.sreg.nctaid.x"]
    pub fn grid_dim_x() -> u32;
    #[link_name = "llvm.nvvm.read.ptx.sreg.nctaid.y"]
    pub fn grid_dim_y() -> u32;
    #[link_name = "llvm.nvvm.read.ptx.sreg.nctaid.z"]
    pub fn grid_dim_z() -> u32;
    // Not `llvm.nvvm.barrier0`: LLVM 22 knows that name only when it reads bitcode. Until then it
    // is a plain function, not a convergent one, and jump threading gave each side of a branch its
    // own copy of the barrier, at which blocks hung.
    #[link_name = "llvm.nvvm.barrier.cta.sync.aligned.all"]
    pub fn sync_threads(barrier: u32);
    #[link_name = "llvm.nvvm.barrier.cta.red.popc.aligned.all"]
    pub fn sync_threads_count(barrier: u32, predicate: bool) -> u32;
    #[link_name = "llvm.nvvm.barrier.cta.red.and.aligned.all"]
    pub fn sync_threads_and(barrier: u32, predicate: bool) -> bool;
    #[link_name = "llvm.nvvm.barrier.cta.red.or.aligned.all"]
    pub fn sync_threads_or(barrier: u32, predicate: bool) -> bool;
    #[link_name = "llvm.nvvm.membar.cta"]
    pub fn block_fence();
    #[link_name = "llvm.nvvm.membar.gl"]
    pub fn device_fence();
    #[link_name = "llvm.nvvm.membar.sys"]
    pub fn system_fence();

    #[link_name = "llvm.nvvm.read.ptx.sreg.laneid"]
    pub fn lane_id() -> u32;
    #[link_name = "llvm.nvvm.read.ptx.sreg.warpsize"]
    pub fn warp_size() -> u32;
    #[link_name = "llvm.nvvm.activemask"]
    pub fn activemask() -> u32;
    #[link_name = "llvm.nvvm.bar.warp.sync"]
    pub fn sync_warp(mask: u32);
    #[link_name = "llvm.nvvm.vote.all.sync"]
    pub fn vote_all(mask: u32, predicate: bool) -> bool;
    #[link_name = "llvm.nvvm.vote.any.sync"]
    pub fn vote_any(mask: u32, predicate: bool) -> bool;
    #[link_name = "llvm.nvvm.vote.ballot.sync"]
    pub fn vote_ballot(mask: u32, predicate: bool) -> u32;
    #[link_name = "llvm.nvvm.match.any.sync.i32"]
    pub fn match_any_32(mask: u32, value: u32) -> u32;
    #[link_name = "llvm.nvvm.match.any.sync.i64"]
    pub fn match_any_64(mask: u32, value: u64) -> u32;
    #[link_name = "llvm.nvvm.match.all.sync.i32p"]
    pub fn match_all_32(mask: u32, value: u32) -> WithPredicate;
    #[link_name = "llvm.nvvm.match.all.sync.i64p"]
    pub fn match_all_64(mask: u32, value: u64) -> WithPredicate;

    #[link_name = "llvm.nvvm.shfl.sync.up.i32p"]
    pub fn shuffle_up(mask: u32, value: u32, delta: u32, control: u32) -> WithPredicate;
    #[link_name = "llvm.nvvm.shfl.sync.down.i32p"]
    pub fn shuffle_down(mask: u32, value: u32, delta: u32, control: u32) -> WithPredicate;
    #[link_name = "llvm.nvvm.shfl.sync.idx.i32p"]
    pub fn shuffle_idx(mask: u32, value: u32, lane: u32, control: u32) -> WithPredicate;
    #[link_name = "llvm.nvvm.shfl.sync.bfly.i32p"]
    pub fn shuffle_xor(mask: u32, value: u32, lane_mask: u32, control: u32) -> WithPredicate;

    #[link_name = "llvm.nvvm.redux.sync.add"]
    pub fn reduce_add(value: u32, mask: u32) -> u32;
    #[link_name = "llvm.nvvm.redux.sync.min"]
    pub fn reduce_min_signed(value: u32, mask: u32) -> u32;
    #[link_name = "llvm.nvvm.redux.sync.max"]
    pub fn reduce_max_signed(value: u32, mask: u32) -> u32;
    #[link_name = "llvm.nvvm.redux.sync.umin"]
    pub fn reduce_min_unsigned(value: u32, mask: u32) -> u32;
    #[link_name = "llvm.nvvm.redux.sync.umax"]
    pub fn reduce_max_unsigned(value: u32, mask: u32) -> u32;
    #[link_name = "llvm.nvvm.redux.sync.and"]
    pub fn reduce_and(value: u32, mask: u32) -> u32;
    #[link_name = "llvm.nvvm.redux.sync.or"]
    pub fn reduce_or(value: u32, mask: u32) -> u32;
    #[link_name = "llvm.nvvm.redux.sync.xor"]
    pub fn reduce_xor(value: u32, mask: u32) -> u32;

    #[link_name = "llvm.nvvm.isspacep.global"]
    pub fn is_global(pointer: *const ()) -> bool;
    #[link_name = "llvm.nvvm.isspacep.shared"]
    pub fn is_shared(pointer: *const ()) -> bool;
    #[link_name = "llvm.nvvm.isspacep.const"]
    pub fn is_constant(pointer: *const ()) -> bool;
    #[link_name = "llvm.nvvm.isspacep.local"]
    pub fn is_local(pointer: *const ()) -> bool;

    #[link_name = "llvm.nvvm.elect.sync"]
    pub fn elect(mask: u32) -> WithPredicate;
    #[link_name = "llvm.nvvm.barrier.cta.sync.aligned.count"]
    pub fn named_barrier_sync(barrier: u32, threads: u32);
    #[link_name = "llvm.nvvm.barrier.cta.arrive.aligned.count"]
    pub fn named_barrier_arrive(barrier: u32, threads: u32);
    // Their arguments have to be constants.
    #[link_name = "llvm.nvvm.setmaxnreg.inc.sync.aligned.u32"]
    pub fn increase_registers(count: u32);
    #[link_name = "llvm.nvvm.setmaxnreg.dec.sync.aligned.u32"]
    pub fn decrease_registers(count: u32);
    #[link_name = "llvm.nvvm.griddepcontrol.launch.dependents"]
    pub fn launch_dependents();
    #[link_name = "llvm.nvvm.griddepcontrol.wait"]
    pub fn wait_for_grids();

    #[link_name = "llvm.nvvm.read.ptx.sreg.clusterid.x"]
    pub fn cluster_idx_x() -> u32;
    #[link_name = "llvm.nvvm.read.ptx.sreg.clusterid.y"]
    pub fn cluster_idx_y() -> u32;
    #[link_name = "llvm.nvvm.read.ptx.sreg.clusterid.z"]
    pub fn cluster_idx_z() -> u32;
    #[link_name = "llvm.nvvm.read.ptx.sreg.nclusterid.x"]
    pub fn cluster_count_x() -> u32;
    #[link_name = "llvm.nvvm.read.ptx.sreg.nclusterid.y"]
    pub fn cluster_count_y() -> u32;
    #[link_name = "llvm.nvvm.read.ptx.sreg.nclusterid.z"]
    pub fn cluster_count_z() -> u32;
    #[link_name = "llvm.nvvm.read.ptx.sreg.cluster.ctarank"]
    pub fn cluster_block_rank() -> u32;
    #[link_name = "llvm.nvvm.read.ptx.sreg.cluster.nctarank"]
    pub fn cluster_block_count() -> u32;
    #[link_name = "llvm.nvvm.barrier.cluster.arrive.aligned"]
    pub fn cluster_arrive();
    #[link_name = "llvm.nvvm.barrier.cluster.arrive.relaxed.aligned"]
    pub fn cluster_arrive_relaxed();
    #[link_name = "llvm.nvvm.barrier.cluster.wait.aligned"]
    pub fn cluster_wait();

    #[link_name = "llvm.nvvm.wgmma.fence.sync.aligned"]
    pub fn wgmma_fence();
    #[link_name = "llvm.nvvm.wgmma.commit_group.sync.aligned"]
    pub fn wgmma_commit_group();
    // Its argument has to be a constant.
    #[link_name = "llvm.nvvm.wgmma.wait_group.sync.aligned"]
    pub fn wgmma_wait_group(pending: u64);
}
