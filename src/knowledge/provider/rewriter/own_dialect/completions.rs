//! The texts of a legacy completion: one for each choice. A chunk of a stream has the shape of a whole response.

use super::{Refusal, TextFilters, objects, quoted};
use words::json::splice::{Object, Splice};

/// Filters the texts of a chunk, or of a whole response; `None` if it stays as it is.
pub(super) fn filter(
    text: &str,
    response: &Object<'_>,
    whole: bool,
    filters: &mut TextFilters,
) -> Result<Option<Vec<u8>>, Refusal> {
    let mut splice = Splice::new(text);
    for (place, choice) in objects(response, "choices")? {
        let index = choice.get("index").and_then(|index| index.read()).unwrap_or(place);
        let raw = choice.string("text").unwrap_or_default();
        let mut passed = String::new();
        filters.pass_text(index, &raw, &mut passed)?;
        // What was held back is sent with the last text.
        if whole || choice.get("finish_reason").is_some_and(|reason| !reason.is_null()) {
            filters.pass_rest(index, &mut passed)?;
        }
        if passed != raw {
            if choice.has("text") {
                splice.replace(&choice, "text", quoted(&passed));
            } else {
                splice.append(&choice, "text", &quoted(&passed));
            }
        }
        if filters.has_changed(index) {
            splice.replace(&choice, "logprobs", "null");
        }
    }
    Ok(splice.finish())
}
