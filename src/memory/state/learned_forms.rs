//! What providers' refusals say of their models: which chats they take only at their Responses API (`provider::responses_only`).
//!
//! Kept for an hour, for a workspace, a provider at its address and a model: a client's own host says nothing about another's, and what
//! one workspace's requests bring about is nothing to another's. Not a setting, and not shared with other processes: each learns by one
//! refused request.

use crate::net::outbound::origin::Origin;
use moka::sync::Cache;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use uuid::Uuid;
use words::config::account::ResponsesWhen;

/// How long a refusal counts. Afterwards the model is tried as before.
const TIME: Duration = Duration::from_secs(3600);
/// The most that is kept; the names of models are the clients'.
const MAX_KEPT: u64 = 10_000;
/// A longer name of a model is not kept.
const MAX_MODEL: usize = 256;

/// What was learned.
#[derive(Debug)]
pub struct LearnedForms {
    kept: Cache<String, ResponsesWhen>,
    /// Nearly always there is nothing, and no request looks it up.
    has_any: AtomicBool,
}

impl Default for LearnedForms {
    fn default() -> Self {
        Self::with_time(TIME)
    }
}

impl LearnedForms {
    fn with_time(time: Duration) -> Self {
        let kept = Cache::builder().max_capacity(MAX_KEPT).time_to_live(time).build();
        Self { kept, has_any: AtomicBool::new(false) }
    }

    /// What one workspace's requests learn and use.
    pub fn of(self: &Arc<Self>, workspace: Option<Uuid>) -> WorkspaceForms {
        WorkspaceForms { all: Arc::clone(self), workspace: workspace.unwrap_or_default() }
    }

    /// Drops what is over; otherwise only the next uses do.
    pub fn drop_expired(&self) {
        self.kept.run_pending_tasks();
    }
}

/// What was learned by the requests of one workspace, or of none.
#[derive(Debug, Clone)]
pub struct WorkspaceForms {
    all: Arc<LearnedForms>,
    workspace: Uuid,
}

impl WorkspaceForms {
    /// Which chats of the model the provider takes only there, as far as it has refused one.
    pub fn find(&self, provider: &str, origin: &Origin, model: &str) -> Option<ResponsesWhen> {
        if !self.all.has_any.load(Ordering::Relaxed) || model.len() > MAX_MODEL {
            return None;
        }
        self.all.kept.get(&self.key(provider, origin, model))
    }

    /// Returns whether it is kept.
    pub fn insert(&self, provider: &str, origin: &Origin, model: &str, when: ResponsesWhen) -> bool {
        let is_kept = model.len() <= MAX_MODEL;
        if is_kept {
            self.all.kept.insert(self.key(provider, origin, model), when);
            self.all.has_any.store(true, Ordering::Relaxed);
        }
        is_kept
    }

    /// Neither a provider's id nor an address has a line feed.
    fn key(&self, provider: &str, origin: &Origin, model: &str) -> String {
        let workspace = self.workspace.to_string();
        [&workspace, "\n", provider, "\n", origin.authority(), &origin.base_path, "\n", model].concat()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_counts_for_one_workspace_and_model_at_one_address_for_a_while() {
        let origin = |url: &str| Origin::parse(url, true).unwrap();
        let one = origin("https://one.example/v1");
        let other = origin("https://other.example/v1");
        let all = Arc::new(LearnedForms::default());
        let forms = all.of(None);
        assert_eq!(forms.find("openai", &one, "m"), None);
        assert!(forms.insert("openai", &one, "m", ResponsesWhen::Tools));
        assert_eq!(forms.find("openai", &one, "m"), Some(ResponsesWhen::Tools));
        assert_eq!(all.of(Some(Uuid::max())).find("openai", &one, "m"), None);
        for (provider, origin, model) in
            [("azure-openai", &one, "m"), ("openai", &other, "m"), ("openai", &one, "n")]
        {
            assert_eq!(forms.find(provider, origin, model), None);
        }
        let long = "x".repeat(MAX_MODEL + 1);
        assert!(!forms.insert("openai", &one, &long, ResponsesWhen::Always));
        assert_eq!(forms.find("openai", &one, &long), None);
        let short_lived = Arc::new(LearnedForms::with_time(Duration::ZERO)).of(None);
        short_lived.insert("openai", &one, "m", ResponsesWhen::Tools);
        assert_eq!(short_lived.find("openai", &one, "m"), None);
    }
}
