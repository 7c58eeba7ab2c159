//! Plans that were made before, those that were tuned, and launches that followed from them.

use super::invariant::is_for_sums_alone;
use super::{Chosen, KernelChoice, Task, choose};
use crate::device::DeviceInfo;
use crate::error::Error;
use crate::launch::{Again, Whole};
use rustc_hash::FxHashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Plans that are kept, and as many launches: of more, all are forgotten and made again as they are
/// asked for.
const MOST: usize = 4096;

/// The choices of [`KernelChoice::Auto`] for a device, each made once: the tuned one where there is
/// one, else the model's.
#[derive(Debug, Default)]
pub(crate) struct PlanCache(Mutex<Plans>);

/// The keys are the caller's own products, so that nobody has to be kept from making them collide.
#[derive(Debug, Default)]
struct Plans {
    made: FxHashMap<Task, Chosen>,
    tuned: FxHashMap<Task, Chosen>,
    /// How many times others have been tuned.
    tunings: u64,
    launches: FxHashMap<Again, Arc<Whole>>,
}

/// What is known of a product.
#[derive(Debug)]
pub(crate) enum Found {
    /// The launch that it was.
    Before(Arc<Whole>),
    /// Nothing, by the tuning of that number.
    Never(u64),
}

/// One entry more, of as many as are kept.
fn keep<K: Eq + Hash, V>(entries: &mut FxHashMap<K, V>, key: K, value: V) {
    if entries.len() >= MOST {
        entries.clear();
    }
    entries.insert(key, value);
}

impl PlanCache {
    /// As [`choose`].
    #[inline]
    pub(crate) fn choose(
        &self,
        choice: &KernelChoice,
        task: &Task,
        info: &DeviceInfo,
    ) -> Result<Chosen, Error> {
        if *choice != KernelChoice::Auto {
            return choose(choice, task, info);
        }
        let plans = self.lock();
        // What was tuned has no epilogue, and no beta.
        let sums = Task { fused: None, reads_c: false, ..*task };
        let has_it = |of: &&Chosen| task.fused.is_none() || !is_for_sums_alone(of.kernel);
        let tuned = plans.tuned.get(&sums).filter(has_it);
        if let Some(chosen) = tuned.or_else(|| plans.made.get(task)) {
            return Ok(*chosen);
        }
        drop(plans);
        let chosen = choose(choice, task, info)?;
        keep(&mut self.lock().made, *task, chosen);
        Ok(chosen)
    }

    /// The launch that the product was before.
    #[inline]
    pub(crate) fn launch(&self, again: &Again) -> Found {
        let plans = self.lock();
        match plans.launches.get(again) {
            Some(whole) => Found::Before(Arc::clone(whole)),
            None => Found::Never(plans.tunings),
        }
    }

    /// Keeps the launch of a product, of which nothing was [found](Found::Never) before it was
    /// chosen, unless others have been tuned since.
    pub(crate) fn keep_launch(&self, again: Again, whole: Whole, since: u64) {
        let mut plans = self.lock();
        if plans.tunings == since {
            keep(&mut plans.launches, again, Arc::new(whole));
        }
    }

    /// Takes these from now on, in the place of those that were tuned before.
    pub(crate) fn tune(&self, tuned: FxHashMap<Task, Chosen>) {
        let mut plans = self.lock();
        plans.tuned = tuned;
        plans.tunings += 1;
        plans.launches.clear();
    }

    /// Nothing panics while it is locked.
    #[inline]
    fn lock(&self) -> MutexGuard<'_, Plans> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::tests::{hopper, task};
    use gemm_spec::{Activation, DType, Shape};

    #[test]
    fn a_plan_is_the_same_the_second_time_and_after_the_cache_was_full() {
        let (cache, info) = (PlanCache::default(), hopper());
        let of = |m: usize| task(DType::BF16, (m, 300));
        let direct = |m| choose(&KernelChoice::Auto, &of(m), &info).unwrap();
        let cached = |m| cache.choose(&KernelChoice::Auto, &of(m), &info).unwrap();
        for m in 1..4 {
            assert_eq!(cached(m), direct(m));
        }
        assert_eq!(cache.lock().made.len(), 3);
        for m in (4..MOST + 3).chain(1..4) {
            assert_eq!(cached(m), direct(m));
        }
        assert!(cache.lock().made.len() <= MOST);
        // What is asked for by name is no choice, and other tasks are others.
        let named = cache.choose(&"k02_tiled_16".into(), &of(2), &info).unwrap();
        assert_eq!(named.kernel.variant, "k02_tiled_16");
        let other = Task { shape: Shape::new(1, 300), k: 1 << 20, ..of(1) };
        assert!(cache.choose(&KernelChoice::Auto, &other, &info).unwrap().parts > 1);
    }

    #[test]
    fn what_was_tuned_is_taken_for_its_task_alone() {
        let (cache, info) = (PlanCache::default(), hopper());
        let (of, auto) = (task(DType::F32, (300, 300)), KernelChoice::Auto);
        let before = cache.choose(&auto, &of, &info).unwrap();
        let tuned = choose(&"k02_tiled_16/3".into(), &of, &info).unwrap();
        assert_ne!(tuned, before);
        cache.tune([(of, tuned)].into_iter().collect());
        assert_eq!(cache.choose(&auto, &of, &info).unwrap(), tuned);
        let named = cache.choose(&"k01_naive".into(), &of, &info).unwrap();
        assert_eq!(named.kernel.variant, "k01_naive");
        for other in [Task { k: 4097, ..of }, of.in_place()] {
            let chosen = cache.choose(&auto, &other, &info).unwrap();
            assert_eq!(chosen, choose(&auto, &other, &info).unwrap());
        }
        cache.tune(FxHashMap::default());
        assert_eq!(cache.choose(&auto, &of, &info).unwrap(), before);
    }

    #[test]
    fn what_was_tuned_is_taken_with_an_epilogue_by_kernels_that_have_it() {
        let (cache, info, auto) = (PlanCache::default(), hopper(), KernelChoice::Auto);
        let task = task(DType::BF16, (128, 4096));
        let sums = Task { maps: true, along_k: [true; 2], ..task };
        let fused = Task { fused: Some(Activation::Relu), ..sums };
        for (variant, has_it) in [("warp_group_64x64", true), ("warp_group_swap_ab_128x160", false)]
        {
            let tuned = choose(&variant.into(), &sums, &info).unwrap();
            cache.tune([(sums, tuned)].into_iter().collect());
            assert_eq!(cache.choose(&auto, &sums, &info).unwrap(), tuned);
            assert_eq!(cache.choose(&auto, &fused, &info).unwrap() == tuned, has_it);
        }
    }
}
