//! Clocks, temperature, power and throttling while something runs, as NVML tells them.

use super::Gpu;
use anyhow::{Context, Result};
use nvml_wrapper::Nvml;
use nvml_wrapper::bitmasks::device::ThrottleReasons;
use nvml_wrapper::enum_wrappers::device::{Clock, TemperatureSensor};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Opens NVML once and watches a GPU on request.
pub struct Watch {
    nvml: Arc<Nvml>,
    pci_bus_id: String,
}

/// What was seen while something ran; `None` where NVML does not say.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Seen {
    /// Lowest clock of the multiprocessors, MHz.
    pub sm_mhz: Option<u32>,
    /// Highest temperature, degrees Celsius.
    pub temp_c: Option<u32>,
    /// Highest power draw, W.
    pub power_w: Option<u32>,
    /// Why clocks were under their maximum at some time, joined by `+`.
    pub throttle: String,
}

impl Watch {
    /// # Errors
    /// When there is no NVML, or it does not know the GPU.
    pub fn new(gpu: &Gpu) -> Result<Watch> {
        let nvml = Nvml::init().context("NVML does not open, so clocks and power are unknown")?;
        let pci_bus_id = gpu.pci_bus_id()?;
        nvml.device_by_pci_bus_id(pci_bus_id.as_str())?;
        Ok(Watch { nvml: Arc::new(nvml), pci_bus_id })
    }

    /// The driver's own version, as in 580.159.04.
    pub fn driver_version(&self) -> Option<String> {
        self.nvml.sys_driver_version().ok()
    }

    /// Runs `work` and tells what another thread saw meanwhile, every 10 ms or so.
    pub fn during<R>(&self, work: impl FnOnce() -> R) -> (R, Seen) {
        let done = Arc::new(AtomicBool::new(false));
        let thread: JoinHandle<Vec<Reading>> = std::thread::spawn({
            let (nvml, pci_bus_id) = (Arc::clone(&self.nvml), self.pci_bus_id.clone());
            let done = Arc::clone(&done);
            move || {
                let mut readings = Vec::new();
                // The first reading waits, so that it falls into the work.
                while !done.load(Ordering::Relaxed) {
                    std::thread::sleep(Duration::from_millis(10));
                    readings.push(Reading::take(&nvml, &pci_bus_id));
                }
                readings
            }
        });
        let result = work();
        done.store(true, Ordering::Relaxed);
        (result, Seen::of(&thread.join().unwrap_or_default()))
    }
}

#[derive(Clone, Debug, Default)]
struct Reading {
    sm_mhz: Option<u32>,
    temp_c: Option<u32>,
    power_mw: Option<u32>,
    throttle: Option<ThrottleReasons>,
}

impl Reading {
    fn take(nvml: &Nvml, pci_bus_id: &str) -> Reading {
        let Ok(device) = nvml.device_by_pci_bus_id(pci_bus_id) else { return Reading::default() };
        Reading {
            sm_mhz: device.clock_info(Clock::SM).ok(),
            temp_c: device.temperature(TemperatureSensor::Gpu).ok(),
            power_mw: device.power_usage().ok(),
            throttle: device.current_throttle_reasons().ok(),
        }
    }
}

impl Seen {
    fn of(readings: &[Reading]) -> Seen {
        // An idle GPU, between two samples, is no reason of interest.
        let idle = ThrottleReasons::GPU_IDLE;
        let reasons =
            readings.iter().filter_map(|r| r.throttle).fold(ThrottleReasons::empty(), |a, b| a | b);
        let names = (reasons - idle).iter_names().map(|(name, _)| name.to_lowercase());
        Seen {
            sm_mhz: readings.iter().filter_map(|r| r.sm_mhz).min(),
            temp_c: readings.iter().filter_map(|r| r.temp_c).max(),
            power_w: readings.iter().filter_map(|r| r.power_mw).max().map(|mw| mw / 1000),
            throttle: names.collect::<Vec<_>>().join("+"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_of_all_readings_counts() {
        let reading = |sm, temp, power, throttle| Reading {
            sm_mhz: Some(sm),
            temp_c: Some(temp),
            power_mw: Some(power),
            throttle: Some(throttle),
        };
        let seen = Seen::of(&[
            reading(1980, 40, 300_500, ThrottleReasons::GPU_IDLE),
            reading(1700, 45, 650_000, ThrottleReasons::SW_POWER_CAP),
            Reading::default(),
        ]);
        let expected = Seen {
            sm_mhz: Some(1700),
            temp_c: Some(45),
            power_w: Some(650),
            throttle: "sw_power_cap".into(),
        };
        assert_eq!(seen, expected);
        assert_eq!(Seen::of(&[]), Seen::default());
    }
}
