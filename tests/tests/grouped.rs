//! Lists of products that have shapes of their own, and rows of products by offsets on the device,
//! on every engine. C's lie within poison, which has to stay.

use gemmite::emulator::Options;
use gemmite::verify::{Problem, Rows, check};
use gemmite::{
    Device, DeviceBatch, DeviceMatrix, Element, Gemm, Layout, Matrix, MatrixRef, Op, OutputOf,
    Shape, Strides, bf16, f16, random,
};
use gemmite_tests::{cuda, hopper, say};

const KERNELS: [&str; 2] = ["warp_group_grouped_128x128", "warp_group_grouped_128x256"];

/// How the products of a list are asked for.
#[derive(Clone, Copy, Debug)]
struct How {
    /// Whether B comes in columns.
    nt: bool,
    alpha: f32,
    beta: Option<f32>,
    /// Elements in front of a row of C, and behind it at least: what is no multiple of 8 leaves the
    /// kernel no map of C.
    margin: usize,
    kernel: &'static str,
}

const NN: How = How { nt: false, alpha: 1.0, beta: None, margin: 8, kernel: "auto" };
const NT: How = How { nt: true, ..NN };

impl How {
    fn gemm<T: Element, C: OutputOf<T>>(self) -> Gemm<T, C>
    where
        C::Scalar: From<f32>,
    {
        let op_b = if self.nt { Op::Transpose } else { Op::None };
        let gemm = Gemm::<T>::new().output::<C>().op_b(op_b).alpha(self.alpha.into());
        let gemm = gemm.kernel(self.kernel);
        match self.beta {
            Some(beta) => gemm.beta(beta.into()),
            None => gemm,
        }
    }

    /// B as it is stored.
    fn b<T: Element>(self, k: usize, n: usize, seed: u64) -> Matrix<T> {
        let shape = if self.nt { Shape::new(n, k) } else { Shape::new(k, n) };
        random::normal(shape, seed).unwrap()
    }

    /// Where a C lies among poison, and all of that.
    fn frame(self, m: usize, n: usize) -> (Layout, Shape) {
        let pitch =
            (2 * self.margin + n).next_multiple_of(8) + usize::from(!self.margin.is_multiple_of(8));
        let offset = pitch + self.margin;
        let strides = Strides::new(pitch as isize, 1);
        (Layout { shape: Shape::new(m, n), strides, offset }, Shape::new(m + 2, pitch))
    }

    /// A C on the device: within poison, with its old value where that takes part.
    fn c<C: Element>(self, device: &Device, old: &Matrix<C>) -> DeviceMatrix<C> {
        let Shape { rows: m, cols: n } = old.shape();
        let (layout, all) = self.frame(m, n);
        let mut framed = Matrix::from_fn(all, |_, _| C::from_f64(f64::NAN)).unwrap();
        if self.beta.is_some() {
            for (i, j) in (0..m).flat_map(|i| (0..n).map(move |j| (i, j))) {
                framed.as_mut_slice()[layout.index(i, j)] = old[(i, j)];
            }
        }
        let on = device.upload(&framed).unwrap();
        on.into_batch(layout, 1, 0).unwrap().into_matrix(layout).unwrap()
    }

    /// A C of the device with its frame; of the frame nothing was written.
    fn back<C: Element>(self, c: DeviceMatrix<C>) -> Matrix<C> {
        let Shape { rows: m, cols: n } = c.shape();
        let (layout, all) = self.frame(m, n);
        let whole = Layout::row_major(all);
        let c = c.into_batch(whole, 1, 0).unwrap().into_matrix(whole).unwrap();
        let framed = c.download().unwrap();
        let inside =
            Matrix::from_fn(Shape::new(m, n), |i, j| framed.as_slice()[layout.index(i, j)]);
        let numbers =
            |matrix: &Matrix<C>| matrix.as_slice().iter().filter(|x| !x.to_f64().is_nan()).count();
        let inside = inside.unwrap();
        assert_eq!(numbers(&framed), numbers(&inside), "{self:?}: poison around C is gone");
        inside
    }

    /// The largest error as a part of its bound.
    fn check<T: Element, C: OutputOf<T>>(
        self,
        (a, b): (MatrixRef<'_, T>, MatrixRef<'_, T>),
        old: MatrixRef<'_, C>,
        c: MatrixRef<'_, C>,
        what: &str,
    ) -> f64
    where
        C::Scalar: From<f32>,
    {
        let problem = Problem {
            a,
            b,
            op_a: Op::None,
            op_b: if self.nt { Op::Transpose } else { Op::None },
            precision: Default::default(),
            alpha: self.alpha.into(),
            beta: self.beta.map(Into::into),
            c: Some(old),
        };
        let exactness = check(&problem, c, Rows::All);
        let exactness = exactness.unwrap_or_else(|wrong| panic!("{what}: {self:?}: {wrong}"));
        exactness.max_err_over_bound
    }
}

