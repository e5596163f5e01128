//! The arguments of calls that are still arriving, for filters that look at them when they are complete.
//!
//! Providers may send the arguments of parallel calls in turns, so a call that another one follows is complete only where its arguments
//! are JSON.

use serde::de::IgnoredAny;
use words::error::Error;

/// The most that is held back of the arguments of one choice, bytes: more cannot be looked at.
const MAX_HELD: usize = 16 << 20;

/// The calls of one choice whose arguments are held back, in their order.
#[derive(Debug, Default)]
pub(super) struct OpenCalls {
    calls: Vec<(u32, String)>,
    bytes: usize,
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
        match self.calls.iter_mut().find(|(of, _)| *of == index) {
            Some((_, arguments)) => arguments.push_str(fragment),
            None if fragment.is_empty() => {}
            None => self.calls.push((index, fragment.to_owned())),
        }
        Ok(())
    }

    /// The first call that is complete. `is_end`: all are.
    pub fn take(&mut self, is_end: bool) -> Option<(u32, String)> {
        let is_complete =
            |(_, arguments): &(u32, String)| is_end || serde_json::from_str::<IgnoredAny>(arguments).is_ok();
        let at = self.calls.iter().position(is_complete)?;
        let call = self.calls.remove(at);
        self.bytes -= call.1.len();
        Some(call)
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
        let long = "a".repeat(MAX_HELD);
        assert!(calls.push(0, &long).is_ok() && calls.push(1, "b").is_err());
    }
}
