//! What GPUs of each compute capability allow.

use super::Options;
use crate::device::{DeviceInfo, DeviceKind};
use crate::plan::LaunchLimits;

/// Compute capability, KiB of shared memory that a block may ask for, and of a GPU that has it the
/// multiprocessors, the billions of bytes that its memory moves in a second and the MiB of its L2
/// cache (CUDA C++ Programming Guide, "Technical Specifications per Compute Capability"; the data
/// sheets of V100, T4, A100, A40, Jetson AGX Orin, L40 and H100 SXM).
type Known = ((u32, u32), u32, u32, u64, u64);

const KNOWN: [Known; 7] = [
    ((7, 0), 96, 80, 900, 6),
    ((7, 5), 64, 40, 320, 4),
    ((8, 0), 163, 108, 1555, 40),
    ((8, 6), 99, 84, 696, 6),
    ((8, 7), 163, 16, 205, 4),
    ((8, 9), 99, 142, 864, 96),
    ((9, 0), 227, 132, 3352, 50),
];

/// Whether there is an emulated GPU of that compute capability.
pub(crate) fn is_known(arch: (u32, u32)) -> bool {
    KNOWN.iter().any(|(known, ..)| *known == arch)
}

/// What an unknown one is answered.
pub(crate) const UNKNOWN_ARCH: &str = "there are emulated GPUs of compute capability 7.0, 7.5, \
                                       8.0, 8.6, 8.7, 8.9 and 9.0, as in emulator:8.0";

/// The facts of an emulated GPU; `None` for an unknown compute capability.
pub(super) fn describe(options: &Options, number: usize, memory: u64) -> Option<DeviceInfo> {
    let (_, optin, multiprocessors, bandwidth, l2_cache) =
        *KNOWN.iter().find(|(known, ..)| *known == options.arch)?;
    let (major, minor) = options.arch;
    let (shared, optin) = (48 << 10, optin << 10);
    Some(DeviceInfo {
        name: format!("emulated GPU of compute capability {major}.{minor}"),
        kind: DeviceKind::emulator(options, number),
        compute_capability: Some(options.arch),
        total_memory: Some(memory),
        memory_bandwidth: Some(bandwidth * 1_000_000_000),
        l2_cache: Some(l2_cache << 20),
        shared_memory_per_block: Some(shared),
        shared_memory_per_block_optin: Some(optin),
        multiprocessors: Some(options.multiprocessors.unwrap_or(multiprocessors)),
        clusters_of_eight: None,
        driver_version: None,
        launch_limits: Some(LaunchLimits {
            threads_per_block: 1024,
            block: [1024, 1024, 64],
            grid: [i32::MAX as u32, 65_535, 65_535],
            shared_bytes_per_block: shared,
            shared_bytes_per_block_optin: optin,
        }),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_the_table() {
        for ((major, minor), ..) in KNOWN {
            assert!(UNKNOWN_ARCH.contains(&format!("{major}.{minor}")), "{major}.{minor}");
        }
        assert!(is_known(crate::emulator::DEFAULT_ARCH) && !is_known((6, 1)));
    }
}
