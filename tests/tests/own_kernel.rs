//! Kernels of another crate, tests/own-kernels, launched by the library on every engine that runs
//! them.
//!
//! All numbers are small and whole, so that products are exact.

use gemmite::emulator::Options;
use gemmite::{
    DType, Device, DeviceMatrix, Element, Gemm, HostEpilogue, Kernel, Layout, Matrix, MatrixMut,
    MatrixRef, OutputOf, OwnKernel, Precision, Shape, Strides, bf16, random,
};
use gemmite_tests::{cuda, say};

const SM_80: &str = include_str!(env!("OWN_KERNELS_SM_80"));
const SM_90A: &str = include_str!(env!("OWN_KERNELS_SM_90A"));

/// Entry points of the crate: text, name, and the variant and dtype that they are like.
const KERNELS: [(&str, &str, &str, DType); 3] = [
    (SM_80, "causal_bf16", "k11_tensor_core", DType::BF16),
    (SM_80, "causal_f32", "k10_grouped_64x64", DType::F32),
    (SM_90A, "causal_nt_bf16", "warp_group_128x128", DType::BF16),
];

const LIMIT: f32 = 40.0;

fn row((_, _, variant, dtype): (&str, &str, &str, DType)) -> &'static Kernel {
    Kernel::find_for(variant, dtype, Precision::Full, [true; 2]).expect("the table has it")
}

/// The kernel without the values of its parameters.
fn bare(of: (&'static str, &'static str, &str, DType)) -> OwnKernel {
    // SAFETY: the entry points have the bodies of these rows.
    unsafe { OwnKernel::new(of.0, of.1, row(of)).unwrap() }
}

/// The kernel with a bias for each column, which is there as long as the matrix is.
fn with_bias(own: OwnKernel, bias: &DeviceMatrix<f32>) -> OwnKernel {
    // SAFETY: the products of this test end before the matrix does.
    unsafe { own.argument(bias.device_address().unwrap()).unwrap().argument(LIMIT).unwrap() }
}

fn numbers<T: Element>(rows: usize, cols: usize, seed: u64) -> Matrix<T> {
    random::integers(Shape::new(rows, cols), seed, -3..=3).unwrap()
}

/// C = 2 E(A B) - C with C in rows or in columns that lie apart.
fn check<T: Element, C: OutputOf<T>>(
    device: &Device,
    of: (&'static str, &'static str, &str, DType),
    [m, n, k]: [usize; 3],
    by_columns: bool,
) where
    C::Scalar: From<f32>,
{
    let a: Matrix<T> = numbers(m, k, 1);
    // B lies along K, as the kernel for Hopper wants it.
    let b: Matrix<T> = numbers(n, k, 2);
    let b_layout = Layout::col_major(Shape::new(k, n));
    let bias: Matrix<f32> = numbers(1, n, 3);
    let on_device = device.upload(&bias).unwrap();
    let own = with_bias(bare(of), &on_device);
    let strides = match by_columns {
        true => Strides::new(1, m as isize + 3),
        false => Strides::new(n as isize + 8, 1),
    };
    let c_layout = Layout { shape: Shape::new(m, n), strides, offset: 0 };
    let (reach, seven) = (c_layout.index(m - 1, n - 1) + 1, C::from_f64(7.0));
    let mut c = vec![seven; reach];
    let gemm = Gemm::<T, C>::default().kernel(own).alpha(C::Scalar::from(2.0));
    let gemm = gemm.beta(C::Scalar::from(-1.0));
    let b_view = MatrixRef::new(b.as_slice(), b_layout).unwrap();
    gemm.run_into(device, &a, b_view, MatrixMut::new(&mut c, c_layout).unwrap()).unwrap();
    let mut expected = vec![seven; reach];
    for i in 0..m {
        for j in 0..n {
            let term = |p| (a[(i, p)].to_f64() * b[(j, p)].to_f64()) as f32;
            let sum = (0..k).map(term).sum::<f32>() + bias[(0, j)];
            let x = if j > i { 0.0 } else { sum.clamp(-LIMIT, LIMIT) };
            expected[c_layout.index(i, j)] = C::from_f64(f64::from(2.0 * x - 7.0));
        }
    }
    assert!(c == expected, "{} {m}x{n}x{k} by columns {by_columns} on {}", of.1, device.name());
}

/// Whole tiles, ends in every direction, more tiles than an emulated GPU has multiprocessors, one
/// row and one column.
const SHAPES: [[usize; 3]; 5] =
    [[128, 128, 64], [130, 300, 72], [300, 70, 200], [1, 40, 64], [70, 1, 8]];

#[test]
fn sums_go_through_the_epilogue() {
    let emulated = |arch| {
        let options = Options { arch, multiprocessors: Some(2), ..Options::default() };
        Device::emulator_with(&options).unwrap()
    };
    let devices = [emulated((8, 0)), emulated((9, 0))].into_iter().chain(cuda());
    for device in devices {
        for of in KERNELS {
            let has = device.info().compute_capability.unwrap();
            if !row(of).target.runs_on(has) {
                continue;
            }
            for (shape, by_columns) in SHAPES.into_iter().flat_map(|s| [(s, false), (s, true)]) {
                match of.3 {
                    DType::F32 => check::<f32, f32>(&device, of, shape, by_columns),
                    _ => {
                        check::<bf16, bf16>(&device, of, shape, by_columns);
                        check::<bf16, f32>(&device, of, shape, by_columns);
                    }
                }
            }
            say(&format!("{} on {}", of.1, device.name()));
        }
    }
}

