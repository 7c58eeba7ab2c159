//! What the device functions lower to: facts of the PTX text, for which no GPU is needed.

use crate::gpu::{SM_70, SM_80, SM_90};

const MODULES: [(&str, &str); 3] = [("sm_70", SM_70), ("sm_80", SM_80), ("sm_90", SM_90)];

/// The header and body of an entry, without comments.
pub fn entry(module: &str, name: &str) -> String {
    let start = module
        .find(&format!(".entry {name}("))
        .unwrap_or_else(|| panic!("the module has no entry {name}"));
    let end = module[start..].find("\n}").expect("the end of the entry");
    let lines = module[start..start + end].lines();
    lines.map(|line| line.split("//").next().unwrap_or_default().trim().to_owned() + "\n").collect()
}

fn assert_has(module: (&str, &str), name: &str, instructions: &[&str]) {
    let text = entry(module.1, name);
    for instruction in instructions {
        let found = text.lines().any(|line| line.contains(instruction));
        assert!(found, "{name} for {} has no `{instruction}`:\n{text}", module.0);
    }
}

/// Entry, and the instructions that its functions' docs name; in every module.
const LOWERINGS: &[(&str, &[&str])] = &[
    (
        "thread_indices",
        &[
            "%tid.x",
            "%tid.y",
            "%tid.z",
            "%ctaid.x",
            "%ctaid.y",
            "%ctaid.z",
            "%ntid.x",
            "%ntid.y",
            "%ntid.z",
            "%nctaid.x",
            "%nctaid.y",
            "%nctaid.z",
        ],
    ),
    ("barriers", &["bar.sync", "red.popc", "red.and", "red.or"]),
    ("fence_block", &["membar.cta", "nanosleep.u32"]),
    ("fence_grid", &["membar.gl"]),
    ("fence_device", &["membar.gl"]),
    ("fence_system", &["membar.sys"]),
    ("clocks", &["brkpt;", "%clock64", "pmevent 0;", "pmevent 7;"]),
    ("panics", &["trap;"]),
    ("votes", &["%laneid", "activemask.b32", "bar.warp.sync"]),
    ("votes", &["vote.sync.all.pred", "vote.sync.any.pred", "vote.sync.ballot.b32"]),
    ("match_u32", &["match.any.sync.b32", "match.all.sync.b32"]),
    ("match_i32", &["match.any.sync.b32", "match.all.sync.b32"]),
    ("match_f32", &["match.any.sync.b32", "match.all.sync.b32"]),
    ("match_u64", &["match.any.sync.b64", "match.all.sync.b64"]),
    ("match_i64", &["match.any.sync.b64", "match.all.sync.b64"]),
    ("match_f64", &["match.any.sync.b64", "match.all.sync.b64"]),
    ("floats_f32", &["cvt.rmi.f32.f32", "cvt.rpi.f32.f32", "cvt.rni.f32.f32", "cvt.rzi.f32.f32"]),
    ("floats_f32", &["sqrt.rn.f32", "fma.rn.f32", "abs.f32", "sub.rn.f32"]),
    ("floats_f64", &["cvt.rmi.f64.f64", "cvt.rpi.f64.f64", "cvt.rni.f64.f64", "cvt.rzi.f64.f64"]),
    ("floats_f64", &["sqrt.rn.f64", "fma.rn.f64", "abs.f64", "sub.rn.f64"]),
    ("approximations", &["ex2.approx.f32", "lg2.approx.f32", "sin.approx.f32", "cos.approx.f32"]),
    ("approximations", &["rsqrt.approx.f32"]),
    ("f16_to_f32", &["cvt.f32.f16"]),
    ("f32_to_f16", &["cvt.rn.f16.f32"]),
    ("fma_f16", &["fma.rn.f16"]),
    ("bf16_to_f32", &["shl.b32"]),
    ("reverse_u8", &["ld.shared.b8", "st.shared.b8"]),
    ("reverse_i8", &["ld.shared.b8", "st.shared.b8"]),
    ("reverse_u16", &["ld.shared.b16", "st.shared.b16"]),
    ("reverse_f16", &["ld.shared.b16", "st.shared.b16"]),
    ("reverse_bf16", &["ld.shared.b16", "st.shared.b16"]),
    ("reverse_u32", &["ld.shared.b32", "st.shared.b32"]),
    ("reverse_f32", &["ld.shared.b32", "st.shared.b32"]),
    ("reverse_u64", &["ld.shared.b64", "st.shared.b64"]),
    ("reverse_f64", &["ld.shared.b64", "st.shared.b64"]),
    ("reverse_u128", &["ld.shared.v2.b64", "st.shared.v2.b64"]),
    ("reverse_quad", &["ld.shared.v2.b64", "st.shared.v2.b64"]),
    ("reverse_by_words", &["ld.shared.v4.b32"]),
    ("dynamic_shared", &["cuda_std_dynamic_shared", "%dynamic_smem_size", "%total_smem_size"]),
    ("address_spaces", &["isspacep.global", "isspacep.shared", "isspacep.const", "isspacep.local"]),
    ("permute", &["prmt.b32"]),
];

