//! `POST /chat/completions`: whole and streamed responses, several choices, tools, structured output.
//!
//! JSON is formatted by hand, for speed: the benches use this as their upstream, and its shape is fixed.

use super::bill::Bill;
use super::call::Call;
use super::conversation::{self, ChatInput, Completion, Format, Message, Stop, Tool, ToolCall};
use super::reply::{ApiError, Dialect, Event, Part, Reply};
use super::sample_text::{End, Tokens, quote};
use super::script::ReportedUsage;
use super::state::now;
use serde::Deserialize;
use serde_json::value::RawValue;
use std::sync::Arc;

#[derive(Deserialize)]
struct Request<'a> {
    model: Option<String>,
    #[serde(borrow)]
    messages: Option<Vec<Message<'a>>>,
    stream: Option<bool>,
    stream_options: Option<StreamOptions>,
    n: Option<usize>,
    max_tokens: Option<u64>,
    max_completion_tokens: Option<u64>,
    stop: Option<Stop>,
    #[serde(borrow)]
    tools: Option<Vec<Tool<'a>>>,
    #[serde(borrow)]
    tool_choice: Option<&'a RawValue>,
    response_format: Option<Format>,
}

#[derive(Deserialize)]
pub(super) struct StreamOptions {
    pub(super) include_usage: Option<bool>,
}

/// The most choices one request may ask for.
pub(super) const MAX_CHOICES: usize = 128;

pub(super) fn create(call: &Call<'_>) -> Result<Reply, ApiError> {
    let request: Request<'_> = call.read(Dialect::OpenAi)?;
    let (model, mut script) = call.model(request.model.as_deref(), Dialect::OpenAi)?;
    let messages = request.messages.ok_or_else(|| ApiError::missing("messages"))?;
    if messages.is_empty() {
        return Err(ApiError::invalid("messages", "Invalid 'messages': empty array. Expected at least one."));
    }
    let n = request.n.unwrap_or(1);
    if n == 0 || n > MAX_CHOICES {
        return Err(ApiError::invalid("n", "Invalid value for 'n': expected a number from 1 to 128."));
    }
    let tools = request.tools.unwrap_or_default();
    let completion = conversation::decide(ChatInput {
        model,
        messages: &messages,
        tools: &tools,
        tool_choice: request.tool_choice,
        format: request.response_format.as_ref(),
        limit: request.max_completion_tokens.or(request.max_tokens),
        stops: &Stop::list(request.stop),
        script: &mut script,
        dialect: Dialect::OpenAi,
    });
    let bill = Bill {
        input: conversation::prompt_tokens(&messages),
        output: completion.tokens() * n as u64,
        opening: n as u64,
    };
    let usage = match script.usage {
        ReportedUsage::Correct | ReportedUsage::InErrors => usage(bill.input, bill.output),
        ReportedUsage::Missing => "null".to_owned(),
        ReportedUsage::Zero => usage(0, 0),
    };
    let reply = if request.stream == Some(true) {
        let with_usage = request.stream_options.and_then(|options| options.include_usage) == Some(true)
            && script.usage != ReportedUsage::Missing;
        streamed(call, model, n, completion, with_usage.then_some(usage))
    } else {
        whole(call, model, n, &completion, &usage)
    };
    Ok(reply.billed(bill).scripted(script))
}

/// OpenAI's `usage` of chat and text completions.
pub(super) fn usage(prompt: u64, completion: u64) -> String {
    let total = prompt + completion;
    format!(
        r#"{{"prompt_tokens":{prompt},"completion_tokens":{completion},"total_tokens":{total},"prompt_tokens_details":{{"cached_tokens":0,"audio_tokens":0}},"completion_tokens_details":{{"reasoning_tokens":0,"audio_tokens":0,"accepted_prediction_tokens":0,"rejected_prediction_tokens":0}}}}"#
    )
}

fn finish(completion: &Completion) -> &'static str {
    match completion {
        Completion::Tools(_) => "tool_calls",
        Completion::Text(sample) if sample.end == End::Length => "length",
        Completion::Text(_) => "stop",
    }
}

