//! Parameter blocks, as bytes.

use super::{Addresses, address};
use crate::element::Scalar;
use crate::plan::{Factor, Fusion, Product, SOURCES};
use bytemuck::bytes_of;
use gemm_spec::order::TileOrder;
use gemm_spec::{EpilogueParams, GemmParams, Launch, Slices, Source};
use std::borrow::Cow;
use std::mem::offset_of;

/// Words of the largest block.
const WORDS: usize = size_of::<GemmParams<f64>>() / size_of::<u64>();

/// The bytes of a parameter block, with zeros between its fields.
#[derive(Clone, Debug)]
pub(super) struct Block {
    words: [u64; WORDS],
    len: usize,
    /// Whether an epilogue has each of its sources, and an amax.
    has: [bool; SOURCES + 1],
}

impl Block {
    /// The block of a launch, for an epilogue's data from address 0 on. Its fields lie at the same
    /// places for factors of the same size, which those of i32 and f32 are.
    pub fn of(product: &Product, launch: &Launch, of: (Slices, TileOrder)) -> Block {
        let block = match product.alpha {
            Factor::I32(_) => Block::new(&params::<i32>(product, launch, of)),
            Factor::F32(_) => Block::new(&params::<f32>(product, launch, of)),
            Factor::F64(_) => Block::new(&params::<f64>(product, launch, of)),
        };
        let Fusion { sources: [bias, residual, rows, cols], amax, .. } = &product.fusion;
        let has =
            [bias.is_some(), residual.is_some(), rows.is_some(), cols.is_some(), amax.is_some()];
        Block { has, ..block }
    }

    /// The same for data from these addresses on.
    pub fn at(&self, addresses: &Addresses) -> Cow<'_, Block> {
        let mut block = Cow::Borrowed(self);
        if self.has == [false; SOURCES + 1] {
            return block;
        }
        let Addresses { sources, amax, .. } = addresses;
        let bases = sources.iter().chain([amax]).zip(self.places()).zip(self.has);
        for ((base, at), _) in bases.filter(|(_, has)| *has) {
            let first = self.words[at / size_of::<u64>()].wrapping_add(base.unwrap_or(0));
            block.to_mut().put(at, bytes_of(&first));
        }
        block
    }

    /// Where the addresses of an epilogue's sources and of its amax lie.
    fn places(&self) -> [usize; SOURCES + 1] {
        let of_epilogue = match self.len == size_of::<GemmParams<f64>>() {
            true => offset_of!(GemmParams<f64>, epilogue),
            false => offset_of!(GemmParams<f32>, epilogue),
        };
        [
            offset_of!(EpilogueParams, bias),
            offset_of!(EpilogueParams, residual),
            offset_of!(EpilogueParams, row_scale),
            offset_of!(EpilogueParams, col_scale),
            offset_of!(EpilogueParams, amax),
        ]
        .map(|field| of_epilogue + field)
    }

    fn new<S: Scalar>(params: &GemmParams<S>) -> Block {
        let (len, has) = (size_of::<GemmParams<S>>(), [false; SOURCES + 1]);
        let mut block = Block { words: [0; WORDS], len, has };
        macro_rules! put {
            ($($field:ident)*) => {$(
                block.put(offset_of!(GemmParams<S>, $field), bytes_of(&params.$field));
            )*};
        }
        put!(m n k a_row_stride a_col_stride b_row_stride b_col_stride c_row_stride c_col_stride);
        put!(alpha beta reads_c output reads writes);
        macro_rules! put_slices {
            ($($field:ident)*) => {$(
                let at = offset_of!(GemmParams<S>, slices) + offset_of!(Slices, $field);
                block.put(at, bytes_of(&params.slices.$field));
            )*};
        }
        put_slices!(last_k a b c count map_k map_batch tile_cols);
        block.put(offset_of!(GemmParams<S>, order), bytes_of(&params.order.words()));
        block.put_epilogue(offset_of!(GemmParams<S>, epilogue), &params.epilogue);
        block
    }

    fn put_epilogue(&mut self, at: usize, epilogue: &EpilogueParams) {
        macro_rules! put {
            ($($field:ident)*) => {$(
                self.put(at + offset_of!(EpilogueParams, $field), bytes_of(&epilogue.$field));
            )*};
        }
        put!(amax activation gated);
        macro_rules! put_sources {
            ($($field:ident)*) => {$(
                let Source { address, row_stride, col_stride } = epilogue.$field;
                let words = [address, row_stride as u64, col_stride as u64];
                self.put(at + offset_of!(EpilogueParams, $field), bytes_of(&words));
            )*};
        }
        put_sources!(bias residual row_scale col_scale);
    }

    fn put(&mut self, at: usize, field: &[u8]) {
        let bytes: &mut [u8] = bytemuck::cast_slice_mut(&mut self.words);
        bytes[at..][..field.len()].copy_from_slice(field);
    }

    pub fn bytes(&self) -> &[u8] {
        &bytemuck::cast_slice(&self.words)[..self.len]
    }
}

