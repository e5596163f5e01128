//! Exemplars: the trace of one request for each bucket of a call's duration and of its overhead.
//!
//! Kept only for scrapers that read OpenMetrics, whose text is made in `open_metrics`. A bucket takes one request after each
//! scrape: all others read one number, and neither allocate nor lock.

use super::FinishedRequest;
use super::families::{DURATION, DURATION_BUCKETS, OVERHEAD, OVERHEAD_BUCKETS};
use super::open_metrics::escaped;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

/// OpenMetrics allows 128 characters for the labels of an exemplar, with their names.
const MAX_TRACE_LENGTH: usize = 100;
/// How many requests whose series are not at hand may look for theirs after each scrape.
const LOOK_UPS: u32 = 64;

/// The exemplars of all series.
#[derive(Debug, Default)]
pub(super) struct Exemplars {
    /// Whether a scraper reads them.
    are_read: AtomicBool,
    /// How many requests whose series are looked up may still do so before the next scrape.
    looked_up: AtomicU32,
    /// By the text of a histogram's series. As many as there are series, which `LabelLimit` bounds.
    series: Mutex<HashMap<Box<str>, Arc<HistogramExemplars>>>,
}

/// The exemplars of the requests with one operation, provider and model.
#[derive(Debug)]
pub(super) struct SeriesExemplars {
    duration: Arc<HistogramExemplars>,
    overhead: Arc<HistogramExemplars>,
}

#[derive(Debug)]
struct HistogramExemplars {
    bounds: &'static [f64],
    /// A bit for each bucket that has no exemplar since the last scrape.
    wanted: AtomicU32,
    /// By bucket; the last one has no bound.
    kept: Box<[Mutex<Option<Exemplar>>]>,
}

#[derive(Debug)]
struct Exemplar {
    trace: String,
    /// Seconds.
    value: f64,
    /// Milliseconds since 1970.
    at: i64,
}

impl Exemplars {
    /// Whether a request may keep its trace. `is_at_hand`: its series belong to its target; others cost a look-up, of which there
    /// are few after each scrape.
    #[inline]
    pub fn are_wanted(&self, is_at_hand: bool) -> bool {
        let take_one = || {
            let less = |left: u32| left.checked_sub(1);
            self.looked_up.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_ok()
        };
        self.are_read.load(Ordering::Relaxed) && (is_at_hand || take_one())
    }

    /// Those of the series of this request, whose model has this label.
    pub fn of(&self, request: &FinishedRequest<'_>, model: &str) -> SeriesExemplars {
        let operation = escaped(request.operation);
        let provider = escaped(request.provider);
        let model = escaped(model);
        let duration = format!(
            "{DURATION}_bucket{{gen_ai_operation_name=\"{operation}\",\
             gen_ai_provider_name=\"{provider}\",gen_ai_request_model=\"{model}\","
        );
        let overhead = format!("{OVERHEAD}_bucket{{operation=\"{operation}\",");
        let mut all = self.series.lock();
        let mut find = |series: String, bounds| {
            Arc::clone(all.entry(series.into()).or_insert_with(|| Arc::new(HistogramExemplars::new(bounds))))
        };
        SeriesExemplars {
            duration: find(duration, DURATION_BUCKETS),
            overhead: find(overhead, OVERHEAD_BUCKETS),
        }
    }

    /// The exemplar of each series of a bucket, as the page has them. From now on each bucket takes another one.
    pub fn collect(&self) -> HashMap<String, String> {
        self.are_read.store(true, Ordering::Relaxed);
        self.looked_up.store(LOOK_UPS, Ordering::Relaxed);
        let mut found = HashMap::new();
        for (series, exemplars) in &*self.series.lock() {
            exemplars.collect(series, &mut found);
        }
        found
    }
}

impl SeriesExemplars {
    /// Keeps the trace of a request in the buckets that want one. `trace` is called only then; `None`: it is not recorded.
    #[inline]
    pub fn observe(&self, total: Duration, overhead: Duration, trace: &dyn Fn() -> Option<String>) {
        self.duration.observe(total, trace);
        self.overhead.observe(overhead, trace);
    }
}

impl HistogramExemplars {
    fn new(bounds: &'static [f64]) -> Self {
        let kept = std::iter::repeat_with(Mutex::default).take(bounds.len() + 1).collect();
        Self { bounds, wanted: AtomicU32::new(u32::MAX), kept }
    }

    #[inline]
    fn observe(&self, value: Duration, trace: &dyn Fn() -> Option<String>) {
        let wanted = self.wanted.load(Ordering::Relaxed);
        if wanted & self.all() != 0 {
            self.keep(wanted, value.as_secs_f64(), trace);
        }
    }

