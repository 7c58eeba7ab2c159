//! Recorded work on a CUDA device: replayed with other data, on several streams and from several
//! threads, with every kind of plan; and what recording refuses.

use gemmite::{
    Activation, Device, DeviceEpilogue, DeviceMatrix, Gemm, Layout, Matrix, Op, Shape, Stream,
    bf16, random,
};
use gemmite_tests::cuda;
use std::panic::{AssertUnwindSafe, catch_unwind};

fn matrix(shape: (usize, usize), seed: u64) -> Matrix<bf16> {
    random::integers(Shape::new(shape.0, shape.1), seed, -2..=2).unwrap()
}

#[test]
fn graphs_repeat_on_what_the_matrices_hold() {
    let Some(device) = cuda() else { return };
    // Odd rows are copied first, K is split, and the last has an epilogue that is added behind.
    let (m, n, k) = (256, 192, 1003);
    let mut a = device.upload(&matrix((m, k), 1)).unwrap();
    let b = device.upload(&matrix((k, n), 2)).unwrap();
    let weights = device.upload(&matrix((n, n), 3)).unwrap();
    let mut c = device.uninit::<f32>(Shape::new(m, n)).unwrap();
    let mut small = device.uninit::<bf16>(Shape::new(m, n)).unwrap();
    let mut out = device.uninit::<bf16>(Shape::new(m, n)).unwrap();
    let stream = device.stream().unwrap();
    let products = |stream: &Stream,
                    a: &DeviceMatrix<bf16>,
                    c: &mut DeviceMatrix<f32>,
                    small: &mut DeviceMatrix<bf16>,
                    out: &mut DeviceMatrix<bf16>| {
        Gemm::<bf16>::new().output::<f32>().kernel("k02_tiled_16/3").enqueue(stream, a, &b, c)?;
        Gemm::<bf16>::new().enqueue(stream, a, &b, small)?;
        let epilogue = DeviceEpilogue::new().activation(Activation::Gelu);
        Gemm::<bf16>::new().fused(epilogue).enqueue(stream, small, &weights, out)
    };
    let graph = stream.record(|stream| products(stream, &a, &mut c, &mut small, &mut out)).unwrap();
    for seed in 10..14 {
        a.write(&matrix((m, k), seed)).unwrap();
        let other = device.stream().unwrap();
        graph.enqueue(if seed % 2 == 0 { &stream } else { &other }).unwrap();
        let found = (c.download().unwrap(), small.download().unwrap(), out.download().unwrap());
        let (mut c, mut small, mut out) = (
            device.uninit(Shape::new(m, n)).unwrap(),
            device.uninit(Shape::new(m, n)).unwrap(),
            device.uninit(Shape::new(m, n)).unwrap(),
        );
        products(&stream, &a, &mut c, &mut small, &mut out).unwrap();
        assert!(found.0 == c.download().unwrap(), "{seed}");
        assert!(found.1 == small.download().unwrap(), "{seed}");
        assert!(found.2 == out.download().unwrap(), "{seed}");
    }
    // The graph keeps the memory.
    drop((a, b, weights, c, small, out));
    for _ in 0..3 {
        graph.enqueue(&stream).unwrap();
    }
    drop(graph);
    stream.synchronize().unwrap();
}

#[test]
fn graphs_are_enqueued_from_many_threads() {
    let Some(device) = cuda() else { return };
    let shape = Shape::new(130, 130);
    let one: Matrix<i32> = Matrix::from_fn(shape, |i, j| i32::from(i == j)).unwrap();
    let (eye, mut sum) = (device.upload(&one).unwrap(), device.upload(&one).unwrap());
    let batch = |matrix: &Matrix<i32>| {
        device.upload(matrix).unwrap().into_batch(Layout::row_major(shape), 1, 0).unwrap()
    };
    let (of_batch, mut into) = (batch(&one), batch(&one));
    let stream = device.stream().unwrap();
    let add = Gemm::<i32>::new().beta(1);
    let graph = stream
        .record(|stream| {
            add.enqueue(stream, &eye, &eye, &mut sum)?;
            add.enqueue_batch(stream, &of_batch, &of_batch, &mut into)
        })
        .unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            let (graph, device) = (&graph, &device);
            scope.spawn(move || {
                let stream = device.stream().unwrap();
                (0..25).for_each(|_| graph.enqueue(&stream).unwrap());
            });
        }
    });
    assert_eq!(sum.download().unwrap()[(7, 7)], 101);
    assert_eq!(into.download().unwrap()[0][(129, 129)], 101);
}

