//! Products whose tiles do not fill whole waves of a GPU: by equal shares of all steps (stream-K),
//! by halves of K in tiles of fewer columns, with the tiles of a last odd row side by side, by
//! kernels that compute C transposed, and by such as bring A to registers.

use gemm_spec::{Places, Placing, Precision, Stored};
use gemmite::emulator::{Options, Timing};
use gemmite::{DType, Element, F8E4M3, Kernel, Plan, random};
use gemmite::{
    Device, DeviceKind, Gemm, Layout, Matrix, MatrixMut, Op, OutputOf, Shape, Strides, bf16, f16,
};
use gemmite_tests::{hopper, say, timing};

/// Few multiprocessors, so that small products have several waves.
fn emulated(multiprocessors: u32) -> Device {
    emulated_at(multiprocessors, timing())
}

fn emulated_at(multiprocessors: u32, timing: Timing) -> Device {
    let multiprocessors = Some(multiprocessors);
    Device::emulator_with(&Options { multiprocessors, timing, ..Options::default() }).unwrap()
}

/// C = 2 op(A) op(B) - C by a kernel or the library's choice, of small integers, into a C with
/// gaps, against the CPU; returns the plan. On a GPU twice, which gives the same bits, and so by
/// equal shares on the emulator, whose clusters leave words behind for those of the next run.
fn check<T: Element, C: OutputOf<T> + Element<Scalar = f32> + PartialEq>(
    device: &Device,
    kernel: &str,
    shape: [usize; 3],
    ways: ([Op; 2], usize),
) -> Plan {
    product::<T, C>(device, kernel, shape, ways, true)
}

/// The same; without C's old value, which goes other ways to memory, where `reads_c` is not set.
fn product<T: Element, C: OutputOf<T> + Element<Scalar = f32> + PartialEq>(
    device: &Device,
    kernel: &str,
    [m, n, k]: [usize; 3],
    (ops, gap): ([Op; 2], usize),
    reads_c: bool,
) -> Plan {
    let stored = |op, rows, cols| match op {
        Op::None => Shape::new(rows, cols),
        Op::Transpose => Shape::new(cols, rows),
    };
    let of = |shape, seed| -> Matrix<T> { random::integers(shape, seed, -1..=1).unwrap() };
    let (a, b) = (of(stored(ops[0], m, k), 1), of(stored(ops[1], k, n), 2));
    let strides = Strides::new((n + gap) as isize, 1);
    let layout = Layout { shape: Shape::new(m, n), strides, offset: 0 };
    let old: Matrix<C> = random::integers(Shape::new(m, n + gap), 3, -9..=9).unwrap();
    let gemm = Gemm::<T, C>::default().op_a(ops[0]).op_b(ops[1]);
    let gemm = gemm.alpha(2.0);
    // These numbers have few digits.
    let gemm = match T::DTYPE {
        DType::F32 if kernel.contains("split") => gemm.precision(Precision::Bf16x6),
        DType::F32 => gemm.precision(Precision::Tf32),
        _ => gemm,
    };
    let gemm = if reads_c { gemm.beta(-1.0) } else { gemm };
    let run = |gemm: &Gemm<T, C>, device: &Device| {
        let mut c = old.as_slice().to_vec();
        gemm.run_into(device, &a, &b, MatrixMut::new(&mut c, layout).unwrap()).unwrap();
        c
    };
    let expected = run(&gemm, &Device::cpu());
    let gemm = gemm.kernel(kernel);
    let plan = gemm.plan_on(device, a.view().layout(), b.view().layout());
    let plan = plan.unwrap_or_else(|error| panic!("{m}x{n}x{k} {ops:?}: {error}"));
    let is_emulated = matches!(device.info().kind, DeviceKind::Emulator { .. });
    let again = !is_emulated || kernel.contains("stream_k");
    for _ in 0..1 + usize::from(again) {
        let is_right = run(&gemm, device) == expected;
        assert!(is_right, "{m}x{n}x{k} {ops:?}, gap {gap}, on {}: {plan}", device.name());
    }
    plan
}

const NT: [Op; 2] = [Op::None, Op::Transpose];
const LAYOUTS: [[Op; 2]; 4] =
    [[Op::None, Op::None], NT, [Op::Transpose, Op::None], [Op::Transpose, Op::Transpose]];

