//! Asynchronous copies (PTX ISA 9.7.9.25).

use super::Lower;
use crate::error::Error;
use crate::program::{Builder, Modifiers};
use crate::syntax::ast;

pub(super) const TABLE: &[(&str, Lower)] = &[];

/// `cp.async` operations of a warp that are under way.
#[derive(Debug, Default)]
pub(crate) struct Copies {}

/// `barrier.cluster`.
pub(super) fn cluster_barrier(
    _: &mut Builder<'_, '_>,
    _: &ast::Instruction,
    modifiers: Modifiers<'_>,
) -> Result<(), Error> {
    Err(modifiers.unsupported("modifier .cluster"))
}

/// `fence.proxy` and `fence.mbarrier_init`.
pub(super) fn proxy_fence(
    _: &mut Builder<'_, '_>,
    _: &ast::Instruction,
    modifiers: Modifiers<'_>,
) -> Result<(), Error> {
    Err(modifiers.unsupported("the form"))
}
