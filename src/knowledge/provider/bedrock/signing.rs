//! Signature Version 4 of a request.
//!
//! Covers the body, `host` and Amazon's own headers only: other headers may still be changed by proxies in
//! between, the client's or ours. Source:
//! <https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html>.

use crate::provider::Signing;
use crate::provider::key::header_value;
use aws_credential_types::Credentials;
use aws_sigv4::http_request::{
    PayloadChecksumKind, PercentEncodingMode, SignableBody, SignableRequest, SigningSettings,
    UriPathNormalizationMode,
};
use aws_sigv4::sign::v4;
use http::{HeaderMap, HeaderName, HeaderValue};
use words::config::secret::Secret;
use words::error::Error;

/// The keys a request is signed with.
#[derive(Debug, Clone)]
pub struct Keys(Credentials);

impl Keys {
    /// # Errors
    /// 400 for an id or a token with characters that are invalid in a header.
    pub fn from_secrets(id: &Secret, secret: &Secret, token: Option<&Secret>) -> Result<Self, Error> {
        header_value("cloud_a_access_key_id", id.expose())?;
        token.map(|token| header_value("cloud_a_session_token", token.expose())).transpose()?;
        let token = token.map(|token| token.expose().to_owned());
        Ok(Self(Credentials::new(id.expose(), secret.expose(), token, None, "account")))
    }
}

/// The service and the region a signature is valid for.
#[derive(Debug, Clone, Copy)]
pub struct Scope<'a> {
    pub service: &'a str,
    pub region: &'a str,
}

/// Signs the request and writes `authorization`, `x-amz-date` and, with temporary keys, the session token
/// into its headers.
///
/// # Errors
/// 400 for keys with characters that are invalid in a header.
pub fn sign(
    signing: &Signing<'_>,
    keys: &Keys,
    scope: &Scope<'_>,
    headers: &mut HeaderMap,
) -> Result<(), Error> {
    let host = authority(signing.url);
    let aws_headers = headers.iter().filter(|(name, _)| is_aws_header(name));
    let signed = aws_headers.filter_map(|(name, value)| Some((name.as_str(), value.to_str().ok()?)));
    let signed: Vec<(&str, &str)> = signed.chain([("host", host)]).collect();
    for (name, value) in signature(signing, keys, scope, signed.into_iter())? {
        headers.insert(name, value);
    }
    Ok(())
}

/// The headers that carry the signature, which covers exactly the headers in `signed`.
fn signature<'a>(
    signing: &Signing<'a>,
    keys: &Keys,
    scope: &Scope<'_>,
    signed: impl Iterator<Item = (&'a str, &'a str)>,
) -> Result<Vec<(HeaderName, HeaderValue)>, Error> {
    let identity = keys.0.clone().into();
    let params = v4::SigningParams::builder()
        .identity(&identity)
        .region(scope.region)
        .name(scope.service)
        .time(signing.now)
        .settings(settings(scope.service))
        .build()
        .map_err(|error| Error::internal(format!("signing parameters: {error}")))?
        .into();
    let body = SignableBody::Bytes(signing.body);
    // Signing errors quote the request at most, never the keys.
    let failed = |error| Error::internal(format!("request cannot be signed: {error}"));
    let request = SignableRequest::new(signing.method.as_str(), signing.url, signed, body).map_err(failed)?;
    let (instructions, _) = aws_sigv4::http_request::sign(request, &params).map_err(failed)?.into_parts();
    let (headers, _) = instructions.into_parts();
    headers
        .iter()
        .map(|header| {
            let mut value = header_value(header.name(), header.value())?;
            value.set_sensitive(true);
            Ok((HeaderName::from_static(header.name()), value))
        })
        .collect()
}

/// S3 deviates from Amazon's other services: its paths are signed as they are sent, and the digest of the body is a header.
fn settings(service: &str) -> SigningSettings {
    let mut settings = SigningSettings::default();
    if service == "s3" {
        settings.payload_checksum_kind = PayloadChecksumKind::XAmzSha256;
        settings.percent_encoding_mode = PercentEncodingMode::Single;
        settings.uri_path_normalization_mode = UriPathNormalizationMode::Disabled;
    }
    settings
}

/// Amazon requires its own headers to be signed. The trace id is left out: tracing may add or change it in
/// between.
fn is_aws_header(name: &HeaderName) -> bool {
    name.as_str().starts_with("x-amz") && name.as_str() != "x-amzn-trace-id"
}

/// `host[:port]` of a URL.
fn authority(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    rest.split(['/', '?']).next().unwrap_or_default()
}

#[cfg(test)]
mod tests;
