//! The bytes of a box on their way between a tensor and shared memory.
//!
//! PTX ISA, "Tensors" and `cp.async.bulk.tensor`. The box lies in shared memory row by row, the
//! first dimension fastest, and is swizzled by the absolute shared address.

use super::tensor_map::{Interleave, Swizzle, TensorMap};
use std::fmt;

/// What a load does to a run of shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoadRun {
    /// Copies bytes of the tensor.
    Copy {
        /// From here.
        global: u64,
        /// To here.
        shared: u32,
        /// So many.
        bytes: u32,
    },
    /// Fills what lies outside the tensor, by [`Fill::byte`](super::Fill::byte).
    Fill {
        /// From here on.
        shared: u32,
        /// So many.
        bytes: u32,
    },
}

/// A run that a store copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreRun {
    /// From here.
    pub shared: u32,
    /// To here.
    pub global: u64,
    /// So many bytes.
    pub bytes: u32,
}

/// A copy of a box that faults, or whose effect is not known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BoxError {
    /// The instruction's dimensions are not the map's.
    Rank {
        /// The map's.
        map: u32,
        /// The instruction's.
        instruction: u32,
    },
    /// The shared address is not a multiple of 128.
    Alignment(u32),
    /// The first coordinate times the element size is not a multiple of 16.
    FirstCoordinate {
        /// The coordinate.
        coordinate: i32,
        /// Bytes of an element.
        element: u32,
    },
    /// A store that starts before the tensor: an H100 faults.
    NegativeStore {
        /// The dimension.
        dimension: usize,
        /// The coordinate.
        coordinate: i32,
    },
    /// A store past rows whose bytes are no multiple of 16: an H100 writes whole chunks of 16
    /// bytes, past the row's end.
    PartialChunk {
        /// Bytes of the tensor's row.
        row: u64,
    },
    /// A map that is not emulated.
    Unsupported(&'static str),
}

impl fmt::Display for BoxError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rank { map, instruction } => {
                write!(f, "a copy of {instruction} dimensions with a tensor map of {map}")
            }
            Self::Alignment(address) => {
                write!(f, "a box at shared address {address:#x}, not a multiple of 128")
            }
            Self::FirstCoordinate { coordinate, element } => write!(
                f,
                "a box that starts at element {coordinate} of {element} bytes: not at a multiple \
                 of 16 bytes"
            ),
            Self::NegativeStore { dimension, coordinate } => write!(
                f,
                "a store of a box that starts at {coordinate} in dimension {dimension}, before \
                 the tensor"
            ),
            Self::PartialChunk { row } => write!(
                f,
                "a store of a box past the end of rows of {row} bytes: whole chunks of 16 bytes \
                 are written, past the row"
            ),
            Self::Unsupported(what) => write!(f, "{what}"),
        }
    }
}

impl std::error::Error for BoxError {}

/// A row of the box: where it starts in shared memory before the swizzle, and in the tensor unless
/// it lies outside.
struct Row {
    shared: u32,
    global: Option<u64>,
}

/// Bytes of shared memory that no block of any GPU has.
const MOST_SHARED: u32 = 1 << 20;

impl TensorMap {
    fn check_copy(&self, start: &[i32], shared: u32) -> Result<(), BoxError> {
        let (map, instruction) = (self.rank, start.len() as u32);
        if map != instruction {
            return Err(BoxError::Rank { map, instruction });
        }
        if !shared.is_multiple_of(128) {
            return Err(BoxError::Alignment(shared));
        }
        if self.box_bytes() > MOST_SHARED {
            return Err(BoxError::Unsupported("no block has as much shared memory as the box"));
        }
        if self.interleave != Interleave::None {
            return Err(BoxError::Unsupported("copies of interleaved tensors are not emulated"));
        }
        if self.element.is_converted() {
            let what = "copies that convert to TF32 or flush subnormals are not emulated";
            return Err(BoxError::Unsupported(what));
        }
        if self.swizzle != Swizzle::None && self.row_bytes() != self.swizzle.span() {
            let what = "swizzled boxes whose rows are shorter than the swizzle are not emulated";
            return Err(BoxError::Unsupported(what));
        }
        let (coordinate, element) = (start[0], self.element.bytes());
        if !(i64::from(coordinate) * i64::from(element)).unsigned_abs().is_multiple_of(16) {
            return Err(BoxError::FirstCoordinate { coordinate, element });
        }
        Ok(())
    }

