//! Writes a chat request as a chat completion.

use super::messages;
use super::{MaxTokensParam, OpenAiChat, ReasoningField, ReasoningParam, Rule};
use crate::provider::adapter::CallTarget;
use crate::provider::translation_notes::TranslationNotes;
use crate::provider::web_tools::{drop_settings, is_web_search};
use serde::Serialize;
use serde_json::json;
use std::borrow::Cow;
use std::ops::Range;
use words::api::chat::{ChatRequest, Params, Reasoning, ResponseFormat, Tool, ToolChoice};
use words::config::account::Account;
use words::error::Error;
use words::json::Json;
use words::json::splice::Object;

/// OpenAI's own members that do not affect the response: left out for vendors that do not have them.
const OPENAI_ONLY: &[&str] =
    &["store", "safety_identifier", "prompt_cache_key", "prompt_cache_retention", "verbosity"];

/// The body being written.
struct Members<'o> {
    out: Vec<u8>,
    chat: &'o OpenAiChat,
    notes: &'o mut TranslationNotes,
    /// Where the names that the translation itself has written stand in the output.
    written: Vec<Range<usize>>,
    /// Names that the client's members may not have either.
    taken: Vec<&'static str>,
    /// What follows are the client's remaining members.
    passes: bool,
}

impl Members<'_> {
    /// Adds a member, given under OpenAI's name, with the vendor's rules applied.
    fn add<T: Serialize + ?Sized>(&mut self, name: &str, value: &T) {
        let rule = self.chat.rules.iter().find(|(ruled, _)| *ruled == name).map(|(_, rule)| *rule);
        match rule {
            Some(Rule::Drop) => self.notes.drop_param(name, "this provider"),
            Some(Rule::Name(other)) => self.write(other, value),
            Some(rule @ (Rule::Values(_) | Rule::Nearest(_))) => {
                let json_value = Json::from_value(value);
                match json_value.text().and_then(|text| rule.replacement(&text)) {
                    Some((to, is_near)) => {
                        if is_near {
                            self.notes.nearest(name, to);
                        }
                        self.put(name, to);
                    }
                    None => self.put(name, &json_value),
                }
            }
            Some(Rule::DropValue(_) | Rule::Effort) | None => self.put(name, value),
        }
    }

    /// What follows are the client's remaining members. Whether it is a stream was decided, and what is renamed counts before a member that
    /// has the other name already.
    fn begin_others(&mut self, others: &Params<'_>) {
        self.taken.push("stream");
        for (name, rule) in self.chat.rules {
            if let Rule::Name(other) = rule
                && others.get(name).is_some()
            {
                self.taken.push(*other);
            }
        }
        self.passes = true;
    }

    /// Adds a member unless it is the client's and the translation has written one of that name.
    fn put<T: Serialize + ?Sized>(&mut self, name: &str, value: &T) {
        if self.passes && self.is_written(name) {
            self.notes.leave_out_second(name);
        } else {
            self.write(name, value);
        }
    }

    fn is_written(&self, name: &str) -> bool {
        let is_name = |place: &Range<usize>| self.out.get(place.clone()) == Some(name.as_bytes());
        self.taken.contains(&name) || self.written.iter().any(is_name)
    }

    fn write<T: Serialize + ?Sized>(&mut self, name: &str, value: &T) {
        self.name(name);
        let _ = serde_json::to_writer(&mut self.out, value);
    }

    /// Writes a member's name. Its value must follow.
    fn name(&mut self, name: &str) {
        self.out.push(if self.out.is_empty() { b'{' } else { b',' });
        let start = self.out.len();
        // Cannot fail: the output is a `Vec`, and the types always serialize.
        let _ = serde_json::to_writer(&mut self.out, name);
        if !self.passes {
            // Between its quotes.
            self.written.push(start + 1..self.out.len() - 1);
        }
        self.out.push(b':');
    }
}

