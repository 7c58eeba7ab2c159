//! Which lists the kernels for lists take, and what that is predicted to cost.

use super::*;
use crate::plan::tests::{h100, product};
use gemm_spec::Strides;

/// A, B in rows along K as the kernels for `nt` read them, at addresses that maps take.
fn nt(m: usize, n: usize, k: usize) -> Product {
    product(Layout::row_major(Shape::new(m, k)), Layout::col_major(Shape::new(k, n)))
}

fn found(choice: &KernelChoice, products: &[Product]) -> Result<Option<Grouped>, Error> {
    group(choice, products, &vec![[0; 2]; products.len()], &h100())
}

fn named(name: &str) -> KernelChoice {
    name.into()
}

#[test]
fn lists_are_taken_where_that_is_faster_or_asked_for() {
    let auto = KernelChoice::Auto;
    let eight = found(&auto, &[nt(64, 4096, 4096); 8]).unwrap().unwrap();
    assert_eq!(eight.products.len(), 8);
    // One product is no list, and a kernel for one product computes them one by one.
    assert!(found(&auto, &[nt(64, 4096, 4096)]).unwrap().is_none());
    assert!(found(&auto, &[nt(4096, 4096, 4096)]).unwrap().is_none());
    // The list's kernel does not split sums.
    assert!(found(&auto, &[nt(64, 64, 1 << 16); 2]).unwrap().is_none());
    assert!(found(&named("k02_tiled_16"), &[nt(64, 4096, 4096); 8]).unwrap().is_none());
    for (variant, _) in OF_LISTS {
        let one = found(&named(variant), &[nt(64, 4096, 4096)]).unwrap().unwrap();
        assert_eq!(one.kernel.variant, variant);
        let kernel = KernelChoice::Spec(*one.kernel);
        assert_eq!(found(&kernel, &[nt(64, 96, 64)]).unwrap().unwrap().kernel, one.kernel);
    }
    // Nothing to compute, and nothing that the kernel reads.
    let name = named("warp_group_grouped_128x128");
    assert!(found(&name, &[nt(0, 64, 64)]).unwrap().unwrap().products.is_empty());
    assert!(found(&name, &[]).unwrap().is_none());
    let odd = Product { a: Layout::row_major(Shape::new(64, 63)), ..nt(64, 64, 63) };
    assert!(found(&name, &[odd]).is_err() && found(&auto, &[odd; 8]).unwrap().is_none());
}

#[test]
fn a_list_has_one_way_of_storing_and_no_sum_that_could_become_nan() {
    let name = named("warp_group_grouped_128x256");
    let with_alpha = |alpha: f32, of: Product| Product { alpha: Factor::F32(alpha), ..of };
    let (long, empty) = (nt(64, 64, 64), nt(64, 64, 0));
    assert!(found(&name, &[long, empty]).unwrap().is_some());
    // Nothing is read of an empty sum, however it is stored.
    let other = product(Layout::col_major(Shape::new(64, 0)), Layout::row_major(Shape::new(0, 64)));
    assert!(found(&name, &[long, other]).unwrap().is_some());
    for alpha in [f32::INFINITY, f32::NAN] {
        assert!(found(&name, &[with_alpha(alpha, long); 2]).unwrap().is_some());
        let both = [with_alpha(alpha, long), with_alpha(alpha, empty)];
        assert!(found(&name, &both).is_err(), "{alpha}");
    }
    let nn = product(Layout::row_major(Shape::new(64, 64)), Layout::row_major(Shape::new(64, 64)));
    assert!(found(&name, &[nn; 2]).unwrap().is_some());
    assert!(found(&name, &[nn, long]).is_err());
    let batch = Product { batch: Batch { count: 2, a: 4096, b: 4096, c: 4096 }, ..long };
    assert!(found(&name, &[long, batch]).is_err());
    assert!(found(&name, &[Product { batch_invariant: true, ..long }]).is_err());
}

#[test]
fn a_list_takes_what_its_products_take_together() {
    let of_rows = |m: usize, count: usize| {
        let kernel = gemm_spec::grouped(DType::BF16, [true; 2]).next().unwrap();
        let tasks = vec![Task::of(&nt(m, 4096, 4096), [0; 2]); count];
        of_list(kernel, &tasks, &h100())
    };
    // One row each: what the memory takes for B. A list of one takes as long as that product.
    let of = |count: usize| of_rows(1, count);
    let bytes = 8.0 * 4096.0 * 4096.0 * 2.0;
    let memory = of(8).memory;
    assert!((0.8..1.5).contains(&(memory * 3.0e6 / bytes)), "{memory} us");
    assert!(of(8).multiplying >= of(1).multiplying && of(1).memory > 0.0);
    // Many rows each: products that have work for all multiprocessors add up.
    for ((variant, like), kernel) in
        OF_LISTS.into_iter().zip(gemm_spec::grouped(DType::BF16, [true; 2]))
    {
        // A B that does not stay in the L2 cache, where one product's order is a list's.
        let task = Task::of(&nt(4096, 8192, 4096), [0; 2]);
        let like = choose(&named(like), &task, &h100()).unwrap().prediction;
        let list = of_list(kernel, &[task], &h100());
        assert_eq!((kernel.variant, list.multiplying), (variant, like.multiplying));
    }
    let ratio = of_rows(4096, 8).multiplying / of_rows(4096, 1).multiplying;
    assert!((6.0..=8.1).contains(&ratio), "{ratio}");
}

