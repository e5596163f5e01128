//! The tools of one request that the gateway calls, and the functions as which the model sees them.

use crate::api::body::{Body, Edit};
use crate::api::mcp::reply::member;
use crate::error::Error;
use crate::json::Json;
use crate::json::walk;
use crate::json::write::ObjectWriter;
use bytes::Bytes;
use std::borrow::Cow;
use std::collections::HashSet;

/// The most functions that a model is offered: OpenAI's bound.
const MAX_FUNCTIONS: usize = 128;

/// A tool of an MCP server.
#[derive(Debug, Clone)]
pub struct RoundTool {
    /// What the model calls it.
    pub function: String,
    /// The slug of its server or bundle.
    pub label: String,
    /// Its name in the list of that.
    pub name: String,
    /// Whether the client must approve each call.
    pub needs_approval: bool,
    /// As its server describes it: JSON text.
    pub definition: String,
}

/// A server, and the tools of it that the model may call.
#[derive(Debug, Clone)]
pub struct ListedServer {
    pub label: String,
    pub tools: Vec<RoundTool>,
}

/// All tools of a request.
#[derive(Debug, Clone)]
pub struct RoundTools {
    servers: Vec<String>,
    own: Vec<RoundTool>,
    /// `tools` as the client sent them: JSON text.
    original: String,
    /// Those that the gateway does not call: JSON texts.
    others: Vec<String>,
}

impl RoundTools {
    /// Puts the tools of `servers` in the places of their entries. `original`: the request's `tools`; `places`: those of the entries.
    ///
    /// # Errors
    /// 400: two tools have one name, or there are too many.
    pub fn new(servers: Vec<ListedServer>, original: &str, places: &[usize]) -> Result<Self, Error> {
        let items = walk::items(original.as_bytes()).into_iter().flatten().enumerate();
        let others: Vec<String> = items
            .filter(|(place, _)| !places.contains(place))
            .filter_map(|(_, item)| Some(std::str::from_utf8(item).ok()?.to_owned()))
            .collect();
        let mut names: HashSet<String> = others.iter().filter_map(|tool| function_name(tool)).collect();
        let labels = servers.iter().map(|server| server.label.clone()).collect();
        let own: Vec<RoundTool> = servers.into_iter().flat_map(|server| server.tools).collect();
        for tool in &own {
            if !names.insert(tool.function.clone()) {
                let message = format!(
                    "Two tools of this request are called {:?} for the model. Rename the function, or leave one out with allowed_tools.",
                    tool.function
                );
                return Err(Error::invalid_request("tools", message));
            }
        }
        if own.len() + others.len() > MAX_FUNCTIONS {
            let message = format!(
                "The model would be offered {} tools; at most {MAX_FUNCTIONS} are. Name the ones it needs in allowed_tools.",
                own.len() + others.len()
            );
            return Err(Error::invalid_request("tools", message));
        }
        Ok(Self { servers: labels, own, original: original.to_owned(), others })
    }

    /// The tool at this place.
    pub fn get(&self, place: usize) -> Option<&RoundTool> {
        self.own.get(place)
    }

    /// The place of the tool that the model calls so.
    pub(super) fn find(&self, function: &str) -> Option<usize> {
        self.own.iter().position(|tool| tool.function == function)
    }

    /// The place of a tool of a server.
    pub(super) fn find_named(&self, label: &str, name: &str) -> Option<usize> {
        self.own.iter().position(|tool| tool.label == label && tool.name == name)
    }

    /// Whether the client must approve some calls.
    pub(super) fn has_approvals(&self) -> bool {
        self.own.iter().any(|tool| tool.needs_approval)
    }

    pub(super) fn has_server(&self, label: &str) -> bool {
        self.servers.iter().any(|server| server == label)
    }

    /// The servers, in order, and the definitions of their tools.
    pub(super) fn servers(&self) -> impl Iterator<Item = (&str, Vec<&str>)> {
        self.servers.iter().map(|label| {
            let of = self.own.iter().filter(move |tool| tool.label == *label);
            (&**label, of.map(|tool| &*tool.definition).collect())
        })
    }

    /// `tools` as the client sent them.
    pub(super) fn original(&self) -> &str {
        &self.original
    }

    /// `tools` as the model gets them, if it gets any. `is_nested`: a function's members are in a member `function`, as a chat has them.
    fn functions(&self, is_nested: bool) -> Option<String> {
        let own = self.own.iter().map(|tool| tool.as_function(is_nested));
        let all: Vec<String> = self.others.iter().cloned().chain(own).collect();
        (!all.is_empty()).then(|| format!("[{}]", all.join(",")))
    }

