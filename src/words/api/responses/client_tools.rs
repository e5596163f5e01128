//! Tools of the Responses API that a chat has in another form: those of a namespace, freeform ones, and the client's own search for
//! tools.
//!
//! Each becomes a function. A tool of a namespace gets a name that holds both (`read` of `mcp__files`: `mcp__files__read`), a
//! freeform tool (`type: custom`) is a function of one text, a search (`type: tool_search`, `execution: client`) is a function. The
//! table is made from the request alone: what is written from the tools of a request and what is read from the calls of its response
//! therefore agree, and no two tools get one name. Not here: names that a provider does not allow (`provider::tool_names`).

use crate::api::body::Body;
use crate::json::{Json, JsonStr};
use serde::Deserialize;
use std::borrow::Cow;
use std::collections::HashMap;

/// What a function stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Declared {
    pub namespace: Option<String>,
    pub name: String,
    pub form: ToolForm,
}

/// The form of a tool that the client declared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ToolForm {
    Function,
    Freeform,
    /// A search for tools that the client runs.
    Search,
}

/// The type of a search for tools; its calls are `tool_search_call`, their results `tool_search_output`.
pub(super) const SEARCH: &str = "tool_search";
/// Who runs a search for tools, where it is the client. Without it the provider does.
pub(super) const BY_CLIENT: &str = "client";

/// The tools of a request that are sent as functions of another name or form.
#[derive(Debug, Default)]
pub(super) struct ClientTools {
    /// By the function's name. Plain functions are not among them.
    declared: HashMap<String, Declared>,
    /// The function's name, by namespace and name.
    functions: HashMap<String, HashMap<String, String>>,
    /// The name of the function that searches for tools.
    search: Option<String>,
}

#[derive(Deserialize)]
struct ToolIn<'a> {
    #[serde(borrow, rename = "type")]
    kind: Option<JsonStr<'a>>,
    name: Option<JsonStr<'a>>,
    tools: Option<Json<'a>>,
    execution: Option<JsonStr<'a>>,
    /// Of Anthropic's own form of a function, whose type is `custom` as well.
    input_schema: Option<Json<'a>>,
}

impl ToolIn<'_> {
    fn is_freeform(&self) -> bool {
        self.kind.as_deref() == Some("custom") && self.input_schema.is_none()
    }

    fn form(&self) -> ToolForm {
        if self.is_freeform() { ToolForm::Freeform } else { ToolForm::Function }
    }

    fn is_search_of_client(&self) -> bool {
        self.kind.as_deref() == Some(SEARCH) && self.execution.as_deref() == Some(BY_CLIENT)
    }
}

impl ClientTools {
    /// The tools that the request declares, also in items of its input. What cannot be read is left to whoever reads the tools.
    pub fn of(body: &Body) -> Self {
        let of_items = body.raw("input").map(item_tools).unwrap_or_default();
        let tools = body.raw("tools");
        let may_declare = |list: &str| {
            ["\"namespace\"", "\"custom\"", "\"tool_search\""].iter().any(|kind| list.contains(kind))
        };
        if !tools.is_some_and(may_declare) && !of_items.iter().any(|list| may_declare(list.get())) {
            return Self::default();
        }
        let mut lists: Vec<Json<'_>> = tools.and_then(Json::parse).into_iter().collect();
        lists.extend(of_items);
        let tools: Vec<ToolIn<'_>> = lists.iter().flat_map(|list| read_tools(list)).collect();
        let mut table = Self::default();
        // How often a name was wanted: the plain functions keep theirs.
        let mut wanted: HashMap<String, usize> = HashMap::new();
        for tool in &tools {
            if let (Some("function" | "custom"), Some(name)) = (tool.kind.as_deref(), &tool.name) {
                // Of two tools of one name the first is sent.
                let is_first = wanted.insert(name.to_string(), 1).is_none();
                if is_first && tool.is_freeform() {
                    table.declare(name.to_string(), None, name, ToolForm::Freeform);
                }
            }
        }
        if tools.iter().any(ToolIn::is_search_of_client) {
            let function = unused(SEARCH.to_owned(), &mut wanted);
            table.search = Some(function.clone());
            table.declare(function, None, SEARCH, ToolForm::Search);
        }
        for namespace in tools.iter().filter(|tool| tool.kind.as_deref() == Some("namespace")) {
            let (Some(space), Some(list)) = (&namespace.name, &namespace.tools) else { continue };
            for tool in read_tools(list) {
                let (Some("function" | "custom"), Some(name)) = (tool.kind.as_deref(), &tool.name) else {
                    continue;
                };
                if table.functions.get(&**space).is_some_and(|names| names.contains_key(&**name)) {
                    continue;
                }
                let function = unused(joined(space, name), &mut wanted);
                table.declare(function, Some(space), name, tool.form());
            }
        }
        table
    }

    fn declare(&mut self, function: String, namespace: Option<&str>, name: &str, form: ToolForm) {
        if let Some(namespace) = namespace {
            let names = self.functions.entry(namespace.to_owned()).or_default();
            names.insert(name.to_owned(), function.clone());
        }
        let namespace = namespace.map(str::to_owned);
        self.declared.insert(function, Declared { namespace, name: name.to_owned(), form });
    }

