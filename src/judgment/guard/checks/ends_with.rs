//! `default.endsWith`: whether the text ends with another one, or with that and a full stop.

use super::{BOTH, NOT, excerpt};
use crate::guard::check::{CheckKind, LocalCheck, Prepared};
use crate::guard::finding::Finding;
use crate::guard::parameters::{Parameters, Type, Unusable, required};
use crate::guard::subject::Subject;
use serde_json::{Value, json};

pub(crate) const ENDS_WITH: CheckKind = CheckKind {
    id: "default.endsWith",
    aliases: &[],
    phases: BOTH,
    about: "Passes where the text ends with the suffix, or with the suffix and a full stop.",
    source: "",
    parameters: &[required("suffix", Type::Text, "What the text must end with."), NOT],
    prepare,
};

#[derive(Debug)]
struct EndsWith {
    suffix: String,
    not: bool,
}

fn prepare(parameters: &Parameters<'_>) -> Result<Prepared, Unusable> {
    let message = "Missing or empty suffix";
    let missing = || Unusable { data: Some(failure(message)), ..Unusable::new("suffix", message) };
    let suffix = parameters.text("suffix").filter(|suffix| !suffix.is_empty()).ok_or_else(missing)?;
    Ok(Prepared::Local(Box::new(EndsWith { suffix: suffix.to_owned(), not: parameters.flag("not") })))
}

fn failure(message: &str) -> Value {
    json!({"explanation": format!("An error occurred: {message}")})
}

impl LocalCheck for EndsWith {
    fn run(&self, subject: &Subject) -> Finding {
        let Some(text) = subject.prose() else {
            let message = "Missing text to analyze";
            return Finding::failed("Error", message).with_data(failure(message));
        };
        let text = &*text;
        let is_end = |text: &str| text.ends_with(&self.suffix);
        let holds = is_end(text) || text.strip_suffix('.').is_some_and(is_end);
        let verdict = holds != self.not;
        let how = if holds { "ends" } else { "does not end" };
        Finding::of(
            verdict,
            json!({
                "explanation": format!("The text {how} with \"{}\".", self.suffix),
                "suffix": self.suffix,
                "not": self.not,
                "verdict": verdict,
                "textExcerpt": excerpt(text),
            }),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guard::checks::testing::{data, error, request, run};

    #[test]
    fn a_full_stop_may_follow() {
        for (suffix, text, verdict) in [
            ("x", "...x.", true),
            ("x", "x", true),
            ("x", "x..", false),
            ("x.", "ax.", true),
            ("x", "xy", false),
        ] {
            for not in [false, true] {
                let finding = run(&ENDS_WITH, json!({"suffix": suffix, "not": not}), &request(text));
                assert_eq!(finding.verdict, verdict != not, "{text}");
                assert_eq!(data(&finding)["suffix"], suffix);
            }
        }
        for parameters in [json!({"suffix": ""}), json!({})] {
            assert_eq!(error(&run(&ENDS_WITH, parameters, &request("a"))), "Missing or empty suffix");
        }
        assert_eq!(error(&run(&ENDS_WITH, json!({"suffix": "a"}), &request(""))), "Missing text to analyze");
    }
}
