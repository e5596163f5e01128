//! Keeps a translated chat within the output that the client's own members allow: that is what limits hold for it
//! (`words::api::output_bounds`).
//!
//! The bound of the output and the number of choices have other names in each API. A member of another API beside the client's own
//! would bound the output anew where it arrives, so it becomes the bound where there is none, and is left out where there is one. Not
//! here: members that two APIs have under one name (`TranslationNotes::leave_out_written`).

use super::translation_notes::TranslationNotes;
use words::api::body::Body;
use words::api::chat::{ChatRequest, Params};
use words::api::operation::Operation;
use words::api::output_bounds;
use words::json::Json;

/// Bounds of the output, in lower case and without underscores. Sources: the vendors' lists in `vendor_members`; llama.cpp's server
/// (`n_predict`), Ollama (`num_predict`), and the bodies of models on Bedrock
/// (<https://docs.aws.amazon.com/bedrock/latest/userguide/model-parameters.html>).
const BOUNDS: [&str; 11] = [
    "maxtokens",
    "maxcompletiontokens",
    "maxoutputtokens",
    "maxnewtokens",
    "maxgenlen",
    "maxgentokens",
    "maxlength",
    "maxtokencount",
    "maxtokenstosample",
    "numpredict",
    "npredict",
];

/// How many outputs there are. From the same sources.
const COUNTS: [&str; 6] =
    ["n", "bestof", "candidatecount", "numgenerations", "numresults", "numreturnsequences"];

/// Objects that such members stand in.
const GROUPS: [&str; 9] = [
    "generationconfig",
    "inferenceconfig",
    "textgenerationconfig",
    "additionalmodelrequestfields",
    "extrabody",
    "modelparameters",
    "options",
    "parameters",
    "samplingparams",
];

/// How deep groups stand in each other: those of Bedrock's models in its additional fields.
const MAX_DEPTH: usize = 2;

/// What a member says of the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Meaning {
    Bound,
    Count,
    Group,
}

impl Meaning {
    fn of(name: &str) -> Option<Self> {
        let first = name.bytes().find(|byte| !is_separator(*byte))?.to_ascii_lowercase();
        let may_be = |listed: &str| listed.as_bytes().first() == Some(&first) && listed.len() <= name.len();
        let is_in = |names: &[&str]| names.iter().any(|listed| may_be(listed) && is_spelled(name, listed));
        [(Self::Bound, &BOUNDS[..]), (Self::Count, &COUNTS), (Self::Group, &GROUPS)]
            .into_iter()
            .find_map(|(meaning, names)| is_in(names).then_some(meaning))
    }
}

const fn is_separator(byte: u8) -> bool {
    matches!(byte, b'_' | b'-')
}

/// Whether a name is the listed one in any spelling: `max_tokens`, `maxTokens`.
fn is_spelled(name: &str, listed: &str) -> bool {
    let letters = name.bytes().filter(|byte| !is_separator(*byte));
    letters.map(|byte| byte.to_ascii_lowercase()).eq(listed.bytes())
}

/// Keeps the request within the bound and the number of choices that `body`, the client's, has in its own dialect.
pub(super) fn keep(
    request: &mut ChatRequest<'_>,
    operation: Operation,
    body: &Body,
    notes: &mut TranslationNotes,
) {
    let most = output_bounds::bound(operation, body);
    if request.params.iter().any(|(name, _)| Meaning::of(name).is_some()) {
        let bound = request.max_tokens.take();
        let mut found = Found { bound, outputs: output_bounds::outputs(operation, body), notes };
        request.params = found.without_others(std::mem::take(&mut request.params));
        request.max_tokens = found.bound;
    }
    // As many as the client's own member says, whatever was read as the bound.
    let is_over = |bound: &Json<'_>| most.is_some_and(|most| output_bounds::exceeds(bound.get(), most));
    if request.max_tokens.as_ref().is_none_or(is_over)
        && let Some(most) = most
    {
        request.max_tokens = Some(Json::from_value(&most));
    }
}

/// What was found of the request's output so far.
struct Found<'a, 'n> {
    bound: Option<Json<'a>>,
    /// As many as the client's dialect counts.
    outputs: u64,
    notes: &'n mut TranslationNotes,
}

