//! Epilogues on every engine: each step alone and all together, in every dtype of C, through
//! kernels that have epilogues and through those whose sums go to memory first.

use gemmite::emulator::{Options, Timing};
use gemmite::verify::{Problem, Rows, check_fused};
use gemmite::{
    Activation, DType, Device, DeviceEpilogue, Element, F8E4M3, Gemm, HostEpilogue, Layout, Matrix,
    MatrixRef, Op, OutputOf, Shape, bf16, f16, random,
};
use gemmite_tests::{cuda, timing, variants_on};

/// What an epilogue does, and to what.
#[derive(Clone, Copy, Debug, Default)]
struct Steps {
    /// (m, n), or 1 in the place of either.
    bias: Option<(bool, bool)>,
    residual: bool,
    row_scale: bool,
    /// For each column, or one for all.
    col_scale: Option<bool>,
    activation: Activation,
    gated: bool,
    amax: bool,
    beta: bool,
}

const ROW: Option<(bool, bool)> = Some((false, true));
const COLUMN: Option<(bool, bool)> = Some((true, false));
const FULL: Option<(bool, bool)> = Some((true, true));

fn steps() -> Vec<Steps> {
    let none = Steps::default();
    let all = Steps {
        bias: ROW,
        residual: true,
        row_scale: true,
        col_scale: Some(true),
        activation: Activation::GeluTanh,
        gated: false,
        amax: true,
        beta: true,
    };
    let mut steps = vec![
        Steps { bias: ROW, ..none },
        Steps { bias: COLUMN, ..none },
        Steps { bias: FULL, amax: true, ..none },
        Steps { bias: Some((false, false)), ..none },
        Steps { residual: true, ..none },
        Steps { row_scale: true, ..none },
        Steps { col_scale: Some(true), ..none },
        Steps { col_scale: Some(false), ..none },
        Steps { amax: true, ..none },
        Steps { gated: true, activation: Activation::Silu, ..none },
        Steps { gated: true, ..none },
        all,
        Steps { gated: true, bias: FULL, activation: Activation::Gelu, beta: false, ..all },
    ];
    let activations = Activation::ALL.into_iter().skip(1);
    steps.extend(activations.map(|activation| Steps { bias: ROW, activation, ..none }));
    steps
}

/// A product's operands, A and B as they are before their transposes.
struct Operands<T, C> {
    ops: [Op; 2],
    a: Matrix<T>,
    b: Matrix<T>,
    /// C's old value.
    c: Matrix<C>,
    bias: Option<Matrix<C>>,
    residual: Option<Matrix<C>>,
    row_scale: Option<Matrix<f32>>,
    col_scale: Option<Matrix<f32>>,
}

impl<T: Element, C: OutputOf<T> + Element<Scalar = f32>> Operands<T, C> {
    fn new((m, n, k): (usize, usize, usize), ops: [Op; 2], steps: &Steps) -> Self {
        fn normal<E: Element>(rows: usize, cols: usize, seed: u64) -> Matrix<E> {
            random::normal(Shape::new(rows, cols), seed).unwrap()
        }
        let stored = |op, rows, cols| if op == Op::None { (rows, cols) } else { (cols, rows) };
        let (a, b) = (stored(ops[0], m, k), stored(ops[1], k, n));
        let n_of_c = if steps.gated { n / 2 } else { n };
        let one = |is_whole: bool, extent: usize| if is_whole { extent } else { 1 };
        Operands {
            ops,
            a: normal(a.0, a.1, 1),
            b: normal(b.0, b.1, 2),
            c: normal(m, n_of_c, 3),
            bias: steps.bias.map(|(rows, cols)| normal(one(rows, m), one(cols, n), 4)),
            residual: steps.residual.then(|| normal(m, n_of_c, 5)),
            row_scale: steps.row_scale.then(|| normal(m, 1, 6)),
            col_scale: steps.col_scale.map(|whole| normal(1, one(whole, n), 7)),
        }
    }

    fn gemm(&self, steps: &Steps) -> Gemm<T, C> {
        let gemm = Gemm::default().op_a(self.ops[0]).op_b(self.ops[1]).alpha(0.25);
        if steps.beta { gemm.beta(-1.5) } else { gemm }
    }

