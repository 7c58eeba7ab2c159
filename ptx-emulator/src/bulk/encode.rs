//! Tensor maps as 128 bytes, in a format of our own.
//!
//! The driver's format is not published; programs only pass the bytes on. Ours has a magic number
//! and a checksum, so that bytes of another origin are told from a map.

use super::tensor_map::{
    Fill, Interleave, Promotion, Swizzle, TensorElement, TensorMap, TensorMapError,
};
use std::fmt;

const MAGIC: u64 = u64::from_le_bytes(*b"PTXEMUTM");
const VERSION: u64 = 1;

/// Bytes that are no tensor map of this emulator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotATensorMap {
    /// All zero: nothing has been written there.
    Blank,
    /// Not written by [`TensorMap::encode`].
    Foreign,
    /// Written by it and changed since, or by another version.
    Damaged,
}

impl fmt::Display for NotATensorMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Blank => "not a tensor map: 128 zero bytes",
            Self::Foreign => "not a tensor map: the emulator's encode function did not make it",
            Self::Damaged => "not a tensor map: its bytes have changed since it was made",
        })
    }
}

impl std::error::Error for NotATensorMap {}

/// FNV-1a over words.
fn checksum(words: &[u64]) -> u64 {
    let step = |sum: u64, &word: &u64| (sum ^ word).wrapping_mul(0x100_0000_01b3);
    words.iter().fold(0xcbf2_9ce4_8422_2325, step)
}

impl TensorMap {
    /// Checks the rules and makes the 128 bytes; they have to lie at a multiple of 64.
    pub fn encode(&self) -> Result<[u64; 16], TensorMapError> {
        self.check()?;
        let mut words = [0; 16];
        let bytes = [
            VERSION as u8,
            self.element as u8,
            self.rank as u8,
            self.interleave as u8,
            self.swizzle as u8,
            self.promotion as u8,
            self.fill as u8,
            0,
        ];
        (words[0], words[1], words[2]) = (MAGIC, u64::from_le_bytes(bytes), self.address);
        words[3..8].copy_from_slice(&self.sizes);
        words[8..12].copy_from_slice(&self.strides);
        let packed = |values: [u32; 5], bits: u32| -> u64 {
            (0..5).map(|i| u64::from(values[i]) << (bits * i as u32)).sum()
        };
        words[12] = packed(self.box_sizes, 10);
        words[13] = packed(self.element_strides, 10);
        words[15] = checksum(&words[..15]);
        Ok(words)
    }

    /// The map that the bytes are.
    pub fn decode(words: &[u64; 16]) -> Result<Self, NotATensorMap> {
        if *words == [0; 16] {
            return Err(NotATensorMap::Blank);
        }
        if words[0] != MAGIC {
            return Err(NotATensorMap::Foreign);
        }
        let [version, element, rank, interleave, swizzle, promotion, fill, _] =
            words[1].to_le_bytes();
        if words[15] != checksum(&words[..15]) || u64::from(version) != VERSION {
            return Err(NotATensorMap::Damaged);
        }
        let pick = |index: u8, count: usize| match usize::from(index) {
            index if index < count => Ok(index),
            _ => Err(NotATensorMap::Damaged),
        };
        let unpacked = |word: u64| std::array::from_fn(|i| (word >> (10 * i) & 0x3ff) as u32);
        let map = TensorMap {
            element: TensorElement::ALL[pick(element, 13)?],
            rank: rank.into(),
            address: words[2],
            sizes: std::array::from_fn(|i| words[3 + i]),
            strides: std::array::from_fn(|i| words[8 + i]),
            box_sizes: unpacked(words[12]),
            element_strides: unpacked(words[13]),
            interleave: [Interleave::None, Interleave::B16, Interleave::B32][pick(interleave, 3)?],
            swizzle: Swizzle::ALL[pick(swizzle, 4)?],
            promotion: [Promotion::None, Promotion::B64, Promotion::B128, Promotion::B256]
                [pick(promotion, 4)?],
            fill: [Fill::Zero, Fill::Nan][pick(fill, 2)?],
        };
        map.check().map_err(|_| NotATensorMap::Damaged)?;
        Ok(map)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_come_back() {
        let sizes = [1 << 32, 7, 5, 3, 2];
        let strides = [1 << 35, 16, (1 << 40) - 16, 32];
        let map = TensorMap {
            element_strides: [1, 2, 3, 4, 8],
            promotion: Promotion::B256,
            fill: Fill::Nan,
            swizzle: Swizzle::B128,
            ..TensorMap::new(TensorElement::Bf16, 1 << 63, &sizes, &strides, &[64, 256, 1, 2, 3])
        };
        assert_eq!(TensorMap::decode(&map.encode().unwrap()), Ok(map));
        for element in TensorElement::ALL {
            let map = TensorMap::new(element, 16, &[16], &[], &[16]);
            assert_eq!(TensorMap::decode(&map.encode().unwrap()), Ok(map));
        }
    }

    #[test]
    fn other_bytes_are_no_maps() {
        let map = TensorMap::new(TensorElement::U8, 16, &[16], &[], &[16]);
        let words = map.encode().unwrap();
        assert_eq!(TensorMap::decode(&[0; 16]), Err(NotATensorMap::Blank));
        assert_eq!(TensorMap::decode(&[1; 16]), Err(NotATensorMap::Foreign));
        for word in 1..16 {
            let mut damaged = words;
            damaged[word] ^= 1 << word;
            assert_eq!(TensorMap::decode(&damaged), Err(NotATensorMap::Damaged));
        }
    }
}
