//! The script key `chaos`: a share of requests, drawn from a seed, gets one of the faults a provider can
//! have.
//!
//! Only draws; the faults run like those of any script. The same seed and order of requests draw the same
//! faults.

use super::sample_text::scramble;
use super::script::Script;

/// The faults to draw from, as scripts. Those that hang do so for longer than any client waits.
const FAULT_SCRIPTS: [&str; 22] = [
    "status=429",
    "status=429&retry_after_ms=20",
    "status=500",
    "status=503&retry_after=1",
    "status=401",
    "error=context_length",
    "error=content_filter",
    "fault=reset",
    "fault=eof",
    "fault=hang",
    "fault=garbage",
    "fault=half_head",
    "fault=cut",
    "fault=stall",
    "fault=malformed",
    "fault=error_event",
    "fault=no_done",
    "fault=no_finish",
    "fault=empty",
    "fault=html",
    "fault=truncate",
    "ttft=600000",
];

/// The most events sent before a fault within a stream.
const MAX_AFTER: u64 = 40;

/// The script of request `number`; `percent` of all requests get a fault.
pub(super) fn drawn(script: Script, percent: u8, seed: u64, number: u32) -> Script {
    let draw = scramble(scramble(seed).wrapping_add(number.into()));
    if draw % 100 >= percent.into() {
        return Script { latency: script.latency, gap: script.gap, ..script.spent() };
    }
    let draw = draw / 100;
    let text = FAULT_SCRIPTS.get((draw % FAULT_SCRIPTS.len() as u64) as usize).copied().unwrap_or_default();
    // The list is constant, and a test parses all of it.
    let fault = Script::parse(text).unwrap_or_default();
    let after = Some(draw / FAULT_SCRIPTS.len() as u64 % MAX_AFTER);
    Script { tokens: script.tokens, gap: script.gap, tag: script.tag, after, ..fault }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fault_script_parses() {
        for text in FAULT_SCRIPTS {
            assert!(Script::parse(text).is_ok(), "{text}");
        }
    }

    #[test]
    fn faults_hit_the_given_share_and_a_seed_repeats_them() {
        let plain = Script::parse("tokens=7").unwrap();
        let draw =
            |percent, seed| (0..1000).map(|number| drawn(plain.clone(), percent, seed, number)).collect();
        let faulty = |scripts: &[Script]| scripts.iter().filter(|script| **script != plain).count();
        let none: Vec<_> = draw(0, 1);
        let some: Vec<_> = draw(30, 1);
        let all: Vec<_> = draw(100, 1);
        assert_eq!((faulty(&none), faulty(&all)), (0, 1000));
        assert!((250..350).contains(&faulty(&some)), "{}", faulty(&some));
        assert_eq!(some, draw(30, 1));
        assert_ne!(some, draw(30, 2));
        for text in FAULT_SCRIPTS {
            let text = Script::parse(text).unwrap();
            let present = all.iter().any(|script| (script.fault, script.status) == (text.fault, text.status));
            assert!(present, "{text:?}");
        }
    }
}
