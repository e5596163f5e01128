//! Which requests are for files and batches of the gateway itself, and not for those of a provider.
//!
//! A request that names one of them, or no provider; and a batch whose input file is the gateway's.

use super::endpoint::below_version;
use super::{Endpoint, PathForm, RequestHead};
use crate::route::attempt::Request;
use crate::route::compiled::CompiledConfig;
use crate::route::request_mode::RequestMode;
use crate::route::target::Target;
use http::HeaderMap;
use std::sync::Arc;
use words::api::body::Body;
use words::api::operation::Operation;
use words::api::own_ids::{OWN_PROVIDER, parse_batch_id, parse_file_id};
use words::config::headers::GatewayHeaders;
use words::error::Error;

/// Whether the head alone says that the gateway responds.
///
/// # Errors
/// 400 for headers of the gateway that cannot be read, 405 for what one of its files or batches does not have.
pub(super) fn names_own(head: &RequestHead<'_>) -> Result<bool, Error> {
    if head.endpoint.operation == Operation::Passthrough {
        check_path(head)?;
    }
    if head.endpoint.mode != RequestMode::Api || head.endpoint.form != PathForm::Plain {
        return Ok(false);
    }
    let named = || object_id(head.uri.path());
    match head.endpoint.operation {
        Operation::FilesGet | Operation::FilesContent | Operation::FilesDelete => {
            Ok(named().is_some_and(|id| parse_file_id(id).is_some()))
        }
        Operation::BatchesGet | Operation::BatchesCancel | Operation::BatchesOutput => {
            Ok(named().is_some_and(|id| parse_batch_id(id).is_some()))
        }
        Operation::FilesUpload | Operation::FilesList
            if is_anthropics_own(head.headers, head.uri.query()) =>
        {
            Ok(false)
        }
        Operation::FilesUpload | Operation::FilesList | Operation::BatchesList => names_no_provider(head),
        _ => Ok(false),
    }
}

/// Whether a request is written for Anthropic's Files API, which has OpenAI's paths and another form: every client of that API sends
/// `anthropic-version`, and Anthropic's SDKs `beta=true` as well.
fn is_anthropics_own(headers: &HeaderMap, query: Option<&str>) -> bool {
    let mut pairs = url::form_urlencoded::parse(query.unwrap_or_default().as_bytes());
    headers.contains_key("anthropic-version") || pairs.any(|(name, value)| name == "beta" && value == "true")
}

/// A path that is no operation is no provider's either, if it is below one of the gateway's own objects.
fn check_path(head: &RequestHead<'_>) -> Result<(), Error> {
    let path = head.uri.path();
    let id = object_id(path).unwrap_or_default();
    let is_own = match below_version(path).and_then(|below| below.split('/').next()) {
        Some("files") => parse_file_id(id).is_some(),
        Some("batches") => parse_batch_id(id).is_some(),
        _ => false,
    };
    if !is_own {
        return Ok(());
    }
    Err(Error::method_not_allowed(format!(
        "There is no {} {path}. Files of the gateway have GET, DELETE and GET /content; its batches GET, POST /cancel and GET /output.",
        head.method
    )))
}

fn names_no_provider(head: &RequestHead<'_>) -> Result<bool, Error> {
    let headers = GatewayHeaders::read(head.headers, &head.snapshot.settings.header_prefixes)?;
    Ok(match headers.provider {
        Some(provider) => provider == OWN_PROVIDER,
        None => headers.config.is_none() && headers.virtual_key.is_none() && headers.custom_host.is_none(),
    })
}

/// Whether a request creates a batch that the gateway runs: its input file is the gateway's.
pub fn creates_own(endpoint: &Endpoint, body: Option<&Body>) -> bool {
    endpoint.operation == Operation::BatchesCreate
        && endpoint.mode == RequestMode::Api
        && body.and_then(|body| body.text("input_file_id")).is_some_and(|id| parse_file_id(&id).is_some())
}

/// Whether it depends on the provider of a request who responds: one whose batches are translated has its files and batches at the gateway.
/// Whatever is requested in the form of Anthropic's Files API is the provider's.
pub fn depends_on_provider(endpoint: &Endpoint, headers: &HeaderMap, query: Option<&str>) -> bool {
    if endpoint.mode != RequestMode::Api || endpoint.form != PathForm::Plain {
        return false;
    }
    match endpoint.operation {
        Operation::FilesUpload | Operation::FilesList if is_anthropics_own(headers, query) => false,
        Operation::FilesUpload | Operation::FilesList | Operation::BatchesList => true,
        _ => false,
    }
}

/// Whether the files that are listed are for something else than batches.
fn lists_other_files(endpoint: &Endpoint, query: Option<&str>) -> bool {
    let mut pairs = url::form_urlencoded::parse(query.unwrap_or_default().as_bytes());
    endpoint.operation == Operation::FilesList
        && pairs.any(|(name, value)| name == "purpose" && value != "batch")
}

/// The provider of a config whose batches are translated; `None`: files and batches are its own, and requests pass on. Files for other
/// purposes than batches are the provider's, unless it has none.
///
/// # Errors
/// 400 for a config with further targets.
pub fn batch_provider(
    config: &CompiledConfig,
    endpoint: &Endpoint,
    query: Option<&str>,
) -> Result<Option<&'static str>, Error> {
    let has_files =
        |target: &Arc<Target>| target.provider.batch_jobs().is_none_or(|jobs| !jobs.keeps_all_files());
    if lists_other_files(endpoint, query) && config.targets().iter().any(has_files) {
        return Ok(None);
    }
    let mut translated = config.targets().iter().filter(|target| target.provider.batch_jobs().is_some());
    match (translated.next(), config.targets().len()) {
        (None, _) => Ok(None),
        (Some(target), 1) => Ok(Some(target.provider.id())),
        (Some(_), _) => Err(Error::bad_request(
            "Maximum one target is allowed for batch/file/fine_tuning requests. Name one provider, or none: the gateway then keeps the \
             file and runs its batches itself, under any config.",
        )
        .with_param("config")),
    }
}

/// The file or batch that a request is about: the gateway's, or a provider's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NamedObject<'a> {
    kind: &'static str,
    id: &'a str,
}

impl<'a> NamedObject<'a> {
    pub fn of(request: &'a Request) -> Option<Self> {
        let kind = match request.operation {
            Operation::FilesGet | Operation::FilesContent | Operation::FilesDelete => "file",
            Operation::BatchesGet | Operation::BatchesCancel | Operation::BatchesOutput => "batch",
            _ => return None,
        };
        let is_plain = request.mode == RequestMode::Api && request.form == PathForm::Plain;
        Some(Self { kind, id: object_id(request.uri.path())? }).filter(|_| is_plain)
    }

    /// The gateway has none of this id, and no provider was named that could have one.
    pub fn unknown(self) -> Error {
        let Self { kind, id } = self;
        Error::not_found(format!(
            "There is no {kind} {id:?} here. Name its provider if it is one's own: x-gateway-provider, or x-gateway-config."
        ))
        .with_param(format!("{kind}_id"))
        .with_unknown_name(id)
    }
}

/// The id in `/v1/files/{id}`, `/v1/batches/{id}/cancel` …
pub fn object_id(path: &str) -> Option<&str> {
    below_version(path)?.split('/').nth(1)
}
