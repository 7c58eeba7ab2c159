//! What the functions lower to: facts of the PTX text, for which no GPU is needed.

use crate::gpu::SM_90A;
use crate::ptx_text;

/// The header and body of an entry, without comments, with single spaces.
fn entry(name: &str) -> String {
    let text = ptx_text::entry(SM_90A, name);
    let lines = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
    lines.map(|line| line + "\n").collect()
}

fn assert_has(name: &str, instructions: &[&str]) {
    let text = entry(name);
    for instruction in instructions {
        let found = text.lines().any(|line| line.contains(instruction));
        assert!(found, "{name} has no `{instruction}`:\n{text}");
    }
}

/// Entry, and the instructions that its functions' docs name.
const LOWERINGS: &[(&str, &[&str])] = &[
    ("phases", &["mbarrier.init.shared::cta.b64", "mbarrier.inval.shared::cta.b64"]),
    ("phases", &["mbarrier.arrive.shared::cta.b64 _,", "fence.mbarrier_init.release.cluster;"]),
    ("phases", &["mbarrier.arrive.expect_tx.shared::cta.b64 _,"]),
    ("phases", &["mbarrier.expect_tx.relaxed.cta.shared::cta.b64"]),
    ("phases", &["mbarrier.test_wait.parity.shared::cta.b64 p,"]),
    ("phases", &["mbarrier.try_wait.parity.shared::cta.b64 p,", "fence.proxy.async.shared::cta;"]),
    (
        "phases",
        &["cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes", "nanosleep.u32"],
    ),
    ("ring_of_copies", &["cp.async.mbarrier.arrive.noinc.shared.b64 ["]),
    ("remote_arrival", &["mapa.shared::cluster.u32", "mbarrier.arrive.shared::cluster.b64 _,"]),
    ("cluster_indices", &["%cluster_ctarank", "%cluster_nctarank"]),
    ("cluster_indices", &["%clusterid.x", "%clusterid.y", "%clusterid.z"]),
    ("cluster_indices", &["%nclusterid.x", "%nclusterid.y", "%nclusterid.z"]),
    ("neighbours", &["barrier.cluster.arrive.aligned;", "barrier.cluster.wait.aligned;"]),
    ("neighbours", &["barrier.cluster.arrive.relaxed.aligned;", "ld.shared::cluster.b32"]),
    ("neighbours", &["st.shared::cluster.b32"]),
    ("sends", &["cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes ["]),
    ("launches_dependents", &["griddepcontrol.launch_dependents;"]),
    ("waits_for_grid", &["griddepcontrol.wait;"]),
    ("register_counts", &["setmaxnreg.inc.sync.aligned.u32 240;"]),
    ("register_counts", &["setmaxnreg.dec.sync.aligned.u32 24;"]),
    ("elected", &["elect.sync"]),
    ("store_rows", &["stmatrix.sync.aligned.m8n8.x4.shared.b16"]),
    ("store_columns", &["stmatrix.sync.aligned.m8n8.x4.trans.shared.b16"]),
    ("copy_box_2", &["fence.proxy.async.shared::cta;"]),
    ("copy_box_2", &["createpolicy.fractional.L2::evict_first.b64"]),
    ("copy_box_2", &["createpolicy.fractional.L2::evict_last.b64"]),
    ("copy_box_2", &["cp.async.bulk.commit_group;", "cp.async.bulk.wait_group 0;"]),
    ("copy_bytes", &["cp.async.bulk.wait_group.read 0;", "fence.proxy.async.global;"]),
    ("copy_bytes", &["cp.async.bulk.global.shared::cta.bulk_group ["]),
    (
        "multicast",
        &[
            "d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [",
            "d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster\
                .L2::cache_hint [",
        ],
    ),
    ("pipelined", &["wgmma.fence.sync.aligned;", "wgmma.commit_group.sync.aligned;"]),
    ("pipelined", &["wgmma.wait_group.sync.aligned 0;", "wgmma.wait_group.sync.aligned 1;"]),
];

#[test]
fn functions_lower_to_what_their_docs_say() {
    for (name, instructions) in LOWERINGS {
        assert_has(name, instructions);
    }
}

#[test]
fn boxes_of_every_rank() {
    for rank in 1..=5 {
        let tensor = format!("cp.async.bulk.tensor.{rank}d");
        let load = format!("{tensor}.shared::cluster.global.mbarrier::complete_tx::bytes");
        let store = format!("{tensor}.global.shared::cta.bulk_group");
        let instructions = [
            format!("{load} ["),
            format!("{load}.L2::cache_hint ["),
            format!("{store} ["),
            format!("{store}.L2::cache_hint ["),
        ];
        let instructions = instructions.each_ref().map(String::as_str);
        assert_has(&format!("copy_box_{rank}"), &instructions);
        let prefetch = format!("cp.async.bulk.prefetch.tensor.{rank}d.L2.global [");
        assert_has(&format!("prefetch_box_{rank}"), &["prefetch.tensormap", &prefetch]);
    }
}