    /// The bits of all buckets.
    fn all(&self) -> u32 {
        (1 << self.kept.len()) - 1
    }

    fn keep(&self, wanted: u32, value: f64, trace: &dyn Fn() -> Option<String>) {
        let bucket = self.bounds.iter().take_while(|bound| value > **bound).count();
        let bit = 1 << bucket;
        if wanted & bit == 0 {
            return;
        }
        let Some(trace) = trace().filter(|trace| !trace.is_empty() && trace.len() <= MAX_TRACE_LENGTH) else {
            return;
        };
        // Of several requests at once, one.
        if self.wanted.fetch_and(!bit, Ordering::Relaxed) & bit == 0 {
            return;
        }
        let at = jiff::Timestamp::now().as_millisecond();
        if let Some(kept) = self.kept.get(bucket) {
            *kept.lock() = Some(Exemplar { trace, value, at });
        }
    }

    fn collect(&self, series: &str, found: &mut HashMap<String, String>) {
        let bounds = self.bounds.iter().map(f64::to_string).chain(["+Inf".to_owned()]);
        for (kept, bound) in self.kept.iter().zip(bounds) {
            let Some(Exemplar { trace, value, at }) = &*kept.lock() else { continue };
            let mut text = String::new();
            let trace = escaped(trace);
            let milliseconds = at.rem_euclid(1_000);
            let seconds = at.div_euclid(1_000);
            // Writing to a string does not fail.
            let _ = write!(text, " # {{trace_id=\"{trace}\"}} {value} {seconds}.{milliseconds:03}");
            found.insert(format!("{series}le=\"{bound}\"}}"), text);
        }
        self.wanted.store(u32::MAX, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::super::{FinishedRequest, Metrics, TargetSeries};
    use std::cell::Cell;
    use std::time::Duration;

    #[test]
    fn each_bucket_takes_one_trace_after_a_scrape_of_open_metrics() {
        let metrics = Metrics::new().unwrap();
        let target = TargetSeries::default();
        let called = Cell::new(0);
        let send = |trace: &str, model: &str, seconds: f64| {
            let request = FinishedRequest {
                operation: "chat",
                provider: "openai",
                model,
                status: 200,
                total: Duration::from_secs_f64(seconds),
                first_chunk: None,
                overhead: Duration::from_micros(60),
                input_tokens: None,
                output_tokens: None,
                cost: None,
                bytes_in: 1,
                bytes_out: 1,
            };
            metrics.record_request(&request, Some(&target), &|| {
                called.set(called.get() + 1);
                Some(trace.to_owned())
            });
        };
        let page = || String::from_utf8(metrics.render_open_metrics(&[])).unwrap();
        let plain = || String::from_utf8(metrics.render(&[])).unwrap();
        send("before", "m", 0.03);
        assert_eq!(called.get(), 0, "nobody reads exemplars yet");
        assert!(!page().contains(" # {") && page().ends_with("# EOF\n"));
        send("first", "m", 0.03);
        send("second", "m", 0.03);
        send("slow", "m", 3.0);
        // Its series are not those of the target.
        send("tr\"ace", "other-model", 100.0);
        let text = page();
        let bucket = |model: &str, le: &str| {
            let series = format!(
                "gen_ai_client_operation_duration_seconds_bucket{{gen_ai_operation_name=\"chat\",\
                 gen_ai_provider_name=\"openai\",gen_ai_request_model=\"{model}\",le=\"{le}\"}} "
            );
            text.lines().find(|line| line.starts_with(&series)).unwrap().to_owned()
        };
        assert!(bucket("m", "0.04").contains("3 # {trace_id=\"first\"} 0.03 "), "{text}");
        assert!(bucket("m", "5.12").contains("# {trace_id=\"slow\"} 3 "), "{text}");
        assert!(bucket("other-model", "+Inf").contains("# {trace_id=\"tr\\\"ace\"} 100 "), "{text}");
        assert!(!bucket("m", "0.08").contains('#') && !text.contains("\"second\""), "{text}");
        assert!(text.contains(
            "turnpike_overhead_seconds_bucket{operation=\"chat\",le=\"0.0001\"} 5 # {trace_id=\"first\"}"
        ));
        assert!(!plain().contains(" # {"), "plain text has no exemplars");
        send("third", "m", 0.03);
        assert!(page().contains("\"third\"} 0.03") && !page().contains("\"first\"} 0.03"));
        for number in 0..1_000 {
            send("many", &format!("model-{number}"), 0.03);
        }
        assert!(called.get() < 200, "{} requests made a trace's name", called.get());
    }
}
