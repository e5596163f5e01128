//! What the result of a PII check says of the places that were found. Not here: the places themselves (`scan`).

use serde_json::{Map, Value, json};

/// How many places there are of each category.
pub(super) fn counts<'a>(categories: impl Iterator<Item = &'a str>) -> Value {
    let mut counts: Map<String, Value> = Map::new();
    for category in categories {
        let count = counts.get(category).and_then(Value::as_u64).unwrap_or_default();
        counts.insert(category.to_owned(), json!(count + 1));
    }
    Value::Object(counts)
}

/// What was found or replaced, in one sentence.
pub(super) fn explanation(count: usize, redacts: bool) -> String {
    match (count, redacts) {
        (0, _) => "No personal data and no secrets were found.".to_owned(),
        (count, false) => format!("Personal data or secrets were found in {count} places."),
        (count, true) => format!("Personal data or secrets were replaced in {count} places."),
    }
}
