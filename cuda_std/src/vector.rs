//! Vectors of indices and extents.

/// Two `u32`s.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct UVec2 {
    /// Along x.
    pub x: u32,
    /// Along y.
    pub y: u32,
}

impl UVec2 {
    /// The vector (x, y).
    #[inline(always)]
    pub const fn new(x: u32, y: u32) -> Self {
        UVec2 { x, y }
    }
}

/// Three `u32`s.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct UVec3 {
    /// Along x.
    pub x: u32,
    /// Along y.
    pub y: u32,
    /// Along z.
    pub z: u32,
}

impl UVec3 {
    /// The vector (x, y, z).
    #[inline(always)]
    pub const fn new(x: u32, y: u32, z: u32) -> Self {
        UVec3 { x, y, z }
    }

    /// x * y * z, modulo 2^32.
    #[inline(always)]
    pub const fn element_product(self) -> u32 {
        self.x.wrapping_mul(self.y).wrapping_mul(self.z)
    }
}