/// The kernels of equal shares over shapes with fewer tiles than clusters, more, and whole waves.
fn shares(device: &Device, shapes: &[[usize; 3]]) {
    for kernel in ["warp_group_stream_k_64x64", "warp_group_stream_k_128x256"] {
        for (i, &shape) in shapes.iter().enumerate() {
            let ops = LAYOUTS[i % 4];
            check::<bf16, bf16>(device, kernel, shape, (ops, 0));
            check::<bf16, f32>(device, kernel, shape, (ops, 4));
            check::<f16, f16>(device, kernel, shape, (LAYOUTS[(i + 1) % 4], 8));
            check::<f16, f32>(device, kernel, shape, (LAYOUTS[(i + 2) % 4], 3));
        }
    }
    say(&format!("shares on {}", device.name()));
}

#[test]
fn emulated_shares() {
    let shapes =
        [[64, 64, 1024], [200, 136, 320], [72, 520, 264], [264, 512, 128], [40, 600, 1104]];
    shares(&emulated(6), &shapes);
}

#[test]
fn cuda_shares() {
    let Some(device) = hopper() else { return };
    shares(
        &device,
        &[
            [64, 64, 16_384],
            [512, 512, 4096],
            [16, 4096, 1024],
            [1000, 2056, 520],
            [4104, 4096, 256],
            [2048, 2112, 640],
        ],
    );
}

/// Kernels of clusters, over shapes of an odd number of rows of tiles, one row among them; with the
/// last of these side by side there are fewer waves.
fn beside(device: &Device, shapes: &[[usize; 3]]) {
    let kernels = [
        "warp_group_128x256",
        "warp_group_128x128",
        "warp_group_64x128",
        "warp_group_ping_pong_128x192",
        "warp_group_ping_pong_128x176",
        "warp_group_ping_pong_128x160",
    ];
    for kernel in kernels {
        // That one has kernels of a B along K alone.
        let only_along_k = kernel == "warp_group_ping_pong_128x160";
        let layouts = if only_along_k { vec![NT, LAYOUTS[3]] } else { LAYOUTS.to_vec() };
        let layout = |i: usize| layouts[i % layouts.len()];
        for (i, &shape) in shapes.iter().enumerate() {
            let ops = layout(i);
            check::<bf16, bf16>(device, kernel, shape, (ops, 0));
            check::<bf16, f32>(device, kernel, shape, (layout(i + 1), 4));
            check::<f16, f16>(device, kernel, shape, (layout(i + 2), 8));
            product::<bf16, bf16>(device, kernel, shape, (ops, 8), false);
            product::<f16, f16>(device, kernel, shape, (layout(i + 3), 0), false);
            // In two parts of K.
            check::<f16, f32>(device, &format!("{kernel}/2"), shape, (ops, 3));
            if !kernel.starts_with("warp_group_64") {
                check::<F8E4M3, bf16>(device, kernel, shape, (NT, 1));
            }
        }
    }
    say(&format!("odd rows of tiles on {}", device.name()));
}

#[test]
fn emulated_odd_rows_of_tiles() {
    // One cluster alone has fewer tiles side by side wherever there are two columns of them. With
    // five steps and one row of tiles, tiles begin at different ones.
    beside(&emulated(2), &[[264, 520, 160], [40, 304, 320], [136, 264, 144], [304, 1032, 80]]);
}

#[test]
fn emulated_odd_rows_of_three_clusters() {
    beside(&emulated(6), &[[136, 1104, 144], [24, 2000, 320]]);
}

#[test]
fn cuda_odd_rows_of_tiles() {
    let Some(device) = hopper() else { return };
    let shapes =
        [[4104, 4096, 128], [304, 9000, 128], [136, 4360, 144], [72, 17_160, 320], [8, 34_000, 80]];
    beside(&device, &shapes);
}

/// Kernels whose clusters of eight blocks bring tiles for each other, over shapes with clusters
/// that are partly and mostly past C's end, with K whole and in parts, which take its steps in
/// turn.
fn in_step(device: &Device, shapes: &[[usize; 3]]) {
    for tile in ["128x192", "128x128", "64x192", "64x128"] {
        let kernel = &format!("warp_group_in_step_{tile}");
        for (i, &shape) in shapes.iter().enumerate() {
            let ops = LAYOUTS[i % 4];
            check::<bf16, bf16>(device, kernel, shape, (ops, 0));
            check::<f16, f32>(device, kernel, shape, (LAYOUTS[(i + 1) % 4], 3));
            for (j, parts) in [2, 3, 5].into_iter().enumerate() {
                let (ops, kernel) = (LAYOUTS[(i + j + 2) % 4], format!("{kernel}/{parts}"));
                let plan = check::<bf16, f32>(device, &kernel, shape, (ops, 4));
                assert!(plan.parts > 1, "{plan}");
                product::<f16, f16>(device, &kernel, shape, (ops, 8), false);
            }
        }
    }
    say(&format!("clusters in step on {}", device.name()));
}

