//! A case: a small module of PTX, its input, what is expected, and how closely.

use super::oracle::Float;

/// How a result is compared with what is expected.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Bound {
    /// Bit for bit.
    Bits,
    /// Bit for bit, but any NaN is as good as another.
    BitsOrNan(Float),
    /// The expected words are the true values, as patterns of f64; zeros, infinities and NaNs must
    /// be met, other results lie within a relative or an absolute error.
    Within { float: Float, relative: f64, absolute: f64 },
}

/// One launch. The kernel is the module's only one and takes (u64 in, u64 out, u32 n).
#[derive(Clone, Debug)]
pub struct Case {
    /// The instruction, or what is tried.
    pub name: String,
    /// The module.
    pub ptx: String,
    pub blocks: u32,
    pub threads: u32,
    /// The parameter `n`.
    pub n: u32,
    pub input: Vec<u8>,
    /// In words of 8 bytes for every bound but [`Bound::Bits`], where bytes are bytes.
    pub expected: Vec<u8>,
    /// Bytes of a result in its word.
    pub width: usize,
    pub bound: Bound,
}

/// The kernel's name in every case.
pub const ENTRY: &str = "kernel";

/// Puts values in the places of a template's `$names`.
pub fn fill(template: &str, values: &[(&str, &str)]) -> String {
    values.iter().fold(template.to_owned(), |text, (name, value)| text.replace(name, value))
}

/// The types of operands, with the register that holds them.
pub fn register(of: &str) -> &'static str {
    match of {
        "f32" => "f32",
        "f64" => "f64",
        "u64" | "s64" | "b64" => "b64",
        "u32" | "s32" | "b32" | "f16x2" | "bf16x2" | "u16x2" | "s16x2" | "tf32" => "b32",
        "pred" => "pred",
        _ => "b16",
    }
}

/// A module in which thread i reads its operands from three slots of 8 bytes at in + 24 i, executes
/// one instruction and writes the result at out + 8 i. An operand that begins with a digit stands
/// as it is.
pub fn per_thread(instruction: &str, result: &str, operands: &[&str]) -> String {
    let (mut registers, mut loads) = (String::new(), String::new());
    let mut sources = Vec::new();
    for (i, operand) in operands.iter().enumerate() {
        if operand.starts_with(|first: char| first.is_ascii_digit()) {
            sources.push((*operand).to_owned());
            continue;
        }
        sources.push(format!("%s{i}"));
        let kind = register(operand);
        registers += &format!("    .reg .{kind} %s{i};\n");
        loads += &format!("    ld.global.{kind} %s{i}, [%rd3+{}];\n", 8 * i);
    }
    let kind = register(result);
    let store = if result == "pred" {
        "    selp.b32 %r5, 1, 0, %d;\n    st.global.b32 [%rd4], %r5;".to_owned()
    } else {
        format!("    st.global.{kind} [%rd4], %d;")
    };
    let values = [
        ("$instruction", instruction),
        ("$kind", kind),
        ("$registers", &registers),
        ("$loads", &loads),
        ("$sources", &sources.join(", ")),
        ("$store", &store),
    ];
    fill(include_str!("templates/thread.ptx"), &values)
}

impl Case {
    /// An instruction on values of its own in every thread.
    pub fn of_threads(
        instruction: &str,
        (result, operands): (&str, &[&str]),
        inputs: &[[u64; 3]],
        bound: Bound,
        expected: impl Fn([u64; 3]) -> u64,
    ) -> Case {
        let width = match register(result) {
            "b64" | "f64" => 8,
            "b16" => 2,
            _ => 4,
        };
        let expected = inputs.iter().flat_map(|&x| expected(x).to_le_bytes()).collect();
        Case {
            name: instruction.to_owned(),
            ptx: per_thread(instruction, result, operands),
            blocks: inputs.len().div_ceil(128) as u32,
            threads: 128,
            n: inputs.len() as u32,
            input: inputs.iter().flatten().flat_map(|x| x.to_le_bytes()).collect(),
            expected,
            width,
            bound,
        }
    }

    /// Bytes of the output buffer, which holds zeros before the launch.
    pub fn output_bytes(&self) -> usize {
        self.expected.len()
    }

    /// The bits of a word of the output that are the result.
    pub fn mask(&self) -> u64 {
        if self.width == 8 { u64::MAX } else { (1 << (8 * self.width)) - 1 }
    }

    /// The first difference, in words.
    pub fn difference(&self, output: &[u8]) -> Option<String> {
        assert_eq!(output.len(), self.expected.len());
        let words = output.chunks(8).zip(self.expected.chunks(8)).enumerate();
        for (i, (got, expected)) in words {
            let word = |bytes: &[u8]| {
                let mut word = [0; 8];
                word[..bytes.len()].copy_from_slice(bytes);
                u64::from_le_bytes(word)
            };
            let mask = self.mask();
            let (got, expected) = (word(got), word(expected));
            if !self.bound.admits(got & mask, expected, mask) {
                return Some(format!(
                    "{}: word {i} is {:#x}, expected {}; operands {}",
                    self.name,
                    got & mask,
                    self.bound.show(expected & self.bound.mask(mask)),
                    self.operands(i),
                ));
            }
        }
        None
    }

    /// The three operands of the thread that writes a word of the output.
    pub fn operands(&self, word: usize) -> String {
        let threads = self.n as usize;
        if self.input.len() != 24 * threads {
            return "of its tile".to_owned();
        }
        let thread = 8 * word / (self.expected.len() / threads);
        let slots = &self.input[24 * thread..24 * thread + 24];
        let words = slots.chunks(8).map(|slot| u64::from_le_bytes(slot.try_into().unwrap()));
        words.map(|word| format!("{word:#x} ")).collect()
    }
}

impl Bound {
    /// The bits of an expected word that count.
    fn mask(self, width: u64) -> u64 {
        if matches!(self, Bound::Within { .. }) { u64::MAX } else { width }
    }

    fn show(self, expected: u64) -> String {
        match self {
            Bound::Within { .. } => format!("about {:e}", f64::from_bits(expected)),
            _ => format!("{expected:#x}"),
        }
    }

    /// Whether a result is as good as what is expected; `mask` are the bits that count.
    pub fn admits(self, got: u64, expected: u64, mask: u64) -> bool {
        match self {
            Bound::Bits => got == expected & mask,
            Bound::BitsOrNan(float) => {
                let expected = expected & mask;
                let nan = |bits| float.value(bits).is_nan();
                got == expected || nan(got) && nan(expected)
            }
            Bound::Within { float, relative, absolute } => {
                let (got, expected) = (float.value(got), f64::from_bits(expected));
                if expected == 0.0 || !expected.is_finite() {
                    return got.to_bits() == expected.to_bits()
                        || got.is_nan() && expected.is_nan();
                }
                // A result may round to infinity when the true one is near the largest number.
                let error = (got - expected).abs();
                error <= relative * expected.abs() || error <= absolute
            }
        }
    }
}
