//! The classes of failures that a strategy can name: `strategy.on_errors`, and `for_errors` of a target.
//!
//! Coarser than what errors of providers are sorted into (`api::error_class`): one name for whatever calls for the same
//! fallback, and names for failures without a response too. Which failure has which class: `route::outcome`.

use super::members::{Choice, List, MemberType, list};
use super::read::Cursor;
use serde_json::Value;

/// A class of failures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureClass {
    /// The request is too long for the model.
    ContextWindow,
    /// The provider refused the content.
    ContentPolicy,
    /// Too many requests or tokens in a short time, by the provider's or the gateway's own limit.
    RateLimit,
    /// No credit, or a used-up budget, by the provider's or the gateway's own limit.
    Quota,
    /// A time limit, or a provider that reports one.
    Timeout,
    /// No usable response: refused, reset, cut.
    Connection,
    /// The provider failed or is overloaded.
    ServerError,
    /// A key that is wrong, or may not do this.
    Auth,
    ModelNotFound,
    /// Any other status that is not 2xx, and what the target does not support.
    Other,
}

impl FailureClass {
    const VARIANTS: [(&'static str, Self); 10] = [
        ("context_window", Self::ContextWindow),
        ("content_policy", Self::ContentPolicy),
        ("rate_limit", Self::RateLimit),
        ("quota", Self::Quota),
        ("timeout", Self::Timeout),
        ("connection", Self::Connection),
        ("server_error", Self::ServerError),
        ("auth", Self::Auth),
        ("model_not_found", Self::ModelNotFound),
        ("other", Self::Other),
    ];

    /// A list of them in a config.
    pub(super) const LIST: List<'static, Choice<Self>> =
        list(Choice(&Self::VARIANTS), "A class of failures.");

    /// The same, which must not be empty.
    pub(super) const NON_EMPTY_LIST: NonEmptyList = NonEmptyList;

    /// The value as written in a config.
    pub fn as_str(self) -> &'static str {
        let found = Self::VARIANTS.iter().find(|(_, class)| *class == self);
        found.map_or("other", |(name, _)| name)
    }
}

/// A list of classes with one at least.
pub(super) struct NonEmptyList;

impl MemberType for NonEmptyList {
    type Value = Vec<FailureClass>;

    fn read(&self, at: &Cursor<'_>) -> Option<Self::Value> {
        if at.node.is_empty_list() {
            at.problem("must hold at least one class");
        }
        FailureClass::LIST.read(at)
    }

    fn schema(&self, doc: &str) -> Value {
        let mut schema = FailureClass::LIST.schema(doc);
        if let Value::Object(keywords) = &mut schema {
            keywords.insert("minItems".to_owned(), 1.into());
        }
        schema
    }
}
