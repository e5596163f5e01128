//! A key of a provider of Bifrost's: an account with it, a stored provider here.
//!
//! Not here: which models it is for (`models`).

use super::super::cursor::InputAt;
use super::super::import::Import;
use super::super::moved::VariableUse;
use super::super::report::Taken;
use super::super::tree::Tree;
use super::super::vendors::Vendor;
use super::value;

/// Providers whose base URL ends with the version here, and without it in Bifrost's file.
const ADDS_VERSION: [&str; 7] =
    ["openai", "groq", "mistral-ai", "cerebras", "x-ai", "nebius", "fireworks-ai"];

/// The account so far, and what of the input became which of its members.
struct KeyAccount<'i, 'n> {
    import: &'i mut Import,
    account: Tree,
    notes: Vec<(InputAt<'n>, Taken, String)>,
    /// The provider's name in capitals, for variables.
    name: String,
}

/// The slug of the stored provider of this key.
pub fn provider<'n>(
    import: &mut Import,
    vendor: &'static Vendor,
    name: &str,
    provider: &InputAt<'n>,
    key: Option<&InputAt<'n>>,
) -> String {
    let account = Tree::of([("provider", Tree::text(vendor.id))]);
    let capitals = name.to_uppercase();
    let mut made = KeyAccount { import, account, notes: Vec::new(), name: capitals };
    made.host(vendor, provider);
    if let Some(key) = key {
        made.key(vendor, key);
    }
    if vendor.needs_host && made.account.member("custom_host").is_none() {
        let host = made.import.moved.variable(&vendor.base_variable(), VariableUse::Url);
        made.account.set("custom_host", Tree::Text(host));
    }
    made.timeout(provider);
    let KeyAccount { import, account, notes, .. } = made;
    let slug = import.moved.provider(name, &account);
    for (at, taken, member) in notes {
        value::record(import, &at, taken, &format!("providers.{slug}.{member}"));
    }
    slug
}

