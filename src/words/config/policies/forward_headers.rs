//! `forward_headers`: names of request headers to forward to the provider unchanged.
//!
//! A level's list replaces that of the level above.

use super::{Policies, PolicyKey, inherit_value};
use crate::config::headers::{GatewayHeaders, forwardable};
use crate::config::read::{Cursor, ObjectReader};
use http::HeaderName;

pub(super) const KEY: PolicyKey = PolicyKey {
    names: &["forward_headers"],
    read: |policies, fields| policies.forward_headers = names(fields),
    read_headers: Some(read_headers),
    inherit,
    describe: None,
};

impl Policies {
    /// Names of the request headers to forward unchanged.
    pub fn forward_headers(&self) -> &[HeaderName] {
        self.forward_headers.as_deref().unwrap_or_default()
    }
}

/// Reads the list from a config or a stored provider.
pub fn names(fields: &mut ObjectReader<'_>) -> Option<Vec<HeaderName>> {
    let header = |item: &Cursor<'_>| {
        let name = forwardable(item.text()?);
        name.map_err(|message| item.problem(message)).ok()
    };
    Some(fields.get(&["forward_headers"])?.list()?.iter().filter_map(header).collect())
}

fn read_headers(policies: &mut Policies, headers: &GatewayHeaders<'_>) {
    policies.forward_headers.clone_from(&headers.forward_headers);
}

fn inherit(policies: &mut Policies, above: &Policies) {
    inherit_value(&mut policies.forward_headers, &above.forward_headers);
}
