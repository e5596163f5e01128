//! Token exchanges with Entra ID: by an application's secret, by the machine's managed identity, by a workload's
//! token file.
//!
//! Sources: <https://learn.microsoft.com/entra/identity-platform/v2-oauth2-client-creds-grant-flow>,
//! <https://learn.microsoft.com/entra/identity/managed-identities-azure-resources/how-to-use-vm-token>,
//! <https://learn.microsoft.com/azure/aks/workload-identity-overview>.

use crate::provider::bearer_token::parse_token;
use crate::provider::token_exchange::{Step, TokenExchange, TokenRequest, TokenResponse};
use http::{HeaderMap, HeaderValue, Method, header};
use ring::digest::{SHA256, digest};
use std::time::SystemTime;
use url::form_urlencoded::Serializer;
use words::config::secret::Secret;

/// An application and its secret.
#[derive(Debug)]
pub(super) struct Entra {
    /// Checked: [`is_tenant`].
    pub tenant: String,
    pub client_id: String,
    pub client_secret: Secret,
    pub scope: String,
}

/// An identity of the machine the gateway runs on.
#[derive(Debug)]
pub(super) struct Managed {
    /// `None` means the system-assigned identity.
    pub client_id: Option<String>,
    pub scope: String,
}

/// A federated token in a file, exchanged for an Entra ID token. Members that the account leaves out are read from
/// the environment.
#[derive(Debug)]
pub(super) struct Workload {
    /// Checked: [`is_tenant`].
    pub tenant: Option<String>,
    pub client_id: Option<String>,
    pub scope: String,
}

impl TokenExchange for Entra {
    fn key(&self) -> String {
        let digest = digest(&SHA256, self.client_secret.expose().as_bytes());
        let digest: String = digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
        // Quoted, so that adjacent fields cannot be mistaken for one another.
        format!("entra|{:?}|{:?}|{:?}|{digest}", self.tenant, self.client_id, self.scope)
    }

    fn description(&self) -> &'static str {
        "the sign-in at Entra ID"
    }

    fn next_step(&self, responses: &[TokenResponse], _now: SystemTime) -> Result<Step, String> {
        match responses.last() {
            Some(response) => parse_token(response),
            None => {
                let secret = ("client_secret", self.client_secret.expose());
                Ok(Step::Request(token_request(&self.tenant, &self.client_id, &self.scope, &[secret])))
            }
        }
    }
}

impl TokenExchange for Managed {
    fn key(&self) -> String {
        format!("managed|{:?}|{:?}", self.client_id, self.scope)
    }

    fn description(&self) -> &'static str {
        "the machine's managed identity"
    }

    fn next_step(&self, responses: &[TokenResponse], _now: SystemTime) -> Result<Step, String> {
        if let Some(response) = responses.last() {
            return parse_token(response);
        }
        let mut query = Serializer::new(String::new());
        query.append_pair("api-version", "2018-02-01");
        query.append_pair("resource", self.scope.strip_suffix("/.default").unwrap_or(&self.scope));
        if let Some(client_id) = &self.client_id {
            query.append_pair("client_id", client_id);
        }
        let mut headers = HeaderMap::new();
        headers.insert("metadata", HeaderValue::from_static("true"));
        Ok(Step::Request(TokenRequest {
            method: Method::GET,
            url: format!("http://169.254.169.254/metadata/identity/oauth2/token?{}", query.finish()),
            headers,
            body: Vec::new(),
            is_metadata: true,
        }))
    }
}

impl TokenExchange for Workload {
    fn key(&self) -> String {
        format!("workload|{:?}|{:?}|{:?}", self.tenant, self.client_id, self.scope)
    }

    fn description(&self) -> &'static str {
        "the sign-in of this workload at Entra ID"
    }

    fn next_step(&self, responses: &[TokenResponse], _now: SystemTime) -> Result<Step, String> {
        match responses {
            [] => Ok(local_request("env:AZURE_FEDERATED_TOKEN_FILE".to_owned())),
            [file] => {
                let path = local_value(file)
                    .ok_or("AZURE_FEDERATED_TOKEN_FILE is not set where the gateway runs")?;
                Ok(local_request(format!("file:{path}")))
            }
            [_, _] => Ok(local_request("env:AZURE_TENANT_ID".to_owned())),
            [_, _, _] => Ok(local_request("env:AZURE_CLIENT_ID".to_owned())),
            [_, assertion, tenant, client] => {
                let assertion = local_value(assertion).ok_or("the workload's token file cannot be read")?;
                let tenant = self.tenant.clone().or(local_value(tenant).map(str::to_owned));
                let tenant = tenant.filter(|tenant| is_tenant(tenant));
                let tenant =
                    tenant.ok_or("cloud_c_entra_tenant_id is missing, and AZURE_TENANT_ID is no tenant")?;
                let client = self.client_id.as_deref().or(local_value(client));
                let client =
                    client.ok_or("cloud_c_workload_client_id is missing, and AZURE_CLIENT_ID is not set")?;
                let kind = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";
                let proof = [("client_assertion_type", kind), ("client_assertion", assertion)];
                Ok(Step::Request(token_request(&tenant, client, &self.scope, &proof)))
            }
            [.., response] => parse_token(response),
        }
    }
}

/// Whether it can be a tenant: exactly one path segment, neither `.` nor `..`.
pub(super) fn is_tenant(tenant: &str) -> bool {
    let allowed = |each: char| each.is_ascii_alphanumeric() || each == '-' || each == '.';
    (1..=255).contains(&tenant.len())
        && tenant.chars().all(allowed)
        && !tenant.chars().all(|each| each == '.')
}

/// The sign-in host of the cloud that a scope belongs to: the US government and China clouds have their own.
fn authority(scope: &str) -> &'static str {
    let host = scope.split_once("://").map_or(scope, |(_, rest)| rest).split('/').next().unwrap_or_default();
    match host {
        host if host.ends_with(".azure.us") => "login.microsoftonline.us",
        host if host.ends_with(".azure.cn") => "login.chinacloudapi.cn",
        _ => "login.microsoftonline.com",
    }
}

fn token_request(tenant: &str, client_id: &str, scope: &str, proof: &[(&str, &str)]) -> TokenRequest {
    let mut form = Serializer::new(String::new());
    form.append_pair("grant_type", "client_credentials");
    form.append_pair("client_id", client_id);
    form.append_pair("scope", scope);
    form.extend_pairs(proof);
    let mut headers = HeaderMap::new();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/x-www-form-urlencoded"));
    headers.insert(header::ACCEPT, HeaderValue::from_static("application/json"));
    TokenRequest {
        method: Method::POST,
        url: format!("https://{}/{tenant}/oauth2/v2.0/token", authority(scope)),
        headers,
        body: form.finish().into_bytes(),
        is_metadata: false,
    }
}

fn local_request(url: String) -> Step {
    let headers = HeaderMap::new();
    let body = Vec::new();
    Step::Request(TokenRequest { method: Method::GET, url, headers, body, is_metadata: true })
}

/// The value of an environment variable or the content of a file; `None` when it is missing or empty.
fn local_value(response: &TokenResponse) -> Option<&str> {
    let text = std::str::from_utf8(&response.body).ok()?.trim();
    (response.status == 200 && !text.is_empty()).then_some(text)
}
