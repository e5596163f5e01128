//! Content of Google's own tools that is kept as a block in Anthropic's shape, as the part that it was.
//!
//! Example: `{"type":"server_tool_use","id":"c1","name":"code_execution","input":{"code":"..","language":"PYTHON"}}` was
//! `{"executableCode":{"id":"c1","language":"PYTHON","code":".."}}`. The way there is in `provider::gemini`.

use crate::json::{Json, JsonStr};
use serde::Deserialize;
use std::borrow::Cow;

/// The block's name of code execution.
pub const CODE: &str = "code_execution";

/// A block of Google's as a member of a part.
#[derive(Debug)]
pub struct BlockPart<'a> {
    pub kind: BlockKind,
    pub json: Json<'a>,
    pub signature: Option<Cow<'a, str>>,
}

/// Which member of a part it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlockKind {
    ExecutableCode,
    CodeExecutionResult,
    ToolCall,
    ToolResponse,
    FileData,
}

#[derive(Deserialize)]
struct BlockIn<'a> {
    #[serde(borrow)]
    id: Option<JsonStr<'a>>,
    tool_use_id: Option<JsonStr<'a>>,
    name: Option<JsonStr<'a>>,
    input: Option<Json<'a>>,
    content: Option<Json<'a>>,
    file_data: Option<Json<'a>>,
    signature: Option<JsonStr<'a>>,
}

#[derive(Deserialize)]
struct CodeIn<'a> {
    #[serde(borrow)]
    language: Option<Json<'a>>,
    code: Option<Json<'a>>,
}

#[derive(Deserialize)]
struct CodeContent<'a> {
    #[serde(borrow)]
    stdout: Option<Json<'a>>,
    stderr: Option<Json<'a>>,
    return_code: Option<i64>,
}

/// Google's own tools, as blocks name them.
const TOOLS: [&str; 8] = [
    "google_search_web",
    "google_search_image",
    "google_search",
    "url_context",
    "google_maps",
    "file_search",
    "retrieval",
    "computer_use",
];

/// The original part of a block; `None` for another provider's block.
pub fn part<'a>(kind: &str, json: &'a str) -> Option<BlockPart<'a>> {
    let block: BlockIn<'a> = serde_json::from_str(json).ok()?;
    // A generated id is unknown to the model.
    let id = block.id.or(block.tool_use_id).map(|id| id.0).filter(|id| !id.starts_with("srvtoolu_"));
    let id = ("id", id.map(|id| Json::from_value(id.as_ref())));
    let (member, json) = match kind {
        "server_tool_use" if block.name.as_deref() == Some(CODE) => {
            let input = block.input.as_ref()?;
            let input: CodeIn<'_> = input.read()?;
            let language = input.language.unwrap_or_else(|| Json::from_value("PYTHON"));
            (BlockKind::ExecutableCode, members([id, ("language", Some(language)), ("code", input.code)]))
        }
        "server_tool_use" => {
            let tool = Json::from_value(&tool_type(block.name?.as_ref())?);
            let args = block.input.filter(|input| input.get() != "{}");
            (BlockKind::ToolCall, members([id, ("toolType", Some(tool)), ("args", args)]))
        }
        "code_execution_tool_result" => {
            let content = block.content.as_ref()?;
            let content: CodeContent<'_> = content.read()?;
            let is_good = content.return_code.unwrap_or_default() == 0;
            let output = if is_good { content.stdout } else { content.stderr };
            let outcome = if is_good { "OUTCOME_OK" } else { "OUTCOME_FAILED" };
            let outcome = ("outcome", Some(Json::from_value(outcome)));
            (BlockKind::CodeExecutionResult, members([id, outcome, ("output", output)]))
        }
        "file_data" => (BlockKind::FileData, block.file_data?),
        _ => {
            let tool = Json::from_value(&tool_type(kind.strip_suffix("_tool_result")?)?);
            let response = block.content.filter(|content| content.get() != "{}");
            (BlockKind::ToolResponse, members([id, ("toolType", Some(tool)), ("response", response)]))
        }
    };
    Some(BlockPart { kind: member, json, signature: block.signature.map(|text| text.0) })
}

fn tool_type(name: &str) -> Option<String> {
    TOOLS.contains(&name).then(|| name.to_ascii_uppercase())
}

fn members<const N: usize>(members: [(&str, Option<Json<'_>>); N]) -> Json<'static> {
    let present = members.into_iter().filter_map(|(name, json)| Some((name, json?)));
    Json::object(&present.collect::<Vec<_>>())
}
