//! What is measured: the table of load cases, and one run of one case against one subject.
//!
//! The order of the runs is in `main`, the evaluation in `table`.

use super::Failure;
use super::client::{Expect, Load, NUMBER, Tally, drive, with_open_streams};
use super::process::{Process, SERVICE_KEY};
use std::net::SocketAddr;
use std::time::Duration;

/// What is between the client and the provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Path {
    /// Nothing.
    Direct,
    /// The plain Pingora proxy.
    Plain,
    /// Turnpike with the settings that it is shipped with: service keys, the log store, metrics, the access line.
    Gateway,
    /// The same with a stored key that has two rates, a budget, a guardrail of one pattern, and a cache that misses.
    Governed,
}

/// A running path.
pub(crate) struct Subject {
    pub(crate) path: Path,
    pub(crate) address: SocketAddr,
    /// The proxy process; `None` on the direct path, where no CPU time is counted.
    pub(crate) proxy: Option<Process>,
    /// The service key that is sent to a gateway.
    pub(crate) key: String,
}

/// One line of the table of cases.
pub(crate) struct Case {
    /// Its name in the JSON line.
    pub(crate) name: &'static str,
    pub(crate) title: &'static str,
    body: fn() -> String,
    /// The config the gateway gets.
    config: &'static str,
    /// The case to compare this one's CPU with.
    pub(crate) reference: Option<Reference>,
    pub(crate) connections: usize,
    /// Requests per second; `None` sends as many as possible.
    pub(crate) rate: Option<f64>,
    expect: Expect,
}

/// A case whose CPU another one is compared with.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reference {
    pub(crate) case: &'static str,
    /// What it stands for, in the row's title.
    pub(crate) name: &'static str,
    /// The highest accepted ratio to it.
    pub(crate) limit: f64,
}

impl Reference {
    const fn single(case: &'static str) -> Option<Self> {
        Some(Self { case, name: "a single target", limit: 1.15 })
    }

    const fn passing(case: &'static str) -> Option<Self> {
        Some(Self { case, name: "passing through", limit: 1.0 })
    }
}

const SINGLE: &str = r#"{"provider":"@up"}"#;
const GOVERNED: &str = r#"{"provider":"@up","cache":{"mode":"simple"},"input_guardrails":[{"default.regexMatch":{"rule":"account number [0-9]{12}","not":true},"deny":true}]}"#;
const CACHED: &str = r#"{"provider":"@up","cache":{"mode":"simple"}}"#;
const FALLBACK: &str = r#"{"strategy":{"mode":"fallback"},"retry":{"attempts":2},"request_timeout":30000,"targets":[{"provider":"@up"},{"provider":"@up"}]}"#;

/// Scripts for the emulator, after the model's name: 50 events at once, 50 events 2 ms apart, one a second.
const FIFTY_AT_ONCE: &str = "bench?tokens=48";
const FIFTY_PACED: &str = "bench?tokens=48&gap=2";
const STAYS_OPEN: &str = "bench?tokens=1000&gap=1000";