impl<'n> KeyAccount<'_, 'n> {
    fn text(&mut self, at: Option<InputAt<'n>>, member: &str, of: VariableUse) -> bool {
        let ending = if of == VariableUse::Url { "API_BASE" } else { "VALUE" };
        self.value(at, member, ending, of)
    }

    fn secret(&mut self, at: Option<InputAt<'n>>, member: &str, ending: &str) -> bool {
        self.value(at, member, ending, VariableUse::Secret)
    }

    fn value(&mut self, at: Option<InputAt<'n>>, member: &str, ending: &str, of: VariableUse) -> bool {
        let Some(at) = at else { return false };
        let wanted = format!("{}_{ending}", self.name);
        let Some(written) = value::written(self.import, &at, &wanted, of) else { return false };
        self.account.set(member, Tree::Text(written.text));
        self.notes.push((at, written.taken, format!("{member}{}", written.more)));
        true
    }

    /// `network_config.base_url`, to which Bifrost adds `/v1` where the API has it.
    fn host(&mut self, vendor: &'static Vendor, provider: &InputAt<'n>) {
        let network = provider.member("network_config");
        let Some(at) = network.as_ref().and_then(|network| network.member("base_url")) else {
            if let Some(host) = vendor.host {
                self.account.set("custom_host", Tree::text(host));
            }
            return;
        };
        self.base_url(at, vendor);
    }

    fn base_url(&mut self, at: InputAt<'n>, vendor: &'static Vendor) {
        if !self.text(Some(at), "custom_host", VariableUse::Url) {
            return;
        }
        let Some(Tree::Text(host)) = self.account.member("custom_host").cloned() else { return };
        let host = host.trim_end_matches('/').to_owned();
        let last = host.rsplit('/').next().unwrap_or_default();
        let is_versioned = last.starts_with('v') && last.chars().skip(1).all(|c| c.is_ascii_digit());
        let adds = ADDS_VERSION.contains(&vendor.id) && !is_versioned;
        if adds
            && host.starts_with("${")
            && let Some((_, taken, text)) = self.notes.last_mut()
        {
            *taken = Taken::Different;
            text.push_str("; the variable must have the base URL with the /v1 that Bifrost adds");
        }
        let adds = adds && !host.starts_with("${");
        self.account.set("custom_host", Tree::Text(if adds { format!("{host}/v1") } else { host }));
    }

    fn key(&mut self, vendor: &'static Vendor, key: &InputAt<'n>) {
        let of = |name: &str| key.member(name);
        let within =
            |section: Option<&InputAt<'n>>, name: &str| section.and_then(|section| section.member(name));
        self.secret(of("value"), "api_key", "API_KEY");
        match vendor.id {
            "azure-openai" | "azure-ai" => {
                let azure = of("azure_key_config");
                self.azure(azure.as_ref());
            }
            "bedrock" => {
                let cloud = of("bedrock_key_config");
                self.bedrock(cloud.as_ref());
            }
            "vertex-ai" => {
                let cloud = of("vertex_key_config");
                let cloud = cloud.as_ref();
                self.text(within(cloud, "project_id"), "cloud_b_project_id", VariableUse::Text);
                self.text(within(cloud, "region"), "cloud_b_region", VariableUse::Text);
                let json = within(cloud, "auth_credentials");
                let of = VariableUse::ServiceAccount;
                if !self.value(json, "cloud_b_service_account_json", "CREDENTIALS", of)
                    && self.account.member("api_key").is_none()
                {
                    self.account.set("cloud_b_auth_type", Tree::text("workloadIdentity"));
                }
            }
            _ => {
                for section in ["ollama_key_config", "sgl_key_config", "vllm_key_config"] {
                    if let Some(url) = within(of(section).as_ref(), "url") {
                        self.base_url(url, vendor);
                    }
                }
            }
        }
    }

    fn azure(&mut self, azure: Option<&InputAt<'n>>) {
        let within = |name: &str| azure.and_then(|azure| azure.member(name));
        self.text(within("endpoint"), "custom_host", VariableUse::Url);
        if let Some(Tree::Text(host)) = self.account.member("custom_host").cloned() {
            self.account.set("custom_host", Tree::text(host.trim_end_matches('/')));
        }
        self.text(within("api_version"), "api_version", VariableUse::Text);
        if within("client_secret").is_some() {
            self.account.set("cloud_c_auth_mode", Tree::text("entra"));
            self.text(within("tenant_id"), "cloud_c_entra_tenant_id", VariableUse::Text);
            self.text(within("client_id"), "cloud_c_entra_client_id", VariableUse::Text);
            self.secret(within("client_secret"), "cloud_c_entra_client_secret", "CLIENT_SECRET");
        }
    }

    fn bedrock(&mut self, cloud: Option<&InputAt<'n>>) {
        let within = |name: &str| cloud.and_then(|cloud| cloud.member(name));
        if !self.text(within("region"), "cloud_a_region", VariableUse::Text) {
            self.account.set("cloud_a_region", Tree::text("us-east-1"));
        }
        let has_keys = self.secret(within("access_key"), "cloud_a_access_key_id", "ACCESS_KEY_ID");
        self.secret(within("secret_key"), "cloud_a_secret_access_key", "SECRET_ACCESS_KEY");
        self.secret(within("session_token"), "cloud_a_session_token", "SESSION_TOKEN");
        let has_role = self.text(within("role_arn"), "cloud_a_role_arn", VariableUse::Text);
        self.text(within("external_id"), "cloud_a_external_id", VariableUse::Text);
        if has_role {
            self.account.set("cloud_a_auth_type", Tree::text("assumedRole"));
        } else if self.account.member("api_key").is_some() && !has_keys {
            self.account.set("cloud_a_auth_type", Tree::text("apiKey"));
        } else if !has_keys {
            self.account.set("cloud_a_auth_type", Tree::text("serviceRole"));
        }
    }

    fn timeout(&mut self, provider: &InputAt<'n>) {
        let network = provider.member("network_config");
        let Some(at) = network.and_then(|network| network.member("default_request_timeout_in_seconds"))
        else {
            return;
        };
        if let Some(seconds) = at.number().filter(|seconds| *seconds > 0.0 && *seconds < 1e9) {
            self.account.set("request_timeout", Tree::number((seconds * 1000.0).round()));
            self.notes.push((at, Taken::Exact, "request_timeout, in milliseconds".to_owned()));
        }
    }
}
