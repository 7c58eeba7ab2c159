//! Bad input to the library, and what is answered: each case's kind of error and its message stand
//! in bad_input/answers.txt, to the letter. `GEMMITE_ACCEPT=1 cargo test -p gemmite --test
//! bad_input` writes that file anew, for a reader of the difference to judge.

mod devices;
mod matrices;
mod products;

use gemmite::{
    Device, Element, Error, F8E4M3, Gemm, Layout, Matrix, MatrixMut, MatrixRef, Shape, Strides,
    bf16, cuda, emulator, verify,
};

/// The cases' answers, line by line: name, kinds, message.
#[derive(Default)]
struct Answers(Vec<String>);

impl Answers {
    /// Adds the answer of one case, which has to be an error.
    #[track_caller]
    fn add<X>(&mut self, name: &str, result: Result<X, Error>) {
        let error = result.err().unwrap_or_else(|| panic!("{name} is no error"));
        let message = everywhere(&error.to_string()).replace('\n', "\n    ");
        self.0.push(format!("{name}\n    [{}] {message}", kinds(&error).join(" ")));
    }
}

/// A message without what differs from machine to machine and with each new kernel: the CPU's
/// name, the list of kernels, and the numbers of lines of built PTX.
fn everywhere(message: &str) -> String {
    let message = message.replace(Device::cpu().name(), "CPU");
    let known = "there are: k01_naive";
    let mut rest = message.split_once(known).map_or(&*message, |(before, _)| before);
    let mut text = String::new();
    while let Some((at, marker)) =
        ["line ", ".ptx:"].iter().filter_map(|of| Some((rest.find(of)?, of.len()))).min()
    {
        let (before, after) = rest.split_at(at + marker);
        rest = after.trim_start_matches(|c: char| c.is_ascii_digit());
        text += before;
        text += if rest.len() < after.len() { "N" } else { "" };
    }
    text += rest;
    if message.contains(known) { text + known + " ..." } else { text }
}

/// The predicates that hold.
fn kinds(error: &Error) -> Vec<&'static str> {
    let all = [
        ("shape", error.is_shape()),
        ("layout", error.is_layout()),
        ("no_device", error.is_no_device()),
        ("device_mismatch", error.is_device_mismatch()),
        ("recording", error.is_recording()),
        ("out_of_memory", error.is_out_of_memory()),
        ("unsupported", error.is_unsupported()),
        ("emulator_report", error.is_emulator_report()),
        ("jit", error.is_jit()),
        ("context_lost", error.is_context_lost()),
        ("tuning", error.is_tuning()),
    ];
    all.into_iter().filter(|(_, holds)| *holds).map(|(name, _)| name).collect()
}

/// A matrix of ones.
fn ones<T: Element>(rows: usize, cols: usize) -> Matrix<T> {
    Matrix::from_fn(Shape::new(rows, cols), |_, _| T::from_f64(1.0)).unwrap()
}

#[test]
fn every_answer_is_the_one_that_is_written_down() {
    let mut answers = Answers::default();
    matrices::views(&mut answers);
    matrices::memory(&mut answers);
    products::shapes(&mut answers);
    products::several(&mut answers);
    products::epilogues(&mut answers);
    products::kernels(&mut answers);
    products::forged_kernels(&mut answers);
    products::own_kernels(&mut answers);
    devices::places(&mut answers);
    devices::texts_of_ptx(&mut answers);
    for line in &answers.0 {
        let kinds = line.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
        let one = kinds.is_some_and(|(kinds, _)| !kinds.is_empty() && !kinds.contains(' '));
        assert!(one, "not of exactly one kind: {line}");
    }
    let found = answers.0.join("\n") + "\n";
    if std::env::var_os("GEMMITE_ACCEPT").is_some_and(|value| value == "1") {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/bad_input/answers.txt");
        std::fs::write(path, &found).unwrap();
    } else {
        let expected = include_str!("answers.txt").replace('\r', "");
        let mut lines = found.lines().zip(expected.lines());
        let differs = lines.find(|(found, expected)| found != expected);
        assert!(found == expected, "the first that differs, found and expected: {differs:#?}");
    }
}

