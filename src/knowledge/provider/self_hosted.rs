//! Servers that people run themselves: a spec each, for the list in `openai_compatible`.
//!
//! Most have an API of their own besides OpenAI's, and no address until the account names one.

use super::key::Key;
use super::openai_chat::quirks;
use super::spec::{CustomHost, NativeApi, ProviderSpec};

/// The source of facts that only Portkey's list of providers states.
const PORTKEY: &str = "https://github.com/Portkey-AI/gateway";

pub(crate) const OLLAMA: ProviderSpec = ProviderSpec {
    id: "ollama",
    custom_host: CustomHost::Server("/v1"),
    key: Key::OPTIONAL,
    chat: Some(&quirks::OLLAMA),
    native_apis: &[NativeApi::Messages, NativeApi::Completions, NativeApi::Responses],
    note: "usually http://localhost:11434; Ollama's cloud: https://ollama.com",
    source: "https://docs.ollama.com/api/openai-compatibility",
    ..ProviderSpec::PLAIN
};

pub(crate) const VLLM: ProviderSpec = ProviderSpec {
    id: "vllm",
    custom_host: CustomHost::Server("/v1"),
    key: Key::OPTIONAL,
    chat: Some(&quirks::VLLM),
    native_apis: &[
        NativeApi::Messages,
        NativeApi::CountTokens,
        NativeApi::Completions,
        NativeApi::StoredResponses,
    ],
    note: "usually http://localhost:8000",
    source: "https://docs.vllm.ai/en/latest/serving/openai_compatible_server.html",
    ..ProviderSpec::PLAIN
};

pub(crate) const LMSTUDIO: ProviderSpec = ProviderSpec {
    id: "lmstudio",
    aliases: &["lm-studio"],
    custom_host: CustomHost::Server("/v1"),
    key: Key::OPTIONAL,
    native_apis: &[NativeApi::Messages, NativeApi::Completions, NativeApi::StoredResponses],
    note: "usually http://localhost:1234",
    source: "https://lmstudio.ai/docs/api/endpoints/openai",
    ..ProviderSpec::PLAIN
};

pub(crate) const LLAMACPP: ProviderSpec = ProviderSpec {
    id: "llamacpp",
    aliases: &["llama-cpp", "llama.cpp"],
    custom_host: CustomHost::Server("/v1"),
    key: Key::OPTIONAL,
    chat: Some(&quirks::FIREWORKS),
    native_apis: &[NativeApi::Messages, NativeApi::CountTokens, NativeApi::Completions, NativeApi::Responses],
    note: "usually http://localhost:8080",
    source: "https://github.com/ggml-org/llama.cpp/blob/master/tools/server/README.md",
    ..ProviderSpec::PLAIN
};

pub(crate) const LITELLM: ProviderSpec = ProviderSpec {
    id: "litellm",
    custom_host: CustomHost::Server("/v1"),
    key: Key::OPTIONAL,
    chat: Some(&quirks::LITELLM),
    native_apis: &[
        NativeApi::Messages,
        NativeApi::CountTokens,
        NativeApi::Completions,
        NativeApi::StoredResponses,
    ],
    note: "usually http://localhost:4000",
    source: "https://docs.litellm.ai/docs/proxy/user_keys",
    ..ProviderSpec::PLAIN
};

pub(crate) const MODAL: ProviderSpec = ProviderSpec {
    id: "modal",
    custom_host: CustomHost::Prefixed("/v1"),
    key: Key::OPTIONAL,
    native_apis: &[NativeApi::Completions],
    note: "your own app; the client's Modal-Key and Modal-Secret are forwarded",
    source: PORTKEY,
    ..ProviderSpec::PLAIN
};

pub(crate) const LEPTON: ProviderSpec = ProviderSpec {
    id: "lepton",
    custom_host: CustomHost::Prefixed("/api/v1"),
    native_apis: &[NativeApi::Completions],
    note: "now NVIDIA DGX Cloud Lepton: every endpoint has its own host",
    source: "https://docs.nvidia.com/dgx-cloud/lepton/get-started/",
    ..ProviderSpec::PLAIN
};

pub(crate) const TRITON: ProviderSpec = ProviderSpec {
    id: "triton",
    key: Key::OPTIONAL,
    chat: None,
    note: "paths are forwarded unchanged",
    source: PORTKEY,
    ..ProviderSpec::PLAIN
};
