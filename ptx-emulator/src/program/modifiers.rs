//! The modifiers of an instruction: each must be taken by somebody, or the instruction is not
//! supported.

use crate::error::Error;
use crate::syntax::ast::{self, Position, Type};

/// What stands after the opcode, and which of it has been understood.
pub(crate) struct Modifiers<'a> {
    instruction: &'a ast::Instruction,
    taken: u64,
}

impl<'a> Modifiers<'a> {
    pub fn new(instruction: &'a ast::Instruction) -> Modifiers<'a> {
        Modifiers { instruction, taken: 0 }
    }

    /// Where the instruction is written.
    pub fn at(&self) -> Position {
        self.instruction.at
    }

    /// The instruction's whole name: `mad.lo.s32`.
    pub fn name(&self) -> String {
        let words = self.instruction.modifiers.iter().map(|word| format!(".{word}"));
        format!("{}{}", self.instruction.opcode, words.collect::<String>())
    }

    /// The first modifier that nobody took and `wanted` maps to something.
    pub fn find<T>(&mut self, wanted: impl Fn(&str) -> Option<T>) -> Option<T> {
        for (i, word) in self.instruction.modifiers.iter().enumerate() {
            if self.taken >> i & 1 == 0
                && let Some(found) = wanted(word)
            {
                self.taken |= 1 << i;
                return Some(found);
            }
        }
        None
    }

    /// Takes one modifier, if it is there.
    pub fn flag(&mut self, word: &str) -> bool {
        self.find(|w| (w == word).then_some(())).is_some()
    }

    /// Takes all modifiers for which `wanted` holds.
    pub fn skip(&mut self, wanted: impl Fn(&str) -> bool) {
        while self.find(|word| wanted(word).then_some(())).is_some() {}
    }

    /// Takes the first of the words of a table, and gives what stands beside it.
    pub fn choose<T: Copy>(&mut self, table: &[(&str, T)]) -> Option<T> {
        self.find(|word| table.iter().find(|(name, _)| *name == word).map(|(_, value)| *value))
    }

    /// Takes the next type, if there is one.
    pub fn find_type(&mut self) -> Option<Type> {
        self.find(type_of)
    }

    /// Takes the next type.
    pub fn ty(&mut self) -> Result<Type, Error> {
        self.find_type().ok_or_else(|| self.invalid("a type is missing"))
    }

    /// Ends: what nobody took isn't supported.
    pub fn finish(&self) -> Result<(), Error> {
        let words = self.instruction.modifiers.iter().enumerate();
        match words.into_iter().find(|(i, _)| self.taken >> i & 1 == 0) {
            Some((_, word)) => Err(self.unsupported(&format!("modifier .{word}"))),
            None => Ok(()),
        }
    }

    /// The error of something in this instruction that the emulator doesn't know.
    pub fn unsupported(&self, what: &str) -> Error {
        Error::unsupported(self.at(), format!("{what} of {}", self.name()))
    }

    /// The error of something in this instruction that PTX doesn't allow.
    pub fn invalid(&self, what: &str) -> Error {
        Error::invalid(self.at(), format!("{}: {what}", self.name()))
    }
}

/// The type of a name.
pub(crate) fn type_of(word: &str) -> Option<Type> {
    Some(match word {
        "pred" => Type::Pred,
        "b8" => Type::B8,
        "b16" => Type::B16,
        "b32" => Type::B32,
        "b64" => Type::B64,
        "b128" => Type::B128,
        "u8" => Type::U8,
        "u16" => Type::U16,
        "u32" => Type::U32,
        "u64" => Type::U64,
        "s8" => Type::S8,
        "s16" => Type::S16,
        "s32" => Type::S32,
        "s64" => Type::S64,
        "f16" => Type::F16,
        "f16x2" => Type::F16x2,
        "bf16" => Type::Bf16,
        "bf16x2" => Type::Bf16x2,
        "f32" => Type::F32,
        "f64" => Type::F64,
        _ => return None,
    })
}

/// Bits of a type; 1 of a predicate.
pub(crate) fn bits(ty: Type) -> u32 {
    match ty {
        Type::Pred => 1,
        Type::B8 | Type::U8 | Type::S8 => 8,
        Type::B16 | Type::U16 | Type::S16 | Type::F16 | Type::Bf16 => 16,
        Type::B32 | Type::U32 | Type::S32 | Type::F32 | Type::F16x2 | Type::Bf16x2 => 32,
        Type::B64 | Type::U64 | Type::S64 | Type::F64 => 64,
        Type::B128 => 128,
        Type::Texref | Type::Samplerref | Type::Surfref => 64,
    }
}

/// Whether numbers of the type have a sign.
pub(crate) fn is_signed(ty: Type) -> bool {
    matches!(ty, Type::S8 | Type::S16 | Type::S32 | Type::S64)
}

/// Whether the type is one of floating-point numbers.
pub(crate) fn is_float(ty: Type) -> bool {
    use Type::*;
    matches!(ty, F16 | F16x2 | Bf16 | Bf16x2 | F32 | F64)
}
