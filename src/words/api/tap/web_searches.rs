//! How often a provider searched the web for a response of the Responses API, which bills searches by the piece and does not
//! report them in `usage`.
//!
//! Newer responses count them (`tool_usage`); in others they are the calls of the search tool in the output. Pages that were
//! opened, and searches within them, are not billed. Other APIs report searches in `usage` (`api::usage`).

use crate::json::walk;
use memchr::memmem;

/// The searches of one response.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WebSearches {
    /// As the response counts them.
    counted: Option<u64>,
    /// Calls in the output.
    calls: u64,
}

impl WebSearches {
    pub fn count(self) -> u64 {
        self.counted.unwrap_or(self.calls)
    }

    /// Takes a response's `tool_usage`.
    pub(super) fn take_tool_usage(&mut self, json: &[u8]) {
        let requests = member(json, b"web_search").and_then(|search| member(search, b"num_requests"));
        let count = requests.and_then(|count| std::str::from_utf8(count).ok()?.parse().ok());
        self.counted = count.or(self.counted);
    }

    /// Takes the whole `output` of a response.
    pub(super) fn take_output(&mut self, json: &[u8]) {
        if memmem::find(json, CALL).is_none() {
            return;
        }
        let searches = walk::items(json).into_iter().flatten().filter(|item| is_search(item)).count();
        self.calls = self.calls.max(searches as u64);
    }

    /// Takes the event of one finished item of the output.
    pub(super) fn take_item_event(&mut self, event: &[u8]) {
        if memmem::find(event, CALL).is_some() && member(event, b"item").is_some_and(is_search) {
            self.calls = self.calls.saturating_add(1);
        }
    }
}

/// The type of such an item.
const CALL: &[u8] = b"\"web_search_call\"";

/// Whether an item of the output is a search that is billed.
fn is_search(item: &[u8]) -> bool {
    if member(item, b"type") != Some(CALL) {
        return false;
    }
    let action = member(item, b"action").and_then(|action| member(action, b"type"));
    // Older responses do not say what was done: there were only searches.
    action.is_none_or(|action| action == b"\"search\"")
}

fn member<'a>(object: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    walk::members(object)?.find(|(found, _)| *found == name).map(|(_, value)| value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn searches_are_counted_and_opened_pages_are_not() {
        let call = |action: &str| format!(r#"{{"id":"ws","type":"web_search_call"{action}}}"#);
        let search = call(r#","action":{"query":"\"web_search_call\"","type":"search"}"#);
        let page = call(r#","action":{"type":"open_page"}"#);
        let old = call("");
        let text = r#"{"type":"message","content":[{"text":"a \"web_search_call\""}]}"#;
        let cases = [
            (format!("[{text}]"), 0),
            (format!("[{search}, {page},{old},{text}]"), 2),
            ("[\"web_search_call\"]".to_owned(), 0),
            ("\"web_search_call\"".to_owned(), 0),
            (format!("[{search}"), 1),
        ];
        for (output, wanted) in cases {
            let mut searches = WebSearches::default();
            searches.take_output(output.as_bytes());
            assert_eq!(searches.count(), wanted, "{output}");
        }
        let mut searches = WebSearches::default();
        for item in [&search, &page, &old, &text.to_owned()] {
            searches.take_item_event(format!(r#"{{"type":"t","item":{item}}}"#).as_bytes());
        }
        assert_eq!(searches.count(), 2);
        // The last event has them all again.
        searches.take_output(format!("[{search},{old}]").as_bytes());
        assert_eq!(searches.count(), 2);
        searches.take_tool_usage(br#"{"image_gen":{},"web_search":{"num_requests":7}}"#);
        searches.take_tool_usage(b"null");
        assert_eq!(searches.count(), 7);
    }
}
