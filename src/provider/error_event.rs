//! Gives the error events of streams that pass in the client's dialect the dialect's words, where another vendor sent them.
//!
//! Bodies with an error status are corrected by `rewriter::error_response`, error events of translated streams are written
//! by their encoders. Only error events are read here; all others keep their bytes.

use super::success_error;
use crate::api::Dialect;
use crate::api::chat::ProviderError;
use crate::api::error_names::{ErrorNames, provider_code, with_anthropic_names, with_openai_names};
use crate::json::Json;
use crate::json::splice::{Object, Splice};

/// The data of an error event of `provider` with the words of `dialect`; `None` if it stays as it is. The dialects' own
/// vendors are never corrected, and Google's dialect has only Google's errors.
pub fn corrected(dialect: Dialect, provider: &str, data: &[u8]) -> Option<Vec<u8>> {
    match (dialect, provider) {
        (Dialect::OpenAi | Dialect::Responses, "openai")
        | (Dialect::Anthropic, "anthropic")
        | (Dialect::Google, _) => return None,
        _ => {}
    }
    let text = std::str::from_utf8(data).ok()?.trim();
    let outer = Object::read(text)?;
    let kind = outer.string("type");
    let error = |json: &str| success_error::read(dialect, json.as_bytes());
    match (dialect, kind.as_deref()) {
        (Dialect::Anthropic, Some("error")) => with_anthropic_names(text, &error(text), None),
        (Dialect::Responses, Some("error")) => flat(text, &outer, &error(text)),
        (Dialect::Responses, Some("response.failed")) => {
            let response = outer.inner("response")?;
            let inner = response.inner("error")?;
            let error = error(outer.json_of("response")?);
            let mut splice = Splice::new(text);
            set_code(&mut splice, &inner, &error);
            splice.finish()
        }
        (Dialect::OpenAi, _) => with_openai_names(text, &error(text)),
        _ => None,
    }
}

/// The event `error` of the Responses API: flat, and once more in `error` where the vendor sends it so.
fn flat<'t>(text: &'t str, outer: &Object<'t>, error: &ProviderError) -> Option<Vec<u8>> {
    let mut splice = Splice::new(text);
    let inner = outer.inner("error");
    if let Some(inner) = &inner {
        set_code(&mut splice, inner, error);
        let kind = Json::from_value(ErrorNames::of(error).openai_type);
        if inner.json_of("type").is_some_and(|current| current != kind.get()) {
            splice.replace(inner, "type", kind.get());
        }
    }
    if inner.is_none() || outer.has("code") {
        set_code(&mut splice, outer, error);
    }
    splice.finish()
}

/// Writes OpenAI's code, and the vendor's own beside it.
fn set_code<'t>(splice: &mut Splice<'t>, object: &Object<'t>, error: &ProviderError) {
    let names = ErrorNames::of(error);
    // An event of the Responses API needs a code.
    let code = names.openai_code.unwrap_or(names.openai_type);
    let json = Json::from_value(code);
    match object.json_of("code") {
        Some(current) if current == json.get() => return,
        Some(_) => splice.replace(object, "code", json.get()),
        None => splice.append(object, "code", json.get()),
    }
    if let Some(own) = provider_code(error).filter(|own| *own != code && !object.has("provider_code")) {
        splice.append(object, "provider_code", Json::from_value(own).get());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_events_have_the_names_of_their_dialect() {
        for (dialect, event, wanted) in [
            (
                Dialect::Responses,
                r#"{"type":"error","code":"engine_overloaded_error","message":"busy","param":null,"sequence_number":3}"#,
                Some(
                    r#"{"type":"error","code":"server_is_overloaded","message":"busy","param":null,"sequence_number":3,"provider_code":"engine_overloaded_error"}"#,
                ),
            ),
            (
                Dialect::Responses,
                r#"{"type":"error","error":{"type":"x","code":"too_many_requests","message":"slow","more":1}}"#,
                Some(
                    r#"{"type":"error","error":{"type":"requests","code":"rate_limit_exceeded","message":"slow","more":1,"provider_code":"too_many_requests"}}"#,
                ),
            ),
            (
                Dialect::Responses,
                r#"{"type":"response.failed","response":{"id":"r","error":{"code":"api_error","message":"no"}}}"#,
                Some(
                    r#"{"type":"response.failed","response":{"id":"r","error":{"code":"server_error","message":"no","provider_code":"api_error"}}}"#,
                ),
            ),
            (
                Dialect::Responses,
                r#"{"type":"response.failed","response":{"error":{"code":"rate_limit_exceeded","message":"no"}}}"#,
                None,
            ),
            (Dialect::Responses, r#"{"type":"response.completed","response":{"error":null}}"#, None),
            (
                Dialect::Anthropic,
                r#"{"type":"error","error":{"type":"rate_limit_reached_error","message":"slow"}}"#,
                Some(
                    r#"{"type":"error","error":{"type":"rate_limit_error","message":"slow","provider_code":"rate_limit_reached_error"}}"#,
                ),
            ),
            (
                Dialect::Anthropic,
                r#"{"type":"error","error":{"type":"overloaded_error","message":"busy"}}"#,
                None,
            ),
            (
                Dialect::OpenAi,
                r#"{"error":{"message":"busy","code":503}}"#,
                Some(
                    r#"{"error":{"message":"busy","code":"server_is_overloaded","type":"server_error","param":null,"provider_code":"503"}}"#,
                ),
            ),
            (Dialect::OpenAi, r#"{"error":"busy"}"#, None),
            (Dialect::Google, r#"{"error":{"code":503,"message":"no","status":"UNAVAILABLE"}}"#, None),
        ] {
            let got = corrected(dialect, "groq", event.as_bytes()).map(|got| String::from_utf8(got).unwrap());
            assert_eq!(got.as_deref(), wanted, "{event}");
            // Once is enough, and the dialect's own vendor has its own words.
            assert_eq!(
                wanted.and_then(|wanted| corrected(dialect, "groq", wanted.as_bytes())),
                None,
                "{event}"
            );
            let own = if dialect == Dialect::Anthropic { "anthropic" } else { "openai" };
            assert_eq!(corrected(dialect, own, event.as_bytes()), None);
        }
    }
}
