//! Which models at Bedrock cache prompts, and how long.
//!
//! Source: <https://docs.aws.amazon.com/bedrock/latest/userguide/prompt-caching.html>, "Supported models, regions, and limits": Claude in
//! `tools`, `system` and `messages`, Nova without `tools`; an hour for Claude from 4.5 on. Who is behind an ARN is unknown, and others
//! refuse a cache point. Not here: where the points stand (`prompt_marks`).

use super::model::{Family, Model};
use crate::provider::prompt_marks::MarkForm;

/// Parts of the names of models of Claude that cache no prompts.
const WITHOUT_CACHE: [&str; 7] = [
    "claude-v2",
    "claude-2",
    "claude-instant",
    "claude-3-haiku",
    "claude-3-opus",
    "claude-3-sonnet",
    "claude-3-5-sonnet-20240620",
];
/// Those of Claude that keep them for five minutes alone: all before 4.5.
const FIVE_MINUTES_ONLY: [&str; 3] = ["claude-3", "-4-2025", "-4-1-"];
/// Those of Nova that cache prompts: they write text.
const NOVA_WITH_CACHE: [&str; 4] = ["nova-micro", "nova-lite", "nova-pro", "nova-premier"];

/// How marks are written for a model. `None`: it takes none.
pub(super) fn mark_form(model: &Model<'_>) -> Option<MarkForm> {
    let is_one_of = |names: &[&str]| names.iter().any(|name| model.id.contains(name));
    let on_tools = model.family == Family::Anthropic && !is_one_of(&WITHOUT_CACHE);
    let for_an_hour = on_tools && !is_one_of(&FIVE_MINUTES_ONLY);
    (on_tools || is_one_of(&NOVA_WITH_CACHE)).then_some(MarkForm::Converse { on_tools, for_an_hour })
}

#[cfg(test)]
mod tests {
    use super::*;
    use words::config::account::Account;

    #[test]
    fn models_take_what_their_page_has() {
        for (id, wanted) in [
            ("anthropic.claude-sonnet-4-5-20250929-v1:0", Some((true, true))),
            ("eu.anthropic.claude-opus-4-6-v1", Some((true, true))),
            ("anthropic.claude-sonnet-4-20250514-v1:0", Some((true, false))),
            ("anthropic.claude-opus-4-1-20250805-v1:0", Some((true, false))),
            ("us.anthropic.claude-3-7-sonnet-20250219-v1:0", Some((true, false))),
            ("anthropic.claude-3-5-sonnet-20241022-v2:0", Some((true, false))),
            ("anthropic.claude-3-5-sonnet-20240620-v1:0", None),
            ("anthropic.claude-3-haiku-20240307-v1:0", None),
            ("us.amazon.nova-lite-v1:0", Some((false, false))),
            ("amazon.nova-sonic-v1:0", None),
            ("mistral.mistral-large-2402-v1:0", None),
        ] {
            let form = mark_form(&Model::resolve(id, &Account::default()));
            let form = form.map(|form| match form {
                MarkForm::Converse { on_tools, for_an_hour } => (on_tools, for_an_hour),
                other => panic!("{other:?}"),
            });
            assert_eq!(form, wanted, "{id}");
        }
    }
}
