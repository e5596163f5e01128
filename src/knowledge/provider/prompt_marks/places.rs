//! Where the marks of a body stand, as paths for people: `messages[4].content[0]`.
//!
//! For explanations. Not for requests: the whole body is read.

use super::{CACHE_CONTROL, CACHE_POINT, OF_TOOLS};
use serde_json::Value;

/// More paths are not listed; providers take four marks.
const MAX_PLACES: usize = 16;

/// The places of all marks of a body as it is sent, the client's own too.
pub fn places(body: &[u8]) -> Vec<String> {
    let mut places = Vec::new();
    if let Ok(body) = serde_json::from_slice::<Value>(body) {
        collect(&body, "", &mut places);
    }
    // The order of a prompt.
    places.sort_by_key(|place| place.starts_with("messages"));
    places
}

fn collect(value: &Value, at: &str, places: &mut Vec<String>) {
    match value {
        _ if places.len() == MAX_PLACES => {}
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                collect(item, &format!("{at}[{index}]"), places);
            }
        }
        Value::Object(members) => {
            let is_marked = [CACHE_CONTROL, CACHE_POINT]
                .iter()
                .any(|name| members.get(*name).is_some_and(|mark| !mark.is_null()));
            places.extend(is_marked.then(|| at.to_owned()));
            let inner = members.iter().filter(|(name, _)| !OF_TOOLS.contains(&name.as_bytes()));
            for (name, member) in inner {
                let dot = if at.is_empty() { "" } else { "." };
                collect(member, &format!("{at}{dot}{name}"), places);
            }
        }
        _ => {}
    }
}
