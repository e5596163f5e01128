//! The attempts of a request, kept in its row: as bytes, of each only what its request's row does not say.
//!
//! A row of its own had four fifths of its request's texts again, and an entry in the index of traces. Rows of attempts that older
//! versions wrote stay as they are: the log stores read both.

use super::rollup::bytes::{Damaged, Reader, put_number, put_text};
use super::row::RatesHash;
use super::{Row, RowKind, Text, id};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use knowledge::price::Cost;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::borrow::Cow;
use uuid::Uuid;
use words::api::usage::Usage;

/// The form of the bytes, which is the first of them.
const FORM: u8 = 1;
/// Which values follow, after one bit for each of [`texts`], and the two flags.
const IS_SUCCESS: u64 = 1 << 6;
const RESPONDED: u64 = 1 << 7;
const STATUS: u64 = 1 << 8;
const SPENT: u64 = 1 << 9;
const USAGE: u64 = 1 << 10;
const COST: u64 = 1 << 11;

/// The attempts of one request, in their order. Empty: it has none, or they have rows of their own.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Attempts(Vec<u8>);

/// One attempt, as it is handed over.
#[derive(Debug, Clone, Default)]
pub struct Attempt<'a> {
    /// Within the request, from 1.
    pub number: u32,
    /// When it began. Milliseconds since 1970.
    pub created_ms: i64,
    pub provider: Option<Cow<'a, str>>,
    pub vendor: Option<&'a str>,
    pub model: Option<Cow<'a, str>>,
    pub response_model: Option<Cow<'a, str>>,
    /// Its place in the config.
    pub target: Option<&'a str>,
    pub status: u16,
    pub error_code: Option<&'a str>,
    pub is_success: bool,
    pub responded: bool,
    /// Microseconds.
    pub spent_us: u64,
    pub usage: Option<&'a Usage>,
    pub usage_source: &'static str,
    pub cost: Option<&'a Cost>,
    /// Of the cache: without a cost of its own it costs nothing.
    pub is_from_cache: bool,
}

impl Attempts {
    pub(super) fn new(bytes: &[u8]) -> Self {
        Self(bytes.to_vec())
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// In the spool, which is JSON.
impl Serialize for Attempts {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&STANDARD_NO_PAD.encode(&self.0))
    }
}

impl<'de> Deserialize<'de> for Attempts {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        STANDARD_NO_PAD.decode(text).map(Self).map_err(serde::de::Error::custom)
    }
}

impl Row {
    /// Adds an attempt to the row of its request, which has all its other members already.
    pub fn add_attempt(&mut self, attempt: &Attempt<'_>) {
        let mut out = std::mem::take(&mut self.attempts.0);
        if out.is_empty() {
            out.reserve(16);
            out.push(FORM);
        }
        put_number(&mut out, attempt.number.into());
        put_number(&mut out, attempt.created_ms.saturating_sub(self.created_ms).max(0).cast_unsigned());
        let own = texts(attempt);
        let mut differs = self.differs(attempt);
        for (at, (own, of_request)) in own.into_iter().zip(self.texts()).enumerate() {
            differs |= u64::from(own != of_request) << at;
        }
        put_number(&mut out, differs);
        for (at, own) in own.into_iter().enumerate() {
            if differs & (1 << at) != 0 {
                put_optional(&mut out, own);
            }
        }
        if differs & STATUS != 0 {
            put_number(&mut out, attempt.status.into());
        }
        if differs & SPENT != 0 {
            put_number(&mut out, attempt.spent_us);
        }
        if differs & USAGE != 0 {
            put_usage(&mut out, attempt);
        }
        if differs & COST != 0 {
            put_cost(&mut out, attempt);
        }
        self.attempts.0 = out;
    }

    /// The rows of its attempts, in their order, as if each had been written. What cannot be read is left out.
    pub fn attempt_rows(&self) -> Vec<Self> {
        let mut found = Vec::new();
        let Some((&FORM, rest)) = self.attempts.0.split_first() else { return found };
        let mut reader = Reader::new(rest);
        while !reader.is_empty() {
            match self.read_attempt(&mut reader) {
                Ok(row) => found.push(row),
                Err(Damaged) => break,
            }
        }
        found
    }