#[test]
fn what_cannot_be_recorded_is_refused_and_leaves_the_stream_as_it_was() {
    let Some(device) = cuda() else { return };
    let shape = Shape::new(64, 64);
    let a = device.zeros::<f32>(shape).unwrap();
    let mut c = device.zeros::<f32>(shape).unwrap();
    let gemm = Gemm::<f32>::new().op_b(Op::Transpose);
    let stream = device.stream().unwrap();
    let within = stream.record(|stream| stream.record(|_| Ok(())).map(drop));
    assert!(within.unwrap_err().to_string().contains("being recorded"));
    let elsewhere = stream.record(|stream| {
        let enqueue = || gemm.enqueue(stream, &a, &a, &mut c);
        std::thread::scope(|scope| scope.spawn(enqueue).join()).expect("no panic")
    });
    assert!(elsewhere.unwrap_err().to_string().contains("being recorded"));
    let wrong = stream.record(|stream| {
        gemm.enqueue(stream, &a, &a, &mut c)?;
        Gemm::<f32>::new().kernel("no_such").enqueue(stream, &a, &a, &mut c)
    });
    assert!(wrong.unwrap_err().to_string().contains("no_such"));
    let panics = catch_unwind(AssertUnwindSafe(|| {
        stream.record(|stream| {
            gemm.enqueue(stream, &a, &a, &mut c)?;
            panic!("in the middle")
        })
    }));
    assert!(panics.is_err());
    // An empty graph, and work that runs at once.
    stream.record(|_| Ok(())).unwrap().enqueue(&stream).unwrap();
    gemm.enqueue(&stream, &a, &a, &mut c).unwrap();
    stream.synchronize().unwrap();
}

#[test]
fn threads_record_on_one_stream_one_after_the_other() {
    let Some(device) = cuda() else { return };
    let (gemm, stream) = (Gemm::<bf16>::new(), device.stream().unwrap());
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (device, gemm, stream) = (&device, &gemm, &stream);
            scope.spawn(move || {
                let own = device.stream().unwrap();
                for turn in 0..25 {
                    let a = matrix((64, 64), 100 * thread + turn);
                    let expected = gemm.run(&Device::cpu(), &a, &a).unwrap();
                    let a = device.upload(&a).unwrap();
                    let mut c = device.zeros(Shape::new(64, 64)).unwrap();
                    let graph = loop {
                        match stream.record(|stream| gemm.enqueue(stream, &a, &a, &mut c)) {
                            Ok(graph) => break graph,
                            Err(error) => assert!(error.is_recording(), "{error}"),
                        }
                    };
                    // The graph keeps this thread's memory, and waits for work on it.
                    drop(a);
                    graph.enqueue(&own).unwrap();
                    assert!(c.download().unwrap() == expected, "thread {thread}, turn {turn}");
                }
            });
        }
    });
}

/// A graph adds 1 to every element of the diagonal; who reads meanwhile sees it before or after.
#[test]
fn what_a_graph_writes_is_read_before_or_after() {
    let Some(device) = cuda() else { return };
    let shape = Shape::new(1024, 1024);
    let one: Matrix<i32> = Matrix::from_fn(shape, |i, j| i32::from(i == j)).unwrap();
    let (eye, mut sum) = (device.upload(&one).unwrap(), device.upload(&one).unwrap());
    let stream = device.stream().unwrap();
    let add = Gemm::<i32>::new().beta(1);
    let graph = stream.record(|stream| add.enqueue(stream, &eye, &eye, &mut sum)).unwrap();
    let is_even = |found: &Matrix<i32>| (0..1024).all(|i| found[(i, i)] == found[(0, 0)]);
    std::thread::scope(|scope| {
        scope.spawn(|| (0..200).for_each(|_| graph.enqueue(&stream).unwrap()));
        scope.spawn(|| (0..20).for_each(|_| assert!(is_even(&sum.download().unwrap()))));
        scope.spawn(|| {
            let (own, mut copy) = (device.stream().unwrap(), device.zeros(shape).unwrap());
            for _ in 0..20 {
                Gemm::<i32>::new().enqueue(&own, &sum, &eye, &mut copy).unwrap();
                assert!(is_even(&copy.download().unwrap()));
            }
        });
    });
    assert_eq!(sum.download().unwrap()[(1023, 1023)], 201);
}

#[test]
fn a_stream_that_is_recorded_is_not_waited_for() {
    let Some(device) = cuda() else { return };
    let stream = device.stream().unwrap();
    let waited = stream.record(Stream::synchronize);
    assert!(waited.unwrap_err().is_recording());
    stream.synchronize().unwrap();
}