#[test]
fn functions_lower_to_what_their_docs_say() {
    for module in MODULES {
        for (name, instructions) in LOWERINGS {
            assert_has(module, name, instructions);
        }
        for number in [
            "u8", "i8", "u16", "i16", "u32", "i32", "u64", "i64", "u128", "i128", "f32", "f64",
            "f16", "bf16",
        ] {
            let name = format!("shuffle_{number}");
            // Upstream's modes were numbered wrongly; here each function has its own instruction.
            let modes = ["up", "down", "idx", "bfly"].map(|mode| format!("shfl.sync.{mode}.b32"));
            assert_has(module, &name, &modes.each_ref().map(String::as_str));
            let words = match number {
                "u64" | "i64" | "f64" => 2,
                "u128" | "i128" => 4,
                _ => 1,
            };
            let count = entry(module.1, &name).matches("shfl.sync.").count();
            assert_eq!(count, 4 * words, "{name}");
        }
    }
}

#[test]
fn reductions_and_bf16_use_sm_80_where_it_is() {
    let sm_80 = ("sm_80", SM_80);
    for (name, suffix) in [("reduce_u32", "u32"), ("reduce_i32", "s32")] {
        let typed = ["min", "max"].map(|op| format!("redux.sync.{op}.{suffix}"));
        assert_has(sm_80, name, &typed.each_ref().map(String::as_str));
        assert_has(
            sm_80,
            name,
            &["redux.sync.add", "redux.sync.and.b32", "redux.sync.or.b32", "redux.sync.xor.b32"],
        );
    }
    assert_has(sm_80, "f32_to_bf16", &["cvt.rn.bf16.f32"]);
    assert_has(sm_80, "fma_bf16", &["fma.rn.bf16"]);
    for missing in ["redux.sync", "cvt.rn.bf16", "fma.rn.bf16"] {
        assert!(!SM_70.contains(missing), "sm_70 has no {missing}");
    }
}

/// Entry of tests/device, the instruction of its function, and how often that stands there.
const COPIES_AND_MATRICES: &[(&str, &str, usize)] = &[
    ("copy_if_4", "cp.async.ca.shared.global [%r", 1),
    ("copy_if_8", "cp.async.ca.shared.global [%r", 1),
    ("copy_if_16", "cp.async.cg.shared.global [%r", 1),
    ("copy_if_16", "cp.async.commit_group;", 1),
    ("groups_0", "cp.async.wait_group 0;", 2), // One of them is the kernel's last wait.
    ("groups_1", "cp.async.wait_group 1;", 1),
    ("groups_2", "cp.async.wait_group 2;", 1),
    ("groups_3", "cp.async.wait_group 3;", 1),
    ("walks", "add.s64 %rd", 2), // With a blank: behind the name of its own ones LLVM has a tab.
    ("load_rows", "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {", 1),
    ("load_columns", "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {", 1),
    ("product_f16", "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {", 1),
    ("product_bf16", "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {", 1),
    ("product_i8", "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {", 1),
    ("product_u8", "mma.sync.aligned.m16n8k16.row.col.s32.u8.u8.s32 {", 1),
];

