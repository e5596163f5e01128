//! Sends finished traces to a collector: OTLP over HTTP, protobuf, compressed.
//!
//! A thread of its own with a blocking client, made before any runtime: a collector that is slow or gone costs requests nothing. What
//! waits too long is dropped at the queue (`state::span_queue`), and counted.

use futures_util::FutureExt as _;
use memory::net::outbound::custom_host::OutboundRules;
use memory::state::Shared;
use memory::state::held_bytes::Hold;
use memory::state::span_queue::{SpanQueue, Trace};
use opentelemetry_otlp::{Compression, Protocol, SpanExporter, WithExportConfig as _, WithHttpConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{SpanData, SpanExporter as _};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};
use words::settings::telemetry::Otlp;

/// How long traces are collected before they are sent.
const DELAY: Duration = Duration::from_millis(200);
/// Spans sent at a time.
const MAX_SPANS: usize = 1024;
/// For one request to the collector.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Between two lines of the log about a collector that does not take spans.
const QUIET: Duration = Duration::from_secs(60);

/// Starts sending the spans of `shared`, where the settings name a collector.
///
/// # Errors
/// What is wrong with the settings, or what the system refuses.
pub fn start(shared: &Arc<Shared>) -> Result<(), String> {
    let snapshot = shared.settings_arc();
    let Some(otlp) = &snapshot.settings.telemetry.otlp else { return Ok(()) };
    let exporter =
        exporter(otlp, &snapshot.hosts.outbound).map_err(|why| format!("telemetry.otlp: {why}"))?;
    let (queue, traces) = SpanQueue::new(otlp);
    let metrics = Arc::clone(shared);
    let thread = std::thread::Builder::new().name("trace-exporter".to_owned());
    let started = thread.spawn(move || send_all(&exporter, &traces, &metrics));
    started.map_err(|why| format!("telemetry.otlp: no thread: {why}"))?;
    let _ = shared.spans.set(queue);
    Ok(())
}

fn exporter(otlp: &Otlp, outbound: &OutboundRules) -> Result<SpanExporter, String> {
    // No redirect that would take the headers along.
    let client = reqwest::blocking::Client::builder()
        .timeout(TIMEOUT)
        .proxy(outbound.proxies.for_reqwest())
        .local_address(outbound.source.any())
        .redirect(reqwest::redirect::Policy::none())
        .build()
        .map_err(|why| why.to_string())?;
    let headers = otlp.headers.iter().map(|(name, value)| (name.clone(), value.expose().to_owned()));
    let mut exporter = SpanExporter::builder()
        .with_http()
        .with_http_client(client)
        .with_protocol(Protocol::HttpBinary)
        .with_endpoint(&otlp.endpoint)
        .with_timeout(TIMEOUT)
        .with_headers(headers.collect::<HashMap<String, String>>())
        .with_compression(Compression::Gzip)
        .build()
        .map_err(|why| why.to_string())?;
    let resource = Resource::builder_empty()
        .with_service_name(otlp.service_name.clone())
        .with_attribute(opentelemetry::KeyValue::new("service.version", env!("CARGO_PKG_VERSION")));
    exporter.set_resource(&resource.build());
    Ok(exporter)
}

fn send_all(exporter: &SpanExporter, traces: &Receiver<Trace>, shared: &Shared) {
    let mut last_complaint: Option<Instant> = None;
    while let Ok(first) = traces.recv() {
        // The bodies count as held until they are sent.
        let (batch, _held, count) = collected(first, traces);
        // Everything in it blocks this thread, so that it is ready when it is polled once.
        let sent = exporter.export(batch).now_or_never();
        match sent {
            Some(Ok(())) => shared.metrics.count_traces("sent", count),
            failed => {
                shared.metrics.count_traces("failed", count);
                if last_complaint.is_none_or(|last| last.elapsed() > QUIET) {
                    last_complaint = Some(Instant::now());
                    let why = failed.and_then(Result::err).map(|why| why.to_string()).unwrap_or_default();
                    log::warn!(target: "turnpike", "traces are not taken by the collector of telemetry.otlp: {why}");
                }
            }
        }
    }
}

/// The spans to send together, what they hold, and of how many traces they are.
fn collected(first: Trace, traces: &Receiver<Trace>) -> (Vec<SpanData>, Vec<Hold>, u64) {
    let deadline = Instant::now() + DELAY;
    let mut batch = first.spans;
    let mut count = 1;
    let mut held: Vec<Hold> = first.held.into_iter().collect();
    while batch.len() < MAX_SPANS {
        match traces.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(trace) => {
                batch.extend(trace.spans);
                held.extend(trace.held);
                count += 1;
            }
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => break,
        }
    }
    (batch, held, count)
}