    /// The name of the function that stands for a tool.
    pub fn function<'a>(&self, namespace: Option<&str>, name: Cow<'a, str>) -> Cow<'a, str> {
        let Some(namespace) = namespace.filter(|namespace| !namespace.is_empty()) else { return name };
        match self.functions.get(namespace).and_then(|names| names.get(&*name)) {
            Some(function) => Cow::Owned(function.clone()),
            // A call of an earlier turn whose tool is no longer declared.
            None => Cow::Owned(joined(namespace, &name)),
        }
    }

    /// The name of the function that searches for tools. Calls of earlier turns have it also where none is declared any more.
    pub fn search_function(&self) -> Cow<'static, str> {
        self.search.clone().map_or(Cow::Borrowed(SEARCH), Cow::Owned)
    }

    /// Whether the client declared a search for tools that it runs itself.
    pub fn has_search(&self) -> bool {
        self.search.is_some()
    }

    /// The functions that stand for the tools of a namespace.
    pub fn functions_of(&self, namespace: &str) -> impl Iterator<Item = Cow<'static, str>> {
        let names = self.functions.get(namespace).into_iter().flat_map(HashMap::values);
        names.map(|name| Cow::Owned(name.clone()))
    }

    /// What the client declared as a function of this name; `None`: a function that is one.
    pub fn declared(&self, function: &str) -> Option<&Declared> {
        self.declared.get(function)
    }
}

/// The lists of tools in items of the input.
fn item_tools(input: &str) -> Vec<Json<'_>> {
    #[derive(Deserialize)]
    struct ItemIn<'a> {
        #[serde(borrow, rename = "type")]
        kind: Option<JsonStr<'a>>,
        tools: Option<Json<'a>>,
    }
    if !["\"additional_tools\"", "\"tool_search_output\""].iter().any(|kind| input.contains(kind)) {
        return Vec::new();
    }
    let items: Vec<Json<'_>> = serde_json::from_str(input).unwrap_or_default();
    let tools = |item: &Json<'_>| {
        let item = serde_json::from_str::<ItemIn<'_>>(item.get()).ok()?;
        let has_tools = matches!(item.kind.as_deref(), Some("additional_tools" | "tool_search_output"));
        Json::owned(item.tools.filter(|_| has_tools)?.get().to_owned())
    };
    items.iter().filter_map(tools).collect()
}

fn read_tools<'a>(list: &'a Json<'_>) -> Vec<ToolIn<'a>> {
    let list: Vec<&'a serde_json::value::RawValue> = serde_json::from_str(list.get()).unwrap_or_default();
    list.into_iter().filter_map(|tool| serde_json::from_str(tool.get()).ok()).collect()
}

fn joined(namespace: &str, name: &str) -> String {
    let between = if namespace.ends_with("__") { "" } else { "__" };
    [namespace, between, name].concat()
}

/// The name, or with a number behind it where another tool has it.
fn unused(name: String, wanted: &mut HashMap<String, usize>) -> String {
    let mut function = name.clone();
    loop {
        let count = wanted.entry(name.clone()).or_default();
        *count += 1;
        if *count > 1 {
            function = format!("{name}_{count}");
        }
        if *count == 1 || !wanted.contains_key(&function) {
            wanted.entry(function.clone()).or_insert(1);
            return function;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn table(body: &Value) -> ClientTools {
        ClientTools::of(&Body::parse(body.to_string().into()).unwrap())
    }

    fn function(name: &str) -> Value {
        json!({"type": "function", "name": name, "parameters": {}})
    }

    #[test]
    fn no_two_tools_get_one_name_and_each_comes_back() {
        let table = table(&json!({
            "tools": [
                function("a__b"),
                {"type": "namespace", "name": "a", "tools": [function("b"), {"type": "custom", "name": "p"}]},
                {"type": "namespace", "name": "mcp__x__", "tools": [function("read")]},
                {"type": "custom", "name": "apply_patch"},
                function("tool_search"),
                {"type": "tool_search", "execution": "client", "parameters": {}},
            ],
            "input": [{"type": "additional_tools", "tools": [{"type": "namespace", "name": "a__b_2", "tools": [function("c")]}]}],
        }));
        let named = |space: &str, name: &'static str| table.function(Some(space), name.into()).into_owned();
        assert_eq!(named("a", "b"), "a__b_2");
        assert_eq!(named("a", "p"), "a__p");
        assert_eq!(named("mcp__x__", "read"), "mcp__x__read");
        assert_eq!(named("a__b_2", "c"), "a__b_2__c");
        assert_eq!(named("gone", "c"), "gone__c", "of an earlier turn");
        assert_eq!(table.function(None, "a__b".into()), "a__b");
        let declared = |function: &str| {
            let declared = table.declared(function)?;
            Some((declared.namespace.as_deref(), declared.name.as_str(), declared.form))
        };
        assert_eq!(declared("a__b"), None);
        assert_eq!(declared("a__b_2"), Some((Some("a"), "b", ToolForm::Function)));
        assert_eq!(declared("a__p"), Some((Some("a"), "p", ToolForm::Freeform)));
        assert_eq!(declared("apply_patch"), Some((None, "apply_patch", ToolForm::Freeform)));
        assert_eq!(declared("tool_search"), None);
        assert_eq!(table.search_function(), "tool_search_2");
        assert_eq!(declared("tool_search_2"), Some((None, "tool_search", ToolForm::Search)));
        let mut of_a: Vec<_> = table.functions_of("a").collect();
        of_a.sort();
        assert_eq!(of_a, ["a__b_2", "a__p"]);
    }
}
