//! Some mutants of one kernel of each kind; `cargo xtask mutate` tries all of all.

use gemm_spec::entries;
use gemmite_mutation::{Harmless, Trial};

/// Kernels, and every which of their mutants is tried.
const SAMPLE: [(&str, usize); 8] = [
    ("k02_tiled_16_f32", 1),
    ("k08_double_buffer_f32", 1),
    ("k09_async_copy_f32", 5),
    ("k11_tensor_core_f16", 23),
    ("warp_group_128x128_nn_f16", 29),
    ("warp_group_scaled_128x128_nt_f8e4m3", 31),
    ("warp_group_grouped_128x128_nn_bf16", 31),
    ("repack_f16", 1),
];

#[test]
fn mutants_are_found_or_harmless() {
    let harmless = Harmless::of_the_project();
    for (name, every) in SAMPLE {
        let kernel = entries().find(|kernel| kernel.name == name).expect("it is in the table");
        let score = Trial { harmless: &harmless, jobs: 2, every }.run(kernel).expect("it runs");
        println!("{score}");
        assert_eq!(score.unknown().count(), 0, "{score}");
        assert!(score.reported + score.wrong > 0, "{score}");
    }
}
