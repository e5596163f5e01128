//! How each vendor deviates from OpenAI's chat. Data only.
//!
//! No number is clamped, and nothing is left out because a vendor ignores it: the vendor's own error tells the
//! client best what is not supported. Only what would make a valid request fail, or silently change its
//! meaning, is changed, and members of another vendor's API are left out with a warning. Each entry names its
//! sources.

use super::{Documents, MaxTokensParam, OpenAiChat, PublishedTypes, ReasoningField, ReasoningParam, Rule};
use crate::provider::call_ids::IdRule;
use crate::provider::tool_names::NameRule;
use crate::provider::vendor_members::VendorMembers;

/// The default for hosts of open models without further documentation.
pub static PLAIN: OpenAiChat = OpenAiChat {
    developer: false,
    max_tokens_param: MaxTokensParam::Both,
    members: VendorMembers::OPEN_MODELS,
    call_ids: IdRule::Any,
    tool_names: None,
    ..OpenAiChat::OPENAI
};

/// Hosts that document `max_tokens` only.
pub(crate) static OLD_LIMIT: OpenAiChat = OpenAiChat { max_tokens_param: MaxTokensParam::MaxTokens, ..PLAIN };

/// As `OLD_LIMIT`; also accepts earlier thinking as `reasoning_content`.
pub(crate) static THINKING_HOST: OpenAiChat =
    OpenAiChat { reasoning_field: ReasoningField::Member("reasoning_content"), ..OLD_LIMIT };

/// <https://docs.mistral.ai/api>: unlisted members are refused with 422 (`extra_forbidden`); call ids must be
/// nine letters and digits; thinking is a part of the content; usage is always sent. Names of tools: `^[a-zA-Z0-9_-]{1,64}$`, in
/// `mistral_common/protocol/instruct/validator.py` of mistral-common.
pub static MISTRAL: OpenAiChat = OpenAiChat {
    max_tokens_param: MaxTokensParam::MaxTokens,
    reasoning_field: ReasoningField::Parts,
    stream_options: false,
    documents: Documents::DocumentUrls,
    call_ids: IdRule::Nine,
    tool_names: Some(NameRule::COMMON),
    flags_prefix: true,
    refuses: &[
        "name",
        "refusal",
        "annotations",
        "audio",
        "function_call",
        "reasoning",
        "reasoning_content",
        "reasoning_details",
        "content_blocks",
    ],
    published: Some(&PublishedTypes { parts: None, needs_schemas: true }),
    members: VendorMembers::MISTRAL,
    rules: &[
        ("seed", Rule::Name("random_seed")),
        ("tool_choice", Rule::Values(&[("required", "any")])),
        ("stream_options", Rule::Drop),
        ("user", Rule::Drop),
        ("store", Rule::Drop),
        ("service_tier", Rule::Drop),
        ("safety_identifier", Rule::Drop),
        ("prompt_cache_key", Rule::Drop),
        ("prompt_cache_retention", Rule::Drop),
        ("verbosity", Rule::Drop),
    ],
    ..PLAIN
};

/// <https://console.groq.com/docs/openai>: `messages[].name` is a 400, as is every unknown member of a
/// message. Its tiers: <https://console.groq.com/docs/service-tiers>. Parts, efforts and tiers:
/// `types/chat/chat_completion_content_part_param.py` and `completion_create_params.py` of its Python SDK 1.7. Names of tools:
/// `types/shared_params/function_definition.py`.
pub(crate) static GROQ: OpenAiChat = OpenAiChat {
    max_tokens_param: MaxTokensParam::MaxCompletionTokens,
    reasoning_field: ReasoningField::Member("reasoning"),
    tool_names: Some(NameRule::COMMON),
    refuses: &[
        "name",
        "refusal",
        "annotations",
        "audio",
        "reasoning_content",
        "reasoning_details",
        "content_blocks",
        "executed_tools",
    ],
    published: Some(&PublishedTypes {
        parts: Some(&["text", "image_url", "document"]),
        needs_schemas: false,
    }),
    members: VendorMembers::GROQ,
    rules: &[
        ("service_tier", Rule::Values(&GROQ_TIERS)),
        ("reasoning_effort", Rule::Nearest(&EFFORTS)),
        ("safety_identifier", Rule::Drop),
        ("prompt_cache_key", Rule::Drop),
        ("prompt_cache_retention", Rule::Drop),
        ("verbosity", Rule::Drop),
    ],
    ..PLAIN
};

const GROQ_TIERS: [(&str, &str); 5] = [
    ("default", "on_demand"),
    ("priority", "performance"),
    ("scale", "performance"),
    ("fast", "performance"),
    ("ultrafast", "performance"),
];

/// OpenAI's efforts, where a vendor has low, medium and high.
const EFFORTS: [(&str, &str); 3] = [("minimal", "low"), ("xhigh", "high"), ("max", "high")];

/// <https://inference-docs.cerebras.ai/resources/openai> and /capabilities/reasoning. Parts, efforts and tiers:
/// `types/chat/completion_create_params.py` of its Python SDK 1.91.
pub(crate) static CEREBRAS: OpenAiChat = OpenAiChat {
    max_tokens_param: MaxTokensParam::MaxCompletionTokens,
    reasoning_field: ReasoningField::Member("reasoning"),
    refuses: &["refusal", "annotations", "audio", "reasoning_content", "reasoning_details", "content_blocks"],
    published: Some(&PublishedTypes { parts: Some(&["text", "image_url", "image"]), needs_schemas: false }),
    members: VendorMembers::CEREBRAS,
    rules: &[
        (
            "service_tier",
            Rule::Nearest(&[("scale", "priority"), ("fast", "priority"), ("ultrafast", "priority")]),
        ),
        ("reasoning_effort", Rule::Nearest(&EFFORTS)),
    ],
    ..PLAIN
};

