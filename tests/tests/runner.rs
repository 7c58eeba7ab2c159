//! The runner catches what it is there to catch: each test breaks a right product in one way.

use gemmite::{DType, Device, Element, Op, bf16, f16};
use gemmite_tests::{Case, Data, Engine, GUARD, Place, Placed, cpu_engines, cuda_engines};
use gemmite_tests::{run_case_with, variants_on};

/// Multiplies rightly, lets `spoil` at the three buffers, and gives the runner's verdict.
fn verdict<T: Element>(
    case: &Case,
    spoil: impl FnOnce(&mut Placed<T>, &mut Placed<T>, &mut Placed<T::Output>),
) -> Result<(), String> {
    let engine = cpu_engines().remove(0);
    run_case_with::<T, T::Output>(case, |a, b, c| {
        engine.run(case, a, b, c)?;
        spoil(a, b, c);
        Ok(())
    })
    .map(|_| ())
}

fn padded() -> Case {
    let place = Place::Padded;
    Case::new("padded", 20, 18, 17).places(place, place, place).data(Data::Integers)
}

fn every_dtype(check: [fn(); 6]) {
    check.into_iter().for_each(|check| check());
}

/// Spoils a buffer with a number.
type Spoil<T> = fn(&mut Placed<T>, T);

fn finds_spoiled_buffers<T: Element>() {
    let (one, one_of_c) = (T::from_f64(1.0), T::Output::from_f64(1.0));
    verdict::<T>(&padded(), |_, _, _| ()).unwrap();
    let spoils: [(&str, Spoil<T::Output>); 4] = [
        ("C's guards", |c, x| c.buffer[GUARD - 1] = x),
        ("C's guards", |c, x| *c.buffer.last_mut().unwrap() = x),
        ("C's guards", |c, x| c.buffer[GUARD + 18] = x),
        ("wrong", |c, x| {
            let at = c.layout.index(19, 17);
            c.buffer[at] = T::Output::from_f64(c.buffer[at].to_f64() + 64.0 * x.to_f64());
        }),
    ];
    for (expected, spoil) in spoils {
        let failure = verdict::<T>(&padded(), |_, _, c| spoil(c, one_of_c)).unwrap_err();
        assert!(failure.contains(expected), "{failure}");
    }
    let failure = verdict::<T>(&padded(), |a, _, _| a.buffer[GUARD + 40] = one).unwrap_err();
    assert!(failure.contains("A was written to"), "{failure}");
    let failure = verdict::<T>(&padded(), |_, b, _| b.buffer[0] = one).unwrap_err();
    assert!(failure.contains("B was written to"), "{failure}");
}

#[test]
fn spoiled_buffers_are_found() {
    every_dtype([
        finds_spoiled_buffers::<i8>,
        finds_spoiled_buffers::<i32>,
        finds_spoiled_buffers::<f16>,
        finds_spoiled_buffers::<bf16>,
        finds_spoiled_buffers::<f32>,
        finds_spoiled_buffers::<f64>,
    ]);
}

fn finds_one_term_too_few<T: Element>() {
    // The last step of K is left out, which is what a wrong edge does.
    let case = Case::new("ragged", 18, 19, 17).data(Data::Integers);
    let short = Case { k: 16, ..case.clone() };
    let engine = cpu_engines().remove(0);
    let failure = run_case_with::<T, T::Output>(&case, |a, b, c| {
        let mut a = a.clone();
        let mut b = b.clone();
        a.layout.shape.cols = 16;
        b.layout.shape.rows = 16;
        engine.run(&short, &mut a, &mut b, c)
    })
    .unwrap_err();
    assert!(failure.contains("wrong"), "{failure}");
}

#[test]
fn a_missing_term_is_found() {
    every_dtype([
        finds_one_term_too_few::<i8>,
        finds_one_term_too_few::<i32>,
        finds_one_term_too_few::<f16>,
        finds_one_term_too_few::<bf16>,
        finds_one_term_too_few::<f32>,
        finds_one_term_too_few::<f64>,
    ]);
}

#[test]
fn an_untouched_c_is_found() {
    // Poison stays behind where an engine does nothing, and where it reads a C that it must not
    // read.
    for case in [padded(), padded().factors(1.0, Some(0.0)), padded().factors(0.0, None)] {
        let failure = run_case_with::<f32, f32>(&case, |_, _, _| Ok(())).unwrap_err();
        assert!(failure.contains("NaN"), "{failure}");
        let failure = run_case_with::<i32, i32>(&case, |_, _, _| Ok(())).unwrap_err();
        assert!(failure.contains("wrong"), "{failure}");
    }
}

#[test]
fn a_wrong_transpose_is_found() {
    let case = Case::new("square", 17, 17, 17).ops(Op::Transpose, Op::None);
    let other = Case { op_a: Op::None, ..case.clone() };
    let engine = cpu_engines().remove(0);
    let failure =
        run_case_with::<f64, f64>(&case, |a, b, c| engine.run(&other, a, b, c)).unwrap_err();
    assert!(failure.contains("wrong"), "{failure}");
}

/// Engines and names of kernels are those that the GPU runs, and what it lacks is a skip.
#[test]
fn kernels_for_other_gpus_are_left_out() {
    let [volta, ampere, hopper] =
        [(7, 0), (8, 0), (9, 0)].map(|arch| Device::emulator(arch).unwrap());
    assert!(variants_on(&hopper).into_iter().eq(gemm_spec::variants()));
    let on_ampere = variants_on(&ampere);
    assert!(on_ampere.contains(&"k11_tensor_core") && !on_ampere.contains(&"warp_group_64x64"));
    let engines = cuda_engines(&ampere);
    assert_eq!(engines.len(), 3 * (on_ampere.len() + 1), "three ways to each");
    let computes = |dtype| {
        let of = |engine: &&Engine| engine.kernel == Some("k11_tensor_core");
        engines.iter().find(of).unwrap().computes(dtype)
    };
    // That of f64 needs Hopper's instruction.
    assert!(computes(DType::BF16) && !computes(DType::F64));
    assert!(!variants_on(&volta).contains(&"k11_tensor_core"));
}
