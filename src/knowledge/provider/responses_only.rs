//! Which chats OpenAI's models take only at `/v1/responses`, and how a refusal says so.
//!
//! A chat of any dialect goes there where a row of the table says that the model refuses it at chat completions, where the account's
//! `responses_models` does, or where the provider has refused one (`state::learned_forms` keeps that for an hour). The form itself is in
//! `openai_responses`.

use super::adapter::{Adapter, CallTarget, ChatAdapter};
use super::compaction;
use super::fitting;
use super::openai_chat::effort;
use super::{Call, Provider};
use std::borrow::Cow;
use words::api::body::Body;
use words::api::chat::{ChatRequest, ProviderError, Tool};
use words::api::operation::Operation;
use words::config::account::{Account, ResponsesWhen, is_model};

/// Models, and what they take only there: a name, or how names begin, with `*` at the end. The first row that has the model counts.
const TABLE: [(&str, ResponsesWhen); 15] = [
    // <https://github.com/sigoden/aichat/pull/1318>
    ("o1-pro*", ResponsesWhen::Always),
    ("o3-pro*", ResponsesWhen::Always),
    // <https://platform.openai.com/docs/models>: the page of each lists the Responses API and no chat completions.
    ("codex-mini-latest", ResponsesWhen::Always),
    ("gpt-5-pro*", ResponsesWhen::Always),
    ("gpt-5-codex*", ResponsesWhen::Always),
    ("gpt-5.1-codex*", ResponsesWhen::Always),
    ("gpt-5.2-pro*", ResponsesWhen::Always),
    ("gpt-5.2-codex*", ResponsesWhen::Always),
    ("gpt-5.3-codex*", ResponsesWhen::Always),
    ("gpt-5.4-pro*", ResponsesWhen::Always),
    ("gpt-5.5-pro*", ResponsesWhen::Always),
    // <https://github.com/openai/openai-openapi/issues/541>, <https://github.com/pipecat-ai/pipecat/issues/4043>
    ("gpt-5.4*", ResponsesWhen::ToolsWithEffort),
    // <https://github.com/charmbracelet/crush/issues/2913>
    ("gpt-5.5*", ResponsesWhen::ToolsWithEffort),
    ("gpt-5.6-pro*", ResponsesWhen::Always),
    // "gpt-5.6 applies a default reasoning effort": refused without one as well (<https://github.com/BerriAI/litellm/pull/34569>).
    ("gpt-5.6*", ResponsesWhen::Tools),
];

/// What the client reads of it, in `x-gateway-warnings`, the log and `explain`.
pub(super) const WARNING: &str = "sent to /v1/responses, where alone this model takes such a chat";

/// Members without which a request of any dialect has no functions.
const FUNCTIONS: [&str; 2] = ["tools", "functions"];

/// Members without which a chat completion has no effort.
const EFFORT: [&str; 2] = ["reasoning_effort", "thinking"];

/// How refusals begin, in small letters, and what they say of the model.
const REFUSALS: [(&str, ResponsesWhen); 2] = [
    ("function tools with reasoning_effort are not supported for ", ResponsesWhen::Tools),
    ("this model is only supported in v1/responses", ResponsesWhen::Always),
];

/// What a provider's refusal of a chat says of its model; `None` where it is about something else.
///
/// - 400 "Function tools with reasoning_effort are not supported for gpt-5.6-terra in /v1/chat/completions. To use function tools, use
///   /v1/responses or set reasoning_effort to 'none'." (the sources of the rows above)
/// - 404 "This model is only supported in v1/responses and not in v1/chat/completions."
///
/// Only how it begins says that: what follows may repeat words of the client's.
fn of_refusal(status: u16, message: &str) -> Option<ResponsesWhen> {
    let message = message.to_ascii_lowercase();
    REFUSALS
        .iter()
        .find(|(start, _)| matches!(status, 400 | 404) && message.starts_with(start))
        .filter(|_| message.contains("v1/responses"))
        .map(|(_, when)| *when)
}