#[test]
fn emulated_clusters_in_step() {
    in_step(&emulated(36), &[[520, 264, 328], [40, 8, 712]]);
}

#[test]
fn cuda_clusters_in_step() {
    let Some(device) = hopper() else { return };
    let (info, clusters) = (device.info(), device.info().places().clusters_of_eight);
    assert_eq!(info.clusters_of_eight, Some(clusters), "the driver says how many there are");
    assert!(clusters > 0 && 8 * clusters <= info.multiprocessors.unwrap(), "{clusters}");
    in_step(&device, &[[520, 264, 328], [512, 512, 8200], [1040, 2056, 1032], [16, 304, 20_000]]);
}

/// Few rows, of which both blocks of a cluster take half of K each: of one step, of an odd number
/// of them, and more tiles than clusters, which meet again and again.
fn halves(device: &Device, kernel: &str, shapes: &[[usize; 3]]) {
    // Of 16 bits and a B along K alone.
    const WIDE: [[Op; 2]; 2] = [LAYOUTS[1], LAYOUTS[3]];
    let is_wide = kernel == HALVES[1];
    let mut has_narrow = false;
    for (i, &shape) in shapes.iter().enumerate() {
        for j in 0..4 {
            let ops = if is_wide { WIDE[(i + j) % 2] } else { LAYOUTS[(i + j) % 4] };
            match j {
                0 => check::<bf16, bf16>(device, kernel, shape, (ops, 0)),
                1 => check::<f16, f32>(device, kernel, shape, (ops, 3)),
                2 => product::<f16, f16>(device, kernel, shape, (ops, 8), false),
                _ => check::<bf16, f32>(device, kernel, shape, (ops, 4)),
            };
        }
        if !is_wide {
            check::<F8E4M3, bf16>(device, kernel, shape, (NT, 1));
        }
        let plan = product::<bf16, bf16>(device, kernel, shape, (NT, 0), false);
        has_narrow |= plan.tile_cols > 0;
    }
    assert!(has_narrow, "no tiles of fewer columns by {kernel} on {}", device.name());
    say(&format!("halves of K by {kernel} on {}", device.name()));
}

const HALVES: [&str; 2] = ["warp_group_halves_64x64", "warp_group_halves_64x160"];

#[test]
fn emulated_halves() {
    let shapes = [[16, 800, 192], [8, 400, 80], [24, 200, 1600], [72, 392, 144], [40, 264, 48]];
    halves(&emulated(6), HALVES[0], &shapes);
    let shapes = [[16, 1320, 80], [72, 480, 144], [64, 328, 328], [40, 88, 48]];
    halves(&emulated(6), HALVES[1], &shapes);
}

/// Halves of parts of K that have a step or two: both blocks have one of their own part.
fn parts_of_halves(device: &Device) {
    let parts = [(8, 512), (2, 128), (3, 192), (3, 320), (2, 1000)];
    for ((parts, k), kernel) in parts.into_iter().zip(HALVES.into_iter().cycle()) {
        let kernel = format!("{kernel}/{parts}");
        let plan = product::<bf16, bf16>(device, &kernel, [16, 400, k], (NT, 0), false);
        assert!(plan.parts > 1 || k == 128, "{plan:?}");
    }
    say(&format!("parts of halves of K on {}", device.name()));
}

#[test]
fn emulated_parts_of_halves() {
    parts_of_halves(&emulated(6));
}

#[test]
fn cuda_parts_of_halves() {
    let Some(device) = hopper() else { return };
    parts_of_halves(&device);
}

#[test]
fn cuda_halves() {
    let Some(device) = hopper() else { return };
    let shapes = [
        [8, 4096, 1024],
        [16, 12_288, 528],
        [64, 4104, 2048],
        [72, 5000, 272],
        [8, 8192, 8192],
        [40, 20_000, 64],
        [64, 10_240, 1024],
    ];
    for kernel in HALVES {
        halves(&device, kernel, &shapes);
    }
}

