//! How the kernels of the family deal out their work: groups, clusters, stages.

use gemm_spec::SPLIT;

/// How a kernel deals out its work.
pub trait Geometry: Copy {
    /// Groups that multiply, each 64 rows of the block's tile.
    const GROUPS: usize;
    /// Blocks of a cluster that compute tiles of their own.
    const CLUSTER: usize;
    /// Stages of the ring.
    const STAGES: usize;
    /// Blocks of a cluster that take parts of K of one tile, all of it where they do.
    const PARTS: usize = 1;
    /// Whether the blocks of a cluster bring parts of an operand for all of it.
    const SHARES: bool = Self::CLUSTER == 2;
    /// Whether they are rows of several tiles, whose blocks bring parts of A and of B for others.
    const IN_STEP: bool = Self::CLUSTER > 2;
    /// Whether groups take the block's tiles in turn, all rows of each.
    const IN_TURN: bool = false;
    /// Whether C is the transposed one of what the kernel computes.
    const SWAPS: bool = false;
    /// Tiles of each operand in a stage, one behind the other along K.
    const TOGETHER: usize = 1;
}

/// The numbers of a [`Geometry`].
#[derive(Clone, Copy)]
pub struct Blocks<const GROUPS: usize, const CLUSTER: usize, const STAGES: usize>;

impl<const GROUPS: usize, const CLUSTER: usize, const STAGES: usize> Geometry
    for Blocks<GROUPS, CLUSTER, STAGES>
{
    const GROUPS: usize = GROUPS;
    const CLUSTER: usize = CLUSTER;
    const STAGES: usize = STAGES;
}

/// The same where all blocks of a cluster, `PARTS` of them, take parts of K of one tile.
#[derive(Clone, Copy)]
pub struct Parts<const GROUPS: usize, const PARTS: usize, const STAGES: usize>;

impl<const GROUPS: usize, const PARTS: usize, const STAGES: usize> Geometry
    for Parts<GROUPS, PARTS, STAGES>
{
    const GROUPS: usize = GROUPS;
    const CLUSTER: usize = 1;
    const STAGES: usize = STAGES;
    const PARTS: usize = PARTS;
}

/// The same of two groups that take the block's tiles in turn.
#[derive(Clone, Copy)]
pub struct PingPong<const GROUPS: usize, const CLUSTER: usize, const STAGES: usize>;

impl<const GROUPS: usize, const CLUSTER: usize, const STAGES: usize> Geometry
    for PingPong<GROUPS, CLUSTER, STAGES>
{
    const GROUPS: usize = GROUPS;
    const CLUSTER: usize = CLUSTER;
    const STAGES: usize = STAGES;
    const IN_TURN: bool = true;
}

/// The same of kernels that are given B for A and A for B, each transposed, and compute C
/// transposed: a tile may have any number of rows of C that is a multiple of 16.
#[derive(Clone, Copy)]
pub struct SwapAb<const GROUPS: usize, const CLUSTER: usize, const STAGES: usize>;

impl<const GROUPS: usize, const CLUSTER: usize, const STAGES: usize> Geometry
    for SwapAb<GROUPS, CLUSTER, STAGES>
{
    const GROUPS: usize = GROUPS;
    const CLUSTER: usize = CLUSTER;
    const STAGES: usize = STAGES;
    const SWAPS: bool = true;
}

/// The same of elements that are sums of as many as [`SPLIT`].
#[derive(Clone, Copy)]
pub struct Split<const GROUPS: usize, const CLUSTER: usize, const STAGES: usize>;

impl<const GROUPS: usize, const CLUSTER: usize, const STAGES: usize> Geometry
    for Split<GROUPS, CLUSTER, STAGES>
{
    const GROUPS: usize = GROUPS;
    const CLUSTER: usize = CLUSTER;
    const STAGES: usize = STAGES;
    const TOGETHER: usize = SPLIT;
}

/// Whether groups that multiply have so many sums a thread, or as many more of each step, that they
/// take all registers that there are beside those of few copies.
pub const fn has_most_registers<G: Geometry>(sums: usize) -> bool {
    G::IN_TURN && sums > 80 || G::TOGETHER > 1
}
