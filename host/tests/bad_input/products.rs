//! Products: shapes, epilogues, and choices of kernels.

use super::{Answers, ones};
use gemm_spec::{GemmParams, Kernel, KernelFamily, Tiles};
use gemmite::{
    Batch, DType, Device, F8E4M3, Gemm, HostEpilogue, KernelChoice, Layout, Matrix, MatrixMut,
    MatrixRef, Op, OwnKernel, Shape, Strides,
};

pub fn shapes(answers: &mut Answers) {
    let cpu = Device::cpu();
    let (a, b) = (ones::<f32>(3, 4), ones::<f32>(3, 2));
    let gemm = Gemm::<f32>::new;
    answers.add("columns of A that are not the rows of B", gemm().run(&cpu, &a, &b));
    let both = gemm().op_a(Op::Transpose).op_b(Op::Transpose);
    answers.add("the same, transposed", both.run(&cpu, &a, &b));
    let fits = gemm().op_a(Op::Transpose);
    answers.add("a C of another shape", fits.run_into(&cpu, &a, &b, &mut ones(2, 4)));
    answers.add("a C with no rows", fits.run_into(&cpu, &a, &b, &mut ones(0, 2)));
    answers.add("a beta without a C", fits.clone().beta(f32::NAN).run(&cpu, &a, &b));
    answers.add("a beta of 0 without a C", fits.beta(0.0).run(&cpu, &a, &b));
    // Shapes without elements can be of any length, and so can the product of two of them.
    let (tall, wide) = (usize::MAX, usize::MAX - 1);
    let tall = Matrix::<f32>::zeros(Shape::new(tall, 0)).unwrap();
    let wide = Matrix::<f32>::zeros(Shape::new(0, wide)).unwrap();
    answers.add("a product beyond usize of two empty matrices", gemm().run(&cpu, &tall, &wide));
    let half = Matrix::<f32>::zeros(Shape::new(0, 1 << 59)).unwrap();
    let one = Matrix::<f32>::zeros(Shape::new(1, 0)).unwrap();
    answers.add("a product of 2 EiB of two empty matrices", gemm().run(&cpu, &one, &half));
    // A plan takes layouts that nothing has held against a buffer.
    let gpu = Device::emulator((9, 0)).unwrap();
    let plan = |a, b| gemm().plan(gpu.info(), a, b);
    let of = |rows, cols| Layout::row_major(Shape::new(rows, cols));
    answers.add("a plan of shapes that do not match", plan(of(3, 4), of(5, 6)));
    answers.add("a plan beyond any grid", plan(of(usize::MAX, 2), of(2, usize::MAX)));
    let emulated = |layout: Layout| {
        let (one, mut c) = ([1f32; 4], [0f32; 4]);
        let square = of(2, 2);
        gemm().run_emulated(&gpu, (&one, layout), (&one, square), (&mut c, square))
    };
    answers.add("whole buffers that are too short", emulated(of(2, 3)));
    let backwards = Layout { strides: Strides::new(-2, 1), ..of(2, 2) };
    answers.add("whole buffers, and a layout that begins before", emulated(backwards));
    let square = of(2, 2);
    let repeated = Layout { strides: Strides::new(0, 1), ..square };
    let (one, mut c) = ([1f32; 4], [0f32; 4]);
    let into = gemm().run_emulated(&gpu, (&one, square), (&one, square), (&mut c, repeated));
    answers.add("whole buffers, and a C that repeats a row", into);
    let on_cpu = gemm().run_emulated(&cpu, (&one, square), (&one, square), (&mut c, square));
    answers.add("whole buffers on the CPU", on_cpu);
}