/// <https://api-docs.deepseek.com/api/create-chat-completion> and /guides/thinking_mode: `max_tokens`, no
/// `developer`, JSON without a schema, and the thinking of earlier turns with tools must be sent back.
pub(crate) static DEEPSEEK: OpenAiChat = OpenAiChat {
    max_tokens_param: MaxTokensParam::MaxTokens,
    reasoning_field: ReasoningField::Member("reasoning_content"),
    reasoning_param: ReasoningParam::Thinking,
    tool_names: Some(NameRule::COMMON),
    schemas: false,
    ..PLAIN
};

/// <https://docs.z.ai/api-reference/llm/chat-completion>: roles system, user, assistant, tool; `max_tokens`;
/// JSON without a schema; `thinking` is on or off.
pub(crate) static ZAI: OpenAiChat = OpenAiChat { reasoning_param: ReasoningParam::Switch, ..DEEPSEEK };

/// <https://platform.kimi.ai/docs/api/chat>.
pub(crate) static MOONSHOT: OpenAiChat = OpenAiChat {
    max_tokens_param: MaxTokensParam::Both,
    reasoning_field: ReasoningField::Member("reasoning_content"),
    reasoning_param: ReasoningParam::Switch,
    tool_names: Some(NameRule::MOONSHOT),
    ..PLAIN
};

/// <https://docs.x.ai/developers/rest-api-reference/inference>: `developer` is an alias of `system` there. Its search is a tool of
/// `/responses` alone: chats with `search_parameters` are a 410 (<https://github.com/vercel/ai/pull/15713>).
pub(crate) static XAI: OpenAiChat = OpenAiChat {
    developer: true,
    max_tokens_param: MaxTokensParam::MaxCompletionTokens,
    reasoning_field: ReasoningField::Member("reasoning_content"),
    members: VendorMembers::XAI,
    ..PLAIN
};

/// <https://docs.perplexity.ai/api-reference/chat-completions-post>.
pub(crate) static PERPLEXITY: OpenAiChat = OpenAiChat { members: VendorMembers::PERPLEXITY, ..OLD_LIMIT };

/// <https://openrouter.ai/docs/use-cases/reasoning-tokens>, /features/multimodal/pdfs,
/// /features/prompt-caching, /guides/features/server-tools/web-search.
pub(crate) static OPENROUTER: OpenAiChat = OpenAiChat {
    developer: true,
    reasoning_field: ReasoningField::Details,
    reasoning_param: ReasoningParam::Reasoning,
    cache_control: true,
    web_search: Some("openrouter:web_search"),
    documents: Documents::FilesOrUrls,
    members: VendorMembers::ANY,
    ..PLAIN
};

/// LiteLLM passes on what its own providers accept.
pub(crate) static LITELLM: OpenAiChat = OpenAiChat {
    developer: true,
    reasoning_field: ReasoningField::Member("reasoning_content"),
    cache_control: true,
    members: VendorMembers::ANY,
    ..PLAIN
};

/// <https://www.alibabacloud.com/help/en/model-studio/use-qwen-by-calling-api>.
pub(crate) static DASHSCOPE: OpenAiChat = OpenAiChat {
    reasoning_param: ReasoningParam::Enable,
    reasoning_field: ReasoningField::Member("reasoning_content"),
    cache_control: true,
    ..OLD_LIMIT
};

/// <https://docs.fireworks.ai/api-reference/post-chatcompletions>: accepts both names of the limit.
pub(crate) static FIREWORKS: OpenAiChat =
    OpenAiChat { reasoning_field: ReasoningField::Member("reasoning_content"), ..PLAIN };

/// <https://docs.together.ai/reference/chat-completions>.
pub static TOGETHER: OpenAiChat =
    OpenAiChat { reasoning_field: ReasoningField::Member("reasoning"), ..OLD_LIMIT };

/// <https://docs.ollama.com/api/openai-compatibility>: `max_tokens`, `reasoning_effort`; unknown members are
/// ignored.
pub(crate) static OLLAMA: OpenAiChat = OpenAiChat {
    reasoning_field: ReasoningField::Member("reasoning"),
    rules: &[("thinking", Rule::Effort)],
    ..OLD_LIMIT
};

/// <https://docs.vllm.ai/en/stable/features/reasoning_outputs.html>: accepts both names of the limit.
pub(crate) static VLLM: OpenAiChat =
    OpenAiChat { reasoning_field: ReasoningField::Member("reasoning"), ..PLAIN };

/// Databricks serves Claude too: <https://docs.databricks.com/aws/en/machine-learning/model-serving/query-chat-models>.
pub(crate) static DATABRICKS: OpenAiChat = OpenAiChat { cache_control: true, ..OLD_LIMIT };

/// Snowflake serves Claude too: <https://docs.snowflake.com/en/user-guide/snowflake-cortex/cortex-rest-api>.
pub(crate) static SNOWFLAKE: OpenAiChat = OpenAiChat { cache_control: true, ..NEW_LIMIT };

/// Snowflake and MiniMax: the newer name of the limit; the older one is deprecated.
pub(crate) static NEW_LIMIT: OpenAiChat =
    OpenAiChat { max_tokens_param: MaxTokensParam::MaxCompletionTokens, ..PLAIN };
