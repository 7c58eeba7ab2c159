//! The case table on every engine, in every dtype.

use gemm_spec::{Kernel, Stored, kernels};
use gemmite::{DType, Element, F8E4M3, F8E5M2, Op, OutputOf, Precision, bf16, f16};
use gemmite_tests::{
    Case, Data, Engine, Path, Place, cpu_engines, cuda, cuda_engines, emulated_kernel,
    emulator_engines, is_short, many_tiles, run_table, run_table_where, say, table,
};
use std::collections::HashSet;

fn on_cpu<T: Element, C: OutputOf<T>>() {
    report::<T, C>(run_table::<T, C>(&table(), &cpu_engines()));
}

fn on_cuda<T: Element, C: OutputOf<T>>() {
    if let Some(device) = cuda() {
        let (cases, further) = (table(), many_tiles());
        let is_further = |case: &Case| further.iter().any(|other| other.name == case.name);
        let is_one =
            |case: &Case, engine: &Engine| !is_further(case) || engine.is_resident(T::DTYPE);
        let cases = [cases, further.clone()].concat();
        report::<T, C>(run_table_where::<T, C>(&cases, &cuda_engines(&device), is_one));
    }
}

/// Every kernel, on the short cases; f16 and f8e5m2, whose kernels are twins of those of bf16 and
/// f8e4m3, on those with gaps, factors and special numbers. With a C of another dtype than the
/// usual, which concerns the end of a kernel alone, one kernel of each family and all that take
/// maps, on the latter too.
fn on_emulator<T: Element, C: OutputOf<T>>() {
    let mut engines = emulator_engines(T::DTYPE, Precision::Full);
    let is_usual = C::DTYPE == T::DTYPE.output();
    if !is_usual {
        let mut seen = HashSet::new();
        engines.retain(|engine| {
            let kernel = engine.kernel.and_then(|name| Kernel::find(name, T::DTYPE));
            kernel.is_some_and(|kernel| seen.insert(kernel.family) || kernel.takes_maps())
        });
    }
    let is_one = |case: &Case, engine: &Engine| {
        is_short::<T, C>(case, engine) && (is_usual && !is_twin(T::DTYPE) || concerns_c(case))
    };
    report::<T, C>(run_table_where::<T, C>(&table(), &engines, is_one));
}

/// Whether its kernels are those of another dtype but for the elements.
fn is_twin(dtype: DType) -> bool {
    [DType::F16, DType::F8E5M2].contains(&dtype)
}

/// One kernel of each way in which entry points are made, with K in parts.
fn split(mut engines: Vec<Engine>, dtype: DType) -> Vec<Engine> {
    let variants = [
        "k01_naive",
        "k02_tiled_16",
        "k07_warp_tile",
        "k10_grouped_order",
        "k11_tensor_core",
        "warp_group_128x256",
        "warp_group_64x64",
    ];
    engines.retain(|engine| {
        engine.computes(dtype) && engine.kernel.is_some_and(|kernel| variants.contains(&kernel))
    });
    engines.into_iter().map(|engine| engine.split(3)).collect()
}

fn split_on_emulator<T: Element, C: OutputOf<T>>() {
    let engines = split(emulator_engines(T::DTYPE, Precision::Full), T::DTYPE);
    let is_one = |case: &Case, engine: &Engine| {
        let depth = emulated_kernel::<T, C>(case, engine).map_or(0, |of| of.tiles.block[2]);
        is_short::<T, C>(case, engine) && case.k > depth && case.m.min(case.n) > 1
    };
    report::<T, C>(run_table_where::<T, C>(&table(), &engines, is_one));
}

fn split_on_cuda<T: Element, C: OutputOf<T>>() {
    if let Some(device) = cuda() {
        let engines = split(cuda_engines(&device), T::DTYPE);
        report::<T, C>(run_table::<T, C>(&table(), &engines));
    }
}

macro_rules! each_split {
    ($($emulator:ident, $cuda:ident: $type:ty => $output:ty;)*) => {
        $(
            #[test]
            fn $emulator() {
                split_on_emulator::<$type, $output>();
            }

            #[test]
            fn $cuda() {
                split_on_cuda::<$type, $output>();
            }
        )*
    };
}

