//! The client's tools and tool choice in Anthropic's format.
//!
//! Anthropic's own tools pass unchanged (`{"type":"web_search_20250305","name":"web_search"}`) or in
//! Portkey's spelling (`{"type":"computer","computer":{"name":"computer_20250124",...}}`). OpenAI's
//! web search becomes Anthropic's; OpenAI's other hosted tools do not exist there.

use super::beta_host::BetaHost;
use super::format::warn_moved;
use super::generation::Generation;
use super::schema::fit;
use crate::provider::translation_notes::TranslationNotes;
use crate::provider::vendor_members::{OPENAI_FUNCTION_MEMBERS, OPENAI_TOOLS};
use crate::provider::web_tools::drop_settings;
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde::{Deserialize, Serialize as DeriveSerialize};
use std::borrow::Cow;
use words::api::chat::{Params, Tool, ToolChoice};
use words::error::Error;
use words::json::{Json, JsonStr};

/// The version of web search that every model supports, on every cloud that has web search.
const WEB_SEARCH: &str = "web_search_20250305";

/// One tool of a request.
#[derive(Debug)]
pub(super) enum Offer<'a> {
    Function(Function<'a>),
    Native(Json<'a>),
}

#[derive(Debug)]
pub(super) struct Function<'a> {
    name: Cow<'a, str>,
    description: Option<Cow<'a, str>>,
    input_schema: Json<'a>,
    strict: bool,
    cache_control: Option<Json<'a>>,
    /// `defer_loading`, `allowed_callers`, `input_examples` and future members.
    rest: Params<'a>,
}

impl Offer<'_> {
    /// The type of a tool of Anthropic's.
    pub(crate) fn native_kind(&self) -> Option<String> {
        #[derive(Deserialize)]
        struct Kind<'a> {
            #[serde(borrow, rename = "type")]
            kind: Option<JsonStr<'a>>,
        }
        match self {
            Self::Native(json) => json.read::<Kind<'_>>()?.kind.map(|kind| kind.0.into_owned()),
            Self::Function(_) => None,
        }
    }
}

/// The context of the translation of tools.
pub(super) struct Place<'p> {
    pub model: Generation,
    pub provider: &'static str,
    pub betas: BetaHost,
    pub notes: &'p mut TranslationNotes,
    /// The most calls of the provider's own tools, until a search has taken it over.
    pub max_calls: Option<Json<'p>>,
}

