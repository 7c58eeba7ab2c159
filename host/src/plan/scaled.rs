//! Products with scales for blocks of their operands.

use super::choose::check_launch;
use super::{Fusion, KernelChoice, Options, Product, Task, mappable};
use crate::device::DeviceInfo;
use crate::element::OutputOf;
use crate::error::{Error, Kind, Operand};
use fp8::F8E4M3;
use gemm_spec::{Kernel, Layout, Op, SCALE_BLOCK, ScaleParams, Shape};

/// A checked product whose operands have scales; transposes are in all layouts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ScaledProduct {
    pub product: Product,
    /// Scales of A: (m, blocks of K).
    pub a_scales: Layout,
    /// Scales of B: (blocks of K, blocks of n).
    pub b_scales: Layout,
}

/// Blocks of an extent.
fn blocks(extent: usize) -> usize {
    extent.div_ceil(SCALE_BLOCK)
}

impl ScaledProduct {
    /// Checks shapes; the layouts already fit their buffers. A matrix comes first, then its scales.
    pub(crate) fn new<C: OutputOf<F8E4M3>>(
        options: Options<C::Scalar>,
        (a, a_scales): (Layout, Layout),
        (b, b_scales): (Layout, Layout),
        c: Layout,
    ) -> Result<Self, Error> {
        let product = Product::new::<F8E4M3, C>(options, [a, b, c], Fusion::default())?;
        let of_a = match options.op_a {
            Op::None => Shape::new(a.shape.rows, blocks(a.shape.cols)),
            Op::Transpose => Shape::new(blocks(a.shape.rows), a.shape.cols),
        };
        let of_b = Shape::new(blocks(b.shape.rows), blocks(b.shape.cols));
        for (operand, matrix, scales, expected) in
            [(Operand::A, a, a_scales, of_a), (Operand::B, b, b_scales, of_b)]
        {
            if scales.shape != expected {
                let (matrix, scales) = (matrix.shape, scales.shape);
                return Err(Error::new(Kind::Scales { operand, matrix, scales, expected }));
            }
        }
        let a_scales = a_scales.apply(options.op_a);
        Ok(ScaledProduct { product, a_scales, b_scales: b_scales.apply(options.op_b) })
    }

    /// Where the scales lie, for a kernel.
    pub(crate) fn places(&self) -> ScaleParams {
        let (a, b) = (self.a_scales.strides, self.b_scales.strides);
        ScaleParams {
            a_row_stride: a.row as i64,
            a_k_stride: a.col as i64,
            b_k_stride: b.row as i64,
            b_col_stride: b.col as i64,
        }
    }
}

/// The kernel for a product whose C and K are not empty, and which of A and B have to be copied:
/// those that do not lie along K at multiples of 16 bytes from the device addresses `bases` on.
pub(crate) fn choose_scaled(
    choice: &KernelChoice,
    product: &Product,
    bases: [u64; 2],
    info: &DeviceInfo,
) -> Result<(&'static Kernel, [bool; 2]), Error> {
    let dtype = product.dtype;
    let kernels = || gemm_spec::scaled(dtype).map_or("none", |kernel| kernel.variant);
    let unknown = |name: &str| {
        Error::new(Kind::UnscaledKernel { name: name.into(), dtype, kernels: kernels() })
    };
    let kernel = gemm_spec::scaled(dtype).ok_or_else(|| unknown("auto"))?;
    match choice {
        KernelChoice::Named(name) if name != kernel.variant => return Err(unknown(name)),
        KernelChoice::Split { variant, .. } | KernelChoice::Planned { variant, .. } => {
            return Err(unknown(variant));
        }
        KernelChoice::Own(own) => return Err(unknown(own.kernel().name)),
        KernelChoice::Spec(spec) if spec != kernel => {
            return Err(Error::new(Kind::ForeignKernel { kernel: *spec }));
        }
        _ => {}
    }
    let operands = [&product.a, &product.b];
    let task = Task::of(product, bases);
    let copied = [0, 1].map(|i| !task.along_k[i] || !mappable(operands[i], dtype, bases[i]));
    check_launch(kernel, &Task { along_k: [true; 2], maps: true, ..task }, info)?;
    Ok((kernel, copied))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::tests::{hopper, product};
    use crate::{DType, Gemm};

    fn scaled(a: Layout, b: Layout) -> Product {
        Product { dtype: DType::F8E4M3, ..product(a, b) }
    }

    #[test]
    fn operands_that_do_not_lie_along_k_where_maps_reach_are_copied() {
        let copied = |a, b, bases| {
            choose_scaled(&KernelChoice::Auto, &scaled(a, b), bases, &hopper()).unwrap().1
        };
        let (rows, columns) = (Layout::row_major, Layout::col_major);
        let (square, odd) = (Shape::new(64, 64), Shape::new(63, 63));
        assert_eq!(copied(rows(square), columns(square), [0, 0]), [false, false]);
        assert_eq!(copied(columns(square), columns(square), [0, 0]), [true, false]);
        assert_eq!(copied(rows(square), rows(square), [0, 0]), [false, true]);
        assert_eq!(copied(rows(square), columns(square), [16, 8]), [false, true]);
        assert_eq!(copied(rows(odd), columns(odd), [0, 0]), [true, true]);
    }

    #[test]
    fn other_kernels_are_refused() {
        let (a, b) = (Layout::row_major(Shape::new(64, 64)), Layout::col_major(Shape::new(64, 64)));
        let choose = |choice| choose_scaled(&choice, &scaled(a, b), [0, 0], &hopper());
        let (kernel, _) = choose(KernelChoice::Auto).unwrap();
        assert_eq!(choose(KernelChoice::Spec(*kernel)).unwrap().0, kernel);
        assert_eq!(choose(kernel.variant.into()).unwrap().0, kernel);
        for other in ["k02_tiled_16", "k02_tiled_16/2"] {
            assert!(choose(other.into()).unwrap_err().to_string().contains(kernel.variant));
        }
        let other = *Kernel::find("k02_tiled_16", DType::F8E4M3).unwrap();
        let error = choose(KernelChoice::Spec(other)).unwrap_err().to_string();
        assert!(error.contains("not one of"), "{error}");
    }

    #[test]
    fn scales_lie_as_their_operands_are_taken() {
        let rows = |rows, cols| Layout::row_major(Shape::new(rows, cols));
        let places = |op_a, op_b, a, b| {
            let options = Gemm::<F8E4M3>::new().op_a(op_a).op_b(op_b).options();
            let c = rows(300, 500);
            ScaledProduct::new::<crate::bf16>(options, a, b, c).unwrap().places()
        };
        let (a, b) = ((rows(300, 200), rows(300, 2)), (rows(200, 500), rows(2, 4)));
        let of = |[a_row_stride, a_k_stride, b_k_stride, b_col_stride]: [i64; 4]| ScaleParams {
            a_row_stride,
            a_k_stride,
            b_k_stride,
            b_col_stride,
        };
        assert_eq!(places(Op::None, Op::None, a, b), of([2, 1, 4, 1]));
        let (a, b) = ((rows(200, 300), rows(2, 300)), (rows(500, 200), rows(4, 2)));
        assert_eq!(places(Op::Transpose, Op::Transpose, a, b), of([1, 300, 1, 2]));
    }
}
