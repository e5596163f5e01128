//! One row of the ledger: a finished request, or one attempt of it. Plain data.
//!
//! Holds no body and no header (payloads are kept apart from rows, and die sooner), and no key, only a key's id.

use super::Text;
use knowledge::price::Cost;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use uuid::Uuid;
use words::api::usage::Usage;

/// Milliseconds of a day, the unit in which rows are kept and deleted.
pub const MS_A_DAY: i64 = 86_400_000;

/// One request or one attempt. Sums over requests and sums over attempts are made of one kind of rows only: tokens and cost of a
/// request are those of its attempts together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Row {
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
    /// `_user` of the metadata.
    pub user: Option<Text>,
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
    /// `reported`, `estimated`.
    pub usage_source: Option<Text>,
    /// Nanodollars. `None`: nothing was charged, or the price is not there (`cost_status` `unknown`).
    pub cost: Option<i64>,
    /// `priced`, `free`, `unknown`. `None`: nothing was charged.
    pub cost_status: Option<Text>,
    pub price_version: Option<Text>,
    pub rates_hash: Option<u64>,
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
}

/// What a row is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RowKind {
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

    pub const fn from_number(number: i64) -> Self {
        match number {
            0 => Self::Request,
            _ => Self::Attempt,
        }
    }
}

impl Row {
    /// A row that says nothing but this.
    pub fn new(id: Uuid, kind: RowKind, created_ms: i64) -> Self {
        Self {
            id,
            kind,
            request: None,
            attempt: None,
            created_ms,
            trace_id: Text::new(""),
            span_id: None,
            parent_span_id: None,
            span_name: None,
            workspace: None,
            workspace_slug: None,
            api_key: None,
            api_key_name: None,
            user: None,
            metadata: None,
            operation: Text::new(""),
            method: Text::new(""),
            path: Text::new(""),
            provider: None,
            vendor: None,
            model: None,
            response_model: None,
            config: None,
            prompt: None,
            prompt_version: None,
            status: 0,
            error_code: None,
            is_success: false,
            streamed: false,
            responded: false,
            is_custom: false,
            cache_status: None,
            cache_type: None,
            input_tokens: None,
            output_tokens: None,
            total_tokens: None,
            cached_tokens: None,
            cache_write_tokens: None,
            reasoning_tokens: None,
            usage_source: None,
            cost: None,
            cost_status: None,
            price_version: None,
            rates_hash: None,
            saved_cost: None,
            latency_us: 0,
            upstream_us: 0,
            overhead_us: 0,
            first_token_us: None,
            retries: 0,
            is_fallback: false,
            target: None,
            bytes_in: 0,
            bytes_out: 0,
        }
    }

    /// Sets the token counts. `is_estimated`: the gateway counted them, at least in part.
    pub fn set_usage(&mut self, usage: Option<&Usage>, is_estimated: bool) {
        self.input_tokens = usage.map(|usage| usage.input);
        self.output_tokens = usage.map(|usage| usage.output);
        self.total_tokens = usage.map(|usage| usage.total);
        self.cached_tokens = usage.map(|usage| usage.cached);
        self.cache_write_tokens = usage.map(|usage| usage.cache_write);
        self.reasoning_tokens = usage.map(|usage| usage.reasoning);
        self.usage_source = usage.map(|_| Text::new(if is_estimated { "estimated" } else { "reported" }));
    }

    /// Sets what the request or attempt cost; `None`: nothing is charged.
    pub fn set_cost(&mut self, cost: Option<&Cost>) {
        self.cost = cost.and_then(|cost| cost.nanodollars);
        self.cost_status = cost.map(|cost| Text::new(cost.status.as_str()));
        self.price_version = cost.map(|cost| Text::from(Arc::clone(&cost.price_version)));
        self.rates_hash = cost.map(|cost| cost.rates_hash);
    }

    /// About what it takes in memory, bytes.
    pub fn size(&self) -> usize {
        // Most texts are shared or constants; these are the row's own.
        let own = [
            &self.metadata,
            &self.model,
            &self.response_model,
            &self.provider,
            &self.span_name,
            &self.error_code,
        ];
        size_of::<Self>() + self.path.len() + own.into_iter().flatten().map(|text| text.len()).sum::<usize>()
    }
}

/// A row with a value in every member, for tests.
#[cfg(test)]
pub(crate) fn sample(number: u16) -> Row {
    let text = |name: &str| Some(Text::from(format!("{name}-{number}")));
    let count = |factor: u64| Some(factor * u64::from(number));
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
        input_tokens: count(1),
        output_tokens: count(2),
        total_tokens: count(3),
        cached_tokens: count(4),
        cache_write_tokens: count(5),
        reasoning_tokens: count(6),
        usage_source: Some(Text::new("reported")),
        cost: Some(i64::from(number) * 7),
        cost_status: Some(Text::new("priced")),
        price_version: text("prices"),
        rates_hash: Some(u64::MAX),
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
    }
}