each_split! {
    emulator_split_bf16, cuda_split_bf16: bf16 => bf16;
    emulator_split_f8e4m3, cuda_split_f8e4m3: F8E4M3 => f16;
    emulator_split_f32, cuda_split_f32: f32 => f32;
    emulator_split_f64, cuda_split_f64: f64 => f64;
    emulator_split_i32, cuda_split_i32: i32 => i32;
    emulator_split_i8, cuda_split_i8: i8 => f32;
}

fn concerns_c(case: &Case) -> bool {
    case.places[2] != Place::RowMajor || case.beta.is_some() || case.data != Data::Normal
}

fn report<T: Element, C: OutputOf<T>>(summary: gemmite_tests::Summary) {
    let largest = match &summary.largest {
        Some((ratio, name)) => format!("largest error {ratio:.3} of its bound: {name}"),
        None => "none passed".into(),
    };
    say(&format!(
        "{} to {}: {} runs, {} refused, {} left out, {} failed; {largest}",
        T::DTYPE,
        C::DTYPE,
        summary.runs,
        summary.refused,
        summary.left_out,
        summary.failures.len()
    ));
    summary.assert_passed();
}

macro_rules! each_dtype {
    ($($cpu:ident, $emulator:ident, $cuda:ident: $type:ty => $output:ty;)*) => {
        $(
            #[test]
            fn $cpu() {
                on_cpu::<$type, $output>();
            }

            #[test]
            fn $emulator() {
                on_emulator::<$type, $output>();
            }

            #[test]
            fn $cuda() {
                on_cuda::<$type, $output>();
            }
        )*
    };
}

each_dtype! {
    cpu_i8, emulator_i8, cuda_i8: i8 => i32;
    cpu_i32, emulator_i32, cuda_i32: i32 => i32;
    cpu_f8e4m3, emulator_f8e4m3, cuda_f8e4m3: F8E4M3 => bf16;
    cpu_f8e5m2, emulator_f8e5m2, cuda_f8e5m2: F8E5M2 => bf16;
    cpu_f16, emulator_f16, cuda_f16: f16 => f16;
    cpu_bf16, emulator_bf16, cuda_bf16: bf16 => bf16;
    cpu_f32, emulator_f32, cuda_f32: f32 => f32;
    cpu_f64, emulator_f64, cuda_f64: f64 => f64;
    cpu_i8_to_f32, emulator_i8_to_f32, cuda_i8_to_f32: i8 => f32;
    cpu_i8_to_f16, emulator_i8_to_f16, cuda_i8_to_f16: i8 => f16;
    cpu_i8_to_bf16, emulator_i8_to_bf16, cuda_i8_to_bf16: i8 => bf16;
    cpu_f8e4m3_to_f16, emulator_f8e4m3_to_f16, cuda_f8e4m3_to_f16: F8E4M3 => f16;
    cpu_f8e4m3_to_f32, emulator_f8e4m3_to_f32, cuda_f8e4m3_to_f32: F8E4M3 => f32;
    cpu_f8e5m2_to_f16, emulator_f8e5m2_to_f16, cuda_f8e5m2_to_f16: F8E5M2 => f16;
    cpu_f8e5m2_to_f32, emulator_f8e5m2_to_f32, cuda_f8e5m2_to_f32: F8E5M2 => f32;
    cpu_f16_to_bf16, emulator_f16_to_bf16, cuda_f16_to_bf16: f16 => bf16;
    cpu_f16_to_f32, emulator_f16_to_f32, cuda_f16_to_f32: f16 => f32;
    cpu_bf16_to_f16, emulator_bf16_to_f16, cuda_bf16_to_f16: bf16 => f16;
    cpu_bf16_to_f32, emulator_bf16_to_f32, cuda_bf16_to_f32: bf16 => f32;
}