impl<'a> Found<'a, '_> {
    fn without_others(&mut self, params: Params<'a>) -> Params<'a> {
        let mut kept = Params::default();
        for (name, mut value) in params.into_iter() {
            if self.keeps(&name, &name, &mut value, MAX_DEPTH) {
                kept.set(name, value);
            }
        }
        kept
    }

    /// Whether a member is sent. A group loses the members that are not. `at`: where it stands.
    fn keeps(&mut self, name: &str, at: &str, value: &mut Json<'_>, depth: usize) -> bool {
        match Meaning::of(name) {
            Some(Meaning::Bound) => {
                self.take(at, value);
                false
            }
            Some(Meaning::Count) if output_bounds::exceeds(value.get(), self.outputs) => {
                self.notes
                    .warn(at, "dropped, this API asks for several outputs in another way or not at all");
                false
            }
            Some(Meaning::Group) if depth > 0 => {
                if let Some(rest) = self.group(at, value.get(), depth - 1) {
                    *value = rest;
                }
                true
            }
            _ => true,
        }
    }

    /// What is left of an object; `None`: all of it, or it is none.
    fn group(&mut self, at: &str, text: &str, depth: usize) -> Option<Json<'static>> {
        let mut members = Json::members(text)?;
        if !members.iter().any(|(name, _)| Meaning::of(name).is_some()) {
            return None;
        }
        members.retain_mut(|(name, value)| {
            Meaning::of(name).is_none() || self.keeps(name, &format!("{at}.{name}"), value, depth)
        });
        Some(Json::object(&members))
    }

    /// Another API's bound, which counts where the client has none of its own.
    fn take(&mut self, at: &str, value: &Json<'_>) {
        if value.is_null() {
            return;
        }
        if self.bound.is_some() {
            self.notes.warn(at, "dropped, the request bounds its output by another member");
        } else {
            self.bound = Json::owned(value.get().to_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bound and the other members that are left, and what was reported.
    fn kept(operation: Operation, json: &str) -> (Option<String>, String, usize) {
        let body = Body::parse(json.to_owned().into()).unwrap();
        let mut request = (operation.translator().unwrap().read)(&body).unwrap();
        let mut notes = TranslationNotes::default();
        keep(&mut request, operation, &body, &mut notes);
        let bound = request.max_tokens.map(|bound| bound.get().to_owned());
        let rest = Json::object_of(request.params.iter().map(|(name, value)| (name, value.get())));
        (bound, rest.get().to_owned(), notes.warnings.len())
    }

    /// A request's members; the bound, the other members and the number of warnings that are left of them.
    type Case = (Operation, &'static str, Option<&'static str>, &'static str, usize);

    fn cases() -> [Case; 12] {
        use Operation::{ChatCompletions, GenerateContent, Messages, Responses};
        [
            (
                Messages,
                r#""max_tokens":1,"max_completion_tokens":9,"top_k":2"#,
                Some("1"),
                r#"{"top_k":2}"#,
                1,
            ),
            (ChatCompletions, r#""max_tokens":7,"max_completion_tokens":9"#, Some("9"), "{}", 0),
            (
                ChatCompletions,
                r#""max_tokens":1,"generationConfig":{"maxOutputTokens":9}"#,
                Some("1"),
                r#"{"generationConfig":{}}"#,
                1,
            ),
            (
                ChatCompletions,
                r#""generation_config":{"temperature":1.0,"max_output_tokens":9,"candidateCount":2}"#,
                Some("9"),
                r#"{"generation_config":{"temperature":1.0}}"#,
                1,
            ),
            (
                ChatCompletions,
                r#""n":3,"generationConfig":{"candidateCount":3}"#,
                None,
                r#"{"n":3,"generationConfig":{"candidateCount":3}}"#,
                0,
            ),
            (ChatCompletions, r#""max_tokens":1,"n":3,"best_of":4"#, Some("1"), r#"{"n":3}"#, 1),
            (
                Messages,
                r#""max_tokens":1,"additionalModelRequestFields":{"k":1,"inferenceConfig":{"maxTokens":9,"topK":1}}"#,
                Some("1"),
                r#"{"additionalModelRequestFields":{"k":1,"inferenceConfig":{"topK":1}}}"#,
                1,
            ),
            (Messages, r#""max_tokens":1,"labels":{"n":9}"#, Some("1"), r#"{"labels":{"n":9}}"#, 0),
            (
                GenerateContent,
                r#""generationConfig":{"maxOutputTokens":1},"n":9,"maxTokens":8"#,
                Some("1"),
                "{}",
                2,
            ),
            (GenerateContent, r#""generationConfig":{"candidateCount":3},"n":3"#, None, r#"{"n":3}"#, 0),
            (
                Responses,
                r#""max_output_tokens":1,"max_tokens":9,"num_predict":9,"n":2"#,
                Some("1"),
                r#"{"n":2}"#,
                1,
            ),
            (Responses, r#""max_new_tokens":9"#, Some("9"), "{}", 0),
        ]
    }

    #[test]
    fn members_of_other_apis_bound_only_what_has_no_bound() {
        for (operation, members, bound, rest, warnings) in cases() {
            let input = match operation {
                Operation::GenerateContent => r#""contents":[{"parts":[{"text":"a"}]}]"#,
                Operation::Responses => r#""input":"a""#,
                _ => r#""messages":[{"role":"user","content":"a"}]"#,
            };
            let found = kept(operation, &format!("{{{input},{members}}}"));
            let wanted = (bound.map(str::to_owned), rest.to_owned(), warnings);
            assert_eq!(found, wanted, "{operation:?} {members}");
        }
    }

    #[test]
    fn names_are_read_in_every_spelling() {
        for (name, meaning) in [
            ("max_tokens", Some(Meaning::Bound)),
            ("maxTokens", Some(Meaning::Bound)),
            ("MaxTokenCount", Some(Meaning::Bound)),
            ("max-new-tokens", Some(Meaning::Bound)),
            ("candidate_count", Some(Meaning::Count)),
            ("generation_config", Some(Meaning::Group)),
            ("min_tokens", None),
            ("max_tool_calls", None),
            ("nn", None),
            ("", None),
        ] {
            assert_eq!(Meaning::of(name), meaning, "{name}");
        }
    }
}