/// Rows of which the last tile has no more than 32, of A in boxes of so many, by all ways in which
/// blocks bring them: alone, one below the other, side by side, by halves of K, in parts.
fn last_rows(device: &Device, rows: &[usize], [n, k]: [usize; 2]) {
    let kernels = ["64x64", "pairs_64x64", "64x128", "128x128", "128x256", "halves_64x64"];
    for (i, &m) in rows.iter().enumerate() {
        for (j, kernel) in kernels.into_iter().enumerate() {
            let kernel = format!("warp_group_{kernel}");
            let shape = [m, n, k + 8 * j];
            check::<bf16, bf16>(device, &kernel, shape, (LAYOUTS[(i + j) % 2], 0));
            product::<f16, f32>(device, &kernel, shape, (LAYOUTS[(i + j + 1) % 2], 3), false);
        }
        check::<F8E4M3, f32>(device, "warp_group_128x128", [m, n, k + 8], (NT, 1));
        check::<bf16, f32>(device, "warp_group_64x128/2", [m, n, 2 * k], (LAYOUTS[i % 2], 0));
    }
    say(&format!("last rows on {}", device.name()));
}

#[test]
fn emulated_last_rows() {
    // With few multiprocessors blocks go on from whole tiles to the last one, and back.
    last_rows(&emulated(4), &[65, 96, 136, 288], [264, 136]);
}

#[test]
fn cuda_last_rows() {
    let Some(device) = hopper() else { return };
    last_rows(&device, &[65, 96, 160, 288, 400, 1312], [5000, 1032]);
}

/// Kernels that compute C transposed, over extents around those of tiles and of boxes: a C that a
/// map describes, others, and such whose old values take part; and parts of K.
fn swapped(device: &Device, rows: &[usize], [n, k]: [usize; 2]) {
    let swaps = |kernel: &&Kernel| kernel.swaps_operands() && kernel.dtype == DType::BF16;
    for kernel in gemm_spec::kernels().filter(swaps) {
        let ops = if kernel.stored == Stored::Nt { NT } else { [Op::None; 2] };
        let kernel = kernel.variant;
        for (i, &m) in rows.iter().enumerate() {
            let gap = 8 * (i % 2);
            // Of B's columns that lie in rows, maps have whole chunks.
            let odd = if ops == NT { 3 } else { 24 };
            product::<bf16, bf16>(device, kernel, [m, n, k], (ops, gap), false);
            product::<f16, f16>(device, kernel, [m, n - 8, k], (ops, gap), false);
            product::<bf16, bf16>(device, kernel, [m, n + odd, k], (ops, gap), false);
            check::<bf16, bf16>(device, kernel, [m, n, k], (ops, gap));
            check::<bf16, f32>(device, kernel, [m, n - 16, k], (ops, i % 3));
            check::<bf16, f32>(device, &format!("{kernel}/2"), [m, n, k], (ops, 0));
        }
    }
    say(&format!("swapped operands on {}", device.name()));
}

#[test]
fn emulated_swapped() {
    swapped(&emulated(2), &[1, 80, 328], [264, 320]);
}

#[test]
fn emulated_swapped_with_late_warps() {
    swapped(&emulated_at(6, Timing::Seeded(3)), &[104], [520, 648]);
}

#[test]
fn cuda_swapped() {
    let Some(device) = hopper() else { return };
    swapped(&device, &[1, 8, 79, 160, 193, 328, 1000], [4104, 1032]);
    swapped(&device, &[40, 320, 3000], [1032, 4096]);
    // A wave of tiles of 80 and of 96 rows, whose clusters have places.
    swapped(&device, &[320, 384], [4096, 1536]);
}

/// Clusters that begin with neighbouring tiles on one GPC, of a GPU that has two, and half of one.
#[test]
fn emulated_near() {
    let [m, n, k] = [320, 640, 1536];
    let kernel = Kernel::find("warp_group_swap_ab_64x80", DType::BF16).unwrap();
    assert_eq!(kernel.placing(Shape::new(n, m), k, Places::of(45)), Placing::Near);
    product::<bf16, bf16>(&emulated(45), kernel.variant, [m, n, k], (NT, 0), false);
}

/// Kernels whose threads bring A to the instructions' registers, over extents around those of tiles
/// and of the two boxes of a group's rows.
fn from_registers(device: &Device, rows: &[usize], [n, k]: [usize; 2]) {
    let along_m = |kernel: &&Kernel| matches!(kernel.stored, Stored::Nn | Stored::Tt);
    let of_words = |kernel: &&Kernel| kernel.precision == Precision::Tf32 && along_m(kernel);
    for kernel in gemm_spec::kernels().filter(of_words) {
        let is_swapped = kernel.stored == Stored::Nn;
        let ops = [if is_swapped { Op::None } else { Op::Transpose }; 2];
        // A product of few columns is turned, and not for these.
        let rows = rows.iter().filter(|&&m| !is_swapped || m > 64);
        for (i, &m) in rows.enumerate() {
            // What lies along M here is N there.
            let [m, n] = if is_swapped { [n, m] } else { [m, n] };
            product::<f32, f32>(device, kernel.variant, [m, n, k], (ops, 4 * i), false);
            product::<f32, f32>(device, kernel.variant, [m, n, k + 12], (ops, 3), false);
            check::<f32, f32>(device, kernel.variant, [m, n, k], (ops, i % 3));
            check::<f32, f32>(device, &format!("{}/2", kernel.variant), [m, n, k], (ops, 0));
        }
    }
    say(&format!("A from registers on {}", device.name()));
}

