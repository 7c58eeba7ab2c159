//! Operands: special values in all combinations, and pseudo-random ones, the same in every run.

use super::oracle::Float;

/// Pseudo-random patterns (xorshift).
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        (self.next() >> 11) % bound
    }
}

/// Zeros, ends of the ranges, ones, ties, infinities, NaNs.
pub fn special(float: Float) -> Vec<u64> {
    let (sign, infinity) = (float.sign_bit(), float.infinity());
    let (one, unit) = match float {
        Float::F16 => (0x3c00, 0x400),
        Float::Bf16 => (0x3f80, 0x80),
        Float::F32 | Float::Tf32 => (0x3f80_0000, 0x80_0000),
        Float::F64 => (0x3ff0 << 48, 1 << 52),
        Float::E4m3 => (0x38, 0x8),
        Float::E5m2 => (0x3c, 0x4),
    };
    let positive = [
        0,
        1,
        unit - 1,
        unit,
        unit + 1,
        one - 1,
        one,
        one + 1,
        one + unit / 2,
        one + unit,
        one + 2 * unit + unit / 2,
        one - 3 * unit + unit / 4,
        infinity - 1,
        infinity,
        infinity + unit / 2 + 1,
    ];
    positive.iter().flat_map(|&bits| [bits, bits | sign]).collect()
}

/// A number of moderate size, with few significant bits now and then.
pub fn moderate(float: Float, random: &mut Random) -> u64 {
    let bits = random.next();
    let sign = if bits & 1 == 1 { float.sign_bit() } else { 0 };
    let (bias, fraction, spread) = match float {
        Float::F16 => (15, 10, 8),
        Float::Bf16 => (127, 7, 12),
        Float::F64 => (1023, 52, 60),
        Float::E4m3 => (7, 3, 4),
        Float::E5m2 => (15, 2, 8),
        Float::F32 | Float::Tf32 => (127, 23, 30),
    };
    let exponent = bias - spread / 2 + random.below(spread);
    let mut below = bits >> 1 & ((1 << fraction) - 1);
    if bits >> 62 == 0 {
        below &= !0 << (fraction / 2);
    }
    sign | exponent << fraction | below
}

/// Operands of one float type.
pub fn floats(float: Float, count: usize) -> Vec<[u64; 3]> {
    let (special, mut random) = (special(float), Random(0x2545_f491_4f6c_dd1d));
    let mut inputs = Vec::new();
    let any = |random: &mut Random| special[random.below(special.len() as u64) as usize];
    match count {
        1 => inputs.extend(special.iter().map(|&a| [a, 0, 0])),
        2 => {
            for &a in &special {
                inputs.extend(special.iter().map(|&b| [a, b, 0]));
            }
        }
        _ => inputs.extend((0..1000).map(|_| [(); 3].map(|()| any(&mut random)))),
    }
    for _ in 0..500 {
        inputs.push([(); 3].map(|()| moderate(float, &mut random)));
    }
    // Exact cancellation, and nearly.
    for _ in 0..60 {
        let [a, c] = [(); 2].map(|()| moderate(float, &mut random));
        let near = (a ^ float.sign_bit()).wrapping_add(random.below(3));
        inputs.push(if count == 3 { [a, c, any(&mut random)] } else { [a, near, 0] });
    }
    // Products that nearly cancel.
    if count == 3 && float == Float::F32 {
        for _ in 0..100 {
            let [a, b] = [(); 2].map(|()| moderate(float, &mut random));
            let product = f32::from_bits(a as u32) * f32::from_bits(b as u32);
            inputs.push([a, b, (-product).to_bits().into()]);
        }
    }
    inputs
}

/// Operands of an integer type: near every power of two, and random; the bits above the type's are
/// not zero.
pub fn integers() -> Vec<[u64; 3]> {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let mut inputs = vec![[0; 3]];
    for bit in 0..64 {
        for x in [1u64 << bit, (1 << bit) - 1, (1 << bit) + 1, !0 << bit, (!0 << bit) - 1] {
            inputs.push([x, 0, 0]);
        }
        // Ties of roundings to every format.
        for half in [3u64, 5, 0x801, 0x803, 0x101, 0x103, 0x0100_0001, 0x0100_0003] {
            inputs.push([half.rotate_left(bit), 0, 0]);
            inputs.push([half.rotate_left(bit).wrapping_neg(), 0, 0]);
        }
    }
    inputs.extend((0..200).map(|_| [random.next() >> random.below(64), 0, 0]));
    inputs
}
