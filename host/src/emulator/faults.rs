//! Every call of a product to its device fails in turn: the first, the second, and so on until the
//! product succeeds. After each the error is the call's, the device has its memory back, nothing
//! but C's elements has changed, and the next product is right.

use super::{EmulatorBackend, Gpu, Options};
use crate::error::{DriverCode, Error, Kind};
use crate::{
    Activation, Device, DeviceEpilogue, Element, F8E4M3, Gemm, HostEpilogue, Layout, Matrix,
    MatrixMut, MatrixRef, Op, OutputOf, Precision, Progress, Shape, Streaming, Strides, bf16,
    random,
};
use std::any::Any;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Which call fails, and how many there have been.
#[derive(Debug, Default)]
pub(super) struct Faults {
    /// From 1; 0: none.
    fails: AtomicUsize,
    calls: AtomicUsize,
}

impl Gpu {
    /// Counts a call; an error in its place where it is its turn to fail.
    pub(super) fn call(&self, name: &'static str) -> Result<(), Error> {
        let number = self.faults.calls.fetch_add(1, Relaxed) + 1;
        if number != self.faults.fails.load(Relaxed) {
            return Ok(());
        }
        let place = self.info.name.clone();
        Err(Error::new(match name {
            "allocate" => Kind::OutOfMemory { place, wanted: 1, free: None },
            call => {
                let (name, text) = ("CUDA_ERROR_UNKNOWN".into(), "made to fail".into());
                let driver = DriverCode { call, code: 999, name, text };
                Kind::Driver { context: place, driver }
            }
        }))
    }
}

/// A product that ends in rows with gaps between them: C's buffer, whose gaps hold [`GAP`].
pub(crate) type Run<'a, C> = &'a dyn Fn(&Device, MatrixMut<'_, C>) -> Result<(), Error>;

/// What stands between C's elements, and in them before.
const GAP: f64 = 0.5;

fn gpu(device: &Device) -> &Gpu {
    &(&*device.backend as &dyn Any).downcast_ref::<EmulatorBackend>().unwrap().gpu
}

/// C as `run` leaves it, and its answer.
fn product<C: Element>(
    device: &Device,
    layout: Layout,
    len: usize,
    run: Run<'_, C>,
) -> (Vec<C>, Result<(), Error>) {
    let mut data = vec![C::from_f64(GAP); len];
    let answer = run(device, MatrixMut::new(&mut data, layout).unwrap());
    let mut gaps = vec![true; len];
    let Shape { rows, cols } = layout.shape;
    (0..rows).for_each(|i| (0..cols).for_each(|j| gaps[layout.index(i, j)] = false));
    let kept = data.iter().zip(gaps).all(|(x, gap)| !gap || *x == C::from_f64(GAP));
    assert!(kept, "something beside C was written");
    (data, answer)
}

/// A GPU of few multiprocessors, for which plans of small products are those of large ones.
fn small_gpu(arch: (u32, u32)) -> Device {
    let options = Options { arch, multiprocessors: Some(4), threads: 1, ..Options::default() };
    Device::emulator_with(&options).unwrap()
}

/// Has each call fail in turn. Returns how often each failed; those that did and had no error are
/// counted as `overcome`.
fn each_call_fails<C: Element>(
    arch: (u32, u32),
    shape: Shape,
    run: Run<'_, C>,
) -> BTreeMap<&'static str, usize> {
    each_call_fails_on(&small_gpu(arch), shape, run)
}

/// The same on that device.
pub(crate) fn each_call_fails_on<C: Element>(
    device: &Device,
    shape: Shape,
    run: Run<'_, C>,
) -> BTreeMap<&'static str, usize> {
    let pitch = shape.cols + 3;
    let layout = Layout::strided(shape, Strides::new(pitch as isize, 1));
    let len = shape.rows * pitch;
    let faults = &gpu(device).faults;
    faults.calls.store(0, Relaxed);
    let (expected, answer) = product(device, layout, len, run);
    answer.unwrap();
    let calls = faults.calls.load(Relaxed);
    let mut failed = BTreeMap::new();
    for number in 1..=calls {
        faults.calls.store(0, Relaxed);
        faults.fails.store(number, Relaxed);
        let (found, answer) = product(device, layout, len, run);
        let reached = faults.calls.load(Relaxed);
        assert!(reached >= number, "call {number} of {calls} was not made");
        let name = match answer {
            Ok(()) => {
                assert_eq!(found, expected, "call {number} failed, without an error");
                "overcome"
            }
            Err(error) if error.is_out_of_memory() => "allocate",
            Err(error) => {
                assert_eq!(error.driver_code(), Some(999), "{error}");
                let text = error.to_string();
                let name = ["write", "read", "encode", "launch"];
                name.into_iter().find(|name| text.contains(&format!("{name} answered"))).unwrap()
            }
        };
        *failed.entry(name).or_default() += 1;
        assert_eq!(gpu(device).lock().allocated(), (0, 0), "{name}, call {number}");
        faults.fails.store(0, Relaxed);
        let (found, answer) = product(device, layout, len, run);
        answer.unwrap();
        assert_eq!(found, expected, "the product after {name} failed, call {number}");
    }
    failed
}

