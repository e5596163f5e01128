//! `POST /completions`: the old text completions, whole and streamed, with `echo` and several prompts.

use super::call::Call;
use super::chat::{MAX_CHOICES, StreamOptions, usage};
use super::reply::{Dialect, Event, Part, Refusal, Reply};
use super::state::now;
use super::talk::Stop;
use super::words::{self, End, Pieces, Said, quote};
use serde::Deserialize;
use std::sync::Arc;

/// What OpenAI takes when `max_tokens` is absent.
const MAX_TOKENS: u64 = 16;

/// Text or token numbers, one or several: `prompt` here, `input` of embeddings and moderations.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum Prompt {
    Text(String),
    Texts(Vec<String>),
    Tokens(Vec<u64>),
    TokenLists(Vec<Vec<u64>>),
}

impl Prompt {
    /// Each prompt as text; token numbers as they are written.
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

pub(super) fn answer(call: &Call<'_>) -> Result<Reply, Refusal> {
    let request: Request = call.read(Dialect::OpenAi)?;
    let (model, script) = call.model(request.model.as_deref(), Dialect::OpenAi)?;
    let prompts = request.prompt.ok_or_else(|| Refusal::missing("prompt"))?.texts();
    let n = request.n.unwrap_or(1);
    if n == 0 || n > MAX_CHOICES || prompts.len() > 2048 {
        return Err(Refusal::invalid("n", "Invalid value for 'n': expected a number from 1 to 128."));
    }
    // A script that says how long the answer is counts as a limit that is never reached.
    let limit = request.max_tokens.or(if script.tokens.is_some() { None } else { Some(MAX_TOKENS) });
    let stops = Stop::list(request.stop);
    let mut texts = Vec::with_capacity(prompts.len() * n);
    let mut tokens = 0;
    for prompt in prompts.iter().flat_map(|prompt| std::iter::repeat_n(prompt, n)) {
        let text =
            if model == "emulator-echo" { prompt.clone() } else { words::prose(script.tokens.unwrap_or(48)) };
        let mut said = words::say(text, limit, &stops);
        tokens += said.tokens;
        if request.echo == Some(true) {
            said.text.insert_str(0, prompt);
        }
        texts.push(said);
    }
    let usage = usage(prompts.iter().map(|prompt| words::count(prompt)).sum(), tokens);
    let (id, created, model) = (call.state.id("cmpl-", 29), now(), quote(model));
    let head = format!(
        r#"{{"id":"{id}","object":"text_completion","created":{created},"model":{model},"system_fingerprint":"fp_emulator","choices":["#
    );
    let reply = if request.stream == Some(true) {
        let with_usage = request.stream_options.and_then(|options| options.include_usage) == Some(true);
        streamed(head, texts, with_usage.then_some(usage))
    } else {
        let choices: Vec<String> = texts
            .iter()
            .enumerate()
            .map(|(index, said)| choice(index, &quote(&said.text), finish(said)))
            .collect();
        Reply::json(format!(r#"{head}{}],"usage":{usage}}}"#, choices.join(",")))
    };
    Ok(reply.scripted(script))
}

fn finish(said: &Said) -> &'static str {
    if said.end == End::Length { "\"length\"" } else { "\"stop\"" }
}

fn choice(index: usize, text: &str, finish: &str) -> String {
    format!(r#"{{"text":{text},"index":{index},"logprobs":null,"finish_reason":{finish}}}"#)
}

fn streamed(head: String, texts: Vec<Said>, usage: Option<String>) -> Reply {
    let tail = if usage.is_some() { r#","usage":null"# } else { "" };
    let usage = usage.map(|usage| Event::data(Part::Piece, format_args!(r#"{head}],"usage":{usage}}}"#)));
    let head = Arc::new(head);
    let events = texts.into_iter().enumerate().flat_map(move |(index, said)| {
        let head = head.clone();
        let finish = finish(&said);
        let end = Event::data(Part::Finish, format_args!("{head}{}]{tail}}}", choice(index, "\"\"", finish)));
        let mut pieces = Pieces::new(said.text);
        let pieces = std::iter::from_fn(move || {
            let choice = choice(index, &pieces.quoted()?, "null");
            Some(Event::data(Part::Piece, format_args!("{head}{choice}]{tail}}}")))
        });
        pieces.chain(std::iter::once(end))
    });
    Reply::events(events.chain(usage).chain(std::iter::once_with(Event::done)))
}
