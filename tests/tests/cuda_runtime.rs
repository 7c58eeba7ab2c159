//! What the library promises of a GPU beyond right numbers: threads, streams, memory that runs out,
//! launches that cannot be, buffers of the caller's own.
//!
//! All numbers here are small and whole, so that a product of the GPU and one of the CPU are equal
//! to the bit.

use gemmite::cuda::{RawOperands, Reads, check_ptx, cust};
use gemmite::{
    Device, DeviceMatrix, Element, Gemm, Kernel, KernelChoice, Layout, Matrix, MatrixMut,
    MatrixRef, Op, Shape, Strides, Tiles, f16, matmul, random,
};
use gemmite_tests::cuda;

fn numbers<T: Element>(rows: usize, cols: usize, seed: u64) -> Matrix<T> {
    random::integers(Shape::new(rows, cols), seed, -3..=3).unwrap()
}

/// A product that shows whether the device still works.
fn assert_works(device: &Device) {
    let (a, b) = (numbers::<f32>(70, 50, 1), numbers(50, 60, 2));
    assert_eq!(matmul(device, &a, &b).unwrap(), matmul(&Device::cpu(), &a, &b).unwrap());
}

/// PTX with one kernel without parameters.
const EMPTY_KERNEL: &str = "
.version 7.0
.target sm_70
.address_size 64
.visible .entry nothing() { ret; }
";

#[test]
fn threads_share_a_device() {
    let Some(device) = cuda() else { return };
    let shared = device.upload(&numbers::<i32>(200, 300, 1)).unwrap();
    std::thread::scope(|scope| {
        for seed in 0..8 {
            let (device, shared) = (&device, &shared);
            scope.spawn(move || {
                for round in 0..10 {
                    let b = numbers::<i32>(300, 100 + round, seed);
                    let a = shared.download().unwrap();
                    let expected = matmul(&Device::cpu(), &a, &b).unwrap();
                    assert_eq!(matmul(device, &a, &b).unwrap(), expected);

                    // A stream and a handle of the thread's own, and an A that all threads read.
                    let device = Device::cuda(0).unwrap();
                    let stream = device.stream().unwrap();
                    let device_b = device.upload(&b).unwrap();
                    let mut c = device.uninit(expected.shape()).unwrap();
                    Gemm::new().enqueue(&stream, shared, &device_b, &mut c).unwrap();
                    drop(device_b);
                    assert_eq!(c.download().unwrap(), expected);
                }
            });
        }
    });
}

#[test]
fn streams_keep_each_matrixs_order() {
    let Some(device) = cuda() else { return };
    let cpu = Device::cpu();
    let n = 700;
    let (a, b) = (numbers::<i32>(n, n, 1), numbers::<i32>(n, n, 2));
    let (first, second) = (device.stream().unwrap(), device.stream().unwrap());
    let (device_a, device_b) = (device.upload(&a).unwrap(), device.upload(&b).unwrap());
    let gemm = Gemm::new().kernel("k01_naive_uncoalesced"); // slow, so that the streams do overlap
    for _ in 0..5 {
        let mut x = device.zeros(a.shape()).unwrap();
        let mut y: DeviceMatrix<i32> = device.uninit(a.shape()).unwrap();
        // y must see x after its first product and before its second.
        gemm.enqueue(&first, &device_a, &device_b, &mut x).unwrap();
        gemm.enqueue(&second, &x, &device_b, &mut y).unwrap();
        gemm.clone().beta(1).enqueue(&first, &device_b, &device_a, &mut x).unwrap();

        let x_first = matmul(&cpu, &a, &b).unwrap();
        assert_eq!(y.download().unwrap(), matmul(&cpu, &x_first, &b).unwrap());
        let mut x_second = x_first.clone();
        Gemm::new().beta(1).run_into(&cpu, &b, &a, &mut x_second).unwrap();
        assert_eq!(x.download().unwrap(), x_second);
    }
    first.synchronize().unwrap();
    second.synchronize().unwrap();
}

