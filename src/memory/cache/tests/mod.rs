//! Responses for the tests of the cache, and what a store does with them.

mod keys;
mod memory;

mod shared;

use super::{CacheKey, CachedResponse, Scope};
use bytes::Bytes;
use jiff::{SignedDuration, Timestamp};
use std::sync::Arc;
use uuid::Uuid;

pub(super) fn key(number: u8) -> CacheKey {
    CacheKey([number; 32])
}

pub(super) fn scope(workspace: u128, namespace: Option<&str>) -> Scope {
    Scope { workspace: Uuid::from_u128(workspace), namespace: namespace.map(Arc::from) }
}

pub(super) fn start() -> Timestamp {
    "2026-11-23T10:00:00.123456789Z".parse().unwrap()
}

/// Kept for an hour from [`start`].
pub(super) fn entry(body: &str) -> CachedResponse {
    CachedResponse {
        scope: scope(1, None),
        streamed: false,
        content_type: "application/json".into(),
        body: Bytes::copy_from_slice(body.as_bytes()),
        pace: Arc::new([]),
        stored_at: start(),
        expires_at: start() + SignedDuration::from_hours(1),
        input_tokens: 12,
        output_tokens: 3_000_000_000,
        cost: Some(4_500),
    }
}

/// A stream with this many events.
pub(super) fn streamed(events: u32) -> CachedResponse {
    let mut body = String::new();
    let mut pace = Vec::new();
    for index in 0..events {
        let event = format!(
            "data: {{\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\",\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\" word{}\"}}}}]}}\n\n",
            index.wrapping_mul(2_654_435_761) % 10_007
        );
        body.push_str(&event);
        pace.push((body.len() as u32, index * 20));
    }
    CachedResponse {
        scope: scope(1, Some("team")),
        streamed: true,
        content_type: "text/event-stream".into(),
        pace: pace.into(),
        cost: None,
        ..entry(&body)
    }
}