/// The adapter for chats that must go there; `None` where the provider has none, or the call is no chat.
fn adapter(provider: &dyn Provider, call: &Call<'_>, account: &Account) -> Option<&'static dyn ChatAdapter> {
    let is_chat = matches!(call.operation, Operation::ChatCompletions | Operation::Messages)
        || call.operation.is_gemini_chat();
    provider.responses_chat(call, account).filter(|_| is_chat)
}

/// A chat to which a rule may apply.
struct Candidate {
    adapter: &'static dyn ChatAdapter,
    rules: [Option<ResponsesWhen>; 2],
}

impl Candidate {
    /// `None` where no rule may apply, as far as can be said without reading the chat. `learned`: what the provider's refusals say
    /// of the model.
    fn of(
        provider: &dyn Provider,
        target: &CallTarget<'_>,
        body: &Body,
        learned: Option<ResponsesWhen>,
    ) -> Option<Self> {
        let CallTarget { call, account, model, .. } = *target;
        let adapter = adapter(provider, call, account)?;
        let rules = match of_account(account, model) {
            Some(when) => [Some(when), None],
            None => [learned, of_table(model)],
        };
        let mut present = rules.iter().flatten();
        present.any(|when| may_apply(*when, call.operation, body)).then_some(Self { adapter, rules })
    }
}

/// A chat that was read to be judged.
pub(super) struct Judged<'b> {
    /// As [`fitting::read`].
    pub request: ChatRequest<'b>,
    /// The adapter that it must have instead of its usual one.
    pub adapter: Option<&'static dyn ChatAdapter>,
}

/// Judges a chat. Most pass as they are: only where a rule may apply is one read. What cannot be read as a chat passes on: the
/// provider judges it.
pub(super) fn judge<'b>(
    provider: &dyn Provider,
    target: &CallTarget<'_>,
    body: &'b Body,
    learned: Option<ResponsesWhen>,
    strict: bool,
) -> Option<Judged<'b>> {
    let candidate = Candidate::of(provider, target, body, learned)?;
    let request = fitting::read(target.call.operation, body, provider.id(), strict)?.ok()?;
    let is_there = candidate.rules.into_iter().flatten().any(|when| applies(when, &request));
    Some(Judged { request, adapter: is_there.then_some(candidate.adapter) })
}

/// What a refusal of a chat says of the model, where that could not be read from the account.
pub fn learn(
    provider: &dyn Provider,
    call: &Call<'_>,
    account: &Account,
    refusal: &ProviderError,
) -> Option<ResponsesWhen> {
    let is_open = of_account(account, call.model.unwrap_or_default()).is_none();
    let when = of_refusal(refusal.status, &refusal.message).filter(|_| is_open)?;
    adapter(provider, call, account).map(|_| when)
}

/// Whether a call's body may be translated, and not only edited in places. It is not read for that.
pub fn is_translated(
    provider: &dyn Provider,
    call: &Call<'_>,
    account: &Account,
    body: Option<&Body>,
    learned: Option<ResponsesWhen>,
) -> bool {
    let model = call.model.unwrap_or_default();
    let target = CallTarget { call, account, model, client_betas: None };
    !matches!(compaction::adapter(provider, call, account, body), Ok(Adapter::Passthrough(_)))
        || body.is_some_and(|body| Candidate::of(provider, &target, body, learned).is_some())
}

fn of_account(account: &Account, model: &str) -> Option<ResponsesWhen> {
    account.responses_models.iter().find(|row| is_model(&row.model, model)).map(|row| row.when)
}

/// As [`is_model`]; where a `*` stands, a name goes on with `-`, as those of sizes and dates do.
fn is_of_family(listed: &str, model: &str) -> bool {
    let start = listed.trim_end_matches('*');
    is_model(listed, model)
        && model.get(start.len()..).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
}

fn of_table(model: &str) -> Option<ResponsesWhen> {
    TABLE.iter().find(|(listed, _)| is_of_family(listed, model)).map(|(_, when)| *when)
}

/// Whether a rule may apply to a chat, as far as the names of its members say.
fn may_apply(when: ResponsesWhen, operation: Operation, body: &Body) -> bool {
    let has_one = |names: &[&str]| names.iter().any(|name| body.value(name).is_some());
    match when {
        ResponsesWhen::Always => true,
        ResponsesWhen::Tools => has_one(&FUNCTIONS),
        ResponsesWhen::ToolsWithEffort => {
            has_one(&FUNCTIONS) && (operation != Operation::ChatCompletions || has_one(&EFFORT))
        }
        ResponsesWhen::Never => false,
    }
}

