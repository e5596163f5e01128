//! Decides what a conversation gets, whatever its dialect: text, JSON or tool calls.
//!
//! Parses only what this decision needs; message contents stay raw JSON until they must be read.

use super::published::PublishedError;
use super::reply::Dialect;
use super::sample_text::{self, SampleText};
use super::schema_example;
use super::script::Script;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

/// Default length in tokens: a chat stream then has 50 events.
const TOKENS: usize = 48;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Role {
    User,
    Tool,
    #[serde(alias = "model")]
    Assistant,
    #[serde(other)]
    Other,
}

/// One message, or one item of a Responses API input.
#[derive(Debug, Deserialize)]
pub(super) struct Message<'a> {
    pub(super) role: Option<Role>,
    #[serde(borrow)]
    content: Option<&'a RawValue>,
    r#type: Option<String>,
    /// Mistral's and DeepSeek's flag for a message to be continued.
    prefix: Option<bool>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Content {
    Text(String),
    Parts(Vec<ContentPart>),
}

#[derive(Deserialize)]
struct ContentPart {
    r#type: Option<String>,
    text: Option<String>,
}

impl Message<'_> {
    fn raw(&self) -> &str {
        self.content.map_or("", RawValue::get)
    }

    /// All text of the content.
    fn text(&self) -> String {
        match serde_json::from_str(self.raw()) {
            Ok(Content::Text(text)) => text,
            Ok(Content::Parts(parts)) => {
                parts.into_iter().filter_map(|part| part.text).collect::<Vec<_>>().join(" ")
            }
            Err(_) => String::new(),
        }
    }

    fn is_tool_result(&self) -> bool {
        if self.role == Some(Role::Tool) || self.r#type.as_deref() == Some("function_call_output") {
            return true;
        }
        let Ok(Content::Parts(parts)) = serde_json::from_str(self.raw()) else { return false };
        parts.iter().any(|part| part.r#type.as_deref() == Some("tool_result"))
    }
}

/// Approximate tokens of a prompt: the words of all contents, plus three for each message.
pub(super) fn prompt_tokens(messages: &[Message<'_>]) -> u64 {
    messages.iter().map(|message| sample_text::estimate_tokens(message.raw()) + 3).sum()
}

/// A tool in any dialect's shape.
#[derive(Debug, Deserialize)]
pub(super) struct Tool<'a> {
    #[serde(borrow)]
    function: Option<Function<'a>>,
    name: Option<String>,
    parameters: Option<&'a RawValue>,
    input_schema: Option<&'a RawValue>,
}

#[derive(Debug, Deserialize)]
struct Function<'a> {
    name: String,
    #[serde(borrow)]
    parameters: Option<&'a RawValue>,
}

impl Tool<'_> {
    /// A call with example arguments. `None` for tools that are no functions, which the emulator never calls.
    fn call(&self) -> Option<ToolCall> {
        let (name, schema) = match (&self.function, &self.name) {
            (Some(function), _) => (&function.name, function.parameters),
            (None, Some(name)) => (name, self.parameters.or(self.input_schema)),
            (None, None) => return None,
        };
        let schema = schema.and_then(|schema| serde_json::from_str(schema.get()).ok());
        let arguments = schema_example::example(&schema.unwrap_or_else(|| json!({"type": "object"})));
        Some(ToolCall { name: name.clone(), arguments: arguments.to_string() })
    }
}

/// A tool call; the arguments are JSON text.
#[derive(Debug, Clone)]
pub(super) struct ToolCall {
    pub(super) name: String,
    pub(super) arguments: String,
}

/// `stop`, as one string or a list.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub(super) enum Stop {
    One(String),
    Many(Vec<String>),
}

impl Stop {
    pub(super) fn list(stop: Option<Self>) -> Vec<String> {
        match stop {
            None => Vec::new(),
            Some(Stop::One(stop)) => vec![stop],
            Some(Stop::Many(stops)) => stops,
        }
    }
}

/// `response_format` of chat completions, `text.format` of the Responses API.
#[derive(Debug, Deserialize)]
pub(super) struct Format {
    r#type: String,
    schema: Option<Value>,
    json_schema: Option<Holder>,
}

#[derive(Debug, Deserialize)]
struct Holder {
    schema: Option<Value>,
}

impl Format {
    fn text(&self, tokens: usize) -> Option<String> {
        let schema =
            self.json_schema.as_ref().and_then(|holder| holder.schema.as_ref()).or(self.schema.as_ref());
        match (self.r#type.as_str(), schema) {
            ("json_schema", Some(schema)) => Some(schema_example::example(schema).to_string()),
            ("json_schema" | "json_object", _) => {
                Some(json!({"text": sample_text::prose(tokens)}).to_string())
            }
            _ => None,
        }
    }
}