/// Batches, lists, and rows by offsets.
pub fn several(answers: &mut Answers) {
    let gemm = Gemm::<f32>::new;
    for device in [Device::cpu(), Device::emulator((9, 0)).unwrap()] {
        let on = |name: &str| match device == Device::cpu() {
            true => format!("{name} on the CPU"),
            false => format!("{name} on an emulated GPU"),
        };
        let (a, one_b) = (ones::<f32>(3, 4), ones::<f32>(4, 2));
        let a = device.upload(&a).unwrap();
        let one_b = device.upload_batch(&[one_b.view()]).unwrap();
        let mut c = device.zeros(Shape::new(3, 2)).unwrap();
        let mut by = |offsets| gemm().run_device_rows(&a, &one_b, &mut c, &offsets);
        for (rows, cols) in [(1, 0), (0, 1), (usize::MAX, 0)] {
            let none = device.zeros::<i32>(Shape::new(rows, cols)).unwrap();
            answers.add(&on(&format!("{rows}x{cols} offsets")), by(none));
        }
        let repeated = Layout::strided(Shape::new(usize::MAX, 2), Strides::new(0, 0));
        let repeated = device.upload(MatrixRef::new(&[0i32], repeated).unwrap()).unwrap();
        answers.add(&on("offsets beyond usize"), by(repeated));
        let many = device.zeros_batch::<f32>(usize::MAX, Shape::new(0, 0)).unwrap();
        answers.add(&on("a copy of more empty matrices than memory holds"), many.download());
    }
    let gpu = Device::emulator((9, 0)).unwrap();
    let of = |rows, cols| Layout::row_major(Shape::new(rows, cols));
    let (tall, wide) = (of(usize::MAX, 1), of(1, usize::MAX));
    let batch = Batch { count: 2, a: 0, b: 0, c: 0 };
    answers.add("a batch beyond usize", gemm().plan_batch(gpu.info(), tall, wide, batch));
    let stream = Device::cpu().stream().unwrap();
    let on_gpu = |rows, cols| gpu.upload(&ones::<f32>(rows, cols)).unwrap();
    let (a, b, mut c) = (on_gpu(3, 4), on_gpu(4, 2), on_gpu(3, 2));
    let list = vec![(&a, &b, &mut c)];
    answers.add("a list on a stream of another device", gemm().enqueue_grouped(&stream, list));
    let (b, offsets) =
        (gpu.upload_batch(&[ones(4, 2).view()]).unwrap(), Matrix::zeros(Shape::new(1, 2)));
    let offsets = gpu.upload(&offsets.unwrap()).unwrap();
    let rows = gemm().enqueue_rows(&stream, &a, &b, &mut c, &offsets);
    answers.add("rows on a stream of another device", rows);
}

pub fn epilogues(answers: &mut Answers) {
    let cpu = Device::cpu();
    let (a, b) = (ones::<f32>(3, 4), ones::<f32>(4, 5));
    let of = ones::<f32>;
    let none = HostEpilogue::<f32>::new;
    for (name, rows, cols) in [
        ("a bias of another shape", 3, 4),
        ("a bias with no rows", 0, 5),
        ("a bias with the axes exchanged", 5, 3),
    ] {
        let bias = of(rows, cols);
        answers.add(name, Gemm::new().fused(none().bias(&bias)).run(&cpu, &a, &b));
    }
    let run =
        |epilogue: HostEpilogue<'_, f32>| Gemm::<f32>::new().fused(epilogue).run(&cpu, &a, &b);
    answers.add("a residual of another shape", run(none().residual(&of(2, 5))));
    answers.add("factors of rows that are a row", run(none().row_scale(&of(1, 3))));
    answers.add("too few factors of rows", run(none().row_scale(&of(2, 1))));
    answers.add("factors of columns that are a column", run(none().col_scale(&of(5, 1))));
    answers.add("pairs of five columns", run(none().gated()));
    let (pairs, mut c) = (ones::<f32>(4, 6), ones::<f32>(3, 3));
    let gated = Gemm::new().beta(1.0).fused(none().gated()).run_into(&cpu, &a, &pairs, &mut c);
    answers.add("pairs and a beta", gated);
    let mut whole = ones::<f32>(3, 6);
    let gated = Gemm::new().fused(none().gated()).run_into(&cpu, &a, &pairs, &mut whole);
    answers.add("a C of as many columns as the pairs are of", gated);
    let residual = ones::<f32>(3, 6);
    let gated = none().gated().residual(&residual);
    answers.add("a residual of as many", Gemm::new().fused(gated).run(&cpu, &a, &pairs));

    let (a, b) = (ones::<F8E4M3>(3, 129), ones::<F8E4M3>(129, 2));
    let (of_a, of_b) = (ones::<f32>(3, 1), ones::<f32>(2, 1));
    let gpu = Device::emulator((9, 0)).unwrap();
    let scaled = Gemm::<F8E4M3>::new().block_scaled();
    let scales = (a.view(), of_a.view());
    answers.add("too few scales", scaled.run(&gpu, scales, (b.view(), of_b.view())));
    let two = ones::<f32>(3, 2);
    let (a, b) = ((a.view(), two.view()), (b.view(), of_b.view()));
    for name in ["k02_tiled_16", "warp_group_scaled_128x128/2", ""] {
        let scaled = Gemm::<F8E4M3>::new().kernel(name).block_scaled();
        answers.add(&format!("scales and the kernel {name:?}"), scaled.run(&gpu, a, b));
    }
    let scaled = Gemm::<F8E4M3>::new().beta(1.0).block_scaled();
    answers.add("scales and a beta without a C", scaled.run(&gpu, a, b));
    let (mut c, one) = ([gemmite::bf16::ONE; 6], Gemm::<F8E4M3>::new().block_scaled());
    let fine = MatrixMut::new(&mut c, Layout::row_major(Shape::new(2, 3))).unwrap();
    answers.add("scales and a C of another shape", one.run_into(&gpu, a, b, fine));
}

