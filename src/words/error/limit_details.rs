//! What an error says of the limit that refused a request: for its body and headers.
//!
//! Plain text and numbers. Which limit refuses what is decided elsewhere (`limits`).

use serde::Serialize;

/// The limit that refused a request.
#[derive(Debug, Clone, PartialEq)]
pub struct LimitDetails {
    /// `policy`, `api_key`, `workspace`, `virtual_key` or `integration`.
    pub scope: &'static str,
    /// Of the policy, key, workspace or provider whose limit it is.
    pub id: String,
    pub name: Option<String>,
    /// `usage` or `rate`.
    pub kind: &'static str,
    /// What it counts: `cost`, `tokens` or `requests`.
    pub counts: &'static str,
    /// `rpm` and the like; `None` for usage.
    pub unit: Option<&'static str>,
    /// When its bucket starts anew, ISO 8601; `None` where it never does.
    pub reset_at: Option<String>,
    /// Whole seconds until the same request may pass.
    pub retry_after: Option<u32>,
    /// `error.type` in OpenAI's dialects.
    pub error_type: &'static str,
    /// `error.code`, a number of Portkey's in two digits, or a word.
    pub code: &'static str,
    /// What was used and the limit, in the limit's own unit (dollars for `cost`); only for clients that may read policies.
    pub amounts: Option<Amounts>,
    /// The names or ids of all limits that refused it, where there were more.
    pub others: Vec<String>,
}

/// How much was used of how much.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Amounts {
    pub spent: f64,
    pub limit: f64,
}

/// The member `limit` of an error body.
#[derive(Debug, Serialize)]
pub struct LimitView<'a> {
    scope: &'static str,
    id: &'a str,
    name: Option<&'a str>,
    kind: &'static str,
    #[serde(rename = "type")]
    counts: &'static str,
    unit: Option<&'static str>,
    reset_at: Option<&'a str>,
    #[serde(flatten)]
    amounts: Option<Amounts>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    others: &'a [String],
}

impl<'a> From<&'a LimitDetails> for LimitView<'a> {
    fn from(details: &'a LimitDetails) -> Self {
        let LimitDetails { scope, id, name, kind, counts, unit, reset_at, amounts, others, .. } = details;
        Self {
            scope,
            id,
            name: name.as_deref(),
            kind,
            counts,
            unit: *unit,
            reset_at: reset_at.as_deref(),
            amounts: *amounts,
            others,
        }
    }
}