    /// The row of the attempt with this id.
    pub(super) fn attempt_row(&self, id: Uuid) -> Option<Self> {
        self.attempt_rows().into_iter().find(|row| row.id == id)
    }

    fn texts(&self) -> [Option<&str>; 6] {
        [
            self.provider.as_deref(),
            self.vendor.as_deref(),
            self.model.as_deref(),
            self.response_model.as_deref(),
            self.target.as_deref(),
            self.error_code.as_deref(),
        ]
    }

    /// The flags of the attempt, and which of its numbers are not those of its request.
    fn differs(&self, attempt: &Attempt<'_>) -> u64 {
        let counts = attempt.usage.map(counts);
        let is_usage_the_same = self.counts() == counts
            && self.usage_source.as_deref() == attempt.usage.map(|_| attempt.usage_source);
        let cost = attempt.cost;
        let is_cost_the_same = self.cost == nanodollars(attempt)
            && self.cost_status.as_deref() == cost.map(|cost| cost.status.as_str())
            && self.price_version.as_deref() == cost.map(|cost| &*cost.price_version)
            && self.rates_hash == cost.map(|cost| RatesHash(cost.rates_hash));
        let flag = |is_set: bool, bit: u64| if is_set { bit } else { 0 };
        flag(attempt.is_success, IS_SUCCESS)
            | flag(attempt.responded, RESPONDED)
            | flag(attempt.status != self.status, STATUS)
            | flag(attempt.spent_us != self.upstream_us, SPENT)
            | flag(!is_usage_the_same, USAGE)
            | flag(!is_cost_the_same, COST)
    }

    /// All of its counts of tokens.
    fn counts(&self) -> Option<[u64; 6]> {
        Some([
            self.input_tokens?,
            self.output_tokens?,
            self.total_tokens?,
            self.cached_tokens?,
            self.cache_write_tokens?,
            self.reasoning_tokens?,
        ])
    }

    fn read_attempt(&self, reader: &mut Reader<'_>) -> Result<Self, Damaged> {
        let number = reader.small()?;
        let since = i64::try_from(reader.number()?).map_err(|_| Damaged)?;
        let created_ms = self.created_ms.saturating_add(since);
        let differs = reader.number()?;
        let responded = differs & RESPONDED != 0;
        let mut row = Self {
            id: id::of_attempt(self.id, created_ms, number),
            kind: RowKind::Attempt,
            request: Some(self.id),
            attempt: Some(number),
            created_ms,
            is_success: differs & IS_SUCCESS != 0,
            responded,
            overhead_us: 0,
            first_token_us: self.first_token_us.filter(|_| responded),
            retries: 0,
            is_fallback: false,
            cache_status: None,
            cache_type: None,
            saved_cost: None,
            bytes_in: 0,
            bytes_out: 0,
            attempts: Attempts::default(),
            ..self.clone()
        };
        let texts = [
            &mut row.provider,
            &mut row.vendor,
            &mut row.model,
            &mut row.response_model,
            &mut row.target,
            &mut row.error_code,
        ];
        for (at, text) in texts.into_iter().enumerate() {
            if differs & (1 << at) != 0 {
                *text = optional(reader)?;
            }
        }
        if differs & STATUS != 0 {
            row.status = u16::try_from(reader.number()?).map_err(|_| Damaged)?;
        }
        if differs & SPENT != 0 {
            row.upstream_us = reader.number()?;
        }
        row.latency_us = row.upstream_us;
        if differs & USAGE != 0 {
            row.read_usage(reader)?;
        }
        if differs & COST != 0 {
            row.read_cost(reader)?;
        }
        Ok(row)
    }

    fn read_usage(&mut self, reader: &mut Reader<'_>) -> Result<(), Damaged> {
        self.usage_source = optional(reader)?;
        let is_there = self.usage_source.is_some();
        let counts = [
            &mut self.input_tokens,
            &mut self.output_tokens,
            &mut self.total_tokens,
            &mut self.cached_tokens,
            &mut self.cache_write_tokens,
            &mut self.reasoning_tokens,
        ];
        for count in counts {
            *count = if is_there { Some(reader.number()?) } else { None };
        }
        Ok(())
    }