/// Products enqueued on one stream by several threads are right, and a write waits for the last.
///
/// N.B. This does not provoke the race that `CudaQueue::order` closes: with that lock taken out it
/// passed too, hundreds of rounds, on an H100.
/// A matrix that streams without end read keeps the marks of a few, and not of all.
#[test]
fn streams_come_and_go() {
    let Some(device) = cuda() else { return };
    let (a, b) = (device.upload(&numbers::<f32>(70, 50, 1)), device.upload(&numbers(50, 60, 2)));
    let (a, b, mut c) = (a.unwrap(), b.unwrap(), device.uninit(Shape::new(70, 60)).unwrap());
    for _ in 0..200 {
        let stream = device.stream().unwrap();
        Gemm::new().enqueue(&stream, &a, &b, &mut c).unwrap();
        stream.synchronize().unwrap();
    }
    // As its text shows, which is all that can be seen of them.
    let marks = format!("{a:?}").matches("Mark {").count();
    assert!((1..=16).contains(&marks), "{marks} marks");
}

#[test]
fn threads_share_a_stream() {
    let Some(device) = cuda() else { return };
    let n = 400;
    let (a, b) = (numbers::<i32>(n, n, 1), numbers::<i32>(n, n, 2));
    let expected = matmul(&Device::cpu(), &a, &b).unwrap();
    let (mut device_a, device_b) = (device.upload(&a).unwrap(), device.upload(&b).unwrap());
    let stream = device.stream().unwrap();
    let gemm = Gemm::new().kernel("k01_naive_uncoalesced");
    for round in 0..40 {
        let mut products: Vec<DeviceMatrix<i32>> =
            (0..6).map(|_| device.uninit(a.shape()).unwrap()).collect();
        std::thread::scope(|scope| {
            for c in &mut products {
                let (gemm, stream) = (&gemm, &stream);
                let (device_a, device_b) = (&device_a, &device_b);
                scope.spawn(move || gemm.enqueue(stream, device_a, device_b, c).unwrap());
            }
        });
        device_a.write(&b).unwrap();
        for c in &products {
            assert_eq!(c.download().unwrap(), expected, "round {round}");
        }
        device_a.write(&a).unwrap();
    }
}

#[test]
fn a_write_waits_for_the_work_on_the_matrix() {
    let Some(device) = cuda() else { return };
    let n = 900;
    let (a, b) = (numbers::<i32>(n, n, 1), numbers::<i32>(n, n, 2));
    let stream = device.stream().unwrap();
    let mut device_a = device.upload(&a).unwrap();
    let device_b = device.upload(&b).unwrap();
    let mut c = device.uninit(a.shape()).unwrap();
    let gemm = Gemm::new().kernel("k01_naive_uncoalesced");
    gemm.enqueue(&stream, &device_a, &device_b, &mut c).unwrap();
    device_a.write(&b).unwrap();
    assert_eq!(c.download().unwrap(), matmul(&Device::cpu(), &a, &b).unwrap());
    assert_eq!(device_a.download().unwrap(), b);
}

#[test]
fn anything_may_be_dropped_in_flight() {
    let Some(device) = cuda() else { return };
    let n = 900;
    let (a, b) = (numbers::<f32>(n, n, 1), numbers::<f32>(n, n, 2));
    let expected = matmul(&Device::cpu(), &a, &b).unwrap();
    let gemm = Gemm::new().kernel("k01_naive_uncoalesced");
    let enqueue = || {
        let stream = device.stream().unwrap();
        let (a, b) = (device.upload(&a).unwrap(), device.upload(&b).unwrap());
        let mut c = device.uninit(expected.shape()).unwrap();
        gemm.enqueue(&stream, &a, &b, &mut c).unwrap();
        (stream, a, b, c)
    };
    for _ in 0..4 {
        let (stream, a, b, c) = enqueue();
        drop((stream, a, b));
        assert_eq!(c.download().unwrap(), expected);

        let (stream, a, b, c) = enqueue();
        drop((c, b, a, stream));

        let (stream, a, b, c) = enqueue();
        std::mem::forget((stream, a)); // leaked, and harmless
        drop(b);
        assert_eq!(c.download().unwrap(), expected);
    }
    // The device's own handle may go before its matrices.
    let (_, _, _, c) = enqueue();
    drop(device);
    assert_eq!(c.download().unwrap(), expected);
}

