//! Which sources an epilogue takes, and how they are repeated.

use super::*;

fn sources(shapes: [(usize, usize); SOURCES]) -> Fusion {
    let of = |(rows, cols)| Some(Layout::row_major(Shape::new(rows, cols)));
    Fusion { sources: shapes.map(of), ..Fusion::default() }
}

#[test]
fn sources_are_repeated_to_the_sums_and_the_residual_to_c() {
    let sums = Shape::new(3, 4);
    let lies = |fusion: Fusion| fusion.sources.map(|of| of.map(|of| (of.shape, of.strides)));
    let repeated = |rows, cols| Some((sums, Strides::new(rows, cols)));
    let spread = sources([(1, 4), (3, 4), (3, 1), (1, 4)]).spread(sums).unwrap();
    assert_eq!(lies(spread), [repeated(0, 1), repeated(4, 1), repeated(1, 0), repeated(0, 1)]);
    let spread = sources([(3, 1), (1, 1), (1, 1), (1, 1)]).spread(sums).unwrap();
    assert_eq!(lies(spread)[..2], [repeated(1, 0), repeated(0, 0)]);
    let gated = Fusion { gated: true, ..sources([(1, 4), (3, 2), (3, 1), (1, 4)]) };
    let c = (Shape::new(3, 2), Strides::new(2, 1));
    assert_eq!(lies(gated.spread(sums).unwrap())[..2], [repeated(0, 1), Some(c)]);
    assert!(gated.spread(Shape::new(3, 5)).unwrap_err().to_string().contains("3x5"));
    // Rows and columns change places, with their factors.
    let of = sources([(1, 4), (3, 4), (3, 1), (1, 4)]).spread(sums).unwrap().transposed();
    let turned = |rows, cols| Some((sums.transposed(), Strides::new(rows, cols)));
    assert_eq!(lies(of), [turned(1, 0), turned(1, 4), turned(1, 0), turned(0, 1)]);
}

#[test]
fn sources_that_do_not_fit_are_told_the_shape_that_would() {
    let sums = Shape::new(30, 40);
    let error = |i: usize, (rows, cols)| {
        let mut fusion = Fusion::default();
        fusion.sources[i] = Some(Layout::row_major(Shape::new(rows, cols)));
        fusion.spread(sums).unwrap_err()
    };
    for (i, wanted) in ["30x40", "30x40", "30x1", "1x40"].into_iter().enumerate() {
        for shape in [(7, 9), (30, 9), (7, 40), (31, 1), (1, 41)] {
            let error = error(i, shape);
            assert!(error.is_shape() && error.to_string().contains(wanted), "{error}");
        }
    }
    // Factors are one column or one row, and not all of it.
    assert!(error(2, (30, 40)).is_shape() && error(3, (30, 40)).is_shape());
}