#[test]
fn rows_by_offsets_are_for_the_kernels_for_lists() {
    let choose = |choice: &KernelChoice, product, count| {
        let rows = RowsProduct { product, count, b_step: 0, first_offset: 0 };
        choose_rows(choice, &rows, [0; 2], &h100()).map(|(kernel, _)| kernel)
    };
    let (auto, few) = (KernelChoice::Auto, nt(256, 128, 64));
    for (variant, _) in OF_LISTS {
        let kernel = choose(&named(variant), few, 4).unwrap();
        assert_eq!(kernel.variant, variant);
        assert_eq!(choose(&KernelChoice::Spec(*kernel), few, 4).unwrap(), kernel);
    }
    for other in ["k02_tiled_16", "k02_tiled_16/2"] {
        let error = choose(&named(other), few, 4).unwrap_err().to_string();
        assert!(OF_LISTS.iter().all(|(variant, _)| error.contains(variant)), "{error}");
    }
    let other = *Kernel::find("k02_tiled_16", DType::BF16).unwrap();
    let error = choose(&KernelChoice::Spec(other), few, 4).unwrap_err().to_string();
    assert!(error.contains("not one of"), "{error}");
    // Of empty sums nothing is read, wherever it lies.
    assert!(choose(&auto, nt(256, 128, 0), 4).is_ok());
    let kernel = choose(&named("warp_group_grouped_128x256"), few, 4).unwrap();
    let of = |rows, cols| blocks(kernel, Shape::new(rows, cols));
    assert_eq!([of(0, 9), of(1, 256), of(256, 256), of(257, 257)], [0, 2, 2, 8]);
    // Tiles and offsets have numbers of 31 bits.
    assert!(choose(&auto, nt(256, 1024, 64), 1 << 20).is_ok());
    assert!(choose(&auto, nt(256, 1024, 64), 1 << 30).is_err());
    let most = i32::MAX as usize;
    assert!(choose(&auto, nt(256, 0, 64), most - 1).is_ok());
    assert!(choose(&auto, nt(256, 0, 64), most).is_err());
    assert_eq!(dtypes().collect::<Vec<_>>(), [DType::F16, DType::BF16]);
}

#[test]
fn rows_by_offsets_have_their_own_b_at_distances_that_maps_take() {
    let (k, n) = (64, 128);
    let rows =
        |b_step: isize| RowsProduct { product: nt(256, n, k), count: 4, b_step, first_offset: 0 };
    let products = rows((n * k) as isize).products(&[0, 10, 10, 200, 256]);
    let of = |of: &Product| (of.a.shape.rows, of.a.offset, of.b.offset, of.c.offset);
    let b = |number: usize| number * n * k;
    let expected = [(10, 0, b(0), 0), (0, 640, b(1), 1280), (190, 640, b(2), 1280)];
    assert_eq!(products.iter().map(of).collect::<Vec<_>>()[..3], expected);
    let choose = |rows: &RowsProduct| choose_rows(&KernelChoice::Auto, rows, [0; 2], &h100());
    let (kernel, _) = choose(&rows((n * k) as isize)).unwrap();
    assert!(OF_LISTS.iter().any(|(variant, _)| *variant == kernel.variant));
    // Not at a multiple of 16 bytes, backwards, further than a map reaches.
    for step in [(n * k + 4) as isize, -((n * k) as isize), 1 << 40] {
        assert!(choose(&rows(step)).is_err(), "{step}");
        let one = RowsProduct { count: 1, ..rows(step) };
        assert!(choose(&one).is_ok(), "{step}");
    }
    let invariant = Product { batch_invariant: true, ..nt(256, n, k) };
    assert!(choose(&RowsProduct { product: invariant, ..rows((n * k) as isize) }).is_err());
    let spaced = Layout { strides: Strides::new(k as isize + 1, 1), ..nt(256, n, k).a };
    let spaced = Product { a: spaced, ..nt(256, n, k) };
    assert!(choose(&RowsProduct { product: spaced, ..rows((n * k) as isize) }).is_err());
}