impl Place<'_> {
    /// Translates all tools, and `web_search_options` into a web search.
    ///
    /// # Errors
    /// 400 for a limit of a search that Anthropic cannot keep.
    pub fn offers<'a>(
        &mut self,
        tools: Vec<Tool<'a>>,
        search: Option<Json<'a>>,
    ) -> Result<Vec<Offer<'a>>, Error> {
        let natives = tools.iter().filter(|tool| matches!(tool, Tool::Other { .. })).count();
        let is_for_one = natives + usize::from(search.is_some()) == 1;
        let given = self.max_calls.take();
        let is_given = given.is_some();
        self.max_calls = given.filter(|_| is_for_one);
        let mut offers = Vec::with_capacity(tools.len());
        for (index, tool) in tools.into_iter().enumerate() {
            offers.extend(self.offer(tool, index)?);
        }
        if let Some(options) = search {
            offers.push(Offer::Native(self.search(&options, "web_search_options")?));
        }
        // It bounds all of them together, which Anthropic has for a single search only.
        if is_given && (!is_for_one || self.max_calls.is_some()) {
            self.notes.drop_param("max_tool_calls", self.provider);
        }
        Ok(offers)
    }

    /// `None`: it was left out.
    fn offer<'a>(&mut self, tool: Tool<'a>, index: usize) -> Result<Option<Offer<'a>>, Error> {
        let (name, description, parameters, strict, cache_control, rest) = match tool {
            Tool::Function { name, description, parameters, strict, cache_control, rest } => {
                (name, description, parameters, strict, cache_control, rest)
            }
            Tool::Other { kind, json } => return self.native(&kind, json, index),
        };
        let mut strict = strict == Some(true);
        if strict && !self.model.has_schemas() {
            strict = false;
            self.notes.warn("tools.strict", "dropped, this model cannot be held to a schema");
        }
        let mut input_schema = object(parameters);
        if strict {
            let (schema, moved) = fit(&input_schema);
            warn_moved("tools.parameters", &moved, self.provider, self.notes);
            input_schema = schema;
        }
        let rest = rest.into_iter().fold(Params::default(), |mut kept, (member, value)| {
            // OpenAI's programs are not Anthropic's code execution.
            let is_program = member == "allowed_callers" && value.get().contains("\"programmatic\"");
            if is_program || OPENAI_FUNCTION_MEMBERS.contains(&member.as_ref()) {
                self.notes.drop_param(&format!("tools[{index}].{member}"), self.provider);
            } else {
                kept.set(member, value);
            }
            kept
        });
        Ok(Some(Offer::Function(Function { name, description, input_schema, strict, cache_control, rest })))
    }

    fn native<'a>(&mut self, kind: &str, json: Json<'a>, index: usize) -> Result<Option<Offer<'a>>, Error> {
        let members = Json::members(json.get()).unwrap_or_default();
        let inner = members.iter().find(|(name, value)| name == kind && value.is_object());
        match kind {
            _ if !self.betas.takes_tool(kind) => {
                self.notes.leave_out_tool(index, kind, self.provider);
                return Ok(None);
            }
            "web_search"
            | "web_search_preview"
            | "web_search_preview_2025_03_11"
            | "web_search_2025_08_26" => {
                return Ok(Some(Offer::Native(self.search(&json, &format!("tools[{index}]"))?)));
            }
            // Anthropic's name for a function.
            "custom" if members.iter().any(|(name, _)| name == "input_schema") => {}
            _ if OPENAI_TOOLS.contains(&kind) && (inner.is_none() || kind == "custom") => {
                self.notes.leave_out_tool(index, kind, self.provider);
                return Ok(None);
            }
            _ => {
                if let Some((_, options)) = inner {
                    return Ok(Some(Offer::Native(unwrapped(kind, options, &members))));
                }
            }
        }
        Ok(Some(Offer::Native(json)))
    }

    /// Translates OpenAI's web search into Anthropic's.
    fn search(&mut self, options: &Json<'_>, at: &str) -> Result<Json<'static>, Error> {
        const KEPT: [&str; 5] =
            ["user_location", "filters", "allowed_domains", "blocked_domains", "max_uses"];
        let requested = options.read::<SearchIn<'_>>().unwrap_or_default();
        drop_settings(options, at, &KEPT, self.provider, self.notes)?;
        if let Some(filters) = &requested.filters {
            drop_settings(filters, &format!("{at}.filters"), &KEPT, self.provider, self.notes)?;
        }
        // Chat completions nest the location one level deeper than responses do.
        let place = requested.user_location.as_ref().and_then(|place| {
            let inner = place.read::<LocationIn<'_>>()?.approximate;
            let members = Json::members(inner.as_ref().unwrap_or(place).get())?;
            let mut out = Params::default();
            out.set("type", Json::from_value("approximate"));
            let members = members.into_iter().filter(|(name, value)| name != "type" && !value.is_null());
            members.for_each(|(name, value)| out.set(name, owned(&value)));
            Some(written(&out))
        });
        let mut tool = Params::default();
        tool.set("type", Json::from_value(WEB_SEARCH));
        tool.set("name", Json::from_value("web_search"));
        let filters = requested.filters.as_ref().and_then(Json::read::<FiltersIn<'_>>).unwrap_or_default();
        let limits = [
            ("allowed_domains", filters.allowed_domains.or(requested.allowed_domains)),
            ("blocked_domains", filters.blocked_domains.or(requested.blocked_domains)),
            ("max_uses", requested.max_uses.or_else(|| self.max_calls.take())),
        ];
        for (name, limit) in limits {
            if let Some(limit) = limit.filter(|limit| !limit.is_null()) {
                tool.set(name, owned(&limit));
            }
        }
        if let Some(place) = place {
            tool.set("user_location", place);
        }
        Ok(written(&tool))
    }
}

/// Translates `tool_choice`. Tools that are not allowed are removed from `offers`, because Anthropic has no
/// list of allowed tools.
pub(super) fn choose<'a>(
    choice: Option<ToolChoice<'a>>,
    parallel: Option<bool>,
    offers: &mut Vec<Offer<'a>>,
    place: &mut Place<'_>,
) -> Option<Json<'a>> {
    let choice = match choice {
        // "tool_choice may only be specified while providing tools"
        _ if offers.is_empty() => return None,
        Some(ToolChoice::Other(json)) => {
            let choice = native_choice(json, offers);
            if choice.is_none() {
                place.notes.free_choice(place.provider);
            }
            return choice;
        }
        None if parallel != Some(false) => return None,
        choice => choice,
    };
    let (kind, name) = match choice {
        None | Some(ToolChoice::Auto | ToolChoice::Other(_)) => ("auto", None),
        Some(ToolChoice::None) => ("none", None),
        Some(ToolChoice::Required) => ("any", None),
        Some(ToolChoice::Function(name)) => ("tool", Some(name)),
        Some(ToolChoice::Allowed { names, required }) => {
            offers.retain(|offer| match offer {
                Offer::Function(function) => names.contains(&function.name),
                Offer::Native(_) => false,
            });
            match (required, offers.is_empty()) {
                (_, true) => return None,
                (true, _) => ("any", None),
                (false, _) => ("auto", None),
            }
        }
    };
    // Parallel calls can be disabled only where calls are possible.
    let single = (parallel == Some(false) && kind != "none").then_some(true);
    Some(Json::from_value(&Choice { kind, name, disable_parallel_tool_use: single }))
}

