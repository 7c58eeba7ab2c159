//! Operands that are read at once, before the work ahead in the stream has ended, and what is not.

use gemmite::cuda::cust::context::Context;
use gemmite::cuda::cust::memory::{CopyDestination, DeviceBuffer};
use gemmite::cuda::cust::stream::{Stream, StreamFlags};
use gemmite::cuda::{RawOperands, Reads, cust};
use gemmite::{Device, Gemm, Layout, Matrix, Shape, bf16, random};
use gemmite_tests::hopper;

/// Products one behind the other.
const CHAIN: usize = 24;

/// Rows that go through layers of so many columns, and the kernel, where it is named: of each kind
/// of tile, with K in parts, in equal shares, and with a copy of an operand before.
const CHAINS: [(usize, usize, Option<&str>); 9] = [
    (16, 4096, None),
    (64, 2048, Some("warp_group_64x64")),
    (64, 2048, Some("warp_group_64x64/4")),
    (64, 2048, Some("warp_group_stream_k_64x64")),
    (512, 512, Some("warp_group_64x64")),
    (512, 1024, Some("warp_group_64x128")),
    (1000, 1024, Some("warp_group_128x128")),
    (1500, 1536, Some("warp_group_128x256")),
    (300, 777, None),
];

/// A matrix's bytes on the GPU.
fn on_gpu(matrix: &Matrix<bf16>) -> DeviceBuffer<u8> {
    DeviceBuffer::from_slice(bytemuck::cast_slice(matrix.as_slice())).unwrap()
}

/// What a chain of products is made of.
struct Chain {
    gemm: Gemm<bf16>,
    device: Device,
    stream: Stream,
    shape: [Layout; 2],
    weights: DeviceBuffer<u8>,
    /// The input, and what each product makes of the one before it.
    values: Vec<DeviceBuffer<u8>>,
}

impl Chain {
    fn new(device: &Device, (rows, cols, kernel): (usize, usize, Option<&str>)) -> Self {
        let scale = 1.0 / (cols as f32).sqrt();
        let input = random::normal(Shape::new(rows, cols), 1).unwrap();
        let weights: Matrix<f32> = random::normal(Shape::new(cols, cols), 2).unwrap();
        let weights =
            Matrix::from_fn(weights.shape(), |i, j| bf16::from_f32(weights[(i, j)] * scale));
        let shape = [Shape::new(rows, cols), Shape::new(cols, cols)].map(Layout::row_major);
        let gemm = kernel.map_or_else(Gemm::new, |kernel| Gemm::new().kernel(kernel));
        let stream = Stream::new(StreamFlags::DEFAULT, None).unwrap();
        let values = (0..=CHAIN).map(|_| on_gpu(&input)).collect();
        let weights = on_gpu(&weights.unwrap());
        Chain { gemm, device: device.clone(), stream, shape, weights, values }
    }

    /// Computes all products, and returns what they made; each waits for the one before on the host
    /// where `one_by_one`, and reads the input and not that where `apart`.
    fn run(&mut self, reads: Reads, one_by_one: bool, apart: bool) -> Vec<Vec<u8>> {
        let bytes = self.values[0].len();
        for value in &mut self.values[1..] {
            value.copy_from(&vec![0xff; bytes]).unwrap(); // NaN
        }
        let [of_values, of_weights] = self.shape;
        let at = |buffer: &DeviceBuffer<u8>| buffer.as_device_ptr().as_raw();
        for i in 0..CHAIN {
            let operands = RawOperands {
                a: at(&self.values[if apart { 0 } else { i }]),
                a_layout: of_values,
                b: at(&self.weights),
                b_layout: of_weights,
                c: at(&self.values[i + 1]),
                c_layout: of_values,
                reads,
            };
            // SAFETY: the buffers are of the primary context, hold their layouts and stay; C is
            // another one than A, and what is read at once is the input and the weights alone.
            unsafe { self.gemm.enqueue_raw(&self.device, &self.stream, operands).unwrap() };
            if one_by_one {
                self.stream.synchronize().unwrap();
            }
        }
        self.stream.synchronize().unwrap();
        let copied = |value: &DeviceBuffer<u8>| {
            let mut host = vec![0; bytes];
            value.copy_to(&mut host).unwrap();
            host
        };
        self.values[1..].iter().map(copied).collect()
    }
}

#[test]
fn what_may_not_be_read_at_once_is_waited_for() {
    // Launches overlap on this one alone.
    let Some(device) = hopper() else { return };
    let raw = cust::device::Device::get_device(0).unwrap();
    let _context = Context::new(raw).unwrap();
    for of in CHAINS {
        let mut chain = Chain::new(&device, of);
        let expected = chain.run(Reads::InOrder, true, false);
        assert!(expected.iter().all(|value| value[..2] != [0xff; 2]));
        let apart = chain.run(Reads::InOrder, true, true);
        for round in 0..8 {
            assert!(chain.run(Reads::InOrder, false, false) == expected, "{of:?}, round {round}");
            assert!(chain.run(Reads::AtOnce, false, true) == apart, "{of:?} at once, {round}");
        }
    }
}
