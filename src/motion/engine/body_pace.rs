//! How fast a client must send the body of its request.
//!
//! Not how long it may send nothing: that is the connection's own timeout.

use std::time::{Duration, Instant};
use words::error::Error;
use words::settings::Limits;

/// How fast a body must arrive. Without a least rate, a client could have its part of a body held for ever by sending a
/// byte now and then.
#[derive(Debug, Clone)]
pub struct BodyPace {
    started: Instant,
    /// Not counted.
    grace: Duration,
    /// Bytes per second.
    min_rate: usize,
}

impl BodyPace {
    pub fn new(started: Instant, limits: &Limits) -> Self {
        Self { started, grace: limits.body_timeout, min_rate: limits.min_body_rate }
    }

    /// When more than `size` bytes must have arrived.
    pub fn deadline(&self, size: usize) -> Instant {
        let needed = Duration::from_secs_f64(size as f64 / self.min_rate.max(1) as f64);
        // A client that sends nothing is refused by the connection's own timeout.
        self.started + self.grace + needed.max(Duration::from_secs(1))
    }

    /// Whether the client is too slow, after it took `waited` for `size` bytes.
    fn is_over(&self, waited: Duration, size: usize) -> bool {
        self.started + waited > self.deadline(size)
    }

    /// What the client is told.
    pub fn error(&self) -> Error {
        Error::slow_client(format!(
            "The request body arrives too slowly: after {} ms it must come at {} bytes a second or more. Send it \
             faster, or ask the operator to lower limits.min_body_rate.",
            self.grace.as_millis(),
            self.min_rate
        ))
    }
}

/// The pace of a body that is sent on as it arrives. Only the time in which the client was waited for counts, not what the
/// provider takes.
#[derive(Debug)]
pub struct UploadPace {
    pace: BodyPace,
    waited: Duration,
    bytes: usize,
}

impl UploadPace {
    pub fn new(limits: &Limits) -> Self {
        Self { pace: BodyPace::new(Instant::now(), limits), waited: Duration::ZERO, bytes: 0 }
    }

    /// A chunk has arrived that was waited for so long.
    ///
    /// # Errors
    /// The client is too slow.
    pub fn arrived(&mut self, chunk: usize, waited: Duration) -> Result<(), Error> {
        self.waited += waited;
        let is_over = self.pace.is_over(self.waited, self.bytes);
        self.bytes += chunk;
        if is_over { Err(self.pace.error()) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_client_that_stays_behind_the_least_rate_is_too_slow() {
        let limits =
            Limits { body_timeout: Duration::from_secs(3), min_body_rate: 1000, ..Limits::default() };
        let second = Duration::from_secs(1);
        let mut trickle = UploadPace::new(&limits);
        let passed = (0..).take_while(|_| trickle.arrived(1, second).is_ok()).count();
        assert_eq!(passed, 4, "the grace, and a second");
        let mut steady = UploadPace::new(&limits);
        assert!((0..1000).all(|_| steady.arrived(1000, second).is_ok()));
        assert!(steady.arrived(1, 5 * second).is_err());
    }
}
