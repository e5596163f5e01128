//! Messages of the Model Context Protocol: the arguments of a call, and what a tool, a resource or a prompt has in its result.
//!
//! The gateway has made the message itself (`api::mcp::envelope`): its members are there once.

use super::super::judged::Part;
use super::{Reader, items, object};
use words::json::Json;
use words::json::splice::Object;

/// Members of a block of a content that a model does not read as text. `data` and `blob` are the bytes of what `mimeType` says.
const OF_NO_BLOCK: [&str; 7] = ["type", "data", "blob", "mimeType", "annotations", "icons", "size"];
/// The members of a result that have such blocks, alone or in messages.
const BLOCKS: [&str; 3] = ["content", "contents", "messages"];

impl<'t> Reader<'t> {
    pub(super) fn json_rpc(&mut self, body: &Object<'t>) {
        if let Some(params) = body.inner("params") {
            self.in_part(Part::Arguments, |reader| {
                for (name, value) in params.members().filter(|(name, _)| *name != "name") {
                    match name {
                        "arguments" | "argument" | "inputResponses" => reader.arguments(value, true),
                        _ => reader.unlisted(name, value, true),
                    }
                }
            });
        }
        self.in_part(Part::Answer, |reader| {
            body.every("error").for_each(|error| reader.all_texts(error, true));
            for result in body.every("result").filter_map(object) {
                for (name, value) in result.members().filter(|(name, _)| *name != "resultType") {
                    match name {
                        _ if BLOCKS.contains(&name) => reader.blocks_of_result(value),
                        "_meta" => reader.unlisted(name, value, true),
                        // Free JSON, whatever its members are called.
                        _ => reader.arguments(value, true),
                    }
                }
            }
        });
    }

    /// Blocks of a content, contents of a resource, or messages of a prompt.
    fn blocks_of_result(&mut self, blocks: &Json<'t>) {
        self.text(blocks, true);
        if !self.enter(true) {
            return;
        }
        for block in items(blocks) {
            let Some(block) = object(&block) else {
                self.all_texts(&block, true);
                continue;
            };
            for (name, value) in block.members().filter(|(name, _)| !OF_NO_BLOCK.contains(name)) {
                match name {
                    "role" => {}
                    "content" | "resource" => self.blocks_of_result(value),
                    "text" | "name" | "title" | "description" | "uri" => self.text(value, true),
                    _ => self.unlisted(name, value, true),
                }
            }
        }
        self.depth -= 1;
    }
}
