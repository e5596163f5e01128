//! What is counted of a group of requests: requests, money, tokens, latency, cache, retries.
//!
//! Only sums, so that groups are merged by adding; averages and rates are computed from them.

use super::bytes::{Damaged, Reader, put_number};

/// Requests that succeeded after so many retries are counted apart, the last number for those with more.
pub const MAX_RETRIES: usize = 8;

/// Sums over requests. Their attempts are in them: money and tokens of a request are those of all its attempts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Measures {
    pub requests: u64,
    pub successes: u64,
    /// Microseconds from the request to the end of the response.
    pub latency: u64,
    pub input_tokens: u64,
    pub output_tokens: u64,
    pub total_tokens: u64,
    /// Nanodollars of the requests whose price was known.
    pub cost: u64,
    /// Requests that cost something and whose price was unknown.
    pub unpriced: u64,
    /// Requests with a price, or declared free.
    pub priced: u64,
    pub simple_hits: u64,
    pub semantic_hits: u64,
    /// Nanodollars that hits would have cost.
    pub simple_saved: u64,
    pub semantic_saved: u64,
    /// Microseconds that hits took.
    pub hit_latency: u64,
    /// Requests that succeeded at another target than the first.
    pub fallbacks: u64,
    /// Requests that succeeded after 1, 2, … retries.
    pub retried: [u64; MAX_RETRIES],
    /// Milliseconds since 1970 of the first and the last request.
    pub first: i64,
    pub last: i64,
}

impl Default for Measures {
    fn default() -> Self {
        Self {
            requests: 0,
            successes: 0,
            latency: 0,
            input_tokens: 0,
            output_tokens: 0,
            total_tokens: 0,
            cost: 0,
            unpriced: 0,
            priced: 0,
            simple_hits: 0,
            semantic_hits: 0,
            simple_saved: 0,
            semantic_saved: 0,
            hit_latency: 0,
            fallbacks: 0,
            retried: [0; MAX_RETRIES],
            first: i64::MAX,
            last: i64::MIN,
        }
    }
}

impl Measures {
    pub fn merge(&mut self, other: &Self) {
        for (mine, others) in self.sums_mut().into_iter().zip(other.sums()) {
            *mine = mine.saturating_add(others);
        }
        for (mine, others) in self.retried.iter_mut().zip(other.retried) {
            *mine = mine.saturating_add(others);
        }
        self.first = self.first.min(other.first);
        self.last = self.last.max(other.last);
    }

    pub fn errors(&self) -> u64 {
        self.requests.saturating_sub(self.successes)
    }

    pub fn hits(&self) -> u64 {
        self.simple_hits.saturating_add(self.semantic_hits)
    }

    /// The sums in the order in which they are written. To add one, write it at the end and raise the version of the cells.
    fn sums(&self) -> [u64; 15] {
        [
            self.requests,
            self.successes,
            self.latency,
            self.input_tokens,
            self.output_tokens,
            self.total_tokens,
            self.cost,
            self.unpriced,
            self.priced,
            self.simple_hits,
            self.semantic_hits,
            self.simple_saved,
            self.semantic_saved,
            self.hit_latency,
            self.fallbacks,
        ]
    }

    fn sums_mut(&mut self) -> [&mut u64; 15] {
        [
            &mut self.requests,
            &mut self.successes,
            &mut self.latency,
            &mut self.input_tokens,
            &mut self.output_tokens,
            &mut self.total_tokens,
            &mut self.cost,
            &mut self.unpriced,
            &mut self.priced,
            &mut self.simple_hits,
            &mut self.semantic_hits,
            &mut self.simple_saved,
            &mut self.semantic_saved,
            &mut self.hit_latency,
            &mut self.fallbacks,
        ]
    }

    /// Appends its bytes. `start`: milliseconds since 1970, not after the first request.
    pub(super) fn put(&self, out: &mut Vec<u8>, start: i64) {
        self.sums().into_iter().for_each(|sum| put_number(out, sum));
        let retried = self.retried.iter().rposition(|count| *count > 0).map_or(0, |at| at + 1);
        put_number(out, retried as u64);
        self.retried.iter().take(retried).for_each(|count| put_number(out, *count));
        put_number(out, u64::try_from(self.first.saturating_sub(start)).unwrap_or(0));
        put_number(out, u64::try_from(self.last.saturating_sub(self.first)).unwrap_or(0));
    }

    pub(super) fn read(reader: &mut Reader<'_>, start: i64) -> Result<Self, Damaged> {
        let mut read = Self::default();
        for sum in read.sums_mut() {
            *sum = reader.number()?;
        }
        let retried = usize::try_from(reader.number()?).map_err(|_| Damaged)?;
        for at in 0..retried {
            *read.retried.get_mut(at).ok_or(Damaged)? = reader.number()?;
        }
        let milliseconds = |number: u64| i64::try_from(number).map_err(|_| Damaged);
        read.first = start.checked_add(milliseconds(reader.number()?)?).ok_or(Damaged)?;
        read.last = read.first.checked_add(milliseconds(reader.number()?)?).ok_or(Damaged)?;
        Ok(read)
    }
}
