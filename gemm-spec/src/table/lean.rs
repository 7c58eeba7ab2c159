//! Second entry points of kernels, for the commonest C alone.

use super::{Kernel, KernelFamily, Stored, ThreadOrder, Tiles};

/// A family's rows once more, of their lean entry points.
macro_rules! lean_rows {
    ($(($name:ident, $($numbers:tt)*),)*) => {
        &[$(Kernel {
            name: concat!(stringify!($name), "_lean"),
            ..rows! { ($name, $($numbers)*), }[0]
        }),*]
    };
}

/// The rows of a family's list, and those of their lean entry points.
macro_rules! with_lean {
    ($family:ident, $($list:tt)+) => {{
        const FAMILY: KernelFamily = KernelFamily::$family;
        (of_family!($family, $($list)+), at_one_address!($($list)+!(lean_rows)))
    }};
}

/// Families whose kernels have lean entry points: their rows, and those of these in the same order.
pub(super) static LEAN: &[(&[Kernel], &[Kernel])] = &[
    with_lean!(WarpGroup, crate::warp_group_kernels),
    with_lean!(WarpGroupHalves, crate::warp_group_halves_kernels),
    with_lean!(WarpGroupInStep, crate::warp_group_in_step_kernels),
    with_lean!(WarpGroupPingPong, crate::warp_group_ping_pong_kernels),
    with_lean!(WarpGroupSwapAb, crate::warp_group_swap_ab_kernels),
];

impl Kernel {
    /// The lean entry point of a row of the table, if it has one: it takes what the row's takes and
    /// computes the same bits, but only for a C of the usual dtype that leaves [by its
    /// map](crate::is_mappable), in whole tiles, with no old values and no epilogue. That is a
    /// third of the code, most of which stays in a multiprocessor's instruction cache.
    pub fn lean(&'static self) -> Option<&'static Kernel> {
        // A row of somebody's own is none of these, whatever its name.
        LEAN.iter().find_map(|(rows, lean)| {
            let first = rows.as_ptr().addr();
            let further = core::ptr::from_ref(self).addr().wrapping_sub(first);
            lean.get(further / size_of::<Kernel>())
        })
    }

    /// The row whose lean entry point this is, if it is one.
    pub fn whole(&self) -> Option<&'static Kernel> {
        let is_of = |row: &&Kernel| self.name.strip_suffix("_lean") == Some(row.name);
        LEAN.iter().flat_map(|(rows, _)| *rows).find(is_of)
    }
}

#[cfg(test)]
mod tests {
    use crate::{Kernel, Target, entries, of_module};

    #[test]
    fn lean_entry_points_have_their_rows() {
        let mut lean = 0;
        for kernel in entries() {
            let Some(own) = kernel.lean() else { continue };
            assert_eq!(*own, Kernel { name: own.name, ..*kernel });
            assert!(core::ptr::eq(own.whole().unwrap(), kernel));
            assert_eq!((own.lean(), kernel.whole()), (None, None));
            lean += 1;
        }
        let named = of_module(Target::Sm90a).filter(|kernel| kernel.name.ends_with("_lean"));
        assert_eq!(named.count(), lean);
        assert!(lean > 100);
        let mine = *entries().find(|kernel| kernel.lean().is_some()).unwrap();
        assert_eq!(std::boxed::Box::leak(std::boxed::Box::new(mine)).lean(), None);
    }
}
