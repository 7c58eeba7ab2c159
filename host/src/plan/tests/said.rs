//! What plans say of themselves.

use super::*;

#[test]
fn plans_say_what_they_launch() {
    let kernel = Kernel::find("k02_tiled_8", DType::F32);
    let of = |rows, cols| Plan {
        shape: Shape::new(rows, cols),
        k: 3,
        batch: 1,
        kernel,
        turned: false,
        copied: [false; 2],
        parts: 1,
        tile_cols: 0,
        rest: None,
        prediction: Prediction::default(),
        places: Places::of(u32::MAX),
    };
    let plan = |rows, cols| of(rows, cols).to_string();
    assert_eq!(plan(20, 9), "k02_tiled_8_f32, grid 2x3 of 8x8 threads");
    let split = Plan { turned: true, parts: 3, ..of(20, 9) };
    let text = "transposed, k02_tiled_8_f32, K in 3 parts, grid 3x2x3 of 8x8 threads";
    assert_eq!(split.to_string(), text);
    assert_eq!(
        plan(65_536 * 8, 1),
        "k02_tiled_8_f32, grid 1x65535 of 8x8 threads and 1 more launches"
    );
    assert_eq!(plan(0, 9), "k02_tiled_8_f32");
    let narrow =
        Kernel::find_for("warp_group_halves_64x64", DType::BF16, Precision::Full, [true; 2]);
    let narrow = Plan { kernel: narrow, tile_cols: 24, ..of(65, 60) }.to_string();
    let text = "warp_group_halves_64x64_nt_bf16, tiles of 24 columns, grid 12x1 of 256x1 threads";
    assert_eq!(narrow, text);
    let rest = Rest { of_rows: false, from: 16, kernel: kernel.unwrap(), parts: 2, turned: false };
    let cut = Plan { rest: Some(rest), ..of(9, 20) };
    let text = "k02_tiled_8_f32, grid 2x2 of 8x8 threads; columns from 16 on by k02_tiled_8, \
        K in 2 parts";
    assert_eq!(cut.to_string(), text);
    let cut = Plan { rest: Some(Rest { of_rows: true, from: 8, parts: 1, ..rest }), ..cut };
    assert!(cut.to_string().ends_with("; rows from 8 on by k02_tiled_8"), "{cut}");
    let column = Plan { rest: Some(Rest { turned: true, ..rest }), ..cut };
    let text = "; columns from 16 on, transposed, by k02_tiled_8, K in 2 parts";
    assert!(column.to_string().ends_with(text), "{column}");
    let of = |copied| {
        let kernel = Kernel::find("k12_warp_specialized", DType::F32);
        let text = Plan { kernel, copied, rest: None, ..column.clone() }.to_string();
        text.split("k12").next().unwrap().to_string()
    };
    let copies = [[true, true], [true, false], [false, true], [false, false]].map(of);
    let both = "A copied along M and B along N, ";
    assert_eq!(copies, [both, "A copied along M, ", "B copied along N, ", ""]);
}
