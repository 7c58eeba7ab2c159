//! Where blocks find room on a GPU.

/// What of a GPU decides how many clusters of blocks run at one time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Places {
    /// Streaming multiprocessors.
    pub multiprocessors: u32,
    /// Clusters of eight blocks that run at one time, each block on a multiprocessor of its own:
    /// fewer than multiprocessors would have them be, since all blocks of a cluster are on one GPC,
    /// a part of the GPU, and not all GPCs have as many multiprocessors.
    pub clusters_of_eight: u32,
}

impl Places {
    /// Those of a GPU that was not asked for its clusters: as many of eight blocks, for its
    /// multiprocessors, as an H100 and an H200 said, which is 15 of 132.
    pub const fn of(multiprocessors: u32) -> Self {
        let clusters_of_eight = (multiprocessors as u64 * 15 / 132) as u32;
        Places { multiprocessors, clusters_of_eight }
    }

    /// GPCs that have room for two clusters of eight.
    pub const fn gpcs(self) -> u32 {
        self.clusters_of_eight / 2
    }

    /// Clusters of two on the GPC that has room for one of eight alone, if there is one. To an idle
    /// GPU clusters come to that one first, and then one to each of the others in turn, as an H100
    /// and an H200 showed (docs/performance.md).
    pub const fn pairs_before(self) -> u32 {
        match self.clusters_of_eight % 2 {
            0 => 0,
            _ => 4,
        }
    }
}
