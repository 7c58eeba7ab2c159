//! Plans that were measured on a GPU, kept in a file, and taken in the place of the model's.
//!
//! The library chooses plans by a model of the GPU, and needs no tuning. Where the last percent
//! counts, [`tune`] verifies and times what the model chooses among, on the device itself, and a
//! [`Tuning`] keeps the fastest; `gemmite tune` does both. [`Device::load_tuning`] has a device
//! take them.
//!
//! ```no_run
//! use gemmite::{Device, Gemm, bf16};
//!
//! let device = Device::cuda(0)?;
//! println!("{} plans taken", device.load_tuning("gemmite-tuning.txt")?);
//! # Ok::<(), gemmite::Error>(())
//! ```
//!
//! A tuning can make a product slower and never wrong. It is refused, and the device keeps the
//! model's plans, where it is damaged, of another version, or made for another GPU, driver or
//! library; where one of its plans is none that the model would compare for that product; and where
//! a small product of the same kind by that plan is not right (docs/decisions/0012-tunings.md).

mod file;
mod trial;

use crate::device::{Device, DeviceInfo};
use crate::element::{Element, OutputOf};
use crate::error::{Error, Kind};
use crate::gemm::Gemm;
use crate::plan::{Chosen, KernelChoice, Plan, Task, candidates};
use crate::ptx;
use crate::verify;
use gemm_spec::Layout;
use rustc_hash::FxHashMap;
use std::path::Path;

pub(crate) use file::TuningFault;

/// Plans that the model takes for so many times as slow as its choice are not measured.
const WORTH: f64 = 4.0;
/// By what part another plan than the model's has to be faster, so that noise moves nothing.
const MARGIN: f64 = 0.01;

/// Measures plans.
pub trait Timer {
    /// Microseconds of the product by each of these plans, operands on the device, or why there are
    /// none; in the order of the plans.
    fn time(&mut self, plans: &[Plan]) -> Vec<Result<f64, String>>;
}

impl<F: FnMut(&[Plan]) -> Vec<Result<f64, String>>> Timer for F {
    fn time(&mut self, plans: &[Plan]) -> Vec<Result<f64, String>> {
        self(plans)
    }
}

/// What became of one plan.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Measured {
    /// The plan.
    pub plan: Plan,
    /// Microseconds; or why there are none: a wrong product, or what the device said.
    pub micros: Result<f64, String>,
    /// Whether its product was wrong. It was not timed then.
    pub is_wrong: bool,
}

/// The plans of one product, measured.
#[derive(Clone, Debug)]
pub struct Tuned {
    entry: Entry,
    measured: Vec<Measured>,
    best: usize,
}

impl Tuned {
    /// All that were tried, the model's choice first.
    pub fn measured(&self) -> &[Measured] {
        &self.measured
    }

    /// The one that is kept: the fastest, or the model's choice where none is faster by 1 %.
    pub fn best(&self) -> &Measured {
        &self.measured[self.best]
    }
}