/// Writes the body.
///
/// # Errors
/// 400 that names what the vendor cannot do.
pub(super) fn write(
    chat: &OpenAiChat,
    request: ChatRequest<'_>,
    target: &CallTarget<'_>,
    notes: &mut TranslationNotes,
) -> Result<Vec<u8>, Error> {
    let newer = chat.with_breakpoints(target.model);
    let chat = newer.as_ref().unwrap_or(chat);
    chat.warn_of_lost_marks(&request, notes);
    if request.has_citations() {
        notes.drop_param("citations", "this provider");
    }
    let instruction = match &request.response_format {
        Some(ResponseFormat::JsonSchema { schema, .. }) if !chat.schemas => Some(schema_prompt(schema)),
        _ => None,
    };
    let mut members = Members {
        out: Vec::with_capacity(1024),
        chat,
        notes,
        written: Vec::with_capacity(12),
        taken: Vec::new(),
        passes: false,
    };
    members.put("model", target.model);
    members.name("messages");
    let answers_results = chat.answers_results(target.model);
    messages::write(&request.messages, instruction, answers_results, chat, members.notes, &mut members.out)?;
    tools(&request, &mut members);
    if let Some(format) = &request.response_format {
        response_format(format, &mut members);
    }
    if let Some(limit) = &request.max_tokens {
        let name = if chat.max_tokens_param == MaxTokensParam::MaxCompletionTokens {
            "max_completion_tokens"
        } else {
            "max_tokens"
        };
        members.put(name, limit);
    }
    match request.stop.as_slice() {
        [] => {}
        [one] => members.add("stop", one),
        several => members.add("stop", several),
    }
    reasoning(&request.reasoning, &mut members);
    if request.stream {
        members.put("stream", &true);
        if chat.stream_options {
            members.put("stream_options", &json!({"include_usage": true}));
        }
    }
    params(request.params, target.account, &mut members)?;
    let mut out = members.out;
    out.push(b'}');
    Ok(out)
}

/// The schema as an instruction, for vendors without schemas. JSON mode requires the word JSON in it anyway.
pub(super) fn schema_prompt(schema: &Json<'_>) -> String {
    format!("Answer with one JSON object and nothing else. It must follow this JSON schema: {}", schema.get())
}

#[derive(Serialize)]
struct ToolOut<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    function: FunctionOut<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_control: Option<&'a Json<'a>>,
}

