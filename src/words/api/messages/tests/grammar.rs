//! Anthropic's event grammar: reads a stream as a strict client would, and assembles the message.

use super::SseParser;
use serde_json::{Value, json};

/// The message of a stream, or the first violation of the grammar. Inputs stay strings: `{"partial": ".."}`.
pub(crate) fn read(stream: &[u8]) -> Result<Value, String> {
    let mut client = Client::default();
    let mut parser = SseParser::default();
    for run in [parser.push(stream), parser.finish()] {
        for event in run.events() {
            if let Some(data) = &event.data {
                client.take(event.name, data)?;
            }
        }
    }
    match (client.stopped, client.message) {
        (true, Some(message)) => Ok(message),
        _ => Err("no message_stop".to_owned()),
    }
}

#[derive(Default)]
struct Client {
    message: Option<Value>,
    /// The index of the open block.
    open: Option<usize>,
    signed: bool,
    ended: bool,
    stopped: bool,
}

impl Client {
    fn take(&mut self, name: Option<&str>, data: &[u8]) -> Result<(), String> {
        let event: Value = serde_json::from_slice(data).map_err(|error| error.to_string())?;
        let kind = event["type"].as_str().ok_or("no type")?;
        if name != Some(kind) {
            return Err(format!("{name:?} holds a {kind}"));
        }
        if self.stopped {
            return Err(format!("{kind} after message_stop"));
        }
        if self.message.is_none() != (kind == "message_start") {
            return Err(format!("{kind}: no message, or a second one"));
        }
        if self.ended && kind != "message_stop" {
            return Err(format!("{kind} after message_delta"));
        }
        match kind {
            "message_start" => {
                let message = event["message"].clone();
                if message["content"] != json!([]) || !message["stop_reason"].is_null() {
                    return Err(format!("a message that is not empty: {message}"));
                }
                self.message = Some(message);
                Ok(())
            }
            "message_stop" if self.ended => {
                self.stopped = true;
                Ok(())
            }
            "message_delta" if self.open.is_none() => self.delta(&event),
            "content_block_start" if self.open.is_none() => self.start(&event),
            "content_block_delta" => self.block_delta(&event),
            "content_block_stop" if self.open.is_some() && self.at(&event)? == self.open => {
                self.open = None;
                Ok(())
            }
            _ => Err(format!("{kind} out of place")),
        }
    }

    fn at(&self, event: &Value) -> Result<Option<usize>, String> {
        Ok(Some(event["index"].as_u64().ok_or("no index")? as usize))
    }

    fn content(&mut self) -> &mut Vec<Value> {
        self.message.as_mut().unwrap()["content"].as_array_mut().unwrap()
    }

    fn start(&mut self, event: &Value) -> Result<(), String> {
        let index = self.content().len();
        if self.at(event)? != Some(index) {
            return Err(format!("block {} where {index} is next", event["index"]));
        }
        let block = event["content_block"].clone();
        let fresh = match block["type"].as_str().ok_or("no type of block")? {
            "text" => block == json!({"type": "text", "text": ""}),
            "thinking" => block == json!({"type": "thinking", "thinking": "", "signature": ""}),
            "tool_use" | "server_tool_use" => block["input"] == json!({}),
            _ => true,
        };
        if !fresh {
            return Err(format!("a block that is not empty: {block}"));
        }
        self.content().push(block);
        self.open = Some(index);
        self.signed = false;
        Ok(())
    }

    fn block_delta(&mut self, event: &Value) -> Result<(), String> {
        if self.open.is_none() || self.at(event)? != self.open {
            return Err("a delta of a block that is not open".to_owned());
        }
        if self.signed {
            return Err("a delta after the signature".to_owned());
        }
        let delta = event["delta"].clone();
        let block = self.content().last_mut().unwrap();
        let kind = block["type"].as_str().unwrap_or_default().to_owned();
        let text = |name: &str| delta[name].as_str().map(str::to_owned).ok_or(format!("no {name}"));
        match (kind.as_str(), delta["type"].as_str().unwrap_or_default()) {
            ("text", "text_delta") => join(&mut block["text"], &text("text")?),
            ("text", "citations_delta") => match block["citations"].as_array_mut() {
                Some(list) => list.push(delta["citation"].clone()),
                None => block["citations"] = json!([delta["citation"]]),
            },
            ("thinking", "thinking_delta") => join(&mut block["thinking"], &text("thinking")?),
            ("thinking", "signature_delta") => {
                block["signature"] = json!(text("signature")?);
                self.signed = true;
            }
            ("tool_use" | "server_tool_use", "input_json_delta") => {
                let before = block["input"]["partial"].as_str().unwrap_or_default();
                block["input"] = json!({"partial": format!("{before}{}", text("partial_json")?)});
            }
            (block, delta) => return Err(format!("{delta} in a {block}")),
        }
        Ok(())
    }

    fn delta(&mut self, event: &Value) -> Result<(), String> {
        self.ended = true;
        let message = self.message.as_mut().unwrap();
        for (name, value) in event["delta"].as_object().ok_or("no delta")? {
            message[name] = value.clone();
        }
        for (name, value) in event["usage"].as_object().ok_or("no usage")? {
            message["usage"][name] = value.clone();
        }
        for (name, value) in event.as_object().unwrap() {
            if !matches!(name.as_str(), "type" | "delta" | "usage") {
                message[name] = value.clone();
            }
        }
        if message["stop_reason"].is_string() { Ok(()) } else { Err("no stop_reason".to_owned()) }
    }
}

fn join(text: &mut Value, more: &str) {
    *text = json!(format!("{}{more}", text.as_str().unwrap_or_default()));
}
