//! A small timer for `route`, `translate`, `guard` and `limits`: nanoseconds and allocations of one call, printed as a Markdown row.
//!
//! Not a bench framework: the median of 31 batches after a warm-up, no baselines, no plots. The counting
//! allocator (`allocation_counter`) is the system's plus additions to counters of the thread, which cost some nanoseconds per allocation
//! and make no thread wait for another.

use std::hint::black_box;
use std::io::Write;
use std::time::{Duration, Instant};

const WARM_UP: Duration = Duration::from_millis(100);
const BATCH: Duration = Duration::from_millis(10);
const BATCHES: usize = 31;

/// The rows measured so far. The first command-line argument that is no flag selects rows by name.
pub(crate) struct Timer {
    wanted: Option<String>,
}

impl Timer {
    /// Prints the header of the table.
    pub(crate) fn start() -> Self {
        let wanted = std::env::args().skip(1).find(|argument| !argument.starts_with("--"));
        print("| | ns | allocations | bytes allocated |\n|---|---:|---:|---:|");
        Self { wanted }
    }

    /// Measures `call` and prints its row.
    pub(crate) fn row<T>(&self, name: &str, mut call: impl FnMut() -> T) {
        if self.wanted.as_ref().is_some_and(|wanted| !name.contains(wanted.as_str())) {
            return;
        }
        let mut times_in = |length: Duration| {
            let (start, mut times) = (Instant::now(), 0_u32);
            while start.elapsed() < length {
                black_box(call());
                times += 1;
            }
            times
        };
        let times = times_in(WARM_UP) / 10 + 1;
        debug_assert!(BATCH * 10 == WARM_UP);
        let counted = allocation_counter::measure(|| drop(black_box(call())));
        let mut batches: Vec<f64> = (0..BATCHES)
            .map(|_| {
                let start = Instant::now();
                for _ in 0..times {
                    black_box(call());
                }
                start.elapsed().as_secs_f64() * 1e9 / f64::from(times)
            })
            .collect();
        batches.sort_unstable_by(f64::total_cmp);
        let median = batches.get(BATCHES / 2).copied().unwrap_or_default();
        print(&format!("| {name} | {median:.0} | {} | {} |", counted.count_total, counted.bytes_total));
    }
}

fn print(line: &str) {
    // A closed pipe does not fail the bench.
    let _ = writeln!(std::io::stdout(), "{line}");
}
