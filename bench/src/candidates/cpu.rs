//! Peers of the CPU engine: crates that multiply matrices.
//!
//! Each computes plain products of f32 and f64; ndarray is built without a BLAS, so that its
//! product is the crate matrixmultiply behind its own interface. gemm and the CPU engine use every
//! core, matrixmultiply and ndarray one.

use super::{Absence, Candidate, Entrant, Peer};
use crate::case::Case;
use crate::suite::{Epilogue, Row};
use crate::timing::Work;
use anyhow::Result;
use gemmite::{Element, Layout};
use ndarray::ShapeBuilder;
use std::time::{Duration, Instant};

/// A product of a crate: C = A * B on the operands of one product of the batch, whose layouts have
/// the transposes applied.
type Multiply<T> = fn([Layout; 3], &[T], &[T], &mut [<T as Element>::Output]);

/// The peers of `peers` that run on the CPU.
pub fn entrants<'a, T: Element>(case: &'a Case<T>, peers: &[Peer]) -> Vec<Entrant<'a, T>> {
    let asked = Peer::ON_CPU.into_iter().filter(|peer| peers.contains(peer));
    asked.map(|peer| entrant(case, peer)).collect()
}

fn entrant<'a, T: Element>(case: &'a Case<T>, peer: Peer) -> Entrant<'a, T> {
    let name = peer.name();
    if case.row.epilogue != Epilogue::NONE {
        return Entrant::absent(name, Absence::unsupported("only plain products are compared"));
    }
    match multiply::<T>(peer) {
        Some(multiply) => {
            let work = Crate { case, c: case.c.clone(), multiply };
            Entrant::peer(name, String::new(), work)
        }
        None => {
            let reason = format!("the crate has no product of {} in this form", T::DTYPE);
            Entrant::absent(name, Absence::unsupported(reason))
        }
    }
}

fn multiply<T: Element>(peer: Peer) -> Option<Multiply<T>> {
    let f32: Option<Multiply<f32>> = match peer {
        Peer::Gemm => Some(with_gemm),
        Peer::Matrixmultiply => Some(with_matrixmultiply_f32),
        Peer::Ndarray => Some(with_ndarray),
        _ => None,
    };
    let f64: Option<Multiply<f64>> = match peer {
        Peer::Gemm => Some(with_gemm),
        Peer::Matrixmultiply => Some(with_matrixmultiply_f64),
        Peer::Ndarray => Some(with_ndarray),
        _ => None,
    };
    // One of the two has the element's type, if any has.
    let (f32, f64): (Box<dyn std::any::Any>, Box<dyn std::any::Any>) =
        (Box::new(f32), Box::new(f64));
    f32.downcast::<Option<Multiply<T>>>()
        .or_else(|_| f64.downcast::<Option<Multiply<T>>>())
        .ok()
        .and_then(|multiply| *multiply)
}

struct Crate<'a, T: Element> {
    case: &'a Case<T>,
    c: Vec<T::Output>,
    multiply: Multiply<T>,
}

impl<T: Element> Crate<'_, T> {
    fn multiply(&mut self) {
        let Row { op_a, op_b, batch, .. } = self.case.row;
        let [a, b, c] = self.case.row.layouts();
        let layouts = [a.apply(op_a), b.apply(op_b), c];
        let strides = self.case.row.batch_strides();
        for index in 0..batch {
            let [a, b, c] = strides.map(|stride| index * stride);
            (self.multiply)(layouts, &self.case.a[a..], &self.case.b[b..], &mut self.c[c..]);
        }
    }
}

impl<T: Element> Work for Crate<'_, T> {
    fn sample(&mut self, runs: u32) -> Result<Duration> {
        let start = Instant::now();
        (0..runs).for_each(|_| self.multiply());
        Ok(start.elapsed())
    }
}

impl<T: Element> Candidate<T> for Crate<'_, T> {
    fn product(&mut self) -> Result<Vec<T::Output>> {
        self.c.clone_from(&self.case.c);
        self.multiply();
        Ok(self.c.clone())
    }
}

/// Addresses of the elements (0, 0), after checks that the layouts fit the slices.
fn origins<T: Element>(
    [la, lb, lc]: [Layout; 3],
    a: &[T],
    b: &[T],
    c: &mut [T],
) -> (*const T, *const T, *mut T) {
    for (layout, len) in [(la, a.len()), (lb, b.len()), (lc, c.len())] {
        layout.check(len).expect("a case's buffers hold its layouts");
        assert_eq!(layout.offset, 0, "a case's layouts start at their buffers");
    }
    (a.as_ptr(), b.as_ptr(), c.as_mut_ptr())
}

fn with_gemm<T: Element + num_traits::One + num_traits::Zero>(
    layouts: [Layout; 3],
    a: &[T],
    b: &[T],
    c: &mut [T],
) {
    let [la, lb, lc] = layouts;
    let (a, b, c) = origins(layouts, a, b, c);
    // SAFETY: the layouts lie in the slices, C's exclusively; the crate does not read C with the
    // `false` after it.
    unsafe {
        gemm::gemm(
            lc.shape.rows,
            lc.shape.cols,
            la.shape.cols,
            c,
            lc.strides.col,
            lc.strides.row,
            false,
            a,
            la.strides.col,
            la.strides.row,
            b,
            lb.strides.col,
            lb.strides.row,
            T::zero(),
            T::one(),
            false,
            false,
            false,
            gemm::Parallelism::Rayon(0),
        );
    }
}

macro_rules! with_matrixmultiply {
    ($name:ident, $function:path, $t:ty) => {
        fn $name(layouts: [Layout; 3], a: &[$t], b: &[$t], c: &mut [$t]) {
            let [la, lb, lc] = layouts;
            let (a, b, c) = origins(layouts, a, b, c);
            // SAFETY: the layouts lie in the slices, C's exclusively; with a beta of 0 the crate
            // does not read C.
            unsafe {
                $function(
                    la.shape.rows,
                    la.shape.cols,
                    lb.shape.cols,
                    1.0,
                    a,
                    la.strides.row,
                    la.strides.col,
                    b,
                    lb.strides.row,
                    lb.strides.col,
                    0.0,
                    c,
                    lc.strides.row,
                    lc.strides.col,
                );
            }
        }
    };
}

with_matrixmultiply!(with_matrixmultiply_f32, matrixmultiply::sgemm, f32);
with_matrixmultiply!(with_matrixmultiply_f64, matrixmultiply::dgemm, f64);

fn with_ndarray<T: Element + ndarray::LinalgScalar>(
    [la, lb, lc]: [Layout; 3],
    a: &[T],
    b: &[T],
    c: &mut [T],
) {
    let shape = |layout: Layout| {
        let strides = (layout.strides.row as usize, layout.strides.col as usize);
        (layout.shape.rows, layout.shape.cols).strides(strides)
    };
    let fits = "a case's buffers hold its layouts";
    let a = ndarray::ArrayView2::from_shape(shape(la), a).expect(fits);
    let b = ndarray::ArrayView2::from_shape(shape(lb), b).expect(fits);
    let mut c = ndarray::ArrayViewMut2::from_shape(shape(lc), c).expect(fits);
    ndarray::linalg::general_mat_mul(T::one(), &a, &b, T::zero(), &mut c);
}