    fn read_cost(&mut self, reader: &mut Reader<'_>) -> Result<(), Damaged> {
        self.cost = match reader.number()? {
            0 => None,
            _ => Some(reader.number()?.cast_signed()),
        };
        self.cost_status = optional(reader)?;
        let is_there = self.cost_status.is_some();
        self.price_version = if is_there { optional(reader)? } else { None };
        self.rates_hash = if is_there { Some(RatesHash(reader.number()?)) } else { None };
        Ok(())
    }
}

/// Its texts that its request may not have, in the order of their bits.
fn texts<'a>(attempt: &'a Attempt<'_>) -> [Option<&'a str>; 6] {
    [
        attempt.provider.as_deref(),
        attempt.vendor,
        attempt.model.as_deref(),
        attempt.response_model.as_deref(),
        attempt.target,
        attempt.error_code,
    ]
}

fn counts(usage: &Usage) -> [u64; 6] {
    [usage.input, usage.output, usage.total, usage.cached, usage.cache_write, usage.reasoning]
}

/// What it cost; `None`: nothing is charged, or the price is not there.
fn nanodollars(attempt: &Attempt<'_>) -> Option<i64> {
    match attempt.cost {
        Some(cost) => cost.nanodollars,
        None => attempt.is_from_cache.then_some(0),
    }
}

fn put_usage(out: &mut Vec<u8>, attempt: &Attempt<'_>) {
    put_optional(out, attempt.usage.map(|_| attempt.usage_source));
    if let Some(usage) = attempt.usage {
        counts(usage).into_iter().for_each(|count| put_number(out, count));
    }
}

fn put_cost(out: &mut Vec<u8>, attempt: &Attempt<'_>) {
    let nanodollars = nanodollars(attempt);
    put_number(out, u64::from(nanodollars.is_some()));
    if let Some(nanodollars) = nanodollars {
        put_number(out, nanodollars.cast_unsigned());
    }
    put_optional(out, attempt.cost.map(|cost| cost.status.as_str()));
    if let Some(cost) = attempt.cost {
        put_optional(out, Some(&*cost.price_version));
        put_number(out, cost.rates_hash);
    }
}

/// A text with a byte before it that says whether there is one.
fn put_optional(out: &mut Vec<u8>, text: Option<&str>) {
    out.push(u8::from(text.is_some()));
    if let Some(text) = text {
        put_text(out, text);
    }
}