pub(crate) const CASES: [Case; 9] = [
    Case {
        name: "small_chat",
        title: "small chat, 64 connections",
        body: || chat("bench", false, QUESTION),
        config: SINGLE,
        reference: None,
        connections: 64,
        rate: None,
        expect: Expect::Whole,
    },
    Case {
        name: "small_chat_1000",
        title: "small chat, 1,000/s",
        body: || chat("bench", false, QUESTION),
        config: SINGLE,
        reference: None,
        connections: 64,
        rate: Some(1000.0),
        expect: Expect::Whole,
    },
    Case {
        name: "megabyte",
        title: "1 MB request body, 8 connections",
        body: || chat("bench", false, &"All work and no play. ".repeat(1_000_000 / 22)),
        config: SINGLE,
        reference: None,
        connections: 8,
        rate: None,
        expect: Expect::Whole,
    },
    Case {
        name: "stream",
        title: "50-event stream, 32 connections",
        body: || chat(FIFTY_AT_ONCE, true, QUESTION),
        config: SINGLE,
        reference: None,
        connections: 32,
        rate: None,
        expect: Expect::Stream { events: 50 },
    },
    Case {
        name: "stream_50",
        title: "50-event stream, events 2 ms apart, 50/s",
        body: || chat(FIFTY_PACED, true, QUESTION),
        config: SINGLE,
        reference: None,
        connections: 32,
        rate: Some(50.0),
        expect: Expect::Stream { events: 50 },
    },
    Case {
        name: "small_chat_fallback",
        title: "small chat through a healthy fallback, 64 connections",
        body: || chat("bench", false, QUESTION),
        config: FALLBACK,
        reference: Reference::single("small_chat"),
        connections: 64,
        rate: None,
        expect: Expect::Whole,
    },
    Case {
        name: "stream_fallback",
        title: "50-event stream through a healthy fallback, 32 connections",
        body: || chat(FIFTY_AT_ONCE, true, QUESTION),
        config: FALLBACK,
        reference: Reference::single("stream"),
        connections: 32,
        rate: None,
        expect: Expect::Stream { events: 50 },
    },
    // All but the first request find the response in the gateway's memory; the other paths pass them through.
    Case {
        name: "small_chat_hit",
        title: "small chat from the cache, 64 connections",
        body: || chat("bench", false, QUESTION),
        config: CACHED,
        reference: Reference::passing("small_chat"),
        connections: 64,
        rate: None,
        expect: Expect::Whole,
    },
    Case {
        name: "stream_hit",
        title: "50-event stream from the cache, 32 connections",
        body: || chat(FIFTY_AT_ONCE, true, QUESTION),
        config: CACHED,
        reference: Reference::passing("stream"),
        connections: 32,
        rate: None,
        expect: Expect::Stream { events: 50 },
    },
];

/// One run of a case; times in microseconds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Figures {
    pub(crate) per_second: f64,
    pub(crate) whole_p50: f64,
    pub(crate) whole_p99: f64,
    pub(crate) first_p50: f64,
    pub(crate) first_p99: f64,
    /// CPU of the proxy process per request; zero on the direct path.
    pub(crate) cpu: f64,
}

impl Case {
    /// Whether it is measured on this path: governance has a config of its own.
    pub(crate) fn is_of(&self, path: Path) -> bool {
        path != Path::Governed || self.config == SINGLE
    }

    /// Runs the case against `subject` for `length`.
    pub(crate) fn run(&self, subject: &Subject, length: Duration) -> Result<Figures, Failure> {
        let load = Load {
            connections: self.connections,
            rate: self.rate,
            length,
            expect: self.expect,
            ..load(subject, self.config, &(self.body)())
        };
        let cpu = || subject.proxy.as_ref().map_or(Ok(Duration::ZERO), Process::cpu);
        let before = cpu()?;
        let tally = drive(load).map_err(|failure| format!("{}, {:?}: {failure}", self.name, subject.path))?;
        Ok(Figures::new(tally, cpu()? - before))
    }
}

impl Figures {
    fn new(mut tally: Tally, cpu: Duration) -> Self {
        let count = tally.whole.len().max(1) as f64;
        Self {
            per_second: count / tally.elapsed.as_secs_f64(),
            whole_p50: percentile(&mut tally.whole, 0.50),
            whole_p99: percentile(&mut tally.whole, 0.99),
            first_p50: percentile(&mut tally.first, 0.50),
            first_p99: percentile(&mut tally.first, 0.99),
            cpu: cpu.as_secs_f64() * 1e6 / count,
        }
    }
}

/// Small chats to a gateway on 64 connections. `rate` as in [`Load`].
pub(crate) fn honest(address: SocketAddr, rate: Option<f64>, length: Duration) -> Load {
    let gateway = Subject { path: Path::Gateway, address, proxy: None, key: SERVICE_KEY.to_owned() };
    Load { connections: 64, rate, length, ..load(&gateway, SINGLE, &chat("bench", false, QUESTION)) }
}

/// Resident memory of a proxy, KiB.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Memory {
    /// One second after the start.
    pub(crate) idle: f64,
    /// Added by each open stream.
    pub(crate) per_stream: f64,
}

/// How long a proxy rests after the load before its memory is looked at.
pub(crate) const REST: Duration = Duration::from_secs(60);

