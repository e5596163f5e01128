//! `strict_std_compliance`: whether a translated response holds only what the standard has.
//!
//! On unless a level says otherwise. Not what is left out (`api`).

use super::from_headers::PolicyHeader;
use super::{Policies, PolicyKey, inherit_value};
use crate::config::members::{FLAG, default_shown};

const NAMES: &[&str] = &["strict_std_compliance", "strict_open_ai_compliance"];

pub(super) const KEY: PolicyKey = PolicyKey {
    members: |policies, table| {
        let doc = "Whether translated responses hold only what the standard has.";
        policies.strict_std_compliance = table.get(NAMES, default_shown(FLAG, true), doc);
    },
    header: Some(PolicyHeader {
        names: &["strict-std-compliance", "strict-open-ai-compliance"],
        read: |policies, lines| {
            policies.strict_std_compliance = lines.first().map(|line| line.flag()).transpose()?;
            Ok(())
        },
        is_list: false,
        inline: None,
    }),
    inherit: |policies, above| {
        inherit_value(&mut policies.strict_std_compliance, &above.strict_std_compliance);
    },
    ..PolicyKey::NONE
};

impl Policies {
    /// Whether a translated response holds only what the standard has.
    pub fn is_strict(&self) -> bool {
        self.strict_std_compliance.unwrap_or(true)
    }
}
