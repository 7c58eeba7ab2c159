//! Plans that were made before.

use super::{Chosen, KernelChoice, Task, choose};
use crate::device::DeviceInfo;
use crate::error::Error;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

/// Plans that are kept: of more, all are forgotten and made again as they are asked for.
const MOST: usize = 4096;

/// The choices of [`KernelChoice::Auto`] for a device, each made once.
#[derive(Debug, Default)]
pub(crate) struct PlanCache(Mutex<HashMap<Task, Chosen>>);

impl PlanCache {
    /// As [`choose`].
    pub(crate) fn choose(
        &self,
        choice: &KernelChoice,
        task: &Task,
        info: &DeviceInfo,
    ) -> Result<Chosen, Error> {
        if *choice != KernelChoice::Auto {
            return choose(choice, task, info);
        }
        // Nothing panics while it is locked.
        let lock = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(chosen) = lock().get(task) {
            return Ok(*chosen);
        }
        let chosen = choose(choice, task, info)?;
        let mut plans = lock();
        if plans.len() >= MOST {
            plans.clear();
        }
        plans.insert(*task, chosen);
        Ok(chosen)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::tests::{hopper, task};
    use gemm_spec::{DType, Shape};

    #[test]
    fn a_plan_is_the_same_the_second_time_and_after_the_cache_was_full() {
        let (cache, info) = (PlanCache::default(), hopper());
        let of = |m: usize| task(DType::BF16, (m, 300));
        let direct = |m| choose(&KernelChoice::Auto, &of(m), &info).unwrap();
        let cached = |m| cache.choose(&KernelChoice::Auto, &of(m), &info).unwrap();
        for m in (1..MOST + 3).chain(1..4) {
            assert_eq!(cached(m), direct(m));
        }
        assert!(cache.0.lock().unwrap().len() <= MOST);
        // What is asked for by name is no choice, and other tasks are others.
        let named = cache.choose(&"k02_tiled_16".into(), &of(2), &info).unwrap();
        assert_eq!(named.kernel.variant, "k02_tiled_16");
        let other = Task { shape: Shape::new(1, 300), k: 1 << 20, ..of(1) };
        assert!(cache.choose(&KernelChoice::Auto, &other, &info).unwrap().parts > 1);
    }
}