#[derive(Serialize)]
struct FunctionOut<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<&'a str>,
    parameters: Cow<'a, Json<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    strict: Option<bool>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum AnyTool<'a> {
    Function(ToolOut<'a>),
    Native(&'a Json<'a>),
    Search(Json<'a>),
}

fn tools(request: &ChatRequest<'_>, members: &mut Members<'_>) {
    // Only the allowed tools are sent, because no vendor but OpenAI has `allowed_tools`.
    let allowed = match &request.tool_choice {
        Some(ToolChoice::Allowed { names, .. }) => Some(names),
        _ => None,
    };
    let mut list = Vec::with_capacity(request.tools.len());
    for (index, tool) in request.tools.iter().enumerate() {
        match tool {
            Tool::Function { name, .. } if allowed.is_some_and(|allowed| !allowed.contains(name)) => {}
            Tool::Function { rest, .. } => {
                for (name, _) in rest.iter() {
                    members.notes.warn(format_args!("tools[{index}].{name}"), "left out");
                }
                list.extend(function(tool, members.chat).map(AnyTool::Function));
            }
            Tool::Other { kind, json } if members.chat.web_search.is_some() && is_web_search(kind) => {
                let search = members.chat.web_search.unwrap_or_default();
                list.extend(web_search(search, json, index, members.notes).map(AnyTool::Search));
            }
            // A vendor's own tool in the shape of chat's tools: `{"type": X, X: {..}}`.
            Tool::Other { kind, json } if has_member(json, kind) => list.push(AnyTool::Native(json)),
            Tool::Other { kind, .. } => members.notes.leave_out_tool(index, kind, "this provider"),
        }
    }
    if list.is_empty() {
        // Vendors refuse a tool choice without tools.
        return;
    }
    members.add("tools", &list);
    match &request.tool_choice {
        None => {}
        Some(ToolChoice::Auto | ToolChoice::Allowed { required: false, .. }) => {
            members.add("tool_choice", "auto");
        }
        Some(ToolChoice::None) => members.add("tool_choice", "none"),
        Some(ToolChoice::Required | ToolChoice::Allowed { required: true, .. }) => {
            members.add("tool_choice", "required");
        }
        Some(ToolChoice::Function(name)) => {
            members.add("tool_choice", &json!({"type": "function", "function": {"name": name}}));
        }
        Some(ToolChoice::Other(_)) => {
            members.notes.free_choice("this provider");
        }
    }
    if let Some(parallel) = request.parallel_tool_calls {
        members.add("parallel_tool_calls", &parallel);
    }
}

fn function<'a>(tool: &'a Tool<'a>, chat: &OpenAiChat) -> Option<ToolOut<'a>> {
    let Tool::Function { name, description, parameters, strict, cache_control, .. } = tool else {
        return None;
    };
    let parameters = match parameters {
        Some(parameters) => Cow::Borrowed(parameters),
        // OpenAI takes absent parameters for an empty object; Mistral and others require them.
        None => Cow::Owned(Json::empty_schema()),
    };
    let strict = strict.filter(|strict| *strict);
    let function = FunctionOut { name, description: description.as_deref(), parameters, strict };
    let cache_control = cache_control.as_ref().filter(|_| chat.cache_control);
    Some(ToolOut { kind: "function", function, cache_control })
}

/// A search of any vendor as the vendor's own. Sources of the settings: `WebSearchServerToolConfig` of OpenRouter's SDKs
/// (<https://openrouter.ai/docs/sdks/python/api-reference/components/websearchservertoolconfig>). `None`: it was left out.
fn web_search(
    kind: &str,
    tool: &Json<'_>,
    index: usize,
    notes: &mut TranslationNotes,
) -> Option<Json<'static>> {
    const KEPT: [&str; 5] =
        ["user_location", "search_context_size", "filters", "allowed_domains", "blocked_domains"];
    let at = format!("tools[{index}]");
    drop_settings(tool, &at, &KEPT, "this provider", notes).ok()?;
    let tool = Object::read(tool.get())?;
    let filters = tool.inner("filters");
    let member = |name: &str| {
        let inner = filters.as_ref().and_then(|filters| filters.json_of(name));
        inner.or_else(|| tool.json_of(name)).filter(|json| !matches!(*json, "null" | "[]"))
    };
    let mut parameters = Vec::new();
    for (name, own) in [
        ("allowed_domains", "allowed_domains"),
        ("blocked_domains", "excluded_domains"),
        ("user_location", "user_location"),
        ("search_context_size", "search_context_size"),
    ] {
        parameters.extend(member(name).map(|json| (own, json)));
    }
    // Some vendors' own searches ignore what is excluded.
    if parameters.iter().any(|(name, _)| *name == "excluded_domains") {
        parameters.push(("engine", "\"exa\""));
    }
    let parameters = Json::object_of(parameters);
    let kind = Json::from_value(kind);
    let mut members = vec![("type", kind)];
    if parameters.get() != "{}" {
        members.push(("parameters", parameters));
    }
    Some(Json::object(&members))
}

fn has_member(json: &Json<'_>, name: &str) -> bool {
    let members = Json::members(json.get()).unwrap_or_default();
    members.iter().any(|(member, _)| member == name)
}

#[derive(Serialize)]
struct SchemaOut<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<&'a str>,
    schema: &'a Json<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    strict: Option<bool>,
}

#[derive(Serialize)]
struct FormatOut<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    json_schema: Option<SchemaOut<'a>>,
}

fn response_format(format: &ResponseFormat<'_>, members: &mut Members<'_>) {
    let (kind, json_schema) = match format {
        ResponseFormat::Text => return,
        ResponseFormat::JsonSchema { name, description, schema, strict } if members.chat.schemas => {
            let description = description.as_deref();
            ("json_schema", Some(SchemaOut { name, description, schema, strict: *strict }))
        }
        ResponseFormat::JsonSchema { .. } | ResponseFormat::JsonObject => ("json_object", None),
    };
    members.add("response_format", &FormatOut { kind, json_schema });
}

