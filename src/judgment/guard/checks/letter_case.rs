//! `default.alluppercase` and `default.alllowercase`: whether all letters of a text are large, or small.
//!
//! Only letters of ASCII count; a text without any passes.

use super::{BOTH, NOT, excerpt};
use crate::guard::check::{CheckKind, LocalCheck, Prepared};
use crate::guard::finding::Finding;
use crate::guard::parameters::{Parameters, Unusable};
use crate::guard::subject::Subject;
use serde_json::json;

pub(crate) const ALL_UPPERCASE: CheckKind = CheckKind {
    id: "default.alluppercase",
    aliases: &["alluppercase", "default.allUppercase", "allUppercase"],
    phases: BOTH,
    about: "Passes where no letter of ASCII is lower case.",
    source: "",
    parameters: &[NOT],
    prepare: |parameters| prepare(Case::Upper, parameters),
};

pub(crate) const ALL_LOWERCASE: CheckKind = CheckKind {
    id: "default.alllowercase",
    aliases: &["alllowercase", "default.allLowercase", "allLowercase"],
    phases: BOTH,
    about: "Passes where no letter of ASCII is upper case.",
    source: "",
    parameters: &[NOT],
    prepare: |parameters| prepare(Case::Lower, parameters),
};

#[derive(Debug, Clone, Copy, PartialEq)]
enum Case {
    Upper,
    Lower,
}

#[derive(Debug)]
struct LetterCase {
    case: Case,
    not: bool,
}

#[expect(clippy::unnecessary_wraps, reason = "what prepares a check may fail")]
fn prepare(case: Case, parameters: &Parameters<'_>) -> Result<Prepared, Unusable> {
    Ok(Prepared::Local(Box::new(LetterCase { case, not: parameters.flag("not") })))
}

impl LocalCheck for LetterCase {
    fn run(&self, subject: &Subject) -> Finding {
        let Some(text) = subject.prose() else {
            let message = "Missing text to analyze";
            let data = json!({"explanation": format!("An error occurred: {message}")});
            return Finding::failed("Error", message).with_data(data);
        };
        let text = &*text;
        let (name, is_other): (_, fn(&u8) -> bool) = match self.case {
            Case::Upper => ("upper", u8::is_ascii_lowercase),
            Case::Lower => ("lower", u8::is_ascii_uppercase),
        };
        let holds = !text.as_bytes().iter().any(is_other);
        let verdict = holds != self.not;
        let which = if holds { "All" } else { "Not all" };
        Finding::of(
            verdict,
            json!({
                "explanation": format!("{which} letters of the text are {name} case."),
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
    fn only_letters_of_ascii_count() {
        for (text, upper, lower) in
            [("123 !", true, true), ("ABC É", true, false), ("abc É", false, true), ("aB", false, false)]
        {
            for not in [false, true] {
                let finding = run(&ALL_UPPERCASE, json!({"not": not}), &request(text));
                assert_eq!(
                    (finding.verdict, &data(&finding)["verdict"]),
                    (upper != not, &json!(upper != not))
                );
                let finding = run(&ALL_LOWERCASE, json!({"not": not}), &request(text));
                assert_eq!(finding.verdict, lower != not, "{text}");
            }
        }
        assert_eq!(error(&run(&ALL_LOWERCASE, json!({}), &request(""))), "Missing text to analyze");
    }
}
