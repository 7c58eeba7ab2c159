//! Products on whole buffers, as they lie.

use super::EmulatorBackend;
use crate::backend::{Each, Memory};
use crate::device::Device;
use crate::element::{Element, OutputOf};
use crate::error::{Error, Kind, Operand};
use crate::gemm::Gemm;
use crate::plan::{Fusion, Product};
use crate::stage::Stage;
use gemm_spec::Layout;
use std::any::Any;

impl<T: Element, C: OutputOf<T>> Gemm<T, C> {
    /// C = alpha * op(A) * op(B) + beta * C on an emulated GPU, the three slices copied to it whole
    /// and C's back: the kernel gets the layouts as they are, where other calls pack elements that
    /// lie apart. For tests of kernels.
    ///
    /// # Errors
    /// When shapes or layouts do not fit, C repeats rows or columns, `device` is no emulated GPU,
    /// or the emulator stops the kernel.
    pub fn run_emulated(
        &self,
        device: &Device,
        (a, a_layout): (&[T], Layout),
        (b, b_layout): (&[T], Layout),
        (c, c_layout): (&mut [C], Layout),
    ) -> Result<(), Error> {
        let backend = (&*device.backend as &dyn Any).downcast_ref::<EmulatorBackend>();
        let Some(backend) = backend else {
            return Err(Error::new(Kind::NotEmulated { device: device.name().to_string() }));
        };
        let layouts = [
            (Operand::A, a_layout, a.len()),
            (Operand::B, b_layout, b.len()),
            (Operand::C, c_layout, c.len()),
        ];
        for (operand, layout, len) in layouts {
            layout.check(len).map_err(|source| {
                Error::new(Kind::Layout { operand: Some(operand), layout, source })
            })?;
        }
        let layouts = [a_layout, b_layout, c_layout];
        let product = Product::new::<T, C>(self.options(), layouts, Fusion::default())?;
        let copy = |bytes: &[u8]| {
            let mut memory = backend.new_memory(bytes.len())?;
            memory.write(0, bytes)?;
            Ok::<_, Error>(memory)
        };
        let (on_a, on_b) = (copy(bytemuck::cast_slice(a))?, copy(bytemuck::cast_slice(b))?);
        let on_c = copy(bytemuck::cast_slice(c))?;
        let (sources, amax) = Default::default();
        let each = Each { a: &on_a, b: &on_b, c: &on_c, sources, amax };
        backend.run(&product, self.kernel_choice(), each)?;
        on_c.read(0, bytemuck::cast_slice_mut(c))
    }
}