/// Computes a list, m, n and k of each.
fn list<T: Element, C: OutputOf<T>>(device: &Device, how: How, sizes: &[[usize; 3]]) -> f64
where
    C::Scalar: From<f32>,
{
    let of = |number: usize| {
        let ([m, n, k], seed) = (sizes[number], 3 * number as u64);
        let a: Matrix<T> = random::normal(Shape::new(m, k), seed).unwrap();
        let old: Matrix<C> = random::normal(Shape::new(m, n), seed + 2).unwrap();
        (a, how.b::<T>(k, n, seed + 1), old)
    };
    let host: Vec<_> = (0..sizes.len()).map(of).collect();
    let up = |(a, b, old): &(Matrix<T>, Matrix<T>, Matrix<C>)| {
        (device.upload(a).unwrap(), device.upload(b).unwrap(), how.c(device, old))
    };
    let mut on: Vec<_> = host.iter().map(up).collect();
    let products = on.iter_mut().map(|(a, b, c)| (&*a, &*b, c)).collect();
    let stream = device.stream().unwrap();
    how.gemm::<T, C>().enqueue_grouped(&stream, products).unwrap();
    let mut largest = 0.0f64;
    for (number, ((a, b, old), (_, _, c))) in host.iter().zip(on).enumerate() {
        let c = how.back(c);
        let what = format!("product {number}, {:?}, on {device}", sizes[number]);
        largest = largest.max(how.check((a.view(), b.view()), old.view(), c.view(), &what));
    }
    largest
}

/// Computes rows of products by offsets; those that belong to none keep what they hold.
fn rows<T: Element, C: OutputOf<T>>(
    device: &Device,
    how: How,
    [m, n, k]: [usize; 3],
    offsets: &[i32],
    has_one_b: bool,
) -> f64
where
    C::Scalar: From<f32>,
{
    let count = offsets.len() - 1;
    let a: Matrix<T> = random::normal(Shape::new(m, k), 1).unwrap();
    let of_b = |number: usize| how.b::<T>(k, n, 10 + number as u64);
    let b: Vec<_> = (0..if has_one_b { 1 } else { count }).map(of_b).collect();
    let old: Matrix<C> = random::normal(Shape::new(m, n), 2).unwrap();
    let views: Vec<_> = b.iter().map(Matrix::view).collect();
    let on_b: DeviceBatch<T> = device.upload_batch(&views).unwrap();
    let (on_a, mut on_c) = (device.upload(&a).unwrap(), how.c(device, &old));
    let line = Matrix::from_vec(Shape::new(count + 1, 1), offsets.to_vec()).unwrap();
    let on_offsets = device.upload(&line).unwrap();
    let stream = device.stream().unwrap();
    let gemm = how.gemm::<T, C>();
    gemm.enqueue_rows(&stream, &on_a, &on_b, &mut on_c, &on_offsets).unwrap();
    let c = how.back(on_c);
    let mut ends = offsets.iter().scan(0, |reached: &mut usize, &offset| {
        *reached = (offset.max(0) as usize).min(m).max(*reached);
        Some(*reached)
    });
    let (mut start, mut largest) = (ends.next().unwrap(), 0.0f64);
    let kept = |i: usize| {
        for j in 0..n {
            let is_kept = match how.beta {
                Some(_) => c[(i, j)].to_f64() == old[(i, j)].to_f64(),
                None => c[(i, j)].to_f64().is_nan(),
            };
            assert!(is_kept, "{how:?} {offsets:?} on {device}: row {i} is no product's");
        }
    };
    (0..start).for_each(kept);
    for (number, end) in ends.enumerate() {
        let part = |of: MatrixRef<'_, C>| of.block(start..end, 0..n).unwrap().to_matrix().unwrap();
        let of_a = a.view().block(start..end, 0..k).unwrap();
        let of_b = b[number % b.len()].view();
        let what = format!("product {number}, rows {start}..{end} of {offsets:?}, on {device}");
        let (was, is) = (part(old.view()), part(c.view()));
        largest = largest.max(how.check((of_a, of_b), was.view(), is.view(), &what));
        start = end;
    }
    (start..m).for_each(kept);
    largest
}

