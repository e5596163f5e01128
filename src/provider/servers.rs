//! Servers people run themselves: a row each, for the list of `openai_compatible`.
//!
//! Most have an API of their own beside OpenAI's, and no address until the account names one.

use super::key::Key;
use super::openai_chat::accents;
use super::row::{CustomHost, Own, Row};

/// Facts known only from the reference.
const REFERENCE: &str = "reference 12.1";

pub const OLLAMA: Row = Row {
    id: "ollama",
    custom_host: CustomHost::Server("/v1"),
    key: Key::OPTIONAL,
    chat: Some(&accents::OLLAMA),
    own: &[Own::Messages, Own::Completions, Own::Responses],
    note: "usually http://localhost:11434; Ollama's cloud: https://ollama.com",
    source: "https://docs.ollama.com/api/openai-compatibility",
    ..Row::PLAIN
};

pub const VLLM: Row = Row {
    id: "vllm",
    custom_host: CustomHost::Server("/v1"),
    key: Key::OPTIONAL,
    chat: Some(&accents::VLLM),
    own: &[Own::Messages, Own::CountTokens, Own::Completions, Own::StoredResponses],
    note: "usually http://localhost:8000",
    source: "https://docs.vllm.ai/en/latest/serving/openai_compatible_server.html",
    ..Row::PLAIN
};

pub const LMSTUDIO: Row = Row {
    id: "lmstudio",
    aliases: &["lm-studio"],
    custom_host: CustomHost::Server("/v1"),
    key: Key::OPTIONAL,
    own: &[Own::Messages, Own::Completions, Own::StoredResponses],
    note: "usually http://localhost:1234",
    source: "https://lmstudio.ai/docs/api/endpoints/openai",
    ..Row::PLAIN
};

pub const LLAMACPP: Row = Row {
    id: "llamacpp",
    aliases: &["llama-cpp", "llama.cpp"],
    custom_host: CustomHost::Server("/v1"),
    key: Key::OPTIONAL,
    chat: Some(&accents::FIREWORKS),
    own: &[Own::Messages, Own::CountTokens, Own::Completions, Own::Responses],
    note: "usually http://localhost:8080",
    source: "https://github.com/ggml-org/llama.cpp/blob/master/tools/server/README.md",
    ..Row::PLAIN
};

pub const LITELLM: Row = Row {
    id: "litellm",
    custom_host: CustomHost::Server("/v1"),
    key: Key::OPTIONAL,
    chat: Some(&accents::LITELLM),
    own: &[Own::Messages, Own::CountTokens, Own::Completions, Own::StoredResponses],
    note: "usually http://localhost:4000",
    source: "https://docs.litellm.ai/docs/proxy/user_keys",
    ..Row::PLAIN
};

pub const MODAL: Row = Row {
    id: "modal",
    custom_host: CustomHost::Before("/v1"),
    key: Key::OPTIONAL,
    own: &[Own::Completions],
    note: "an app of one's own; Modal-Key and Modal-Secret of the caller are passed on",
    source: "reference 12.1 (custom host expected)",
    ..Row::PLAIN
};

pub const LEPTON: Row = Row {
    id: "lepton",
    custom_host: CustomHost::Before("/api/v1"),
    own: &[Own::Completions],
    note: "now NVIDIA DGX Cloud Lepton: every endpoint has a host of its own",
    source: "https://docs.nvidia.com/dgx-cloud/lepton/get-started/",
    ..Row::PLAIN
};

pub const TRITON: Row = Row {
    id: "triton",
    key: Key::OPTIONAL,
    chat: None,
    note: "paths are passed on as they are",
    source: REFERENCE,
    ..Row::PLAIN
};
