//! `default.notNull`: whether there is any text that is not blank.

use super::{BOTH, NOT};
use crate::guard::check::{CheckKind, LocalCheck, Prepared};
use crate::guard::finding::Finding;
use crate::guard::parameters::{Parameters, Unusable};
use crate::guard::subject::Subject;
use serde_json::json;

pub(crate) const NOT_NULL: CheckKind = CheckKind {
    id: "default.notNull",
    aliases: &[],
    phases: BOTH,
    about: "Passes where there is content, and some of its text is not blank.",
    source: "",
    parameters: &[NOT],
    prepare,
};

#[derive(Debug)]
struct NotNull {
    not: bool,
}

#[expect(clippy::unnecessary_wraps, reason = "what prepares a check may fail")]
fn prepare(parameters: &Parameters<'_>) -> Result<Prepared, Unusable> {
    Ok(Prepared::Local(Box::new(NotNull { not: parameters.flag("not") })))
}

impl LocalCheck for NotNull {
    fn run(&self, subject: &Subject) -> Finding {
        let holds = subject.prose().is_some_and(|text| !text.trim().is_empty());
        let verdict = holds != self.not;
        let explanation = if holds {
            "There is content that is not blank."
        } else {
            "The content is missing, null or blank."
        };
        Finding::of(
            verdict,
            json!({"explanation": explanation, "isNull": !holds, "not": self.not, "verdict": verdict}),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guard::checks::testing::{data, response, run};

    #[test]
    fn blank_text_is_none() {
        let none = Subject { text: None, ..response("") };
        for (subject, holds) in
            [(response("a"), true), (response(""), false), (response(" \n"), false), (none, false)]
        {
            for not in [false, true] {
                let finding = run(&NOT_NULL, json!({"not": not}), &subject);
                assert_eq!(finding.verdict, holds != not);
                assert_eq!(data(&finding)["isNull"], !holds);
            }
        }
    }
}
