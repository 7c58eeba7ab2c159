//! Fences between proxies, and of the initialisation of mbarriers (PTX ISA 9.7.13.4).

use super::super::context::Step;
use crate::error::Error;
use crate::program::{Builder, Class, Instruction, Modifiers, exactly};
use crate::syntax::ast;

/// Lowers `fence.proxy...` and `fence.mbarrier_init`.
pub(super) fn lower(b: &mut Builder<'_, '_>, i: &ast::Instruction) -> Result<(), Error> {
    let mut modifiers = Modifiers::new(i);
    let out = if modifiers.flag("mbarrier_init") {
        if !(modifiers.flag("release") && modifiers.flag("cluster")) {
            return Err(modifiers.unsupported("this form"));
        }
        Instruction::new(
            |c, _| {
                c.order_fence_inits();
                Ok(Step::Next)
            },
            Class::Synchronization,
        )
    } else {
        modifiers.flag("proxy");
        if !modifiers.flag("async") {
            return Err(modifiers.unsupported("the proxy"));
        }
        let spaces = [("global", ()), ("shared::cta", ()), ("shared::cluster", ())];
        modifiers.choose(&spaces);
        Instruction::new(
            |c, _| {
                c.order_fence_proxy();
                Ok(Step::Next)
            },
            Class::Synchronization,
        )
    };
    modifiers.finish()?;
    exactly::<0>(i)?;
    b.beyond_barriers();
    b.add(out);
    Ok(())
}
