//! The kernels of this repository for sm_90a, as their PTX file has them: tensor maps, clusters,
//! barriers of shared memory, products of groups of warps. They give the product that plain loops
//! give, and no report. Where the file is not there, nothing is tested, and the test says so.

mod params;

use gemm_spec::order::{CLUSTER_GROUP, TileOrder};
use gemm_spec::{
    DIRECT_ROWS, GROUPED_MAX, GemmParams, GroupedProduct, Kernel, Shape, Strides, Target,
    c_row_bytes,
};
use params::bytes;
use ptx_emulator::bulk::{Swizzle, TensorElement, TensorMap};
use ptx_emulator::{Arch, Argument, Emulator, Launch, Module, Options, Timing};
use std::time::{Duration, Instant};

/// A matrix of small integers in device memory.
struct Matrix {
    rows: usize,
    cols: usize,
    values: Vec<i32>,
}

impl Matrix {
    fn new(rows: usize, cols: usize, seed: u32) -> Matrix {
        let value = |i: usize| {
            let mixed = (i as u32 ^ seed).wrapping_mul(2_654_435_761).rotate_right(13);
            mixed as i32 % 3
        };
        Matrix { rows, cols, values: (0..rows * cols).map(value).collect() }
    }

    fn get(&self, row: usize, col: usize) -> i32 {
        self.values[row * self.cols + col]
    }

    fn transposed(&self) -> Matrix {
        let (rows, cols) = (self.cols, self.rows);
        let values = (0..rows * cols).map(|i| self.get(i % cols, i / cols)).collect();
        Matrix { rows, cols, values }
    }
}

/// The bytes of a small integer.
fn element(dtype: &str, value: i32) -> Vec<u8> {
    let bits = (value as f32).to_bits();
    match dtype {
        "i8" => (value as i8).to_le_bytes().to_vec(),
        "f8e4m3" | "f8e5m2" => {
            let (mantissa, bias) = if dtype == "f8e4m3" { (3, 7) } else { (2, 15) };
            let exponent = (bits >> 23 & 0xff) as i32 - 127 + bias;
            assert!([0, 1, 2].contains(&value.abs()), "a power of 2");
            let magnitude = if value == 0 { 0 } else { exponent << mantissa };
            vec![magnitude as u8 | if value < 0 { 0x80 } else { 0 }]
        }
        "i32" => value.to_le_bytes().to_vec(),
        "tf32" => bits.to_le_bytes().to_vec(),
        "bf16" => {
            assert_eq!(bits & 0xffff, 0, "{value} is no bf16");
            ((bits >> 16) as u16).to_le_bytes().to_vec()
        }
        _ => {
            assert_eq!(bits & 0x1fff, 0, "{value} is no f16");
            let exponent = (bits >> 23 & 0xff) as i32 - 127 + 15;
            let half = if value == 0 { 0 } else { (exponent as u32) << 10 | bits >> 13 & 0x3ff };
            ((half | bits >> 16 & 0x8000) as u16).to_le_bytes().to_vec()
        }
    }
}

fn upload(gpu: &mut Emulator, matrix: &Matrix, dtype: &str) -> u64 {
    let bytes: Vec<u8> = matrix.values.iter().flat_map(|value| element(dtype, *value)).collect();
    let address = gpu.allocate(bytes.len() as u64).unwrap();
    gpu.write(address, &bytes).unwrap();
    address
}

/// What maps call the elements, and the bytes of one.
fn element_of_map(dtype: &str) -> (TensorElement, u32) {
    match dtype {
        "i8" | "f8e4m3" | "f8e5m2" => (TensorElement::U8, 1),
        "i32" => (TensorElement::I32, 4),
        "tf32" => (TensorElement::F32, 4),
        "bf16" => (TensorElement::Bf16, 2),
        _ => (TensorElement::F16, 2),
    }
}