    /// Visits the rows of the box that starts at `start`, in the order of shared memory.
    fn rows(&self, start: &[i32], shared: u32, mut visit: impl FnMut(Row)) {
        let rank = self.rank as usize;
        let row_bytes = self.row_bytes();
        let rows = self.box_bytes() / row_bytes;
        let mut index = [0u32; 5];
        for row in 0..rows {
            let mut global = Some(self.address);
            for dimension in 1..rank {
                let step = i64::from(index[dimension] * self.element_strides[dimension]);
                let at = i64::from(start[dimension]) + step;
                let inside = (0..self.sizes[dimension] as i64).contains(&at);
                let further = (at as u64).wrapping_mul(self.strides[dimension - 1]);
                global = global.filter(|_| inside).map(|base| base.wrapping_add(further));
            }
            visit(Row { shared: shared.wrapping_add(row * row_bytes), global });
            for (dimension, at) in index.iter_mut().enumerate().take(rank).skip(1) {
                *at += 1;
                if *at < self.copied(dimension) {
                    break;
                }
                *at = 0;
            }
        }
    }

    /// The bytes of a row of the box that lie inside the tensor, as offsets in the row.
    fn inside(&self, start: i32) -> (u32, u32) {
        let (element, bytes) = (i64::from(self.element.bytes()), i64::from(self.row_bytes()));
        let first = i64::from(start) * element;
        let low = (-first).clamp(0, bytes);
        let high = (self.sizes[0] as i64 * element - first).clamp(low, bytes);
        (low as u32, high as u32)
    }

    /// Cuts the bytes `from..to` of the row at `shared` into runs that the swizzle leaves whole.
    fn pieces(&self, shared: u32, from: u32, to: u32, mut visit: impl FnMut(u32, u32, u32)) {
        if self.swizzle == Swizzle::None {
            if from < to {
                visit(from, shared.wrapping_add(from), to - from);
            }
            return;
        }
        let mut at = from;
        while at < to {
            let end = (at / 16 * 16 + 16).min(to);
            visit(at, self.swizzle.apply(shared.wrapping_add(at)), end - at);
            at = end;
        }
    }

    /// A load of the box that starts at `start` to the shared address `shared`: what it does, and
    /// the bytes that it adds to the transactions of its barrier.
    pub fn load(
        &self,
        start: &[i32],
        shared: u32,
        mut visit: impl FnMut(LoadRun),
    ) -> Result<u32, BoxError> {
        self.check_copy(start, shared)?;
        let (low, high) = self.inside(start[0]);
        let first = (i64::from(start[0]) * i64::from(self.element.bytes())) as u64;
        let end = self.row_bytes();
        self.rows(start, shared, |row| {
            let (low, high) = if row.global.is_some() { (low, high) } else { (end, end) };
            let mut fill = |_, shared, bytes| visit(LoadRun::Fill { shared, bytes });
            self.pieces(row.shared, 0, low, &mut fill);
            self.pieces(row.shared, high, end, &mut fill);
            let base = row.global.unwrap_or(0).wrapping_add(first);
            self.pieces(row.shared, low, high, |offset, shared, bytes| {
                let global = base.wrapping_add(offset.into());
                visit(LoadRun::Copy { global, shared, bytes });
            });
        });
        Ok(self.box_bytes())
    }