/// A product of 8 x 8 on a device, by a kernel.
fn by(device: &Device, kernel: impl Into<KernelChoice>) -> Result<Matrix<f32>, gemmite::Error> {
    let a = ones::<f32>(8, 8);
    Gemm::new().kernel(kernel).run(device, &a, &a)
}

pub fn kernels(answers: &mut Answers) {
    let (volta, hopper) = (Device::emulator((7, 0)).unwrap(), Device::emulator((9, 0)).unwrap());
    let product = |parts: &str| by(&hopper, format!("k02_tiled_16{parts}").as_str());
    for fine in ["", "/0", "/1", "/99999999999", "/18446744073709551615"] {
        assert_eq!(product(fine).unwrap().as_slice(), [8.0; 64], "{fine}");
    }
    for parts in ["/", "/-1", "/1.5", "/18446744073709551616", "/2/3", "/ 2", "//2"] {
        answers.add(&format!("a kernel {parts:?} behind its name"), product(parts));
    }
    for name in ["", "/", "/4", "AUTO", "auto/2", "k02_tiled_16_f32", "k02_tiled_16\0", "repack"] {
        answers.add(&format!("a kernel named {name:?}"), by(&hopper, name));
    }
    answers.add("parts by the kernel that has none", by(&hopper, "k09_async_copy/2"));
    answers.add("a kernel for a later GPU", by(&volta, "k09_async_copy"));
    let maps = Gemm::<gemmite::bf16>::new().kernel("warp_group_128x128");
    let odd = ones(9, 9);
    answers.add("a kernel for what maps describe", maps.run(&hopper, &odd, &odd));
    let by_rows = maps.kernel("warp_group_direct_64x64");
    answers.add("a kernel for rows, of none", by_rows.run(&hopper, &ones(9, 0), &ones(0, 9)));
    answers.add("a kernel on the CPU", by(&Device::cpu(), "k02_tiled_16"));
    answers.add("parts on the CPU", by(&Device::cpu(), "k02_tiled_16/2"));
    answers.add("a name that there is not, on the CPU", by(&Device::cpu(), "k99"));
    let half = Gemm::<f64>::new().kernel("warp_group_128x128");
    let a = ones::<f64>(8, 8);
    answers.add("a kernel that the dtype has not", half.run(&hopper, &a, &a));
}

