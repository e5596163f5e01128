//! The arguments of calls that are still arriving, for filters that look at them when they are complete.
//!
//! Providers may send the arguments of parallel calls in turns, so a call that another one follows is complete only where its arguments
//! are JSON.

use crate::provider::openai_chat::Balance;
use serde::de::IgnoredAny;
use words::error::Error;

/// The most that is held back of the arguments of one choice, bytes: more cannot be looked at.
const MAX_HELD: usize = 16 << 20;

/// The calls of one choice whose arguments are held back, in their order.
#[derive(Debug, Default)]
pub(super) struct OpenCalls {
    calls: Vec<OpenCall>,
    bytes: usize,
}

#[derive(Debug, Default)]
struct OpenCall {
    index: u32,
    arguments: String,
    /// What of them is open, so that they are parsed once and not at every piece.
    balance: Balance,
    /// Nothing in them is open, and they are no JSON: more pieces do not make them any.
    is_other: bool,
}

impl OpenCall {
    fn push(&mut self, fragment: &str) {
        self.arguments.push_str(fragment);
        self.balance.push(fragment);
    }

    /// Whether they are a JSON object or list.
    fn is_complete(&mut self) -> bool {
        if self.is_other || !self.balance.is_complete() {
            return false;
        }
        self.is_other = serde_json::from_str::<IgnoredAny>(&self.arguments).is_err();
        !self.is_other
    }
}

impl OpenCalls {
    /// Takes the next piece of a call's arguments.
    ///
    /// # Errors
    /// They are too long to be looked at.
    pub fn push(&mut self, index: u32, fragment: &str) -> Result<(), Error> {
        self.bytes += fragment.len();
        if self.bytes > MAX_HELD {
            let message =
                "The arguments of a call are over 16 MiB, and the guardrails of the config cannot read them.";
            return Err(Error::hooks_failed(Some(message), None));
        }
        match self.calls.iter_mut().find(|call| call.index == index) {
            Some(call) => call.push(fragment),
            None if fragment.is_empty() => {}
            None => {
                let mut call = OpenCall { index, ..OpenCall::default() };
                call.push(fragment);
                self.calls.push(call);
            }
        }
        Ok(())
    }

    /// The first call that is complete. `is_end`: all are.
    pub fn take(&mut self, is_end: bool) -> Option<(u32, String)> {
        let at = self.calls.iter_mut().position(|call| is_end || call.is_complete())?;
        let OpenCall { index, arguments, .. } = self.calls.remove(at);
        self.bytes -= arguments.len();
        Some((index, arguments))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_complete_where_its_json_is_or_at_the_end() {
        let mut calls = OpenCalls::default();
        for (index, fragment) in [(0, "{\"a\""), (1, "{}"), (0, ":1"), (2, "")] {
            calls.push(index, fragment).unwrap();
        }
        assert_eq!(calls.take(false), Some((1, "{}".to_owned())));
        assert_eq!(calls.take(false), None);
        calls.push(0, "}").unwrap();
        assert_eq!(calls.take(false), Some((0, "{\"a\":1}".to_owned())));
        calls.push(3, "free text").unwrap();
        assert_eq!((calls.take(false), calls.take(true)), (None, Some((3, "free text".to_owned()))));
        assert_eq!((calls.take(true), calls.bytes), (None, 0));
        calls.push(4, "{}x").unwrap();
        assert_eq!((calls.take(false), calls.take(true)), (None, Some((4, "{}x".to_owned()))));
        let long = "a".repeat(MAX_HELD);
        assert!(calls.push(0, &long).is_ok() && calls.push(1, "b").is_err());
    }

    #[test]
    fn arguments_in_many_pieces_are_parsed_once() {
        let mut calls = OpenCalls::default();
        calls.push(0, "[").unwrap();
        // Parsed at every piece these were 20 GB of text.
        for _ in 0..100_000 {
            calls.push(0, "1,1,").unwrap();
            assert_eq!(calls.take(false), None);
        }
        calls.push(0, "1]").unwrap();
        assert!(calls.take(false).is_some());
        calls.push(1, "{}x").unwrap();
        assert_eq!(calls.take(false), None);
        assert!(calls.calls.iter().all(|call| call.is_other));
    }
}
