//! Kernels of other crates, which this library launches.

use crate::error::{Error, Kind};
use crate::plan::{Product, Task};
use bytemuck::NoUninit;
use gemm_spec::{DType, GemmParams, Kernel, KernelFamily, Precision};
use std::fmt;
use std::ptr;
use std::sync::{Mutex, PoisonError};

/// A kernel of another crate: a body of the crate `gpu-kernels` with an epilogue of that crate's
/// own, or any other entry point with the same parameters and the same launch.
///
/// It is a [`KernelChoice`](crate::KernelChoice), for one product at a time: no batch, no list, no
/// parts of K, no epilogue or scales of the library's beside its own. C that lies in columns is
/// written so, and never computed as the transposed product. The guide has a crate with such a
/// kernel and its launch: docs/guide/own_epilogue.md.
#[derive(Clone, PartialEq)]
pub struct OwnKernel {
    own: &'static Registered,
    /// The values of its parameters behind those of the body, so far.
    arguments: Vec<Vec<u8>>,
}

/// A row like those of the table, which stays for the process as they do.
#[derive(PartialEq)]
struct Registered {
    kernel: Kernel,
    ptx: &'static str,
    /// Bytes of each parameter behind those of the body.
    parameters: Vec<usize>,
}

/// Each that was ever made, once.
static REGISTERED: Mutex<Vec<&'static Registered>> = Mutex::new(Vec::new());

impl fmt::Debug for OwnKernel {
    /// Without the text.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let OwnKernel { own, arguments } = self;
        let mut fields = f.debug_struct("OwnKernel");
        fields.field("kernel", &own.kernel).field("arguments", arguments).finish_non_exhaustive()
    }
}

/// The text of a kernel of another crate; `None` for rows of the table.
pub(crate) fn ptx_of(kernel: &Kernel) -> Option<&'static str> {
    let all = REGISTERED.lock().unwrap_or_else(PoisonError::into_inner);
    all.iter().find(|own| ptr::eq(&own.kernel, kernel)).map(|own| own.ptx)
}

impl OwnKernel {
    /// The entry point `entry` of a text of PTX, as `cuda_builder` makes it. It is like `row`, a
    /// row of the table or one with tiles of its own, in all but its name.
    ///
    /// Rows stay in memory until the process ends, equal ones once; what a device's driver has made
    /// of a text stays as long as the device.
    ///
    /// # Errors
    /// When the text has no such entry point, its parameters are not those of the row's family with
    /// others behind them, the family is none that computes products, or one that has no clusters
    /// of so many blocks ([`Error::is_unsupported`]).
    ///
    /// # Safety
    /// With the row's launches the entry point writes C's elements and nothing else, and reads
    /// nothing but them, A, B, and what [`Self::argument`] gives it. Like a row's that is launched
    /// before the kernel before it has ended ([`Kernel::overlaps`]), it waits for that one
    /// (`cuda_std::grid::wait_for_grids`) before it does either; the bodies of `gpu_kernels` do.
    pub unsafe fn new(ptx: &'static str, entry: &'static str, row: &Kernel) -> Result<Self, Error> {
        let wrong = |reason| Error::new(Kind::OwnKernel { kernel: entry, reason });
        let expected = parameters_of(row).ok_or_else(|| {
            wrong(format!("the family {:?} is for the library's own use", row.family))
        })?;
        let found = parameters(ptx, entry)
            .ok_or_else(|| wrong("the text has no such entry point".to_string()))?;
        let Some(parameters) = found.strip_prefix(&expected[..]) else {
            return Err(wrong(format!(
                "its parameters have {found:?} bytes, and those of {} begin with {expected:?}",
                row.variant
            )));
        };
        // By the size of its cluster a body of the family knows how its blocks share reads.
        let is_so = match row.family {
            KernelFamily::WarpGroupInStep => row.cluster() == 8,
            KernelFamily::WarpGroupHalves => row.cluster() == 2,
            _ => row.cluster() <= 2,
        };
        if !is_so {
            let (cluster, family) = (row.cluster(), row.family);
            return Err(wrong(format!(
                "the family {family:?} has no clusters of {cluster} blocks"
            )));
        }
        let kernel = Kernel { name: entry, ..*row };
        let own = Registered { kernel, ptx, parameters: parameters.to_vec() };
        let mut all = REGISTERED.lock().unwrap_or_else(PoisonError::into_inner);
        let known = all.iter().copied().find(|known| **known == own);
        let own = known.unwrap_or_else(|| {
            let own: &'static Registered = Box::leak(Box::new(own));
            all.push(own);
            own
        });
        Ok(OwnKernel { own, arguments: Vec::new() })
    }

