//! A search that another provider made, as Anthropic's blocks: the call and its result.
//!
//! `encrypted_content` is Anthropic's own proof of a result. Other providers have none, and Anthropic would refuse the empty one when the
//! blocks come back in the next turn: their ids are marked, so that they can be left out there.

use crate::api::chat::searches::Searches;
use crate::json::Json;

/// How ids of searches of other providers begin.
const MARK: &str = "srvtoolu_other_";

/// Whether an id of a call, or of the call of a result, is that of another provider's search.
pub fn is_foreign_search(id: &str) -> bool {
    id.starts_with(MARK)
}

/// The blocks of all searches of a message together: which query found what is not known.
pub(super) fn write(searches: &Searches, message: &str) -> [String; 2] {
    let id = [MARK, message].concat();
    let call = Json::object(&[
        ("type", Json::from_value("server_tool_use")),
        ("id", Json::from_value(&id)),
        ("name", Json::from_value("web_search")),
        ("input", Json::object(&[("query", Json::from_value(&searches.queries.join("; ")))])),
    ]);
    let pages = searches.pages.iter().map(|page| {
        Json::object(&[
            ("type", Json::from_value("web_search_result")),
            ("url", Json::from_value(&page.url)),
            ("title", Json::from_value(page.title.as_ref().unwrap_or(&page.url))),
            ("encrypted_content", Json::from_value("")),
            ("page_age", Json::null()),
        ])
    });
    let result = Json::object(&[
        ("type", Json::from_value("web_search_tool_result")),
        ("tool_use_id", Json::from_value(&id)),
        ("content", Json::from_value(&pages.collect::<Vec<_>>())),
    ]);
    [call.get().to_owned(), result.get().to_owned()]
}