/// The parameter block of one launch, whose C is a panel.
fn params<S: Scalar>(
    product: &Product,
    launch: &Launch,
    (slices, order): (Slices, TileOrder),
) -> GemmParams<S> {
    let strides = [product.a, product.b, product.c].map(|layout| layout.strides);
    let beta = product.beta.map(Factor::get);
    GemmParams::new(launch.shape, product.k, strides, product.alpha.get(), beta, S::ZERO)
        .output(product.output)
        .reads(product.reads)
        .writes(product.writes)
        .slices(slices)
        .order(order)
        .epilogue(epilogue(product, launch))
}

/// The epilogue of one launch, with its data from address 0 on.
fn epilogue(product: &Product, launch: &Launch) -> EpilogueParams {
    let fusion = &product.fusion;
    if fusion.is_none() {
        return EpilogueParams::default();
    }
    let (row, col) = launch.start;
    let dtypes = Fusion::dtypes(product.output);
    let source = |i: usize| {
        let Some(layout) = fusion.sources[i] else { return Source::default() };
        // The residual has C's shape, the others have that of the sums.
        let col = if i == 1 { fusion.cols_of_c(col) } else { col };
        Source {
            address: address(0, dtypes[i], &layout, row, col),
            row_stride: layout.strides.row as i64,
            col_stride: layout.strides.col as i64,
        }
    };
    EpilogueParams {
        bias: source(0),
        residual: source(1),
        row_scale: source(2),
        col_scale: source(3),
        amax: 4 * fusion.amax.unwrap_or(0) as u64,
        activation: fusion.activation as u32,
        gated: u32::from(fusion.gated),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gemm_spec::{Activation, DType, Reads, Shape, Strides, Writes};

    #[test]
    fn blocks_have_every_field() {
        fn check<S: Scalar>(alpha: S, beta: S) {
            let strides = [(-1, 2), (3, -4), (5, 6)].map(|(row, col)| Strides::new(row, col));
            let source = |i| Source { address: i, row_stride: -8, col_stride: 9 };
            let epilogue = EpilogueParams {
                bias: source(10),
                residual: source(20),
                row_scale: source(30),
                col_scale: source(40),
                amax: 50,
                activation: Activation::Silu as u32,
                gated: 1,
            };
            let params = GemmParams::new(Shape::new(1, 2), 3, strides, alpha, Some(beta), S::ZERO)
                .output(DType::BF16)
                .reads(Reads::AtOnce)
                .writes(Writes::FirstOut)
                .slices(Slices {
                    last_k: 51,
                    a: -52,
                    b: 53,
                    c: 54,
                    count: 55,
                    map_k: 56,
                    map_batch: 57,
                    tile_cols: 58,
                })
                .epilogue(epilogue);
            let block = Block::new(&params);
            assert_eq!(block.bytes().len(), size_of_val(&params));
            // SAFETY: the block has the struct's size and alignment and holds all of its fields.
            let read = unsafe { block.words.as_ptr().cast::<GemmParams<S>>().read() };
            assert_eq!(read, params);
        }
        check(7, -8);
        check(0.5f32, -1.5);
        check(0.25f64, -2.5);
    }
}