fn applies(when: ResponsesWhen, chat: &ChatRequest<'_>) -> bool {
    let has_functions = || chat.tools.iter().any(|tool| matches!(tool, Tool::Function { .. }));
    match (when, effort(&chat.reasoning)) {
        (ResponsesWhen::Always, _) => true,
        (ResponsesWhen::Never, _) | (_, Some(Cow::Borrowed("none"))) => false,
        (ResponsesWhen::Tools, _) | (ResponsesWhen::ToolsWithEffort, Some(_)) => has_functions(),
        (ResponsesWhen::ToolsWithEffort, None) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provider::find as provider;
    use crate::provider::translation::{PrepareOptions, prepare};
    use crate::provider::translation_notes::TranslationNotes;
    use http::Method;
    use serde_json::{Value, json};
    use words::config::account::ResponsesModel;

    /// Whether a chat goes to the Responses API. `rows`: what the account has.
    fn goes_there(
        id: &str,
        model: &str,
        members: &Value,
        learned: Option<ResponsesWhen>,
        rows: &[(&str, ResponsesWhen)],
    ) -> bool {
        let row = |(model, when): &(&str, ResponsesWhen)| ResponsesModel {
            model: (*model).to_owned(),
            when: *when,
        };
        let account = Account { responses_models: rows.iter().map(row).collect(), ..Account::default() };
        goes_there_of(id, model, members, learned, &account)
    }

    fn goes_there_of(
        id: &str,
        model: &str,
        members: &Value,
        learned: Option<ResponsesWhen>,
        account: &Account,
    ) -> bool {
        let mut body = json!({"model": model, "messages": [{"role": "user", "content": "x"}]});
        body.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
        let body = Body::parse(body.to_string().into()).unwrap();
        let operation = Operation::ChatCompletions;
        let path = "chat/completions";
        let call =
            Call { operation, method: &Method::POST, path, query: None, model: Some(model), streamed: false };
        let target = CallTarget { call: &call, account, model, client_betas: None };
        let judged = judge(provider(id).unwrap(), &target, &body, learned, false);
        judged.is_some_and(|judged| judged.adapter.is_some())
    }

    fn chat_call(model: &str) -> Call<'_> {
        let operation = Operation::ChatCompletions;
        let path = "chat/completions";
        Call { operation, method: &Method::POST, path, query: None, model: Some(model), streamed: false }
    }

    #[test]
    fn thinking_that_is_dropped_is_no_effort() {
        let body = json!({"model": "gpt-5.5", "messages": [{"role": "user", "content": "x"}],
            "thinking": {"type": "enabled", "budget_tokens": 5000},
            "tools": [{"type": "function", "function": {"name": "f"}}]});
        let body = Body::parse(body.to_string().into()).unwrap();
        let call = chat_call("gpt-5.5");
        let account = Account::default();
        let openai = provider("openai").unwrap();
        for (strict, sent_as) in [(true, Operation::ChatCompletions), (false, Operation::Responses)] {
            let options = PrepareOptions {
                strict,
                stream_usage: false,
                client_betas: None,
                learned: None,
                prompt_cache: None,
            };
            let notes = &mut TranslationNotes::default();
            let prepared = prepare(openai, &call, &account, Some(&body), options, notes).unwrap();
            assert_eq!(prepared.operation, sent_as, "strict: {strict}");
        }
    }

    #[test]
    fn whether_a_chat_is_translated_is_judged_without_reading_it() {
        let call = chat_call("gpt-5.6");
        let openai = provider("openai").unwrap();
        for (members, may_be) in
            [(r#""tools":"no list""#, true), (r#""functions":[]"#, true), (r#""n":1"#, false)]
        {
            let body = Body::parse(format!(r#"{{"messages":[],{members}}}"#).into()).unwrap();
            assert_eq!(
                is_translated(openai, &call, &Account::default(), Some(&body), None),
                may_be,
                "{members}"
            );
        }
    }

    #[test]
    fn every_row_is_the_first_for_some_model() {
        for (index, (model, _)) in TABLE.iter().enumerate() {
            let name = model.trim_end_matches('*');
            let first = TABLE.iter().position(|(listed, _)| is_model(listed, name)).unwrap();
            assert_eq!(first, index, "{model} is hidden by {}", TABLE[first].0);
        }
    }

    #[test]
    fn the_table_decides_which_chats_go_there() {
        let tool = json!([{"type": "function", "function": {"name": "f"}}]);
        let plain = json!({});
        let tools = json!({"tools": tool});
        let high = json!({"tools": tool, "reasoning_effort": "high"});
        let none = json!({"tools": tool, "reasoning_effort": "none"});
        let old = json!({"functions": [{"name": "f"}]});
        let budget = json!({"tools": tool, "thinking": {"type": "enabled", "budget_tokens": 5000}});
        let effort = json!({"reasoning_effort": "high"});
        for (id, model, members, goes) in [
            ("openai", "gpt-5.6", &tools, true),
            ("openai", "gpt-5.6-luna", &old, true),
            ("openai", "GPT-5.6-sol-2026-07-01", &high, true),
            ("openai", "gpt-5.6", &none, false),
            ("openai", "gpt-5.6", &plain, false),
            ("openai", "gpt-5.6", &effort, false),
            ("openai", "gpt-5.5", &tools, false),
            ("openai", "gpt-5.5", &high, true),
            ("openai", "gpt-5.4-mini", &budget, true),
            ("openai", "gpt-5.5", &none, false),
            ("openai", "gpt-5-codex", &plain, true),
            ("openai", "gpt-5.1", &high, false),
            ("azure-openai", "gpt-5.6", &tools, true),
            ("openrouter", "gpt-5.6", &tools, false),
            ("groq", "gpt-5.6", &tools, false),
        ] {
            assert_eq!(goes_there(id, model, members, None, &[]), goes, "{id} {model} {members}");
        }
        // What was learned adds to the table; what the account says counts alone.
        let learned = Some(ResponsesWhen::Tools);
        assert!(goes_there("openai", "gpt-5.5", &tools, learned, &[]));
        assert!(!goes_there("openai", "gpt-5.5", &none, learned, &[]));
        assert!(goes_there("azure-openai", "prod", &tools, None, &[("pr*", ResponsesWhen::Tools)]));
        assert!(!goes_there("openai", "gpt-5.6", &tools, learned, &[("gpt*", ResponsesWhen::Never)]));
    }

    #[test]
    fn the_table_counts_at_a_custom_host_unless_the_account_rules_it_out() {
        let tools = json!({"tools": [{"type": "function", "function": {"name": "f"}}]});
        let host = Some("https://a.openai.azure.com/openai".to_owned());
        let mut hosted = Account { custom_host: host, ..Account::default() };
        for id in ["openai", "azure-openai"] {
            assert!(goes_there_of(id, "gpt-5.6", &tools, None, &hosted), "{id}");
        }
        let never = ResponsesModel { model: "gpt-*".to_owned(), when: ResponsesWhen::Never };
        hosted.responses_models = [never].into_iter().collect();
        assert!(!goes_there_of("openai", "gpt-5.6", &tools, None, &hosted));
    }

    #[test]
    fn a_chat_to_which_no_rule_may_apply_is_not_read() {
        let plain =
            Body::parse(r#"{"model":"gpt-5.6","messages":[],"reasoning_effort":"high"}"#.into()).unwrap();
        let tools = Body::parse(r#"{"model":"gpt-5.6","messages":[],"tools":[]}"#.into()).unwrap();
        let functions = Body::parse(r#"{"model":"gpt-5.6","messages":[],"functions":[]}"#.into()).unwrap();
        let both =
            Body::parse(r#"{"model":"gpt-5.6","messages":[],"tools":[],"thinking":{}}"#.into()).unwrap();
        for (when, plainly, with_functions, with_both) in [
            (ResponsesWhen::Always, true, true, true),
            (ResponsesWhen::Tools, false, true, true),
            (ResponsesWhen::ToolsWithEffort, false, false, true),
            (ResponsesWhen::Never, false, false, false),
        ] {
            let may_apply = |body| may_apply(when, Operation::ChatCompletions, body);
            assert_eq!(may_apply(&plain), plainly, "{when:?}");
            assert_eq!(may_apply(&tools), with_functions, "{when:?}");
            assert_eq!(may_apply(&functions), with_functions, "{when:?}");
            assert_eq!(may_apply(&both), with_both, "{when:?}");
        }
        // Elsewhere an effort has other names.
        assert!(super::may_apply(ResponsesWhen::ToolsWithEffort, Operation::Messages, &tools));
    }

    #[test]
    fn a_refusal_names_what_the_model_takes() {
        let functions = "Function tools with reasoning_effort are not supported for gpt-5.6-luna in /v1/chat/completions. To \
                         use function tools, use /v1/responses or set reasoning_effort to 'none'.";
        let older = "Function tools with reasoning_effort are not supported for gpt-5.4 in /v1/chat/completions. Please use \
                     /v1/responses instead.";
        let only = "This model is only supported in v1/responses and not in v1/chat/completions.";
        for (status, message, when) in [
            (400, functions, Some(ResponsesWhen::Tools)),
            (400, older, Some(ResponsesWhen::Tools)),
            (404, only, Some(ResponsesWhen::Always)),
            (500, only, None),
            (400, "Unsupported parameter: 'stop' is not supported with this model.", None),
            (400, "Use /v1/responses.", None),
            (400, "Unknown parameter: 'v1/responses v1/chat/completions'.", None),
            (400, "Unknown parameter: 'This model is only supported in v1/responses'.", None),
        ] {
            assert_eq!(of_refusal(status, message), when, "{message}");
        }
    }
}
