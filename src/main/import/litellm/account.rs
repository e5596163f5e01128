//! `litellm_params` that say where a deployment is and with which credentials: a stored provider here.
//!
//! Not here: what is requested there (`deployment`).

use super::super::cursor::InputAt;
use super::super::import::Import;
use super::super::moved::VariableUse;
use super::super::report::Taken;
use super::super::tree::Tree;
use super::super::value::WrittenValue;
use super::super::vendors::Vendor;
use super::deployment::region_of;
use super::value;

/// `litellm_params` of a deployment, and below them the credential that they name.
pub struct Params<'n> {
    pub own: InputAt<'n>,
    pub credential: Option<InputAt<'n>>,
}

impl<'n> Params<'n> {
    pub fn member(&self, name: &str) -> Option<InputAt<'n>> {
        self.own.member(name).or_else(|| self.credential.as_ref()?.member(name))
    }
}

/// Servers of one's own, which have an address and need no key.
const SELF_HOSTED: [&str; 5] = ["ollama", "vllm", "lmstudio", "llamacpp", "litellm"];

/// The account so far, and what of the input became which of its members.
struct AccountMaker<'i, 'p, 'n> {
    import: &'i mut Import,
    params: &'p Params<'n>,
    vendor: &'static Vendor,
    account: Tree,
    notes: Vec<(InputAt<'n>, Taken, String)>,
}

/// The slug of the stored provider of this account. `bounds`: members of it that belong to one deployment, which shares its provider with no
/// other then.
pub fn provider(
    import: &mut Import,
    vendor: &'static Vendor,
    params: &Params<'_>,
    bounds: Vec<(&str, Tree)>,
) -> String {
    let account = Tree::of([("provider", Tree::text(vendor.id))]);
    let mut maker = AccountMaker { import, params, vendor, account, notes: Vec::new() };
    match vendor.id {
        "azure-openai" | "azure-ai" => maker.azure(),
        "bedrock" => maker.bedrock(),
        "vertex-ai" => maker.vertex(),
        _ => maker.plain(),
    }
    maker.headers();
    let AccountMaker { import, account, notes, .. } = maker;
    let is_own = !bounds.is_empty();
    let account = bounds.into_iter().fold(account, |account, (name, value)| account.with(name, value));
    let name = vendor.names.first().unwrap_or(&vendor.id);
    let slug = if is_own {
        import.moved.own_provider(name, &account)
    } else {
        import.moved.provider(name, &account)
    };
    for (at, taken, member) in notes {
        let text = format!("providers.{slug}.{member}");
        match taken {
            Taken::Exact => import.findings.exact(&at, text),
            Taken::Different => import.findings.different(&at, text),
            Taken::Not => import.findings.not_taken(&at, text),
        }
    }
    slug
}

impl<'n> AccountMaker<'_, '_, 'n> {
    /// A member of the account, from a key of the input.
    fn take(&mut self, at: InputAt<'n>, member: &str, written: WrittenValue) {
        self.account.set(member, Tree::Text(written.text));
        self.notes.push((at, written.taken, format!("{member}{}", written.more)));
    }

    /// A text of the input; whether there is one.
    fn text(&mut self, name: &str, member: &str) -> bool {
        let Some(at) = self.params.member(name) else { return false };
        let Some(given) = at.text() else { return false };
        let text = value::text(self.import, &given, VariableUse::Text);
        self.take(at, member, WrittenValue::exact(text));
        true
    }

    fn secret(&mut self, name: &str, member: &str, wanted: &str) -> bool {
        let Some(at) = self.params.member(name).filter(|at| at.text().is_some()) else { return false };
        let written = value::secret(self.import, &at, wanted);
        self.take(at, member, written);
        true
    }

    /// A member whose variable LiteLLM looks up by itself.
    fn default_variable(&mut self, member: &str, name: &str, of: VariableUse) {
        let text = self.import.moved.variable(name, of);
        self.account.set(member, Tree::Text(text));
    }

    /// The name of a variable of this provider, such as `GROQ_API_BASE`.
    fn base_variable(&self) -> String {
        self.vendor.base_variable()
    }

    /// `api_base`; whether there is one.
    fn host(&mut self) -> bool {
        let Some(at) = self.params.member("api_base").or_else(|| self.params.member("base_url")) else {
            return false;
        };
        let wanted = self.base_variable();
        let mut written = value::host(self.import, &at, &wanted);
        if self.vendor.id == "anthropic" {
            written.text = written.text.trim_end_matches("/messages").trim_end_matches("/v1").to_owned();
        }
        self.take(at, "custom_host", written);
        true
    }

    fn plain(&mut self) {
        let is_hosted = SELF_HOSTED.contains(&self.vendor.id) || self.vendor.needs_host;
        if !self.host() {
            match self.vendor.host {
                Some(host) => self.account.set("custom_host", Tree::text(host)),
                None if is_hosted => {
                    let name = self.base_variable();
                    self.default_variable("custom_host", &name, VariableUse::Url);
                }
                None => {}
            }
        }
        if !self.secret("api_key", "api_key", self.vendor.key) && !is_hosted {
            self.default_variable("api_key", self.vendor.key, VariableUse::Secret);
        }
        self.text("organization", "provider_organization");
        if self.vendor.id == "predibase" && !self.text("tenant_id", "resource_name") {
            self.default_variable("resource_name", "PREDIBASE_TENANT_ID", VariableUse::Text);
        }
        match self.vendor.id {
            "workers-ai" => {
                self.default_variable("resource_name", "CLOUDFLARE_ACCOUNT_ID", VariableUse::Text);
            }
            "snowflake" => self.default_variable("resource_name", "SNOWFLAKE_ACCOUNT_ID", VariableUse::Text),
            "databricks" if self.account.member("custom_host").is_none() => {
                self.default_variable("custom_host", "DATABRICKS_API_BASE", VariableUse::Url);
            }
            _ => {}
        }
    }