/// Factors that are no numbers are no bad input: IEEE 754 says what comes of them, on every device,
/// and a factor of zero, of either sign, that nothing is read.
#[test]
fn factors_may_be_anything() {
    let devices =
        [Device::cpu(), Device::emulator((8, 0)).unwrap(), Device::emulator((9, 0)).unwrap()];
    let of = |value: f32| Matrix::from_fn(Shape::new(2, 2), |_, _| value).unwrap();
    const NAN: f32 = f32::NAN;
    const INF: f32 = f32::INFINITY;
    // Elements of A (those of B are 1), alpha, beta, C's old elements, and its new ones.
    let cases = [
        (1.0, NAN, None, NAN, NAN),
        (1.0, INF, None, NAN, INF),
        (0.0, INF, None, NAN, NAN),
        (NAN, 0.0, None, NAN, 0.0),
        (NAN, -0.0, Some(2.0), 3.0, 6.0),
        (1.0, 1.0, Some(NAN), 0.0, NAN),
        (1.0, 1.0, Some(INF), 0.0, NAN),
        (1.0, 1.0, Some(-INF), 1.0, -INF),
        (1.0, INF, Some(-INF), 1.0, NAN),
        (1.0, 3.0, Some(0.0), NAN, 6.0),
        (1.0, 3.0, Some(-0.0), INF, 6.0),
        (1e30, 1e30, None, NAN, INF),
    ];
    for device in &devices {
        for (a, alpha, beta, old, new) in cases {
            let mut c = of(old);
            let gemm = Gemm::new().alpha(alpha);
            let gemm = beta.map_or(gemm.clone(), |beta| gemm.beta(beta));
            gemm.run_into(device, &of(a), &of(1.0), &mut c).unwrap();
            let is_it = |x: &f32| *x == new || x.is_nan() && new.is_nan();
            assert!(c.as_slice().iter().all(is_it), "{device}: {a} {alpha} {beta:?} {old}: {c:?}");
        }
        // Of nothing the sum is 0, whatever alpha is.
        let (tall, wide) = (ones::<f32>(3, 0), ones::<f32>(0, 2));
        let none = Gemm::new().alpha(NAN).run(device, &tall, &wide).unwrap();
        assert_eq!(none.as_slice(), [0.0; 6]);
        for shape in [(0, 3, 2), (2, 3, 0), (0, 0, 0)] {
            let (a, b) = (ones::<f32>(shape.0, shape.1), ones::<f32>(shape.1, shape.2));
            assert!(Gemm::new().run(device, &a, &b).unwrap().as_slice().is_empty());
        }
    }
}

/// Sizes that are right, whose products nobody waits for, panics at, or overflows with.
#[test]
fn extremes_are_answered_at_once() {
    let max = usize::MAX;
    let none = |rows, cols| Matrix::<F8E4M3>::zeros(Shape::new(rows, cols)).unwrap();
    let scales = |rows, cols| Matrix::<f32>::zeros(Shape::new(rows, cols)).unwrap();
    let scaled = Gemm::<F8E4M3>::new().block_scaled();
    let (a, b) = ((none(max, 0), scales(max, 0)), (none(0, 0), scales(0, 0)));
    let c = scaled.run(&Device::cpu(), (a.0.view(), a.1.view()), (b.0.view(), b.1.view()));
    assert_eq!(c.unwrap().shape(), Shape::new(max, 0));
    // Rows of one element each, repeated: there is no memory for their numbers.
    let all = Layout::strided(Shape::new(max, 1), Strides::new(0, 1));
    let out = MatrixRef::new(&[0f32], all).unwrap();
    let (a, b) = (Matrix::<f32>::zeros(Shape::new(max, 0)).unwrap(), scales(0, 1));
    let problem = verify::Problem::<f32, f32>::product(a.view(), b.view());
    for rows in [verify::Rows::All, verify::Rows::Sampled { count: 1 << 62, seed: 1 }] {
        let refused = verify::check(&problem, out, rows).unwrap_err();
        assert!(refused.to_string().contains("sample fewer"), "{refused}");
    }
    // A stride that no element is reached by.
    let far = |shape, row, col| Layout::strided(shape, Strides::new(row, col));
    let (one, mut c) = ([2f64], [0f64]);
    let shape = Shape::new(1, 1);
    let a = MatrixRef::new(&one, far(shape, isize::MIN, isize::MIN)).unwrap();
    let b = MatrixRef::new(&one, far(shape, isize::MIN, 1)).unwrap();
    let into = MatrixMut::new(&mut c, far(shape, isize::MIN, isize::MIN)).unwrap();
    Gemm::<f64>::new().run_into(&Device::cpu(), a, b, into).unwrap();
    assert_eq!(c, [4.0]);
    // A device that says it has no multiprocessors, and a list of more tiles than numbers count.
    let options = emulator::Options { multiprocessors: Some(0), ..emulator::Options::default() };
    let device = Device::emulator_with(&options).unwrap();
    let product = Gemm::<bf16>::new().run(&device, &ones(70, 64), &ones(64, 136)).unwrap();
    assert_eq!(product[(69, 135)], bf16::from_f32(64.0));
    let long = Layout::row_major(Shape::new(isize::MAX as usize, 1));
    let pairs = vec![(long, Layout::row_major(Shape::new(1, 1))); 600];
    let list = Gemm::<bf16>::new().plan_grouped(device.info(), &pairs);
    assert!(list.unwrap_err().is_unsupported());
    let boxes = cuda::TensorLayout::new(cuda::TensorElement::F32, &[4; 3], &[u32::MAX; 3]);
    assert_eq!(boxes.box_bytes(), u64::MAX);
    assert!(boxes.check().is_err());
}

/// Where only strides differ that lead nowhere, a matrix keeps its memory.
#[test]
fn a_write_of_one_row_goes_where_the_matrix_is() {
    let device = Device::emulator((9, 0)).unwrap();
    let mut row = device.zeros::<f32>(Shape::new(1, 4)).unwrap();
    let (before, layout) = (row.device_address(), row.layout());
    let from = Matrix::from_fn(Shape::new(3, 8), |i, j| (8 * i + j) as f32).unwrap();
    row.write(from.view().block(1..2, 0..4).unwrap()).unwrap();
    assert_eq!((row.device_address(), row.layout()), (before, layout));
    assert_eq!(row.download().unwrap().as_slice(), [8.0, 9.0, 10.0, 11.0]);
}
