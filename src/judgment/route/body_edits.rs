//! What a target's config makes of the client's body: `default_params`, then `override_params`, then `drop_params`.
//!
//! In the client's dialect, before anything is translated, so that limits, caches and guardrails see what is sent. Not here: which
//! prompt is rendered (`prompt_call`), and the body in the provider's format (`knowledge::provider::translation`).

use super::attempt::Request;
use super::target::Target;
use bytes::Bytes;
use std::borrow::Cow;
use words::api::body::{Body, Edit};
use words::api::{Dialect, gemini};
use words::config::policies::Policies;
use words::json::path;

/// Two names of OpenAI's for one bound: where the client sends one, the other is no default.
const OUTPUT_BOUNDS: [&str; 2] = ["max_tokens", "max_completion_tokens"];

/// The client's body with the target's parameters, no more output than it is bounded to, and the target's slug removed from the model;
/// `None` when there is nothing to edit.
pub(super) fn edited_body(target: &Target, request: &Request) -> Option<Body> {
    let body = request.body.as_ref()?;
    let edited = with_params(target, request, body);
    let has_other_bound = edited.is_some() || target.prompt.is_some();
    match request.output_bound.filter(|_| has_other_bound) {
        Some(bound) => request.bounded(edited.as_ref().unwrap_or(body), bound).or(edited),
        None => edited,
    }
}

fn with_params(target: &Target, request: &Request, body: &Body) -> Option<Body> {
    if request.form_model.is_some() {
        return request.edited_form(target).map(|form| Body::opaque(Bytes::from(form)));
    }
    if !body.is_object() {
        return None;
    }
    let policies = &target.policies;
    let edits = match request.operation.dialect() {
        // The model is in the path.
        Dialect::Google => {
            let is_sent = |name: &str| gemini::has_param(body, name);
            gemini::override_edits(body, params(policies, &is_sent))
        }
        _ => {
            let is_bound = |name: &str| OUTPUT_BOUNDS.contains(&name);
            let is_bounded = || OUTPUT_BOUNDS.iter().any(|name| body.raw(name).is_some());
            let is_sent = |name: &str| body.raw(name).is_some() || (is_bound(name) && is_bounded());
            let set = params(policies, &is_sent).map(|(name, value)| Edit::Set(name, Cow::Borrowed(value)));
            let renamed = request.renames_for(target) && !policies.sets_param("model", true);
            let model = || serde_json::Value::from(request.model.as_deref().unwrap_or_default());
            set.chain(renamed.then(|| Edit::Set("model", Cow::Owned(model().to_string())))).collect()
        }
    };
    let bytes = if edits.is_empty() { None } else { Some(body.edit(&edits)) };
    let dropped = dropped(policies, request, bytes.as_ref().unwrap_or(body.bytes()));
    let bytes = dropped.or(bytes)?;
    // Editing JSON with JSON values yields JSON.
    let edited = Body::parse(bytes.clone()).unwrap_or_else(|_| Body::opaque(bytes));
    Some(edited.with_kept_items_of(body))
}

/// The parameters to set: those that are always set, behind the defaults for which there is nothing else.
fn params<'a>(
    policies: &'a Policies,
    is_sent: &dyn Fn(&str) -> bool,
) -> impl Iterator<Item = (&'a str, &'a str)> {
    let is_open = |(name, _): &&(String, Box<str>)| !is_sent(name) && !policies.sets_param(name, true);
    let defaults: Vec<_> = policies.default_params.iter().filter(is_open).collect();
    let all = defaults.into_iter().chain(&policies.override_params);
    all.map(|(name, value)| (name.as_str(), value.as_ref()))
}

/// The body without what `drop_params` name; `None`: it has none of that.
fn dropped(policies: &Policies, request: &Request, body: &Bytes) -> Option<Bytes> {
    let paths = policies.drop_params();
    if paths.is_empty() {
        return None;
    }
    let text = std::str::from_utf8(body).ok()?.trim();
    let left = match request.operation.dialect() {
        Dialect::Google => {
            let moved: Vec<_> = paths.iter().flat_map(gemini::paths_of).collect();
            path::without(text, paths.iter().chain(&moved))
        }
        _ => path::without(text, paths),
    };
    left.map(Bytes::from)
}
