//! `request_timeout`: the time for one attempt, in milliseconds: until a whole response is complete, or until the first
//! content of a stream.
//!
//! Not the finer `time_limits`. Per attempt, because a target may have its own, and a fallback needs time of its own.

use super::from_headers::PolicyHeader;
use super::{PolicyKey, inherit_value};
use crate::config::values::timeout_ms;
use crate::json::schema::{self, integer};
use std::time::Duration;

/// The longest that a stored provider may have, in milliseconds: a day.
const MAX_IN_PROVIDER: i64 = 86_400_000;

/// Described as a part of `time_limits`.
pub(super) const KEY: PolicyKey = PolicyKey {
    names: &["request_timeout"],
    is_enough: true,
    read: |policies, fields| {
        let ms = fields.get(&["request_timeout"]).and_then(|at| timeout_ms(&at));
        policies.request_timeout = ms.map(Duration::from_millis);
    },
    schema: |_| {
        integer("For each attempt, in milliseconds: a whole response, or a stream's first token.", 1, None)
    },
    in_provider: Some((
        |policies, fields| {
            let at = fields.get(&["request_timeout"]);
            let ms =
                at.and_then(|at| at.integer_within(1, MAX_IN_PROVIDER)).and_then(|ms| ms.try_into().ok());
            policies.request_timeout = ms.map(Duration::from_millis);
        },
        |_| schema::millis("For one attempt, in milliseconds; a config's takes precedence."),
    )),
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
