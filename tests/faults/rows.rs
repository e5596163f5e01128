//! The faults, one row each: the primary's script, who answers in the end, how often the primary may be asked, and how
//! long all of it may take.
//!
//! Only the list; what is made of a row is `courses`.

use std::ops::RangeInclusive;

/// How an answer comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    Streamed,
    Whole,
}

/// Who answers in the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Served {
    Primary,
    Fallback,
    /// The primary began, the fallback went on; whole answers are the fallback's.
    Both,
}

/// What happens in a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scenario {
    /// One request.
    Once,
    /// One request, and one with a target of the same model in between.
    TooLong,
    /// The refusal is the answer.
    Refused,
    /// The fallback refuses to go on from a beginning.
    NoPrefill,
    /// Requests over several changes between good and bad.
    Flapping,
    /// One request, and what was counted of it.
    Accounting,
}

/// One row of the matrix.
#[derive(Debug)]
pub(super) struct Fault {
    pub(super) name: &'static str,
    pub(super) scenario: Scenario,
    /// The primary's script: of a stream, of a whole answer.
    pub(super) scripts: [&'static str; 2],
    pub(super) forms: &'static [Form],
    /// It is tried at `/v1/messages` too.
    pub(super) messages: bool,
    pub(super) served: Served,
    /// How often the primary is asked.
    pub(super) primary_requests: RangeInclusive<usize>,
    /// Seconds at most until the answer is whole.
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
        primary_requests: 1..=1,
        // Two waits of up to one and two seconds, on a busy machine.
        max_seconds: 9,
    }
}

pub(super) const FAULTS: &[Fault] = &[
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
    // Three tries, each with up to three more free of charge where a connection had been used before.
    Fault { primary_requests: 3..=4, ..fault("reset before the head", "fault=reset") },
    Fault { max_seconds: 15, ..fault("silence", "fault=hang") },
    Fault { max_seconds: 15, ..fault("head at once, first token after 20 s", "ttft=20000") },
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
        max_seconds: 20,
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
    // All is said, and the connection stays open.
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
        max_seconds: 16,
        ..fault("primary that flaps", "status=503&flap=2000")
    },
    Fault {
        scenario: Scenario::Accounting,
        primary_requests: 3..=3,
        ..fault("accounting after failover", "status=503")
    },
];
