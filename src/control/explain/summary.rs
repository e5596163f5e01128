//! An explanation in five lines for people; after them a line for each hook, problem, note and warning.
//!
//! Everything else is in the JSON.

use super::ExplainResponse;
use judgment::route::explain::{FailurePath, FurtherAttempt};
use std::fmt::Write;

/// The most further attempts that a line names.
const MAX_STEPS: usize = 4;

/// `turnpike explain` without `--json`.
pub(super) fn text(response: &ExplainResponse) -> String {
    let explained = &response.explained;
    let none = || "-".to_owned();
    let caller = response.caller.as_deref().unwrap_or("a client without a service key");
    let first = explained.first.as_ref();
    let first =
        first.map(|first| format!("{} is {}: {}", first.index, first.target, first.because.join("; ")));
    let sent = explained.request.as_ref().map(|request| match (&request.error, &request.path) {
        (Some(error), _) => format!("nothing: {} {}", error.status, error.message),
        (None, None) => "nothing: the gateway responds itself".to_owned(),
        (None, Some(path)) => {
            let body = match request.body {
                "as_written" => "the body as it is",
                "changed" => "a changed body",
                _ => "no body that was read",
            };
            let response = if request.translated { "translated" } else { "passed on" };
            let signed = if request.signed { ", after a token or signature" } else { "" };
            format!("{path}, {body}{signed}; the response is {response}")
        }
    });
    let refused = explained.problems.first().map(|problem| format!("refused with {}", problem.status));
    let rows = [
        ("request", format!("{} from {caller}", explained.operation)),
        ("config", explained.config.clone().or(refused).unwrap_or_else(none)),
        ("first", first.unwrap_or_else(none)),
        ("sent", sent.unwrap_or_else(none)),
        ("failures", if explained.then.is_empty() { none() } else { failures(&explained.then) }),
    ];
    let mut out = String::new();
    // Writing into a String cannot fail.
    for (name, text) in rows {
        let _ = writeln!(out, "{name:9} {text}");
    }
    for hook in &explained.hooks {
        let checks: Vec<&str> = hook.checks.iter().map(|check| &*check.id).collect();
        let stream = hook.stream.as_ref().map(|stream| format!(", stream: {}", stream.how));
        let stream = stream.unwrap_or_default();
        let _ = writeln!(
            out,
            "{:9} {} ({}) on the {}: {}, {}{stream}",
            "hook",
            hook.id,
            hook.from,
            hook.on,
            checks.join(" "),
            hook.runs
        );
    }
    for problem in &explained.problems {
        let at = if problem.path.is_empty() { String::new() } else { format!("{}: ", problem.path) };
        let _ = writeln!(out, "{:9} {} {at}{}", "problem", problem.status, problem.message);
    }
    for note in &response.notes {
        let _ = writeln!(out, "{:9} {note}", "note");
    }
    for warning in explained.request.iter().flat_map(|request| &request.warnings) {
        let _ = writeln!(out, "{:9} {warning}", "warning");
    }
    out
}

/// Kinds of failure with the same consequence, together.
fn failures(paths: &[FailurePath]) -> String {
    let mut groups: Vec<(String, Vec<&str>)> = Vec::new();
    for path in paths {
        let steps = steps(path);
        match groups.iter_mut().find(|(listed, _)| *listed == steps) {
            Some((_, kinds)) => kinds.push(path.when),
            None => groups.push((steps, vec![path.when])),
        }
    }
    let texts = groups.iter().map(|(steps, kinds)| format!("{}: {steps}", kinds.join(", ")));
    texts.collect::<Vec<_>>().join("; ")
}

fn steps(path: &FailurePath) -> String {
    if path.tries.is_empty() {
        return "no further attempt".to_owned();
    }
    let step = |attempt: &FurtherAttempt| match attempt.wait_ms {
        Some((shortest, longest)) => format!("{} after {shortest} to {longest} ms", attempt.index),
        None => attempt.index.clone(),
    };
    let mut texts: Vec<String> = path.tries.iter().take(MAX_STEPS).map(step).collect();
    let rest = path.tries.len().saturating_sub(MAX_STEPS);
    if rest > 0 || path.more {
        texts.push(format!("{rest}{} more", if path.more { " or" } else { "" }));
    }
    texts.join(", then ")
}
