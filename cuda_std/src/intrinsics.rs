//! LLVM's NVPTX intrinsics.
//!
//! Whatever several threads run together has to be an intrinsic and not `asm!`: LLVM marks these intrinsics convergent,
//! so that it never moves one into a branch or copies it to both sides of one. rustc gives `asm!` no such mark.
//! `core::arch::nvptx` has only some of them, and their types have changed between compilers.

#[allow(improper_ctypes)]
unsafe extern "C" {
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
    #[link_name = "llvm.nvvm.barrier0"]
    pub fn sync_threads();
}