/// The parts of a request that decide its response.
pub(super) struct ChatInput<'a> {
    pub(super) model: &'a str,
    pub(super) messages: &'a [Message<'a>],
    pub(super) tools: &'a [Tool<'a>],
    pub(super) tool_choice: Option<&'a RawValue>,
    pub(super) format: Option<&'a Format>,
    pub(super) limit: Option<u64>,
    pub(super) stops: &'a [String],
    /// If the dialect refuses to continue the last message, the refusal is set as its `error`.
    pub(super) script: &'a mut Script,
    pub(super) dialect: Dialect,
}

/// The content of a response.
#[derive(Debug)]
pub(super) enum Completion {
    Text(SampleText),
    Tools(Vec<ToolCall>),
}

impl Completion {
    /// Tokens of the response, for `usage`.
    pub(super) fn tokens(&self) -> u64 {
        match self {
            Completion::Text(sample) => sample.tokens,
            Completion::Tools(calls) => calls
                .iter()
                .map(|call| sample_text::count(&call.name) + sample_text::count(&call.arguments))
                .sum(),
        }
    }
}

/// Decides the content of the response.
pub(super) fn decide(input: ChatInput<'_>) -> Completion {
    let prefill = prefill(input.messages, input.script, input.dialect);
    let input = &input;
    let calls = calls(input);
    if !calls.is_empty() {
        return Completion::Tools(calls);
    }
    let tokens = input.script.tokens.unwrap_or(TOKENS);
    let text = match input.format.and_then(|format| format.text(tokens)) {
        Some(text) => text,
        None if input.model == "emulator-echo" => last_user_text(input.messages),
        None => sample_text::prose(tokens),
    };
    let text = match text.strip_prefix(&prefill) {
        Some(rest) => rest.to_owned(),
        // The prefill is not the beginning of our text, so all of our text follows it.
        None => format!(" {text}"),
    };
    Completion::Text(sample_text::truncate(text, input.limit, input.stops))
}