    fn epilogue(&self, steps: &Steps) -> HostEpilogue<'_, C> {
        let Operands { bias, residual, row_scale, col_scale, .. } = self;
        let mut epilogue = HostEpilogue::new().activation(steps.activation);
        if let Some(bias) = bias {
            epilogue = epilogue.bias(bias);
        }
        if let Some(residual) = residual {
            epilogue = epilogue.residual(residual);
        }
        if let Some(factors) = row_scale {
            epilogue = epilogue.row_scale(factors);
        }
        if let Some(factors) = col_scale {
            epilogue = epilogue.col_scale(factors);
        }
        if steps.gated { epilogue.gated() } else { epilogue }
    }

    /// Within the bound of the reference, and amax that of C.
    fn check(&self, steps: &Steps, c: MatrixRef<'_, C>, amax: f32) -> Result<(), String> {
        let beta = steps.beta.then_some(-1.5);
        let old = steps.beta.then_some(self.c.view());
        let problem = Problem {
            op_a: self.ops[0],
            op_b: self.ops[1],
            alpha: 0.25,
            beta,
            c: old,
            ..Problem::product(self.a.view(), self.b.view())
        };
        check_fused(&problem, &self.epilogue(steps), c, Rows::All)
            .map_err(|wrong| wrong.to_string())?;
        let Shape { rows, cols } = c.shape();
        let places = (0..rows).flat_map(|i| (0..cols).map(move |j| (i, j)));
        let largest = places.map(|at| c[at].to_f64().abs()).fold(0.0, f64::max);
        let expected = if steps.amax { largest } else { 0.0 };
        // C is rounded, amax is not; an f16 has 11 digits and a bf16 has 8.
        let unit = match C::DTYPE {
            DType::F32 => 0.0,
            DType::F16 => f64::exp2(-11.0),
            _ => f64::exp2(-8.0),
        };
        let is_near = (f64::from(amax) - expected).abs() <= expected * unit;
        if is_near { Ok(()) } else { Err(format!("amax is {amax} and C has {expected}")) }
    }
}

/// Where and by what it is computed.
/// An amax that is not the first element of its memory.
const AMAX: Layout = Layout { offset: 5, ..Layout::row_major(Shape::new(1, 1)) };

struct Engine {
    device: Device,
    kernel: &'static str,
}

impl Engine {
    /// From host slices, C by rows or by columns.
    fn on_host<T: Element, C: OutputOf<T> + Element<Scalar = f32>>(
        &self,
        operands: &Operands<T, C>,
        steps: &Steps,
        by_columns: bool,
    ) -> Result<(), String> {
        let mut c = match by_columns {
            true => operands.c.t().to_matrix().unwrap(),
            false => operands.c.clone(),
        };
        // Less than any magnitude, as the seed of a running maximum is.
        let mut amax = if steps.amax { f32::NEG_INFINITY } else { 0.0 };
        let mut epilogue = operands.epilogue(steps);
        if steps.amax {
            epilogue = epilogue.amax(&mut amax);
        }
        let place = if by_columns { c.view_mut().t() } else { c.view_mut() };
        let gemm = operands.gemm(steps).kernel(self.kernel);
        let (a, b) = (&operands.a, &operands.b);
        gemm.fused(epilogue).run_into(&self.device, a, b, place).map_err(|e| e.to_string())?;
        operands.check(steps, if by_columns { c.t() } else { c.view() }, amax)
    }

    /// From the device's memory.
    fn on_device<T: Element, C: OutputOf<T> + Element<Scalar = f32>>(
        &self,
        operands: &Operands<T, C>,
        steps: &Steps,
    ) -> Result<(), gemmite::Error> {
        let device = &self.device;
        let (a, b) = (device.upload(&operands.a)?, device.upload(&operands.b)?);
        let mut c = device.upload(&operands.c)?;
        let upload = |of: &Option<Matrix<C>>| of.as_ref().map(|of| device.upload(of)).transpose();
        let (bias, residual) = (upload(&operands.bias)?, upload(&operands.residual)?);
        let upload = |of: &Option<Matrix<f32>>| of.as_ref().map(|of| device.upload(of)).transpose();
        let (rows, cols) = (upload(&operands.row_scale)?, upload(&operands.col_scale)?);
        // Within a buffer of eight, the others of which stay as they are.
        let mut amax = device.zeros(Shape::new(1, 8))?.into_batch(AMAX, 1, 0)?.into_matrix(AMAX)?;
        let mut epilogue = DeviceEpilogue::new().activation(steps.activation);
        if let Some(bias) = &bias {
            epilogue = epilogue.bias(bias);
        }
        if let Some(residual) = &residual {
            epilogue = epilogue.residual(residual);
        }
        if let Some(factors) = &rows {
            epilogue = epilogue.row_scale(factors);
        }
        if let Some(factors) = &cols {
            epilogue = epilogue.col_scale(factors);
        }
        if steps.gated {
            epilogue = epilogue.gated();
        }
        if steps.amax {
            epilogue = epilogue.amax(&mut amax);
        }
        let stream = device.stream()?;
        let gemm = operands.gemm(steps).kernel(self.kernel);
        gemm.fused(epilogue).enqueue(&stream, &a, &b, &mut c)?;
        let row = Layout::row_major(Shape::new(1, 8));
        let all = amax.into_batch(row, 1, 0)?.into_matrix(row)?.download()?;
        let amax = all[(0, 5)];
        assert!((0..8).all(|j| j == 5 || all[(0, j)] == 0.0), "{all:?}");
        operands.check(steps, c.download()?.view(), amax).unwrap();
        Ok(())
    }
}

