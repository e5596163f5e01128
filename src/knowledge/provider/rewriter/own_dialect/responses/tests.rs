//! What is kept of a stream of the Responses API.

use super::*;
use words::api::chat::{FilterFlow, TextFilter};

#[derive(Debug)]
struct ReadsCalls;

impl TextFilter for ReadsCalls {
    fn text(&mut self, _: u32, text: &str, out: &mut String) -> FilterFlow {
        out.push_str(text);
        FilterFlow::Continue
    }

    fn finish(&mut self, _: u32, _: &mut String) -> FilterFlow {
        FilterFlow::Continue
    }

    fn held(&self, _: u32) -> usize {
        0
    }

    fn follow(&mut self, _: u32, _: u32) {}

    fn reads_calls(&self) -> bool {
        true
    }
}

#[test]
fn the_names_of_calls_whose_pieces_are_left_out_are_counted() {
    let mut filters = TextFilters::default();
    filters.add(Box::new(ReadsCalls));
    let mut response = ResponseText::default();
    let mut push = |response: &mut ResponseText, id: &str| {
        let text =
            format!(r#"{{"type":"response.function_call_arguments.delta","item_id":"{id}","delta":"{{"}}"#);
        response.event(&text, &Object::read(&text).unwrap(), &mut filters).is_ok()
    };
    assert!(push(&mut response, "a"));
    let kept = response.kept;
    assert!(kept > 0 && push(&mut response, "a") && response.kept == kept);
    response.kept = MAX_KEPT;
    assert!(push(&mut response, "a") && !push(&mut response, "b"));
}
