//! Parses the script grammar: how to respond to one request, and which fault to inject.
//!
//! [`super::respond`] and [`super::playback`] execute it. The keys and faults are documented in `mod.rs`.

use super::published::PublishedError;
use http::{HeaderValue, StatusCode};
use percent_encoding::percent_decode_str;
use std::str::FromStr;
use std::time::Duration;

/// A fault to inject.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    Reset,
    Eof,
    Hang,
    Garbage,
    HalfHead,
    Cut,
    Stall,
    Malformed,
    ErrorEvent,
    NoDone,
    NoFinish,
    Empty,
    Html,
    Truncate,
    SlowBody,
}

const FAULTS: [(&str, Fault); 15] = [
    ("reset", Fault::Reset),
    ("eof", Fault::Eof),
    ("hang", Fault::Hang),
    ("garbage", Fault::Garbage),
    ("half_head", Fault::HalfHead),
    ("cut", Fault::Cut),
    ("stall", Fault::Stall),
    ("malformed", Fault::Malformed),
    ("error_event", Fault::ErrorEvent),
    ("no_done", Fault::NoDone),
    ("no_finish", Fault::NoFinish),
    ("empty", Fault::Empty),
    ("html", Fault::Html),
    ("truncate", Fault::Truncate),
    ("slow_body", Fault::SlowBody),
];

impl Fault {
    /// Whether it happens before any part of a response is created.
    pub(super) fn before_headers(self) -> bool {
        matches!(self, Fault::Reset | Fault::Eof | Fault::Hang | Fault::Garbage | Fault::HalfHead)
    }
}

/// How a body is split into chunks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cuts {
    /// Chunks of this many bytes.
    Every(usize),
    /// Chunks of 1 to 64 bytes, drawn from a seed.
    Seeded(u64),
}

/// What the response says of its usage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum ReportedUsage {
    #[default]
    Correct,
    /// Nothing.
    Missing,
    /// That it used nothing.
    Zero,
    /// Errors say it too, and are charged.
    InErrors,
}

const USAGES: [(&str, ReportedUsage); 3] =
    [("none", ReportedUsage::Missing), ("zero", ReportedUsage::Zero), ("errors", ReportedUsage::InErrors)];

/// The longest text, in tokens: keeps a typo from exhausting memory.
const MAX_TOKENS: usize = 1_000_000;

/// A parsed script. The default one is a plain, immediate, correct response.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Script {
    pub(super) tokens: Option<usize>,
    pub(super) latency: Duration,
    pub(super) ttft: Duration,
    pub(super) gap: Duration,
    pub(super) cuts: Option<Cuts>,
    pub(super) status: Option<StatusCode>,
    pub(super) retry_after: Option<u64>,
    pub(super) retry_after_ms: Option<u64>,
    pub(super) location: Option<HeaderValue>,
    pub(super) fault: Option<Fault>,
    pub(super) after: Option<u64>,
    pub(super) error: Option<PublishedError>,
    pub(super) usage: ReportedUsage,
    pub(super) no_prefill: bool,
    pub(super) times: Option<u32>,
    pub(super) flap: Option<Duration>,
    /// Percent, 0 to 100.
    pub(super) chaos: Option<u8>,
    pub(super) seed: u64,
    pub(super) key: Option<String>,
    pub(super) tag: Option<String>,
}