/// Measures a proxy that has just started; `None` on the direct path.
pub(crate) fn memory(subject: &Subject, streams: usize) -> Result<Option<Memory>, Failure> {
    let Some(proxy) = &subject.proxy else { return Ok(None) };
    std::thread::sleep(Duration::from_secs(1));
    let idle = proxy.resident()?;
    let load = Load {
        expect: Expect::Stream { events: 1 },
        ..load(subject, SINGLE, &chat(STAYS_OPEN, true, QUESTION))
    };
    let open = with_open_streams(load, streams, Duration::from_secs(2), || proxy.resident())
        .map_err(|failure| format!("open streams, {:?}: {failure}", subject.path))??;
    Ok(Some(Memory { idle, per_stream: (open - idle) / streams as f64 }))
}

/// Checks that the gateway really does what the bench measures: it checks keys, and writes access lines and rows of the log.
pub(crate) fn check_gateway(
    subject: &Subject,
    control: SocketAddr,
    access_log: &std::path::Path,
) -> Result<(), Failure> {
    let mut load = Load {
        rate: Some(100.0),
        length: Duration::from_millis(100),
        ..load(subject, SINGLE, &chat("bench", false, QUESTION))
    };
    let sent = drive(load.clone()).map_err(|failure| format!("first requests, Gateway: {failure}"))?;
    let wrong = String::from_utf8(load.request)?.replace(&subject.key, "no-such-key");
    load.request = wrong.into_bytes();
    match drive(load) {
        Err(refused) if refused.to_string().contains(" 401 ") => {}
        other => return Err(format!("a wrong service key was not refused with 401: {other:?}").into()),
    }
    // Rows are written every 200 ms.
    std::thread::sleep(Duration::from_millis(500));
    let rows = super::governed::rows_written(control)?;
    if rows < sent.whole.len() as f64 {
        return Err(format!("{} requests, {rows} rows in the log store", sent.whole.len()).into());
    }
    let lines = std::fs::read_to_string(access_log)?.lines().count();
    if lines < sent.whole.len() {
        return Err(format!("{} requests, {lines} access lines", sent.whole.len()).into());
    }
    Ok(())
}

const QUESTION: &str = "Which way does the water turn when it leaves the bath, does that differ between the two halves \
    of the globe, and how would one find out at home with what is in the kitchen? Answer in three sentences. Question 000000000000.";

fn chat(model: &str, stream: bool, question: &str) -> String {
    format!(
        r#"{{"model":"{model}","messages":[{{"role":"system","content":"You are a careful physicist who explains things plainly."}},{{"role":"user","content":"{question}"}}],"temperature":0.7,"max_tokens":256,"stream":{stream}}}"#
    )
}

/// One connection that sends this body to the subject, with what it needs beside it.
fn load(subject: &Subject, config: &str, body: &str) -> Load {
    let Subject { address, path, key, .. } = subject;
    let length = body.len();
    let ours = match path {
        Path::Direct | Path::Plain => "authorization: Bearer bench-provider-key\r\n".to_owned(),
        Path::Gateway => format!("x-gateway-api-key: {key}\r\nx-gateway-config: {config}\r\n"),
        Path::Governed => format!("x-gateway-api-key: {key}\r\nx-gateway-config: {GOVERNED}\r\n"),
    };
    let request = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: {address}\r\nuser-agent: turnpike-bench\r\naccept: */*\r\n\
         content-type: application/json\r\ncontent-length: {length}\r\n{ours}\r\n{body}"
    );
    Load {
        address: *address,
        number_at: request.find(NUMBER).filter(|_| *path == Path::Governed),
        request: request.into_bytes(),
        connections: 1,
        rate: None,
        length: Duration::ZERO,
        expect: Expect::Whole,
    }
}

/// The time, in microseconds, below which this share of `times` lies.
pub(crate) fn percentile(times: &mut [u64], share: f64) -> f64 {
    times.sort_unstable();
    let last = times.len().saturating_sub(1) as f64;
    times.get((last * share).round() as usize).map_or(0.0, |&nanoseconds| nanoseconds as f64 / 1000.0)
}
