//! What a target's config makes of the client's body: `default_params`, then `override_params`, then `drop_params`.
//!
//! In the client's dialect, before anything is translated, so that limits, caches and guardrails see what is sent. Not here: which
//! prompt is rendered (`prompt_call`), and the body in the provider's format (`knowledge::provider::translation`).

use super::attempt::Request;
use super::target::Target;
use bytes::Bytes;
use std::borrow::Cow;
use words::api::body::{Body, Edit};
use words::api::operation::Operation;
use words::api::{Dialect, gemini};
use words::config::policies::Policies;
use words::error::Error;
use words::json::path::{self, JsonPath};

/// Two names of OpenAI's for one bound of a chat: where one is sent or set, the other is no default.
const OUTPUT_BOUNDS: [&str; 2] = ["max_tokens", "max_completion_tokens"];

/// The names that set what this one does, itself included.
fn equals(operation: Operation, name: &str) -> impl Iterator<Item = &str> {
    let has_two_names = operation == Operation::ChatCompletions || operation.dialect() == Dialect::Google;
    let is_bound = has_two_names && OUTPUT_BOUNDS.contains(&name);
    let others = OUTPUT_BOUNDS.into_iter().filter(move |other| is_bound && *other != name);
    std::iter::once(name).chain(others)
}

/// The client's body with the target's parameters, no more output than it is bounded to, and the target's slug removed from the model;
/// `None` when there is nothing to edit.
///
/// # Errors
/// 400 where too much would have to be looked through, and where the target leaves out all that could bound the output.
pub(super) fn edited_body(target: &Target, request: &Request) -> Result<Option<Body>, Error> {
    let Some(body) = &request.body else { return Ok(None) };
    let edited = with_params(target, request, body)?;
    let has_other_bound = edited.is_some() || target.prompt.is_some();
    match request.output_bound.filter(|_| has_other_bound) {
        Some(bound) => {
            let drops = target.policies.drop_params();
            let is_dropped = |name: &str| drops.iter().any(|path| path.is_member() && path.first() == name);
            Ok(request.bounded(edited.as_ref().unwrap_or(body), bound, &is_dropped)?.or(edited))
        }
        None => Ok(edited),
    }
}

fn with_params(target: &Target, request: &Request, body: &Body) -> Result<Option<Body>, Error> {
    if request.form_model.is_some() {
        return Ok(request.edited_form(target).map(|form| Body::opaque(Bytes::from(form))));
    }
    if !body.is_object() {
        return Ok(None);
    }
    let policies = &target.policies;
    let edits = match request.operation.dialect() {
        // The model is in the path.
        Dialect::Google => {
            let is_sent = |name: &str| gemini::has_param(body, name);
            gemini::override_edits(body, params(policies, request, &is_sent))
        }
        _ => {
            let is_sent = |name: &str| equals(request.operation, name).any(|name| body.raw(name).is_some());
            let set = params(policies, request, &is_sent);
            let set = set.map(|(name, value)| Edit::Set(name, Cow::Borrowed(value)));
            let renamed = request.renames_for(target) && !policies.sets_param("model", true);
            let model = || serde_json::Value::from(request.model.as_deref().unwrap_or_default());
            set.chain(renamed.then(|| Edit::Set("model", Cow::Owned(model().to_string())))).collect()
        }
    };
    let bytes = if edits.is_empty() { None } else { Some(body.edit(&edits)) };
    let dropped = dropped(policies, request, body, bytes.as_ref().unwrap_or(body.bytes()))?;
    let Some(bytes) = dropped.or(bytes) else { return Ok(None) };
    // Editing JSON with JSON values yields JSON.
    Ok(Some(Body::parse(bytes.clone()).unwrap_or_else(|_| Body::opaque(bytes))))
}

/// The parameters to set: those that are always set, behind the defaults for which there is nothing else.
fn params<'a>(
    policies: &'a Policies,
    request: &Request,
    is_sent: &dyn Fn(&str) -> bool,
) -> impl Iterator<Item = (&'a str, &'a str)> {
    let is_set = |name: &str| equals(request.operation, name).any(|name| policies.sets_param(name, true));
    // What a hook has removed from a request with the defaults does not come back.
    let is_open = |(name, _): &&(String, Box<str>)| !request.is_edited && !is_sent(name) && !is_set(name);
    let defaults: Vec<_> = policies.default_params.iter().filter(is_open).collect();
    let all = defaults.into_iter().chain(&policies.override_params);
    all.map(|(name, value)| (name.as_str(), value.as_ref()))
}

/// The bytes of the edited body without what `drop_params` name; `None`: they have none of that, or a hook was shown what is left.
///
/// # Errors
/// 400 where the paths lead into a client's body of too many values.
fn dropped(
    policies: &Policies,
    request: &Request,
    body: &Body,
    bytes: &Bytes,
) -> Result<Option<Bytes>, Error> {
    let paths = policies.drop_params();
    if paths.is_empty() || request.is_edited {
        return Ok(None);
    }
    let moved: Vec<_> = match request.operation.dialect() {
        Dialect::Google => paths.iter().flat_map(gemini::paths_of).collect(),
        _ => Vec::new(),
    };
    let leads_in = |path: &JsonPath| !path.is_member() && body.raw(path.first()).is_some();
    if paths.iter().chain(&moved).any(leads_in) {
        body.check_values_for_drops()?;
    }
    let text = std::str::from_utf8(bytes).unwrap_or_default().trim();
    Ok(path::without(text, paths.iter().chain(&moved)).map(Bytes::from))
}
