//! The model in the form of an upload (transcriptions, edits of images): the field `model`, wherever it stands.
//!
//! Forms stream through unread where something else names the provider. Where nothing does, the form is read into memory, as far as
//! `limits.max_body_bytes` allow: its model may be `@slug/model` or a name. Not here: what is sent in its place (`model_names`), and
//! what else is in a form; the provider judges it.

use super::{BodyContent, BodyReading, RequestHead};
use crate::route::model_names::is_named;
use crate::route::request_mode::RequestMode;
use http::{HeaderMap, header};
use memchr::memmem;
use memory::auth::ClientIdentity;
use percent_encoding::percent_decode_str;
use std::ops::Range;
use words::api::operation::Operation;
use words::config::headers::GatewayHeaders;
use words::error::Error;

/// The model that a form names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FormModel {
    pub(crate) name: String,
    /// Where it stands in the form, bytes.
    pub(crate) place: Range<usize>,
}

/// How to read a form whose model names the provider, or must be known because the client or a provider may use only some; `None`: it streams
/// through.
///
/// # Errors
/// 400 for headers of the gateway's own that cannot be read.
pub(super) fn reading(
    head: &RequestHead<'_>,
    client: &ClientIdentity,
    limit: usize,
) -> Result<Option<BodyReading>, Error> {
    let has_model = matches!(
        head.endpoint.operation,
        Operation::Transcriptions
            | Operation::Translations
            | Operation::ImageEdits
            | Operation::ImageVariations
    );
    if head.endpoint.mode != RequestMode::Api || !has_model || boundary(head.headers).is_none() {
        return Ok(None);
    }
    let settings = &head.snapshot.settings;
    let directory = head.snapshot.directory(client.workspace);
    let is_restricted = client.defaults.allowed_models.is_some()
        || directory.providers().any(|(_, provider)| provider.allowed.is_some());
    let has_names = || directory.models().next().is_some();
    if !is_restricted
        && (is_named(&GatewayHeaders::read(head.headers, &settings.header_prefixes)?)
            || (settings.default_config.is_some() && !has_names()))
    {
        return Ok(None);
    }
    let reading = BodyReading::upload(head.headers, limit);
    Ok(reading.map(|reading| BodyReading { content: BodyContent::Form, ..reading }))
}

impl FormModel {
    /// The model that a form with these headers names.
    pub fn find(headers: &HeaderMap, form: &[u8]) -> Option<Self> {
        let place = model(form, &boundary(headers)?)?;
        let name = std::str::from_utf8(form.get(place.clone())?).ok()?.to_owned();
        Some(Self { name, place })
    }
}

/// What stands before each part of the form.
fn boundary(headers: &HeaderMap) -> Option<String> {
    let media = headers.get(header::CONTENT_TYPE)?.to_str().ok()?;
    let (kind, parameters) = media.split_once(';')?;
    if !kind.trim().eq_ignore_ascii_case("multipart/form-data") {
        return None;
    }
    let named = parameters.split(';').find_map(|parameter| {
        let (name, value) = parameter.split_once('=')?;
        name.trim().eq_ignore_ascii_case("boundary").then(|| value.trim().trim_matches('"'))
    })?;
    (!named.is_empty()).then(|| format!("--{named}"))
}

/// Where the value of the field `model` stands. `None` as well where there are two: servers differ in which they take.
fn model(form: &[u8], boundary: &str) -> Option<Range<usize>> {
    const END_OF_HEAD: &[u8] = b"\r\n\r\n";
    let finder = memmem::Finder::new(boundary.as_bytes());
    let mut parts = finder.find_iter(form).peekable();
    let mut found = None;
    while let Some(start) = parts.next() {
        let start = start + boundary.len();
        let Some(end) = parts.peek().copied() else { break };
        let part = form.get(start..end)?;
        let Some(head) = memmem::find(part, END_OF_HEAD) else { continue };
        if is_model(part.get(..head)?) {
            let value = start + head + END_OF_HEAD.len();
            let place = value..end.checked_sub(2).filter(|end| *end >= value)?;
            if found.replace(place).is_some() {
                return None;
            }
        }
    }
    found
}

