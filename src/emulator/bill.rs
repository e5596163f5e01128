//! What the emulator would charge: what it generated, also where the client left or did not see the usage.
//!
//! A provider bills the prompt as soon as it responds, and output as it is generated: the emulator generates an event only
//! when it is sent, so a stream that ends early is billed up to there.

use parking_lot::Mutex;
use serde::Serialize;
use serde_json::{Value, json};

/// What one response costs in tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Bill {
    pub(super) input: u64,
    /// If it is generated to its end.
    pub(super) output: u64,
    /// Events of a stream before the first token of the output.
    pub(super) opening: u64,
}

impl Bill {
    /// What is charged when so many events with content were sent of a stream that broke off.
    pub(super) fn part(self, events: u64) -> Charge {
        Charge {
            input_tokens: self.input,
            output_tokens: self.output.min(events.saturating_sub(self.opening)),
        }
    }

    pub(super) fn whole(self) -> Charge {
        Charge { input_tokens: self.input, output_tokens: self.output }
    }
}

/// What was charged for a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub(super) struct Charge {
    input_tokens: u64,
    output_tokens: u64,
}

/// The sum of all charges.
#[derive(Debug, Default)]
pub(super) struct Charges(Mutex<(u64, Charge)>);

impl Charges {
    pub(super) fn add(&self, charge: Charge) {
        let mut sum = self.0.lock();
        sum.0 += 1;
        sum.1.input_tokens += charge.input_tokens;
        sum.1.output_tokens += charge.output_tokens;
    }

    pub(super) fn json(&self) -> Value {
        let (requests, Charge { input_tokens, output_tokens }) = *self.0.lock();
        json!({"requests": requests, "input_tokens": input_tokens, "output_tokens": output_tokens})
    }
}
