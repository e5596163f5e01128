//! `strict_std_compliance`: whether a translated response holds only what the standard has.
//!
//! On unless a level says otherwise. Not what is left out (`api`).

use super::{Policies, PolicyKey, inherit_value};
use crate::config::headers::GatewayHeaders;
use crate::config::read::ObjectReader;

const NAMES: &[&str] = &["strict_std_compliance", "strict_open_ai_compliance"];

pub(super) const KEY: PolicyKey =
    PolicyKey { names: NAMES, read, read_headers: Some(read_headers), inherit, describe: None };

impl Policies {
    /// Whether a translated response holds only what the standard has.
    pub fn is_strict(&self) -> bool {
        self.strict_std_compliance.unwrap_or(true)
    }
}

fn read(policies: &mut Policies, fields: &mut ObjectReader<'_>) {
    policies.strict_std_compliance = fields.flag(NAMES);
}

fn read_headers(policies: &mut Policies, headers: &GatewayHeaders<'_>) {
    policies.strict_std_compliance = headers.strict_std_compliance;
}

fn inherit(policies: &mut Policies, above: &Policies) {
    inherit_value(&mut policies.strict_std_compliance, &above.strict_std_compliance);
}
