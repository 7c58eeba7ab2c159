//! What is left of whole waves.

use super::*;

#[test]
fn what_would_be_a_wave_of_its_own_is_computed_apart() {
    let h100 = h100();
    let plan = |shape, k| {
        let task = Task { maps: true, k, along_k: [true; 2], ..task(DType::BF16, shape) };
        super::super::choose(&KernelChoice::Auto, &task, &h100).unwrap()
    };
    // 19 rows of clusters by 16 tiles of 128 x 256, of which 66 clusters have 16 rows in four
    // waves.
    let cut = plan((4736, 4096), 4096);
    let rest = cut.rest.unwrap();
    let found = (cut.kernel.variant, rest.of_rows, rest.from);
    assert_eq!(found, ("warp_group_128x256", true, 4096));
    // By what begins while the other ends, whatever else would be faster for a few rows.
    assert!(rest.kernel.takes_maps() && rest.kernel.parts_of_cluster() == 1);
    let task_of_all =
        Task { k: 4096, shape: Shape::new(4736, 4096), maps: true, ..task(DType::BF16, (1, 1)) };
    let all = Task { along_k: [true; 2], ..task_of_all };
    let whole = super::super::choose(&cut.kernel.variant.into(), &all, &h100).unwrap();
    assert!(cut.prediction.rest > 0.0 && cut.prediction.total() < whole.prediction.total());
    let whole = plan((4096, 4096), 4096);
    assert_eq!(whole.rest, None);
    // Of a row of blocks more the tiles lie side by side, in no more waves.
    let beside = plan((4097, 4096), 4096);
    assert_eq!((beside.kernel.variant, beside.rest), ("warp_group_128x256", None));
    assert!(beside.prediction.total() < 1.04 * whole.prediction.total());
    let rest = plan((512, 8500), 4096).rest.unwrap();
    // 66 clusters, and one tile's columns more.
    assert_eq!((rest.of_rows, rest.from), (false, 33 * 256));
    // Not parts of K, no kernel without maps, and not less than a wave.
    let task = Task { maps: true, along_k: [true; 2], ..task(DType::BF16, (4736, 4096)) };
    let may_be_cut = |of: &Chosen| of.parts == 1 && of.kernel.takes_maps();
    assert!(candidates(&task, &h100).all(|of| of.rest.is_none() || may_be_cut(&of)));
    let small = Task { shape: Shape::new(300, 300), ..task };
    assert!(candidates(&small, &h100).all(|of| of.rest.is_none()));
    // Neither a batch nor rows that have to be alike.
    for task in [Task { batch: 2, splits: false, ..task }, Task { splits: false, ..task }] {
        assert_eq!(super::super::choose(&KernelChoice::Auto, &task, &h100).unwrap().rest, None);
    }
    // Copies are both ones', and predicted.
    let task = Task { unmapped: Some([true; 2]), maps: false, along_k: [true, false], ..task };
    let copied = super::super::choose(&KernelChoice::Auto, &task, &h100).unwrap();
    let rest = copied.rest.unwrap();
    assert!(copied.copied == [true; 2] && copied.prediction.copies > 0.0);
    assert!(rest.kernel.stored.takes([true; 2]) && !rest.kernel.stored.takes([true, false]));
    let task = Task { unmapped: None, maps: true, along_k: [true; 2], ..task };
    // A kernel that is asked for by its name computes all.
    assert_eq!(
        super::super::choose(&"warp_group_128x256".into(), &task, &h100).unwrap().rest,
        None
    );
}

/// In f64, whose kernels take no maps but begin while others end.
#[test]
fn rows_of_f64_are_apart_too() {
    let h100 = h100();
    let task = Task { k: 1033, ..task(DType::F64, (1021, 1031)) };
    let chosen = super::super::choose(&KernelChoice::Auto, &task, &h100).unwrap();
    let rest = chosen.rest.unwrap();
    // 16 x 9 tiles of 64 x 128 would be a wave and 12 tiles; 14 x 9 are one, and the last rows are
    // 4 x 33 of 32 x 32, another.
    assert_eq!((chosen.kernel.variant, rest.of_rows, rest.from), ("k11_tensor_64x128", true, 896));
    assert_eq!((rest.kernel.variant, rest.parts), ("k11_tensor_32x32", 1));
    assert!(!rest.kernel.takes_maps() && rest.kernel.dtype == DType::F64);
    let whole = Task { shape: Shape::new(1024, 1024), ..task };
    assert_eq!(super::super::choose(&KernelChoice::Auto, &whole, &h100).unwrap().rest, None);
    // Those of f32 do not overlap; with K in parts they are worth a launch even so.
    let task = Task { dtype: DType::F32, ..task };
    assert!(candidates(&task, &h100).all(|of| of.rest.is_none() || of.parts > 1));
}

/// Of f32 few columns are computed as few rows, out of copies.
#[test]
fn columns_of_f32_are_rows() {
    let h100 = h100();
    let unmapped = Some([true; 2]);
    let task = Task { k: 2051, unmapped, ..task(DType::F32, (2047, 2049)) };
    let chosen = super::super::choose(&KernelChoice::Auto, &task, &h100).unwrap();
    let rest = chosen.rest.unwrap();
    assert_eq!((chosen.kernel.variant, chosen.copied), ("k12_warp_specialized", [true; 2]));
    assert_eq!((rest.of_rows, rest.from, rest.turned), (false, 2048, true));
    assert!(rest.parts > 1 && rest.kernel.family == gemm_spec::KernelFamily::Skinny);
    assert_eq!(rest.split(task.shape), [Shape::new(2047, 2048), Shape::new(1, 2047)]);
    // Rows are not turned.
    let rows = Task { shape: Shape::new(2049, 2047), ..task };
    let rest = super::super::choose(&KernelChoice::Auto, &rows, &h100).unwrap().rest;
    assert!(rest.is_none_or(|rest| !rest.turned), "{rest:?}");
}