pub fn forged_kernels(answers: &mut Answers) {
    let gpu = Device::emulator((9, 0)).unwrap();
    let row = *Kernel::find("k02_tiled_16", DType::F32).unwrap();
    assert!(by(&gpu, KernelChoice::Spec(row)).is_ok());
    let maps = *gemm_spec::kernels()
        .find(|kernel| kernel.takes_maps() && kernel.dtype == DType::BF16)
        .unwrap();
    let mut add = |name: &str, kernel| answers.add(name, by(&gpu, KernelChoice::Spec(kernel)));
    add("a row for another dtype", *Kernel::find("k02_tiled_16", DType::F64).unwrap());
    add("a row of another name", Kernel { name: "k03_thread_column_f32", ..row });
    add("a row of no name", Kernel { name: "", variant: "", ..row });
    add("a row of another module", Kernel { target: gemm_spec::Target::Sm90a, ..row });
    add(
        "the kernel that copies operands",
        *gemm_spec::repack(DType::F32, gemm_spec::Precision::Full).unwrap(),
    );
    add(
        "the kernel that finishes sums",
        *gemm_spec::finish(DType::F32, 1, Shape::new(1, 1), (7, 0)),
    );
    add("the kernel with scales", *gemm_spec::scaled(DType::F8E4M3).unwrap());
    add("the kernel for lists", *gemm_spec::grouped(DType::F16, [true; 2]).next().unwrap());
    add("a cluster of no blocks", Kernel { tiles: Tiles { cluster: 0, ..maps.tiles }, ..maps });
    add("warps of no rows", Kernel { tiles: Tiles { warp: [0; 2], ..maps.tiles }, ..maps });
    let mut all_equal = Vec::new();
    for family in gemm_spec::kernels().map(|kernel| kernel.family).chain([
        KernelFamily::WarpGroupScaled,
        KernelFamily::WarpGroupGrouped,
        KernelFamily::Repack,
        KernelFamily::Finish,
        KernelFamily::FinishOverlapped,
    ]) {
        for extent in [0, 1, 3, 1 << 16, (1 << 16) + 1, 1 << 32, usize::MAX] {
            let block = [extent; 3];
            let tiles = Tiles {
                block,
                warp: [extent; 2],
                thread: [extent; 2],
                stages: extent,
                min_blocks: extent,
                cluster: extent,
            };
            let kernel = Kernel { family, tiles, ..row };
            let error = by(&gpu, KernelChoice::Spec(kernel)).unwrap_err();
            all_equal.push(error.is_unsupported());
            let scaled = Gemm::<F8E4M3>::new().kernel(KernelChoice::Spec(kernel)).block_scaled();
            let (one, scale) = (ones::<F8E4M3>(8, 8), ones::<f32>(8, 1));
            let of_b = ones::<f32>(1, 1);
            let scaled = scaled.run(&gpu, (one.view(), scale.view()), (one.view(), of_b.view()));
            all_equal.push(scaled.unwrap_err().is_unsupported());
        }
    }
    assert!(all_equal.iter().all(|unsupported| *unsupported), "{all_equal:?}");
}

/// Kernels of other crates; here the library's own text stands for theirs.
pub fn own_kernels(answers: &mut Answers) {
    let gpu = Device::emulator((9, 0)).unwrap();
    let row = Kernel::find("k02_tiled_16", DType::F32).unwrap();
    let text: &'static str = gemmite::emulator::ptx_of(row).leak();
    // SAFETY: where an entry point is launched, it is the row's.
    let own = |ptx, entry, row: &Kernel| unsafe { OwnKernel::new(ptx, entry, row) };
    let right = || own(text, row.name, row).unwrap();
    assert_eq!(by(&gpu, right()).unwrap().as_slice(), [8.0; 64]);
    answers.add("an entry point that a text has not", own(text, "k02_tiled_16", row));
    answers.add("an entry point without a name", own(text, "", row));
    answers.add("an entry point of no text", own("", row.name, row));
    let maps = gemm_spec::kernels().find(|kernel| kernel.takes_maps()).unwrap();
    answers.add("an entry point with other parameters", own(text, row.name, maps));
    let finish = gemm_spec::finish(DType::F32, 1, Shape::new(1, 1), (7, 0));
    answers.add("an entry point like one for the library's use", own(text, row.name, finish));
    // SAFETY: it is refused.
    answers.add("an argument that there is not", unsafe { right().argument(1.0f32) });
    answers.add("an own kernel on the CPU", by(&Device::cpu(), right()));
    let f64s = ones::<f64>(8, 8);
    let of_f64 = Gemm::<f64>::new().kernel(right()).run(&gpu, &f64s, &f64s);
    answers.add("an own kernel for another dtype", of_f64);
    let (one, scale) = (ones::<F8E4M3>(8, 8), ones::<f32>(8, 1));
    let scaled = Gemm::<F8E4M3>::new().kernel(right()).block_scaled();
    let of_b = ones::<f32>(1, 1);
    let scaled = scaled.run(&gpu, (one.view(), scale.view()), (one.view(), of_b.view()));
    answers.add("an own kernel for scales", scaled);
    let empty = Kernel { tiles: Tiles { block: [0; 3], ..row.tiles }, ..*row };
    let tiles = by(&gpu, own(text, row.name, &empty).unwrap());
    answers.add("an own kernel with tiles of nothing", tiles);
    let block = size_of::<GemmParams<f32>>();
    let parameters = ".param .u64 a, .param .u64 b, .param .u64 c";
    let head = format!(".visible .entry mine({parameters}, .param .b8 p[{block}])");
    let none: &'static str = format!("{head} {{ nonsense }}").leak();
    answers.add("an own kernel of no PTX", own(none, "mine", row).and_then(|own| by(&gpu, own)));
}