#[test]
fn memory_that_runs_out_is_an_error_and_no_end() {
    let Some(device) = cuda() else { return };
    let error = device.uninit::<f32>(Shape::new(1 << 20, 1 << 20)).unwrap_err();
    assert!(error.is_out_of_memory() && !error.is_context_lost(), "{error}");
    let text = error.to_string();
    assert!(text.contains("4398046511104 bytes") && text.contains("free"), "{text}");
    assert_works(&device);

    let error = device.uninit::<f64>(Shape::new(usize::MAX, 2)).unwrap_err();
    assert!(error.is_shape(), "{error}");
    let error = device.uninit::<f64>(Shape::new(1 << 31, 1 << 31)).unwrap_err();
    assert!(error.is_shape() || error.is_out_of_memory(), "{error}");
    assert_works(&device);
}

#[test]
fn a_launch_that_cannot_be_is_an_error_and_no_end() {
    let Some(device) = cuda() else { return };
    let (a, b) = (numbers::<f32>(100, 100, 1), numbers::<f32>(100, 100, 2));
    // 64 x 64 threads, the error of the tutorial.
    let row = Kernel::find("k02_tiled_32", f32::DTYPE).unwrap();
    let large = KernelChoice::Spec(Kernel { tiles: Tiles::square(64), ..*row });
    let error = Gemm::new().kernel(large.clone()).run(&device, &a, &b).unwrap_err();
    assert!(error.is_unsupported() && !error.is_context_lost(), "{error}");
    let text = error.to_string();
    assert!(text.contains("4096") && text.contains("threads per block"), "{text}");
    assert_works(&device);

    // The same on matrices of the device, whose C stays as it is.
    let (device_a, device_b) = (device.upload(&a).unwrap(), device.upload(&b).unwrap());
    let mut c = device.upload(&a).unwrap();
    assert!(Gemm::new().kernel(large).run_device(&device_a, &device_b, &mut c).is_err());
    assert_eq!(c.download().unwrap(), a);
    assert_works(&device);
}

#[test]
fn a_launch_that_the_driver_refuses_is_no_end() {
    let Some(device) = cuda() else { return };
    let raw = cust::device::Device::get_device(0).unwrap();
    let _context = cust::context::Context::new(raw).unwrap();
    let module = cust::module::Module::from_ptx(EMPTY_KERNEL, &[]).unwrap();
    let nothing = module.get_function("nothing").unwrap();
    let stream = cust::stream::Stream::new(cust::stream::StreamFlags::DEFAULT, None).unwrap();
    let launch = |block: (u32, u32, u32)| {
        // SAFETY: the kernel has no parameters and does nothing.
        unsafe { stream.launch(&nothing, (1, 1, 1), block, 0, &[]) }
    };
    assert_eq!(launch((64, 64, 1)), Err(cust::error::CudaError::InvalidValue));
    assert_works(&device);
    launch((32, 32, 1)).unwrap();
    stream.synchronize().unwrap();
}

#[test]
fn kernels_that_are_missing_are_named() {
    let Some(device) = cuda() else { return };
    let (a, b) = (numbers::<f32>(9, 9, 1), numbers::<f32>(9, 9, 2));
    let error = Gemm::new().kernel("k99_none").run(&device, &a, &b).unwrap_err();
    assert!(error.is_unsupported() && error.to_string().contains("k02_tiled_16"), "{error}");

    let mut old = device.info().clone();
    old.compute_capability = Some((6, 1));
    let layout = a.view().layout();
    let error = Gemm::<f32>::new().plan(&old, layout, layout).unwrap_err();
    let text = error.to_string();
    assert!(text.contains("missing kernel for this GPU") && text.contains("6.1"), "{text}");
    assert_works(&device);
}

#[test]
fn the_compilers_log_is_in_the_error() {
    let Some(device) = cuda() else { return };
    check_ptx(&device, "empty.ptx", EMPTY_KERNEL).unwrap();

    let broken = EMPTY_KERNEL.replace("ret;", "no_such_instruction.u32 %r1;");
    let error = check_ptx(&device, "broken.ptx", &broken).unwrap_err();
    assert!(error.is_jit() && !error.is_context_lost(), "{error}");
    let text = error.to_string();
    assert!(text.contains("broken.ptx") && text.contains("line 5"), "{text}");

    let newer = EMPTY_KERNEL.replace(".version 7.0", ".version 99.0");
    let error = check_ptx(&device, "newer.ptx", &newer).unwrap_err();
    assert!(error.is_jit() && error.to_string().contains("99.0"), "{error}");
    assert!(check_ptx(&device, "nul.ptx", "\0").unwrap_err().is_jit());
    assert!(check_ptx(&Device::cpu(), "empty.ptx", EMPTY_KERNEL).unwrap_err().is_device_mismatch());
    assert_works(&device);
}

