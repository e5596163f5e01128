//! Bedrock's hosts, regions and paths.

use super::SPEC;
use super::model::Model;
use crate::api::operation::Operation;
use crate::config::account::Account;
use crate::error::Error;
use crate::provider::Call;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use std::borrow::Cow;

/// The characters that stay unencoded in a path segment (RFC 3986 unreserved). A colon is encoded, as
/// Amazon's own clients do, because the signature covers the path.
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

const DEFAULT_REGION: &str = "us-east-1";

/// Scheme and host for the account's region.
///
/// # Errors
/// 400 for a region with other characters than a region's name has: it could name a foreign host.
pub fn base_url(account: &Account) -> Result<Cow<'static, str>, Error> {
    let region = configured_region(account)?.unwrap_or(DEFAULT_REGION);
    Ok(Cow::Owned(format!("https://bedrock-runtime.{region}.{}", domain(region))))
}

/// The domain of Amazon's hosts in a region: China has its own.
pub fn domain(region: &str) -> &'static str {
    if region.starts_with("cn-") { "amazonaws.com.cn" } else { "amazonaws.com" }
}

/// The region that requests are signed for: the account's, or the one in the name of a VPC endpoint.
///
/// # Errors
/// As [`base_url`].
pub fn region(account: &Account) -> Result<Cow<'_, str>, Error> {
    if let Some(region) = configured_region(account)? {
        return Ok(Cow::Borrowed(region));
    }
    let from_host = account.custom_host.as_deref().and_then(|host| {
        let host = host.split_once("://").map_or(host, |(_, rest)| rest);
        let mut labels = host.split(['/', ':']).next()?.split('.');
        labels.by_ref().find(|label| matches!(*label, "bedrock-runtime" | "bedrock-runtime-fips"))?;
        labels.next().filter(|label| is_region(label))
    });
    Ok(Cow::Borrowed(from_host.unwrap_or(DEFAULT_REGION)))
}

fn configured_region(account: &Account) -> Result<Option<&str>, Error> {
    match account.cloud_a.region.as_deref() {
        Some(region) if !is_region(region) => {
            let message = "cloud_a_region must be the name of a region, as us-east-1.";
            Err(Error::invalid_request("cloud_a_region", message).with_provider(SPEC.id))
        }
        region => Ok(region),
    }
}

fn is_region(region: &str) -> bool {
    let allowed = |char: char| char.is_ascii_lowercase() || char.is_ascii_digit() || char == '-';
    (1..=40).contains(&region.len()) && region.chars().all(allowed) && !region.starts_with('-')
}

/// The last path segment for an operation on a model; `None` for paths that pass through unchanged.
pub fn action(call: &Call<'_>) -> Option<&'static str> {
    match call.operation {
        operation if operation.is_chat() => Some(if call.streamed { "converse-stream" } else { "converse" }),
        Operation::Embeddings | Operation::Rerank => Some("invoke"),
        Operation::CountTokens => Some("count-tokens"),
        _ => None,
    }
}

/// `/model/{id}/{action}`. The client's query belongs to the client's path and is dropped.
///
/// # Errors
/// 400 when the request names no model.
pub fn model_path(call: &Call<'_>, account: &Account, action: &str) -> Result<String, Error> {
    let model = call.model.filter(|model| !model.is_empty()).ok_or_else(|| {
        let message =
            "bedrock has the model in its path: give a model (its id, an inference profile or an ARN).";
        Error::invalid_request("model", message).with_provider(SPEC.id)
    })?;
    // Tokens are counted for foundation models only, not for inference profiles.
    let model = if action == "count-tokens" { Model::resolve(model, account).id } else { model };
    Ok(format!("/model/{}/{action}", utf8_percent_encode(model, SEGMENT)))
}
