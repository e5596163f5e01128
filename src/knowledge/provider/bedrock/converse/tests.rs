//! What Claude on Converse gets, for clients of both dialects. Chats of one dialect and model are golden cases
//! (`tests/golden/bedrock`).

use super::Converse;
use crate::provider::Call;
use crate::provider::adapter::{CallTarget, ChatAdapter};
use crate::provider::conversation;
use crate::provider::translation_notes::TranslationNotes;
use http::Method;
use serde_json::{Value, json};
use words::api::body::Body;
use words::api::operation::Operation;
use words::api::{chat_completions, messages};
use words::config::account::Account;
use words::error::Error;

const CLAUDE: &str = "us.anthropic.claude-sonnet-4-5-20250929-v1:0";
const ADAPTIVE_CLAUDE: &str = "us.anthropic.claude-opus-4-6-v1";
const NOVA: &str = "us.amazon.nova-pro-v1:0";
const PROFILE: &str = "arn:aws:bedrock:us-east-1:1:application-inference-profile/x7";

/// One request: its dialect, model, and the betas of header and account.
#[derive(Clone, Copy)]
struct Case<'a> {
    operation: Operation,
    model: &'a str,
    header: Option<&'a str>,
    account: Option<&'a str>,
}

const CHAT: Case<'static> =
    Case { operation: Operation::ChatCompletions, model: CLAUDE, header: None, account: None };
const MESSAGES: Case<'static> = Case { operation: Operation::Messages, ..CHAT };

impl Case<'_> {
    /// The body that is sent and the warnings. `members`: of the client's body, besides a user's "x".
    fn written(self, members: &Value) -> Result<(Value, Vec<String>), Error> {
        let mut body = json!({"max_tokens": 9000, "messages": [{"role": "user", "content": "x"}]});
        let given = members.as_object().unwrap().clone();
        body.as_object_mut().unwrap().extend(given);
        let body = Body::parse(body.to_string().into()).unwrap();
        let mut request = match self.operation {
            Operation::Messages => messages::read(&body)?,
            _ => chat_completions::read(&body)?,
        };
        let mut notes = TranslationNotes::default();
        conversation::repair(&mut request.messages, &mut notes)?;
        let call = Call {
            operation: Operation::ChatCompletions,
            method: &Method::POST,
            path: "chat/completions",
            query: None,
            model: Some(self.model),
            streamed: false,
        };
        let account = Account { anthropic_beta: self.account.map(str::to_owned), ..Account::default() };
        let target =
            CallTarget { call: &call, account: &account, model: self.model, client_betas: self.header };
        let bytes = Converse.write(request, &target, &mut notes)?;
        Ok((serde_json::from_slice(&bytes).unwrap(), notes.warnings))
    }

    fn additional(self, members: &Value) -> (Value, Vec<String>) {
        let (body, warnings) = self.written(members).unwrap();
        (body["additionalModelRequestFields"].clone(), warnings)
    }
}

#[test]
fn betas_of_header_body_content_and_account_are_joined() {
    let computer = json!({"type": "computer_20250124", "name": "computer", "display_width_px": 1, "display_height_px": 1});
    let both = Case {
        header: Some("context-1m-2025-08-07, interleaved-thinking-2025-05-14,oauth-2025-04-20"),
        account: Some("account-1,context-1m-2024-01-01"),
        ..MESSAGES
    };
    let (fields, warnings) = both
        .additional(&json!({"betas": ["compact-2025-01-01", "mine-2025-01-01", "context-1m-2025-01-01"],
        "context_management": {"edits": []}, "tools": [computer]}));
    assert_eq!(
        fields["anthropic_beta"],
        json!([
            "context-1m-2025-08-07",
            "interleaved-thinking-2025-05-14",
            "compact-2025-01-01",
            "context-management-2025-06-27",
            "computer-use-2025-01-24",
            "account-1"
        ])
    );
    let dropped = |beta: &str| format!("anthropic-beta: {beta} dropped, bedrock has no such betas");
    assert_eq!(warnings, [dropped("oauth-2025-04-20"), dropped("mine-2025-01-01")]);

    let own = json!({"additional_model_request_fields": {"anthropic_beta": ["own-1"]}, "betas": "effort-1, output-128k"});
    let (fields, _) = Case { account: Some("own-1"), ..CHAT }.additional(&own);
    assert_eq!(fields["anthropic_beta"], json!(["own-1", "output-128k"]));
    let (fields, _) =
        CHAT.additional(&json!({"output_config": {"task_budget": {"type": "tokens", "total": 9}}}));
    assert_eq!(fields["anthropic_beta"], json!(["task-budgets-2026-03-13"]));
    assert_eq!(CHAT.written(&json!({"betas": 1})).unwrap_err().param.as_deref(), Some("betas"));
}

