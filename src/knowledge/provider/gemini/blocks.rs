//! Google's own tools (code execution, search, file search) as blocks in Anthropic's shape, which the next
//! turn sends back as the original parts.
//!
//! Example, in both directions:
//!
//! `{"executableCode":{"id":"c1","language":"PYTHON","code":".."}}`
//! `{"type":"server_tool_use","id":"c1","name":"code_execution","input":{"code":"..","language":"PYTHON"}}`

use super::content::{Data, PartOut};
use serde::{Deserialize, Serialize};
use words::api::gemini::blocks::{self, BlockKind, BlockPart, CODE};
use words::json::{Json, JsonStr};

/// A call of a server tool: Anthropic's `server_tool_use`, with Gemini's signature added.
#[derive(Debug, Serialize)]
struct ServerToolUse<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    id: &'a str,
    name: &'a str,
    input: Json<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    signature: Option<&'a str>,
}

/// Its result: Anthropic's `<name>_tool_result`.
#[derive(Debug, Serialize)]
struct ServerToolResult<'a> {
    #[serde(rename = "type")]
    kind: String,
    tool_use_id: &'a str,
    content: Json<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    signature: Option<&'a str>,
}

/// Gemini's parts for server tools: code, its result, a call, a response.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ToolPart<'a> {
    #[serde(borrow)]
    id: Option<JsonStr<'a>>,
    language: Option<Json<'a>>,
    code: Option<Json<'a>>,
    outcome: Option<JsonStr<'a>>,
    output: Option<JsonStr<'a>>,
    tool_type: Option<JsonStr<'a>>,
    args: Option<Json<'a>>,
    response: Option<Json<'a>>,
}

/// The blocks of one choice. Ids link results to calls; older models give none, so they are generated.
#[derive(Debug, Default)]
pub(super) struct Blocks {
    generated: u32,
    last: String,
}

impl Blocks {
    pub(super) fn code(&mut self, json: &Json<'_>, choice: u32, signature: Option<&str>) -> Option<String> {
        let code: ToolPart<'_> = json.read()?;
        let id = self.open(code.id.as_deref(), choice);
        let members = [("code", code.code), ("language", code.language)];
        let members = members.into_iter().filter_map(|(name, json)| Some((name, json?)));
        let input = Json::object(&members.collect::<Vec<_>>());
        Some(write(&ServerToolUse { kind: "server_tool_use", id: &id, name: CODE, input, signature }))
    }

    pub(super) fn code_result(&mut self, json: &Json<'_>, signature: Option<&str>) -> Option<String> {
        let result: ToolPart<'_> = json.read()?;
        let is_good = result.outcome.as_deref() == Some("OUTCOME_OK");
        let output = result.output.as_deref().unwrap_or_default();
        let (stdout, stderr) = if is_good { (output, "") } else { ("", output) };
        let content = Json::object(&[
            ("type", Json::from_value("code_execution_result")),
            ("stdout", Json::from_value(stdout)),
            ("stderr", Json::from_value(stderr)),
            ("return_code", Json::from_value(&i32::from(!is_good))),
            ("content", Json::from_value(&[(); 0])),
        ]);
        let id = result.id.as_deref().unwrap_or(&self.last);
        Some(write(&ServerToolResult {
            kind: format!("{CODE}_tool_result"),
            tool_use_id: id,
            content,
            signature,
        }))
    }

    pub(super) fn tool(&mut self, json: &Json<'_>, choice: u32, signature: Option<&str>) -> Option<String> {
        let call: ToolPart<'_> = json.read()?;
        let id = self.open(call.id.as_deref(), choice);
        let name = call.tool_type.as_deref().unwrap_or("tool").to_ascii_lowercase();
        let input = call.args.unwrap_or_else(Json::empty_object);
        Some(write(&ServerToolUse { kind: "server_tool_use", id: &id, name: &name, input, signature }))
    }

