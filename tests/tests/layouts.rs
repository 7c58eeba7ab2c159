//! Shapes, strides, transposes and factors at random, on the CPU and, where there is one, on the
//! GPU.

use gemmite::{Element, F8E4M3, F8E5M2, Op, Shape, Strides, bf16, f16};
use gemmite_tests::{Case, Data, Engine, Place, cpu_engines, cuda, cuda_engines, run_case};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use std::fmt::Debug;

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![Just(Op::None), Just(Op::Transpose)]
}

/// Any strides near 0, so that rows interlock, run backwards and repeat.
fn input_place() -> impl Strategy<Value = Place> {
    (-45isize..45, -45isize..45).prop_map(|(row, col)| Place::Strides(Strides::new(row, col)))
}

/// Strides by which no two elements of `shape` share an address.
fn output_place(shape: Shape) -> impl Strategy<Value = Place> {
    let (rows, cols) = (shape.rows.max(1) as isize, shape.cols.max(1) as isize);
    let sign = || prop_oneof![Just(-1isize), Just(1)];
    (any::<bool>(), 1isize..4, 0isize..5, sign(), sign()).prop_map(
        move |(by_columns, step, gap, row_sign, col_sign)| {
            let (row, col) = match by_columns {
                true => (step, step * rows + gap),
                false => (step * cols + gap, step),
            };
            Place::Strides(Strides::new(row * row_sign, col * col_sign))
        },
    )
}

fn case() -> impl Strategy<Value = Case> {
    let factor = || prop_oneof![Just(0.0), Just(1.0), Just(-1.0), -4.0f64..4.0];
    let data = prop_oneof![
        Just(Data::Normal),
        Just(Data::Integers),
        Just(Data::Nan),
        Just(Data::Infinite),
        Just(Data::Large),
        Just(Data::Tiny),
    ];
    (0usize..40, 0usize..40, 0usize..40)
        .prop_flat_map(move |(m, n, k)| {
            let c = output_place(Shape::new(m, n));
            (Just((m, n, k)), (op(), op()), (input_place(), input_place(), c))
        })
        .prop_flat_map(move |((m, n, k), (op_a, op_b), (a, b, c))| {
            let factors = (factor(), proptest::option::of(factor()));
            (factors, data.clone()).prop_map(move |((alpha, beta), data)| {
                Case::new("random", m, n, k)
                    .ops(op_a, op_b)
                    .places(a, b, c)
                    .factors(alpha, beta)
                    .data(data)
            })
        })
}

fn holds_on(engines: &[Engine], cases: u32) {
    let check = |case: Case, engine: &Engine| -> Result<(), TestCaseError> {
        fn one<T: Element + Debug>(case: &Case, engine: &Engine) -> Result<(), TestCaseError> {
            if !engine.computes(T::DTYPE) || engine.refuses::<T, T::Output>(case) {
                return Ok(());
            }
            run_case::<T, T::Output>(case, engine).map(|_| ()).map_err(|failure| {
                TestCaseError::fail(format!("{} in {}: {failure}", engine.name, T::DTYPE))
            })
        }
        one::<i32>(&case, engine)?;
        one::<F8E4M3>(&case, engine)?;
        one::<F8E5M2>(&case, engine)?;
        one::<f16>(&case, engine)?;
        one::<bf16>(&case, engine)?;
        one::<f32>(&case, engine)?;
        one::<f64>(&case, engine)
    };
    // Always the same cases: a failure on one machine is found on every other.
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let mut runner = TestRunner::new_with_rng(
        config,
        proptest::test_runner::TestRng::deterministic_rng(Default::default()),
    );
    let engine = proptest::sample::select(engines.to_vec());
    runner.run(&(case(), engine), |(case, engine)| check(case, &engine)).unwrap();
}

#[test]
fn random_layouts_on_the_cpu() {
    holds_on(&cpu_engines(), 200);
}

#[test]
fn random_layouts_on_cuda() {
    if let Some(device) = cuda() {
        holds_on(&cuda_engines(&device), 300);
    }
}