/// Lists and rows that come to all ways through the kernel.
fn on(device: &Device, kernel: &'static str) {
    let (nn, nt) = (How { kernel, ..NN }, How { kernel, ..NT });
    let factors = |how: How| How { alpha: -0.75, beta: Some(0.5), ..how };
    let by_rows = |how: How| How { margin: 3, ..how };
    let heights = [0, 1, 63, 64, 65, 129, 300].map(|m| [m, 136, 72]);
    let mixed = [[70, 133, 64], [1, 8, 8], [300, 40, 136], [5, 1, 16], [64, 128, 400]];
    let no_sums = [[64, 64, 0], [130, 72, 80], [3, 8, 0]];
    let many: Vec<_> = (0..19).map(|i| [1 + 7 * i % 40, 8 + 8 * (i % 3), 8 * (i % 4)]).collect();
    let mut largest = list::<bf16, bf16>(device, nn, &heights);
    for error in [
        list::<f16, f16>(device, factors(nn), &heights[1..5]),
        list::<bf16, bf16>(device, nt, &mixed),
        list::<f16, f16>(device, by_rows(nt), &mixed[..3]),
        list::<bf16, f32>(device, factors(nt), &mixed[1..]),
        list::<bf16, bf16>(device, factors(nn), &no_sums),
        list::<f16, f32>(device, nn, &no_sums),
        list::<bf16, bf16>(device, nt, &many),
        rows::<bf16, bf16>(device, nn, [300, 136, 72], &[0, 1, 1, 64, 129, 258, 300], false),
        rows::<f16, f16>(device, nt, [200, 133, 72], &[7, 70, 199], false),
        rows::<bf16, f32>(device, factors(nt), [300, 72, 64], &[0, 130, 300], true),
        rows::<bf16, bf16>(device, by_rows(nn), [150, 72, 64], &[-5, 40, 20, 1000, 30], false),
        rows::<bf16, bf16>(device, factors(nn), [70, 72, 0], &[1, 60, 69], false),
        rows::<f16, f16>(device, How { alpha: 0.0, ..nt }, [70, 72, 64], &[0, 70], false),
    ] {
        largest = largest.max(error);
    }
    assert_eq!(list::<bf16, bf16>(device, nn, &[]), 0.0);
    assert_eq!(list::<bf16, bf16>(device, nn, &[[0, 8, 8], [8, 0, 8]]), 0.0);
    assert_eq!(rows::<bf16, bf16>(device, nn, [64, 8, 8], &[3], true), 0.0);
    assert!(largest > 0.0);
    say(&format!("lists of products on {device}: largest error {largest:.3} of its bound"));
}

#[test]
fn cpu_grouped() {
    on(&Device::cpu(), "auto");
}

/// So few multiprocessors that blocks go on from product to product.
fn emulated() -> Device {
    Device::emulator_with(&Options { multiprocessors: Some(4), ..Options::default() }).unwrap()
}

#[test]
fn emulator_grouped() {
    KERNELS.iter().for_each(|kernel| on(&emulated(), kernel));
}

#[test]
fn emulator_one_by_one() {
    let ampere = Device::emulator((8, 0)).unwrap();
    one_by_one(&ampere);
    list::<bf16, bf16>(&ampere, NT, &[[70, 33, 64], [1, 8, 7], [0, 3, 2]]);
    rows::<bf16, bf16>(&ampere, NN, [50, 40, 24], &[0, 7, 7, 50], false);
    let hopper = emulated();
    one_by_one(&hopper);
    rows::<f32, f32>(&hopper, NN, [50, 40, 24], &[3, 7, 7, 48], false);
}

#[test]
fn cuda_one_by_one() {
    let Some(device) = cuda() else { return };
    one_by_one(&device);
}

/// Lists of operands that no map describes, and of a dtype that has no kernel for them.
fn one_by_one(device: &Device) {
    list::<bf16, bf16>(device, NN, &[[70, 33, 63], [1, 8, 7]]);
    list::<f32, f32>(device, NN, &[[70, 33, 63], [1, 8, 7], [0, 3, 2]]);
}

#[test]
fn cuda_grouped() {
    let Some(device) = hopper() else { return };
    for kernel in KERNELS {
        on(&device, kernel);
        random_sizes(&device, kernel);
    }
    recorded(&device);
}

/// Sizes without a pattern, more products than a launch takes, many tiles.
fn random_sizes(device: &Device, kernel: &'static str) {
    let mut state = 1u64;
    let mut next = |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) as usize % below
    };
    let forced = How { kernel, ..NN };
    for round in 0..6 {
        let how = if round % 2 == 0 { forced } else { How { nt: true, ..forced } };
        let (n, k) = (8 * (1 + next(100)), 8 * (1 + next(120)));
        let sizes: Vec<_> = (0..1 + next(20)).map(|_| [next(700), n, k]).collect();
        list::<bf16, bf16>(device, how, &sizes);
        let mut offsets: Vec<_> = (0..1 + next(40)).map(|_| next(2000) as i32).collect();
        offsets.sort_unstable();
        rows::<bf16, bf16>(device, how, [2000, n, k], &offsets, false);
    }
}

