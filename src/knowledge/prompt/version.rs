//! One version of a prompt: its template, its parameters, and how they and a request become the body of a chat or completion.

use super::components::Components;
use super::parameters::is_parameter;
use super::partial::Partials;
use super::template::{Template, TemplateKind};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use uuid::Uuid;
use words::error::Error;
use words::json::Json;
use words::json::write::ObjectWriter;

/// A version as it is stored. Its content never changes.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct VersionBody {
    /// The template.
    pub string: String,
    /// A JSON object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parameters: Option<Box<RawValue>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The slug of the provider that completions are sent to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub virtual_key: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub functions: Option<Box<RawValue>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<Box<RawValue>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_choice: Option<Box<RawValue>>,
    /// A JSON object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template_metadata: Option<Value>,
    #[serde(default)]
    pub is_raw_template: bool,
    /// Whether a variable that a request lacks is an error, unless the request says otherwise.
    #[serde(default)]
    pub strict_variables: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version_description: Option<String>,
}

/// A version: read and compiled when it is first used. A start would take as long as all of them do.
#[derive(Debug)]
pub struct PromptVersion {
    pub id: Uuid,
    pub number: u32,
    /// A [`VersionBody`] as JSON.
    source: Arc<str>,
    head: OnceLock<Head>,
    compiled: OnceLock<Compiled>,
    /// Whether it was rendered, so that its partials are compiled as well.
    is_rendered: AtomicBool,
}

/// What routing needs of a version, without its template.
#[derive(Debug)]
struct Head {
    /// The slug of the provider that completions are sent to, without the `@`.
    virtual_key: Option<String>,
    /// The model of requests that name none.
    model: Option<String>,
}

impl Head {
    fn new(body: &VersionBody) -> Self {
        let virtual_key = body.virtual_key.as_ref().map(|slug| slug.trim_start_matches('@').to_owned());
        let virtual_key = virtual_key.filter(|slug| !slug.is_empty());
        Self { virtual_key, model: stored_model(body) }
    }
}

/// What is made of a version.
#[derive(Debug)]
struct Compiled {
    /// What is wrong with it, where a version of the gateway with other rules stored it.
    template: Result<Template, String>,
    /// The members that the body begins with: name and JSON.
    stored: Vec<(String, Box<str>)>,
    /// Whether a variable that a request lacks is an error, unless the request says otherwise.
    is_strict: bool,
}

impl Compiled {
    fn new(body: &VersionBody) -> Self {
        let template = Template::compile(&body.string, body.is_raw_template).map_err(|problems| {
            let problems: Vec<String> = problems.into_iter().map(|problem| problem.message).collect();
            problems.join("; ")
        });
        let stored = stored_members(body, template.as_ref().ok().map(Template::components));
        Self { template, stored, is_strict: body.strict_variables }
    }
}

/// A body that is ready to be sent as a chat or a completion.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RenderedPrompt {
    pub kind: TemplateKind,
    /// A JSON object.
    pub body: String,
    /// What of the request was not used.
    pub warnings: Vec<String>,
}

impl PromptVersion {
    /// A version that is stored as this JSON.
    pub const fn stored(id: Uuid, number: u32, source: Arc<str>) -> Self {
        let is_rendered = AtomicBool::new(false);
        Self { id, number, source, head: OnceLock::new(), compiled: OnceLock::new(), is_rendered }
    }

    pub fn new(id: Uuid, number: u32, body: &VersionBody) -> Self {
        Self::stored(id, number, serde_json::to_string(body).unwrap_or_default().into())
    }

    fn body(&self) -> VersionBody {
        serde_json::from_str(&self.source).unwrap_or_default()
    }

    fn head(&self) -> &Head {
        self.head.get_or_init(|| Head::new(&self.body()))
    }

    fn compiled(&self) -> &Compiled {
        self.compiled.get_or_init(|| Compiled::new(&self.body()))
    }

    /// Whether it was compiled.
    pub fn is_compiled(&self) -> bool {
        self.compiled.get().is_some()
    }

    /// How much there is to read, bytes.
    pub fn size(&self) -> usize {
        self.source.len()
    }

    /// Whether its partials may have to be compiled before it is rendered.
    pub fn has_new_partials(&self) -> bool {
        !self.is_rendered.load(Ordering::Relaxed) && self.source.contains("{{>")
    }

    /// Whether its text may have this in it: without compiling it. What is stored has no other escapes than those of quotes, backslashes
    /// and control characters.
    pub(super) fn mentions(&self, slug: &str) -> bool {
        self.source.contains(slug)
    }

    /// The slug of the provider that completions are sent to, without the `@`.
    pub fn virtual_key(&self) -> Option<&str> {
        self.head().virtual_key.as_deref()
    }

    /// The model of requests that name none.
    pub fn model(&self) -> Option<&str> {
        self.head().model.as_deref()
    }

    pub fn components(&self) -> Option<&Components> {
        self.compiled().template.as_ref().ok().map(Template::components)
    }

    /// `None` where the stored template is not valid.
    pub fn kind(&self) -> Option<TemplateKind> {
        self.compiled().template.as_ref().ok().map(Template::kind)
    }

