//! Bad input to the library, and what is answered: each case's kind of error and its message stand
//! in bad_input/answers.txt, to the letter. `GEMMITE_ACCEPT=1 cargo test -p gemmite --test
//! bad_input` writes that file anew, for a reader of the difference to judge.

mod devices;
mod matrices;
mod products;

use gemmite::{Device, Element, Error, Gemm, Matrix, Shape};

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
        ("out_of_memory", error.is_out_of_memory()),
        ("unsupported", error.is_unsupported()),
        ("emulator_report", error.is_emulator_report()),
        ("jit", error.is_jit()),
        ("context_lost", error.is_context_lost()),
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