/// Whether the head of a part is that of the field `model`, as any server may read it: a spelling that only some read so must count
/// as a second one.
fn is_model(head: &[u8]) -> bool {
    let head = String::from_utf8_lossy(head);
    let mut lines = head.lines().filter_map(|line| line.split_once(':'));
    let disposition = lines.find(|(name, _)| name.trim().eq_ignore_ascii_case("content-disposition"));
    disposition.is_some_and(|(_, value)| {
        value.split(';').filter_map(|parameter| parameter.split_once('=')).any(|(name, value)| {
            let value = value.trim().trim_matches(['"', '\'']);
            // `name*=UTF-8''model` (RFC 8187).
            let value = value.rsplit('\'').next().unwrap_or_default();
            let name = name.trim().trim_end_matches('*').trim_end();
            name.eq_ignore_ascii_case("name") && percent_decode_str(value).decode_utf8_lossy() == "model"
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    #[test]
    fn each_spelling_of_the_field_counts() {
        for name in [
            "NAME=\"model\"",
            "name = \"model\"",
            "name*=UTF-8''model",
            "name*=utf-8''m%6Fdel",
            "name=\"model",
        ] {
            assert!(is_model(format!("Content-Disposition: form-data; {name}").as_bytes()), "{name}");
        }
        for name in ["name=models", "filename=model", "name=\"\""] {
            assert!(!is_model(format!("Content-Disposition: form-data; {name}").as_bytes()), "{name}");
        }
    }

    fn found(content_type: &'static str, form: &str) -> Option<String> {
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
        let FormModel { name, place } = FormModel::find(&headers, form.as_bytes())?;
        assert_eq!(form.get(place), Some(&*name));
        Some(name)
    }

    #[test]
    fn the_model_is_found_wherever_the_field_stands() {
        const FIRST: &str = "--b\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\n@oai/whisper-1\r\n--b\r\n\
            Content-Disposition: form-data; name=\"file\"; filename=\"a\"\r\n\r\nname=\"model\"\r\n--b--\r\n";
        const LAST: &str = "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a\"\r\n\r\nx\r\n--b\r\n\
            content-disposition: form-data; name=model\r\ncontent-type: text/plain\r\n\r\n@oai/whisper-1\r\n--b--\r\n";
        for form in [FIRST, LAST] {
            assert_eq!(found("multipart/form-data; boundary=b", form).unwrap(), "@oai/whisper-1");
        }
        let quoted = "Multipart/Form-Data; charset=utf-8; boundary=\"b\"";
        assert!(found(quoted, FIRST).is_some());
        let plain = "--b\r\ncontent-disposition: form-data; name=\"model\"\r\n\r\nwhisper-1\r\n--b--\r\n";
        assert_eq!(found("multipart/form-data; boundary=b", plain).unwrap(), "whisper-1");
        for (content_type, form) in [
            ("multipart/form-data", FIRST),
            ("multipart/form-data; boundary=", FIRST),
            ("multipart/form-data; boundary=other", FIRST),
            ("application/json; boundary=b", FIRST),
            ("multipart/form-data; boundary=b", ""),
            ("multipart/form-data; boundary=b", "--b--b--b"),
            (
                "multipart/form-data; boundary=b",
                "--b\r\ncontent-disposition: form-data; name=model\r\n\r\n@a/m\r\n--b\r\ncontent-disposition: form-data; name=model\r\n\r\n@b/m\r\n--b--",
            ),
            (
                "multipart/form-data; boundary=b",
                "--b\r\ncontent-disposition: form-data; name=\"model\"\r\n\r\n@oai/m",
            ),
        ] {
            assert_eq!(found(content_type, form), None, "{content_type} {form}");
        }
    }
}