/// Verifies the plans of a product with operands of these layouts, has those that are right timed,
/// and picks the fastest.
///
/// Transposes, precision and dtypes are those of `gemm`; alpha and beta take no part. Each plan
/// multiplies random matrices, and rows of the product are compared with a reference
/// ([`verify`]) before anything is timed.
///
/// # Errors
/// When shapes do not match, there is nothing to sum, `gemm` names a kernel or asks for batch
/// invariance (a tuning changes neither), the device has no plans, its memory does not suffice, or
/// no plan could be timed.
pub fn tune<T: Element, C: OutputOf<T>>(
    device: &Device,
    gemm: &Gemm<T, C>,
    [a, b]: [Layout; 2],
    timer: &mut dyn Timer,
) -> Result<Tuned, Error> {
    let nothing = |reason| Error::new(Kind::NothingToTune { reason });
    if device.backend.plans().is_none() {
        return Err(Error::new(Kind::NotTunable { device: device.name().into() }));
    }
    let gemm = &gemm.clone().without_factors();
    let product = gemm.product(a, b)?;
    if *gemm.kernel_choice() != KernelChoice::Auto || product.batch_invariant {
        return Err(nothing("a kernel was named, or batch invariance asked for"));
    }
    if product.k == 0 || product.shape().is_empty() {
        return Err(nothing("the product has no sums"));
    }
    if !verify::has_bound(T::DTYPE, product.k) {
        return Err(nothing("its sums are so long that no check of them could fail"));
    }
    let turned = product.is_taken_turned(&KernelChoice::Auto, device.info());
    let task = Task::turned_if(turned, &product);
    if !task.row_maps {
        // Of which no small product would tell whether a tuning's plan is right.
        return Err(nothing("A or B has strides along which nothing is contiguous"));
    }
    let mut plans = gemm.plans(device.info(), a, b)?;
    let worth = plans.first().map_or(0.0, |first| WORTH * first.prediction.total());
    plans.retain(|plan| plan.prediction.total() <= worth);
    let trial = trial::Trial::<T>::new(device, [a, b])?;
    let mut measured = Vec::new();
    for plan in plans {
        let gemm = gemm.clone().kernel(&plan);
        let (micros, is_wrong) = match trial.run(device, &gemm) {
            Ok(Ok(())) => (Err("not timed".into()), false),
            Ok(Err(wrong)) => (Err(wrong), true),
            Err(error) if error.is_context_lost() => return Err(error),
            Err(error) => (Err(error.to_string()), false),
        };
        let is_right = micros == Err("not timed".to_string());
        measured.push((Measured { plan, micros, is_wrong }, is_right));
    }
    drop(trial);
    let right: Vec<Plan> = measured.iter().filter(|of| of.1).map(|of| of.0.plan.clone()).collect();
    let mut times = timer.time(&right).into_iter();
    let mut of_next = || match times.next() {
        Some(Ok(time)) if !(time.is_finite() && time > 0.0) => Err(format!("{time} is no time")),
        Some(time) => time,
        None => Err("not timed".into()),
    };
    let measured: Vec<Measured> = measured
        .into_iter()
        .map(|(of, is_right)| match is_right {
            true => Measured { micros: of_next(), ..of },
            false => of,
        })
        .collect();
    let best = fastest(&measured).ok_or_else(|| nothing("no plan could be timed"))?;
    let entry = Entry::new(task, &measured[best]);
    Ok(Tuned { entry, measured, best })
}

/// The number of the fastest: of those that are hardly faster, the first.
fn fastest(measured: &[Measured]) -> Option<usize> {
    let times = measured.iter().enumerate();
    let times = times.filter_map(|(i, of)| Some((i, *of.micros.as_ref().ok()?)));
    let (best, least) = times.clone().min_by(|a, b| a.1.total_cmp(&b.1))?;
    match times.clone().next() {
        Some((0, first)) if first <= least * (1.0 + MARGIN) => Some(0),
        _ => Some(best),
    }
}

/// What plans were measured on, and with.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Origin {
    gpu: String,
    capability: (u32, u32),
    multiprocessors: u32,
    /// Clusters of eight blocks at one time, by which the model compares parts of K: GPUs of one
    /// name may differ. 0 is not known.
    clusters: u32,
    /// The newest CUDA that the driver knows.
    driver: (u32, u32),
    /// The library's version, and what its kernels were made from.
    library: String,
}

impl Origin {
    /// Of a device that has plans.
    fn of(info: &DeviceInfo) -> Origin {
        let is_plain = |c: &char| !c.is_control();
        Origin {
            gpu: info.name.chars().filter(is_plain).collect::<String>().trim().to_string(),
            capability: info.compute_capability.unwrap_or_default(),
            multiprocessors: info.multiprocessors.unwrap_or_default(),
            clusters: info.clusters_of_eight.unwrap_or_default(),
            driver: info.driver_version.unwrap_or_default(),
            library: format!("{} {}", env!("CARGO_PKG_VERSION"), ptx::fingerprint()),
        }
    }
}

/// The plan of a task.
#[derive(Clone, Debug, PartialEq)]
struct Entry {
    task: Task,
    variant: String,
    copied: [bool; 2],
    parts: usize,
    micros: f64,
}

impl Entry {
    fn new(task: Task, of: &Measured) -> Entry {
        let Plan { kernel, copied, parts, .. } = of.plan;
        let variant = kernel.map_or("", |kernel| kernel.variant).into();
        let micros = of.micros.as_ref().copied().unwrap_or_default();
        Entry { task, variant, copied, parts, micros }
    }

    /// The choice, if it is one of those that the model compares.
    fn chosen(&self, info: &DeviceInfo) -> Option<Chosen> {
        candidates(&self.task, info).find(|chosen| {
            chosen.kernel.variant == self.variant
                && (chosen.copied, chosen.parts) == (self.copied, self.parts)
        })
    }
}

