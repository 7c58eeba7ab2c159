//! The operands of a launch.

use super::tiles::Place;
use crate::Element;
use cuda_std::tma::{self, TensorMap};
use gemm_spec::GemmParams;

/// The operands of a launch.
#[derive(Clone)]
pub struct Operands<T: Element> {
    /// The maps of A, B and C, or null where they have none; C's is used where `write::write` says
    /// so.
    pub maps: [*const TensorMap<3>; 3],
    /// C's first element.
    pub start: *mut T::Output,
}

impl<T: Element> Operands<T> {
    /// With the C of the slice that a tile is of.
    #[inline(always)]
    pub fn of_slice(&self, p: &GemmParams<T::Sum>, at: Place) -> Self {
        let further = i64::from(at.slice) * p.slices.c;
        Operands { start: self.start.wrapping_byte_offset(further as isize), ..*self }
    }

    /// Has the maps brought near, for the first copies not to wait for them.
    ///
    /// # Safety
    /// There are maps.
    #[inline(always)]
    pub unsafe fn prefetch_maps(&self) {
        let [a, b, c] = self.maps;
        // SAFETY: the caller's promise.
        unsafe {
            tma::prefetch_map(&*a);
            tma::prefetch_map(&*b);
            tma::prefetch_map(&*c);
        }
    }
}
