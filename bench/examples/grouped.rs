//! The two products of Mixtral 8x7B's experts (8, bf16, nn) over an uneven spread of tokens:
//! a list in one launch, rows by offsets, our products one after the other, cuBLAS's likewise.
//!
//! `cargo run --release -p gemmite-bench --example grouped`, on a GPU of compute capability 9.0.
//! Each way's C is compared with that of our products one after the other, before it is timed.

use anyhow::{Result, ensure};
use cust::memory::{CopyDestination, DeviceBuffer};
use cust::stream::Stream;
use gemmite::cuda::{RawOperands, Reads};
use gemmite::{Gemm, Layout, Matrix, Shape, bf16, random};
use gemmite_bench::candidates::cublas::Cublas;
use gemmite_bench::candidates::torch::nvidia_folders;
use gemmite_bench::gpu::Gpu;

/// Parts of the tokens.
const PARTS: [f64; 8] = [0.30, 0.20, 0.15, 0.12, 0.09, 0.07, 0.05, 0.02];

fn main() -> Result<()> {
    let gpu = Gpu::open(0)?;
    println!("{}", gpu.device);
    let cublas = Cublas::open(&gpu, &nvidia_folders()).map_err(|why| println!("{why:?}")).ok();
    for (n, k) in [(28672, 4096), (4096, 14336)] {
        for tokens in [64, 512, 4096] {
            measure(&gpu, cublas.as_ref(), tokens, [n, k])?;
        }
    }
    Ok(())
}

/// Where each product's rows begin, and where the last one's end.
fn offsets(tokens: usize) -> Vec<i32> {
    let ends = PARTS.iter().scan(0.0, |end, part| {
        *end += part * tokens as f64;
        Some((*end as i32).min(tokens as i32))
    });
    std::iter::once(0).chain(ends).collect()
}

/// The experts' matrices, all alike.
fn repeated(matrix: &[u16]) -> Result<DeviceBuffer<u16>> {
    let all = DeviceBuffer::zeroed(PARTS.len() * matrix.len())?;
    for expert in 0..PARTS.len() {
        all.index(expert * matrix.len()..(expert + 1) * matrix.len()).copy_from(matrix)?;
    }
    Ok(all)
}

/// Enqueues all products.
type Way<'a> = (&'static str, Box<dyn Fn(&Stream) -> Result<()> + 'a>);

