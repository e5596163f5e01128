//! `POST /completions`: legacy text completions, whole and streamed, with `echo` and several prompts.

use super::bill::Bill;
use super::call::Call;
use super::chat::{MAX_CHOICES, StreamOptions, usage};
use super::conversation::Stop;
use super::reply::{ApiError, Dialect, Event, Part, Reply};
use super::sample_text::{self, End, SampleText, Tokens, quote};
use super::state::now;
use serde::Deserialize;
use std::sync::Arc;

/// OpenAI's default for `max_tokens`.
const MAX_TOKENS: u64 = 16;

/// Text or token numbers, one or several: `prompt` of completions, `input` of embeddings.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum Prompt {
    Text(String),
    Texts(Vec<String>),
    Tokens(Vec<u64>),
    TokenLists(Vec<Vec<u64>>),
}

impl Prompt {
    /// Each prompt as text; token numbers are printed as decimals.
    pub(super) fn texts(self) -> Vec<String> {
        let numbers = |tokens: Vec<u64>| tokens.iter().map(u64::to_string).collect::<Vec<_>>().join(" ");
        match self {
            Prompt::Text(text) => vec![text],
            Prompt::Texts(texts) => texts,
            Prompt::Tokens(tokens) => vec![numbers(tokens)],
            Prompt::TokenLists(lists) => lists.into_iter().map(numbers).collect(),
        }
    }
}

#[derive(Deserialize)]
struct Request {
    model: Option<String>,
    prompt: Option<Prompt>,
    stream: Option<bool>,
    stream_options: Option<StreamOptions>,
    n: Option<usize>,
    max_tokens: Option<u64>,
    stop: Option<Stop>,
    echo: Option<bool>,
}

pub(super) fn create(call: &Call<'_>) -> Result<Reply, ApiError> {
    let request: Request = call.read(Dialect::OpenAi)?;
    let (model, script) = call.model(request.model.as_deref(), Dialect::OpenAi)?;
    let prompts = request.prompt.ok_or_else(|| ApiError::missing("prompt"))?.texts();
    let n = request.n.unwrap_or(1);
    if n == 0 || n > MAX_CHOICES || prompts.len() > 2048 {
        return Err(ApiError::invalid("n", "Invalid value for 'n': expected a number from 1 to 128."));
    }
    // A script that sets the length replaces the default limit.
    let limit = request.max_tokens.or(if script.tokens.is_some() { None } else { Some(MAX_TOKENS) });
    let stops = Stop::list(request.stop);
    let mut texts = Vec::with_capacity(prompts.len() * n);
    let mut tokens = 0;
    for prompt in prompts.iter().flat_map(|prompt| std::iter::repeat_n(prompt, n)) {
        let text = if model == "emulator-echo" {
            prompt.clone()
        } else {
            sample_text::prose(script.tokens.unwrap_or(48))
        };
        let mut sample = sample_text::truncate(text, limit, &stops);
        tokens += sample.tokens;
        if request.echo == Some(true) {
            sample.text.insert_str(0, prompt);
        }
        texts.push(sample);
    }
    let input = prompts.iter().map(|prompt| sample_text::count(prompt)).sum();
    let bill = Bill { input, output: tokens, opening: 0 };
    let usage = usage(input, tokens);
    let id = call.state.id("cmpl-", 29);
    let created = now();
    let model = quote(model);
    let prefix = format!(
        r#"{{"id":"{id}","object":"text_completion","created":{created},"model":{model},"system_fingerprint":"fp_emulator","choices":["#
    );
    let reply = if request.stream == Some(true) {
        let with_usage = request.stream_options.and_then(|options| options.include_usage) == Some(true);
        streamed(prefix, texts, with_usage.then_some(usage))
    } else {
        let choices: Vec<String> = texts
            .iter()
            .enumerate()
            .map(|(index, sample)| choice(index, &quote(&sample.text), finish(sample)))
            .collect();
        Reply::json(format!(r#"{prefix}{}],"usage":{usage}}}"#, choices.join(",")))
    };
    Ok(reply.billed(bill).scripted(script))
}

fn finish(sample: &SampleText) -> &'static str {
    if sample.end == End::Length { "\"length\"" } else { "\"stop\"" }
}

fn choice(index: usize, text: &str, finish: &str) -> String {
    format!(r#"{{"text":{text},"index":{index},"logprobs":null,"finish_reason":{finish}}}"#)
}

fn streamed(prefix: String, texts: Vec<SampleText>, usage: Option<String>) -> Reply {
    let suffix = if usage.is_some() { r#","usage":null"# } else { "" };
    let usage = usage.map(|usage| Event::data(Part::Content, format_args!(r#"{prefix}],"usage":{usage}}}"#)));
    let prefix = Arc::new(prefix);
    let events = texts.into_iter().enumerate().flat_map(move |(index, sample)| {
        let prefix = prefix.clone();
        let finish = finish(&sample);
        let end =
            Event::data(Part::Finish, format_args!("{prefix}{}]{suffix}}}", choice(index, "\"\"", finish)));
        let mut tokens = Tokens::new(sample.text);
        let tokens = std::iter::from_fn(move || {
            let choice = choice(index, &tokens.next_quoted()?, "null");
            Some(Event::data(Part::Content, format_args!("{prefix}{choice}]{suffix}}}")))
        });
        tokens.chain(std::iter::once(end))
    });
    Reply::events(events.chain(usage).chain(std::iter::once_with(Event::done)))
}
