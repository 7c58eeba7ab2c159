//! Tests of layouts and arithmetic; [`reference`] is the model written another way.

mod arithmetic;
mod fragments;
mod reference;

/// Pseudo-random numbers (xorshift), the same in every run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// Less than `bound`.
    fn below(&mut self, bound: u64) -> u64 {
        (self.next() >> 11) % bound
    }
}
