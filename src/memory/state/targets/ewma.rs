//! A target's latency: an exponentially decaying average of its times to the first token.
//!
//! Not the duration of whole requests, and nothing about failures, which are the breaker's.

use crate::state::handed_over::{age, instant};
use serde::{Deserialize, Serialize};
use std::time::{Duration, Instant};

/// After this long a sample has half its weight.
const HALF_LIFE: Duration = Duration::from_secs(10);
/// After this long without a sample there is no average. Otherwise a target that was slow once would never be chosen,
/// and so never be measured, again.
const MAX_AGE: Duration = Duration::from_secs(60);

/// The average, weighted by `0.5 ^ (age / 10 s)`.
#[derive(Debug, Default)]
pub(super) struct LatencyEwma {
    /// The weighted sum of samples in seconds and the sum of the weights, as of the last sample.
    sum: f64,
    weight: f64,
    last: Option<Instant>,
}

/// The average as another process gets it.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct LatencyMemory {
    sum: f64,
    weight: f64,
    /// How long ago the last sample was, milliseconds.
    last: u64,
}

impl LatencyMemory {
    pub(super) fn restored(self, now: Instant) -> LatencyEwma {
        LatencyEwma { sum: self.sum, weight: self.weight, last: Some(instant(self.last, now)) }
    }
}

impl LatencyEwma {
    /// What another process needs to go on with it; `None` without a sample.
    pub fn carried(&self, now: Instant) -> Option<LatencyMemory> {
        Some(LatencyMemory { sum: self.sum, weight: self.weight, last: age(self.last?, now) })
    }

    pub fn add(&mut self, spent: Duration, now: Instant) {
        let age = self.last.map_or(Duration::ZERO, |last| now.saturating_duration_since(last));
        let fade = 0.5_f64.powf(age.as_secs_f64() / HALF_LIFE.as_secs_f64());
        self.sum = self.sum * fade + spent.as_secs_f64();
        self.weight = self.weight * fade + 1.0;
        // Samples of two threads may arrive in the wrong order; `last` never goes back.
        self.last = self.last.max(Some(now));
    }

    /// `None` when nothing was measured for a minute.
    pub fn mean(&self, now: Instant) -> Option<Duration> {
        let last = self.last?;
        if now.saturating_duration_since(last) > MAX_AGE {
            return None;
        }
        Duration::try_from_secs_f64(self.sum / self.weight).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_values_fade_and_are_forgotten() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut latency = LatencyEwma::default();
        assert_eq!(latency.mean(start), None);
        // (seconds, time to the first token in ms, mean in ms after it)
        for (seconds, spent, wanted) in [
            (0, 1000, 1000.0),
            (0, 2000, 1500.0),
            // A sum of 3 s with weight 2 has become 1.5 s with weight 1.
            (10, 500, 1000.0),
            // A sum of 2 s with weight 2 has become 0.5 s with weight 0.5 after two half-lives.
            (30, 1000, 1000.0),
            // A sample with an older time decays nothing.
            (29, 1000, 1000.0),
            (1_000_000, 300, 300.0),
        ] {
            latency.add(Duration::from_millis(spent), at(seconds));
            let mean = latency.mean(at(seconds)).unwrap().as_secs_f64() * 1000.0;
            assert!((mean - wanted).abs() < 0.01, "at {seconds}: {mean}, not {wanted}");
        }
        assert!(latency.mean(at(1_000_060)).is_some());
        assert_eq!(latency.mean(at(1_000_061)), None);
    }
}