    fn azure(&mut self) {
        if !self.azure_resource() && !self.host() {
            let name = self.base_variable();
            self.default_variable("custom_host", &name, VariableUse::Url);
        }
        let has_token = self.secret("azure_ad_token", "cloud_c_ad_token", "AZURE_AD_TOKEN");
        let signs_in = self.params.member("client_secret").is_some();
        if signs_in {
            self.account.set("cloud_c_auth_mode", Tree::text("entra"));
            self.text("tenant_id", "cloud_c_entra_tenant_id");
            self.text("client_id", "cloud_c_entra_client_id");
            self.secret("client_secret", "cloud_c_entra_client_secret", "AZURE_CLIENT_SECRET");
        }
        let has_key = self.secret("api_key", "api_key", self.vendor.key);
        if !has_key && !has_token && !signs_in {
            self.default_variable("api_key", self.vendor.key, VariableUse::Secret);
        }
        if self.vendor.id == "azure-openai" {
            self.text("api_version", "api_version");
        }
    }

    /// `https://NAME.openai.azure.com`, which is a resource here.
    fn azure_resource(&mut self) -> bool {
        let Some(at) = self.params.member("api_base").filter(|_| self.vendor.id == "azure-openai") else {
            return false;
        };
        let given = at.text().unwrap_or_default();
        let host = given.strip_prefix("https://").map(|rest| rest.trim_end_matches('/'));
        let Some(name) = host.and_then(|host| host.strip_suffix(".openai.azure.com")) else { return false };
        if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-') {
            return false;
        }
        self.take(at, "resource_name", WrittenValue::exact(name));
        true
    }

    fn bedrock(&mut self) {
        self.host();
        let has_region =
            self.text("aws_region_name", "cloud_a_region") || self.text("region_name", "cloud_a_region");
        let in_model = self.params.own.text_of("model").and_then(|model| region_of(self.vendor, &model));
        match in_model {
            _ if has_region => {}
            Some(region) => self.account.set("cloud_a_region", Tree::Text(region)),
            None => self.default_variable("cloud_a_region", "AWS_REGION_NAME", VariableUse::Text),
        }
        if self.secret("api_key", "api_key", self.vendor.key) {
            self.account.set("cloud_a_auth_type", Tree::text("apiKey"));
            return;
        }
        if self.text("aws_role_name", "cloud_a_role_arn") {
            self.account.set("cloud_a_auth_type", Tree::text("assumedRole"));
            self.text("aws_external_id", "cloud_a_external_id");
        }
        let has_key = self.secret("aws_access_key_id", "cloud_a_access_key_id", "AWS_ACCESS_KEY_ID");
        self.secret("aws_secret_access_key", "cloud_a_secret_access_key", "AWS_SECRET_ACCESS_KEY");
        self.secret("aws_session_token", "cloud_a_session_token", "AWS_SESSION_TOKEN");
        if !has_key && self.account.member("cloud_a_role_arn").is_none() {
            // LiteLLM signs in with the environment's or the machine's own account where the file has none.
            self.account.set("cloud_a_auth_type", Tree::text("serviceRole"));
        }
        self.text("aws_batch_role_arn", "cloud_a_batch_role_arn");
        self.text("s3_bucket_name", "cloud_a_s3_bucket");
    }

    fn vertex(&mut self) {
        self.host();
        if !self.text("vertex_project", "cloud_b_project_id") {
            self.default_variable("cloud_b_project_id", "VERTEXAI_PROJECT", VariableUse::Text);
        }
        if !self.text("vertex_location", "cloud_b_region") {
            self.default_variable("cloud_b_region", "VERTEXAI_LOCATION", VariableUse::Text);
        }
        let Some(at) = self.params.member("vertex_credentials") else {
            // LiteLLM signs in with the machine's own account where the file has none.
            self.account.set("cloud_b_auth_type", Tree::text("workloadIdentity"));
            return;
        };
        let given = at.text().unwrap_or_default();
        let mut written =
            self.import.written(&given, value::reader, "VERTEX_CREDENTIALS", VariableUse::ServiceAccount);
        if written.taken == Taken::Exact {
            written.taken = Taken::Different;
            written.more =
                ": the variable must have the JSON itself; a path of a file is not read here".to_owned();
        }
        self.take(at, "cloud_b_service_account_json", written);
    }

    /// `extra_headers` that are members of an account here.
    fn headers(&mut self) {
        let Some(headers) = self.params.member("extra_headers") else { return };
        for (name, at) in headers.entries() {
            let member = match name.to_ascii_lowercase().as_str() {
                "anthropic-beta" => "anthropic_beta",
                "anthropic-version" => "anthropic_version",
                "openai-beta" => "openai_beta",
                _ => continue,
            };
            let Some(given) = at.text() else { continue };
            let text = value::text(self.import, &given, VariableUse::Text);
            self.take(at, member, WrittenValue::exact(text));
        }
    }
}
