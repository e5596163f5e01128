//! Whose account a target uses: the provider's keys and the words that address it.
//!
//! The same fields stand in a config object, in `providers.<slug>` of the settings and in request headers;
//! they are read here once. What a provider makes of them is the provider's business.

use super::secret::Secret;

/// Credentials and addressing of one target. All optional: a provider says which it needs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Account {
    pub api_key: Option<Secret>,
    /// Base URL that replaces the provider's own, as written.
    pub custom_host: Option<String>,
    /// Spec `provider_organization`; `OpenAI-Organization` upstream.
    pub organization: Option<String>,
    /// Spec `provider_project`; `OpenAI-Project` upstream.
    pub project: Option<String>,
    pub resource_name: Option<String>,
    pub deployment_id: Option<String>,
    pub api_version: Option<String>,
    pub deployments: Vec<Deployment>,
    pub cloud_a: CloudA,
    pub cloud_b: CloudB,
    pub cloud_c: CloudC,
}

/// One item of the spec's `deployments`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Deployment {
    pub deployment_id: String,
    pub alias: String,
    pub api_version: String,
    pub is_default: bool,
}

/// Cloud A (`aws_*`).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CloudA {
    pub access_key_id: Option<Secret>,
    pub secret_access_key: Option<Secret>,
    pub session_token: Option<Secret>,
    pub region: Option<String>,
}

/// Cloud B (`vertex_*`).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CloudB {
    pub project_id: Option<String>,
    pub region: Option<String>,
    /// The service account's JSON text.
    pub service_account_json: Option<Secret>,
}

/// Cloud C (`azure_*`).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CloudC {
    pub region: Option<String>,
    pub deployment_name: Option<String>,
    pub endpoint_name: Option<String>,
    pub api_version: Option<String>,
    pub deployment_type: Option<DeploymentType>,
    pub entra_scope: Option<String>,
    /// Header `x-gateway-cloud-c-model-name`.
    pub model_name: Option<String>,
}

/// Spec: `serverless` or `managed`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeploymentType {
    Serverless,
    Managed,
}
