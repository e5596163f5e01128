//! Addresses of requests to Vertex AI: the region's host, the project, the path of a publisher or an
//! endpoint.

use super::ID;
use super::fine_tuning::JOBS;
use super::model::{ModelApi, ModelName};
use crate::provider::Call;
use crate::provider::gemini::embeddings::Embeddings;
use crate::provider::spec::{encode_segment, ends_in_version, has_dot_segment};
use serde::Deserialize;
use words::api::operation::Operation;
use words::config::account::Account;
use words::error::Error;

/// The host of Cloud Storage, and the paths of its API: <https://docs.cloud.google.com/storage/docs/request-endpoints>.
pub(super) const STORAGE_HOST: &str = "https://storage.googleapis.com";
pub(super) const STORAGE: &str = "storage/v1";
pub(super) const STORAGE_UPLOAD: &str = "upload/storage/v1";

/// Whether a call is one of Cloud Storage.
pub(super) fn is_storage(call: &Call<'_>) -> bool {
    let is_below = |base: &str| call.path.strip_prefix(base).is_some_and(|rest| rest.starts_with('/'));
    call.operation == Operation::Passthrough && (is_below(STORAGE) || is_below(STORAGE_UPLOAD))
}

/// The host of the account's region (regional, global or multi-region endpoint). Source:
/// <https://docs.cloud.google.com/gemini-enterprise-agent-platform/resources/locations>.
///
/// # Errors
/// 400 when the region is missing or has other characters than a region's name: it becomes part of a host
/// name.
pub(super) fn base(account: &Account) -> Result<String, Error> {
    Ok(match region(account)? {
        "global" => "https://aiplatform.googleapis.com".to_owned(),
        region @ ("us" | "eu") => format!("https://aiplatform.{region}.rep.googleapis.com"),
        region => format!("https://{region}-aiplatform.googleapis.com"),
    })
}

fn region(account: &Account) -> Result<&str, Error> {
    let Some(region) = account.cloud_b.region.as_deref() else {
        // A key of the express mode belongs to no region.
        if is_express(account) {
            return Ok("global");
        }
        return Err(missing("cloud_b_region", "a region (us-central1, global, ...)"));
    };
    let legal = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let edges = region.starts_with('-') || region.ends_with('-');
    if (1..=40).contains(&region.len()) && region.bytes().all(legal) && !edges {
        return Ok(region);
    }
    let message = "cloud_b_region must be a region's name in lower case, like us-central1, eu or global.";
    Err(Error::invalid_request("cloud_b_region", message).with_provider(ID))
}

fn missing(param: &str, what: &str) -> Error {
    let message = format!("vertex-ai needs {what}: give {param} in the config or in the stored provider.");
    Error::invalid_request(param, message).with_provider(ID)
}

/// Vertex AI's express mode: an API key instead of a token and no project, because the key implies the
/// project.
pub(super) fn is_express(account: &Account) -> bool {
    let is_key = account.api_key.as_ref().is_some_and(|key| is_api_key(key.expose()));
    is_key && account.cloud_b.project_id.is_none() && account.cloud_b.service_account_json.is_none()
}

/// Whether this is a Google API key and not an OAuth token.
pub(super) fn is_api_key(key: &str) -> bool {
    key.starts_with("AIza") || key.starts_with("AQ.")
}

/// The service account's project, or else the account's.
fn project(account: &Account) -> Result<String, Error> {
    #[derive(Deserialize)]
    struct ServiceAccount {
        project_id: Option<String>,
    }
    let json = account.cloud_b.service_account_json.as_ref();
    let own = json.and_then(|json| serde_json::from_str::<ServiceAccount>(json.expose()).ok()?.project_id);
    let project = own.filter(|project| !project.is_empty()).or_else(|| account.cloud_b.project_id.clone());
    let project = project.ok_or_else(|| missing("cloud_b_project_id", "a project"))?;
    if has_dot_segment(&project) {
        let message = "cloud_b_project_id must not contain '.' or '..' as a path segment.";
        return Err(Error::invalid_request("cloud_b_project_id", message).with_provider(ID));
    }
    Ok(project)
}