    /// `tool_choice` of a round, counted from 0, where it is another than the client's: in the last one the model may call nothing, and a
    /// choice that demands a call does so once. `first`: that of the first round; `given`: the client's.
    pub(super) fn choice_of_round<'c>(
        first: Option<&'c str>,
        given: Option<&'c str>,
        round: u32,
        is_last: bool,
    ) -> Option<&'c str> {
        match (is_last, round) {
            (true, _) => Some("\"none\""),
            (false, 0) => first,
            (false, _) if first.or(given).is_some_and(demands) => Some("\"auto\""),
            (false, _) => None,
        }
    }

    /// The changes of a request's tools for a round. `choice`: another `tool_choice` than the client's.
    pub(super) fn edits<'a>(&self, is_nested: bool, choice: Option<&'a str>) -> Vec<Edit<'a>> {
        let Some(functions) = self.functions(is_nested) else {
            // Providers refuse a choice among none.
            return vec![Edit::Remove("tools"), Edit::Remove("tool_choice")];
        };
        let choice = choice.map(|choice| Edit::Set("tool_choice", Cow::Borrowed(choice)));
        std::iter::once(Edit::Set("tools", Cow::Owned(functions))).chain(choice).collect()
    }

    /// `tool_choice` for the model: JSON text. `None`: as it is.
    ///
    /// # Errors
    /// 400: it names a tool that is none of the request's, or in a way that has no form for functions.
    pub(super) fn choice(&self, choice: Option<&str>, is_nested: bool) -> Result<Option<String>, Error> {
        let kind =
            choice.and_then(|choice| member(choice, "type")).and_then(|kind| kind.text().map(String::from));
        let refuse = |message: &str| Err(Error::invalid_request("tool_choice", message));
        let Some(choice) = choice else { return Ok(None) };
        match kind.as_deref() {
            Some("mcp") => {}
            Some("allowed_tools") if memchr::memmem::find(choice.as_bytes(), br#""mcp""#).is_some() => {
                return refuse(
                    "MCP servers cannot be named in allowed_tools of tool_choice. Use allowed_tools of the entry in tools.",
                );
            }
            _ => return Ok(None),
        }
        let text = |name: &str| member(choice, name).and_then(|value| value.text().map(String::from));
        let label = text("server_label").unwrap_or_default();
        if !self.has_server(&label) {
            return refuse("server_label is none of the servers in tools.");
        }
        let Some(name) = text("name") else { return Ok(Some("\"required\"".to_owned())) };
        let Some(tool) = self.find_named(&label, &name).and_then(|place| self.get(place)) else {
            return refuse("name is none of the server's tools that this request may call.");
        };
        let name = Json::from_value(&tool.function);
        Ok(Some(match is_nested {
            true => format!("{{\"type\":\"function\",\"function\":{{\"name\":{}}}}}", name.get()),
            false => format!("{{\"type\":\"function\",\"name\":{}}}", name.get()),
        }))
    }
}

/// A request without its entries of servers: what its first round has but for their tools.
///
/// # Errors
/// 400: its `tool_choice` names one of their tools in a way that has no form for functions.
pub fn without_entries(body: &Body, places: &[usize], is_nested: bool) -> Result<Bytes, Error> {
    let tools = RoundTools::new(Vec::new(), body.raw("tools").unwrap_or("[]"), places)?;
    let is_of_server = body.raw("tool_choice").and_then(|choice| member(choice, "type"));
    let is_of_server = is_of_server.is_some_and(|kind| kind.text().as_deref() == Some("mcp"));
    Ok(body.edit(&tools.edits(is_nested, is_of_server.then_some("\"required\""))))
}

/// Whether a `tool_choice` makes the model call something.
fn demands(choice: &str) -> bool {
    let kind = member(choice, "type").and_then(|kind| kind.text().map(String::from));
    match kind.as_deref() {
        None => choice == "\"required\"",
        Some("allowed_tools") => memchr::memmem::find(choice.as_bytes(), b"\"required\"").is_some(),
        Some(_) => true,
    }
}

impl RoundTool {
    fn as_function(&self, is_nested: bool) -> String {
        let mut out = Vec::new();
        let mut tool = ObjectWriter::open(&mut out);
        tool.text("type", "function");
        if is_nested {
            tool.object("function", |function| self.write_members(function));
        } else {
            self.write_members(&mut tool);
            // Schemas of servers seldom are of the strict kind, which is what the Responses API takes them for without a word.
            tool.flag("strict", false);
        }
        tool.close();
        String::from_utf8(out).unwrap_or_default()
    }

    fn write_members(&self, function: &mut ObjectWriter<'_>) {
        function.text("name", &self.function);
        if let Some(description) = member(&self.definition, "description").filter(|text| !text.is_null()) {
            function.raw("description", description.get());
        }
        let schema = member(&self.definition, "inputSchema").filter(Json::is_object);
        function.raw("parameters", schema.as_ref().map_or(Json::empty_schema().get(), Json::get));
    }
}

/// The name of a function, in either form.
fn function_name(tool: &str) -> Option<String> {
    let name = |object: &str| member(object, "name").and_then(|name| name.text().map(String::from));
    match member(tool, "function") {
        Some(function) => name(function.get()),
        None => name(tool),
    }
}
