//! One row of the ledger: a finished request with its attempts, or one attempt by itself. Plain data.
//!
//! Holds no body and no header (payloads are stored apart from rows, and deleted sooner), and no key, only a key's id.

use super::column::Column;
use super::{Attempts, Text};
use crate::store::sql::{ResultRow, Value, WrongType};
use knowledge::price::Cost;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use uuid::Uuid;
use words::api::usage::Usage;

/// Milliseconds of a day, the unit in which rows are kept and deleted.
pub const MS_A_DAY: i64 = 86_400_000;

/// Makes [`Row`] and its [`COLUMNS`] of one list of members: name, the column's name where that is another one, type.
macro_rules! row {
    ($($(#[$note:meta])* pub $member:ident $(($column:literal))?: $type:ty,)*) => {
        /// One request, or one attempt of an older version's request. Sums over requests and sums over attempts are made of one kind of rows only: tokens and cost of a
        /// request are those of its attempts together.
        ///
        /// Older rows in the spool lack a new member: it is an `Option`, or has `#[serde(default)]`.
        #[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
        pub struct Row {
            $($(#[$note])* pub $member: $type,)*
        }

        /// The columns of rows, in one order for all databases: name in the database, and member. All but the key, which each database makes
        /// of `id` and `created_ms` in its own way. A new one comes last; tables that lack it get it when they are opened.
        pub(super) const COLUMNS: [Column; [$(stringify!($member)),*].len()] = [
            $(Column(column!($member $($column)?), |row| &row.$member, |row| &mut row.$member),)*
        ];
    };
}

/// The name of a member's column.
macro_rules! column {
    ($member:ident) => {
        stringify!($member)
    };
    ($member:ident $column:literal) => {
        $column
    };
}

row! {
    /// Unique; it begins with `created_ms`, so that ids are in order of time ([`id`](super::id)).
    pub id: Uuid,
    pub kind: RowKind,
    /// The row of the attempt's request.
    pub request: Option<Uuid>,
    /// The number of the attempt within the request, from 1.
    pub attempt: Option<u32>,
    /// When the request began, or the attempt. Milliseconds since 1970, UTC.
    pub created_ms: i64,
    pub trace_id: Text,
    pub span_id: Option<Text>,
    pub parent_span_id: Option<Text>,
    pub span_name: Option<Text>,
    /// `None`: the organisation's own, for a key of no workspace.
    pub workspace: Option<Uuid>,
    /// At the time of the request.
    pub workspace_slug: Option<Text>,
    /// The id of a stored key, or the name of one of the settings.
    pub api_key: Option<Text>,
    pub api_key_name: Option<Text>,
    /// `_user` of the metadata, else the user whose key it is, or whom the token names.
    pub user ("user_name"): Option<Text>,
    /// A JSON object whose members are texts.
    pub metadata: Option<Text>,
    /// The label of the operation: `chat`, `embeddings`, `proxy`.
    pub operation: Text,
    pub method: Text,
    /// Without the query.
    pub path: Text,
    /// The slug of the stored provider (`virtual_key` in the API).
    pub provider: Option<Text>,
    /// The vendor (`ai_service` in the API).
    pub vendor: Option<Text>,
    /// The requested model, as it was sent to the provider.
    pub model: Option<Text>,
    pub response_model: Option<Text>,
    /// The slug of the saved config.
    pub config: Option<Text>,
    pub prompt: Option<Text>,
    pub prompt_version: Option<Uuid>,
    /// What the client got; of an attempt what the provider sent. 0: no response.
    pub status: u16,
    pub error_code: Option<Text>,
    pub is_success: bool,
    pub streamed: bool,
    /// Whether the client got this attempt's response.
    pub responded: bool,
    /// Whether it was sent to `POST /logs`, not made of a request to this gateway.
    pub is_custom: bool,
    /// `HIT`, `SEMANTIC HIT`, `MISS`, `REFRESH`, `DISABLED`.
    pub cache_status: Option<Text>,
    /// `simple`, `semantic`.
    pub cache_type: Option<Text>,
    /// Including cached tokens and cache writes. `None`: no usage is there, neither reported nor counted.
    pub input_tokens: Option<u64>,
    /// Including reasoning.
    pub output_tokens: Option<u64>,
    pub total_tokens: Option<u64>,
    pub cached_tokens: Option<u64>,
    pub cache_write_tokens: Option<u64>,
    pub reasoning_tokens: Option<u64>,
    /// `reported`, `estimated`, `bounded`.
    pub usage_source: Option<Text>,
    /// Nanodollars. `None`: nothing was charged, or the price is not there (`cost_status` `unknown`).
    pub cost: Option<i64>,
    /// `priced`, `free`, `unknown`. `None`: nothing was charged.
    pub cost_status: Option<Text>,
    pub price_version: Option<Text>,
    pub rates_hash: Option<RatesHash>,
    /// Nanodollars that a response from the cache has saved.
    pub saved_cost: Option<i64>,
    /// From the first byte of the request to the last one of the response. Microseconds, as all times below.
    pub latency_us: u64,
    /// Waiting for providers.
    pub upstream_us: u64,
    /// The gateway's own share.
    pub overhead_us: u64,
    /// To the first token of the response.
    pub first_token_us: Option<u64>,
    /// Retries at the target that responded; -1 when they were exhausted.
    pub retries: i32,
    /// Whether another target than the first one responded.
    pub is_fallback: bool,
    /// The place of the target in the config (`x-gateway-last-used-option-index`).
    pub target: Option<Text>,
    pub bytes_in: u64,
    pub bytes_out: u64,
    /// The model as the client named it: a name of `models`, `@slug/model`, or what `model` says.
    pub requested_model: Option<Text>,
    /// Of a request.
    #[serde(default)]
    pub attempts: Attempts,
    /// The guardrails whose checks failed, with commas around each: `,no-secrets,pii,`.
    pub guardrails: Option<Text>,
    /// Why the provider's cache of prompts has read nothing, where a config wants it to: `first`, `time` … `None`: it has, or it is not known.
    pub prompt_cache_miss: Option<Text>,
}

/// The hash of the rates that a cost was computed with. All 64 bits are stored, as a signed number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RatesHash(pub u64);

/// What a row is about.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RowKind {
    #[default]
    Request,
    Attempt,
}

impl RowKind {
    /// The number in the database. Never changes.
    pub const fn number(self) -> i64 {
        match self {
            Self::Request => 0,
            Self::Attempt => 1,
        }
    }

    pub(crate) const fn from_number(number: i64) -> Self {
        match number {
            0 => Self::Request,
            _ => Self::Attempt,
        }
    }
}

impl Row {
    /// A row with nothing else set.
    pub fn new(id: Uuid, kind: RowKind, created_ms: i64) -> Self {
        Self { id, kind, created_ms, ..Self::default() }
    }

    /// Its values, in the order of [`COLUMNS`].
    pub(super) fn values(&self) -> impl Iterator<Item = Value<'_>> {
        COLUMNS.iter().map(move |Column(_, get, _)| get(self).value())
    }

    /// The row of a result with the columns of [`COLUMNS`].
    ///
    /// # Errors
    /// A column has another type.
    pub(super) fn read(from: &dyn ResultRow) -> Result<Self, WrongType> {
        let mut row = Self::default();
        for (at, Column(_, _, get_mut)) in COLUMNS.iter().enumerate() {
            get_mut(&mut row).read(from, at)?;
        }
        Ok(row)
    }

    /// Sets the token counts, and where they are from: `reported`; `estimated` where the gateway counted them, at least in part; `bounded`
    /// where more was reported than the request could use.
    pub fn set_usage(&mut self, usage: Option<&Usage>, source: &'static str) {
        self.input_tokens = usage.map(|usage| usage.input);
        self.output_tokens = usage.map(|usage| usage.output);
        self.total_tokens = usage.map(|usage| usage.total);
        self.cached_tokens = usage.map(|usage| usage.cached);
        self.cache_write_tokens = usage.map(|usage| usage.cache_write);
        self.reasoning_tokens = usage.map(|usage| usage.reasoning);
        self.usage_source = usage.map(|_| Text::new(source));
    }

    /// Sets what the request or attempt cost; `None`: nothing is charged.
    pub fn set_cost(&mut self, cost: Option<&Cost>) {
        self.cost = cost.and_then(|cost| cost.nanodollars);
        self.cost_status = cost.map(|cost| Text::new(cost.status.as_str()));
        self.price_version = cost.map(|cost| Text::from(Arc::clone(&cost.price_version)));
        self.rates_hash = cost.map(|cost| RatesHash(cost.rates_hash));
    }

    /// About what it takes in memory, bytes.
    pub fn size(&self) -> usize {
        // Most texts are shared or constants; these are the row's own.
        let own = [
            &self.metadata,
            &self.model,
            &self.response_model,
            &self.requested_model,
            &self.provider,
            &self.span_name,
            &self.error_code,
            &self.guardrails,
        ];
        let attempts = self.attempts.bytes().len();
        size_of::<Self>()
            + self.path.len()
            + attempts
            + own.into_iter().flatten().map(|text| text.len()).sum::<usize>()
    }
}

/// A row with a value in every member, for tests.
#[cfg(test)]
#[allow(clippy::too_many_lines, reason = "a line for each column")]
pub(crate) fn sample(number: u16) -> Row {
    let text = |name: &str| Some(Text::from(format!("{name}-{number}")));
    let created_ms = 1_795_000_000_000 + i64::from(number);
    Row {
        id: super::id::RowIds::default().new_id(created_ms),
        kind: RowKind::Request,
        request: Some(Uuid::from_u128(number.into())),
        attempt: Some(number.into()),
        created_ms,
        trace_id: format!("trace-{number}").into(),
        span_id: text("span"),
        parent_span_id: text("parent"),
        span_name: text("step"),
        workspace: Some(Uuid::from_u128(1)),
        workspace_slug: text("ws"),
        api_key: text("key"),
        api_key_name: text("name"),
        user: text("user"),
        metadata: Some(Text::from(format!("{{\"_user\":\"user-{number}\"}}"))),
        operation: Text::new("chat"),
        method: Text::new("POST"),
        path: Text::new("/v1/chat/completions"),
        provider: text("slug"),
        vendor: text("vendor"),
        model: text("model"),
        response_model: text("response-model"),
        config: text("pc"),
        prompt: text("pp"),
        prompt_version: Some(Uuid::from_u128(2)),
        status: number,
        error_code: text("code"),
        is_success: true,
        streamed: true,
        responded: true,
        is_custom: true,
        cache_status: Some(Text::new("HIT")),
        cache_type: Some(Text::new("simple")),
        input_tokens: Some(u64::from(number)),
        output_tokens: Some(2 * u64::from(number)),
        total_tokens: Some(3 * u64::from(number)),
        cached_tokens: Some(4 * u64::from(number)),
        cache_write_tokens: Some(5 * u64::from(number)),
        reasoning_tokens: Some(6 * u64::from(number)),
        usage_source: Some(Text::new("reported")),
        cost: Some(i64::from(number) * 7),
        cost_status: Some(Text::new("priced")),
        price_version: text("prices"),
        rates_hash: Some(RatesHash(u64::MAX)),
        saved_cost: Some(8),
        latency_us: 9_000,
        upstream_us: 8_000,
        overhead_us: 100,
        first_token_us: Some(300),
        retries: -1,
        is_fallback: true,
        target: text("config"),
        bytes_in: 10,
        bytes_out: 11,
        requested_model: text("requested-model"),
        attempts: Attempts::new(b"attempts"),
        guardrails: Some(Text::from(format!(",guardrail-{number},other,"))),
        prompt_cache_miss: Some(Text::new(if number.is_multiple_of(2) { "time" } else { "changed" })),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl ResultRow for Vec<Value<'_>> {
        fn int(&self, column: usize) -> Result<Option<i64>, WrongType> {
            match &self[column] {
                Value::Null => Ok(None),
                Value::Int(number) => Ok(Some(*number)),
                value => panic!("{value:?}"),
            }
        }

        fn real(&self, column: usize) -> Result<Option<f64>, WrongType> {
            panic!("{:?}", self[column])
        }

        fn text(&self, column: usize) -> Result<Option<&str>, WrongType> {
            match &self[column] {
                Value::Null => Ok(None),
                Value::Text(text) => Ok(Some(text)),
                value => panic!("{value:?}"),
            }
        }

        fn uuid(&self, column: usize) -> Result<Option<Uuid>, WrongType> {
            match &self[column] {
                Value::Null => Ok(None),
                Value::Uuid(id) => Ok(Some(*id)),
                value => panic!("{value:?}"),
            }
        }

        fn bytes(&self, column: usize) -> Result<Option<&[u8]>, WrongType> {
            match &self[column] {
                Value::Null => Ok(None),
                Value::Bytes(bytes) => Ok(Some(bytes)),
                value => panic!("{value:?}"),
            }
        }
    }

    #[test]
    fn a_row_is_read_back_as_it_was_from_its_columns_alone() {
        for row in [sample(7), Row::new(Uuid::nil(), RowKind::Attempt, 5)] {
            let values: Vec<Value<'_>> = row.values().collect();
            assert_eq!(Row::read(&values).unwrap(), row);
        }
        // A member without a column would be lost.
        let members = serde_json::to_value(sample(7)).unwrap();
        assert_eq!(members.as_object().unwrap().len(), COLUMNS.len());
    }
}