#[test]
fn emulated_from_registers() {
    from_registers(&emulated(2), &[4, 36, 68, 100, 328], [264, 160]);
    from_registers(&emulated_at(6, Timing::Seeded(3)), &[104], [520, 324]);
}

#[test]
fn cuda_from_registers() {
    let Some(device) = hopper() else { return };
    from_registers(&device, &[4, 32, 100, 160, 196, 328, 1000], [4104, 1032]);
    from_registers(&device, &[3000], [1032, 4096]);
}

/// Whole numbers of 20 bits in A or in B, of which second and third summands are not 0, so few in a
/// sum that it is exact, times -1, 0 and 1 in the other.
fn digits(device: &Device, kernel: &str, [m, n, k]: [usize; 3], (ops, of_a): ([Op; 2], bool)) {
    let apart = (k / 6).max(1);
    let value = |outer: usize, k: usize, has_digits: bool| {
        let mixed = (outer * 0x9E37_79B1 + k * 0x85EB_CA77).wrapping_mul(0xC2B2_AE3D) >> 13;
        match has_digits {
            false => (mixed % 3) as f32 - 1.0,
            true if (k + 5 * outer).is_multiple_of(apart) => (mixed % (1 << 20)) as f32 - 524_288.0,
            true => 0.0,
        }
    };
    let stored = |op, [rows, cols]: [usize; 2], of: &dyn Fn(usize, usize) -> f32| match op {
        Op::None => Matrix::from_fn(Shape::new(rows, cols), of).unwrap(),
        Op::Transpose => Matrix::from_fn(Shape::new(cols, rows), |i, j| of(j, i)).unwrap(),
    };
    let a = stored(ops[0], [m, k], &|i, k| value(i, k, of_a));
    let b = stored(ops[1], [k, n], &|k, j| value(j, k, !of_a));
    let gemm = Gemm::<f32>::new().op_a(ops[0]).op_b(ops[1]);
    let expected = gemm.run(&Device::cpu(), &a, &b).unwrap();
    let gemm = gemm.precision(Precision::Bf16x6).kernel(kernel);
    let found = gemm.run(device, &a, &b).unwrap();
    let is_right = found.as_slice() == expected.as_slice();
    assert!(is_right, "{kernel} {m}x{n}x{k} {ops:?} on {}", device.name());
}

/// Elements of three bf16 each, over extents around those of tiles and steps, in more tiles than
/// there are blocks.
fn split(device: &Device, rows: &[usize], [n, k]: [usize; 2]) {
    let variant = "warp_group_split_128x128";
    for (i, &m) in rows.iter().enumerate() {
        let ops = LAYOUTS[i % 4];
        product::<f32, f32>(device, variant, [m, n, k], (ops, i % 4), false);
        check::<f32, f32>(device, variant, [m, n, k + 13 * i], (ops, 3 * i));
        for of_a in [true, false] {
            digits(device, variant, [m, n, k + 5 * i], (ops, of_a));
            digits(device, &format!("{variant}/2"), [m, n, k + i], (ops, of_a));
        }
    }
    say(&format!("elements of three bf16 on {}", device.name()));
}

#[test]
fn emulated_split() {
    split(&emulated(2), &[1, 65, 129, 300], [260, 321]);
    split(&emulated_at(6, Timing::Seeded(3)), &[104], [520, 448]);
}

#[test]
fn cuda_split() {
    let Some(device) = hopper() else { return };
    split(&device, &[1, 31, 100, 161, 196, 333, 1000, 2048], [4103, 1029]);
    split(&device, &[3000, 4095], [4097, 4099]);
}

/// Blocks and groups whose rows are past the end of C give stages back that others read, more of
/// them than a ring has. Their warps have to keep pace, however late some of them are.
#[test]
fn emulated_late_warps() {
    for seed in 0..12 {
        let device = emulated_at(16, Timing::Seeded(seed));
        for kernel in ["128x256", "ping_pong_128x160", "in_step_64x128", "swap_ab_128x80"] {
            let kernel = format!("warp_group_{kernel}");
            product::<bf16, bf16>(&device, &kernel, [8, 8, 1032], (NT, 0), false);
        }
    }
}
