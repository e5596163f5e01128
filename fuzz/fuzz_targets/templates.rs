//! Templates of prompts: any text is compiled or refused, and what is rendered of it is JSON. An input that takes much longer than its
//! length allows is a find too (`-timeout`).
#![no_main]

use knowledge::prompt::{Partial, PromptSet, Template};
use libfuzzer_sys::fuzz_target;
use serde_json::{Value, json};

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let variables = json!({"a": "x{{b}}", "b": [1, {"c": "y"}], "c": true, "d": null});
    // As it is, and so often that what is not linear takes long.
    for text in [text.to_owned(), text.repeat((1 << 19) / text.len().max(1))] {
        let _ = Partial::compile(&text);
        for is_raw in [false, true] {
            if let Ok(template) = Template::compile(&text, is_raw)
                && let Ok(rendered) = template.render(&variables, &PromptSet::default())
            {
                assert!(serde_json::from_str::<Value>(&rendered).is_ok(), "{rendered}");
            }
        }
    }
});
