//! Whose account a target uses: the provider's keys and the words that address it.
//!
//! The same fields stand in a config object, in `providers.<slug>` of the settings and in request headers;
//! they are read here once. What a provider makes of them is the provider's business.

use super::read::{At, Fields};
use super::secret::Secret;

// The names of a field: the spec's first, then the vendor's own, accepted as an alias.
pub const API_KEY: &[&str] = &["api_key"];
pub const CUSTOM_HOST: &[&str] = &["custom_host"];
pub const A_ACCESS_KEY_ID: &[&str] = &["cloud_a_access_key_id", "aws_access_key_id"];
pub const A_SECRET_ACCESS_KEY: &[&str] = &["cloud_a_secret_access_key", "aws_secret_access_key"];
pub const B_PROJECT_ID: &[&str] = &["cloud_b_project_id", "vertex_project_id"];
pub const B_REGION: &[&str] = &["cloud_b_region", "vertex_region"];
pub const B_SERVICE_ACCOUNT: &[&str] = &["cloud_b_service_account_json", "vertex_service_account_json"];
pub const C_REGION: &[&str] = &["cloud_c_region", "azure_region"];
pub const C_DEPLOYMENT_NAME: &[&str] = &["cloud_c_deployment_name", "azure_deployment_name"];
pub const C_DEPLOYMENT_TYPE: &[&str] = &["cloud_c_deployment_type", "azure_deployment_type"];
pub const C_ENDPOINT_NAME: &[&str] = &["cloud_c_endpoint_name", "azure_endpoint_name"];
pub const C_API_VERSION: &[&str] = &["cloud_c_api_version", "azure_api_version"];

/// Every key [`Account::read`] takes, for suggestions.
pub const KEYS: &[&str] = &[
    "api_key",
    "custom_host",
    "provider_organization",
    "openai_organization",
    "provider_project",
    "openai_project",
    "resource_name",
    "deployment_id",
    "api_version",
    "deployments",
    "cloud_a_access_key_id",
    "aws_access_key_id",
    "cloud_a_secret_access_key",
    "aws_secret_access_key",
    "cloud_a_session_token",
    "aws_session_token",
    "cloud_a_region",
    "aws_region",
    "cloud_b_project_id",
    "vertex_project_id",
    "cloud_b_region",
    "vertex_region",
    "cloud_b_service_account_json",
    "vertex_service_account_json",
    "cloud_c_region",
    "azure_region",
    "cloud_c_deployment_name",
    "azure_deployment_name",
    "cloud_c_deployment_type",
    "azure_deployment_type",
    "cloud_c_endpoint_name",
    "azure_endpoint_name",
    "cloud_c_api_version",
    "azure_api_version",
    "cloud_c_entra_scope",
    "azure_entra_scope",
];

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

impl Account {
    /// Whether it holds anything that must not be shown to a stranger's host.
    pub fn holds_secret(&self) -> bool {
        let cloud_a = &self.cloud_a;
        self.api_key.is_some()
            || cloud_a.access_key_id.is_some()
            || cloud_a.secret_access_key.is_some()
            || cloud_a.session_token.is_some()
            || self.cloud_b.service_account_json.is_some()
    }