    /// The value of the next of its own parameters: a number, or the address of device memory.
    ///
    /// # Errors
    /// When there is no such parameter, or one of other size ([`Error::is_unsupported`]).
    ///
    /// # Safety
    /// It is what the entry point takes there; device memory that it leads to may be read until the
    /// products with this kernel are done.
    pub unsafe fn argument<V: NoUninit>(mut self, value: V) -> Result<Self, Error> {
        let bytes = bytemuck::bytes_of(&value).to_vec();
        let number = self.arguments.len();
        if self.own.parameters.get(number) != Some(&bytes.len()) {
            return Err(self.wrong(format!(
                "its own parameters have {:?} bytes, and argument {number} has {}",
                self.own.parameters,
                bytes.len()
            )));
        }
        self.arguments.push(bytes);
        Ok(self)
    }

    /// Its row: what the library launches it by.
    pub fn kernel(&self) -> &'static Kernel {
        &self.own.kernel
    }

    /// The values of its own parameters.
    pub(crate) fn arguments(&self) -> Vec<&[u8]> {
        self.arguments.iter().map(Vec::as_slice).collect()
    }

    fn wrong(&self, reason: String) -> Error {
        Error::new(Kind::OwnKernel { kernel: self.own.kernel.name, reason })
    }

    /// An error for what it does not compute.
    pub(crate) fn check(&self, task: &Task) -> Result<(), Error> {
        let kernel = self.kernel();
        let (wanted, given) = (self.own.parameters.len(), self.arguments.len());
        let is_precise = [Precision::Full, task.precision].contains(&kernel.precision);
        if kernel.dtype != task.dtype || !is_precise {
            let (of, dtype) = (kernel.dtype, task.dtype);
            return Err(self.wrong(format!("it multiplies {of}, and the product's is {dtype}")));
        }
        if given != wanted {
            let reason = format!("it has {wanted} arguments of its own, and {given} are given");
            return Err(self.wrong(reason));
        }
        let is_one = kernel.launches(task.shape).is_none_or(|mut of| of.nth(1).is_none());
        if task.batch > 1 || !is_one {
            return Err(self.wrong("it computes one product in one launch".to_string()));
        }
        Ok(())
    }

    /// An error for epilogues of the library's.
    pub(crate) fn check_alone(&self, product: &Product) -> Result<(), Error> {
        match product.fusion.is_none() {
            true => Ok(()),
            false => Err(self.wrong("it has an epilogue of its own, and takes no other".into())),
        }
    }
}

/// Bytes of each parameter of a row's family; `None` for those that compute no product by
/// themselves, or in memory that the launch brings.
fn parameters_of(row: &Kernel) -> Option<Vec<usize>> {
    let block = match row.dtype.accumulator() {
        DType::F64 => size_of::<GemmParams<f64>>(),
        _ => size_of::<GemmParams<f32>>(),
    };
    Some(match row.family {
        // Nobody copies operands for it.
        _ if row.splits_elements() => return None,
        // Products are not computed as transposed ones, which these rows are for.
        KernelFamily::WarpGroupSwapAb
        | KernelFamily::WarpGroupScaled
        | KernelFamily::WarpGroupGrouped
        | KernelFamily::WarpGroupDirect
        | KernelFamily::WarpGroupStreamK
        | KernelFamily::Repack
        | KernelFamily::Finish
        | KernelFamily::FinishOverlapped => return None,
        _ if row.takes_maps() => vec![128, 128, 128, 8, block],
        _ => vec![8, 8, 8, block],
    })
}