/// Path and query of a request.
///
/// # Errors
/// 400 when model, project or region are missing.
pub(super) fn path(call: &Call<'_>, account: &Account) -> Result<String, Error> {
    match call.operation {
        Operation::Passthrough => return passthrough_path(call, account),
        operation if operation.is_fine_tuning() => {
            let version = version("v1", account);
            let location = location_path(account)?;
            return Ok([version, &location, &JOBS.path(call, account)?].concat());
        }
        Operation::Models => {
            return Ok(format!("{}/publishers/google/models?pageSize=300", version("v1beta1", account)));
        }
        Operation::ModelsGet => {
            let id = call.path.strip_prefix("models/").unwrap_or(call.path);
            let named = ModelName::parse(id);
            let publisher = segment(named.publisher)?;
            let name = segment(named.name)?;
            return Ok(format!("{}/publishers/{publisher}/models/{name}", version("v1beta1", account)));
        }
        _ => {}
    }
    let model = call.model.filter(|model| !model.is_empty()).ok_or_else(|| {
        Error::invalid_request("model", "model is missing: Vertex AI has it in its path.").with_provider(ID)
    })?;
    let named = ModelName::parse(model);
    let publisher = segment(named.publisher)?;
    let name = segment(named.name)?;
    let location = if is_express(account) { String::new() } else { location_path(account)? };
    Ok(match named.api {
        ModelApi::Shared => {
            format!("{}{location}/endpoints/openapi/chat/completions", version("v1beta1", account))
        }
        ModelApi::Endpoint => {
            format!("{}{location}/endpoints/{name}/chat/completions", version("v1", account))
        }
        ModelApi::Anthropic if call.operation == Operation::CountTokens => {
            let version = version("v1", account);
            format!("{version}{location}/publishers/{publisher}/models/count-tokens:rawPredict")
        }
        ModelApi::Gemini | ModelApi::Anthropic | ModelApi::Raw => {
            let method = method(call, &named);
            format!("{}{location}/publishers/{publisher}/models/{name}{method}", version("v1", account))
        }
    })
}

/// The method at the end of the path, with its query. The client's query belongs to another API and is
/// dropped.
fn method(call: &Call<'_>, named: &ModelName<'_>) -> &'static str {
    match (named.api, call.operation) {
        (ModelApi::Gemini, Operation::Embeddings) => Embeddings::on_vertex(named.name).method(),
        (ModelApi::Gemini, Operation::CountTokens | Operation::GeminiCountTokens) => ":countTokens",
        (ModelApi::Gemini, Operation::Images) => ":predict",
        (ModelApi::Gemini, _) if call.streamed => ":streamGenerateContent?alt=sse",
        (ModelApi::Gemini, _) => ":generateContent",
        _ if call.streamed => ":streamRawPredict",
        _ => ":rawPredict",
    }
}

/// The path for a client that uses Vertex AI's own paths, with or without the version in front.
fn passthrough_path(call: &Call<'_>, account: &Account) -> Result<String, Error> {
    if has_dot_segment(call.path) {
        let message = "The path must not contain '.' or '..' as a segment.";
        return Err(Error::bad_request(message).with_provider(ID));
    }
    let has_version = call.path.starts_with("v1/") || call.path.starts_with("v1beta1/");
    let version = if has_version || is_storage(call) { "" } else { version("v1", account) };
    let query = call.query.map(|query| format!("?{query}")).unwrap_or_default();
    Ok(format!("{version}/{}{query}", call.path))
}

/// The version segment, unless the custom host has one.
fn version(version: &'static str, account: &Account) -> &'static str {
    match &account.custom_host {
        Some(host) if ends_in_version(host) => "",
        _ if version == "v1" => "/v1",
        _ => "/v1beta1",
    }
}

/// `/projects/<project>/locations/<region>`.
///
/// # Errors
/// 400 when project or region are missing.
pub(super) fn location_path(account: &Account) -> Result<String, Error> {
    let project = project(account)?;
    let region = region(account)?;
    Ok(format!("/projects/{}/locations/{region}", encode_segment(&project)))
}

/// A publisher or model as one path segment; the `@` before a version is not encoded.
fn segment(value: &str) -> Result<String, Error> {
    if has_dot_segment(value) {
        let message = "model must not contain '.' or '..' as a path segment.";
        return Err(Error::invalid_request("model", message).with_provider(ID));
    }
    Ok(encode_segment(value).replace("%40", "@"))
}
