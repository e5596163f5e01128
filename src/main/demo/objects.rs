//! The objects of a demo: three teams with workspaces, providers, configs, guardrails, prompts, policies and keys, made by the control API.

use crate::object_api::ObjectApi;
use crate::object_line::Connection;
use serde_json::{Value, json};
use std::net::SocketAddr;
use uuid::Uuid;
use words::config::secret::Secret;

/// A workspace, and who sends requests in it.
#[derive(Debug)]
pub struct DemoTeam {
    pub slug: &'static str,
    pub workspace: Uuid,
    /// The slug of the config that its requests name.
    pub config: &'static str,
    /// Each with its vendor.
    pub models: &'static [(&'static str, &'static str)],
    pub people: &'static [&'static str],
    pub keys: Vec<TeamKey>,
}

/// A service key of a team.
#[derive(Debug)]
pub struct TeamKey {
    pub id: Uuid,
    pub name: &'static str,
    pub text: Secret,
}

/// What a team is made of.
struct Plan {
    slug: &'static str,
    name: &'static str,
    models: &'static [(&'static str, &'static str)],
    people: &'static [&'static str],
    /// Names of its keys, and what each may spend a month, dollars.
    keys: &'static [(&'static str, f64)],
}

const PLANS: [Plan; 3] = [
    Plan {
        slug: "support",
        name: "Customer support",
        models: &[("openai", "gpt-4o-mini"), ("openai", "gpt-4.1"), ("anthropic", "claude-sonnet-4-5")],
        people: &["ann", "ben", "chloe", "dev"],
        keys: &[("support-desk", 25.0), ("support-mail", 0.02)],
    },
    Plan {
        slug: "search",
        name: "Search",
        models: &[("openai", "gpt-4.1-mini"), ("openai", "gpt-4o-mini")],
        people: &["eva", "farid"],
        keys: &[("search-production", 200.0), ("search-staging", 10.0)],
    },
    Plan {
        slug: "research",
        name: "Research",
        models: &[
            ("anthropic", "claude-opus-4-1"),
            ("anthropic", "claude-sonnet-4-5"),
            ("openai", "house-model-7b"),
        ],
        people: &["grace", "hugo", "ines"],
        keys: &[("notebooks", 300.0), ("evaluations", 80.0)],
    },
];

/// The config of each team, by the same slug.
pub const CONFIG: &str = "main";

/// Makes everything, at the control port, with the administrator's key.
///
/// # Errors
/// What the gateway refuses.
pub fn make(control: SocketAddr, emulator: SocketAddr, key: &str) -> Result<Vec<DemoTeam>, String> {
    let connection = Connection {
        url: Some(format!("http://{control}")),
        key: Some(Secret::new(key)),
        key_file: None,
        ca_file: None,
    };
    let maker = Maker { api: ObjectApi::new(&connection)?, emulator };
    PLANS.iter().map(|plan| maker.team(plan)).collect()
}

/// Calls the control API.
struct Maker {
    api: ObjectApi,
    emulator: SocketAddr,
}

impl Maker {
    fn post(&self, path: &str, body: Value) -> Result<Value, String> {
        self.api.call("POST", path, &[], Some(&body)).map_err(|why| format!("{path}: {why}"))
    }

    fn team(&self, plan: &Plan) -> Result<DemoTeam, String> {
        let body = json!({"name": plan.name, "slug": plan.slug, "description": "A team of the demo."});
        let workspace = id(&self.post("/v1/admin/workspaces", body)?)?;
        self.providers(workspace)?;
        self.rules(plan, workspace)?;
        self.prompts(workspace)?;
        let keys = plan.keys.iter().map(|(name, dollars)| self.key(name, *dollars, workspace));
        let keys = keys.collect::<Result<_, _>>()?;
        let Plan { slug, models, people, .. } = *plan;
        Ok(DemoTeam { slug, workspace, config: CONFIG, models, people, keys })
    }