/// The same of f32 that is multiplied so.
macro_rules! precisions {
    ($($cpu:ident, $emulator:ident, $cuda:ident: $how:ident;)*) => {$(
        #[test]
        fn $cpu() {
            let engines = multiplied(cpu_engines(), Precision::$how);
            report::<f32, f32>(run_table::<f32, f32>(&table(), &engines));
        }

        #[test]
        fn $emulator() {
            let engines = emulator_engines(DType::F32, Precision::$how);
            let failed = run_table_where::<f32, f32>(&table(), &engines, is_short::<f32, f32>);
            report::<f32, f32>(failed);
        }

        #[test]
        fn $cuda() {
            if let Some(device) = cuda() {
                let engines = multiplied(cuda_engines(&device), Precision::$how);
                report::<f32, f32>(run_table::<f32, f32>(&table(), &engines));
            }
        }
    )*};
}

precisions! {
    cpu_tf32, emulator_tf32, cuda_tf32: Tf32;
    cpu_bf16x6, emulator_bf16x6, cuda_bf16x6: Bf16x6;
}

fn multiplied(engines: Vec<Engine>, how: Precision) -> Vec<Engine> {
    engines.into_iter().map(|engine| engine.precision(how)).collect()
}

#[test]
fn the_table_is_as_long_as_it_says() {
    assert!(table().len() >= 50, "{} cases", table().len());
}

/// The kernels that the cases of the emulator reach in dtype `T`, once for each case.
fn emulated<T: Element>() -> Vec<(Case, &'static Kernel)> {
    let (cases, mut emulated) = (table(), Vec::new());
    let named = |engine: &Engine| engine.kernel.is_some();
    let precisions = match T::DTYPE {
        DType::F32 => &[Precision::Full, Precision::Tf32, Precision::Bf16x6][..],
        _ => &[Precision::Full],
    };
    let engines = precisions.iter().flat_map(|&how| emulator_engines(T::DTYPE, how));
    for engine in engines.filter(named) {
        let short = cases.iter().filter(|case| {
            is_short::<T, T::Output>(case, &engine) && (!is_twin(T::DTYPE) || concerns_c(case))
        });
        emulated.extend(short.filter_map(|case| {
            Some((case.clone(), emulated_kernel::<T, T::Output>(case, &engine)?))
        }));
    }
    emulated
}

fn has_cases_on_the_emulator<T: Element>() {
    let emulated = emulated::<T>();
    for kernel in kernels().filter(|kernel| kernel.dtype == T::DTYPE) {
        let has = |what: &str, least: usize, is_one: &dyn Fn(&Case) -> bool| {
            let of_kernel = emulated.iter().filter(|(_, which)| *which == kernel);
            let count = of_kernel.filter(|(case, _)| is_one(case)).count();
            assert!(count >= least, "{} has {count} cases {what}", kernel.name);
        };
        let [rows, cols, depth] = kernel.tiles.block;
        has("in all", 5, &|_| true);
        has("with ends in tiles", 3, &|case| case.m % rows + case.n % cols + case.k % depth > 0);
        has("with factors", 2, &|case| case.alpha != 1.0 && case.beta.is_some());
        has("with gaps", 2, &|case| {
            case.places.iter().any(|place| !matches!(place, Place::RowMajor | Place::ColMajor))
        });
        if kernel.stored == Stored::Any {
            let transposed = |case: &Case| [case.op_a, case.op_b] == [Op::Transpose; 2];
            has("with transposes", 1, &transposed);
        }
    }
}

#[test]
fn every_kernel_has_cases_on_the_emulator() {
    has_cases_on_the_emulator::<i8>();
    has_cases_on_the_emulator::<i32>();
    has_cases_on_the_emulator::<F8E4M3>();
    has_cases_on_the_emulator::<F8E5M2>();
    has_cases_on_the_emulator::<f16>();
    has_cases_on_the_emulator::<bf16>();
    has_cases_on_the_emulator::<f32>();
    has_cases_on_the_emulator::<f64>();
}

#[test]
fn kernels_that_take_maps_have_cases() {
    let engine = |path| gemmite_tests::Engine {
        name: "warp groups".into(),
        device: gemmite::Device::cpu(),
        kernel: Some("warp_group_128x256"),
        parts: 1,
        path,
        precision: Precision::Full,
    };
    for path in [Path::Host, Path::Device, Path::Raw] {
        let engine = engine(path);
        let taken = |case: &gemmite_tests::Case| !engine.refuses::<bf16, bf16>(case);
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