/// All steps in one dtype. Of odd shapes no row starts where a pack could.
fn check<T: Element, C: OutputOf<T> + Element<Scalar = f32>>(
    engine: &Engine,
    shapes: &[(usize, usize, usize)],
    ops: [Op; 2],
) {
    for &(m, n, k) in shapes {
        for steps in steps() {
            if steps.gated && n % 2 == 1 {
                continue;
            }
            let what = || {
                let (device, kernel) = (&engine.device, engine.kernel);
                format!("{device} {kernel} {}x{} {m}x{n}x{k} {steps:?}", T::DTYPE, C::DTYPE)
            };
            let operands = Operands::<T, C>::new((m, n, k), ops, &steps);
            for by_columns in [false, true] {
                let done = engine.on_host(&operands, &steps, by_columns);
                done.unwrap_or_else(|error| panic!("{}: {error}", what()));
            }
            let done = engine.on_device(&operands, &steps);
            done.unwrap_or_else(|error| panic!("{}: {error}", what()));
        }
    }
}

const NN: [Op; 2] = [Op::None, Op::None];
const NT: [Op; 2] = [Op::None, Op::Transpose];
/// For kernels of a B along N alone: by columns of C the product is so too.
const TN: [Op; 2] = [Op::Transpose, Op::None];

#[test]
fn on_the_cpu() {
    let engine = Engine { device: Device::cpu(), kernel: "auto" };
    let shapes = [(7, 10, 5), (130, 258, 33), (1, 2, 0)];
    check::<f32, f32>(&engine, &shapes, NN);
    check::<bf16, bf16>(&engine, &shapes, NT);
    check::<bf16, f32>(&engine, &shapes, NN);
    check::<f16, f16>(&engine, &shapes, NN);
    check::<i8, f16>(&engine, &shapes, NT);
}

fn emulated(arch: (u32, u32), kernel: &'static str) -> Engine {
    let multiprocessors = Some(4);
    let options = Options { arch, multiprocessors, timing: timing(), ..Options::default() };
    Engine { device: Device::emulator_with(&options).unwrap(), kernel }
}

/// Sums that go to memory first.
#[test]
fn behind_kernels_without_epilogues_on_the_emulator() {
    let shapes = [(7, 10, 5), (17, 35, 8)];
    check::<f32, f32>(&emulated((7, 0), "k02_tiled_16"), &shapes, NN);
    check::<bf16, bf16>(&emulated((8, 0), "k02_tiled_16"), &shapes[..1], NT);
    check::<f16, f32>(&emulated((8, 0), "auto"), &shapes[..1], NN);
    check::<i8, bf16>(&emulated((9, 0), "k02_tiled_16"), &shapes[..1], NN);
    // Nothing to sum.
    check::<bf16, bf16>(&emulated((9, 0), "auto"), &[(9, 4, 0)], NN);
}

/// Sums that are in registers.
#[test]
fn in_warp_groups_on_the_emulator() {
    let aligned = [(72, 136, 32)];
    check::<bf16, bf16>(&emulated((9, 0), "warp_group_64x64"), &aligned, NN);
    check::<f16, f16>(&emulated((9, 0), "warp_group_128x128"), &aligned, NT);
    // Boxes of half as long rows.
    check::<bf16, bf16>(&emulated((9, 0), "warp_group_64x32"), &[(72, 40, 32)], TN);
    check::<bf16, bf16>(&emulated((9, 0), "warp_group_128x256"), &[(136, 264, 16)], NN);
    // The last box of a tile is half of one.
    check::<bf16, bf16>(&emulated((9, 0), "warp_group_128x160"), &[(136, 328, 16)], NN);
    check::<f16, f16>(&emulated((9, 0), "warp_group_128x224"), &[(136, 232, 16)], NT);
    // One row of three tiles, side by side: the fourth lies past C's end.
    check::<bf16, bf16>(&emulated((9, 0), "warp_group_64x128"), &[(40, 328, 16)], NN);
    check::<f16, f16>(&emulated((9, 0), "warp_group_128x128"), &[(40, 328, 16)], NT);
}