fn measure(gpu: &Gpu, cublas: Option<&Cublas>, tokens: usize, [n, k]: [usize; 2]) -> Result<()> {
    let offsets = offsets(tokens);
    let a: Matrix<bf16> = random::normal(Shape::new(tokens, k), 1)?;
    let b: Matrix<bf16> = random::normal(Shape::new(k, n), 2)?;
    let on_a = DeviceBuffer::from_slice(bytemuck::cast_slice::<_, u16>(a.as_slice()))?;
    let on_b = repeated(bytemuck::cast_slice(b.as_slice()))?;
    let on_c = DeviceBuffer::<u16>::zeroed(tokens * n)?;
    let on_offsets = DeviceBuffer::from_slice(&offsets)?;
    let [a, b, c] = [&on_a, &on_b, &on_c].map(|of| of.as_device_ptr().as_raw());
    let rows = |i: usize| (offsets[i] as usize, (offsets[i + 1] - offsets[i]) as usize);
    let product = |i: usize| {
        let (first, m) = rows(i);
        RawOperands {
            a: a + 2 * (first * k) as u64,
            a_layout: Layout::row_major(Shape::new(m, k)),
            b: b + 2 * (i * k * n) as u64,
            b_layout: Layout::row_major(Shape::new(k, n)),
            c: c + 2 * (first * n) as u64,
            c_layout: Layout::row_major(Shape::new(m, n)),
            reads: Reads::InOrder,
        }
    };
    let list: Vec<RawOperands> = (0..PARTS.len()).map(product).collect();
    let all = RawOperands {
        a_layout: Layout::row_major(Shape::new(tokens, k)),
        c_layout: Layout::row_major(Shape::new(tokens, n)),
        a,
        c,
        ..list[0]
    };
    let gemm = Gemm::<bf16>::new();
    let forced = |name: &str| gemm.clone().kernel(name);
    let grouped = |gemm: Gemm<bf16>| {
        let list = &list;
        // SAFETY: the addresses are those of buffers with these layouts, which outlive the work.
        move |stream: &Stream| unsafe { Ok(gemm.enqueue_raw_grouped(&gpu.device, stream, list)?) }
    };
    let by_offsets = |gemm: Gemm<bf16>| {
        let (step, at) = ((PARTS.len(), (k * n) as isize), on_offsets.as_device_ptr().as_raw());
        // SAFETY: as above; there are 9 offsets.
        move |stream: &Stream| unsafe {
            Ok(gemm.enqueue_raw_rows(&gpu.device, stream, all, step, at)?)
        }
    };
    let one_by_one = |stream: &Stream| {
        list.iter().try_for_each(|of| {
            // SAFETY: as above.
            unsafe { Ok(gemm.enqueue_raw(&gpu.device, stream, *of)?) }
        })
    };
    let mut ways: Vec<Way<'_>> = vec![("ours, one by one", Box::new(one_by_one))];
    ways.push(("list, chosen", Box::new(grouped(gemm.clone()))));
    for (list, rows, kernel) in [
        ("list, 128x128", "rows, 128x128", "warp_group_grouped_128x128"),
        ("list, 128x256", "rows, 128x256", "warp_group_grouped_128x256"),
    ] {
        ways.push((list, Box::new(grouped(forced(kernel)))));
        ways.push((rows, Box::new(by_offsets(forced(kernel)))));
    }
    if let Some(cublas) = cublas {
        let each = |_: &Stream| {
            (0..PARTS.len()).try_for_each(|i| {
                let (of, (_, m)) = (&list[i], rows(i));
                if m == 0 {
                    return Ok(());
                }
                // SAFETY: as above.
                unsafe { cublas.multiply_bf16([of.a, of.b, of.c], [m, n, k]) }
            })
        };
        ways.push(("cublas, one by one", Box::new(each)));
    }
    println!("\n{tokens} tokens, n {n}, k {k}");
    compare(gpu, &ways, &on_c, k)
}

/// Verifies all ways against the first, and times them in turn.
fn compare(gpu: &Gpu, ways: &[Way<'_>], on_c: &DeviceBuffer<u16>, k: usize) -> Result<()> {
    let run = |way: &Way<'_>| -> Result<Vec<u16>> {
        on_c.index(..).copy_from(&vec![0xffff; on_c.len()])?;
        (way.1)(&gpu.stream)?;
        gpu.stream.synchronize()?;
        let mut out = vec![0; on_c.len()];
        on_c.copy_to(&mut out)?;
        Ok(out)
    };
    let expected = run(&ways[0])?;
    for way in ways {
        let found = run(way)?;
        let value = |bits: u16| f32::from_bits(u32::from(bits) << 16);
        let is_near = |(x, y): (&u16, &u16)| {
            let (x, y) = (value(*x), value(*y));
            (x - y).abs() <= 0.02 * x.abs() + 0.05 * (k as f32).sqrt() / 64.0
        };
        let alike = expected.iter().zip(&found).filter(|pair| is_near(*pair)).count();
        ensure!(
            alike == found.len(),
            "{}: {} of {} differ",
            way.0,
            found.len() - alike,
            found.len()
        );
    }
    let mut times = vec![Vec::new(); ways.len()];
    for _ in 0..15 {
        for (way, times) in ways.iter().zip(&mut times) {
            times.push(gpu.time(&way.1, &way.1)?);
        }
    }
    for (way, times) in ways.iter().zip(&mut times) {
        times.sort();
        println!("{:20} {:10.1} us", way.0, times[times.len() / 2].as_secs_f64() * 1e6);
    }
    Ok(())
}
