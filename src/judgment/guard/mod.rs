//! Guardrails and hooks: may a request or a response pass, and what is changed in it first.
//!
//! A check looks at a [`Subject`] (a request, or a response) and returns a [`Finding`]. Checks form hooks, hooks have a phase
//! (before the target is called, or after it responded) and are compiled with the config ([`HookSet`]). Not here: when hooks run and what follows from their verdicts
//! (`engine::guarding`), how a config writes them (`config::hooks`), and where feedback is kept (`ledger`).
//!
//! A check is one file below `checks` and one line in [`CHECKS`].

mod arguments;
mod body_texts;
mod check;
mod checks;
mod denial;
mod finding;
mod hook;
mod judged;
mod lazy_tree;
mod needs;
mod outside;
mod parameters;
mod pieces;
mod regex;
mod result;
mod run;
mod subject;
mod view;
mod window;

pub use arguments::change_each;
pub use check::{CheckKind, Finder, LocalCheck, Match, Prepared, RemoteCheck};
pub use denial::denial_results;
pub use finding::{Change, CheckError, Finding};
pub use hook::{Hook, HookCheck, HookCompiler, HookPlace, HookSet, StreamUse, TargetHooks};
pub use judged::Part;
pub use lazy_tree::LazyTree;
pub use needs::Needs;
pub use outside::{Outside, OutsideCall, OutsideError, OutsideResponse};
pub use parameters::{Parameter, Parameters, Type, Unusable};
pub use result::{CheckResult, HookFeedback, HookResult, HookResults};
pub use run::{PhaseRun, Run};
pub use subject::{StreamText, Subject, Text};
pub use view::HookView;
pub use window::{Placeholders, WindowFilter, WindowState, restored};

/// Every check there is, in the order of the documentation.
pub const CHECKS: &[&CheckKind] = &[
    &checks::regex_match::REGEX_MATCH,
    &checks::regex_replace::REGEX_REPLACE,
    &checks::contains::CONTAINS,
    &checks::ends_with::ENDS_WITH,
    &checks::counts::SENTENCE_COUNT,
    &checks::counts::WORD_COUNT,
    &checks::counts::CHARACTER_COUNT,
    &checks::letter_case::ALL_UPPERCASE,
    &checks::letter_case::ALL_LOWERCASE,
    &checks::not_null::NOT_NULL,
    &checks::json_keys::JSON_KEYS,
    &checks::json_schema::JSON_SCHEMA,
    &checks::contains_code::CONTAINS_CODE,
    &checks::model_whitelist::MODEL_WHITELIST,
    &checks::model_rules::MODEL_RULES,
    &checks::allowed_request_types::ALLOWED_REQUEST_TYPES,
    &checks::required_metadata::REQUIRED_METADATA_KEYS,
    &checks::required_metadata::REQUIRED_METADATA_PAIRS,
    &checks::request_parameters::REQUEST_PARAMETERS,
    &checks::jwt::JWT,
    &checks::add_prefix::ADD_PREFIX,
    &checks::inline_images::INLINE_IMAGE_URLS,
    &checks::valid_urls::VALID_URLS,
    &checks::webhook::WEBHOOK,
    &checks::webhook::LOG,
    &checks::pii::PII,
    &checks::prompt_injection::PROMPT_INJECTION,
    &checks::model_judge::MODEL_JUDGE,
    &checks::partners::moderation::MISTRAL,
    &checks::partners::moderation::OPENAI,
    &checks::partners::bedrock::GUARD,
    &checks::partners::azure::PII,
    &checks::partners::azure::CONTENT_SAFETY,
    &checks::partners::azure::SHIELD_PROMPT,
    &checks::partners::azure::PROTECTED_MATERIAL,
    &checks::partners::scanners::LAKERA,
    &checks::partners::pangea::TEXT_GUARD,
    &checks::partners::pangea::PII,
    &checks::partners::patronus::PHI,
    &checks::partners::patronus::PII,
    &checks::partners::patronus::IS_CONCISE,
    &checks::partners::patronus::IS_HELPFUL,
    &checks::partners::patronus::IS_POLITE,
    &checks::partners::patronus::NO_APOLOGIES,
    &checks::partners::patronus::NO_GENDER_BIAS,
    &checks::partners::patronus::NO_RACIAL_BIAS,
    &checks::partners::patronus::RETRIEVAL_ANSWER_RELEVANCE,
    &checks::partners::patronus::TOXICITY,
    &checks::partners::patronus::CUSTOM,
    &checks::partners::qualifire::CONTENT_MODERATION,
    &checks::partners::qualifire::PII,
    &checks::partners::qualifire::PROMPT_INJECTIONS,
    &checks::partners::qualifire::HALLUCINATIONS,
    &checks::partners::qualifire::GROUNDING,
    &checks::partners::qualifire::TOOL_USE_QUALITY,
    &checks::partners::qualifire::POLICY,
    &checks::partners::scanners::PILLAR_PROMPT,
    &checks::partners::scanners::PILLAR_RESPONSE,
    &checks::partners::scanners::APORIA,
    &checks::partners::acuvity::SCAN,
    &checks::partners::scanners::LASSO,
    &checks::partners::exa::ONLINE,
    &checks::partners::scanners::PROMPT_SECURITY_PROMPT,
    &checks::partners::scanners::PROMPT_SECURITY_RESPONSE,
    &checks::partners::scanners::AIRS,
    &checks::partners::scanners::WALLED_AI,
    &checks::partners::scanners::JAVELIN,
    &checks::partners::scanners::F5,
    &checks::partners::aidr::GUARD,
    &checks::partners::scanners::AKTO,
    &checks::partners::scanners::ZSCALER,
];

/// The check of an id as a config writes it: an id without a dot is one of `default.`.
pub fn check_kind(id: &str) -> Option<&'static CheckKind> {
    let is_default = |kind: &CheckKind, id: &str| kind.id.strip_prefix("default.") == Some(id);
    let is = |kind: &CheckKind| kind.id == id || kind.aliases.contains(&id) || is_default(kind, id);
    CHECKS.iter().copied().find(|kind| is(kind))
}

#[cfg(test)]
mod tests;
