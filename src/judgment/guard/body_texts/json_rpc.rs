//! Messages of the Model Context Protocol: the arguments of a call, and what a tool, a resource or a prompt has in its result.
//!
//! The gateway has made the message itself (`api::mcp::envelope`): its members are there once.

use super::super::judged::Part;
use super::Reader;
use words::json::splice::Object;

/// Members of a result that a model does not read as text.
const NO_TEXT: [&str; 10] =
    ["type", "data", "blob", "mimeType", "uri", "_meta", "annotations", "icons", "size", "resultType"];

impl<'t> Reader<'t> {
    pub(super) fn json_rpc(&mut self, body: &Object<'t>) {
        if let Some(params) = body.inner("params") {
            self.in_part(Part::Arguments, |reader| {
                for name in ["arguments", "argument", "inputResponses"] {
                    params.every(name).for_each(|value| reader.arguments(value, true));
                }
            });
        }
        self.in_part(Part::Answer, |reader| {
            for value in ["result", "error"].into_iter().flat_map(|name| body.every(name)) {
                reader.texts_but(value, &NO_TEXT, true);
            }
        });
    }
}