/// Bytes of each parameter of an entry point of a text; `None` where it has no such, or one whose
/// size it does not say.
fn parameters(ptx: &str, entry: &str) -> Option<Vec<usize>> {
    let head = ptx.split(".entry ").skip(1).find_map(|text| {
        let rest = text.trim_start().strip_prefix(entry)?.trim_start().strip_prefix('(')?;
        rest.split_once(')').map(|(head, _)| head)
    })?;
    let parameters = head.split(',').map(str::trim).filter(|text| !text.is_empty());
    parameters.map(parameter).collect()
}

/// Bytes of `.param .align 64 .b8 name[128]` and of `.param .f32 name`.
fn parameter(text: &str) -> Option<usize> {
    let mut words = text.split_whitespace().peekable();
    (words.next() == Some(".param")).then_some(())?;
    if words.next_if_eq(&".align").is_some() {
        words.next()?;
    }
    let kind = words.next()?;
    let bits: usize = kind.trim_start_matches(|c: char| !c.is_ascii_digit()).parse().ok()?;
    let count: usize = match words.next()?.split_once('[') {
        Some((_, count)) => count.strip_suffix(']')?.parse().ok()?,
        None => 1,
    };
    count.checked_mul(bits / 8)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "
        .visible .entry other() { ret; }
        .visible .entry mine_too(.param .u64 a) { ret; }
        .visible .entry mine(
        .param .align 64 .b8 mine_param_0[128],
        .param .u64 .ptr .align 1 mine_param_1,
        .param .f32 mine_param_2
        )
        { ret; }";

    #[test]
    fn parameters_are_those_of_the_entry() {
        assert_eq!(parameters(TEXT, "other"), Some(vec![]));
        assert_eq!(parameters(TEXT, "mine"), Some(vec![128, 8, 4]));
        assert_eq!(parameters(TEXT, "min"), None);
        assert_eq!(parameters(".entry f(.param .b8 x[99999999999999999999])", "f"), None);
        assert_eq!(parameters(".entry f(.reg .b8 x)", "f"), None);
    }

    #[test]
    fn parameters_of_every_family_are_those_of_its_kernels() {
        for kernel in gemm_spec::kernels()
            .filter(|of| !of.joins() && !of.takes_row_maps() && !of.swaps_operands())
            .filter(|of| !of.splits_elements())
        {
            let text = crate::ptx::of_kernel(kernel);
            assert_eq!(parameters(&text, kernel.name), parameters_of(kernel), "{}", kernel.name);
        }
    }

    #[test]
    fn clusters_are_those_of_the_family() {
        for (named, has, others) in
            [("warp_group_128x128", [1, 2], [3, 8]), ("warp_group_in_step_128x192", [8, 8], [4, 5])]
        {
            let row = Kernel::find_for(named, DType::BF16, Precision::Full, [true; 2]).unwrap();
            let of = |bytes: &usize| format!(".param .align 8 .b8 p[{bytes}]");
            let list: Vec<_> = parameters_of(row).unwrap().iter().map(of).collect();
            let text: &str = Box::leak(format!(".entry mine({})", list.join(", ")).into());
            let make = |cluster| {
                let row = Kernel { tiles: gemm_spec::Tiles { cluster, ..row.tiles }, ..*row };
                // SAFETY: it is not launched.
                unsafe { OwnKernel::new(text, "mine", &row) }
            };
            assert!(has.iter().all(|cluster| make(*cluster).is_ok()));
            for cluster in others {
                let error = make(cluster).unwrap_err().to_string();
                assert!(error.contains(&format!("clusters of {cluster}")), "{error}");
            }
        }
    }
}
