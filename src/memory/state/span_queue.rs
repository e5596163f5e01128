//! The bounded queue of finished spans between requests and the thread that sends them: no request ever waits for a collector.
//!
//! Not what a span has (`engine/sinks/spans`), and not the sending (`main/span_exporter`).
//!
//! Whether a request's trace is recorded is decided before its first attempt is sent, because the provider gets the span's id
//! (`Attempt::trace_parent`).

use super::held_bytes::Hold;
use opentelemetry_sdk::trace::SpanData;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use uuid::Uuid;
use words::api::trace::TraceParent;
use words::settings::telemetry::Otlp;

/// Traces that may wait. More are dropped and counted.
const MAX_TRACES: usize = 4096;

/// The spans of one request.
#[derive(Debug, Default)]
pub struct Trace {
    pub spans: Vec<SpanData>,
    /// Counts the bodies in them as held memory, until they are sent.
    pub held: Option<Hold>,
}

/// The end of the queue that requests have.
#[derive(Debug)]
pub struct SpanQueue {
    sender: SyncSender<Trace>,
    sample: f64,
    max_payload_bytes: Option<usize>,
}

impl SpanQueue {
    /// The queue, and the end that is read.
    pub fn new(otlp: &Otlp) -> (Self, Receiver<Trace>) {
        let (sender, receiver) = sync_channel(MAX_TRACES);
        (Self { sender, sample: otlp.sample, max_payload_bytes: otlp.max_payload_bytes }, receiver)
    }

    /// The id of a request's trace, if it is sent: the client's where it has one (`parent`), which also decides; else by the request's
    /// own trace id.
    pub fn sampled(&self, parent: Option<&TraceParent>, trace_id: &str) -> Option<u128> {
        match parent {
            Some(parent) => parent.is_sampled().then(|| parent.trace()),
            None => Some(id_of(trace_id)).filter(|id| self.samples(*id)),
        }
    }

    /// Whether a trace is sent for which the client made no decision. It follows from the trace's id, so all gateways decide the same.
    fn samples(&self, trace_id: u128) -> bool {
        // The last 56 bits are random in every form of a trace id (W3C Trace Context, level 2).
        let random = trace_id & ((1 << 56) - 1);
        (random as f64) < self.sample * (1u64 << 56) as f64
    }

    /// The most bytes of each body that spans have; `None`: they have none.
    pub fn max_payload_bytes(&self) -> Option<usize> {
        self.max_payload_bytes
    }

    /// Adds a trace, or drops it: `false`.
    pub fn push(&self, trace: Trace) -> bool {
        self.sender.try_send(trace).is_ok()
    }
}

/// The trace's id as 16 bytes: a UUID and 32 hex digits are one, any other text becomes one, always the same.
fn id_of(text: &str) -> u128 {
    if let Ok(id) = Uuid::try_parse(text) {
        return id.as_u128().max(1);
    }
    let half = |salt: u8| {
        let mut hasher = DefaultHasher::new();
        (salt, text).hash(&mut hasher);
        u128::from(hasher.finish())
    };
    (half(1) << 64 | half(2)).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(sample: f64) -> (SpanQueue, Receiver<Trace>) {
        let otlp = Otlp {
            endpoint: "http://127.0.0.1/v1/traces".to_owned(),
            headers: Vec::new(),
            sample,
            service_name: "t".to_owned(),
            max_payload_bytes: None,
        };
        SpanQueue::new(&otlp)
    }

    #[test]
    fn a_share_of_traces_is_sampled_and_always_the_same_ones() {
        for (sample, least, most) in [(0.0, 0, 0), (0.25, 2300, 2700), (1.0, 10_000, 10_000)] {
            let first = queue(sample).0;
            let second = queue(sample).0;
            let ids =
                || (0..10_000u128).map(|index| index.wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835));
            let found = ids().filter(|id| first.samples(*id)).count();
            assert!((least..=most).contains(&found), "{sample}: {found}");
            assert!(ids().all(|id| first.samples(id) == second.samples(id)));
        }
    }

    #[test]
    fn any_trace_id_has_sixteen_bytes_of_its_own() {
        let hex = "4bf92f3577b34da6a3ce929d0e0e4736";
        assert_eq!(format!("{:032x}", id_of(hex)), hex);
        assert_eq!(id_of("4bf92f35-77b3-4da6-a3ce-929d0e0e4736"), id_of(hex));
        let first = id_of("order 17");
        let second = id_of("order 18");
        assert!(first != second && first == id_of("order 17") && first > u128::from(u64::MAX));
    }

    #[test]
    fn a_client_with_a_trace_decides_about_it() {
        let all = queue(1.0).0;
        let none = queue(0.0).0;
        let recorded = TraceParent::recorded(7, 9);
        let unrecorded = TraceParent::parse(&recorded.header().replace("-01", "-00")).unwrap();
        assert_eq!((all.sampled(None, "x"), none.sampled(None, "x")), (Some(id_of("x")), None));
        assert_eq!(
            (none.sampled(Some(&recorded), "x"), all.sampled(Some(&unrecorded), "x")),
            (Some(7), None)
        );
    }

    #[test]
    fn what_does_not_fit_is_dropped() {
        let (queue, receiver) = queue(1.0);
        assert_eq!((0..MAX_TRACES + 5).filter(|_| queue.push(Trace::default())).count(), MAX_TRACES);
        drop(receiver.recv());
        assert!(queue.push(Trace::default()));
        drop(receiver);
        assert!(!queue.push(Trace::default()));
    }
}
