//! The hooks, guardrails and mutators of a target: `before_request_hooks` with `input_guardrails` and `input_mutators`, which run
//! on the request, and the three that run on the response.
//!
//! The lists of a phase are one list in Portkey's configs, and are inherited as one: a level that has one of them replaces
//! all. Not here: what a hook is (`config::hooks`), and running them.

use super::PolicyKey;
use crate::config::hooks::{Guardrail, GuardrailType, Hook, HookAction, HookKind, HookPhase};
use crate::config::members::{self, MemberTable, MemberType as _, list, object, see};
use serde_json::Value;

pub(super) const REQUEST: PolicyKey = PolicyKey {
    enough: HookPhase::Before.lists(),
    members: |policies, table| policies.request_hooks = HookLists::members(table, HookPhase::Before),
    definitions: &[
        ("request_hook", || hook_schema(HookPhase::Before)),
        ("request_guardrail", || guardrail_schema(HookPhase::Before)),
        ("deny_action", || action_schema(true)),
        ("action", || action_schema(false)),
    ],
    inherit: |policies, above| policies.request_hooks.inherit(&above.request_hooks),
    ..PolicyKey::NONE
};

pub(super) const RESPONSE: PolicyKey = PolicyKey {
    enough: HookPhase::After.lists(),
    members: |policies, table| policies.response_hooks = HookLists::members(table, HookPhase::After),
    definitions: &[
        ("response_hook", || hook_schema(HookPhase::After)),
        ("response_guardrail", || guardrail_schema(HookPhase::After)),
    ],
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

    fn members(table: &mut MemberTable<'_>, phase: HookPhase) -> Self {
        let doc = "Checks of the request or the response (docs/guardrails.md).";
        let [hooks, guardrails, mutators] = *phase.lists();
        let [hook, guardrail] = match phase {
            HookPhase::Before => ["request_hook", "request_guardrail"],
            HookPhase::After => ["response_hook", "response_guardrail"],
        };
        let mut list_of = |name: &'static str, kind| {
            table.get(name, list(see(guardrail, GuardrailType { phase, kind }), ""), doc)
        };
        let guardrails = list_of(guardrails, HookKind::Guardrail);
        let mutators = list_of(mutators, HookKind::Mutator);
        let hook = see(hook, object(|table| Hook::members(table, phase)));
        Self { hooks: table.get(hooks, list(hook, ""), doc), guardrails, mutators }
    }

    fn inherit(&mut self, above: &Self) {
        if self.hooks.is_none() && self.guardrails.is_none() && self.mutators.is_none() {
            self.clone_from(above);
        }
    }
}

fn hook_schema(phase: HookPhase) -> Value {
    members::schema("A hook.", |table| Hook::members(table, phase))
}

fn guardrail_schema(phase: HookPhase) -> Value {
    let doc = "A guardrail; other keys are checks with their parameters.";
    GuardrailType { phase, kind: HookKind::Guardrail }.schema(doc)
}

fn action_schema(may_deny: bool) -> Value {
    members::schema("What happens then.", |table| HookAction::members(table, may_deny))
}
