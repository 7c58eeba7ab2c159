//! One case on the GPU: compiled by the driver, launched, waited for.
//!
//! A launch that faults or hangs takes the context with it; the test then starts again in a process
//! of its own, without the case.

use std::ffi::c_void;
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use cuda_driver_loader as _;
use cust::context::{Context, CurrentContext};
use cust::device::DeviceAttribute;
use cust::error::CudaError;
use cust::event::{Event, EventFlags, EventStatus};
use cust::memory::{CopyDestination, DeviceBuffer};
use cust::module::Module;
use cust::stream::{Stream, StreamFlags};

use super::cases::{Case, ENTRY};
use super::{POISON, Verdict};

/// Bytes before and after the output, which must stay as they are.
const GUARD_BYTES: usize = 256;
/// The longest that a launch may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// Cases that took the context of an earlier process: lines of index, space, what happened.
const LOST: &str = "PTX_CONFORMANCE_LOST";
/// Processes that may be lost, until the rest is reported as it is.
const MAX_LOST: usize = 5;

/// The GPU of this process.
pub struct Gpu {
    /// Its compute capability.
    pub capability: (u32, u32),
    device: gemmite::Device,
    context: Context,
    /// Held by the thread whose launch is under way.
    turn: Mutex<()>,
    lost: Vec<(usize, String)>,
}

/// The module's target, where the GPU cannot run it: one for later GPUs, or, with an `a`, one for
/// another GPU.
pub fn other_target(ptx: &str, (major, minor): (u32, u32)) -> Option<String> {
    let target = ptx.lines().find_map(|line| line.strip_prefix(".target "))?.trim();
    let number = target.trim_start_matches("sm_");
    let own = 10 * major + minor;
    let runs = match number.strip_suffix('a') {
        Some(exact) => exact.parse() == Ok(own),
        None => number.parse::<u32>().is_ok_and(|least| least <= own),
    };
    if runs { None } else { Some(target.to_owned()) }
}

impl Gpu {
    /// The first GPU, which is that of the library's `device`.
    pub fn new(device: gemmite::Device) -> Gpu {
        let first = cust::device::Device::get_device(0).expect("a GPU");
        let attribute = |attribute| first.get_attribute(attribute).expect("an attribute") as u32;
        let lost = std::env::var(LOST).unwrap_or_default();
        let lost = lost.lines().filter_map(|line| line.split_once(' '));
        Gpu {
            capability: (
                attribute(DeviceAttribute::ComputeCapabilityMajor),
                attribute(DeviceAttribute::ComputeCapabilityMinor),
            ),
            device,
            context: Context::new(first).expect("a context"),
            turn: Mutex::new(()),
            lost: lost.map(|(index, what)| (index.parse().unwrap(), what.to_owned())).collect(),
        }
    }

    /// Makes the context that of this thread.
    pub fn make_current(&self) {
        CurrentContext::set_current(&self.context).expect("the context is current");
    }

    /// The output of a case, or why there is none.
    pub fn run(&self, index: usize, case: &Case) -> Result<Vec<u8>, Verdict> {
        if let Some((_, what)) = self.lost.iter().find(|(lost, _)| *lost == index) {
            return Err(Verdict::Failed(what.clone()));
        }
        let module = Module::from_ptx(&case.ptx, &[]).map_err(|error| self.refusal(case, error))?;
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        match self.launch(&module, case) {
            Ok(Some(bytes)) => inside(&bytes),
            Ok(None) => {
                let what = format!("still running after {PATIENCE:?}");
                self.start_again(index, &what);
                gemmite_tests::say(&format!("{}: {what}", case.name));
                std::process::abort(); // an orderly end would wait for the kernel
            }
            Err(error) => {
                let what = format!("{error:?} ({error})");
                // What fails before the launch leaves the context whole.
                if CurrentContext::synchronize().is_err()
                    && let Some(code) = self.start_again(index, &what)
                {
                    std::process::exit(code);
                }
                Err(Verdict::Failed(what))
            }
        }
    }

    /// What the driver's compiler says of a module that it has refused.
    fn refusal(&self, case: &Case, error: CudaError) -> Verdict {
        let log = gemmite::cuda::check_ptx(&self.device, &case.name, &case.ptx);
        // The library's error puts the log at its end.
        let log = log.map_or_else(|error| error.to_string(), |()| "no log".to_owned());
        Verdict::Refused(format!("{error:?}: {log}"))
    }

    /// Launches a case and waits: its output between guards, `None` if it hangs.
    fn launch(&self, module: &Module, case: &Case) -> Result<Option<Vec<u8>>, CudaError> {
        let function = module.get_function(ENTRY)?;
        let stream = Stream::new(StreamFlags::DEFAULT, None)?;
        let done = Event::new(EventFlags::DISABLE_TIMING)?;
        let mut bytes = vec![POISON; case.output_bytes() + 2 * GUARD_BYTES];
        let input = DeviceBuffer::from_slice(&case.input)?;
        let output = DeviceBuffer::from_slice(&bytes)?;
        let mut addresses = [input.as_device_ptr().as_raw(), output.as_device_ptr().as_raw()];
        addresses[1] += GUARD_BYTES as u64;
        let mut n = case.n;
        let [from, to] = addresses.each_mut().map(|address| std::ptr::from_mut(address).cast());
        let parameters: [*mut c_void; 3] = [from, to, std::ptr::from_mut(&mut n).cast()];
        // SAFETY: every case takes two addresses and a `u32`, and stays within its input and its
        // output, which live until it has ended.
        unsafe { stream.launch(&function, case.blocks, case.threads, 0, &parameters)? };
        done.record(&stream)?;
        let start = Instant::now();
        while done.query()? == EventStatus::NotReady {
            if start.elapsed() > PATIENCE {
                // To free them would wait for the kernel.
                std::mem::forget((input, output, stream, done));
                return Ok(None);
            }
            std::thread::yield_now();
        }
        output.copy_to(&mut bytes)?;
        Ok(Some(bytes))
    }

    /// Runs the test in another process without this case: how that one ended, `None` if it has
    /// been done too often.
    fn start_again(&self, index: usize, what: &str) -> Option<i32> {
        if self.lost.len() >= MAX_LOST {
            return None;
        }
        let lost = self.lost.iter().map(|(index, what)| (*index, what.as_str()));
        let lost = lost.chain([(index, what)]).map(|(index, what)| format!("{index} {what}\n"));
        let program = std::env::current_exe().expect("this program");
        let status = Command::new(program)
            .args(["--exact", "instructions_do_what_the_emulator_does", "--nocapture"])
            .env(LOST, lost.collect::<String>())
            .status();
        Some(status.ok().and_then(|status| status.code()).unwrap_or(1))
    }
}

/// What lies between the guards.
fn inside(bytes: &[u8]) -> Result<Vec<u8>, Verdict> {
    let (before, rest) = bytes.split_at(GUARD_BYTES);
    let (output, after) = rest.split_at(rest.len() - GUARD_BYTES);
    if before.iter().chain(after).any(|&byte| byte != POISON) {
        return Err(Verdict::Failed("a write outside of the output".to_owned()));
    }
    Ok(output.to_vec())
}