fn reasoning(request: &Reasoning<'_>, members: &mut Members<'_>) {
    members.notes.simplify_thinking(request, "this provider");
    if members.chat.reasoning_field != ReasoningField::Nowhere {
        members.notes.show_thinking(request, "this provider");
    }
    let thinking = request.thinking.as_ref().and_then(Thinking::read);
    let effort = request.effort.as_deref();
    let budget_effort = || thinking.as_ref().and_then(Thinking::effort);
    let off = effort == Some("none") || thinking.as_ref().is_some_and(|thinking| thinking.off);
    match members.chat.reasoning_param {
        _ if effort.is_none() && thinking.is_none() => {}
        ReasoningParam::Effort => match effort.or_else(budget_effort) {
            Some(effort) => members.add("reasoning_effort", effort),
            None => members
                .notes
                .warn("thinking", "dropped, this provider is told how much to think by an effort"),
        },
        ReasoningParam::Thinking | ReasoningParam::Switch => {
            members.put("thinking", &json!({"type": if off { "disabled" } else { "enabled" }}));
            match effort.or_else(budget_effort).filter(|_| !off) {
                Some(effort) if members.chat.reasoning_param == ReasoningParam::Thinking => {
                    members.add("reasoning_effort", effort);
                }
                Some(_) => {
                    members.notes.warn("reasoning_effort", "dropped, this provider thinks or does not");
                }
                None => {}
            }
        }
        ReasoningParam::Reasoning => {
            let budget = thinking.as_ref().and_then(|thinking| thinking.budget);
            members.put(
                "reasoning",
                &match (effort, budget) {
                    _ if off => json!({"enabled": false}),
                    (Some(effort), _) => json!({"effort": effort}),
                    (None, Some(budget)) => json!({"max_tokens": budget}),
                    (None, None) => json!({"enabled": true}),
                },
            );
        }
        ReasoningParam::Enable => {
            members.put("enable_thinking", &!off);
            if effort.is_some_and(|effort| effort != "none") {
                members.notes.warn("reasoning_effort", "dropped, this provider thinks or does not");
            }
            if let Some(budget) = thinking.and_then(|thinking| thinking.budget) {
                members.put("thinking_budget", &budget);
            }
        }
    }
}

/// How much the model should think: the client's effort, or the nearest to its budget.
pub(in crate::provider) fn effort<'a>(request: &'a Reasoning<'_>) -> Option<Cow<'a, str>> {
    let of_budget = || request.thinking.as_ref().and_then(Thinking::read)?.effort().map(Cow::Borrowed);
    request.effort.as_deref().map(Cow::Borrowed).or_else(of_budget)
}

/// Anthropic's `thinking`.
pub(super) struct Thinking {
    pub off: bool,
    pub budget: Option<u64>,
}

impl Thinking {
    pub fn read(json: &Json<'_>) -> Option<Self> {
        let members = Json::members(json.get())?;
        let member = |name: &str| members.iter().find(|(key, _)| key == name).map(|(_, value)| value);
        let off = member("type").and_then(Json::text).is_some_and(|kind| kind == "disabled");
        Some(Self { off, budget: member("budget_tokens").and_then(Json::read) })
    }

    /// The nearest effort for the budget; `None` without a budget.
    pub fn effort(&self) -> Option<&'static str> {
        match self.budget? {
            _ if self.off => None,
            ..4096 => Some("low"),
            4096..16_384 => Some("medium"),
            16_384.. => Some("high"),
        }
    }
}

/// Adds the remaining parameters under their own names.
fn params(params: Params<'_>, account: &Account, members: &mut Members<'_>) -> Result<(), Error> {
    members.begin_others(&params);
    for (name, value) in params.into_iter().filter(|(_, value)| !value.is_null()) {
        match name.as_ref() {
            "previous_response_id" | "conversation" => {
                let message =
                    format!("{name}: this provider keeps no responses. Send the whole conversation.");
                return Err(Error::invalid_request(name.into_owned(), message));
            }
            "background" if value.is_true() => {
                let message = "background: this provider answers at once or not at all. Leave it out.";
                return Err(Error::invalid_request("background", message));
            }
            "background" => {}
            // Of the Responses API, also where a router gets everything.
            "max_tool_calls" => members.notes.drop_param(&name, "this provider"),
            "store" if !members.chat.accepts_all_openai_members() && !value.is_true() => {}
            _ if OPENAI_ONLY.contains(&name.as_ref()) && !members.chat.accepts_all_openai_members() => {
                members.notes.drop_param(&name, "this provider");
            }
            _ if members.chat.foreign(name.as_bytes(), account).is_some() => {
                members.notes.drop_param(&name, "this provider");
            }
            _ => members.add(&name, &value),
        }
    }
    Ok(())
}

impl OpenAiChat {
    /// Whether it accepts all of OpenAI's members, because it is OpenAI or passes them on.
    pub(super) fn accepts_all_openai_members(&self) -> bool {
        self.developer
    }
}