/// The tensor map of a matrix in boxes of so many rows of 128 or 64 bytes.
fn map(
    gpu: &Emulator,
    matrix: &Matrix,
    dtype: &str,
    address: u64,
    [rows, row_bytes]: [usize; 2],
) -> Vec<u8> {
    let (element, bytes) = element_of_map(dtype);
    // One matrix of a batch.
    let sizes = [matrix.cols as u64, matrix.rows as u64, 1];
    let strides = [sizes[0] * u64::from(bytes); 2];
    let boxes = [row_bytes as u32 / bytes, rows as u32, 1];
    let mut map = TensorMap::new(element, address, &sizes, &strides, &boxes);
    map.swizzle = if row_bytes == 128 { Swizzle::B128 } else { Swizzle::B64 };
    let words = gpu.encode_tensor_map(&map).unwrap();
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// The maps of every eighth row of a matrix of 16 bits: in boxes of 8 rows, of 128 bytes along K,
/// else of a block's `extent` and 16 bytes more.
fn row_maps(
    gpu: &Emulator,
    matrix: &Matrix,
    dtype: &str,
    address: u64,
    (along_k, extent): (bool, usize),
) -> Vec<u8> {
    let (element, bytes) = element_of_map(dtype);
    let pitch = matrix.cols as u64 * u64::from(bytes);
    let (width, swizzle) = match along_k {
        true => (64, Swizzle::B128),
        false => (extent as u32 + 8, Swizzle::None),
    };
    let map = |class: u64| {
        let first = address + class * pitch;
        let before = first % 16;
        let rows = (matrix.rows as u64 - class).div_ceil(DIRECT_ROWS as u64);
        let sizes = [matrix.cols as u64 + before / u64::from(bytes), rows, 1];
        let (strides, boxes) = ([DIRECT_ROWS as u64 * pitch; 2], [width, DIRECT_ROWS as u32, 1]);
        let mut map = TensorMap::new(element, first - before, &sizes, &strides, &boxes);
        map.swizzle = swizzle;
        gpu.encode_tensor_map(&map).unwrap()
    };
    let words = (0..DIRECT_ROWS as u64).flat_map(map);
    words.flat_map(u64::to_le_bytes).collect()
}

/// The arguments for a list of one product.
fn list([maps, c_at, block]: [Vec<u8>; 3], [m, n, k]: [usize; 3]) -> Vec<Argument> {
    let product = GroupedProduct {
        m: m as u64,
        n: n as u64,
        k: k as u64,
        c: 0,
        c_row_stride: n as i64,
        c_col_stride: 1,
    };
    let mut table = maps;
    table.resize(GROUPED_MAX * 3 * 128, 0);
    let numbers: Vec<u8> = product.words().iter().flat_map(|word| word.to_le_bytes()).collect();
    table.extend(numbers);
    table.resize(GROUPED_MAX * (3 * 128 + size_of::<GroupedProduct>()), 0);
    let offsets = vec![0; 8];
    [table, c_at, offsets, block].map(Argument::bytes).into()
}

/// The scale of a row of A and a block of K: a sign, so that sums stay small.
fn sign_of_a(row: usize, block: usize) -> i32 {
    if (row / 3 + block).is_multiple_of(2) { 1 } else { -1 }
}

/// That of a block of K and one of columns.
fn sign_of_b(block: usize, cols: usize) -> i32 {
    if block % 3 == cols % 2 { -1 } else { 1 }
}

/// The scales in device memory, and the arguments that say where.
fn upload_scales(gpu: &mut Emulator, [m, n, k]: [usize; 3]) -> Vec<Argument> {
    let (k_blocks, n_blocks) = (k.div_ceil(128), n.div_ceil(128));
    let scales = |rows: usize, cols: usize, sign: fn(usize, usize) -> i32| -> Vec<u8> {
        let one = |i: usize| sign(i / cols, i % cols) as f32;
        (0..rows * cols).flat_map(|i| one(i).to_le_bytes()).collect()
    };
    let a = scales(m, k_blocks, sign_of_a);
    let b = scales(k_blocks, n_blocks, sign_of_b);
    let mut arguments: Vec<Argument> = Vec::new();
    for bytes in [a, b] {
        let address = gpu.allocate(bytes.len() as u64).unwrap();
        gpu.write(address, &bytes).unwrap();
        arguments.push(address.into());
    }
    let places = [k_blocks, 1, n_blocks, 1].map(|stride| (stride as u64).to_le_bytes());
    arguments.push(Argument::bytes(places.concat()));
    arguments
}

/// The usual dtype of C.
fn output_of(dtype: &str) -> &str {
    match dtype {
        "i8" => "i32",
        "f8e4m3" | "f8e5m2" => "bf16",
        _ => dtype,
    }
}

/// As gemm-spec's table has it.
fn launch_of(kernel: &Kernel, [m, n]: [usize; 2]) -> Launch {
    let ([rows, cols, _], [down, across]) = (kernel.tiles.block, kernel.cluster_tiles());
    let tiles = m.div_ceil(rows).next_multiple_of(down) * n.div_ceil(cols).next_multiple_of(across);
    Launch {
        grid: [(tiles * kernel.parts_of_cluster()) as u32, 1, 1],
        block: [128 + 2 * rows as u32, 1, 1],
        cluster: [kernel.cluster() as u32, 1, 1],
        dynamic_shared: 227 << 10,
    }
}

/// The order of tiles, as the host makes it.
fn order_of(kernel: &Kernel, [m, n, k]: [usize; 3], launch: &Launch) -> TileOrder {
    let ([rows, cols, depth], [down, across]) = (kernel.tiles.block, kernel.cluster_tiles());
    let tiles = [m.div_ceil(rows) as u32, n.div_ceil(cols) as u32];
    let (cluster, steps) = ((down * across) as u32, k.div_ceil(depth) as u32);
    let clusters = launch.grid[0] / launch.cluster[0];
    TileOrder::new(tiles, cluster, [1, steps], clusters, CLUSTER_GROUP / cluster)
}

/// The parameter block of 2 A B - C, or of 2 A B.
fn block_of(
    output: &str,
    [m, n, k]: [usize; 3],
    strides: [Strides; 3],
    (order, adds): (TileOrder, bool),
) -> Vec<u8> {
    let shape = Shape::new(m, n);
    match output {
        "i32" => {
            let beta = adds.then_some(-1);
            bytes(GemmParams::new(shape, k, strides, 2, beta, 0i32).order(order))
        }
        _ => {
            let beta = adds.then_some(-1.0);
            bytes(GemmParams::new(shape, k, strides, 2.0, beta, 0f32).order(order))
        }
    }
}

/// C = 2 A B - C through one kernel, or 2 A B through a lean entry point; returns the time.
fn run(module: &Module, kernel: &str, [m, n, k]: [usize; 3], options: Options) -> Duration {
    let mut parts = kernel.split('_').skip_while(|part| !part.starts_with(char::is_numeric));
    let tile: Vec<usize> = parts.next().unwrap().split('x').map(|n| n.parse().unwrap()).collect();
    let transposes = parts.next().unwrap();
    let dtype = parts.next().unwrap();
    let output = output_of(dtype);
    let mut gpu = Emulator::new(options);
    let (a, b, c) = (Matrix::new(m, k, 1), Matrix::new(k, n, 0x777), Matrix::new(m, n, 0x9_9999));
    let stored = |matrix: &Matrix, place: usize| match &transposes[place..place + 1] {
        "t" => matrix.transposed(),
        _ => Matrix { values: matrix.values.clone(), ..*matrix },
    };
    let (stored_a, stored_b) = (stored(&a, 0), stored(&b, 1));
    let [a_at, b_at] = [&stored_a, &stored_b].map(|of| upload(&mut gpu, of, dtype));
    let c_at = upload(&mut gpu, &c, output);
    let strides = |t: bool, rows: usize, cols: usize| match t {
        true => Strides::new(1, rows as isize),
        false => Strides::new(cols as isize, 1),
    };
    let (ta, tb) = (&transposes[..1] == "t", &transposes[1..] == "t");
    let strides = [strides(ta, m, k), strides(tb, k, n), strides(false, m, n)];
    let row = gemm_spec::of_module(Target::Sm90a).find(|row| row.name == kernel).unwrap();
    let mut launch = launch_of(row, [m, n]);
    let adds = row.whole().is_none();
    let order = (order_of(row, [m, n, k], &launch), adds);
    let block = block_of(output, [m, n, k], strides, order);
    let old = |row, col| if adds { c.get(row, col) } else { 0 };
    let is_scaled = kernel.contains("scaled");
    let scales = is_scaled.then(|| upload_scales(&mut gpu, [m, n, k]));
    let of_three = || {
        let [rows_a, rows_b] = row.operand_box_rows([m, n, k].map(|x| x as u64), [!ta, tb], 0);
        let [bytes_a, bytes_b] = row.operand_row_bytes([!ta, tb]);
        let of_a = map(&gpu, &stored_a, dtype, a_at, [rows_a as usize, bytes_a]);
        let of_b = map(&gpu, &stored_b, dtype, b_at, [rows_b as usize, bytes_b]);
        let of_c = [64, c_row_bytes(tile[1], element(output, 0).len())];
        [of_a, of_b, map(&gpu, &c, output, c_at, of_c)]
    };
    let mut arguments = if kernel.contains("grouped") {
        list([of_three().concat(), c_at.to_le_bytes().to_vec(), block], [m, n, k])
    } else if kernel.contains("direct") {
        let of_a = row_maps(&gpu, &stored_a, dtype, a_at, (!ta, tile[0]));
        let of_b = row_maps(&gpu, &stored_b, dtype, b_at, (tb, tile[1]));
        let maps = Argument::bytes([of_a, of_b].concat());
        vec![a_at.into(), b_at.into(), c_at.into(), Argument::bytes(block), maps]
    } else {
        let maps = of_three().map(Argument::bytes);
        maps.into_iter().chain([c_at.into(), Argument::bytes(block)]).collect()
    };
    arguments.extend(scales.into_iter().flatten());
    if kernel.contains("stream_k") {
        // Fewer clusters than tiles, and not by a whole number.
        let clusters = launch.grid[0] / launch.cluster[0];
        launch.grid[0] = clusters.div_ceil(2).max(3) * launch.cluster[0];
        arguments.extend(joined(&mut gpu, launch.grid[0] as usize, tile[0] * tile[1]));
    }
    let start = Instant::now();
    if let Err(report) = gpu.launch(module, kernel, &launch, &arguments) {
        panic!("{kernel} {m}x{n}x{k}: {report}");
    }
    let time = start.elapsed();
    let size = element(output, 0).len();
    let mut result = vec![0; m * n * size];
    gpu.read(c_at, &mut result).unwrap();
    for row in 0..m {
        for col in 0..n {
            let scale = |p| sign_of_a(row, p / 128) * sign_of_b(p / 128, col / 128);
            let sign = |p| if is_scaled { scale(p) } else { 1 };
            let sum: i32 = (0..k).map(|p| sign(p) * a.get(row, p) * b.get(p, col)).sum();
            let expected = element(output, 2 * sum - old(row, col));
            let at = (row * n + col) * size;
            assert_eq!(result[at..at + size], expected, "{kernel} {m}x{n}x{k} ({row}, {col})");
        }
    }
    time
}

/// Where blocks join tiles of so many sums: room for them, keys, and the key that is none of these.
fn joined(gpu: &mut Emulator, blocks: usize, tile: usize) -> [Argument; 3] {
    let sums = gpu.allocate((4 * blocks * tile) as u64).unwrap();
    let keys = vec![0; 8 * 2 * blocks];
    let keys_at = gpu.allocate(keys.len() as u64).unwrap();
    gpu.write(keys_at, &keys).unwrap();
    [sums.into(), keys_at.into(), Argument::bytes(1_u64.to_le_bytes())]
}

fn module() -> Option<Module> {
    let path = format!("{}/../host/ptx/sm_90a.ptx", env!("CARGO_MANIFEST_DIR"));
    let path = std::env::var("SM_90A_PTX").unwrap_or(path);
    let Ok(text) = std::fs::read_to_string(&path) else {
        println!("not tested: there is no host/ptx/sm_90a.ptx");
        return None;
    };
    Some(Module::parse(&text).unwrap())
}

fn options() -> Options {
    Options { arch: Arch::new(9, 0), ..Options::default() }
}

#[test]
fn kernels_of_sm_90a() {
    let Some(module) = module() else { return };
    // Those of swapped operands and of split elements get what only the library makes of a product:
    // the case table has them, and `emulated_swapped` and `emulated_split` in tests/tests/waves.rs.
    let is_left_out = |kernel: &str| kernel.contains("swap_ab") || kernel.contains("_split_");
    let is_launched = |kernel: &&str| kernel.starts_with("warp_group") && !is_left_out(kernel);
    for kernel in module.kernels().filter(is_launched).collect::<Vec<_>>() {
        // Rows of whole chunks of 16 bytes, whatever the elements.
        let of_bytes = |dtype: &&str| kernel.trim_end_matches("_lean").ends_with(*dtype);
        let sizes = if ["i8", "f8e4m3", "f8e5m2"].iter().any(of_bytes) {
            [208, 272, 144]
        } else if kernel.contains("direct") {
            // But for those that take rows that begin anywhere.
            [199, 263, 131]
        } else {
            [200, 264, 136]
        };
        let time = run(&module, kernel, sizes, options());
        println!("{kernel}: {time:?}");
    }
}

#[test]
fn timing_does_not_matter() {
    let Some(module) = module() else { return };
    for timing in [Timing::Eager, Timing::Seeded(1), Timing::Seeded(2)] {
        run(&module, "warp_group_128x256_nn_f16", [136, 264, 200], Options { timing, ..options() });
    }
}

#[test]
fn the_largest_tile_is_fast_enough() {
    let Some(module) = module() else { return };
    let kernel = "warp_group_128x256_nn_f16";
    let times = (0..5).map(|_| run(&module, kernel, [256; 3], options()));
    let mut times = times.inspect(|time| println!("{kernel} 256^3: {time:?}"));
    assert!(times.any(|time| time < Duration::from_secs(2)));
}
