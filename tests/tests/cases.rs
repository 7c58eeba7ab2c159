//! The case table on every engine, in every dtype.

use gemmite::{Element, bf16, f16};
use gemmite_tests::{Path, cpu_engines, cuda, cuda_engines, many_tiles, run_table, say, table};

fn on_cpu<T: Element>() {
    report::<T>(run_table::<T>(&table(), &cpu_engines()));
}

fn on_cuda<T: Element>() {
    if let Some(device) = cuda() {
        let mut engines = cuda_engines(&device);
        report::<T>(run_table::<T>(&table(), &engines));
        engines.retain(|engine| engine.takes_maps(T::DTYPE));
        if !engines.is_empty() {
            report::<T>(run_table::<T>(&many_tiles(), &engines));
        }
    }
}

fn report<T: Element>(summary: gemmite_tests::Summary) {
    let largest = match &summary.largest {
        Some((ratio, name)) => format!("largest error {ratio:.3} of its bound: {name}"),
        None => "none passed".into(),
    };
    say(&format!(
        "{}: {} runs, {} refused, {} failed; {largest}",
        T::DTYPE,
        summary.runs,
        summary.refused,
        summary.failures.len()
    ));
    summary.assert_passed();
}

macro_rules! each_dtype {
    ($($cpu:ident, $cuda:ident: $type:ty;)*) => {
        $(
            #[test]
            fn $cpu() {
                on_cpu::<$type>();
            }

            #[test]
            fn $cuda() {
                on_cuda::<$type>();
            }
        )*
    };
}

each_dtype! {
    cpu_i8, cuda_i8: i8;
    cpu_i32, cuda_i32: i32;
    cpu_f16, cuda_f16: f16;
    cpu_bf16, cuda_bf16: bf16;
    cpu_f32, cuda_f32: f32;
    cpu_f64, cuda_f64: f64;
}

#[test]
fn the_table_is_as_long_as_it_says() {
    assert!(table().len() >= 50, "{} cases", table().len());
}

#[test]
fn kernels_that_take_maps_have_cases() {
    let engine = |path| gemmite_tests::Engine {
        name: "warp groups".into(),
        device: gemmite::Device::cpu(),
        kernel: Some("warp_group_128x256"),
        path,
    };
    for path in [Path::Host, Path::Device, Path::Raw] {
        let engine = engine(path);
        let taken = |case: &gemmite_tests::Case| !engine.refuses::<bf16>(case);
        let cases = table();
        let count = cases.iter().filter(|case| taken(case)).count();
        let least = if path == Path::Raw { 50 } else { 25 };
        assert!(count >= least, "{count} with {path:?}");
        let in_chunks = cases.iter().filter(|case| case.name.contains("in chunks"));
        for case in in_chunks.chain(&many_tiles()) {
            // A copy from the host has no room between its rows.
            assert!(taken(case) || path != Path::Raw, "{}, {path:?}", case.name);
        }
        let refused = cases.iter().find(|case| case.name == "primes").unwrap();
        assert!(!taken(refused));
    }
}