    /// Reads the account's fields out of a larger object and leaves the others unread. Empty strings count
    /// as absent. Whether a custom host is allowed is not judged here: the operator's own hosts are trusted.
    pub fn read(fields: &mut Fields<'_>) -> Self {
        Self {
            api_key: secret(fields, API_KEY),
            custom_host: text(fields, CUSTOM_HOST),
            organization: text(fields, &["provider_organization", "openai_organization"]),
            project: text(fields, &["provider_project", "openai_project"]),
            resource_name: text(fields, &["resource_name"]),
            deployment_id: text(fields, &["deployment_id"]),
            api_version: text(fields, &["api_version"]),
            deployments: fields.get(&["deployments"]).map(|at| deployments(&at)).unwrap_or_default(),
            cloud_a: CloudA {
                access_key_id: secret(fields, A_ACCESS_KEY_ID),
                secret_access_key: secret(fields, A_SECRET_ACCESS_KEY),
                session_token: secret(fields, &["cloud_a_session_token", "aws_session_token"]),
                region: text(fields, &["cloud_a_region", "aws_region"]),
            },
            cloud_b: CloudB {
                project_id: text(fields, B_PROJECT_ID),
                region: text(fields, B_REGION),
                service_account_json: fields.get(B_SERVICE_ACCOUNT).and_then(|at| {
                    at.entries()?;
                    Some(Secret::new(at.node.to_json()))
                }),
            },
            cloud_c: CloudC {
                region: text(fields, C_REGION),
                deployment_name: text(fields, C_DEPLOYMENT_NAME),
                endpoint_name: text(fields, C_ENDPOINT_NAME),
                api_version: text(fields, C_API_VERSION),
                deployment_type: fields
                    .get(C_DEPLOYMENT_TYPE)
                    .and_then(|at| at.one_of(&DeploymentType::WORDS)),
                entra_scope: text(fields, &["cloud_c_entra_scope", "azure_entra_scope"]),
                model_name: None,
            },
        }
    }
}

impl DeploymentType {
    /// How callers write it.
    pub const WORDS: [(&'static str, Self); 2] =
        [("serverless", Self::Serverless), ("managed", Self::Managed)];
}

fn text(fields: &mut Fields<'_>, names: &[&str]) -> Option<String> {
    fields.text(names).filter(|text| !text.is_empty())
}

fn secret(fields: &mut Fields<'_>, names: &[&str]) -> Option<Secret> {
    fields.secret(names).filter(|secret| !secret.expose().is_empty())
}

fn deployments(at: &At<'_>) -> Vec<Deployment> {
    at.list().unwrap_or_default().iter().filter_map(deployment).collect()
}

fn deployment(at: &At<'_>) -> Option<Deployment> {
    let mut fields = at.fields()?;
    let mut needed = |name| fields.need(&[name]).and_then(|at| at.text().map(str::to_owned));
    let (deployment_id, alias, api_version) =
        (needed("deployment_id"), needed("alias"), needed("api_version"));
    let is_default = fields.flag(&["is_default"]).unwrap_or_default();
    fields.close(&["deployment_id", "alias", "api_version", "is_default"]);
    Some(Deployment { deployment_id: deployment_id?, alias: alias?, api_version: api_version?, is_default })
}

#[cfg(test)]
mod tests {
    use super::super::node::Node;
    use super::super::read::Problems;
    use super::*;

    #[test]
    fn every_name_it_takes_is_in_the_list_and_an_alias_means_its_name() {
        for name in KEYS {
            let value = match *name {
                "deployments" => r#"[{"deployment_id":"d","alias":"a","api_version":"v"}]"#,
                name if name.ends_with("deployment_type") => r#""managed""#,
                name if name.ends_with("account_json") => r#"{"client_email":"x"}"#,
                _ => r#""x""#,
            };
            let node = Node::from_json(format!("{{\"{name}\":{value}}}").as_bytes()).unwrap();
            let problems = Problems::default();
            let mut fields = At::root(&node, &problems).fields().unwrap();
            let account = Account::read(&mut fields);
            fields.close(KEYS);
            assert_eq!(problems.into_vec(), [], "{name}");
            assert_ne!(account, Account::default(), "{name} is read into nothing");
        }
    }

    #[test]
    fn an_empty_string_is_no_key() {
        let node = Node::from_json(br#"{"api_key":"","aws_region":""}"#).unwrap();
        let problems = Problems::default();
        let mut fields = At::root(&node, &problems).fields().unwrap();
        assert_eq!(Account::read(&mut fields), Account::default());
        assert!(problems.is_empty());
    }
}
