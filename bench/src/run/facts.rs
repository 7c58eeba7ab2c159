//! What a run is made on and with.

use super::{Bench, OnGpu};
use crate::candidates::ours;
use crate::case::{Case, Data};
use crate::gpu::Operands;
use crate::suite::{Ops, Row};
use anyhow::Result;
use cust::memory::mem_get_info;
use gemmite::{DType, Op, bf16};
use std::time::Duration;

impl Bench {
    /// What the run is made on and with: facts for a record.
    pub fn facts(&self) -> Result<Vec<(String, String)>> {
        let mut facts = Vec::new();
        let mut fact = |key: &str, value: String| facts.push((key.to_owned(), value));
        let Bench::Gpu(on) = self else {
            fact("device", gemmite::Device::cpu().name().to_owned());
            return Ok(facts);
        };
        let info = on.gpu.device.info();
        fact("device", info.name.clone());
        if let Some((major, minor)) = info.driver_version {
            fact("cuda", format!("{major}.{minor}"));
        }
        match &on.watch {
            Ok(watch) => fact("driver", watch.driver_version().unwrap_or("unknown".into())),
            Err(error) => fact("driver", format!("unknown: {error:#}")),
        }
        for (peer, version) in on.versions() {
            match version {
                Ok(version) => fact(peer.name(), version),
                Err(absence) => fact("missing", format!("{peer}: {}", absence.reason)),
            }
        }
        fact("timer_floor_us", format!("{:.2}", on.gpu.timer_floor()?.as_secs_f64() * 1e6));
        fact("launch_us", format!("{:.2}", on.gpu.launch_time()?.as_secs_f64() * 1e6));
        fact("maps_us", format!("{:.2}", on.gpu.maps_time()?.as_secs_f64() * 1e6));
        for (name, time) in on.host_times()? {
            let key = if name == ours::AUTO {
                "enqueue_us".to_owned()
            } else {
                format!("enqueue_us_{name}")
            };
            match time {
                Ok(Some(time)) => fact(&key, format!("{:.2}", time.as_secs_f64() * 1e6)),
                Ok(None) => {}
                Err(error) => fact("missing", format!("{key}: {error:#}")),
            }
        }
        let [made, found] = on.gpu.plan_times()?;
        fact("plan_us", format!("{:.1}", made.as_secs_f64() * 1e6));
        fact("plan_found_ns", found.as_nanos().to_string());
        let (free, _) = mem_get_info()?;
        fact("copy_gbps", format!("{:.0}", on.gpu.copy_gbps(free.div_ceil(8).min(1 << 30))?));
        Ok(facts)
    }
}

impl OnGpu {
    /// The median time that the host spends on enqueuing 128^3 in bf16, which is compiled by then:
    /// for us the plan, the maps and the launch. Of cuBLASLt the heuristic's first candidate.
    fn host_times(&self) -> Result<Vec<(String, Result<Option<Duration>>)>> {
        let ops = Ops { op_a: Op::None, op_b: Op::None };
        let case = Case::<bf16>::generate(Row::new(DType::BF16, ops, [128; 3])?, Data::Normal)?;
        let operands = Operands::new(&self.gpu, &case)?;
        let mut entrants = ours::entrants(&self.gpu, &operands, &case, &[], 0);
        if let Some(Ok(lt)) = &self.cublaslt {
            entrants.extend(lt.entrants(&self.gpu, &operands, &case).into_iter().take(1));
        }
        let mut times = Vec::new();
        for entrant in entrants {
            let Ok(mut candidate) = entrant.candidate else { continue };
            // It is compiled then.
            let time = candidate.product().and_then(|_| candidate.host_time());
            times.push((entrant.name, time));
        }
        Ok(times)
    }
}