/// Blocks that go on from tile to tile, of a single step each.
#[test]
fn from_tile_to_tile_on_the_emulator() {
    let steps = Steps { bias: ROW, activation: Activation::Relu, ..Steps::default() };
    for (kernel, rows) in [
        ("warp_group_128x256", 128),
        ("warp_group_128x160", 128),
        ("warp_group_ping_pong_128x192", 128),
        ("warp_group_ping_pong_128x176", 128),
        ("warp_group_ping_pong_128x160", 128),
        ("warp_group_64x64", 64),
    ] {
        for timing in [Timing::Latest, Timing::Eager, Timing::Seeded(1), Timing::Seeded(2)] {
            let multiprocessors = Some(2);
            let options = Options { arch: (9, 0), multiprocessors, timing, ..Options::default() };
            let engine = Engine { device: Device::emulator_with(&options).unwrap(), kernel };
            let operands = Operands::<f16, f16>::new((11 * rows + 16, 240, 48), NT, &steps);
            let done = engine.on_host(&operands, &steps, false);
            done.unwrap_or_else(|error| panic!("{kernel} {timing:?}: {error}"));
        }
    }
}

/// Operands that are copied before the product, sums that go to memory after it.
#[test]
fn with_copied_operands_on_the_emulator() {
    let engine = emulated((9, 0), "auto");
    let steps = Steps { bias: ROW, residual: true, ..Steps::default() };
    let operands = Operands::<bf16, bf16>::new((130, 130, 33), NT, &steps);
    engine.on_host(&operands, &steps, false).unwrap();
    engine.on_device(&operands, &steps).unwrap();
}

#[test]
fn on_cuda() {
    let Some(device) = cuda() else { return };
    let variants = variants_on(&device);
    let engine = |kernel| Engine { device: device.clone(), kernel };
    let shapes = [(7, 10, 5), (130, 258, 33), (264, 520, 96), (1, 2, 0)];
    for ops in [NN, NT] {
        check::<f32, f32>(&engine("auto"), &shapes, ops);
        check::<bf16, bf16>(&engine("auto"), &shapes, ops);
        check::<bf16, f32>(&engine("auto"), &shapes, ops);
        check::<f16, f16>(&engine("auto"), &shapes, ops);
        check::<f16, bf16>(&engine("auto"), &shapes, ops);
        check::<i8, f16>(&engine("auto"), &shapes, ops);
        check::<i8, f32>(&engine("auto"), &shapes, ops);
        check::<f32, f32>(&engine("k02_tiled_16"), &shapes[..2], ops);
        if variants.contains(&"k11_tensor_core") {
            check::<bf16, f16>(&engine("k11_tensor_core"), &shapes[..2], ops);
        }
    }
    for kernel in variants.into_iter().filter(|name| name.starts_with("warp_group")) {
        let mut instances = gemm_spec::kernels().filter(|of| of.variant == kernel);
        if gemm_spec::Kernel::find(kernel, DType::BF16).is_some() {
            let ops = if instances.any(|of| of.stored.takes([true; 2])) { NT } else { TN };
            check::<bf16, bf16>(&engine(kernel), &[(264, 520, 96)], ops);
        }
        if gemm_spec::Kernel::find(kernel, DType::F8E4M3).is_some() {
            check::<F8E4M3, bf16>(&engine(kernel), &[(264, 528, 96)], NT);
        }
    }
}

/// Where a sum is longer than f32 has digits, and its parts are what it is made of.
fn whole_numbers_are_rounded_once(device: &Device) {
    // 2^24 + 1, and then -2^24: 1.
    let half = |last| [[127, 127]; 1040].into_iter().chain([[127, 1]; 24]).chain([[last, 1]]);
    let rest = 2112 - 1040 - 25;
    let of = |last| half(last).chain(vec![[0, 0]; rest]).collect::<Vec<[i8; 2]>>();
    let (plus, minus) = (of(9), of(8));
    let a = plus.iter().map(|x| x[0]).chain(minus.iter().map(|x| -x[0]));
    let b = plus.iter().chain(&minus).map(|x| x[1]);
    let a = Matrix::from_vec(Shape::new(1, 4224), a.collect()).unwrap();
    let b = Matrix::from_vec(Shape::new(4224, 1), b.collect()).unwrap();
    for kernel in ["auto", "k02_tiled_16", "k02_tiled_16/2", "k02_tiled_16/33"] {
        let gemm = Gemm::<i8>::new().output::<f32>().kernel(kernel);
        let relu = HostEpilogue::new().activation(Activation::Relu);
        let c = gemm.fused(relu).run(device, &a, &b).unwrap();
        assert_eq!(c[(0, 0)], 1.0, "{kernel} on {device}");
    }
}