#[test]
fn buffers_and_streams_of_cust_can_be_used() {
    use cust::memory::{CopyDestination, DeviceBuffer};
    let Some(device) = cuda() else { return };
    let raw = cust::device::Device::get_device(0).unwrap();
    let _context = cust::context::Context::new(raw).unwrap();
    let stream = cust::stream::Stream::new(cust::stream::StreamFlags::DEFAULT, None).unwrap();

    let (m, n, k) = (37, 29, 41);
    let (a, b) = (numbers::<f32>(m, k, 1), numbers::<f32>(k, n, 2));
    let buffer_a = DeviceBuffer::from_slice(a.as_slice()).unwrap();
    let buffer_b = DeviceBuffer::from_slice(b.as_slice()).unwrap();
    // C is written backwards, with a column to spare, between two guards.
    let guard = -7.0f32;
    let mut c = vec![guard; (m + 2) * (n + 1)];
    let mut buffer_c = DeviceBuffer::from_slice(&c).unwrap();
    let c_layout = Layout {
        shape: Shape::new(m, n),
        strides: Strides::new(-(n as isize + 1), 1),
        offset: m * (n + 1),
    };
    let operands = RawOperands {
        a: buffer_a.as_device_ptr().as_raw(),
        a_layout: a.view().layout(),
        b: buffer_b.as_device_ptr().as_raw(),
        b_layout: b.view().layout(),
        c: buffer_c.as_device_ptr().as_raw(),
        c_layout,
        reads: Reads::InOrder,
    };
    let gemm = Gemm::<f32>::new().alpha(2.0).beta(-1.0);
    // SAFETY: the buffers are of the device's primary context, hold their layouts, and stay until
    // the stream is done.
    unsafe { gemm.enqueue_raw(&device, &stream, operands) }.unwrap();
    stream.synchronize().unwrap();
    buffer_c.copy_to(&mut c[..]).unwrap();

    let mut expected = vec![guard; c.len()];
    let view = MatrixMut::new(&mut expected, c_layout).unwrap();
    gemm.run_into(&Device::cpu(), &a, &b, view).unwrap();
    assert_eq!(c, expected);

    // Errors come before anything is launched.
    let wrong = RawOperands { b_layout: a.view().layout(), ..operands };
    // SAFETY: as above, if it got so far.
    let error = unsafe { gemm.enqueue_raw(&device, &stream, wrong) }.unwrap_err();
    assert!(error.is_shape(), "{error}");
    // SAFETY: as above, if it got so far.
    let error = unsafe { gemm.enqueue_raw(&Device::cpu(), &stream, operands) }.unwrap_err();
    assert!(error.is_device_mismatch(), "{error}");
    buffer_c.copy_from(&c[..]).unwrap();
}

/// Layouts with gaps, in every order and direction, of a shape, and a buffer length that holds
/// them.
fn layouts(shape: Shape) -> (Vec<Layout>, usize) {
    let (rows, cols) = (shape.rows as isize, shape.cols as isize);
    let strides = [(cols, 1), (cols + 3, 1), (2 * cols + 1, 2), (1, rows), (2, 2 * rows + 5)];
    let mut layouts = Vec::new();
    for (row, col) in strides {
        for (row_sign, col_sign) in [(1, 1), (-1, 1), (1, -1), (-1, -1)] {
            let before = |sign: isize, count: isize, stride: isize| {
                if sign < 0 { (count - 1) * stride } else { 0 }
            };
            let offset = 4 + before(row_sign, rows, row) + before(col_sign, cols, col);
            let strides = Strides::new(row_sign * row, col_sign * col);
            layouts.push(Layout { shape, strides, offset: offset as usize });
        }
    }
    (layouts, 8 + (2 * rows + 5) as usize * (2 * cols + 5) as usize)
}

#[test]
fn the_hosts_memory_between_elements_stays() {
    let Some(device) = cuda() else { return };
    let (m, n, k) = (19, 23, 11);
    let (a, b) = (numbers::<f16>(m, k, 1), numbers::<f16>(k, n, 2));
    let (layouts, len) = layouts(Shape::new(m, n));
    let before = numbers::<f16>(1, len, 3).into_vec();
    for layout in layouts {
        for gemm in [Gemm::<f16>::new(), Gemm::new().alpha(2.0).beta(-1.0)] {
            let [on_gpu, on_cpu] = [&device, &Device::cpu()].map(|device| {
                let mut c = before.clone();
                let view = MatrixMut::new(&mut c, layout).unwrap();
                gemm.run_into(device, &a, &b, view).unwrap();
                c
            });
            assert_eq!(on_gpu, on_cpu, "{layout:?}");
        }
    }
}