    /// Two that respond, and one that nobody listens for.
    fn providers(&self, workspace: Uuid) -> Result<(), String> {
        let emulator = self.emulator;
        let away = "http://127.0.0.1:9/v1".to_owned();
        for (slug, vendor, host) in [
            ("openai", "openai", format!("http://{emulator}/v1")),
            ("anthropic", "anthropic", format!("http://{emulator}/v1")),
            ("openai-west", "openai", away),
        ] {
            let account = json!({"name": slug, "slug": slug, "provider": vendor, "key": "sk-demo-0123456789",
                "configurations": {"custom_host": host}, "workspace_id": workspace});
            self.post("/v1/providers", account)?;
        }
        Ok(())
    }

    /// A guardrail, the config that has it, a budget for each person, a rate for each key.
    fn rules(&self, plan: &Plan, workspace: Uuid) -> Result<(), String> {
        let checks = json!([
            {"id": "default.contains", "parameters": {"operator": "none", "words": ["password", "iban"]}},
            {"id": "default.regexMatch", "parameters": {"rule": "[0-9]{3}-[0-9]{2}-[0-9]{4}", "not": true}},
        ]);
        let guardrail = json!({"name": "No secrets", "slug": "no-secrets", "checks": checks,
            "actions": {"deny": true}, "workspace_id": workspace});
        let guardrail = self.post("/v1/guardrails", guardrail)?;
        let first = plan.models.first().map_or("openai", |(vendor, _)| vendor);
        let config = json!({
            "strategy": {"mode": "fallback"},
            "targets": [
                {"provider": "@openai-west", "cb_config": {"failure_threshold": 3, "cooldown_interval": 60_000}},
                {"provider": format!("@{first}"), "retry": {"attempts": 2}},
                {"provider": "@openai", "override_params": {"model": "gpt-4o-mini"}},
            ],
            "cache": {"mode": "simple", "max_age": 3600},
            "input_guardrails": [guardrail.get("slug").cloned().unwrap_or_default()],
        });
        let saved = json!({"name": "Main", "slug": CONFIG, "config": config, "workspace_id": workspace});
        self.post("/v1/configs", saved)?;
        let conditions = json!([{"key": "workspace_id", "value": workspace}]);
        let budget = json!({"name": "A month of each person", "type": "cost", "credit_limit": 40,
            "periodic_reset": "monthly", "conditions": conditions, "group_by": [{"key": "metadata._user"}],
            "workspace_id": workspace});
        self.post("/v1/policies/usage-limits", budget)?;
        let rate = json!({"name": "Requests of each key", "type": "requests", "unit": "rpm", "value": 120,
            "conditions": conditions, "group_by": [{"key": "api_key"}], "workspace_id": workspace});
        self.post("/v1/policies/rate-limits", rate)?;
        Ok(())
    }

    fn prompts(&self, workspace: Uuid) -> Result<(), String> {
        let text = |content: &str| json!([{"role": "user", "content": content}]).to_string();
        let prompt = json!({"name": "Summary", "slug": "summary", "string": text("Summarise: {{text}}"),
            "parameters": {"temperature": 0.2}, "model": "gpt-4o-mini", "virtual_key": "openai",
            "version_description": "The first one", "workspace_id": workspace});
        let made = id(&self.post("/v1/prompts", prompt)?)?;
        let second = json!({"patch": true, "string": text("Summarise in three sentences: {{text}}"),
            "version_description": "Shorter"});
        let path = format!("/v1/prompts/{made}");
        self.api.call("PUT", &path, &[], Some(&second)).map_err(|why| format!("{path}: {why}"))?;
        Ok(())
    }

    fn key(&self, name: &'static str, dollars: f64, workspace: Uuid) -> Result<TeamKey, String> {
        let body = json!({"name": name, "description": "A key of the demo.", "workspace_id": workspace,
            "scopes": ["completions.write", "logs.list", "logs.view", "prompts.render"],
            "usage_limits": {"type": "cost", "credit_limit": dollars, "periodic_reset": "monthly"}});
        let made = self.post("/v1/api-keys/workspace/service", body)?;
        let text = made.get("key").and_then(Value::as_str).ok_or("a key without its text")?;
        Ok(TeamKey { id: id(&made)?, name, text: Secret::new(text) })
    }
}

fn id(made: &Value) -> Result<Uuid, String> {
    let id = made.get("id").and_then(Value::as_str).and_then(|id| Uuid::try_parse(id).ok());
    id.ok_or_else(|| "an object without an id".to_owned())
}
