//! Writes the tools of a chat, and which of them may be called, as the Responses API has them.

use crate::provider::translation_notes::TranslationNotes;
use crate::provider::web_tools::drop_settings;
use words::api::chat::{Tool, ToolChoice};
use words::json::Json;
use words::json::splice::Object;
use words::json::write::{ObjectWriter, key};

/// What warnings call the target.
pub(super) const API: &str = "the Responses API";

/// Writes `tools` and `tool_choice`. `search`: the client's `web_search_options`. Returns whether there is any tool.
pub(super) fn write(
    tools: &[Tool<'_>],
    choice: Option<&ToolChoice<'_>>,
    search: Option<&Json<'_>>,
    notes: &mut TranslationNotes,
    body: &mut ObjectWriter<'_>,
) -> bool {
    let mut list: Vec<String> = Vec::with_capacity(tools.len());
    let mut functions = 0_usize;
    for (index, tool) in tools.iter().enumerate() {
        match tool {
            Tool::Function { rest, .. } => {
                for (name, _) in rest.iter() {
                    notes.warn(format_args!("tools[{index}].{name}"), "left out");
                }
                functions += 1;
                list.push(function(tool));
            }
            Tool::Other { kind, json } => match web_search(index, kind, json, notes) {
                Search::Is(search) => list.push(search),
                Search::Unlimited => notes.leave_out_search(index, API),
                Search::None => notes.leave_out_tool(index, kind, API),
            },
        }
    }
    list.extend(search.map(search_of_options));
    if list.is_empty() {
        return false;
    }
    body.raw(key!("tools"), &format!("[{}]", list.join(",")));
    if let Some(choice) = choice {
        write_choice(choice, functions, notes, body);
    }
    true
}

/// A function. It is strict there unless it is declared otherwise; in a chat it is not.
fn function(tool: &Tool<'_>) -> String {
    let Tool::Function { name, description, parameters, strict, .. } = tool else { return String::new() };
    let mut out = Vec::new();
    let mut object = ObjectWriter::open(&mut out);
    object.text(key!("type"), "function");
    object.text(key!("name"), name);
    object.optional_text(key!("description"), description.as_deref());
    match parameters {
        Some(parameters) => object.raw(key!("parameters"), parameters.get()),
        None => object.raw(key!("parameters"), Json::empty_schema().get()),
    }
    object.flag(key!("strict"), strict.unwrap_or(false));
    object.close();
    String::from_utf8(out).unwrap_or_default()
}

/// What a search may be restricted to there, whoever's tool it is; `blocked_domains` leaves it out.
const KEPT: [&str; 5] =
    ["allowed_domains", "blocked_domains", "filters", "user_location", "search_context_size"];

enum Search {
    Is(String),
    /// It must keep to domains or away from them in a way that the API cannot.
    Unlimited,
    /// Another tool.
    None,
}

/// A web search, whoever's type it is: OpenAI's own, Anthropic's (`web_search_20250305`), Google's.
/// <https://platform.openai.com/docs/guides/tools-web-search>
fn web_search(index: usize, kind: &str, json: &Json<'_>, notes: &mut TranslationNotes) -> Search {
    if !kind.starts_with("web_search") {
        return Search::None;
    }
    let text = json.get();
    let Some(tool) = Object::read(text) else { return Search::None };
    let is_set = |json: &&str| !matches!(*json, "null" | "[]");
    if tool.json_of("blocked_domains").is_some_and(|list| is_set(&list)) {
        return Search::Unlimited;
    }
    if drop_settings(json, &format!("tools[{index}]"), &KEPT, API, notes).is_err() {
        return Search::Unlimited;
    }
    let mut out = Vec::new();
    let mut object = ObjectWriter::open(&mut out);
    object.text(key!("type"), "web_search");
    match tool.json_of("allowed_domains").filter(is_set) {
        Some(list) => object.object(key!("filters"), |filters| filters.raw(key!("allowed_domains"), list)),
        None => object.optional_raw(key!("filters"), tool.json_of("filters").filter(is_set)),
    }
    for name in ["user_location", "search_context_size"] {
        if let Some(value) = tool.json_of(name).filter(is_set) {
            object.raw(name, value);
        }
    }
    object.close();
    Search::Is(String::from_utf8(out).unwrap_or_default())
}

/// The search that a chat asks for in `web_search_options`: the place is one level deeper there.
fn search_of_options(options: &Json<'_>) -> String {
    let mut out = Vec::new();
    let mut object = ObjectWriter::open(&mut out);
    object.text(key!("type"), "web_search");
    if let Some(options) = Object::read(options.get()) {
        object.optional_raw(key!("search_context_size"), options.json_of("search_context_size"));
        let place = options.inner("user_location").and_then(|location| location.inner("approximate"));
        if let Some(place) = place {
            object.object(key!("user_location"), |location| {
                location.text(key!("type"), "approximate");
                for (name, value) in place.members() {
                    location.raw(name, value.get());
                }
            });
        }
    }
    object.close();
    String::from_utf8(out).unwrap_or_default()
}

fn write_choice(
    choice: &ToolChoice<'_>,
    functions: usize,
    notes: &mut TranslationNotes,
    body: &mut ObjectWriter<'_>,
) {
    let mode = |required: bool| if required { "required" } else { "auto" };
    match choice {
        ToolChoice::Auto => body.text(key!("tool_choice"), "auto"),
        ToolChoice::None => body.text(key!("tool_choice"), "none"),
        ToolChoice::Required => body.text(key!("tool_choice"), "required"),
        ToolChoice::Function(name) => body.object(key!("tool_choice"), |choice| {
            choice.text(key!("type"), "function");
            choice.text(key!("name"), name);
        }),
        ToolChoice::Allowed { names, required } if functions > 0 => {
            let names: Vec<_> = names.iter().collect();
            body.object(key!("tool_choice"), |choice| {
                choice.text(key!("type"), "allowed_tools");
                choice.text(key!("mode"), mode(*required));
                choice.list(key!("tools"), &names, |tool, name| {
                    tool.text(key!("type"), "function");
                    tool.text(key!("name"), name);
                });
            });
        }
        ToolChoice::Allowed { .. } | ToolChoice::Other(_) => notes.free_choice(API),
    }
}