impl Script {
    /// Reads `key=value` pairs joined by `&` or `;`.
    ///
    /// # Errors
    /// A sentence about the first invalid pair.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let mut script = Self::default();
        for pair in text.split(['&', ';']).map(str::trim).filter(|pair| !pair.is_empty()) {
            let Some((key, value)) = pair.split_once('=') else {
                return Err(format!("emulator script: `{pair}` is not key=value"));
            };
            let value = percent_decode_str(value.trim()).decode_utf8_lossy();
            script.set(key.trim(), &value)?;
        }
        if script.fault == Some(Fault::SlowBody) {
            script.cuts = script.cuts.or(Some(Cuts::Every(16)));
            if script.gap.is_zero() {
                script.gap = Duration::from_millis(20);
            }
        }
        let counted = script.times.is_some() || script.flap.is_some() || script.chaos.is_some();
        if counted && script.key.is_none() {
            script.key = Some(text.to_owned());
        }
        Ok(script)
    }

    fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        match key {
            "tokens" => self.tokens = Some(number::<usize>(key, value)?.min(MAX_TOKENS)),
            "latency" => self.latency = Duration::from_millis(number(key, value)?),
            "ttft" => self.ttft = Duration::from_millis(number(key, value)?),
            "gap" => self.gap = Duration::from_millis(number(key, value)?),
            "tps" => match number::<u32>(key, value)? {
                0 => return Err("emulator script: `tps` must be at least 1".to_owned()),
                tps => self.gap = Duration::from_secs(1) / tps,
            },
            "chunk" => self.cuts = Some(Cuts::Every(number::<usize>(key, value)?.max(1))),
            "cuts" => self.cuts = Some(Cuts::Seeded(number(key, value)?)),
            "status" => self.status = Some(status(value)?),
            "retry_after" => self.retry_after = Some(number(key, value)?),
            "retry_after_ms" => self.retry_after_ms = Some(number(key, value)?),
            "location" => {
                let location = HeaderValue::from_str(value);
                self.location = Some(location.map_err(|_| bad(key, value))?);
            }
            "fault" => {
                let found = FAULTS.iter().find(|(name, _)| *name == value);
                self.fault = Some(found.ok_or_else(|| bad(key, value))?.1);
            }
            "error" => {
                let found = PublishedError::NAMES.iter().find(|(name, _)| *name == value);
                self.error = Some(found.ok_or_else(|| bad(key, value))?.1);
            }
            "usage" => {
                let found = USAGES.iter().find(|(name, _)| *name == value);
                self.usage = found.ok_or_else(|| bad(key, value))?.1;
            }
            "no_prefill" => self.no_prefill = number::<u8>(key, value)? != 0,
            "after" => self.after = Some(number(key, value)?),
            "times" => self.times = Some(number(key, value)?),
            "flap" => match number(key, value)? {
                0 => return Err(bad(key, value)),
                ms => self.flap = Some(Duration::from_millis(ms)),
            },
            "chaos" => self.chaos = Some(number::<u8>(key, value)?.min(100)),
            "seed" => self.seed = number(key, value)?,
            "key" => self.key = Some(value.to_owned()),
            "tag" => self.tag = Some(value.to_owned()),
            _ => return Err(format!("emulator script: no key `{key}`")),
        }
        Ok(())
    }

    /// What remains once `times` is used up, or while `flap` pauses: the length of the response, and the tag.
    pub(super) fn spent(self) -> Self {
        Self { tokens: self.tokens, tag: self.tag, ..Self::default() }
    }
}

fn number<T: FromStr>(key: &str, value: &str) -> Result<T, String> {
    value.parse().map_err(|_| bad(key, value))
}

fn status(value: &str) -> Result<StatusCode, String> {
    let code = value.parse().ok().filter(|code| (200..600).contains(code));
    code.and_then(|code: u16| StatusCode::from_u16(code).ok()).ok_or_else(|| bad("status", value))
}

fn bad(key: &str, value: &str) -> String {
    format!("emulator script: `{key}` cannot be `{value}`")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_separators_and_percent_signs_are_read() {
        let script = Script::parse("latency=200&tps=50; tokens=7;fault=cut&after=2&key=a%26b").unwrap();
        assert_eq!(script.latency, Duration::from_millis(200));
        assert_eq!(script.gap, Duration::from_millis(20));
        assert_eq!((script.tokens, script.fault, script.after), (Some(7), Some(Fault::Cut), Some(2)));
        assert_eq!(script.key.as_deref(), Some("a&b"));
        assert_eq!(Script::parse(" ").unwrap(), Script::default());
    }

    #[test]
    fn every_fault_name_parses() {
        for (name, fault) in FAULTS {
            assert_eq!(Script::parse(&format!("fault={name}")).unwrap().fault, Some(fault));
        }
    }

    #[test]
    fn invalid_pairs_are_named() {
        for (text, named) in [
            ("latency", "`latency` is not key=value"),
            ("speed=1", "no key `speed`"),
            ("latency=-1", "`latency` cannot be `-1`"),
            ("status=99", "`status` cannot be `99`"),
            ("status=600", "`status` cannot be `600`"),
            ("fault=fire", "`fault` cannot be `fire`"),
            ("tps=0", "`tps` must be"),
            ("error=fire", "`error` cannot be `fire`"),
            ("usage=some", "`usage` cannot be `some`"),
            ("flap=0", "`flap` cannot be `0`"),
            ("chaos=x", "`chaos` cannot be `x`"),
        ] {
            let problem = Script::parse(text).unwrap_err();
            assert!(problem.contains(named), "{text}: {problem}");
        }
    }

    #[test]
    fn times_without_a_key_counts_by_the_script_itself() {
        assert_eq!(Script::parse("status=500&times=1").unwrap().key.as_deref(), Some("status=500&times=1"));
    }
}
