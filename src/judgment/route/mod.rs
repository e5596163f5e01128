//! Routing: compiles configs, plans which target is tried next, and prepares the attempt for that target.
//!
//! Pure: time, random numbers and the state of the targets are arguments. Nothing here does network I/O.
//!
//! `Plan::first` and `Plan::next` are the only place that knows fallback, balance, conditions and breakers; `retry` knows
//! retries, `continuation` after which outcomes a group goes on. Outcomes and a `RoutingEnv` (random numbers, circuits, latency, the request's facts) go in, a target and a wait come
//! out. A broken stream is `Outcome::Interrupted`, a request that was refused for its prefill `Outcome::PrefillRefused`, one
//! in a form that the provider does not take `Outcome::FormRefused`, a body
//! that can be sent only once `Plan::set_last`; what an outcome means for a circuit is `Outcome::breaker_signal`. The tests
//! compare the plan with a slow model of the rules. The engine never decides which target is next, and the plan never sees a
//! byte.

pub mod admission;
mod api_call;
pub mod attempt;
mod body_edits;
pub mod compile;
pub mod compiled;
pub mod config_cache;
pub mod config_hooks;
mod continuation;
pub mod deadlines;
pub mod env;
pub mod explain;
pub mod facts;
mod group_strategy;
mod host_group;
mod late_body;
mod learned_form;
mod least_busy;
pub mod mcp_target;
pub mod model_names;
pub mod outcome;
pub mod pick;
pub mod place_owners;
pub mod plan;
pub mod prefix_choice;
pub(crate) mod prompt_call;
pub mod prompt_prefix;
pub mod provider_ref;
pub mod request_mode;
pub mod request_snapshot;
mod resolved_provider;
pub mod retry;
pub mod stored_calls;
pub mod target;
mod target_prompt;
pub mod vendor_headers;

#[cfg(test)]
mod tests;
