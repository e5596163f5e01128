//! Decodes a whole Converse response into events.

use super::super::SERVER_RESULT;
use super::citations::Citations;
use super::finish_reason;
use super::shapes::{
    Block, Media, ResponseExtras, ServerCall, ServerResult, ToolResult, ToolUse, emit_block,
};
use serde::Deserialize;
use words::api::chat::{Event, EventSink, ProviderError, Start};
use words::api::usage::VendorUsage;
use words::json::{Json, JsonStr};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Body<'a> {
    #[serde(borrow)]
    output: Option<Output<'a>>,
    stop_reason: Option<JsonStr<'a>>,
    usage: Option<VendorUsage<'a>>,
}

#[derive(Deserialize)]
struct Output<'a> {
    #[serde(borrow)]
    message: Option<Message<'a>>,
}

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow)]
    content: Option<Vec<Json<'a>>>,
}

/// Decodes a whole response.
///
/// # Errors
/// The error the body holds instead of a message, or that it cannot be read.
pub fn emit(bytes: &[u8], sink: EventSink<'_>) -> Result<(), ProviderError> {
    let text = std::str::from_utf8(bytes).map_err(|_| ProviderError::unreadable("it is not UTF-8"))?;
    let not_json = |_| ProviderError::unreadable("it is not the JSON that Converse answers with");
    let body: Body<'_> = serde_json::from_str(text).map_err(not_json)?;
    let extras: ResponseExtras<'_> = serde_json::from_str(text).map_err(not_json)?;
    let Some(message) = body.output.and_then(|output| output.message) else {
        return Err(ProviderError::read(502, bytes));
    };
    let Some(reason) = body.stop_reason else {
        return Err(ProviderError::unreadable("it has no stopReason"));
    };
    let finish = finish_reason(&reason)?;

    sink(Event::Start(Start::default()));
    let mut emitter = EventEmitter { calls: 0, citations: Citations::default(), sink };
    for json in message.content.unwrap_or_default() {
        emitter.block(&json)?;
    }
    let EventEmitter { mut citations, sink, .. } = emitter;
    citations.finish(sink);
    extras.emit(sink);
    if let Some(usage) = body.usage {
        sink(Event::Usage(usage.usage().unwrap_or_default()));
    }
    sink(Event::Finish { choice: 0, reason: finish, native: &reason });
    sink(Event::End);
    Ok(())
}

struct EventEmitter<'t> {
    calls: u32,
    citations: Citations,
    sink: EventSink<'t>,
}

impl EventEmitter<'_> {
    fn block(&mut self, json: &Json<'_>) -> Result<(), ProviderError> {
        let block: Block<'_> =
            json.read().ok_or_else(|| ProviderError::unreadable("a content block is malformed"))?;
        self.citations.begin();
        if let Some(text) = &block.text {
            self.text(text);
        } else if let Some(call) = &block.tool_use {
            self.call(call)?;
        } else if let Some(thinking) = &block.reasoning_content {
            thinking.emit(self.sink);
        } else if let Some(result) = &block.tool_result {
            self.result(result)?;
        } else if let Some(cited) = &block.citations_content {
            for text in cited.content.iter().flatten().filter_map(|content| content.text.as_deref()) {
                self.text(text);
            }
            for citation in cited.citations.iter().flatten() {
                self.citations.take(citation, self.sink);
            }
        } else if let Some(image) = &block.image {
            self.media("image", image);
        } else if let Some(audio) = &block.audio {
            self.media("audio", audio);
        } else {
            self.unknown(json);
        }
        Ok(())
    }

    fn text(&mut self, text: &str) {
        self.citations.count(text);
        if !text.is_empty() {
            (self.sink)(Event::Text { choice: 0, text });
        }
    }

    fn call(&mut self, call: &ToolUse<'_>) -> Result<(), ProviderError> {
        let name =
            call.name.as_deref().ok_or_else(|| ProviderError::unreadable("a tool call has no name"))?;
        let id = call.tool_use_id.as_deref().unwrap_or_default();
        let empty = Json::from_value(&serde_json::Map::new());
        let input = call.input.as_ref().filter(|input| !input.is_null()).unwrap_or(&empty);
        if call.is_server_tool() {
            emit_block(&ServerCall::new(id, name, input), self.sink);
            return Ok(());
        }
        let index = self.calls;
        self.calls += 1;
        (self.sink)(Event::ToolCall { choice: 0, index, id, name, signature: None });
        (self.sink)(Event::Arguments { choice: 0, index, fragment: input.get() });
        Ok(())
    }

    fn result(&mut self, json: &Json<'_>) -> Result<(), ProviderError> {
        let result: ToolResult<'_> =
            json.read().ok_or_else(|| ProviderError::unreadable("a tool result is malformed"))?;
        let empty = Json::from_value::<[u8; 0]>(&[]);
        let block = ServerResult {
            kind: result.kind.as_deref().unwrap_or(SERVER_RESULT),
            tool_use_id: result.tool_use_id.as_deref().unwrap_or_default(),
            content: result.content.as_ref().unwrap_or(&empty),
            status: result.status.as_deref(),
        };
        emit_block(&block, self.sink);
        Ok(())
    }

    fn media(&mut self, kind: &str, media: &Media<'_>) {
        let format = media.format.as_deref().unwrap_or(if kind == "image" { "png" } else { "wav" });
        let media_type = format!("{kind}/{format}");
        if !media.bytes().is_empty() {
            (self.sink)(Event::Media { choice: 0, media_type: &media_type, data: media.bytes() });
        }
    }

    /// A block of an unknown kind: clients that read `content_blocks` get it under its own name.
    fn unknown(&mut self, json: &Json<'_>) {
        let Some((kind, value)) = Json::members(json.get()).and_then(|members| members.into_iter().next())
        else {
            return;
        };
        let block = format!(
            "{{\"type\":{},{}:{}}}",
            Json::from_value(&kind).get(),
            Json::from_value(&kind).get(),
            value.get()
        );
        (self.sink)(Event::Block { choice: 0, json: &block });
    }
}
