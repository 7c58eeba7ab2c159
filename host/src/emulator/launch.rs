//! Launches on the emulator, and what its reports become.

use super::Gpu;
use crate::cuda::{TensorLayout, TensorMap};
use crate::device::DeviceInfo;
use crate::error::{Error, Kind};
use crate::launch::Driver;
use crate::plan::PlanCache;
use crate::ptx;
use gemm_spec::Kernel;
use ptx_emulator::bulk;
use ptx_emulator::{Argument, Module, Report};
use std::collections::HashMap;
use std::fmt::Write;
use std::sync::{Arc, Mutex, PoisonError};

pub(super) struct EmulatorDriver<'a> {
    pub gpu: &'a Gpu,
}

impl Driver for EmulatorDriver<'_> {
    fn info(&self) -> &DeviceInfo {
        &self.gpu.info
    }

    fn plans(&self) -> &PlanCache {
        &self.gpu.plans
    }

    fn encode(&self, layout: &TensorLayout, address: u64) -> Result<TensorMap, Error> {
        layout.check_at(address)?;
        self.gpu.call("encode")?;
        let map = layout.for_emulator(address);
        let encoded = self.gpu.lock().encode_tensor_map(&map);
        encoded.map(TensorMap::from_words).map_err(|source| {
            let context = format!("a tensor map of {layout:?}");
            Error::new(Kind::EmulatorMap { context, source })
        })
    }

    fn allocate(&self, bytes: usize) -> Result<u64, Error> {
        self.gpu.allocate(bytes)
    }

    /// By writing there, or the emulator would report the reads: what nobody would expect.
    fn let_read(&self, address: u64, bytes: usize) -> Result<(), Error> {
        let written = self.gpu.lock().write(address, &vec![0xa5; bytes]);
        written.map_err(|source| self.gpu.failure("filling memory", source))
    }

    fn release(&self, address: u64) {
        // It is freed once, and launches are done when they return.
        let _ = self.gpu.lock().free(address);
    }

    unsafe fn launch(
        &self,
        kernel: &'static Kernel,
        launch: &gemm_spec::Launch,
        arguments: &[&[u8]],
    ) -> Result<(), Error> {
        self.gpu.call("launch")?;
        let kernel = kernel.on(self.gpu.info.compute_capability.unwrap_or_default());
        let kernel = self.entry_point(kernel);
        let module = match self.gpu.ptx.as_deref().filter(|text| has(text, kernel)) {
            Some(text) => self.gpu.own_module(kernel, text)?,
            None => module(kernel)?,
        };
        let ((grid_x, grid_y), (block_x, block_y)) = (launch.grid, launch.block);
        let shape = ptx_emulator::Launch {
            grid: [grid_x, grid_y, launch.layers],
            block: [block_x, block_y, 1],
            // As for the driver: a kernel with clusters says of how many blocks.
            cluster: [1; 3],
            dynamic_shared: kernel.dynamic_shared_bytes() as u32,
        };
        let arguments: Vec<Argument> =
            arguments.iter().map(|bytes| Argument::bytes(*bytes)).collect();
        let launched = self.gpu.lock().launch(&module, kernel.name, &shape, &arguments);
        let counted = launched.map_err(|report| {
            let text = self.gpu.ptx.as_deref().filter(|text| has(text, kernel));
            let text = text.map_or_else(|| ptx::of_kernel(kernel), str::to_owned);
            let lines = lines(&report, &ptx::file_name(kernel), &text);
            let device = self.gpu.info.name.clone();
            let (kernel, shape) = (kernel.name, launch.shape);
            Error::new(Kind::EmulatorReport { kernel, shape, device, report, lines })
        })?;
        self.gpu.statistics.lock().unwrap_or_else(PoisonError::into_inner).add(&counted);
        Ok(())
    }
}

impl EmulatorDriver<'_> {
    /// The entry point to launch: of a kernel whose lean one was asked for the whole one, where
    /// the device has a text of its own with that alone.
    fn entry_point(&self, kernel: &'static Kernel) -> &'static Kernel {
        let text = self.gpu.ptx.as_deref().filter(|text| !has(text, kernel));
        let whole = text.and_then(|text| kernel.whole().filter(|whole| has(text, whole)));
        whole.unwrap_or(kernel)
    }
}

/// Whether a text has the kernel.
fn has(text: &str, kernel: &Kernel) -> bool {
    text.contains(&format!(".entry {}(", kernel.name))
}

/// The kernel's module, parsed once in a process.
fn module(kernel: &'static Kernel) -> Result<Arc<Module>, Error> {
    // By the address of the kernel's row.
    static PARSED: Mutex<Option<HashMap<usize, Arc<Module>>>> = Mutex::new(None);
    let row = std::ptr::from_ref(kernel).addr();
    let mut parsed = PARSED.lock().unwrap_or_else(PoisonError::into_inner);
    let parsed = parsed.get_or_insert_default();
    if let Some(module) = parsed.get(&row) {
        return Ok(Arc::clone(module));
    }
    let module = Arc::new(parse(kernel, &ptx::of_kernel(kernel))?);
    parsed.insert(row, Arc::clone(&module));
    Ok(module)
}

pub(super) fn parse(kernel: &Kernel, text: &str) -> Result<Module, Error> {
    Module::parse(text).map_err(|source| {
        let context = format!("{} of {}", kernel.name, ptx::file_name(kernel));
        Error::new(Kind::EmulatorPtx { context, source })
    })
}

/// The lines that a report names, as they stand in the kernel's text.
fn lines(report: &Report, name: &str, source: &str) -> String {
    let mut text = String::new();
    let mut numbers = [report.line, report.other.as_ref().map(|other| other.line)];
    if numbers[0] == numbers[1] {
        numbers[1] = None;
    }
    for number in numbers.into_iter().flatten() {
        let line = source.lines().nth(number.saturating_sub(1) as usize);
        let line = line.unwrap_or_default().trim();
        // Writing to a string does not fail.
        let _ = write!(text, "\n  {name}:{number}: {line}");
    }
    text
}

impl TensorLayout {
    /// The layout in the emulator's words; the numbers of elements, swizzles and promotions are the
    /// driver's on both sides.
    fn for_emulator(&self, address: u64) -> bulk::TensorMap {
        use bulk::{Promotion, Swizzle, TensorElement};
        const PROMOTIONS: [Promotion; 4] =
            [Promotion::None, Promotion::B64, Promotion::B128, Promotion::B256];
        let element = TensorElement::ALL[self.element as usize];
        let map = bulk::TensorMap::new(
            element,
            address,
            &self.sizes,
            &self.stride_bytes,
            &self.box_sizes,
        );
        bulk::TensorMap {
            promotion: PROMOTIONS[self.promotion as usize],
            ..map.swizzled(Swizzle::ALL[self.swizzle as usize])
        }
    }
}
