//! Tests of templates: the dialect's table, partials, requests, and properties of any value.

mod dialect;
mod lines;
mod partials;
mod properties;
mod requests;

use super::{Partial, Prompt, PromptSet, PromptVersion, RenderedPrompt, StoredPartial, VersionBody};
use serde_json::Value;
use std::collections::HashMap;
use std::sync::Arc;
use uuid::Uuid;
use words::error::Error;

/// A set with these partials, the versions of each in order; the first one is published.
fn set(partials: &[(&str, &[&str])]) -> PromptSet {
    let mut set = PromptSet::default();
    for (slug, texts) in partials {
        let versions =
            (1..).zip(texts.iter().map(|text| Arc::new(Partial::compile(text).unwrap().into()))).collect();
        let partial = StoredPartial { id: Uuid::now_v7(), slug: (*slug).to_owned(), published: 1, versions };
        set.put_partial(Arc::new(partial));
    }
    set
}

fn version(text: &str) -> PromptVersion {
    let body = VersionBody { string: text.to_owned(), ..VersionBody::default() };
    PromptVersion::new(Uuid::now_v7(), 1, &body)
}

fn prompt(slug: &str, versions: Vec<VersionBody>, published: u32, labels: &[(&str, u32)]) -> Arc<Prompt> {
    let versions = (1..)
        .zip(versions)
        .map(|(number, body)| (number, Arc::new(PromptVersion::new(Uuid::now_v7(), number, &body))));
    let labels: HashMap<String, u32> =
        labels.iter().map(|(name, number)| ((*name).to_owned(), *number)).collect();
    let id = Uuid::now_v7();
    let slug = slug.to_owned();
    Arc::new(Prompt { id, slug, published, versions: versions.collect(), labels })
}

/// Renders a request's body.
fn render(version: &PromptVersion, request: &Value, set: &PromptSet) -> Result<RenderedPrompt, Error> {
    let texts: Vec<(String, String)> =
        request.as_object().unwrap().iter().map(|(name, value)| (name.clone(), value.to_string())).collect();
    version.render(texts.iter().map(|(name, json)| (name.as_str(), json.as_str())), set)
}

/// What a template renders with these variables: its messages, or its text.
fn rendered(text: &str, variables: Value, set: &PromptSet) -> Result<Value, Error> {
    let rendered = render(&version(text), &serde_json::json!({ "variables": variables }), set)?;
    let body: Value = serde_json::from_str(&rendered.body).unwrap();
    Ok(body.get("messages").or(body.get("prompt")).unwrap().clone())
}
