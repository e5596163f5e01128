//! The hooks, guardrails and mutators of a target: `before_request_hooks` with `input_guardrails` and `input_mutators`, which run
//! on the request, and the three that run on the response.
//!
//! The lists of a phase are one list in Portkey's configs, and are inherited as one: a level that has one of them replaces
//! all. Not here: what a hook is (`config::hooks`), and running them.

use super::PolicyKey;
use crate::config::hooks::{Guardrail, Hook, HookKind, HookPhase};
use crate::config::read::{Cursor, ObjectReader};
use crate::json::schema::list;
use serde_json::{Value, json};

pub(super) const REQUEST: PolicyKey = PolicyKey {
    names: HookPhase::Before.lists(),
    is_enough: true,
    read: |policies, fields| policies.request_hooks = HookLists::read(fields, HookPhase::Before),
    schema: |name| schema(name, "request"),
    inherit: |policies, above| policies.request_hooks.inherit(&above.request_hooks),
    ..PolicyKey::NONE
};

pub(super) const RESPONSE: PolicyKey = PolicyKey {
    names: HookPhase::After.lists(),
    is_enough: true,
    read: |policies, fields| policies.response_hooks = HookLists::read(fields, HookPhase::After),
    schema: |name| schema(name, "response"),
    inherit: |policies, above| policies.response_hooks.inherit(&above.response_hooks),
    ..PolicyKey::NONE
};

/// The hooks, guardrails and mutators of one phase, which run in this order. An empty list differs from an absent one: it replaces the inherited list.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct HookLists {
    pub hooks: Option<Vec<Hook>>,
    pub guardrails: Option<Vec<Guardrail>>,
    /// Guardrails whose `type` is `mutator` where they have none.
    pub mutators: Option<Vec<Guardrail>>,
}

impl HookLists {
    /// Whether nothing is to run.
    pub fn is_empty(&self) -> bool {
        let empty = |list: &Option<Vec<Guardrail>>| list.as_ref().is_none_or(Vec::is_empty);
        self.hooks.as_ref().is_none_or(Vec::is_empty) && empty(&self.guardrails) && empty(&self.mutators)
    }

    fn read(fields: &mut ObjectReader<'_>, phase: HookPhase) -> Self {
        let [hooks, guardrails, mutators] = phase.lists();
        let mut list = |name, kind| items(fields, name, |item| Guardrail::read(item, phase, kind));
        let guardrails = list(guardrails, HookKind::Guardrail);
        let mutators = list(mutators, HookKind::Mutator);
        Self { hooks: items(fields, hooks, |item| Hook::read(item, phase)), guardrails, mutators }
    }

    fn inherit(&mut self, above: &Self) {
        if self.hooks.is_none() && self.guardrails.is_none() && self.mutators.is_none() {
            self.clone_from(above);
        }
    }
}

/// The schema of the list `name`, whose items are those of `phase`.
fn schema(name: &str, phase: &str) -> Value {
    let kind = if name.ends_with("_hooks") { "hook" } else { "guardrail" };
    let items = json!({"$ref": format!("#/$defs/{phase}_{kind}")});
    list("Checks of the request or the response (docs/guardrails.md).", items)
}

fn items<T>(
    fields: &mut ObjectReader<'_>,
    name: &str,
    read: impl Fn(&Cursor<'_>) -> Option<T>,
) -> Option<Vec<T>> {
    let list = fields.get(&[name])?.list()?;
    Some(list.iter().filter_map(read).collect())
}
