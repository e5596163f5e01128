//! One try at a target: everything the driver needs to send it, ready made.
//!
//! Not the sending itself (`proxy` does that) and not the choice of the target (`plan` does that).

use super::leaf::Leaf;
use crate::api::body::{Body, Edit};
use crate::api::operation::Operation;
use crate::error::Error;
use crate::provider::Call;
use bytes::Bytes;
use http::{HeaderMap, Method, Uri};
use std::borrow::Cow;
use std::sync::Arc;

/// The caller's request, as far as an attempt is made from it.
#[derive(Debug, Clone)]
pub struct Request {
    pub operation: Operation,
    /// Came by `/v1/proxy/`: whatever it holds is the provider's to judge.
    pub is_proxied: bool,
    pub method: Method,
    /// As the caller wrote it.
    pub uri: Uri,
    /// Where the path below the version segment begins in it.
    pub below: usize,
    /// The body, when it was read; `None` when it streams through unread.
    pub body: Option<Body>,
    /// The model the caller names, without a `@slug/` before it.
    pub model: Option<String>,
    /// The slug that stood before the model.
    pub slug: Option<String>,
    /// Whether the time to the answer's head is bounded.
    pub has_timeout: bool,
}

impl Request {
    /// Relative to the version segment, without a leading slash.
    pub fn path(&self) -> &str {
        self.uri.path().get(self.below..).unwrap_or_default()
    }

    /// Whether the slug before the model is this target's own: only then is it an address and not a part of
    /// the model's name.
    fn names(&self, leaf: &Leaf) -> bool {
        self.slug.is_some() && self.slug == leaf.slug
    }

    fn model_for(&self, leaf: &Leaf) -> Option<String> {
        match &self.slug {
            Some(slug) if !self.names(leaf) => {
                Some(format!("@{slug}/{}", self.model.as_deref().unwrap_or_default()))
            }
            _ => self.model.clone(),
        }
    }
}

/// One try: where it goes and what it carries.
#[derive(Debug)]
pub struct Attempt {
    pub leaf: Arc<Leaf>,
    /// Path and query at the upstream.
    pub path: String,
    /// The body to send; `None` when the caller's body streams through as it comes.
    pub body: Option<Bytes>,
    /// Whether `body` differs from what the caller sent.
    pub body_changed: bool,
    /// The model asked for.
    pub model: Option<String>,
    /// The provider's auth headers for this call.
    pub auth: Arc<HeaderMap>,
}

impl Attempt {
    /// Makes the attempt for one target.
    ///
    /// # Errors
    /// What the provider says about an incomplete account or call (400, 401).
    pub fn new(leaf: Arc<Leaf>, request: &Request) -> Result<Self, Error> {
        let model = leaf.model().map(str::to_owned).or_else(|| request.model_for(&leaf));
        let call = Call {
            operation: request.operation,
            method: &request.method,
            path: request.path(),
            query: request.uri.query(),
            model: model.as_deref(),
            streamed: request.body.as_ref().is_some_and(|body| body.is_true("stream")),
        };
        let below = leaf.provider.path(&call, &leaf.account)?;
        let path = match leaf.origin.base_path.as_str() {
            "" => below,
            base => format!("{base}{below}"),
        };
        let auth = leaf.auth(&call)?;
        let (body, body_changed) = body_for(&leaf, request);
        Ok(Self { leaf, path, body, body_changed, model, auth })
    }
}

/// The caller's bytes, with `override_params` merged in and the slug taken off the model.
fn body_for(leaf: &Leaf, request: &Request) -> (Option<Bytes>, bool) {
    let Some(body) = &request.body else { return (None, false) };
    let mut edits: Vec<Edit<'_>> = leaf
        .override_params
        .iter()
        .map(|(name, value)| Edit::Set(name.as_str(), Cow::Borrowed(value.as_ref())))
        .collect();
    let overridden = leaf.override_params.iter().any(|(name, _)| name == "model");
    if request.names(leaf) && !overridden {
        let model = serde_json::Value::from(request.model.as_deref().unwrap_or_default());
        edits.push(Edit::Set("model", Cow::Owned(model.to_string())));
    }
    let changed = !edits.is_empty();
    (Some(body.edit(&edits)), changed)
}
