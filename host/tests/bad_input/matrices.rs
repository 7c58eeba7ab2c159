//! Matrices, views and the device's memory.

use super::{Answers, ones};
use gemmite::{Device, Layout, Matrix, MatrixMut, MatrixRef, Shape, Strides, random};

const MAX: usize = usize::MAX;
const FAR: isize = isize::MAX;

fn layout(rows: usize, cols: usize, row: isize, col: isize, offset: usize) -> Layout {
    Layout { shape: Shape::new(rows, cols), strides: Strides::new(row, col), offset }
}

pub fn views(answers: &mut Answers) {
    let data = [0f32; 12];
    let mut more = data;
    for (name, layout) in [
        ("a view that is too long", layout(4, 4, 4, 1, 0)),
        ("a view that begins too late", layout(3, 4, 4, 1, 1)),
        ("a view of one element behind the end", layout(1, 1, 1, 1, 12)),
        ("a view that goes backwards past the start", layout(3, 4, -4, 1, 7)),
        ("a view with columns past the start", layout(3, 4, 4, -1, 2)),
        ("a view with a stride of isize::MIN", layout(2, 1, isize::MIN, 1, 0)),
        ("a view with a stride of isize::MAX", layout(2, 2, FAR, FAR, 0)),
        ("a view with usize::MAX rows", layout(MAX, 1, 1, 1, 0)),
        ("a view whose lengths overflow when multiplied", layout(1 << 33, 1 << 33, 1 << 33, 1, 0)),
        ("a view that ends where it would begin, modulo 2^64", layout(3, 1, FAR, 1, 2)),
        ("a view from usize::MAX", layout(1, 1, 1, 1, MAX)),
        ("a view from behind isize::MAX, and back", layout(2, 1, isize::MIN, 1, 1 << 63)),
    ] {
        answers.add(name, MatrixRef::new(&data, layout));
        answers.add(&format!("{name}, to write"), MatrixMut::new(&mut more, layout));
    }
    for (name, layout) in [
        ("a C that repeats a row", layout(3, 4, 0, 1, 0)),
        ("a C that repeats a column", layout(3, 4, 1, 0, 0)),
        ("a C that repeats one element usize::MAX times", layout(MAX, MAX, 0, 0, 0)),
        ("a C whose rows interlock", layout(3, 4, 2, 1, 0)),
        ("a C whose rows interlock backwards", layout(3, 4, -2, -1, 11)),
    ] {
        answers.add(name, MatrixMut::new(&mut more, layout));
    }
    let matrix = ones::<f32>(3, 4);
    let view = matrix.view();
    #[expect(clippy::reversed_empty_ranges, reason = "the case")]
    let backwards = view.block(2..1, 0..1);
    answers.add("a block that ends before it begins", backwards);
    answers.add("a block of rows that are not there", view.block(2..4, 0..1));
    answers.add("a block of columns that are not there", view.block(0..1, 4..5));
    answers.add("a block to usize::MAX", view.block(0..MAX, 0..MAX));
}

pub fn memory(answers: &mut Answers) {
    let shape = Shape::new;
    let few = |len| vec![1i32; len];
    answers.add("too few elements", Matrix::from_vec(shape(2, 3), few(5)));
    answers.add("too many elements", Matrix::from_vec(shape(0, 3), few(1)));
    answers.add("a shape beyond usize", Matrix::from_vec(shape(MAX, MAX), few(1)));
    answers
        .add("a shape of 2^64 elements, modulo", Matrix::from_vec(shape(1 << 32, 1 << 32), few(0)));
    // More than any address space has; what is merely more than this machine has is not the same
    // everywhere.
    answers.add("zeros beyond the address space", Matrix::<f64>::zeros(shape(1 << 61, 2)));
    answers.add("zeros beyond usize", Matrix::<i8>::zeros(shape(MAX, MAX)));
    answers.add("zeros of an EiB", Matrix::<f64>::zeros(shape(1 << 57, 1)));
    answers.add("random numbers beyond usize", random::normal::<f32>(shape(MAX, 2), 1));
    answers.add("random numbers of an EiB", random::integers::<f32>(shape(1 << 58, 1), 1, 0..=1));
    let (one, layout) = ([1f64], layout(1 << 40, 1 << 20, 0, 0, 0));
    let repeated = MatrixRef::new(&one, layout).unwrap();
    answers.add("a copy of a view that repeats an element", repeated.to_matrix());
    for device in [Device::cpu(), Device::emulator((8, 0)).unwrap()] {
        let on = |name: &str| match device == Device::cpu() {
            true => format!("{name} on the CPU"),
            false => format!("{name} on an emulated GPU"),
        };
        let uninit = |rows, cols| device.uninit::<f32>(shape(rows, cols));
        answers.add(&on("a matrix beyond usize"), uninit(MAX, 2));
        answers.add(&on("a matrix beyond isize"), uninit(1 << 62, 1));
        answers.add(&on("a matrix of 2 EiB"), uninit(1 << 59, 1));
        answers.add(&on("zeros of 2 EiB"), device.zeros::<f32>(shape(1 << 59, 1)));
        let mut matrix = device.upload(&ones::<f32>(2, 3)).unwrap();
        answers.add(&on("a write of another shape"), matrix.write(&ones(3, 2)));
        // A repeated element travels as one, and is not repeated there either.
        let there = device.upload(repeated).unwrap();
        assert_eq!(there.size_bytes(), 8);
        answers.add(&on("a download that repeats an element"), there.download());
    }
}
