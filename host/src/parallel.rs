//! Loops on all of rayon's threads, whose bodies have no types of their own: else rayon's machinery
//! is compiled once more for every dtype, which was a third of this crate's code.

use rayon::prelude::*;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Calls `work` with every number below `count`.
fn each(count: usize, work: &(dyn Fn(usize) + Sync)) {
    (0..count).into_par_iter().for_each(work);
}

/// Calls `work` with every number below `count`, and with something to work with, of which there
/// are as many as calls at one time.
pub fn each_with<S: Send>(
    count: usize,
    start: impl Fn() -> S + Sync,
    work: impl Fn(&mut S, usize) + Sync,
) {
    let spare = Mutex::new(Vec::new());
    each(count, &|number| {
        let taken = lock(&spare).pop();
        let mut with = taken.unwrap_or_else(&start);
        work(&mut with, number);
        lock(&spare).push(with);
    });
}

/// Calls `work` with every chunk of `len` elements, of which the last may have fewer, and with the
/// chunk's number.
pub fn each_chunk<T: Send>(all: &mut [T], len: usize, work: impl Fn(usize, &mut [T]) + Sync) {
    let count = all.len().div_ceil(len);
    let chunks = Mutex::new(all.chunks_mut(len).enumerate());
    each(count, &|_| {
        let next = lock(&chunks).next();
        if let Some((number, chunk)) = next {
            work(number, chunk);
        }
    });
}

/// What `work` says of every number below `count`, put together in that order.
pub fn reduce<R: Default + Send>(
    count: usize,
    work: &(dyn Fn(usize) -> R + Sync),
    join: fn(R, R) -> R,
) -> R {
    (0..count).into_par_iter().map(work).reduce(R::default, join)
}

/// What another thread has left behind when it panicked is whole: nothing panics while it has it.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_and_chunk_comes_once_and_in_order() {
        let text = |number: usize| vec![number];
        let join = |mut a: Vec<usize>, b: Vec<usize>| {
            a.extend(b);
            a
        };
        assert_eq!(reduce(1000, &text, join), (0..1000).collect::<Vec<_>>());
        assert_eq!(reduce(0, &text, join), []);
        let mut numbers = [usize::MAX; 10];
        each_chunk(&mut numbers, 4, |number, chunk| chunk.fill(number));
        assert_eq!(numbers, [0, 0, 0, 0, 1, 1, 1, 1, 2, 2]);
        let seen = Mutex::new(vec![0; 100]);
        let start = || 0;
        each_with(100, start, |calls, number| {
            *calls += 1;
            seen.lock().unwrap()[number] += 1;
        });
        assert_eq!(*seen.lock().unwrap(), [1; 100]);
    }
}
