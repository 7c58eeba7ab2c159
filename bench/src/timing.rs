//! Times on the GPU's own clock, taken in rounds so that every candidate sees the same state of the
//! card.

use anyhow::{Result, ensure};
use cust::event::{Event, EventFlags};
use cust::stream::Stream;

/// Something to time: enqueues its work on the stream and returns.
pub type Work<'a> = Box<dyn FnMut(&Stream) -> Result<()> + 'a>;

/// Times of one candidate in milliseconds.
#[derive(Clone, Debug)]
pub struct Times {
    sorted_ms: Vec<f32>,
}

impl Times {
    /// Times that were measured, in any order; at least one, none of them NaN.
    pub fn new(mut ms: Vec<f32>) -> Result<Times> {
        ensure!(!ms.is_empty() && ms.iter().all(|ms| ms.is_finite()), "no time was measured");
        ms.sort_by(f32::total_cmp);
        Ok(Times { sorted_ms: ms })
    }

    /// The middle one.
    pub fn median_ms(&self) -> f32 {
        self.quantile_ms(0.5)
    }

    /// The time that the fraction `q` of all stays at or under (nearest rank).
    pub fn quantile_ms(&self, q: f32) -> f32 {
        let last = self.sorted_ms.len() - 1;
        self.sorted_ms[(q * last as f32).round() as usize]
    }

    /// How many there are.
    pub fn rounds(&self) -> usize {
        self.sorted_ms.len()
    }
}

/// Runs every candidate `warm_up` times, then `rounds` times in alternation, each run between two
/// events.
///
/// A run shorter than the events' resolution (about half a microsecond) is not worth timing this
/// way.
pub fn alternate(
    stream: &Stream,
    candidates: &mut [Work<'_>],
    warm_up: usize,
    rounds: usize,
) -> Result<Vec<Times>> {
    for _ in 0..warm_up {
        for work in candidates.iter_mut() {
            work(stream)?;
        }
    }
    stream.synchronize()?;
    let mut ms = vec![Vec::with_capacity(rounds); candidates.len()];
    for _ in 0..rounds {
        for (work, ms) in candidates.iter_mut().zip(&mut ms) {
            ms.push(once(stream, work)?);
        }
    }
    ms.into_iter().map(Times::new).collect()
}

/// Milliseconds between two events around `work`, which has ended when this returns.
pub fn once(stream: &Stream, work: impl FnOnce(&Stream) -> Result<()>) -> Result<f32> {
    let (start, end) = (Event::new(EventFlags::DEFAULT)?, Event::new(EventFlags::DEFAULT)?);
    start.record(stream)?;
    work(stream)?;
    end.record(stream)?;
    end.synchronize()?;
    Ok(end.elapsed_time_f32(&start)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_nearest_ranks() {
        let times = Times::new(vec![3.0, 1.0, 2.0, 5.0, 4.0]).unwrap();
        assert_eq!(times.median_ms(), 3.0);
        assert_eq!(times.quantile_ms(0.0), 1.0);
        assert_eq!(times.quantile_ms(1.0), 5.0);
        assert_eq!(times.rounds(), 5);
    }

    #[test]
    fn no_time_and_nan_are_refused() {
        assert!(Times::new(vec![]).is_err());
        assert!(Times::new(vec![1.0, f32::NAN]).is_err());
    }
}
