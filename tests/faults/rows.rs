//! The faults, one row each: the primary's script, which target serves in the end, how many requests the
//! primary may get, and the time limit.
//!
//! Only the list; `scenarios` runs it.

use std::ops::RangeInclusive;

/// How a response is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    Streamed,
    Whole,
}

/// Which target's response the client gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Served {
    Primary,
    Fallback,
    /// The primary started, the fallback continued; whole responses are the fallback's.
    Both,
}

/// What is tested in a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scenario {
    /// One request.
    Once,
    /// One request, and one with a second target of the same model in between.
    TooLong,
    /// The provider's error is returned to the client.
    Refused,
    /// The fallback refuses to continue a partial response.
    NoPrefill,
    /// Requests while the primary alternates between failing and working.
    Flapping,
    /// One request, and the metrics and access line it produces.
    Accounting,
}

/// One row of the matrix.
#[derive(Debug)]
pub(crate) struct Fault {
    pub(crate) name: &'static str,
    pub(super) scenario: Scenario,
    /// The primary's script for a stream, and for a whole response.
    pub(crate) scripts: [&'static str; 2],
    pub(crate) forms: &'static [Form],
    /// The row also runs on `/v1/messages`.
    pub(super) messages: bool,
    pub(super) served: Served,
    /// The same for a primary with OpenAI's API, whose `[DONE]` is an end.
    pub(super) served_at_openai: Option<Served>,
    /// How many requests the primary gets.
    pub(super) primary_requests: RangeInclusive<usize>,
    /// Seconds until the response must be complete.
    pub(super) max_seconds: u64,
}

const BOTH: &[Form] = &[Form::Streamed, Form::Whole];
const STREAMED: &[Form] = &[Form::Streamed];

const fn fault(name: &'static str, script: &'static str) -> Fault {
    Fault {
        name,
        scenario: Scenario::Once,
        scripts: [script, script],
        forms: BOTH,
        messages: false,
        served: Served::Fallback,
        served_at_openai: None,
        primary_requests: 1..=1,
        // Two backoffs of up to one and two seconds, on a busy machine.
        max_seconds: 9,
    }
}

pub(crate) const FAULTS: &[Fault] = &[
    Fault {
        served: Served::Primary,
        primary_requests: 2..=2,
        ..fault("429 with Retry-After 2, then fine", "status=429&retry_after=2&times=1")
    },
    Fault { primary_requests: 3..=3, ..fault("429 without end", "status=429") },
    Fault {
        served: Served::Primary,
        primary_requests: 2..=2,
        ..fault("one 500, then fine", "status=500&times=1")
    },
    Fault { primary_requests: 3..=3, ..fault("503 without end", "status=503") },
    // Three attempts. An attempt that fails on a reused connection is repeated free of charge, up to three
    // times.
    Fault { primary_requests: 3..=4, ..fault("reset before the head", "fault=reset") },
    Fault { max_seconds: 25, ..fault("silence", "fault=hang") },
    Fault { max_seconds: 19, ..fault("head at once, first token after 20 s", "ttft=20000") },
    Fault {
        scripts: ["fault=cut&after=42", "fault=cut"],
        messages: true,
        served: Served::Both,
        primary_requests: 1..=3,
        ..fault("cut after 40 of 60 tokens", "")
    },
    Fault {
        scripts: ["fault=stall&after=22", "fault=stall"],
        messages: true,
        served: Served::Both,
        max_seconds: 28,
        ..fault("stalled after 20 tokens", "")
    },
    Fault {
        scripts: ["fault=malformed&after=9", "fault=malformed"],
        messages: true,
        served: Served::Both,
        primary_requests: 1..=3,
        ..fault("tenth event malformed", "")
    },
    Fault { forms: STREAMED, messages: true, served: Served::Primary, ..fault("no [DONE]", "fault=no_done") },
    // The response is complete, but the connection stays open.
    Fault {
        forms: STREAMED,
        messages: true,
        served: Served::Primary,
        ..fault("no close after [DONE]", "fault=stall&after=1000")
    },
    Fault {
        forms: STREAMED,
        messages: true,
        served: Served::Both,
        served_at_openai: Some(Served::Primary),
        ..fault("no finish reason", "fault=no_finish")
    },
    Fault { scenario: Scenario::TooLong, ..fault("context length exceeded", "error=context_length") },
    Fault {
        scenario: Scenario::Refused,
        served: Served::Primary,
        ..fault("content filter", "error=content_filter")
    },
    Fault {
        scenario: Scenario::NoPrefill,
        forms: STREAMED,
        messages: true,
        served: Served::Both,
        ..fault("fallback that takes no prefill", "fault=cut&after=30")
    },
    Fault {
        scenario: Scenario::Flapping,
        max_seconds: 25,
        ..fault("primary that flaps", "status=503&flap=2000")
    },
    Fault {
        scenario: Scenario::Accounting,
        primary_requests: 3..=3,
        ..fault("accounting after failover", "status=503")
    },
];
