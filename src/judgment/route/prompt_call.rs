//! A request to the completions of a prompt: it becomes the chat or completion that its prompt renders, and is routed as one.
//!
//! A target of the config may have a prompt of its own, which is rendered with the same variables when its attempt is made.
//! Does not render (`prompt` does), and does not look for the prompts of configs (`compile`).

use super::admission::Endpoint;
use super::attempt::Request;
use super::request_mode::RequestMode;
use super::target::Target;
use bytes::Bytes;
use http::{Method, Uri};
use knowledge::prompt::{FoundPrompt, PromptSet, RenderedPrompt, TemplateKind};
use memory::state::large_work;
use percent_encoding::percent_decode_str;
use std::borrow::Cow;
use std::sync::Arc;
use words::api::body::Body;
use words::api::operation::Operation;
use words::api::rules;
use words::error::Error;

/// What the client sent, from which each prompt is rendered.
#[derive(Debug)]
pub struct PromptCall {
    /// The prompt that the path names.
    pub found: FoundPrompt,
    /// The prompts and partials that the client may name.
    pub set: Arc<PromptSet>,
    body: Body,
}

impl PromptCall {
    /// How many bytes of the client it holds.
    pub fn size(&self) -> usize {
        self.body.bytes().len()
    }

    fn render(&self, found: &FoundPrompt) -> Result<RenderedPrompt, Error> {
        found.version.render(self.body.members(), &*self.set)
    }
}

impl Request {
    /// How much work [`Self::rendered`] is, as the number of bytes whose reading takes as long.
    pub fn rendering_work(&self, prompts: Option<&Arc<PromptSet>>) -> usize {
        if self.operation != Operation::PromptCompletions {
            return 0;
        }
        let found = prompts.and_then(|set| set.find(&prompt_name(self.path())).ok());
        found.map_or(0, |found| rendering_work(&found))
    }

    /// How much work [`Self::for_target`] is.
    pub fn target_work(&self, target: &Target) -> usize {
        let (Some(call), Some(own)) = (&self.prompt, &target.prompt) else { return 0 };
        if own.version.id == call.found.version.id { 0 } else { rendering_work(own) }
    }

    /// The chat or completion that a request to a prompt's completions stands for; any other request as it is. `prompts`: those
    /// that the client may name.
    ///
    /// # Errors
    /// 404 for an unknown prompt, version or label; 400 as [`knowledge::prompt::PromptVersion::render`].
    pub fn rendered(self, prompts: Option<&Arc<PromptSet>>) -> Result<Self, Error> {
        let is_prompt = self.operation == Operation::PromptCompletions && self.mode == RequestMode::Api;
        let (true, Some(body)) = (is_prompt, &self.body) else { return Ok(self) };
        let set = prompts.map_or_else(Arc::default, Arc::clone);
        let found = set.find(&prompt_name(self.path()))?;
        let call = PromptCall { found, set, body: body.clone() };
        let rendered = call.render(&call.found)?;
        let mut request = self.to_operation(rendered)?;
        request.prompt = Some(Arc::new(call));
        Ok(request)
    }

    /// The request as it is sent to `target`: with the target's own prompt, where it has one.
    ///
    /// # Errors
    /// 400 as [`knowledge::prompt::PromptVersion::render`], and for a rendered body that no provider would take.
    pub fn for_target(&self, target: &Target) -> Result<Cow<'_, Self>, Error> {
        let (Some(call), Some(own)) = (&self.prompt, &target.prompt) else { return Ok(Cow::Borrowed(self)) };
        if own.version.id == call.found.version.id {
            return Ok(Cow::Borrowed(self));
        }
        let request = self.to_operation(call.render(own)?)?;
        if let Some(body) = &request.body {
            let is_set = |name: &str| target.policies.sets_param(name, body.raw(name).is_some());
            rules::check(request.operation, body, &is_set)?;
        }
        Ok(Cow::Owned(request))
    }

    /// The request to the operation that a rendered body belongs to. Its query stays.
    fn to_operation(&self, rendered: RenderedPrompt) -> Result<Self, Error> {
        let path = match rendered.kind {
            TemplateKind::Chat => "/v1/chat/completions",
            TemplateKind::Text => "/v1/completions",
        };
        let uri = match self.uri.query() {
            None => Uri::from_static(path),
            Some(query) => Uri::try_from(format!("{path}?{query}"))
                .map_err(|error| Error::internal(format!("a query: {error}")))?,
        };
        let body = Body::parse(Bytes::from(rendered.body))
            .map_err(|error| Error::internal(format!("a rendered prompt: {error}")))?;
        let endpoint = Endpoint::find(&Method::POST, path);
        let request = Self::new(endpoint, Method::POST, uri, Some(body));
        let Self { stream_usage, output_bound, .. } = *self;
        let allowed_models = self.allowed_models.clone();
        Ok(Self { warnings: rendered.warnings, stream_usage, output_bound, allowed_models, ..request })
    }

    /// How many bytes of bodies it holds.
    pub fn size(&self) -> usize {
        let own = self.body.as_ref().map_or(0, |body| body.bytes().len());
        own + self.prompt.as_ref().map_or(0, |call| call.size())
    }
}

fn rendering_work(found: &FoundPrompt) -> usize {
    let own = large_work::translation(found.version.size());
    if found.version.has_new_partials() { own.max(large_work::PATTERNS) } else { own }
}

/// The name of the prompt in `prompts/{name}/completions`, decoded.
fn prompt_name(path: &str) -> Cow<'_, str> {
    let name = path.strip_prefix("prompts/").and_then(|rest| rest.strip_suffix("/completions"));
    percent_decode_str(name.unwrap_or_default()).decode_utf8_lossy()
}

#[cfg(test)]
mod tests;
