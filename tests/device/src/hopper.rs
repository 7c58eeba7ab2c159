//! What compute capability 9.0 adds: barriers that count bytes, clusters, the copy engine, tensor
//! cores by the warpgroup.

pub mod clusters;
pub mod copies;
pub mod mbarriers;
pub mod products;
pub mod warpgroups;