#[test]
fn matrices_with_strides_travel() {
    let Some(device) = cuda() else { return };
    let shape = Shape::new(17, 13);
    let (mut layouts, len) = layouts(shape);
    // Rows and columns that repeat, and elements that several places share.
    for strides in [(0, 1), (1, 0), (0, 0), (1, 1), (2, 2), (-3, 3)] {
        let strides = Strides::new(strides.0, strides.1);
        layouts.push(Layout { shape, strides, offset: 60 });
    }
    let data = numbers::<f64>(1, len, 1).into_vec();
    let other = numbers::<f64>(shape.cols, 5, 2);
    let device_other = device.upload(&other).unwrap();
    for layout in layouts {
        let view = MatrixRef::new(&data, layout).unwrap();
        let expected = view.to_matrix().unwrap();
        let on_device = device.upload(view).unwrap();
        assert_eq!(on_device.download().unwrap(), expected, "{layout:?}");
        let transposed = device.upload(view.t()).unwrap();
        assert_eq!(transposed.download().unwrap(), view.t().to_matrix().unwrap(), "{layout:?}");

        let product = matmul(&Device::cpu(), &expected, &other).unwrap();
        assert_eq!(matmul(&device, view, &other).unwrap(), product, "{layout:?}");
        let mut c = device.uninit(product.shape()).unwrap();
        let gemm = Gemm::new().op_a(Op::Transpose);
        gemm.run_device(&transposed, &device_other, &mut c).unwrap();
        assert_eq!(c.download().unwrap(), product, "{layout:?}");
    }
}

#[test]
fn more_tiles_than_a_grid_has_are_cut_into_panels() {
    let Some(device) = cuda() else { return };
    let cpu = Device::cpu();
    let check = |variant: &str, m: usize, n: usize| {
        let (a, b) = (numbers::<i32>(m, 3, 1), numbers::<i32>(3, n, 2));
        let mut c = numbers::<i32>(m, n, 3);
        let mut expected = c.clone();
        let gemm = Gemm::new().beta(2);
        gemm.run_into(&cpu, &a, &b, &mut expected).unwrap();
        gemm.kernel(variant).run_into(&device, &a, &b, &mut c).unwrap();
        assert!(c == expected, "{variant} {m}x{n}");
    };
    check("k02_tiled_8", 65_535 * 8 + 9, 5);
    check("k02_tiled_8", 65_535 * 8 * 2, 1);
    check("k02_tiled_16_uncoalesced", 3, 65_535 * 16 + 17);
    check("k01_naive", 5, 65_535 * 16 + 17);
}

#[test]
fn devices_do_not_mix() {
    let Some(device) = cuda() else { return };
    let cpu = Device::cpu();
    let a = numbers::<f32>(8, 8, 1);
    let (on_gpu, on_cpu) = (device.upload(&a).unwrap(), cpu.upload(&a).unwrap());
    let mut c = device.upload(&a).unwrap();
    let error = Gemm::new().run_device(&on_gpu, &on_cpu, &mut c).unwrap_err();
    assert!(error.is_device_mismatch() && error.to_string().contains("B lies"), "{error}");
    let stream = cpu.stream().unwrap();
    let error = Gemm::new().enqueue(&stream, &on_gpu, &on_gpu, &mut c).unwrap_err();
    assert!(error.is_device_mismatch(), "{error}");
    assert_eq!(c.download().unwrap(), a);
}

#[test]
fn a_threads_current_context_stays() {
    let Some(device) = cuda() else { return };
    let current = || {
        let mut context = std::ptr::null_mut();
        // SAFETY: `context` may be written to.
        let result = unsafe { cust::sys::cuCtxGetCurrent(&mut context) };
        assert_eq!(result, cust::sys::CUresult::CUDA_SUCCESS);
        context
    };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            assert!(current().is_null());
            assert_works(&device);
            assert!(Device::cuda(0).unwrap() == device);
            assert!(Device::cuda(1_000).unwrap_err().is_no_device());
            assert!(current().is_null());
        });
    });
}
