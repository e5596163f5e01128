//! `default.containsCode`: whether a fenced block of the text is labelled as code of one language.

use super::json_in_text::blocks;
use super::{BOTH, NOT, excerpt};
use crate::guard::check::{CheckKind, LocalCheck, Prepared};
use crate::guard::finding::Finding;
use crate::guard::parameters::{Parameters, Type, Unusable, required};
use crate::guard::subject::Subject;
use serde_json::{Value, json};

pub(crate) const CONTAINS_CODE: CheckKind = CheckKind {
    id: "default.containsCode",
    aliases: &[],
    phases: BOTH,
    about: "Passes where a fenced block of the text has the label of the language. A text without such blocks fails, with `not` it \
            passes.",
    source: "",
    parameters: &[required("format", Type::OneOf(FORMATS), "The language."), NOT],
    prepare,
};

const FORMATS: &[&str] = &[
    "SQL",
    "Python",
    "TypeScript",
    "JavaScript",
    "Java",
    "C#",
    "C++",
    "C",
    "Ruby",
    "PHP",
    "Swift",
    "Kotlin",
    "Go",
    "Rust",
    "Scala",
    "R",
    "Perl",
    "Shell",
    "HTML",
    "CSS",
    "XML",
    "JSON",
    "YAML",
    "Markdown",
    "Dockerfile",
];

/// Labels of blocks that are not the language's name in small letters.
const LABELS: &[(&str, &str)] = &[
    ("py", "Python"),
    ("python3", "Python"),
    ("ts", "TypeScript"),
    ("tsx", "TypeScript"),
    ("js", "JavaScript"),
    ("jsx", "JavaScript"),
    ("mjs", "JavaScript"),
    ("cs", "C#"),
    ("csharp", "C#"),
    ("cpp", "C++"),
    ("cc", "C++"),
    ("h", "C"),
    ("rb", "Ruby"),
    ("kt", "Kotlin"),
    ("golang", "Go"),
    ("rs", "Rust"),
    ("pl", "Perl"),
    ("sh", "Shell"),
    ("bash", "Shell"),
    ("zsh", "Shell"),
    ("htm", "HTML"),
    ("yml", "YAML"),
    ("md", "Markdown"),
    ("docker", "Dockerfile"),
];

#[derive(Debug)]
struct ContainsCode {
    format: String,
    not: bool,
}

fn prepare(parameters: &Parameters<'_>) -> Result<Prepared, Unusable> {
    let message = "Missing required parameter: format";
    let missing = || Unusable { data: Some(failure(message)), ..Unusable::new("format", message) };
    let format = parameters.text("format").ok_or_else(missing)?.to_owned();
    Ok(Prepared::Local(Box::new(ContainsCode { format, not: parameters.flag("not") })))
}

fn failure(message: &str) -> Value {
    json!({"explanation": format!("Error while checking for code blocks: {message}")})
}

/// The language of a label; the label itself where it is none of ours.
fn language(label: &str) -> &str {
    let alias = LABELS.iter().find(|(alias, _)| alias.eq_ignore_ascii_case(label)).map(|(_, format)| *format);
    let named = || FORMATS.iter().copied().find(|format| format.eq_ignore_ascii_case(label));
    alias.or_else(named).unwrap_or(label)
}

impl LocalCheck for ContainsCode {
    fn run(&self, subject: &Subject) -> Finding {
        let Some(text) = subject.text() else {
            let message = "Missing text to analyze";
            return Finding::failed("Error", message).with_data(failure(message));
        };
        let mut formats: Vec<&str> = Vec::new();
        for (label, _) in blocks(text) {
            let format = label.map(language).unwrap_or_default();
            if !format.is_empty() && !formats.contains(&format) && formats.len() < 20 {
                formats.push(format);
            }
        }
        let holds = formats.contains(&self.format.as_str());
        let verdict = holds != self.not;
        let explanation = match (formats.is_empty(), holds) {
            (true, _) => "No code blocks with a language were found in the text.".to_owned(),
            (false, true) => format!("Found a code block in {}.", self.format),
            (false, false) => format!("Found no code block in {}.", self.format),
        };
        Finding::of(
            verdict,
            json!({
                "explanation": explanation,
                "searchedFormat": self.format,
                "foundFormats": formats,
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
    use crate::guard::checks::testing::{data, error, response, run};

    #[test]
    fn the_rows_of_the_reference() {
        let js = "```js\nconsole.log(1)\n```";
        for (format, text, holds) in [
            ("Python", js, false),
            ("JavaScript", js, true),
            ("Python", "no block", false),
            ("C", "```c\nint a;\n```", true),
            ("C", "```cpp\nint a;\n```", false),
            ("C++", "```c++\nint a;\n```", true),
            ("SQL", "a ```python\nx\n``` b ```SQL\nselect 1\n```", true),
            ("SQL", "```\nselect 1\n```", false),
        ] {
            for not in [false, true] {
                let finding = run(&CONTAINS_CODE, json!({"format": format, "not": not}), &response(text));
                assert_eq!(finding.verdict, holds != not, "{format} {text}");
                assert_eq!(data(&finding)["not"], not);
            }
        }
        assert_eq!(
            error(&run(&CONTAINS_CODE, json!({"format": "C"}), &response(""))),
            "Missing text to analyze"
        );
        let finding = run(&CONTAINS_CODE, json!({}), &response("a"));
        assert_eq!((error(&finding), finding.verdict), ("Missing required parameter: format", false));
    }
}