fn optional(reader: &mut Reader<'_>) -> Result<Option<Text>, Damaged> {
    match reader.number()? {
        0 => Ok(None),
        _ => Ok(Some(Text::from(reader.text()?.to_owned()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::row::sample;
    use std::sync::Arc;

    /// What a request's row says of itself, as its only attempt.
    fn only_attempt<'a>(row: &'a Row, usage: &'a Usage, cost: &'a Cost) -> Attempt<'a> {
        Attempt {
            number: 1,
            created_ms: row.created_ms + 2,
            provider: row.provider.as_deref().map(Cow::Borrowed),
            vendor: row.vendor.as_deref(),
            model: row.model.as_deref().map(Cow::Borrowed),
            response_model: row.response_model.as_deref().map(Cow::Borrowed),
            target: row.target.as_deref(),
            status: row.status,
            error_code: row.error_code.as_deref(),
            is_success: true,
            responded: true,
            spent_us: row.upstream_us,
            usage: Some(usage),
            usage_source: "reported",
            cost: Some(cost),
            is_from_cache: false,
        }
    }

    fn request() -> Row {
        Row { attempts: Attempts::default(), request: None, attempt: None, ..sample(7) }
    }

    /// The row of the attempt that says what [`request`] does, as older versions wrote it.
    fn row_of_only_attempt(id: Uuid) -> Row {
        let row = request();
        Row {
            id,
            kind: RowKind::Attempt,
            request: Some(row.id),
            attempt: Some(1),
            created_ms: row.created_ms + 2,
            latency_us: row.upstream_us,
            overhead_us: 0,
            retries: 0,
            is_fallback: false,
            cache_status: None,
            cache_type: None,
            saved_cost: None,
            bytes_in: 0,
            bytes_out: 0,
            ..row
        }
    }

    fn usage() -> Usage {
        Usage {
            input: 7,
            output: 14,
            total: 21,
            cached: 28,
            cache_write: 35,
            reasoning: 42,
            ..Usage::default()
        }
    }

    #[test]
    fn an_only_attempt_is_read_back_as_its_row_was_and_takes_some_bytes() {
        let usage = usage();
        let cost = Cost::priced(49, Arc::from("prices-7"), u64::MAX);
        let mut row = request();
        row.add_attempt(&only_attempt(&request(), &usage, &cost));
        let found = row.attempt_rows();
        let expected = row_of_only_attempt(found[0].id);
        assert_eq!(found, [Row { request: Some(row.id), ..expected }]);
        assert_eq!(row.attempt_row(found[0].id).as_ref(), found.first());
        assert!(row.attempts.bytes().len() <= 8, "{:?}", row.attempts);
    }

    #[test]
    fn attempts_that_differ_in_all_are_read_back_in_their_order() {
        let as_handed = request();
        let mut row = request();
        let cost = Cost::unknown(Arc::from("prices-8"), 5);
        let usage = Usage { input: 9, ..Usage::default() };
        let failed = Attempt {
            provider: None,
            model: Some("another".into()),
            response_model: None,
            target: Some("config.targets[1]"),
            status: 503,
            error_code: Some("upstream"),
            is_success: false,
            responded: false,
            spent_us: u64::MAX,
            usage_source: "estimated",
            ..only_attempt(&as_handed, &usage, &cost)
        };
        let free = Attempt { usage: None, cost: None, is_from_cache: true, number: 2, ..failed.clone() };
        [&failed, &free].into_iter().for_each(|attempt| row.add_attempt(attempt));
        let found = row.attempt_rows();
        assert_eq!(found.iter().map(|row| row.attempt).collect::<Vec<_>>(), [Some(1), Some(2)]);
        let mut expected = Row {
            request: Some(row.id),
            provider: None,
            model: Some(Text::new("another")),
            response_model: None,
            target: Some(Text::new("config.targets[1]")),
            status: 503,
            error_code: Some(Text::new("upstream")),
            is_success: false,
            responded: false,
            latency_us: u64::MAX,
            upstream_us: u64::MAX,
            first_token_us: None,
            ..row_of_only_attempt(found[0].id)
        };
        expected.set_usage(Some(&usage), "estimated");
        expected.set_cost(Some(&cost));
        assert_eq!(found[0], expected);
        let free = &found[1];
        assert_eq!((free.cost, &free.cost_status, free.input_tokens), (Some(0), &None, None));
        assert_eq!(row.attempt_row(free.id).as_ref(), Some(free));
    }

    #[test]
    fn what_is_cut_or_of_another_form_has_no_attempts() {
        let as_handed = request();
        let mut row = request();
        let cost = Cost::priced(1, Arc::from("other prices"), 9);
        let usage = Usage { input: 1, ..Usage::default() };
        let attempt = Attempt { status: 500, ..only_attempt(&as_handed, &usage, &cost) };
        row.add_attempt(&attempt);
        let whole = row.attempts.bytes().to_vec();
        for cut in 0..whole.len() {
            row.attempts = Attempts::new(&whole[..cut]);
            assert!(row.attempt_rows().is_empty(), "{cut}");
        }
        row.attempts = Attempts::new(&[&[FORM + 1], &whole[1..]].concat());
        assert!(row.attempt_rows().is_empty());
        let kept = serde_json::to_string(&Row { attempts: Attempts::new(&whole), ..row }).unwrap();
        let back: Row = serde_json::from_str(&kept).unwrap();
        assert_eq!(back.attempt_rows().len(), 1);
    }
}