/// The message of a product by an own kernel that cannot be.
fn refusal(
    device: &Device,
    own: OwnKernel,
    run: impl FnOnce(Gemm<bf16>) -> Result<(), gemmite::Error>,
) -> String {
    let error = run(Gemm::new().kernel(own)).unwrap_err();
    assert!(error.is_unsupported() && !error.is_shape(), "{error} on {}", device.name());
    error.to_string()
}

#[test]
fn what_it_does_not_compute_is_refused() {
    let device = Device::emulator((9, 0)).unwrap();
    let (a, b) = (numbers::<bf16>(16, 16, 1), numbers::<bf16>(16, 16, 2));
    let bias = device.upload(&numbers::<f32>(1, 16, 3)).unwrap();
    let run = |gemm: Gemm<bf16>| gemm.run(&device, &a, &b).map(drop);
    let without = refusal(&device, bare(KERNELS[0]), run);
    assert!(without.contains("it has 2 arguments of its own, and 0 are given"), "{without}");
    let other = refusal(&device, with_bias(bare(KERNELS[1]), &bias), run);
    assert!(other.contains("it multiplies f32, and the product's is bf16"), "{other}");
    // B in rows, where the entry point wants it in columns.
    let stored = refusal(&device, with_bias(bare(KERNELS[2]), &bias), run);
    assert!(stored.contains("causal_nt_bf16 takes A and B as its name says"), "{stored}");
    let own = || with_bias(bare(KERNELS[0]), &bias);
    let old = Device::emulator((7, 0)).unwrap();
    let capability = refusal(&old, own(), |gemm| gemm.run(&old, &a, &b).map(drop));
    assert!(capability.contains("needs compute capability 8.0"), "{capability}");
    let cpu = Device::cpu();
    let on_cpu = refusal(&cpu, own(), |gemm| gemm.run(&cpu, &a, &b).map(drop));
    assert!(on_cpu.contains("causal_bf16"), "{on_cpu}");
    // A C of more rows than a grid has blocks: there is no such memory, and no need for it.
    let tall = Layout::row_major(Shape::new(1 << 55, 16));
    let wide = Layout::row_major(Shape::new(16, 1));
    let launches = refusal(&device, own(), |gemm| gemm.plan(device.info(), tall, wide).map(drop));
    assert!(launches.contains("it computes one product in one launch"), "{launches}");
    // A plan has not the arguments, and is no choice of the kernel that it is like.
    let gemm = Gemm::<bf16>::new().kernel(own());
    let square = Layout::row_major(Shape::new(16, 16));
    let plan = gemm.plan(device.info(), square, square).unwrap();
    let error = Gemm::new().kernel(&plan).run(&device, &a, &b).unwrap_err().to_string();
    assert!(error.contains("causal_bf16") && error.contains("not one of the library's"), "{error}");
    let fused = refusal(&device, own(), |gemm| {
        let row = numbers::<bf16>(1, 16, 4);
        let mut c = Matrix::zeros(Shape::new(16, 16))?;
        gemm.fused(HostEpilogue::new().bias(&row)).run_into(&device, &a, &b, &mut c)
    });
    assert!(fused.contains("has an epilogue of its own, and takes no other"), "{fused}");
}

/// The message of an own kernel that cannot be made.
fn wrong(ptx: &'static str, entry: &'static str, row: &Kernel) -> String {
    // SAFETY: it is never launched.
    let error = unsafe { OwnKernel::new(ptx, entry, row) }.unwrap_err();
    assert!(error.is_unsupported(), "{error}");
    error.to_string()
}

#[test]
fn parameters_have_to_fit() {
    let like = row(KERNELS[0]);
    let none = wrong(SM_80, "causal", like);
    assert!(none.contains("the text has no such entry point"), "{none}");
    let family = wrong(SM_80, "causal_bf16", row(KERNELS[2]));
    assert!(family.contains("begin with [128, 128, 128, 8, "), "{family}");
    let finish = gemm_spec::entries().find(|kernel| kernel.variant.starts_with("finish")).unwrap();
    let own_use = wrong(SM_80, "causal_bf16", finish);
    assert!(own_use.contains("for the library's own use"), "{own_use}");
    // SAFETY: it is never launched.
    let error = unsafe { bare(KERNELS[0]).argument(1.0f32) }.unwrap_err();
    assert!(error.to_string().contains("argument 0 has 4"), "{error}");
    // SAFETY: as above.
    let error = unsafe { bare(KERNELS[0]).argument(0u64).and_then(|own| own.argument(0u64)) };
    assert!(error.is_err());
    // The same row and text, made twice, are one.
    assert!(std::ptr::eq(bare(KERNELS[0]).kernel(), bare(KERNELS[0]).kernel()));
}