    /// A store of the box at the shared address `shared` to where it starts at `start`: what lies
    /// inside the tensor. A reduction goes over the same bytes.
    pub fn store(
        &self,
        start: &[i32],
        shared: u32,
        mut visit: impl FnMut(StoreRun),
    ) -> Result<(), BoxError> {
        self.check_copy(start, shared)?;
        if let Some(dimension) = start.iter().position(|&coordinate| coordinate < 0) {
            let coordinate = start[dimension];
            return Err(BoxError::NegativeStore { dimension, coordinate });
        }
        let (low, high) = self.inside(start[0]);
        let row = self.sizes[0] * u64::from(self.element.bytes());
        if low < high && high < self.row_bytes() && !row.is_multiple_of(16) {
            return Err(BoxError::PartialChunk { row });
        }
        let first = start[0] as u64 * u64::from(self.element.bytes());
        self.rows(start, shared, |row| {
            let Some(global) = row.global else { return };
            let base = global.wrapping_add(first);
            self.pieces(row.shared, low, high, |offset, shared, bytes| {
                visit(StoreRun { shared, global: base.wrapping_add(offset.into()), bytes });
            });
        });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::tensor_map::TensorElement;
    use super::*;
    use std::collections::BTreeMap;

    /// Each element of the box on its own, from the definition.
    fn expected(map: &TensorMap, start: &[i32], shared: u32) -> BTreeMap<u32, Option<u64>> {
        let bytes = map.element.bytes();
        let extents: Vec<u32> = (0..start.len()).map(|d| map.copied(d)).collect();
        let count: u32 = extents.iter().product();
        let mut all = BTreeMap::new();
        for element in 0..count {
            let (mut rest, mut address, mut inside) = (element, map.address, true);
            for (d, extent) in extents.iter().enumerate() {
                let step = if d == 0 { 1 } else { map.element_strides[d] };
                let at = i64::from(start[d]) + i64::from(rest % extent * step);
                rest /= extent;
                inside &= at >= 0 && at < map.sizes[d] as i64;
                let stride = if d == 0 { bytes.into() } else { map.strides[d - 1] };
                address = address.wrapping_add((at as u64).wrapping_mul(stride));
            }
            for byte in 0..bytes {
                let place = map.swizzle.apply(shared + element * bytes + byte);
                all.insert(place, inside.then_some(address + u64::from(byte)));
            }
        }
        all
    }

    fn loaded(map: &TensorMap, start: &[i32], shared: u32) -> BTreeMap<u32, Option<u64>> {
        let mut all = BTreeMap::new();
        let bytes = map.load(start, shared, |run| match run {
            LoadRun::Copy { global, shared, bytes } => {
                for i in 0..bytes {
                    assert!(all.insert(shared + i, Some(global + u64::from(i))).is_none());
                }
            }
            LoadRun::Fill { shared, bytes } => {
                for i in 0..bytes {
                    assert!(all.insert(shared + i, None).is_none());
                }
            }
        });
        assert_eq!(bytes, Ok(all.len() as u32));
        all
    }

    fn maps() -> Vec<TensorMap> {
        let d2 = |element: TensorElement, swizzle: Swizzle| {
            let inner = swizzle.span().max(32) / element.bytes();
            let sizes = [u64::from(inner) * 3 - 8 / u64::from(element.bytes()), 11];
            let stride = (sizes[0] * u64::from(element.bytes())).next_multiple_of(16);
            TensorMap::new(element, 0x1_0000, &sizes, &[stride], &[inner, 8]).swizzled(swizzle)
        };
        let elements =
            [TensorElement::U8, TensorElement::F16, TensorElement::F32, TensorElement::F64];
        let mut maps = Vec::new();
        for element in elements {
            maps.extend(Swizzle::ALL.map(|swizzle| d2(element, swizzle)));
        }
        let sizes = [8, 5, 4, 3, 3];
        let strides = [32, 160, 640, 1920];
        let d5 = TensorMap::new(TensorElement::F32, 0x2000, &sizes, &strides, &[4, 3, 2, 2, 3]);
        maps.push(TensorMap { element_strides: [1, 2, 1, 2, 1], ..d5 });
        maps.push(TensorMap::new(TensorElement::U8, 0x100, &[100], &[], &[64]));
        maps
    }

    #[test]
    fn loads_do_what_the_definition_says() {
        for map in maps() {
            map.check().unwrap();
            let unit = (16 / map.element.bytes()) as i32;
            for first in [-3 * unit, -unit, 0, unit, 5 * unit, 100 * unit] {
                for other in [-9, -2, 0, 1, 7, 50] {
                    let mut start = vec![other; map.rank as usize];
                    start[0] = first;
                    let shared = 0x480;
                    assert_eq!(
                        loaded(&map, &start, shared),
                        expected(&map, &start, shared),
                        "{map:?} at {start:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn stores_are_clipped_loads() {
        for map in maps() {
            let map = TensorMap { sizes: map.sizes.map(|size| size.next_multiple_of(16)), ..map };
            let unit = (16 / map.element.bytes()) as i32;
            for first in [0, unit, 5 * unit, 100 * unit] {
                let mut start = vec![3; map.rank as usize];
                start[0] = first;
                let mut all = BTreeMap::new();
                let visit = |run: StoreRun| {
                    for i in 0..run.bytes {
                        all.insert(run.shared + i, Some(run.global + u64::from(i)));
                    }
                };
                map.store(&start, 0x400, visit).unwrap();
                let mut wanted = expected(&map, &start, 0x400);
                wanted.retain(|_, global| global.is_some());
                assert_eq!(all, wanted);
            }
        }
    }

    #[test]
    fn what_faults_is_named() {
        let map = TensorMap::new(TensorElement::F16, 0x1000, &[100, 50], &[208], &[64, 32]);
        let map = map.swizzled(Swizzle::B128);
        let load = |start: &[i32], shared| map.load(start, shared, |_| ()).unwrap_err();
        let store = |start: &[i32]| map.store(start, 0, |_| ()).unwrap_err();
        assert_eq!(load(&[0], 0), BoxError::Rank { map: 2, instruction: 1 });
        assert_eq!(load(&[0, 0], 64), BoxError::Alignment(64));
        assert_eq!(load(&[4, 0], 0), BoxError::FirstCoordinate { coordinate: 4, element: 2 });
        assert_eq!(store(&[0, -1]), BoxError::NegativeStore { dimension: 1, coordinate: -1 });
        assert_eq!(store(&[64, 0]), BoxError::PartialChunk { row: 200 });
        assert_eq!(map.store(&[0, 40], 0, |_| ()), Ok(()));
        let narrow = TensorMap { box_sizes: [32, 8, 1, 1, 1], ..map };
        assert!(matches!(narrow.load(&[0, 0], 0, |_| ()), Err(BoxError::Unsupported(_))));
    }
}
