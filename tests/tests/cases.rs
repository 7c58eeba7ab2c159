//! The case table on every engine, in every dtype.

use gemmite::{Element, bf16, f16};
use gemmite_tests::{cpu_engines, cuda, cuda_engines, run_table, say, table};

fn on_cpu<T: Element>() {
    report::<T>(run_table::<T>(&table(), &cpu_engines()));
}

fn on_cuda<T: Element>() {
    if let Some(device) = cuda() {
        report::<T>(run_table::<T>(&table(), &cuda_engines(&device)));
    }
}

fn report<T: Element>(summary: gemmite_tests::Summary) {
    let largest = match &summary.largest {
        Some((ratio, name)) => format!("largest error {ratio:.3} of its bound: {name}"),
        None => "none passed".into(),
    };
    say(&format!(
        "{}: {} runs, {} failed; {largest}",
        T::DTYPE,
        summary.runs,
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