    pub(super) fn tool_result(&mut self, json: &Json<'_>, signature: Option<&str>) -> Option<String> {
        let result: ToolPart<'_> = json.read()?;
        let name = result.tool_type.as_deref().unwrap_or("tool").to_ascii_lowercase();
        let content = result.response.unwrap_or_else(Json::empty_object);
        let id = result.id.as_deref().unwrap_or(&self.last);
        Some(write(&ServerToolResult {
            kind: format!("{name}_tool_result"),
            tool_use_id: id,
            content,
            signature,
        }))
    }

    fn open(&mut self, id: Option<&str>, choice: u32) -> String {
        self.last = match id.filter(|id| !id.is_empty()) {
            Some(id) => id.to_owned(),
            None => {
                self.generated += 1;
                format!("srvtoolu_{choice}_{}", self.generated)
            }
        };
        self.last.clone()
    }
}

fn write<T: Serialize>(block: &T) -> String {
    serde_json::to_string(block).unwrap_or_default()
}

/// The original part of a block; `None` for another provider's block.
pub(super) fn part<'a>(kind: &str, json: &Json<'a>) -> Option<PartOut<'a>> {
    let BlockPart { kind, json, signature } = blocks::part(kind, json.source()?)?;
    let name = match kind {
        BlockKind::ExecutableCode => "executableCode",
        BlockKind::CodeExecutionResult => "codeExecutionResult",
        BlockKind::ToolCall => "toolCall",
        BlockKind::ToolResponse => "toolResponse",
        // A file that the model made is no part of a request.
        BlockKind::FileData => return None,
    };
    let data = Data::ServerTool(name, json);
    Some(PartOut { data, thought_signature: signature, ..PartOut::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_read_back_as_the_parts_they_were() {
        let mut blocks = Blocks::default();
        let read = |block: Option<String>| {
            let block = block.unwrap();
            let kind: serde_json::Value = serde_json::from_str(&block).unwrap();
            let part = part(kind["type"].as_str().unwrap(), &Json::parse(&block).unwrap()).unwrap();
            serde_json::to_string(&part).unwrap()
        };
        let code = r#"{"id":"c1","language":"PYTHON","code":"print(\"1\")"}"#;
        let block = blocks.code(&Json::parse(code).unwrap(), 0, Some("seal"));
        assert_eq!(read(block), format!(r#"{{"executableCode":{code},"thoughtSignature":"seal"}}"#));
        let result = r#"{"id":"c1","outcome":"OUTCOME_OK","output":"1\n"}"#;
        let block = blocks.code_result(&Json::parse(result).unwrap(), None);
        assert_eq!(read(block), format!(r#"{{"codeExecutionResult":{result}}}"#));
        let failed = r#"{"outcome":"OUTCOME_FAILED","output":"no"}"#;
        // The result has no id and gets that of the call.
        let block = blocks.code_result(&Json::parse(failed).unwrap(), None);
        assert!(read(block).contains(r#""id":"c1","outcome":"OUTCOME_FAILED","output":"no""#));
        let call = r#"{"id":"t1","toolType":"FILE_SEARCH","args":{"q":1.0}}"#;
        let block = blocks.tool(&Json::parse(call).unwrap(), 0, Some("s"));
        assert_eq!(read(block), format!(r#"{{"toolCall":{call},"thoughtSignature":"s"}}"#));
        let response = r#"{"id":"t1","toolType":"FILE_SEARCH"}"#;
        let block = blocks.tool_result(&Json::parse(response).unwrap(), None);
        assert_eq!(read(block), format!(r#"{{"toolResponse":{response}}}"#));
    }

    #[test]
    fn blocks_of_other_providers_are_not_ours() {
        for (kind, json) in [
            ("server_tool_use", r#"{"id":"srvtoolu_1","name":"web_search","input":{}}"#),
            ("web_search_tool_result", r#"{"tool_use_id":"srvtoolu_1","content":[]}"#),
            ("document", "{}"),
            ("server_tool_use", "[]"),
        ] {
            assert!(part(kind, &Json::parse(json).unwrap()).is_none(), "{kind}");
        }
    }
}
