//! Test: tiles that a tensor map's boxes put into shared memory are found through descriptors.

use super::*;
use std::collections::HashMap;

/// Shared memory as the global address of each byte.
#[derive(Default)]
struct Shared(HashMap<u32, u64>);

impl Shared {
    fn load(&mut self, map: &TensorMap, start: [i32; 2], to: u32) {
        let visit = |run: LoadRun| match run {
            LoadRun::Copy { global, shared, bytes } => {
                self.0.extend((0..bytes).map(|i| (shared + i, global + u64::from(i))));
            }
            LoadRun::Fill { .. } => panic!("the tile lies inside"),
        };
        map.load(&start, to, visit).unwrap();
    }
}

/// The bytes of a tile's rows: those of M (or N) and K, or of K and M, contiguous ones first.
struct Case {
    element: TensorElement,
    swizzle: Swizzle,
    major: Major,
    outer: u32,
    start: u32,
}

/// Bytes of K.
const DEPTH_BYTES: u32 = 256;

impl Case {
    fn run(&self) {
        let bytes = self.element.bytes();
        let span = self.swizzle.span();
        let per_row = span / bytes;
        let tile_depth = DEPTH_BYTES / bytes;
        let (inner, rows) = match self.major {
            Major::K => (tile_depth, self.outer),
            Major::Mn => (self.outer, tile_depth),
        };
        let row_bytes = u64::from(inner * bytes);
        let sizes = [u64::from(inner), u64::from(rows)];
        let map = TensorMap::new(self.element, 0x10_0000, &sizes, &[row_bytes], &[per_row, rows]);
        let map = map.swizzled(self.swizzle);
        map.check().unwrap();
        let mut shared = Shared::default();
        let column = rows * span;
        for i in 0..inner / per_row {
            shared.load(&map, [(i * per_row) as i32, 0], self.start + i * column);
        }
        // An instruction takes 32 bytes of K.
        let depth = 32 / bytes;
        let shape = OperandShape { outer: self.outer, depth, element: bytes, major: self.major };
        for k in (0..tile_depth).step_by(depth as usize) {
            let descriptor = MatrixDescriptor::decode(self.descriptor(k, column)).unwrap();
            descriptor.check(&shape).unwrap();
            for outer in 0..self.outer {
                for j in 0..depth {
                    let place = descriptor.address(outer, j, &shape);
                    let at = match self.major {
                        Major::K => u64::from(outer) * row_bytes + u64::from((k + j) * bytes),
                        Major::Mn => u64::from(k + j) * row_bytes + u64::from(outer * bytes),
                    };
                    assert_eq!(shared.0[&place], 0x10_0000 + at);
                }
            }
        }
    }

    /// The descriptor of the operand from `k` on, whose boxes are `column` bytes apart.
    fn descriptor(&self, k: u32, column: u32) -> u64 {
        let (bytes, span) = (self.element.bytes(), self.swizzle.span());
        let (start, leading, stride) = match (self.major, self.swizzle) {
            // A column of core matrices in each box.
            (Major::K, Swizzle::None) => (k * bytes / span * column, column, 128),
            (Major::K, _) => (k * bytes / span * column + k * bytes % span, 16, 8 * span),
            (Major::Mn, Swizzle::None) => (k * span, 128, column),
            (Major::Mn, _) => (k * span, column, 8 * span),
        };
        let start = self.start + start;
        MatrixDescriptor { start, leading, stride, swizzle: self.swizzle }.encode()
    }
}

#[test]
fn descriptors_find_what_boxes_brought() {
    for swizzle in Swizzle::ALL {
        for outer in [64, 128, 256] {
            for start in [0, 8192] {
                for element in [TensorElement::U8, TensorElement::F16, TensorElement::F32] {
                    Case { element, swizzle, major: Major::K, outer, start }.run();
                }
                let element = TensorElement::Bf16;
                Case { element, swizzle, major: Major::Mn, outer, start }.run();
            }
        }
    }
}
