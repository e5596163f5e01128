//! The built-in provider: answers as the vendors do (OpenAI, Anthropic, Google, Amazon, Cohere), misbehaves on request, remembers what it got.
//!
//! For the demo, the tests and the benches, so that none of them needs a key or a network. It is not a
//! model (it says "The quick brown fox …") and not a proxy: it knows nothing of the gateway.
//!
//! # Scripts
//!
//! How a request is answered is told by a **script**: `key=value` pairs joined by `&` or `;`. It stands
//! behind a `?` in the model's name (`emulator?latency=200&fault=cut&after=20`) or in the header
//! `x-emulator-script` (any request, also without a body; the header wins). Values may be %-encoded. A key
//! nobody knows or a bad value is answered with a 400 that names it.
//!
//! | key | meaning |
//! |---|---|
//! | `tokens=N` | length of the answer; default 48, so that a chat stream has 50 events and `[DONE]` |
//! | `latency=MS` | wait before the status line |
//! | `ttft=MS` | headers at once, then wait before the first byte of the body, streamed or not |
//! | `gap=MS`, `tps=N` | pause between events (`tps`: N events a second) |
//! | `chunk=N`, `cuts=SEED` | the body in pieces of N bytes, or of 1 to 64 bytes drawn from SEED |
//! | `status=N` | this status; from 400 on with an error body in the caller's dialect |
//! | `retry_after=S`, `retry_after_ms=MS` | headers `retry-after`, `retry-after-ms` |
//! | `location=URL` | header `location`, for redirects |
//! | `fault=NAME`, `after=N` | misbehave, see below; N events go out well before (default 5) |
//! | `error=NAME` | refuse as the dialect's vendor does: `context_length`, `content_filter` |
//! | `no_prefill=1` | 400 when the last message is an assistant's |
//! | `times=K`, `key=NAME` | only the first K requests with this key get the script, later ones just its `tokens` (key: the script's own text) |
//! | `flap=MS` | the script holds for MS, then for as long does not, and so on from the key's first request |
//! | `chaos=PERCENT`, `seed=N` | so many requests meet a fault drawn from the seed (`chaos.rs`) |
//! | `tag=NAME` | log this request, as the header `x-emulator-tag` does |
//!
//! | fault | what happens |
//! |---|---|
//! | `reset`, `eof` | TCP reset, or a plain close, instead of an answer |
//! | `hang` | the request is taken and never answered |
//! | `garbage`, `half_head` | bytes that are no HTTP; the head breaks off and the connection closes |
//! | `cut`, `stall` | after N events the connection closes without an end; nothing comes any more |
//! | `malformed`, `error_event` | event N+1 is broken JSON; is an error object and the last one |
//! | `no_done`, `no_finish` | the end marker, or the event that says why it ended, is missing |
//! | `empty` | 200 and no body at all |
//! | `html` | 200 `text/html` |
//! | `truncate` | half of the promised Content-Length, then a close |
//! | `slow_body` | 16 bytes at a time, `gap` (default 20 ms) between them |
//!
//! A whole answer has no events: `cut` and `stall` strike in its middle, `malformed` sends half of it as if
//! it were all, `error_event` is a 200 with an error object. With `chunk`, `cuts` and `slow_body` the pieces
//! count as events.
//!
//! # Special requests
//!
//! Models `missing-*` do not exist (404); `emulator-echo` says the last user message again. Tools are called
//! when the choice demands it or the last user message says `call the tool` (`call the tools`: all).
//! A last message of the assistant's is gone on from in Anthropic's and Amazon's words, and in OpenAI's where it says
//! `"prefix": true`; else the answer begins anew.
//! `x-replay-id: ID` answers with a recording, cut as `x-replay-chunk: N` or `x-replay-cuts: SEED` say.
//! `?bytes=N` on a file's content or any unknown path downloads N bytes, `?sse=N` there streams N events.
//!
//! # What it remembers
//!
//! `GET /_emulator/requests[?tag=T][&wait=MS]`: the last 1,000 tagged requests (with `wait`: not before all
//! of them have ended, or MS milliseconds are over); `DELETE` forgets them. `GET /_emulator/stats`: counters.

mod anthropic;
mod anthropic_stream;
mod batches;
mod bedrock;
mod bedrock_stream;
mod body;
mod call;
mod chaos;
mod chat;
mod cohere;
mod cohere_stream;
mod completions;
mod control;
mod conversation;
mod embeddings;
mod files;
mod fine_tuning;
mod gemini;
mod gemini_stream;
mod journal;
mod media;
mod models;
mod multipart;
mod normalize;
mod object_store;
mod passthrough;
mod playback;
mod published;
mod realtime;
mod recordings;
mod reply;
mod request_body;
mod request_guard;
mod respond;
mod responses;
mod responses_stream;
mod routes;
mod sample_text;
mod schema_example;
mod script;
mod serve;
mod socket;
mod state;

pub use recordings::Recordings;
pub use serve::Emulator;

/// What an emulator is started with.
#[derive(Debug, Default)]
pub struct Options {
    /// Answers for requests that carry `x-replay-id`.
    pub recordings: Option<Recordings>,
    /// Log every request, not only tagged ones. Costs speed.
    pub log_all: bool,
}

#[cfg(test)]
mod tests;
