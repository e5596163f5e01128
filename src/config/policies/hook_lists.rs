//! The hooks and guardrails of a target: `before_request_hooks` with `input_guardrails`, which run on the request, and
//! `after_request_hooks` with `output_guardrails`, which run on the response.
//!
//! The two lists of a phase are one list in the reference, and are inherited as one: a level that has either replaces
//! both. Not here: what a hook is (`config::hooks`), and running them.

use super::PolicyKey;
use crate::config::hooks::{Guardrail, Hook, HookPhase};
use crate::config::read::{Cursor, ObjectReader};

pub(super) const REQUEST: PolicyKey = PolicyKey {
    names: &["before_request_hooks", "input_guardrails"],
    read: |policies, fields| {
        policies.request_hooks =
            HookLists::read(fields, HookPhase::Before, "before_request_hooks", "input_guardrails");
    },
    read_headers: None,
    inherit: |policies, above| policies.request_hooks.inherit(&above.request_hooks),
    describe: None,
};

pub(super) const RESPONSE: PolicyKey = PolicyKey {
    names: &["after_request_hooks", "output_guardrails"],
    read: |policies, fields| {
        policies.response_hooks =
            HookLists::read(fields, HookPhase::After, "after_request_hooks", "output_guardrails");
    },
    read_headers: None,
    inherit: |policies, above| policies.response_hooks.inherit(&above.response_hooks),
    describe: None,
};

/// The hooks and guardrails of one phase. An empty list differs from an absent one: it replaces the inherited list.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct HookLists {
    pub hooks: Option<Vec<Hook>>,
    pub guardrails: Option<Vec<Guardrail>>,
}

impl HookLists {
    /// Whether nothing is to run.
    pub fn is_empty(&self) -> bool {
        self.hooks.as_ref().is_none_or(Vec::is_empty) && self.guardrails.as_ref().is_none_or(Vec::is_empty)
    }

    fn read(
        fields: &mut ObjectReader<'_>,
        phase: HookPhase,
        hooks_name: &str,
        guardrails_name: &str,
    ) -> Self {
        let hooks = items(fields, hooks_name, |item| Hook::read(item, phase));
        let guardrails = items(fields, guardrails_name, |item| Guardrail::read(item, phase));
        Self { hooks, guardrails }
    }

    fn inherit(&mut self, above: &Self) {
        if self.hooks.is_none() && self.guardrails.is_none() {
            self.clone_from(above);
        }
    }
}

fn items<T>(
    fields: &mut ObjectReader<'_>,
    name: &str,
    read: impl Fn(&Cursor<'_>) -> Option<T>,
) -> Option<Vec<T>> {
    let list = fields.get(&[name])?.list()?;
    Some(list.iter().filter_map(read).collect())
}
