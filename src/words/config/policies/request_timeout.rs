//! `request_timeout`: the time for one attempt, in milliseconds: until a whole response is complete, or until the first
//! content of a stream.
//!
//! Not the finer `time_limits`. Per attempt, because a target may have its own, and a fallback needs time of its own.

use super::{Policies, PolicyKey, inherit_value};
use crate::config::headers::GatewayHeaders;
use crate::config::read::ObjectReader;
use crate::config::values::timeout_ms;
use std::time::Duration;

/// Described as a part of `time_limits`.
pub(super) const KEY: PolicyKey = PolicyKey {
    names: &["request_timeout"],
    read,
    read_headers: Some(read_headers),
    inherit,
    describe: None,
};

fn read(policies: &mut Policies, fields: &mut ObjectReader<'_>) {
    let ms = fields.get(&["request_timeout"]).and_then(|at| timeout_ms(&at));
    policies.request_timeout = ms.map(Duration::from_millis);
}

fn read_headers(policies: &mut Policies, headers: &GatewayHeaders<'_>) {
    policies.request_timeout = headers.request_timeout.map(Duration::from_millis);
}

fn inherit(policies: &mut Policies, above: &Policies) {
    inherit_value(&mut policies.request_timeout, &above.request_timeout);
}