#[test]
fn copies_and_matrices_have_their_instruction() {
    let count = |module: &str, name: &str, instruction: &str| {
        entry(module, name).lines().filter(|line| line.contains(instruction)).count()
    };
    for (target, module) in MODULES.into_iter().skip(1) {
        for (name, instruction, expected) in COPIES_AND_MATRICES {
            let found = count(module, name, instruction);
            assert_eq!(found, *expected, "`{instruction}` in {name} for {target}");
        }
        for (name, bytes) in [("copy_if_4", 4), ("copy_if_8", 8), ("copy_if_16", 16)] {
            assert_eq!(count(module, name, &format!("], {bytes}, %r")), 1, "{name} for {target}");
        }
    }
    let of_f64 = "mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64 {";
    assert_eq!(count(SM_90, "product_f64", of_f64), 1);
    assert!(!SM_80.contains("f64.f64.f64"), "sm_80 has no such products");
    for missing in ["cp.async", "ldmatrix", "mma.sync"] {
        assert!(!SM_70.contains(missing), "sm_70 has no {missing}");
    }
}

#[test]
fn atomics_have_their_ordering_scope_and_operation() {
    let scopes = [("", "gpu"), ("system_", "sys"), ("block_", "cta")];
    for module in MODULES {
        for (prefix, scope) in scopes {
            for number in ["f32", "f64", "u32", "i32", "u64", "i64"] {
                check_atomics(module, &format!("{prefix}atomic_{number}"), scope, number);
            }
        }
    }
}

fn check_atomics(module: (&str, &str), name: &str, scope: &str, number: &str) {
    let width = &number[1..];
    let add = match number {
        "i32" => "add.s32".to_owned(),
        "i64" => "add.u64".to_owned(),
        _ => format!("add.{number}"),
    };
    let mut operations = vec![add];
    operations.extend(["and", "or", "xor", "exch"].map(|op| format!("{op}.b{width}")));
    if !number.starts_with('f') {
        let typed = number.replace('i', "s");
        operations.extend([
            format!("min.{typed}"),
            format!("max.{typed}"),
            format!("cas.b{width}"),
        ]);
    }
    for ordering in ["relaxed", "acquire", "release", "acq_rel"] {
        for operation in &operations {
            assert_has(module, name, &[&format!("atom.{ordering}.{scope}.{operation}")]);
        }
    }
    assert_has(
        module,
        name,
        &[
            &format!("fence.sc.{scope};"),
            &format!("ld.relaxed.{scope}.b{width}"),
            &format!("ld.acquire.{scope}.b{width}"),
            &format!("st.relaxed.{scope}.b{width}"),
            &format!("st.release.{scope}.b{width}"),
        ],
    );
    // No operation of another scope.
    let text = entry(module.1, name);
    let heads = ["atom.", "fence.", "ld.relaxed", "ld.acquire", "st.relaxed", "st.release"];
    for line in text.lines().filter(|line| heads.iter().any(|head| line.starts_with(head))) {
        let instruction = line.split_whitespace().next().unwrap_or_default();
        let of_scope = instruction.trim_end_matches(';').split('.').any(|part| part == scope);
        assert!(of_scope, "{name}: {line}");
    }
}

#[test]
fn slices_are_two_parameters() {
    for (_, module) in MODULES {
        let text = entry(module, "slices");
        let parameters = text.lines().filter(|line| line.starts_with(".param")).count();
        assert_eq!(parameters, 5, "{text}");
        assert!(!text.contains(".b8"), "no parameter is a block of bytes: {text}");
    }
}

#[test]
fn bounds_reach_the_entry() {
    for (_, module) in MODULES {
        let text = entry(module, "bounded");
        let (header, _) = text.split_once('{').expect("a body");
        assert!(header.contains(".maxntid 64"), "{header}");
        assert!(header.contains(".minnctapersm 1"), "{header}");
        assert!(!module.contains("//@kernel"), "the hand-over is removed");
    }
}

#[test]
fn nothing_is_local_called_or_generic_shared() {
    for (name, module) in MODULES {
        for line in module.lines() {
            let code = line.split("//").next().unwrap_or_default();
            let local = code.contains(".local") && !code.contains("isspacep.local");
            let generic = code.contains("cvta.shared");
            let call = code.split_whitespace().any(|word| word.starts_with("call"));
            assert!(!local && !generic && !call, "{name}: {line}");
        }
    }
}

#[test]
fn shared_addresses_are_32_bit() {
    for (_, module) in MODULES {
        let text = entry(module, "reverse_f32");
        for line in text.lines().filter(|line| line.contains(".shared.")) {
            let address = line.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
            let (address, _) = address.expect("an address");
            assert!(address.starts_with("%r") && !address.starts_with("%rd"), "{line}");
        }
    }
}
