//! Bedrock's hosts, regions and paths.

use super::SPEC;
use super::model::Model;
use crate::provider::Call;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use std::borrow::Cow;
use words::api::operation::Operation;
use words::config::account::Account;
use words::error::Error;

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

/// Scheme and host of the control plane for the account's region.
///
/// # Errors
/// As [`base_url`].
pub fn control_url(account: &Account) -> Result<Cow<'static, str>, Error> {
    let region = configured_region(account)?.unwrap_or(DEFAULT_REGION);
    Ok(Cow::Owned(format!("https://bedrock.{region}.{}", domain(region))))
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
        labels
            .by_ref()
            .find(|label| matches!(*label, "bedrock-runtime" | "bedrock-runtime-fips" | "bedrock"))?;
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

/// The first segment of paths that are objects of S3: `s3/<bucket>/<key>`. Behind a custom host it stays in the path.
pub const S3: &str = "s3";

/// The path of batch jobs at the control plane.
pub(crate) const JOB: &str = "model-invocation-job";

/// The service name of S3 in signatures.
const S3_SERVICE: &str = "s3";

/// Scheme and host of a call that is not the runtime's, and its path there: batch jobs are at the control plane, and their
/// input and output in S3. `None` for all other calls, and behind a custom host.
///
/// # Errors
/// As [`base_url`].
pub(crate) fn other_host(call: &Call<'_>, account: &Account) -> Result<Option<(String, String)>, Error> {
    if call.operation != Operation::Passthrough || account.custom_host.is_some() {
        return Ok(None);
    }
    let region = region(account)?;
    let domain = domain(&region);
    let query = call.query.map(|query| format!("?{query}")).unwrap_or_default();
    if call.path.starts_with(JOB) {
        let path = format!("/{}{query}", call.path);
        return Ok(Some((format!("https://bedrock.{region}.{domain}"), path)));
    }
    let object = call.path.strip_prefix(S3).and_then(|rest| rest.strip_prefix('/')?.split_once('/'));
    Ok(object.filter(|(bucket, _)| is_bucket(bucket)).map(|(bucket, key)| {
        // A certificate of S3 holds for one label before its name.
        if bucket.contains('.') {
            return (format!("https://s3.{region}.{domain}"), format!("/{bucket}/{key}{query}"));
        }
        (format!("https://{bucket}.s3.{region}.{domain}"), format!("/{key}{query}"))
    }))
}

/// Whether a bucket can have this name:
/// <https://docs.aws.amazon.com/AmazonS3/latest/userguide/bucketnamingrules.html>.
pub(crate) fn is_bucket(name: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-.".contains(&byte);
    let edge = |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
    (3..=63).contains(&name.len())
        && name.bytes().all(inner)
        && edge(name.bytes().next())
        && edge(name.bytes().last())
        && !name.contains("..")
}

/// The service that signs for a URL: S3 for objects, else Bedrock.
pub fn service(url: &str, account: &Account) -> &'static str {
    let after_scheme = |url: &'_ str| url.find("://").map_or(0, |at| at + 3);
    let (host, path) = url.get(after_scheme(url)..).and_then(|rest| rest.split_once('/')).unwrap_or_default();
    let is_object = match account.custom_host.as_deref() {
        Some(custom) => {
            let custom = custom.get(after_scheme(custom)..).unwrap_or_default().trim_end_matches('/');
            let base = custom.split_once('/').map_or("", |(_, base)| base);
            let rest = path.strip_prefix(base).map(|rest| rest.trim_start_matches('/'));
            rest.and_then(|rest| rest.strip_prefix(S3)).is_some_and(|rest| rest.starts_with('/'))
        }
        None => host.starts_with("s3.") || host.contains(".s3."),
    };
    if is_object { S3_SERVICE } else { super::SERVICE }
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
pub(crate) fn model_path(call: &Call<'_>, account: &Account, action: &str) -> Result<String, Error> {
    let model = call.model.filter(|model| !model.is_empty()).ok_or_else(|| {
        let message =
            "bedrock has the model in its path: give a model (its id, an inference profile or an ARN).";
        Error::invalid_request("model", message).with_provider(SPEC.id)
    })?;
    // Tokens are counted for foundation models only, not for inference profiles.
    let model = if action == "count-tokens" { Model::resolve(model, account).id } else { model };
    Ok(format!("/model/{}/{action}", utf8_percent_encode(model, SEGMENT)))
}