#[test]
fn models_other_than_claude_get_no_betas() {
    let header = Some("context-1m-2025-08-07");
    let of = |model: &'static str| Case { model, header, account: Some("account-1"), ..MESSAGES };
    let (fields, warnings) = of(NOVA).additional(&json!({"betas": ["mine-1"]}));
    assert_eq!((fields, warnings.len()), (Value::Null, 1), "{warnings:?}");
    // The account's betas say that the model behind the ARN is Claude; a client's header does not.
    let (fields, warnings) = of(PROFILE).additional(&json!({"betas": ["mine-1"]}));
    assert_eq!(fields, json!({"anthropic_beta": ["mine-1", "account-1"]}));
    assert!(warnings[0].starts_with("anthropic-beta: context-1m-2025-08-07 dropped"), "{warnings:?}");
}

#[test]
fn thinking_keeps_to_the_rules_that_anthropic_has() {
    let function = |name: &str| json!({"type": "function", "function": {"name": name}});
    let effort = |members: Value| {
        let mut all = json!({"reasoning_effort": "medium", "tools": [function("f"), function("g")]});
        all.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
        let (body, warnings) = CHAT.written(&all).unwrap();
        let thinks = !body["additionalModelRequestFields"]["thinking"].is_null();
        assert_eq!(warnings.iter().any(|warning| warning.starts_with("reasoning_effort: ")), !thinks);
        thinks
    };
    let allowed = |mode: &str, name: &str| {
        let allowed = json!({"mode": mode, "tools": [function(name)]});
        json!({"tool_choice": {"type": "allowed_tools", "allowed_tools": allowed}})
    };
    assert!(!effort(allowed("required", "f")));
    assert!(!effort(json!({"tool_choice": "required"})));
    assert!(effort(allowed("auto", "f")));
    assert!(effort(allowed("required", "no_such_tool")));
    assert!(effort(json!({})));

    let turns = |first: &Value, last: &[Value]| {
        let mut messages = vec![
            json!({"role": "user", "content": "q"}),
            json!({"role": "assistant", "content_blocks": first, "content": null,
                "tool_calls": [{"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}]}),
            json!({"role": "tool", "tool_call_id": "a", "content": "r"}),
        ];
        messages.extend_from_slice(last);
        json!({"messages": messages})
    };
    let user = json!({"role": "user", "content": "and?"});
    let thought = json!([{"type": "thinking", "thinking": "hm", "signature": "s"}]);
    let blank =
        json!([{"type": "text", "text": "\n"}, {"type": "thinking", "thinking": "hm", "signature": "s"}]);
    let unsigned = json!([{"type": "thinking", "thinking": "hm"}]);
    for last in [&[][..], std::slice::from_ref(&user), &[user.clone(), user.clone()]] {
        assert!(!effort(turns(&json!([]), last)), "{last:?}");
        assert!(!effort(turns(&unsigned, last)), "{last:?}");
        assert!(effort(turns(&thought, last)), "{last:?}");
        assert!(effort(turns(&blank, last)), "{last:?}");
    }
    let answered = [json!({"role": "assistant", "content": "done"}), user];
    assert!(effort(turns(&json!([]), &answered)));
}

#[test]
fn texts_and_stops_of_white_space_alone_are_left_out_with_a_warning() {
    let blank = json!({"stop": ["\n\n", "X"], "messages": [
        {"role": "system", "content": " "},
        {"role": "user", "content": [{"type": "text", "text": " \n"}, {"type": "text", "text": "x"}]},
        {"role": "assistant", "content": "\t"},
        {"role": "user", "content": "y"}
    ]});
    for (model, stops, warned) in [(CLAUDE, json!(["X"]), 2), (NOVA, json!(["\n\n", "X"]), 1)] {
        let (body, warnings) = Case { model, ..CHAT }.written(&blank).unwrap();
        assert_eq!(body["messages"], json!([{"role": "user", "content": [{"text": "x"}, {"text": "y"}]}]));
        assert_eq!(body.get("system"), None);
        assert_eq!(body["inferenceConfig"]["stopSequences"], stops, "{model}");
        assert_eq!(warnings.len(), warned, "{warnings:?}");
    }
}

#[test]
fn only_allowed_tools_are_offered() {
    let function = |name: &str| json!({"type": "function", "function": {"name": name}});
    let called = json!({"tools": [function("f"), function("g"), {"type": "bash_20250124", "name": "bash"}],
        "messages": [
            {"role": "user", "content": "q"},
            {"role": "assistant", "content": null,
                "tool_calls": [{"id": "a", "type": "function", "function": {"name": "g", "arguments": "{}"}}]},
            {"role": "tool", "tool_call_id": "a", "content": "r"}
        ],
        "tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [function("f")]}}});
    let (body, _) = CHAT.written(&called).unwrap();
    let names: Vec<&Value> = body["toolConfig"]["tools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| &tool["toolSpec"]["name"])
        .collect();
    assert_eq!(names, ["f"]);
    assert_eq!(body["toolConfig"]["toolChoice"], json!({"any": {}}));
    assert_eq!(body.get("additionalModelRequestFields"), None);
}

#[test]
fn an_effort_of_messages_is_no_reasoning_effort() {
    let budget = json!({"type": "tokens", "total": 20000});
    let adaptive = Case { model: ADAPTIVE_CLAUDE, ..MESSAGES };
    let both = json!({"temperature": 0.3, "output_config": {"effort": "high", "task_budget": budget}});
    let (body, warnings) = adaptive.written(&both).unwrap();
    assert_eq!(
        body["additionalModelRequestFields"],
        json!({"output_config": {"task_budget": budget, "effort": "high"}, "anthropic_beta": ["task-budgets-2026-03-13"]})
    );
    assert_eq!(body["inferenceConfig"]["temperature"], json!(0.3));
    assert_eq!(warnings, [""; 0]);

    // A model without efforts gets none, and is not made to think either.
    let (body, warnings) =
        MESSAGES.written(&json!({"temperature": 0.3, "output_config": {"effort": "high"}})).unwrap();
    assert_eq!(body.get("additionalModelRequestFields"), None);
    assert_eq!(body["inferenceConfig"]["temperature"], json!(0.3));
    assert_eq!(warnings, ["output_config.effort: dropped, this model takes no effort"]);

    // OpenAI's effort turns thinking on, and joins what else is in the object.
    let chat = Case { model: ADAPTIVE_CLAUDE, ..CHAT };
    let (fields, _) =
        chat.additional(&json!({"reasoning_effort": "high", "output_config": {"task_budget": budget}}));
    assert_eq!(fields["output_config"], json!({"task_budget": budget, "effort": "high"}));
    assert_eq!(fields["thinking"]["type"], "adaptive");
    let own = json!({"reasoning_effort": "high", "output_config": {"task_budget": budget},
        "additional_model_request_fields": {"output_config": {"effort": "low"}}});
    let (fields, _) = chat.additional(&own);
    assert_eq!(fields["output_config"], json!({"effort": "low", "task_budget": budget}));
    // Behind an ARN as well, without a guess.
    let (fields, _) = Case { model: PROFILE, ..MESSAGES }.additional(&both);
    assert_eq!(fields, json!({"output_config": {"task_budget": budget, "effort": "high"}}));
}

#[test]
fn members_of_other_vendors_do_not_reach_a_model_behind_an_arn() {
    let members = json!({"moderation": {}, "prompt_cache_options": {}, "safety_settings": [], "min_p": 0.1,
        "safe_prompt": true, "speed": "fast"});
    let (fields, warnings) = Case { model: PROFILE, ..CHAT }.additional(&members);
    assert_eq!(fields, json!({"min_p": 0.1, "safe_prompt": true, "speed": "fast"}));
    assert_eq!(warnings.len(), 3, "{warnings:?}");
}
