//! What the client named for its request: in headers of ours, or by a stored prompt.
//!
//! Not here: how a request is routed because of it (`planner`).

use super::caching::CacheHeaders;
use knowledge::prompt::FoundPrompt;
use serde_json::value::RawValue;
use std::borrow::Cow;
use words::config::headers::GatewayHeaders;
use words::json::string::unquote;
use words::json::walk;

/// The member of metadata that names the user.
const USER: &[u8] = b"_user";

/// What the client named.
#[derive(Debug, Default)]
pub struct Named {
    /// Its `x-gateway-metadata`, a JSON object.
    pub metadata: Option<Box<RawValue>>,
    /// What it wants of its log; `None`: nothing in particular.
    pub log: Option<Box<LogHeaders>>,
    /// What it wants of the cache.
    pub cache: Option<Box<CacheHeaders>>,
    pub prompt: Option<FoundPrompt>,
    /// The model as the client wrote it: a name of `models`, or with a slug.
    pub requested_model: Option<String>,
    /// The model, of a request that was refused before its first attempt.
    pub model: Option<String>,
}

impl Named {
    /// `_user` of the metadata.
    pub fn user(&self) -> Option<Cow<'_, str>> {
        let mut members = walk::members(self.metadata.as_ref()?.get().as_bytes())?;
        let (_, value) = members.find(|(name, _)| *name == USER)?;
        unquote(value)
    }
}

/// What a client's headers say about the log of its request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LogHeaders {
    pub span_id: Option<String>,
    pub parent_span_id: Option<String>,
    pub span_name: Option<String>,
    /// Whether no log is kept. What it costs is charged nevertheless.
    pub is_ignored: bool,
    /// Whether no body is kept.
    pub has_no_bodies: bool,
}

impl LogHeaders {
    /// Those of a request, if it has any. `may_ignore`: whether clients may have no log kept (`logs.allow_ignore`).
    pub fn of(headers: &GatewayHeaders<'_>, may_ignore: bool) -> Option<Box<Self>> {
        let text = |text: Option<&str>| text.map(str::to_owned);
        let GatewayHeaders { span_id, parent_span_id, span_name, ignore_service_log, debug, .. } = *headers;
        let is_ignored = ignore_service_log && may_ignore;
        let has_no_bodies = debug == Some(false);
        let has_any = span_id.or(parent_span_id).or(span_name).is_some() || is_ignored || has_no_bodies;
        has_any.then(|| {
            Box::new(Self {
                span_id: text(span_id),
                parent_span_id: text(parent_span_id),
                span_name: text(span_name),
                is_ignored,
                has_no_bodies,
            })
        })
    }
}
