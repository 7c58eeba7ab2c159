//! What a plan takes at the least, by the [model](super::model): what cannot win is not looked at.

use super::choose::Task;
use super::model::{
    COPIED, LAUNCH, MULTIPROCESSORS, OF_COPIES, TENSOR_RATE, alone, bytes_of_sums, copying,
    finishing, l2_ratio, least_placed, least_steps, memory_rate, of_tensor_cores, operand_bytes,
    steps_of_part,
};
use super::speed::Speed;
use crate::device::DeviceInfo;
use gemm_spec::Kernel;

/// Microseconds below which no [`Prediction`](super::Prediction) for a task is, by whatever kernel.
#[derive(Clone, Copy)]
pub(super) struct Floor<'a> {
    task: &'a Task,
    /// Steps of one element of C, all of them.
    products: f64,
    multiprocessors: f64,
    /// Microseconds that memory takes for a byte, at the least.
    of_byte: f64,
    l2_ratio: f64,
    /// Bytes of A and B.
    operands: f64,
    /// Microseconds of the copies without which maps cannot describe A and B.
    copies: f64,
}

/// The same by one kernel.
#[derive(Clone, Copy)]
pub(super) struct Least {
    /// Of K in one part.
    pub whole: f64,
    /// The same where its last rows or columns are computed apart.
    pub of_one_tile: f64,
    /// Of K in several.
    pub of_parts: f64,
}

impl Least {
    /// Known of every kernel.
    pub const NONE: Least = Least { whole: 0.0, of_one_tile: 0.0, of_parts: 0.0 };

    /// Of K in as many parts as one likes.
    pub fn all(&self) -> f64 {
        self.whole.min(self.of_parts)
    }
}

impl Floor<'_> {
    /// Of every task.
    pub const OF_ALL: f64 = LAUNCH;

    pub fn new<'a>(task: &'a Task, info: &DeviceInfo) -> Floor<'a> {
        let (m, n, k) = (task.shape.rows as f64, task.shape.cols as f64, task.k as f64);
        Floor {
            task,
            products: m * n * k * task.batch as f64,
            multiprocessors: info.multiprocessors.map_or(MULTIPROCESSORS, f64::from),
            of_byte: 1.0 / (OF_COPIES * memory_rate(info)),
            l2_ratio: l2_ratio(info),
            operands: operand_bytes(task).iter().sum(),
            copies: match task.unmapped {
                Some(copied) if copied != [false; 2] => {
                    LAUNCH + copying(copied, COPIED, task, info)
                }
                _ => 0.0,
            },
        }
    }

    /// As if all multiprocessors had work to the end, at the rate of one that is alone; on a GPU of
    /// fewer than a cluster has, as if it had so many, which is how the model counts there. Nor is
    /// one tile done sooner than its steps are, one after the other, or memory faster than it is.
    pub fn least(&self, kernel: &Kernel, speed: &Speed) -> Least {
        let Floor { task, products, .. } = *self;
        let multiprocessors = self.multiprocessors.max(kernel.cluster() as f64);
        let operations = speed.operations * speed.by_l2(self.l2_ratio, kernel, task);
        let rate = 0.5 * operations * (1.0 + alone(kernel));
        let rate = match kernel.takes_maps() {
            true => rate.min(kernel.tiles.block[2] as f64 * TENSOR_RATE),
            false => rate,
        };
        let [of_work, _] = least_placed(kernel);
        let working = of_work * products / (rate * multiprocessors);
        let steps = task.k.div_ceil(kernel.tiles.block[2]);
        let few = steps.min(least_steps(kernel)) as f64;
        let one = least_of_tile(kernel, speed, steps_of_part(kernel, 1, task), task);
        let few = least_of_tile(kernel, speed, few, task);
        let [memory, of_parts] = [1, 2].map(|parts| self.of_memory(parts));
        let before = LAUNCH + self.copies_for(kernel);
        Least {
            whole: before + working.max(one).max(memory),
            of_one_tile: before + one.max(memory),
            of_parts: before + least_of_adding(kernel, 2, task) + working.max(few).max(of_parts),
        }
    }

    /// The same of K in so many parts, more than one.
    pub fn of_parts(&self, kernel: &Kernel, parts: usize) -> f64 {
        let steps = steps_of_part(kernel, parts, self.task);
        let of_tile = least_of_tile(kernel, &Speed::of(kernel), steps, self.task);
        let adding = least_of_adding(kernel, parts, self.task);
        LAUNCH + self.copies_for(kernel) + adding + of_tile.max(self.of_memory(parts))
    }

    fn copies_for(&self, kernel: &Kernel) -> f64 {
        if kernel.takes_maps() { self.copies } else { 0.0 }
    }

    /// The least that memory takes for the operands, and for C or for the sums of so many parts.
    fn of_memory(&self, parts: usize) -> f64 {
        (self.operands + bytes_of_sums(parts, self.task)) * self.of_byte
    }
}

/// The least microseconds of one tile of so many steps: of an empty C there is none, and equal
/// shares have parts of one.
fn least_of_tile(kernel: &Kernel, speed: &Speed, steps: f64, task: &Task) -> f64 {
    match task.shape.is_empty() || kernel.joins() {
        true => 0.0,
        false => {
            let [_, of_least] = least_placed(kernel);
            speed.tile + steps * of_tensor_cores(of_least * speed.step, kernel)
        }
    }
}

/// The least that adding up so many parts takes, and its launch.
fn least_of_adding(kernel: &Kernel, parts: usize, task: &Task) -> f64 {
    let (of_finish, rate) = finishing(kernel);
    LAUNCH + of_finish + bytes_of_sums(parts, task) / rate
}
