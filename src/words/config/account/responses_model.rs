//! One item of `responses_models`: a model whose chats go to the provider's Responses API, and which of them.

use crate::config::members::{Choice, MemberTable, NON_EMPTY};

/// A model, and what it takes only at `/v1/responses`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ResponsesModel {
    /// As requests name it: a name, or how names begin, with `*` at the end.
    pub model: String,
    pub when: ResponsesWhen,
}

/// Which chats go there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum ResponsesWhen {
    Always,
    /// Those with functions, unless their effort is `none`.
    #[default]
    Tools,
    /// Those with functions and an effort other than `none`.
    ToolsWithEffort,
    Never,
}

impl ResponsesWhen {
    /// The values as they are written, each with its variant.
    pub const VARIANTS: [(&'static str, Self); 4] = [
        ("always", Self::Always),
        ("tools", Self::Tools),
        ("tools_with_effort", Self::ToolsWithEffort),
        ("never", Self::Never),
    ];
}

impl ResponsesModel {
    pub(super) fn members(table: &mut MemberTable<'_>) -> Option<Self> {
        let model =
            table.needed("model", NON_EMPTY, "The model's name in requests, or its beginning and a *.");
        let when = table.or(
            "when",
            Choice(&ResponsesWhen::VARIANTS),
            ResponsesWhen::default(),
            "Which chats go there.",
        );
        Some(Self { model: model?, when })
    }
}

/// Whether a model has this name, or begins like it where that ends in `*`. Case does not matter.
pub fn is_model(listed: &str, model: &str) -> bool {
    match listed.strip_suffix('*') {
        Some(start) => model.get(..start.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(start)),
        None => listed.eq_ignore_ascii_case(model),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_any_end() {
        for (listed, model, is) in [
            ("gpt-5.6*", "gpt-5.6", true),
            ("gpt-5.6*", "GPT-5.6-luna", true),
            ("gpt-5.6*", "gpt-5.5", false),
            ("gpt-5.6", "gpt-5.6-luna", false),
            ("*", "", true),
            ("é*", "e", false),
        ] {
            assert_eq!(is_model(listed, model), is, "{listed} {model}");
        }
    }
}
