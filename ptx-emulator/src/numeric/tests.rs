//! Tests of the arithmetic against native operations, exact integers and definitions.

mod arithmetic;
mod conversion;
mod rounding;

use super::Rounding;

const MODES: [Rounding; 4] =
    [Rounding::NearestEven, Rounding::TowardZero, Rounding::Down, Rounding::Up];

/// Pseudo-random patterns (xorshift), the same in every run.
struct Patterns(u64);

impl Patterns {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// Mostly numbers of similar size, a few special ones and subnormals.
    fn f32(&mut self) -> u32 {
        const SPECIAL: [u32; 10] = [
            0,
            1,
            0x7f_ffff,
            0x80_0000,
            0x3f80_0000,
            0x7f7f_ffff,
            0x7f80_0000,
            0x7fc0_0001,
            0x0040_0000,
            0x3f80_0001,
        ];
        let r = self.next();
        let sign = (r >> 63) as u32 * 0x8000_0000;
        match r % 16 {
            0 => sign | SPECIAL[(r >> 32) as usize % 10],
            1 => r as u32,
            2 => sign | (r >> 20) as u32 & 0x00ff_ffff,
            // Few significant bits, so that ties and exact results occur.
            3..=6 => sign | (((r >> 32) as u32 % 40 + 107) << 23) | (r as u32 & 0x7f_f000),
            _ => sign | (((r >> 32) as u32 % 60 + 97) << 23) | (r as u32 & 0x7f_ffff),
        }
    }

    fn f64(&mut self) -> u64 {
        let r = self.next();
        let sign = r & 1 << 63;
        match r % 16 {
            0 => f64::from(f32::from_bits(self.f32())).to_bits(),
            1 => self.next(),
            2 => sign | self.next() >> 12,
            3..=5 => sign | ((self.next() % 80 + 983) << 52) | (self.next() & 0xf_ffff) << 32,
            _ => sign | ((self.next() % 120 + 963) << 52) | self.next() >> 12,
        }
    }

    fn u16(&mut self) -> u16 {
        self.next() as u16
    }
}