#[test]
fn products_are_the_instructions_of_their_types() {
    let types = [
        ("f16", "k16.f32.f16.f16", ", p, 1, 1, 0, 0;"),
        ("bf16", "k16.f32.bf16.bf16", ", p, 1, 1, 0, 0;"),
        ("tf32", "k8.f32.tf32.tf32", ", p, 1, 1;"),
        ("e4m3", "k32.f32.e4m3.e4m3", ", p, 1, 1;"),
        ("e5m2", "k32.f32.e5m2.e5m2", ", p, 1, 1;"),
        ("i8", "k32.s32.s8.s8", ", p;"),
    ];
    for (name, types, tail) in types {
        for n in [8, 16, 32, 64, 96, 128, 160, 192, 224, 256] {
            let text = entry(&format!("product_{name}_{n}"));
            let instruction = format!("wgmma.mma_async.sync.aligned.m64n{n}{types} {{");
            let lines: Vec<_> = text.lines().filter(|l| l.starts_with(&instruction)).collect();
            assert_eq!(lines.len(), 4, "{name} {n}");
            for line in lines {
                assert!(line.contains(tail), "{line}");
                let (sums, _) = line.split_once('}').unwrap();
                assert_eq!(sums.matches("%r").count(), n / 2, "{line}");
            }
            assert_eq!(text.matches("wgmma.").count(), 7, "4 products, fence, commit, wait");
        }
    }
    for (kernel, tail) in [
        ("a_transposed_f16", "1, 1, 1, 0;"),
        ("b_transposed_bf16", "1, 1, 0, 1;"),
        ("both_transposed_bf16", "1, 1, 1, 1;"),
        ("registers_f16", "}, %rd"),
        ("registers_bf16", ", p, 1, 1, 0;"),
        ("registers_transposed_f16", ", p, 1, 1, 1;"),
    ] {
        let text = entry(kernel);
        let lines: Vec<_> = text.lines().filter(|l| l.starts_with("wgmma.mma_async")).collect();
        assert_eq!(lines.len(), 4, "{kernel}");
        assert!(lines.iter().all(|line| line.contains(tail)), "{kernel}: {lines:?}");
    }
}

#[test]
fn barriers_are_counted_once() {
    // A barrier that the compiler copied would let the threads of a warp stand at two.
    let count = |kernel, instruction: &str| entry(kernel).matches(instruction).count();
    assert_eq!(count("register_counts", "setmaxnreg."), 2);
    assert_eq!(count("register_counts", "384;"), 2, "one arrives, one waits");
    // Two in each branch.
    assert_eq!(count("named_barriers", "bar.sync 1, 64;"), 2);
    assert_eq!(count("named_barriers", "bar.sync 2, 64;"), 2);
    assert_eq!(count("remote_arrival", "barrier.cluster.arrive"), 2);
    assert_eq!(count("store_rows", "stmatrix."), 1);
    assert_eq!(count("pipelined", "wgmma.mma_async"), 8);
}

#[test]
fn a_remote_arrival_names_no_scope() {
    // `.release.cluster` would make a memory barrier of the whole GPU of it.
    let text = entry("remote_arrival");
    let arrivals = text.lines().filter(|line| line.starts_with("mbarrier.arrive"));
    for line in arrivals {
        assert!(!line.contains(".release") && !line.contains(".cluster."), "{line}");
    }
}

#[test]
fn bounds_and_grid_constants_reach_the_entry() {
    let header = |name: &str| entry(name).split_once('{').unwrap().0.to_owned();
    let text = header("cluster_indices");
    assert!(text.contains(".explicitcluster\n.reqnctapercluster 2, 1, 2"), "{text}");
    assert!(header("neighbours").contains(".reqnctapercluster 4, 1, 1"));
    let text = header("pipelined");
    assert!(text.contains(".maxntid 128, 1, 1\n.minnctapersm 1"), "{text}");
    for parameter in 0..2 {
        let declared = format!(".param .align 64 .b8 pipelined_param_{parameter}[128]");
        assert!(text.contains(&declared), "{text}");
        let named = format!(", pipelined_param_{parameter}; cvta.param.u64");
        assert!(entry("pipelined").contains(&named), "the address is the parameter's own");
    }
    // Behind a reference and a slice.
    let text = entry("behind_nothing");
    assert!(text.contains(".param .align 64 .b8 behind_nothing_param_3[128]"), "{text}");
    assert!(text.contains(", behind_nothing_param_3; cvta.param.u64"), "{text}");
}

#[test]
fn nothing_is_local_called_or_generic_shared() {
    for line in SM_90A.lines() {
        let code = line.split("//").next().unwrap_or_default();
        let local = code.contains(".local") && !code.contains("isspacep.local");
        let generic = code.contains("cvta.shared");
        let call = code.split_whitespace().any(|word| word.starts_with("call"));
        assert!(!local && !generic && !call, "{line}");
    }
}