#[test]
fn whole_numbers_are_rounded_once_emulated() {
    whole_numbers_are_rounded_once(&emulated((9, 0), "auto").device);
}

#[test]
fn whole_numbers_are_rounded_once_on_cuda() {
    cuda().iter().for_each(whole_numbers_are_rounded_once);
}

/// An amax is raised and never lowered, and NaN is more than any number.
fn amax_is_a_maximum(device: &Device) {
    let one = |x: f32| Matrix::from_fn(Shape::new(3, 5), |_, _| x).unwrap();
    let (a, b) = (one(1.0), one(-2.0).t().to_matrix().unwrap());
    let run = |residual: &Matrix<f32>, before: f32, kernel: &str| {
        let mut amax = before;
        let epilogue = HostEpilogue::new().residual(residual).amax(&mut amax);
        Gemm::new().kernel(kernel).fused(epilogue).run(device, &a, &b).unwrap();
        amax
    };
    let kernels = ["auto", "k02_tiled_16"];
    let is_cpu = device.info().compute_capability.is_none();
    for kernel in &kernels[..if is_cpu { 1 } else { 2 }] {
        let zero = Matrix::zeros(Shape::new(3, 3)).unwrap();
        assert_eq!(run(&zero, 3.0, kernel), 10.0, "{kernel} on {device}");
        assert_eq!(run(&zero, 11.0, kernel), 11.0, "{kernel} on {device}");
        let nan = |i, j| if (i, j) == (1, 2) { f32::NAN } else { 0.0 };
        let nan = Matrix::from_fn(Shape::new(3, 3), nan).unwrap();
        assert!(run(&nan, 11.0, kernel).is_nan(), "{kernel} on {device}");
    }
}

#[test]
fn amax_is_a_maximum_on_every_engine() {
    amax_is_a_maximum(&Device::cpu());
    amax_is_a_maximum(&emulated((9, 0), "auto").device);
    cuda().iter().for_each(amax_is_a_maximum);
}

/// What does not fit is refused by name.
#[test]
fn shapes_that_do_not_fit_are_errors() {
    let matrix = |rows, cols| random::normal::<f32>(Shape::new(rows, cols), 1).unwrap();
    let (a, b, cpu) = (matrix(4, 3), matrix(3, 5), Device::cpu());
    let run = |epilogue: HostEpilogue<'_, f32>| {
        Gemm::new().fused(epilogue).run(&cpu, &a, &b).map(drop).unwrap_err()
    };
    let (wrong, odd) = (matrix(5, 4), HostEpilogue::new().gated());
    for (epilogue, part) in [
        (HostEpilogue::new().bias(&wrong), "the bias: shape 5x4, which has to be 4x5"),
        (HostEpilogue::new().residual(&wrong), "the residual"),
        (
            HostEpilogue::new().row_scale(&wrong),
            "the factors of rows: shape 5x4, which has to be 4x1",
        ),
        (HostEpilogue::new().col_scale(&wrong), "the factors of columns"),
        (odd, "pairs"),
    ] {
        let error = run(epilogue);
        assert!(error.is_shape() && error.to_string().contains(part), "{error}");
    }
    let gemm = Gemm::new().beta(1.0);
    let gated = gemm.fused(HostEpilogue::new().gated()).run_into(
        &cpu,
        &a,
        &matrix(3, 4),
        &mut matrix(4, 2),
    );
    assert!(gated.unwrap_err().to_string().contains("residual"));
    let on_cpu = |matrix: &Matrix<f32>| cpu.upload(matrix).unwrap();
    let (device_a, device_b, mut c) = (on_cpu(&a), on_cpu(&b), on_cpu(&matrix(4, 5)));
    let mut amax = on_cpu(&wrong);
    let epilogue = DeviceEpilogue::new().amax(&mut amax);
    let error = Gemm::new().fused(epilogue).run_device(&device_a, &device_b, &mut c).unwrap_err();
    assert!(error.is_shape() && error.to_string().contains("amax is one element"), "{error}");
}