/// Small whole numbers, whose sums are exact by every kernel.
fn integers<T: Element>(rows: usize, cols: usize, seed: u64) -> Matrix<T> {
    random::integers(Shape::new(rows, cols), seed, -3..=3).unwrap()
}

/// A product of host data, into an old C.
fn on_host<T: Element, C: OutputOf<T>>(
    gemm: &Gemm<T, C>,
    a: MatrixRef<'_, T>,
    b: MatrixRef<'_, T>,
    arch: (u32, u32),
) -> BTreeMap<&'static str, usize> {
    let shape = gemm.plan(Device::cpu().info(), a.layout(), b.layout());
    let shape = shape.map_or(Shape::new(a.shape().rows, b.shape().cols), |plan| plan.shape);
    each_call_fails(arch, shape, &|device, c| gemm.run_into(device, a, b, c))
}

fn counts(all: &[(&'static str, usize)]) -> BTreeMap<&'static str, usize> {
    all.iter().copied().collect()
}

#[test]
fn plain_products() {
    let (a, b) = (integers::<f32>(20, 7, 1), integers(7, 9, 2));
    let gemm = Gemm::new().kernel("k02_tiled_16");
    let plain = on_host(&gemm, a.view(), b.view(), (8, 0));
    assert_eq!(plain, counts(&[("allocate", 3), ("launch", 1), ("read", 1), ("write", 2)]));
    let with_c = on_host(&gemm.beta(2.0), a.view(), b.view(), (8, 0));
    assert_eq!(with_c, counts(&[("allocate", 3), ("launch", 1), ("read", 1), ("write", 3)]));
}

#[test]
fn products_by_tensor_maps() {
    let (a, b) = (integers::<bf16>(64, 64, 1), integers(64, 64, 2));
    let gemm = Gemm::new().kernel("warp_group_64x64");
    let failed = on_host(&gemm, a.view(), b.view(), (9, 0));
    let maps = failed["encode"];
    assert!(maps >= 2, "{failed:?}");
    let all = [("allocate", 3), ("encode", maps), ("launch", 1), ("read", 1), ("write", 2)];
    assert_eq!(failed, counts(&all));
}

/// Where there is no memory for copies, another kernel takes the operands as they are.
#[test]
fn copied_operands() {
    // Rows of odd lengths, which no tensor map describes.
    let (gemm, hopper) = (Gemm::<bf16>::new(), small_gpu((9, 0)));
    let plan = |(m, k): (usize, usize)| {
        let (a, b) = (Layout::row_major(Shape::new(m, k)), Layout::col_major(Shape::new(k, m)));
        gemm.plan(hopper.info(), a, b).unwrap()
    };
    let all_copied = |size: &(usize, usize)| {
        let plan = plan(*size);
        plan.copied == [true; 2] && !plan.kernel.unwrap().joins()
    };
    let sizes = [130, 256, 384].into_iter().flat_map(|m| [33, 65, 129, 257].map(|k| (m, k)));
    let (m, k) = sizes.into_iter().find(all_copied).expect("of some both are copied");
    let (a, b) = (integers::<bf16>(m, k, 1), integers::<bf16>(m, k, 2));
    let failed = on_host(&gemm, a.view(), b.t(), (9, 0));
    // The copies, which are one launch.
    let found = (failed["overcome"], failed["allocate"], failed["launch"]);
    assert_eq!(found, (2, 3, 2), "{failed:?}");
    assert!(failed["encode"] >= 2, "{failed:?}");
}

/// The same for elements that are split, in whose place kernels of f32 take them whole.
#[test]
fn split_operands() {
    let gemm = Gemm::<f32>::new().precision(Precision::Bf16x6);
    let hopper = small_gpu((9, 0));
    let splits = |&(m, k): &(usize, usize)| {
        let (a, b) = (Layout::row_major(Shape::new(m, k)), Layout::row_major(Shape::new(k, m)));
        let plan = gemm.plan(hopper.info(), a, b).unwrap();
        plan.copied == [true; 2] && plan.kernel.unwrap().splits_elements() && plan.parts == 1
    };
    let sizes = [250, 384, 640].into_iter().flat_map(|m| [129, 257, 513].map(|k| (m, k)));
    let (m, k) = { sizes }.find(splits).expect("elements of some are split");
    let (a, b) = (integers::<f32>(m, k, 1), integers::<f32>(k, m, 2));
    let failed = on_host(&gemm, a.view(), b.view(), (9, 0));
    let found = (failed["overcome"], failed["allocate"], failed["launch"]);
    assert_eq!(found, (2, 3, 2), "{failed:?}");
}

/// Equal shares take memory for the sums of tiles that they share, and none where they share none.
#[test]
fn joined_sums() {
    let gemm = Gemm::<bf16>::new().kernel("warp_group_stream_k_64x64");
    let allocations = |m: usize, k: usize| {
        let (a, b) = (integers(m, k, 1), integers(k, 64, 2));
        on_host(&gemm, a.view(), b.view(), (9, 0))["allocate"]
    };
    assert_eq!([allocations(64, 1024), allocations(128, 64)], [4, 3]);
}

/// The same for the sums of parts of K.
#[test]
fn parts_of_k() {
    let (a, b) = (integers::<f32>(5, 256, 1), integers(256, 6, 2));
    let named = on_host(&Gemm::new().kernel("k02_tiled_16/4"), a.view(), b.view(), (8, 0));
    // What is asked for by name is not replaced.
    assert_eq!(named, counts(&[("allocate", 4), ("launch", 2), ("read", 1), ("write", 2)]));
    let (gemm, ampere) = (Gemm::<f32>::new(), small_gpu((8, 0)));
    let of = |rows, cols| Layout::row_major(Shape::new(rows, cols));
    let has_parts = |k: &usize| gemm.plan(ampere.info(), of(32, *k), of(*k, 32)).unwrap().parts > 1;
    let k = [512, 1024, 2048, 4096].into_iter().find(has_parts).expect("long sums have parts");
    let (a, b) = (integers::<f32>(32, k, 1), integers::<f32>(k, 32, 2));
    let chosen = on_host(&gemm, a.view(), b.view(), (8, 0));
    assert_eq!((chosen["overcome"], chosen["allocate"], chosen["launch"]), (1, 3, 2), "{chosen:?}");
}

/// Panels are copied, multiplied and copied back by threads of their own.
#[test]
fn panels() {
    let (a, b) = (integers::<f32>(200, 8, 1), integers(8, 150, 2));
    let gemm = Gemm::new().kernel("k02_tiled_16");
    let count = AtomicUsize::new(0);
    let hear = |progress: Progress| count.store(progress.all, Relaxed);
    let failed = each_call_fails((8, 0), Shape::new(200, 150), &|device, c| {
        let streaming = Streaming::new().memory(60_000).progress(&hear);
        gemm.run_streamed(device, &a, &b, c, &streaming)
    });
    assert!(count.load(Relaxed) > 1);
    // Which call comes next is the threads' affair, so that only their kinds are certain.
    let kinds: Vec<_> = failed.keys().copied().collect();
    assert_eq!(kinds, ["allocate", "launch", "read", "write"], "{failed:?}");
}

#[test]
fn epilogues() {
    let (a, b) = (integers::<f32>(12, 7, 1), integers::<f32>(7, 9, 2));
    let (bias, residual) = (integers::<f32>(1, 9, 3), integers::<f32>(12, 9, 4));
    let (rows, cols) = (integers::<f32>(12, 1, 5), integers::<f32>(1, 9, 6));
    let gemm = Gemm::<f32>::new().kernel("k02_tiled_16");
    let failed = each_call_fails::<f32>((8, 0), Shape::new(12, 9), &|device, c| {
        let mut amax = -1.0;
        let epilogue = HostEpilogue::new().bias(&bias).residual(&residual).row_scale(&rows);
        let epilogue = epilogue.col_scale(&cols).amax(&mut amax).activation(Activation::Relu);
        let done = gemm.fused(epilogue).run_into(device, &a, &b, c);
        assert!(done.is_err() || amax > 0.0);
        done
    });
    // A, B, C, four sources, amax, and the sums; two more reads are amax's and C's.
    assert_eq!(failed, counts(&[("allocate", 9), ("launch", 2), ("read", 2), ("write", 7)]));

    // Of the device's own matrices.
    let failed = each_call_fails::<f32>((8, 0), Shape::new(12, 9), &|device, mut c| {
        let (a, b, bias) = (device.upload(&a)?, device.upload(&b)?, device.upload(&bias)?);
        let mut on_c = device.uninit(c.shape())?;
        let epilogue = DeviceEpilogue::new().bias(&bias).activation(Activation::Relu);
        gemm.fused(epilogue).run_device(&a, &b, &mut on_c)?;
        let product = on_c.download()?;
        for i in 0..12 {
            (0..9).for_each(|j| assert!(c.set(i, j, product[(i, j)])));
        }
        Ok(())
    });
    assert_eq!(failed, counts(&[("allocate", 5), ("launch", 2), ("read", 1), ("write", 3)]));
}

#[test]
fn scales() {
    let (a, b) = (integers::<F8E4M3>(8, 130, 1), integers::<F8E4M3>(4, 130, 2));
    let (of_a, of_b) = (integers::<f32>(8, 2, 3), integers::<f32>(1, 2, 4));
    let gemm = Gemm::<F8E4M3>::new().op_b(Op::Transpose).block_scaled();
    let failed = each_call_fails::<bf16>((9, 0), Shape::new(8, 4), &|device, mut c| {
        let (a, b) = ((a.view(), of_a.view()), (b.view(), of_b.view()));
        let done = gemm.run_into(device, a, b, c.reborrow());
        // C is as it was.
        let kept = |c: MatrixMut<'_, bf16>| c.view().get(7, 3) == Some(bf16::from_f64(GAP));
        assert!(done.is_ok() || kept(c));
        done
    });
    // A, B, their scales, C, and copies of A and B, whose rows have 130 bytes, by one launch.
    assert_eq!((failed["allocate"], failed["launch"], failed["read"]), (7, 2, 1), "{failed:?}");
}