    /// Makes the body of a request to `/chat/completions` or `/completions` from the members of a request to render.
    ///
    /// # Errors
    /// 400 for a request without `variables`, for `strict_variables` that is no boolean, and as [`Template::render`].
    pub fn render<'m>(
        &self,
        request: impl Iterator<Item = (&'m str, &'m str)>,
        partials: &dyn Partials,
    ) -> Result<RenderedPrompt, Error> {
        let Compiled { template, stored: members, is_strict } = self.compiled();
        let template = template.as_ref().map_err(|problem| super::renderer::template_error(problem))?;
        let request: HashMap<&str, &str> = request.collect();
        if request.contains_key("hyperparameters") {
            let message =
                "hyperparameters is not unwrapped: send the parameters themselves, beside variables.";
            return Err(Error::invalid_request("hyperparameters", message));
        }
        let variables = variables(request.get("variables").copied())?;
        let is_strict = strict_variables(request.get(STRICT).copied())?.unwrap_or(*is_strict);
        let rendered = template.render(&variables, partials, is_strict)?;
        self.is_rendered.store(true, Ordering::Relaxed);
        let (name, other) = match template.kind() {
            TemplateKind::Chat => ("messages", "prompt"),
            TemplateKind::Text => ("prompt", "messages"),
        };
        let warnings = [name, other].into_iter().filter(|name| request.contains_key(name));
        let warnings = warnings.map(|unused| {
            format!("{unused} of the request was not used: the {name} of this prompt come from its template.")
        });
        let warnings = warnings.collect();
        let mut body = Vec::with_capacity(rendered.len() + 256);
        let mut object = ObjectWriter::open(&mut body);
        let needs = template.components();
        let has_partials = !needs.partials.is_empty() || !needs.variable_partials.is_empty();
        let needs = has_partials.then(|| needs.with_partials(partials, &variables));
        for (stored, json) in members {
            let is_replaced = request.contains_key(stored.as_str()) || is_other_limit(stored, &request);
            let is_sample =
                !is_parameter(stored) && needs.as_ref().is_some_and(|needs| needs.has_variable(stored));
            // A request that is not streamed may not have them.
            let is_of_stream = stored == "stream_options" && request.get("stream") != Some(&"true");
            if !is_replaced && !is_sample && !is_of_stream {
                object.raw(stored.as_str(), json);
            }
        }
        object.raw(name, &rendered);
        let mut own: Vec<(&str, &str)> = request.into_iter().collect();
        let is_passed_on = |name: &str| !matches!(name, "variables" | STRICT | "messages" | "prompt");
        own.retain(|(name, json)| is_passed_on(name) && *json != "null");
        own.sort_unstable();
        own.into_iter().for_each(|(name, json)| object.raw(name, json));
        object.close();
        let body = String::from_utf8(body).map_err(|error| Error::internal(error.to_string()))?;
        Ok(RenderedPrompt { kind: template.kind(), body, warnings })
    }
}

/// The model that [`stored_members`] have. It is a parameter, and no sample value of a variable with this name.
fn stored_model(body: &VersionBody) -> Option<String> {
    let alias = body.template_metadata.as_ref().and_then(|metadata| metadata.get("azure_alias")?.as_str());
    if let Some(model) = alias.or(body.model.as_deref()) {
        return Some(model.to_owned());
    }
    let parameters = Json::members(body.parameters.as_ref()?.get())?;
    let model = parameters.into_iter().rfind(|(name, _)| name == "model")?;
    serde_json::from_str(model.1.get()).ok()
}

/// The members that stand in every body of a version.
fn stored_members(body: &VersionBody, components: Option<&Components>) -> Vec<(String, Box<str>)> {
    // A member that is set again stands where it is set last: the place of each, and what stands there.
    let mut members: Vec<Option<(String, Box<str>)>> = Vec::new();
    let mut places: HashMap<String, usize> = HashMap::new();
    let mut set = |name: &str, json: &str| {
        let before = places.insert(name.to_owned(), members.len());
        if let Some(before) = before.and_then(|place| members.get_mut(place)) {
            *before = None;
        }
        members.push((json != "null").then(|| (name.to_owned(), json.into())));
    };
    let parameters = body.parameters.as_ref().map_or("{}", |parameters| parameters.get());
    for (name, json) in Json::members(parameters).unwrap_or_default() {
        let is_sample = !is_parameter(&name) && components.is_some_and(|parts| parts.has_variable(&name));
        if !is_sample && !matches!(&*name, "stream" | "messages" | "prompt" | "variables") {
            set(&name, json.get());
        }
    }
    let alias = body.template_metadata.as_ref().and_then(|metadata| metadata.get("azure_alias")?.as_str());
    if let Some(model) = alias.or(body.model.as_deref()) {
        set("model", &Value::from(model).to_string());
    }
    for (name, json) in
        [("tools", &body.tools), ("functions", &body.functions), ("tool_choice", &body.tool_choice)]
    {
        if let Some(json) = json {
            set(name, json.get());
        }
    }
    members.into_iter().flatten().collect()
}

/// Whether the request sets the other one of the two limits on tokens, which many models refuse together.
fn is_other_limit(stored: &str, request: &HashMap<&str, &str>) -> bool {
    let other = match stored {
        "max_tokens" => "max_completion_tokens",
        "max_completion_tokens" => "max_tokens",
        _ => return false,
    };
    request.get(other).is_some_and(|json| *json != "null")
}

/// The member of a request that says whether a variable it lacks is an error.
const STRICT: &str = "strict_variables";

/// `None`: as the version says.
fn strict_variables(json: Option<&str>) -> Result<Option<bool>, Error> {
    match json {
        None | Some("null") => Ok(None),
        Some("true") => Ok(Some(true)),
        Some("false") => Ok(Some(false)),
        Some(_) => Err(Error::invalid_request(STRICT, "strict_variables must be true or false.")),
    }
}

fn variables(json: Option<&str>) -> Result<Value, Error> {
    let variables = json.and_then(|json| serde_json::from_str::<Value>(json).ok());
    variables.filter(Value::is_object).ok_or_else(|| {
        let message = "variables must be a JSON object with the values of the template's variables; it may be empty ({}).";
        Error::invalid_request("variables", message)
    })
}
