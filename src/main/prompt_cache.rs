//! `turnpike explain --cache EARLIER LATER`: where the prompts of two logged requests part, from a running gateway.
//!
//! For people: programs take `--json`. What is shown is `control::logs`'.

use super::object_api::ObjectApi;
use super::object_line::Connection;
use super::{logging, output};
use serde_json::Value;
use std::fmt::Write as _;
use std::process::ExitCode;

/// Prints the comparison of the two requests with these ids or trace ids.
pub fn run(ids: &[String], json: bool, connection: &Connection) -> ExitCode {
    let [earlier, later] = ids else { return logging::fatal("--cache takes two ids or trace ids") };
    let found = ObjectApi::new(connection).and_then(|api| {
        let query = [("after".to_owned(), earlier.clone())];
        let later = percent_encoding::utf8_percent_encode(later, percent_encoding::NON_ALPHANUMERIC);
        api.call("GET", &format!("/v1/logs/{later}/prompt-cache"), &query, None)
    });
    match found {
        Err(why) => logging::fatal(&why),
        Ok(comparison) if json => output::print_json(&comparison),
        Ok(comparison) => output::print(lines(&comparison).as_bytes()),
    }
}

fn lines(comparison: &Value) -> String {
    let number = |name: &str| comparison[name].as_f64().unwrap_or_default();
    let causes: Vec<&str> =
        comparison["causes"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let mut out = String::new();
    // Writing into a String cannot fail.
    let _ =
        writeln!(out, "causes  {}", if causes.is_empty() { "none".to_owned() } else { causes.join(", ") });
    let _ = writeln!(
        out,
        "common  {} of {} bytes, about {} tokens; cached from {} tokens on",
        number("common_bytes"),
        number("earlier_bytes"),
        number("common_units"),
        number("minimum_units")
    );
    let stays = comparison["time_to_live"]
        .as_f64()
        .map_or("as long as there is room".to_owned(), |time| format!("{time} s"));
    let _ = writeln!(out, "time    {} s between them; it stays {stays}", number("seconds_between"));
    let _ =
        writeln!(out, "cached  {} of {} input tokens", comparison["cached_units"], comparison["req_units"]);
    let place = &comparison["parted_at"];
    if place.is_object() {
        let _ = writeln!(
            out,
            "parted  at {}, byte {}",
            place["path"].as_str().unwrap_or_default(),
            place["byte"]
        );
        let _ = writeln!(out, "before  {}", place["before"]);
        let _ = writeln!(out, "now     {}", place["now"]);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_comparison_is_a_few_lines() {
        let comparison = json!({"causes": ["changed", "time"], "common_bytes": 10, "earlier_bytes": 20, "common_units": 3,
            "minimum_units": 1024, "time_to_live": 300.0, "seconds_between": 301.5, "cached_units": null, "req_units": 9,
            "parted_at": {"path": "messages[0].content", "byte": 10, "before": "a\u{1b}b", "now": ""}});
        let wanted = "causes  changed, time\ncommon  10 of 20 bytes, about 3 tokens; cached from 1024 tokens on\n\
            time    301.5 s between them; it stays 300 s\ncached  null of 9 input tokens\n\
            parted  at messages[0].content, byte 10\nbefore  \"a\\u001bb\"\nnow     \"\"\n";
        assert_eq!(lines(&comparison), wanted);
    }
}
