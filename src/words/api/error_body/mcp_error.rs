//! An error as a response of JSON-RPC. Its `id` is null: whoever has the request puts the request's in.

use super::ErrorView;
use crate::api::mcp::envelope::{
    INTERNAL_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, REFUSED, error, response,
};
use crate::json::write::ObjectWriter;

pub(super) fn body(view: &ErrorView<'_>) -> Vec<u8> {
    let code = match view.status {
        400 => INVALID_REQUEST,
        404 | 405 => METHOD_NOT_FOUND,
        500.. => INTERNAL_ERROR,
        _ => REFUSED,
    };
    let mut data = Vec::new();
    let mut object = ObjectWriter::open(&mut data);
    object.text("type", view.openai_type);
    object.optional_text("code", view.code);
    object.optional_text("param", view.param);
    object.close();
    let data = String::from_utf8(data).ok();
    response("null", &error(code, view.message, data.as_deref()))
}
