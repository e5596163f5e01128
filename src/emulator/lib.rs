//! The built-in provider: responds like the vendors (OpenAI, Anthropic, Google, Amazon, Cohere), injects
//! faults on request, and logs what it received.
//!
//! It serves the demo, the tests and the benches, so that none of them needs a key or a network. It is no
//! model (its text is "The quick brown fox …") and no proxy: it does not depend on the gateway's code.
//!
//! # Scripts
//!
//! A **script** controls how a request is answered: `key=value` pairs joined by `&` or `;`. It follows a `?`
//! in the model's name (`emulator?latency=200&fault=cut&after=20`) or is sent in the header
//! `x-emulator-script` (on any request, even without a body; the header wins). Values may be percent-encoded.
//! An unknown key or an invalid value gets a 400 that names it.
//!
//! | key | meaning |
//! |---|---|
//! | `tokens=N` | length of the response; default 48, so that a chat stream has 50 events and `[DONE]` |
//! | `latency=MS` | wait before the status line |
//! | `ttft=MS` | send the headers at once, then wait before the first byte of the body, streamed or not |
//! | `gap=MS`, `tps=N` | pause between events (`tps`: N events a second) |
//! | `chunk=N`, `cuts=SEED` | send the body in chunks of N bytes, or of 1 to 64 bytes drawn from SEED |
//! | `status=N` | this status; from 400 on with an error body in the client's dialect |
//! | `retry_after=S`, `retry_after_ms=MS` | headers `retry-after`, `retry-after-ms` |
//! | `location=URL` | header `location`, for redirects |
//! | `fault=NAME`, `after=N` | inject a fault, see below; N events are sent before it (default 5) |
//! | `error=NAME` | return the error of the dialect's vendor: `context_length`, `content_filter` |
//! | `no_prefill=1` | 400 if the last message is an assistant's |
//! | `usage=none` | chats report no usage; with `zero` they report that nothing was used, with `errors` errors report it too and are charged |
//! | `times=K`, `key=NAME` | only the first K requests with this key get the script, later ones just its `tokens` (default key: the script's own text) |
//! | `flap=MS` | the script applies for MS, then not for MS, and so on from the key's first request |
//! | `chaos=PERCENT`, `seed=N` | this share of requests gets a fault drawn from the seed (`chaos.rs`) |
//! | `tag=NAME` | log this request, like the header `x-emulator-tag` |
//!
//! | fault | what happens |
//! |---|---|
//! | `reset`, `eof` | TCP reset, or a plain close, instead of a response |
//! | `hang` | the request is read and never answered |
//! | `garbage`, `half_head` | bytes that are not HTTP; half of the response headers; then a close |
//! | `cut`, `stall` | after N events the connection closes without an end; nothing more is sent |
//! | `malformed`, `error_event` | event N+1 is invalid JSON; is an error object and the last event |
//! | `no_done`, `no_finish` | the end marker, or the event with the finish reason, is missing |
//! | `empty` | 200 with an empty body |
//! | `html` | 200 `text/html` |
//! | `truncate` | half of the promised Content-Length, then a close |
//! | `slow_body` | 16 bytes at a time, with `gap` (default 20 ms) between them |
//!
//! A whole response has no events: `cut` and `stall` act in its middle, `malformed` sends half of it as if it
//! were complete, `error_event` is a 200 with an error object. With `chunk`, `cuts` and `slow_body` the
//! chunks count as events.
//!
//! # Special requests
//!
//! Models `missing-*` do not exist (404). `emulator-echo` repeats the last user message. Tools are called if
//! the tool choice demands it or the last user message contains `call the tool` (`call the tools`: all). If
//! the last message is an assistant's, the Anthropic and Amazon dialects continue it; OpenAI's does with
//! `"prefix": true`; otherwise the response starts from the beginning. `x-replay-id: ID` responds with a
//! recording, split as `x-replay-chunk: N` or `x-replay-cuts: SEED` say. On a file's content or any unknown
//! path, `?bytes=N` downloads N bytes; on an unknown path `?sse=N` streams N events.
//!
//! Vendors' own APIs for batches, fine-tuning and buckets are there in tests only (the feature `vendors`). Batch jobs of Bedrock,
//! Vertex AI and Fireworks advance one step with each request for their state, and then run their lines; a
//! line that contains `refuse this line` fails. Their buckets exist, except those named `missing-*`.
//!
//! # Request log
//!
//! `GET /_emulator/requests[?tag=T][&wait=MS]` returns the last 1,000 tagged requests. With `wait` it first
//! waits until all of them have ended, for at most MS milliseconds. `DELETE` removes them.
//! `GET /_emulator/bill` returns what all chats, messages, responses and completions were charged, in tokens; each request in the log has its own
//! `charged`. `GET /_emulator/stats` returns the counters.

mod anthropic;
mod anthropic_stream;
mod batches;
mod bedrock;
mod bedrock_stream;
mod bill;
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
mod gemini_embeddings;
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
#[cfg(feature = "vendors")]
mod vendors;

pub use recordings::Recordings;
pub use serve::Emulator;

/// The options of an emulator.
#[derive(Debug, Default)]
pub struct Options {
    /// Responses for requests that carry `x-replay-id`.
    pub recordings: Option<Recordings>,
    /// Log every request, not only tagged ones. This costs speed.
    pub log_all: bool,
}

#[cfg(test)]
mod tests;
