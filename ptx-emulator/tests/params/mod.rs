//! Parameter blocks of this repository's kernels, as bytes.

use gemm_spec::{GemmParams, Slices};

/// The bytes of a parameter block without an epilogue, as `repr(C)` lays it out.
pub fn bytes<S: Scalar>(params: GemmParams<S>) -> Vec<u8> {
    assert!(params.epilogue.is_none());
    let GemmParams { m, n, k, .. } = params;
    let mut bytes: Vec<u8> = [m, n, k].iter().flat_map(|extent| extent.to_le_bytes()).collect();
    for stride in [
        params.a_row_stride,
        params.a_col_stride,
        params.b_row_stride,
        params.b_col_stride,
        params.c_row_stride,
        params.c_col_stride,
    ] {
        bytes.extend(stride.to_le_bytes());
    }
    bytes.extend(params.alpha.bytes());
    bytes.extend(params.beta.bytes());
    let words = [params.reads_c, params.output, params.reads, params.writes];
    bytes.extend(words.iter().flat_map(|word| word.to_le_bytes()));
    let Slices { last_k, a, b, c, count, map_k, map_batch, tile_cols } = params.slices;
    bytes.extend(last_k.to_le_bytes());
    bytes.extend([a, b, c].iter().flat_map(|step| step.to_le_bytes()));
    bytes.extend([count, map_k, map_batch, tile_cols].iter().flat_map(|word| word.to_le_bytes()));
    bytes.extend(params.order.words().iter().flat_map(|word| word.to_le_bytes()));
    bytes.resize(size_of::<GemmParams<S>>(), 0);
    bytes
}

/// A type of alpha and beta.
pub trait Scalar {
    /// Its bytes.
    fn bytes(&self) -> Vec<u8>;
}

macro_rules! scalar {
    ($($number:ty),*) => {$(
        impl Scalar for $number {
            fn bytes(&self) -> Vec<u8> {
                self.to_le_bytes().to_vec()
            }
        }
    )*};
}
scalar!(i32, f32, f64);