fn whole(call: &Call<'_>, model: &str, n: usize, completion: &Completion, usage: &str) -> Reply {
    let message = |_| match completion {
        Completion::Text(sample) => format!(r#""content":{}"#, quote(&sample.text)),
        Completion::Tools(calls) => {
            let calls: Vec<String> =
                calls.iter().map(|tool| tool_call(call, tool, &tool.arguments)).collect();
            format!(r#""content":null,"tool_calls":[{}]"#, calls.join(","))
        }
    };
    let finish = finish(completion);
    let choices: Vec<String> = (0..n)
        .map(|index| {
            let message = message(index);
            format!(
                r#"{{"index":{index},"message":{{"role":"assistant",{message},"refusal":null,"annotations":[]}},"logprobs":null,"finish_reason":"{finish}"}}"#
            )
        })
        .collect();
    let id = call.state.id("chatcmpl-", 29);
    let created = now();
    let model = quote(model);
    let choices = choices.join(",");
    Reply::json(format!(
        r#"{{"id":"{id}","object":"chat.completion","created":{created},"model":{model},"choices":[{choices}],"usage":{usage},"service_tier":"default","system_fingerprint":"fp_emulator"}}"#
    ))
}

fn tool_call(call: &Call<'_>, tool: &ToolCall, arguments: &str) -> String {
    let id = call.state.id("call_", 24);
    let name = quote(&tool.name);
    let arguments = quote(arguments);
    format!(r#"{{"id":"{id}","type":"function","function":{{"name":{name},"arguments":{arguments}}}}}"#)
}

/// What all chunks of a stream share: the JSON before and after the choice.
struct Frame {
    prefix: String,
    /// With `include_usage` every chunk but the last has `"usage":null`.
    suffix: &'static str,
}

impl Frame {
    fn event(&self, part: Part, index: usize, delta: &str, finish: &str) -> Event {
        let Self { prefix, suffix } = self;
        let choice =
            format_args!(r#"{{"index":{index},"delta":{delta},"logprobs":null,"finish_reason":{finish}}}"#);
        Event::data(part, format_args!("{prefix}{choice}]{suffix}}}"))
    }
}

fn streamed(call: &Call<'_>, model: &str, n: usize, completion: Completion, usage: Option<String>) -> Reply {
    let id = call.state.id("chatcmpl-", 29);
    let created = now();
    let model = quote(model);
    let prefix = format!(
        r#"{{"id":"{id}","object":"chat.completion.chunk","created":{created},"model":{model},"service_tier":"default","system_fingerprint":"fp_emulator","choices":["#
    );
    let suffix = if usage.is_some() { r#","usage":null"# } else { "" };
    let frame = Arc::new(Frame { prefix, suffix });
    let finish = quote(finish(&completion));
    let usage =
        usage.map(|usage| Event::data(Part::Content, format_args!(r#"{}],"usage":{usage}}}"#, frame.prefix)));
    let content = if matches!(completion, Completion::Text(_)) { "\"\"" } else { "null" };
    let opening = format!(r#"{{"role":"assistant","content":{content},"refusal":null}}"#);
    let deltas = std::iter::once(opening).chain(deltas(call, completion));
    let last = frame.clone();
    let events = deltas.flat_map(move |delta| {
        let frame = frame.clone();
        (0..n).map(move |index| frame.event(Part::Content, index, &delta, "null"))
    });
    let ends = (0..n).map(move |index| last.event(Part::Finish, index, "{}", &finish));
    Reply::events(events.chain(ends).chain(usage).chain(std::iter::once_with(Event::done)))
}

/// The deltas of one choice, as JSON text.
fn deltas(call: &Call<'_>, completion: Completion) -> Box<dyn Iterator<Item = String> + Send> {
    match completion {
        Completion::Text(sample) => {
            let mut tokens = Tokens::new(sample.text);
            Box::new(std::iter::from_fn(move || Some(format!(r#"{{"content":{}}}"#, tokens.next_quoted()?))))
        }
        Completion::Tools(calls) => {
            let opened = calls.into_iter().map(|tool| (tool_call(call, &tool, ""), tool.arguments));
            let opened: Vec<_> = opened.collect();
            Box::new(opened.into_iter().enumerate().flat_map(|(index, (open, arguments))| {
                // The first delta of a call carries its id and name, and its index in the list.
                let first =
                    format!(r#"{{"tool_calls":[{{"index":{index},{}]}}"#, open.trim_start_matches('{'));
                let mut tokens = Tokens::new(arguments);
                let rest = std::iter::from_fn(move || {
                    let token = tokens.next_quoted()?;
                    Some(format!(
                        r#"{{"tool_calls":[{{"index":{index},"function":{{"arguments":{token}}}}}]}}"#
                    ))
                });
                std::iter::once(first).chain(rest)
            }))
        }
    }
}
