//! Epilogues on the CPU, in f32 as on a GPU.

use crate::backend::HostOperands;
use crate::element::Element;
use crate::plan::{Fusion, Product};
use gemm_spec::Activation;
use std::sync::atomic::{AtomicI32, Ordering};

/// What is done with the sums of a product.
#[derive(Clone, Copy)]
pub(super) struct Finish<'a, C> {
    fusion: &'a Fusion,
    /// Bias and residual.
    matrices: [Option<*const C>; 2],
    /// Of rows and of columns.
    factors: [Option<*const f32>; 2],
    amax: Option<*mut i32>,
}

// SAFETY: tasks only read what the pointers lead to, and amax by atomic operations.
unsafe impl<C: Sync> Sync for Finish<'_, C> {}

impl<'a, C: Element> Finish<'a, C> {
    /// `None` where the product has no epilogue.
    pub fn new(product: &'a Product, operands: &HostOperands) -> Option<Self> {
        let fusion = &product.fusion;
        let [bias, residual, rows, cols] = operands.sources;
        Some(Finish {
            fusion,
            matrices: [bias, residual].map(|of| of.map(|of| of.cast_const().cast())),
            factors: [rows, cols].map(|of| of.map(|of| of.cast_const().cast())),
            amax: operands
                .amax
                .map(|amax| amax.cast::<i32>().wrapping_add(fusion.amax.unwrap_or(0))),
        })
        .filter(|_| !fusion.is_none())
    }

    /// Element (i, j) of a matrix.
    ///
    /// # Safety
    /// The pointers are valid as [`HostOperands`] says, and (i, j) lies in the source's layout.
    unsafe fn matrix(&self, source: usize, i: usize, j: usize) -> Option<f32> {
        let (data, layout) = self.matrices[source].zip(self.fusion.sources[source])?;
        // SAFETY: the caller's promise.
        Some(unsafe { *data.add(layout.index(i, j)) }.to_f64() as f32)
    }

    /// The same of a factor, 1 where there is none.
    ///
    /// # Safety
    /// The same.
    unsafe fn factor(&self, source: usize, i: usize, j: usize) -> f32 {
        match self.factors[source].zip(self.fusion.sources[2 + source]) {
            // SAFETY: the caller's promise.
            Some((data, layout)) => unsafe { *data.add(layout.index(i, j)) },
            None => 1.0,
        }
    }

    /// Finishes sums of row `i` from column `j` on, which is even, that have been multiplied by
    /// alpha. `place` leads to an element of C in that row; its old value takes part times beta.
    ///
    /// # Safety
    /// As above for all of the sums; elements of C are valid to read and to write, and nobody else
    /// touches them.
    pub unsafe fn row(
        &self,
        (i, j): (usize, usize),
        sums: impl ExactSizeIterator<Item = f32>,
        beta: Option<f32>,
        place: impl Fn(usize) -> *mut C,
    ) {
        let mut largest = 0;
        let mut gate = 0.0;
        for (j, sum) in (j..).zip(sums) {
            // SAFETY: the caller's promise.
            unsafe {
                let mut x = sum * self.factor(0, i, j) * self.factor(1, i, j);
                let to = self.fusion.cols_of_c(j);
                if let Some(beta) = beta {
                    x += beta * ((*place(to)).to_f64() as f32);
                }
                x += self.matrix(0, i, j).unwrap_or(0.0);
                if self.fusion.gated {
                    if j.is_multiple_of(2) {
                        gate = activate(self.fusion.activation, x);
                        continue;
                    }
                    x *= gate;
                } else {
                    x = activate(self.fusion.activation, x);
                }
                x += self.matrix(1, i, to).unwrap_or(0.0);
                largest = largest.max(x.abs().to_bits());
                *place(to) = C::from_f64(x.into());
            }
        }
        if let Some(amax) = self.amax {
            // SAFETY: while tasks run, amax is touched by atomic operations alone.
            // Signed: whatever is negative is less than a magnitude.
            let amax = unsafe { AtomicI32::from_ptr(amax) };
            amax.fetch_max(largest.cast_signed(), Ordering::Relaxed);
        }
    }
}

/// The function of an activation.
pub(crate) fn activate(activation: Activation, x: f32) -> f32 {
    activate_f64(activation, x.into()) as f32
}

/// The same in f64.
pub(crate) fn activate_f64(activation: Activation, x: f64) -> f64 {
    let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
    match activation {
        Activation::Identity => x,
        Activation::Relu => {
            if x < 0.0 {
                0.0
            } else {
                x
            }
        }
        Activation::Gelu => {
            let tail = libm::erfc(-x * std::f64::consts::FRAC_1_SQRT_2);
            if x.is_infinite() { x.max(0.0) } else { 0.5 * x * tail }
        }
        Activation::GeluTanh => {
            let inner = (8.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x * x * x);
            if x.is_infinite() { x.max(0.0) } else { x * sigmoid(inner) }
        }
        Activation::Silu => {
            if x.is_infinite() {
                x.max(0.0)
            } else {
                x * sigmoid(x)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nan_and_infinity_pass() {
        for activation in Activation::ALL {
            assert!(activate(activation, f32::NAN).is_nan(), "{activation}");
            assert_eq!(activate(activation, f32::INFINITY), f32::INFINITY, "{activation}");
            let least = if activation == Activation::Identity { f32::NEG_INFINITY } else { 0.0 };
            assert_eq!(activate(activation, f32::NEG_INFINITY), least, "{activation}");
        }
    }
}