/// Measured plans for products of one GPU.
///
/// A plan is for the exact problem: dtypes, precision, extents, how A and B lie, and whether tensor
/// maps describe them. Other products get the model's plan.
#[derive(Clone, Debug, PartialEq)]
pub struct Tuning {
    origin: Origin,
    entries: Vec<Entry>,
}

impl Tuning {
    /// An empty one for a device, as it is now.
    ///
    /// # Errors
    /// When the device has no plans: the CPU.
    pub fn new(device: &Device) -> Result<Tuning, Error> {
        match device.backend.plans() {
            Some(_) => Ok(Tuning { origin: Origin::of(device.info()), entries: Vec::new() }),
            None => Err(Error::new(Kind::NotTunable { device: device.name().into() })),
        }
    }

    /// Keeps the best plan of a product, in the place of one that was there.
    pub fn add(&mut self, tuned: &Tuned) {
        self.entries.retain(|entry| entry.task != tuned.entry.task);
        self.entries.push(tuned.entry.clone());
    }

    /// How many products it has plans for.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// An error where it was not made on such a device, with such a driver and this library.
    ///
    /// # Errors
    /// As said ([`Error::is_tuning`]); the message says what differs.
    pub fn check_origin(&self, device: &Device) -> Result<(), Error> {
        let (here, there) = (Origin::of(device.info()), &self.origin);
        let version = |(major, minor): (u32, u32)| format!("{major}.{minor}");
        let number = |number: u32| number.to_string();
        let facts = [
            ("the GPU", there.gpu.clone(), here.gpu.clone()),
            ("compute capability", version(there.capability), version(here.capability)),
            (
                "multiprocessors numbering",
                number(there.multiprocessors),
                number(here.multiprocessors),
            ),
            ("clusters of eight numbering", number(there.clusters), number(here.clusters)),
            ("a driver for CUDA", version(there.driver), version(here.driver)),
            ("the library", there.library.clone(), here.library.clone()),
        ];
        match facts.into_iter().find(|(_, there, here)| there != here) {
            None => Ok(()),
            Some((what, found, here)) => {
                Err(Error::new(Kind::Tuning(TuningFault::Foreign { what, found, here })))
            }
        }
    }
}

impl Device {
    /// Reads a tuning and takes it; see [`Device::take_tuning`]. Returns how many products it has
    /// plans for.
    ///
    /// # Errors
    /// As [`Tuning::read`] and [`Device::take_tuning`].
    pub fn load_tuning(&self, path: impl AsRef<Path>) -> Result<usize, Error> {
        let tuning = Tuning::read(path)?;
        self.take_tuning(&tuning)?;
        Ok(tuning.len())
    }

    /// Has [`KernelChoice::Auto`] take these plans from now on for the products that they were
    /// measured for, in the place of an earlier tuning's, on all clones of this device. Products
    /// with [`Gemm::batch_invariant`] keep their own.
    ///
    /// Each plan first multiplies a small product of the same kind (the same dtypes, layouts,
    /// copies, parts, and ragged ends), which is verified: some milliseconds a plan, and the time
    /// that the driver takes to compile its kernel. Where the model has the last rows or columns
    /// computed apart ([`Plan::rest`]), the kernel of those is none of the plan's and not verified.
    ///
    /// # Errors
    /// [`Error::is_tuning`] when it was made for another GPU, driver or library, or one of its
    /// plans is none of the device's or computes a wrong product; also when the device has no
    /// plans (the CPU), or fails. The device keeps what it had in all these cases.
    pub fn take_tuning(&self, tuning: &Tuning) -> Result<(), Error> {
        let Some(plans) = self.backend.plans() else {
            return Err(Error::new(Kind::NotTunable { device: self.name().into() }));
        };
        tuning.check_origin(self)?;
        let mut tuned = FxHashMap::default();
        for entry in &tuning.entries {
            let fault = |why| {
                let (plan, shape) = (entry.variant.clone(), entry.task.shape);
                Error::new(Kind::Tuning(TuningFault::Plan { plan, shape, why }))
            };
            let none = || fault("it is none that the model compares for that product".into());
            let chosen = entry.chosen(self.info()).ok_or_else(none)?;
            trial::small(self, &entry.task, &chosen)?.map_err(fault)?;
            tuned.insert(entry.task, chosen);
        }
        plans.tune(tuned);
        Ok(())
    }

    /// Takes the model's plans again.
    pub fn forget_tuning(&self) {
        if let Some(plans) = self.backend.plans() {
            plans.tune(FxHashMap::default());
        }
    }
}

#[cfg(test)]
mod tests;