/// A graph of a list and of rows takes what the matrices hold when it runs, offsets too.
fn recorded(device: &Device) {
    let [one, two] = [1.0, 2.0].map(|x| {
        let of = |_, _| bf16::from_f64(x);
        device.upload(&Matrix::from_fn(Shape::new(64, 64), of).unwrap()).unwrap()
    });
    let both = {
        let [one, two] = [&one, &two].map(|of| of.download().unwrap());
        device.upload_batch(&[one.view(), two.view()]).unwrap()
    };
    let zeros = || device.zeros::<bf16>(Shape::new(64, 64)).unwrap();
    let (mut first, mut second, mut by_rows) = (zeros(), zeros(), zeros());
    let line = |at| Matrix::from_vec(Shape::new(1, 3), vec![0, at, 64]).unwrap();
    let mut offsets = device.upload(&line(64)).unwrap();
    let stream = device.stream().unwrap();
    let gemm = Gemm::<bf16>::new().kernel(KERNELS[0]);
    let graph = stream.record(|stream| {
        gemm.enqueue_grouped(stream, vec![(&one, &two, &mut first), (&two, &two, &mut second)])?;
        gemm.enqueue_rows(stream, &one, &both, &mut by_rows, &offsets)
    });
    let graph = graph.unwrap();
    for at in [64, 10] {
        offsets.write(&line(at)).unwrap();
        graph.enqueue(&stream).unwrap();
        let of = |matrix: &DeviceMatrix<bf16>, row| matrix.download().unwrap()[(row, 63)].to_f64();
        assert_eq!([of(&first, 0), of(&second, 63)], [128.0, 256.0]);
        let expected = [64.0, if at == 64 { 64.0 } else { 128.0 }];
        assert_eq!([of(&by_rows, 9), of(&by_rows, 10)], expected);
    }
}

#[test]
fn host_lists_and_their_errors() {
    let of = |rows, cols| random::normal::<bf16>(Shape::new(rows, cols), 1).unwrap();
    let (a, b) = ([of(3, 16), of(70, 24)], [of(16, 8), of(24, 40)]);
    let list = [(a[0].view(), b[0].view()), (a[1].view(), b[1].view())];
    for device in [Device::cpu(), emulated()] {
        let c = Gemm::<bf16>::new().run_grouped(&device, &list).unwrap();
        for (c, (a, b)) in c.iter().zip(list) {
            check(&Problem::product(a, b), c.view(), Rows::All).unwrap();
        }
        assert!(Gemm::<bf16>::new().run_grouped(&device, &[]).unwrap().is_empty());
        let wrong = [list[0], (list[0].0, list[1].1)];
        let error = Gemm::<bf16>::new().run_grouped(&device, &wrong).unwrap_err();
        assert!(error.is_shape() && error.to_string().contains("product number 1"), "{error}");
        let error = Gemm::<bf16>::new().beta(1.0).run_grouped(&device, &list).unwrap_err();
        assert!(error.is_shape() && error.to_string().contains("beta"), "{error}");
    }
    let plan = |gemm: Gemm<bf16>, k| {
        let of = |rows, cols| Layout::row_major(Shape::new(rows, cols));
        gemm.plan_grouped(emulated().info(), &[(of(5, k), of(k, 40)), (of(9, k), of(k, 8))])
    };
    assert!(KERNELS.contains(&plan(Gemm::new(), 64).unwrap().kernel.unwrap().variant));
    assert_eq!(plan(Gemm::new(), 63).unwrap().kernel, None);
    assert_eq!(plan(Gemm::new().batch_invariant(true), 64).unwrap().kernel, None);
    let error = plan(Gemm::new().kernel(KERNELS[0]), 63).unwrap_err();
    assert!(error.is_unsupported() && error.to_string().contains("multiples of 16"), "{error}");
}

#[test]
fn rows_that_do_not_fit_are_refused() {
    for device in [Device::cpu(), emulated()] {
        let on = |rows, cols| device.zeros::<bf16>(Shape::new(rows, cols)).unwrap();
        let b = device.zeros_batch::<bf16>(2, Shape::new(16, 8)).unwrap();
        let (a, mut c) = (on(30, 16), on(30, 8));
        let mut run = |gemm: Gemm<bf16>, rows, cols| {
            let offsets = device.zeros::<i32>(Shape::new(rows, cols)).unwrap();
            gemm.run_device_rows(&a, &b, &mut c, &offsets)
        };
        run(Gemm::new(), 1, 3).unwrap();
        for (rows, cols) in [(1, 2), (1, 4), (3, 3), (0, 1), (2, 2)] {
            let error = run(Gemm::new(), rows, cols).unwrap_err();
            assert!(error.is_shape() && error.to_string().contains("one more than"), "{error}");
        }
        let error = run(Gemm::new().kernel("k02_tiled_16"), 1, 3).unwrap_err();
        assert!(error.is_unsupported(), "{error}");
    }
}
