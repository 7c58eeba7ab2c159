//! Views of buffers, and plans for layouts that nothing has held against a buffer.

use crate::Target;
use crate::bytes::Bytes;
use gemm_spec::{Kernel, Stored, Tiles};
use gemmite::{
    DType, Device, DeviceInfo, Element, Gemm, KernelChoice, Layout, MatrixMut, MatrixRef, Plan,
    Precision, Shape, with_element,
};
use std::collections::HashSet;
use std::sync::LazyLock;

/// The library's checks of layouts, against sums in 128 bits.
pub const VIEWS: Target = Target {
    name: "views",
    what: "views of a buffer by any layout",
    seeds: Vec::new,
    words: &[],
    read: |input| {
        let mut bytes = Bytes(input);
        let mut data: [u8; 64] = std::array::from_fn(|i| i as u8);
        let data = &mut data[..bytes.below(65)];
        let data: &mut [i8] = &mut data.iter().map(|x| *x as i8).collect::<Vec<_>>();
        let layout = match bytes.byte() % 2 {
            0 => bytes.layout(),
            _ => {
                let shape = Shape::new(bytes.below(9), bytes.below(9));
                bytes.near(shape)
            }
        };
        read_view(&mut bytes, data, layout)
    },
};

/// The index of an element, in numbers that do not overflow.
fn index(layout: &Layout, row: usize, col: usize) -> i128 {
    let of = |count: usize, stride: isize| count as i128 * stride as i128;
    layout.offset as i128 + of(row, layout.strides.row) + of(col, layout.strides.col)
}

fn read_view(bytes: &mut Bytes<'_>, data: &mut [i8], layout: Layout) -> bool {
    let Shape { rows, cols } = layout.shape;
    let inside = |index: i128| (0..data.len() as i128).contains(&index);
    let last = (rows.wrapping_sub(1), cols.wrapping_sub(1));
    let corners = [(0, 0), (last.0, 0), (0, last.1), last];
    // Extents beyond isize with a stride of 0 are taken too.
    let fits = layout.shape.is_empty()
        || corners.iter().all(|&(row, col)| inside(index(&layout, row, col)));
    let is_some = MatrixRef::new(data, layout).is_ok();
    assert_eq!(is_some, fits, "{layout:?} of {}", data.len());
    let Ok(view) = MatrixRef::new(data, layout) else {
        assert!(MatrixMut::new(data, layout).is_err());
        return false;
    };
    for (row, col) in corners.into_iter().chain([(bytes.number(), bytes.number())]) {
        let is_there = row < rows && col < cols;
        let expected = is_there.then(|| data[index(&layout, row, col) as usize]);
        assert_eq!(view.get(row, col), expected);
        assert_eq!(view.t().get(col, row), expected);
    }
    let (from, to) = ((bytes.number(), bytes.number()), (bytes.number(), bytes.number()));
    let block = view.block(from.0..to.0, from.1..to.1);
    let is_block = from.0 <= to.0 && from.1 <= to.1 && to.0 <= rows && to.1 <= cols;
    assert_eq!(block.is_ok(), is_block);
    if let Ok(block) = block {
        assert_eq!(block.get(0, 0), view.get(from.0, from.1).filter(|_| !block.shape().is_empty()));
    }
    if layout.shape.is_empty() {
        assert!(view.to_matrix().expect("there is nothing").as_slice().is_empty());
        return MatrixMut::new(data, layout).is_ok();
    }
    if rows.saturating_mul(cols) > 4096 {
        return true;
    }
    let matrix = view.to_matrix().expect("it is small");
    let indices: Vec<i128> =
        (0..rows).flat_map(|row| (0..cols).map(move |col| index(&layout, row, col))).collect();
    assert!(matrix.as_slice().iter().zip(&indices).all(|(x, &index)| *x == data[index as usize]));
    let lie_apart = indices.iter().collect::<HashSet<_>>().len() == indices.len();
    assert_eq!(MatrixMut::new(data, layout).is_ok(), lie_apart, "{layout:?}");
    true
}

