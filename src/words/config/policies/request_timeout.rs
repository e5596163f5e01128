//! `request_timeout`: the time for one attempt, in milliseconds: until a whole response is complete, or until the first
//! content of a stream.
//!
//! Not the finer `time_limits`. Per attempt, because a target may have its own, and a fallback needs time of its own.

use super::from_headers::PolicyHeader;
use super::{PolicyKey, inherit_value};
use crate::config::members::{MILLIS, Time};
use std::time::Duration;

/// Described as a part of `time_limits`.
pub(super) const KEY: PolicyKey = PolicyKey {
    enough: &["request_timeout"],
    members: |policies, table| {
        let doc = "For each attempt, in milliseconds: a whole response, or a stream's first token.";
        policies.request_timeout = table.get("request_timeout", Time::new(1, 1, i64::MAX), doc);
    },
    in_provider: Some(|policies, table| {
        let doc = "For one attempt, in milliseconds; a config's takes precedence.";
        policies.request_timeout = table.get("request_timeout", MILLIS, doc);
    }),
    header: Some(PolicyHeader {
        names: &["request-timeout"],
        read: |policies, lines| {
            let ms = lines.first().map(|line| line.milliseconds()).transpose()?;
            policies.request_timeout = ms.map(Duration::from_millis);
            Ok(())
        },
        is_list: false,
        inline: None,
    }),
    inherit: |policies, above| inherit_value(&mut policies.request_timeout, &above.request_timeout),
    ..PolicyKey::NONE
};