/// A choice in Anthropic's own format, or OpenAI's of its web search. `None`: of a tool that is not offered.
fn native_choice<'a>(json: Json<'a>, offers: &[Offer<'_>]) -> Option<Json<'a>> {
    let members = Json::members(json.get()).unwrap_or_default();
    let kind = members.iter().find(|(name, _)| name == "type").and_then(|(_, value)| value.text());
    let is_search =
        |offer: &Offer<'_>| offer.native_kind().is_some_and(|kind| kind.starts_with("web_search"));
    match kind.as_deref() {
        Some("auto" | "any" | "tool" | "none") => Some(json),
        Some(kind) if kind.starts_with("web_search") && offers.iter().any(is_search) => {
            let name = Some(Cow::Borrowed("web_search"));
            Some(Json::from_value(&Choice { kind: "tool", name, disable_parallel_tool_use: None }))
        }
        _ => None,
    }
}

/// Whether a choice forces the model to call a tool.
pub(in crate::provider) fn is_forced(choice: Option<&ToolChoice<'_>>) -> bool {
    match choice {
        Some(ToolChoice::Required | ToolChoice::Function(_)) => true,
        Some(ToolChoice::Allowed { required, .. }) => *required,
        Some(ToolChoice::Other(json)) => !json.get().contains("\"auto\"") && !json.get().contains("\"none\""),
        Some(ToolChoice::Auto | ToolChoice::None) | None => false,
    }
}

impl Serialize for Offer<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let tool = match self {
            Self::Native(json) => return json.serialize(serializer),
            Self::Function(tool) => tool,
        };
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("name", &tool.name)?;
        if let Some(description) = &tool.description {
            map.serialize_entry("description", description)?;
        }
        map.serialize_entry("input_schema", &tool.input_schema)?;
        if tool.strict {
            map.serialize_entry("strict", &true)?;
        }
        if let Some(cache_control) = &tool.cache_control {
            map.serialize_entry("cache_control", cache_control)?;
        }
        for (name, value) in tool.rest.iter() {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

#[derive(DeriveSerialize)]
struct Choice<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    disable_parallel_tool_use: Option<bool>,
}

#[derive(Deserialize, Default)]
struct SearchIn<'a> {
    #[serde(borrow)]
    user_location: Option<Json<'a>>,
    filters: Option<Json<'a>>,
    allowed_domains: Option<Json<'a>>,
    blocked_domains: Option<Json<'a>>,
    max_uses: Option<Json<'a>>,
}

#[derive(Deserialize, Default)]
struct FiltersIn<'a> {
    #[serde(borrow)]
    allowed_domains: Option<Json<'a>>,
    blocked_domains: Option<Json<'a>>,
}

#[derive(Deserialize)]
struct LocationIn<'a> {
    #[serde(borrow)]
    approximate: Option<Json<'a>>,
}

/// Turns `{"type":"x","x":{"name":"x_1",...}}` into `{"type":"x_1","name":"x",...}`.
fn unwrapped(kind: &str, options: &Json<'_>, outer: &[(Cow<'_, str>, Json<'_>)]) -> Json<'static> {
    let mut tool = Params::default();
    let inner = Json::members(options.get()).unwrap_or_default();
    let version = inner
        .iter()
        .find(|(name, _)| name == "name")
        .map_or(Json::from_value(kind), |(_, value)| owned(value));
    tool.set("type", version);
    tool.set("name", Json::from_value(kind));
    let rest = inner.iter().chain(outer).filter(|(name, _)| !matches!(name.as_ref(), "name" | "type"));
    for (name, value) in rest.filter(|(name, _)| name != kind) {
        tool.set(name.to_string(), owned(value));
    }
    written(&tool)
}

/// A schema of an object. Anthropic accepts no other, and requires `type`.
fn object(schema: Option<Json<'_>>) -> Json<'_> {
    let Some(schema) = schema else {
        return Json::parse(r#"{"type":"object","properties":{}}"#).unwrap_or_else(Json::null);
    };
    let untyped = match Json::members(schema.get()) {
        Some(members) => !members.iter().any(|(name, _)| name == "type"),
        None => false,
    };
    if !untyped {
        return schema;
    }
    let rest = schema.get().trim_start().trim_start_matches('{');
    let comma = if rest.trim_start().starts_with('}') { "" } else { "," };
    Json::owned(format!(r#"{{"type":"object"{comma}{rest}"#)).unwrap_or(schema)
}

fn owned(json: &Json<'_>) -> Json<'static> {
    Json::owned(json.get().to_owned()).unwrap_or_else(Json::null)
}

fn written(members: &Params<'_>) -> Json<'static> {
    struct Object<'p>(&'p Params<'p>);
    impl Serialize for Object<'_> {
        fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            serializer.collect_map(self.0.iter())
        }
    }
    Json::from_value(&Object(members))
}