/// Plans: an error, or one that says what it launches.
pub const PLANS: Target = Target {
    name: "plans",
    what: "plans for any layouts, dtypes, devices and kernels, forged ones too",
    seeds: Vec::new,
    words: &[],
    read: |input| {
        let mut bytes = Bytes(input);
        let dtype = bytes.one_of(&DType::ALL);
        with_element!(dtype, T => read_plan::<T>(&mut bytes))
    },
};

static DEVICES: LazyLock<Vec<DeviceInfo>> = LazyLock::new(|| {
    let info = |device: Device| device.info().clone();
    let emulated = [(7, 0), (7, 5), (8, 0), (8, 6), (8, 9), (9, 0)];
    let emulated = emulated.map(|arch| info(Device::emulator(arch).expect("there is such a GPU")));
    emulated.into_iter().chain([info(Device::cpu())]).collect()
});

static KERNELS: LazyLock<Vec<Kernel>> = LazyLock::new(|| gemm_spec::entries().copied().collect());

fn read_plan<T: Element>(bytes: &mut Bytes<'_>) -> bool {
    let info = &DEVICES[bytes.below(DEVICES.len())];
    let (a, b) = match bytes.byte() % 2 {
        0 => (bytes.layout(), bytes.layout()),
        // Ones that fit each other.
        _ => {
            let (m, n, k) = (bytes.number(), bytes.number(), bytes.number());
            let (mut a, mut b) = (bytes.layout(), bytes.layout());
            (a.shape, b.shape) = (Shape::new(m, k), Shape::new(k, n));
            (a, b)
        }
    };
    let precision = bytes.one_of(&[Precision::Full, Precision::Tf32, Precision::Bf16x6]);
    let mut gemm = Gemm::<T>::new().precision(precision).kernel(choice(bytes));
    if bytes.byte().is_multiple_of(4) {
        gemm = gemm.op_a(bytes.op()).op_b(bytes.op());
    }
    if let Ok(plans) = gemm.plans(info, a, b) {
        plans.iter().take(3).for_each(check);
    }
    let Ok(plan) = gemm.plan(info, a, b) else { return false };
    check(&plan);
    true
}

fn choice(bytes: &mut Bytes<'_>) -> KernelChoice {
    let any =
        |bytes: &mut Bytes<'_>| KERNELS[(bytes.below(256) << 8 | bytes.below(256)) % KERNELS.len()];
    let kernel = any(bytes);
    match bytes.byte() % 8 {
        0 | 1 => KernelChoice::Named(kernel.variant.to_owned()),
        2 | 3 => KernelChoice::Split { variant: kernel.variant.to_owned(), parts: bytes.number() },
        4 => KernelChoice::Spec(kernel),
        5 => {
            let mut forged = kernel;
            let Tiles { block, warp, thread, stages, min_blocks, cluster } = &mut forged.tiles;
            let mut numbers: Vec<&mut usize> = block.iter_mut().chain(warp).chain(thread).collect();
            numbers.extend([stages, min_blocks, cluster]);
            for _ in 0..=bytes.below(3) {
                let which = bytes.below(numbers.len());
                *numbers[which] = bytes.number();
            }
            let other = any(bytes);
            if bytes.byte().is_multiple_of(2) {
                forged.family = other.family;
            }
            forged.stored = bytes.one_of(&[kernel.stored, Stored::Any, other.stored]);
            KernelChoice::Spec(forged)
        }
        _ => KernelChoice::Auto,
    }
}

fn check(plan: &Plan) {
    assert!(plan.parts >= 1 && !plan.to_string().is_empty());
    if let Some(launches) = plan.launches() {
        for launch in launches.take(3) {
            let ((x, y), (threads_x, threads_y)) = (launch.grid, launch.block);
            assert!(x >= 1 && y >= 1 && launch.layers >= 1, "{launch:?}");
            assert!((1..=1024).contains(&(threads_x * threads_y)), "{launch:?}");
            assert!(y <= 65_535 && launch.layers <= 65_535, "{launch:?}");
        }
    }
    let total = plan.prediction.total();
    assert!(total.is_finite() && total >= 0.0, "{total}");
}