/// The text to continue from: set if the last message is an assistant's and the dialect supports prefill.
fn prefill(messages: &[Message<'_>], script: &mut Script, dialect: Dialect) -> String {
    let Some(last) = messages.last().filter(|last| last.role == Some(Role::Assistant)) else {
        return String::new();
    };
    let text = last.text();
    if script.no_prefill {
        script.error = Some(PublishedError::Prefill);
    } else if dialect == Dialect::Anthropic && text.ends_with(char::is_whitespace) {
        script.error = Some(PublishedError::TrailingSpace);
    }
    match dialect {
        Dialect::Anthropic | Dialect::Bedrock => text,
        Dialect::OpenAi if last.prefix == Some(true) => text,
        // These dialects start a new message instead.
        Dialect::OpenAi | Dialect::Gemini | Dialect::Cohere => String::new(),
    }
}

fn last_user_text(messages: &[Message<'_>]) -> String {
    let sample = messages.iter().rev().find(|message| message.role == Some(Role::User));
    sample.map(Message::text).unwrap_or_default()
}

/// The tools to call. None after a tool result, or the conversation would never end.
fn calls(input: &ChatInput<'_>) -> Vec<ToolCall> {
    if input.tools.is_empty() || input.messages.last().is_some_and(Message::is_tool_result) {
        return Vec::new();
    }
    let callable = || input.tools.iter().filter_map(Tool::call);
    let choice = input.tool_choice.and_then(|choice| serde_json::from_str(choice.get()).ok());
    let choice: Value = choice.unwrap_or(Value::Null);
    let named = choice.pointer("/function/name").or_else(|| choice.get("name")).and_then(Value::as_str);
    if let Some(named) = named {
        return callable().filter(|call| call.name == named).take(1).collect();
    }
    match choice.as_str().or_else(|| choice.get("type").and_then(Value::as_str)) {
        Some("none") => return Vec::new(),
        Some("required" | "any") => return callable().take(1).collect(),
        _ => {}
    }
    let wish = last_user_text(input.messages).to_lowercase();
    match () {
        () if wish.contains("call the tools") => callable().collect(),
        () if wish.contains("call the tool") => callable().take(1).collect(),
        () => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(messages: &str, choice: Option<&str>) -> Vec<String> {
        let messages: Vec<Message<'_>> = serde_json::from_str(messages).unwrap();
        let tools = r#"[{"type":"function","function":{"name":"a"}},{"type":"web_search"},
            {"type":"function","name":"b","parameters":{}},{"name":"c","input_schema":{"type":"object"}}]"#;
        let tools: Vec<Tool<'_>> = serde_json::from_str(tools).unwrap();
        let choice = choice.map(|choice| RawValue::from_string(choice.to_owned()).unwrap());
        let input = ChatInput {
            model: "emulator",
            messages: &messages,
            tools: &tools,
            tool_choice: choice.as_deref(),
            format: None,
            limit: None,
            stops: &[],
            script: &mut Script::default(),
            dialect: Dialect::OpenAi,
        };
        match decide(input) {
            Completion::Tools(calls) => calls.into_iter().map(|call| call.name).collect(),
            Completion::Text(_) => Vec::new(),
        }
    }

    #[test]
    fn tools_are_called_on_request() {
        let hello = r#"[{"role":"user","content":"hello"}]"#;
        let please = r#"[{"role":"user","content":[{"type":"text","text":"Call the tool"}]}]"#;
        let all = r#"[{"role":"user","content":"call the tools, please"}]"#;
        let result = r#"[{"role":"user","content":"call the tool"},{"role":"tool","content":"7"}]"#;
        let anthropic = r#"[{"role":"user","content":[{"type":"tool_result","tool_use_id":"x"}]}]"#;
        let responses = r#"[{"type":"function_call_output","call_id":"c","output":"7"}]"#;
        for (messages, choice, expected) in [
            (hello, None, &[][..]),
            (hello, Some("\"auto\""), &[]),
            (hello, Some("\"required\""), &["a"]),
            (hello, Some(r#"{"type":"any"}"#), &["a"]),
            (hello, Some(r#"{"type":"function","function":{"name":"b"}}"#), &["b"]),
            (hello, Some(r#"{"type":"tool","name":"c"}"#), &["c"]),
            (please, None, &["a"]),
            (please, Some("\"none\""), &[]),
            (all, None, &["a", "b", "c"]),
            (result, Some("\"required\""), &[]),
            (anthropic, Some(r#"{"type":"any"}"#), &[]),
            (responses, Some("\"required\""), &[]),
        ] {
            assert_eq!(names(messages, choice), expected, "{messages} {choice:?}");
        }
    }

    #[test]
    fn prefills_are_continued_where_the_dialect_does() {
        let whole = "The quick brown fox jumps";
        for (prefill, script, dialect, text, error) in [
            (r#"{"role":"assistant","content":"The quick"}"#, "", Dialect::OpenAi, whole, None),
            (
                r#"{"role":"assistant","content":"The quick","prefix":true}"#,
                "",
                Dialect::OpenAi,
                " brown fox jumps",
                None,
            ),
            (
                r#"{"role":"assistant","content":[{"type":"text","text":"The quick"}]}"#,
                "",
                Dialect::Anthropic,
                " brown fox jumps",
                None,
            ),
            (r#"{"role":"assistant","content":"The qu"}"#, "", Dialect::Bedrock, "ick brown fox jumps", None),
            (r#"{"role":"model","content":"The quick"}"#, "", Dialect::Gemini, whole, None),
            (
                r#"{"role":"assistant","content":"Well:"}"#,
                "",
                Dialect::Bedrock,
                " The quick brown fox jumps",
                None,
            ),
            (
                r#"{"role":"assistant","content":"The quick "}"#,
                "",
                Dialect::Anthropic,
                "brown fox jumps",
                Some(PublishedError::TrailingSpace),
            ),
            (
                r#"{"role":"assistant","content":"The quick"}"#,
                "no_prefill=1",
                Dialect::Anthropic,
                " brown fox jumps",
                Some(PublishedError::Prefill),
            ),
            (r#"{"role":"user","content":"x"}"#, "no_prefill=1", Dialect::Anthropic, whole, None),
        ] {
            let messages = format!(r#"[{{"role":"user","content":"hello"}},{prefill}]"#);
            let messages: Vec<Message<'_>> = serde_json::from_str(&messages).unwrap();
            let mut script = Script { tokens: Some(5), ..Script::parse(script).unwrap() };
            let sample = decide(ChatInput {
                model: "emulator",
                messages: &messages,
                tools: &[],
                tool_choice: None,
                format: None,
                limit: None,
                stops: &[],
                script: &mut script,
                dialect,
            });
            let Completion::Text(sample) = sample else { panic!("{prefill}") };
            assert_eq!((sample.text.as_str(), script.error), (text, error), "{prefill}");
        }
    }
}
