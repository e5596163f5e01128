//! The members of each vendor's chat requests, as its published types list them.
//!
//! A member that belongs to one vendor's API must not reach another: there it is refused, or means something
//! else. A member that is in no list passes, because vendors add members faster than lists grow. Data and
//! one question; what happens to a foreign member is decided by whoever asks.

/// A list of member names.
type Names = &'static [&'static str];

/// Source: `types/chat/completion_create_params.py` of OpenAI's Python SDK 3.54. The most frequent first.
pub const OPENAI: Names = &[
    "model",
    "messages",
    "stream",
    "stream_options",
    "temperature",
    "max_tokens",
    "max_completion_tokens",
    "tools",
    "tool_choice",
    "top_p",
    "stop",
    "response_format",
    "reasoning_effort",
    "parallel_tool_calls",
    "n",
    "user",
    "metadata",
    "audio",
    "frequency_penalty",
    "function_call",
    "functions",
    "logit_bias",
    "logprobs",
    "modalities",
    "moderation",
    "prediction",
    "presence_penalty",
    "prompt_cache_key",
    "prompt_cache_options",
    "prompt_cache_retention",
    "safety_identifier",
    "seed",
    "service_tier",
    "store",
    "top_logprobs",
    "verbosity",
    "web_search_options",
];

/// What OpenAI has and no vendor that speaks its shape has taken over. From the same source.
const OPENAI_ALONE: Names = &["moderation", "prompt_cache_options"];

/// What coding agents send to OpenAI alone, in requests that are translated. From the same source as below.
const AGENTS_ALONE: Names = &["client_metadata"];

/// Source: `types/responses/response_create_params.py` of the same SDK, and `client_metadata`, which Codex sends
/// (<https://github.com/SEMOSS/Semoss/issues/2532>).
const OPENAI_RESPONSES: Names = &[
    "access_programs",
    "background",
    "background_options",
    "client_metadata",
    "context_management",
    "conversation",
    "image",
    "include",
    "input",
    "instructions",
    "max_output_tokens",
    "max_tool_calls",
    "previous_response_id",
    "prompt",
    "reasoning",
    "text",
    "truncation",
];

/// Source: `types/message_create_params.py` and `types/beta/messages/message_create_params.py` of Anthropic's Python SDK 2.12.0, and
/// the three sampling parameters of its version 0.125.0 (API version 2023-06-01).
pub const ANTHROPIC: Names = &[
    "model",
    "messages",
    "stream",
    "max_tokens",
    "system",
    "tools",
    "tool_choice",
    "temperature",
    "top_p",
    "top_k",
    "stop_sequences",
    "thinking",
    "metadata",
    "output_config",
    "output_format",
    "cache_control",
    "container",
    "context_management",
    "mcp_servers",
    "service_tier",
    "speed",
    "inference_geo",
    "diagnostics",
    "compaction",
    "thread",
    "billing_policy",
    "fallbacks",
    "fallback_credit_token",
    "user_profile_id",
    "workspace_id",
    "betas",
    "anthropic_beta",
    "anthropic_version",
];

/// What Anthropic's own API alone takes, behind betas that no cloud has (`anthropic::beta_host`).
pub(crate) const ANTHROPIC_AT_HOME: Names =
    &["diagnostics", "fallback_credit_token", "fallbacks", "mcp_servers", "speed", "thread"];

/// Source: `GenerateContentConfig` and `GenerationConfig` in `types.py` of Google's Python SDK google-genai 3.4,
/// and the body of `generateContent`: <https://ai.google.dev/api/generate-content>. In both spellings.
pub const GEMINI: Names = &[
    "contents",
    "systemInstruction",
    "system_instruction",
    "generationConfig",
    "generation_config",
    "safetySettings",
    "safety_settings",
    "toolConfig",
    "tool_config",
    "cachedContent",
    "cached_content",
    "labels",
    "modelArmorConfig",
    "model_armor_config",
    "serviceTier",
    "thinkingConfig",
    "thinking_config",
    "imageConfig",
    "image_config",
    "mediaResolution",
    "media_resolution",
    "speechConfig",
    "speech_config",
    "responseModalities",
    "response_modalities",
    "responseMimeType",
    "response_mime_type",
    "responseSchema",
    "response_schema",
    "responseJsonSchema",
    "response_json_schema",
    "candidateCount",
    "candidate_count",
    "maxOutputTokens",
    "routingConfig",
    "routing_config",
    "modelSelectionConfig",
    "model_selection_config",
    "audioTimestamp",
    "audio_timestamp",
    "audioTranscriptionConfig",
    "audio_transcription_config",
    "enableEnhancedCivicAnswers",
    "enable_enhanced_civic_answers",
    "translationConfig",
    "translation_config",
];

/// Source: `client/models/chatcompletionrequest.py` of Mistral's Python SDK 3.7.
pub const MISTRAL: Names = &[
    "model",
    "messages",
    "stream",
    "temperature",
    "max_tokens",
    "tools",
    "tool_choice",
    "top_p",
    "stop",
    "response_format",
    "random_seed",
    "metadata",
    "presence_penalty",
    "frequency_penalty",
    "min_tokens",
    "repetition_penalty",
    "top_k",
    "logprobs",
    "top_logprobs",
    "prompt_logprobs",
    "top_prompt_logprobs",
    "n",
    "prediction",
    "parallel_tool_calls",
    "reasoning_effort",
    "prompt_mode",
    "guardrails",
    "prompt_cache_key",
    "service_tier",
    "safe_prompt",
];

/// Source: `v2/client.py` (`chat`) of Cohere's Python SDK 7.3.
pub(crate) const COHERE: Names = &[
    "model",
    "messages",
    "stream",
    "tools",
    "strict_tools",
    "documents",
    "citation_options",
    "response_format",
    "safety_mode",
    "max_tokens",
    "stop_sequences",
    "temperature",
    "seed",
    "frequency_penalty",
    "presence_penalty",
    "k",
    "p",
    "logprobs",
    "tool_choice",
    "thinking",
    "priority",
];

/// Source: `types/chat/completion_create_params.py` of Groq's Python SDK 1.7.
pub(crate) const GROQ: Names = &[
    "model",
    "messages",
    "stream",
    "stream_options",
    "temperature",
    "max_tokens",
    "max_completion_tokens",
    "tools",
    "tool_choice",
    "top_p",
    "stop",
    "response_format",
    "reasoning_effort",
    "parallel_tool_calls",
    "n",
    "user",
    "metadata",
    "citation_options",
    "compound_custom",
    "disable_tool_validation",
    "documents",
    "exclude_domains",
    "frequency_penalty",
    "function_call",
    "functions",
    "include_domains",
    "include_reasoning",
    "logit_bias",
    "logprobs",
    "presence_penalty",
    "reasoning_format",
    "search_settings",
    "seed",
    "service_tier",
    "store",
    "top_logprobs",
];

/// Source: `types/chat/completion_create_params.py` of Cerebras's Python SDK 1.91.
pub(crate) const CEREBRAS: Names = &[
    "model",
    "messages",
    "stream",
    "stream_options",
    "temperature",
    "max_tokens",
    "max_completion_tokens",
    "tools",
    "tool_choice",
    "top_p",
    "stop",
    "response_format",
    "reasoning_effort",
    "parallel_tool_calls",
    "n",
    "user",
    "clear_thinking",
    "disable_reasoning",
    "frequency_penalty",
    "logit_bias",
    "logprobs",
    "min_completion_tokens",
    "min_tokens",
    "model_parameters",
    "prediction",
    "presence_penalty",
    "prompt_cache_key",
    "reasoning_format",
    "seed",
    "service_tier",
    "top_logprobs",
];

/// What Perplexity alone has. Source: `types/chat/completion_create_params.py` of Perplexity's Python SDK 0.46.
const PERPLEXITY_ALONE: Names = &[
    "disable_search",
    "enable_search_classifier",
    "file_workspace_id",
    "image_domain_filter",
    "image_format_filter",
    "language_preference",
    "last_updated_after_filter",
    "last_updated_before_filter",
    "num_search_results",
    "ranking_model",
    "response_formatting_locale",
    "return_images",
    "return_related_questions",
    "safe_search",
    "search_after_date_filter",
    "search_before_date_filter",
    "search_domain_filter",
    "search_language_filter",
    "search_mode",
    "search_recency_filter",
    "stream_mode",
    "updated_after_timestamp",
    "updated_before_timestamp",
    "use_threads",
    "user_original_query",
];

/// What xAI alone has. Source: <https://docs.x.ai/developers/rest-api-reference/inference>.
const XAI_ALONE: Names = &["deferred", "search_parameters"];

/// What OpenRouter alone has. Sources: `components/chatrequest.py` of OpenRouter's Python SDK 1.3 and, for the last two,
/// <https://openrouter.ai/docs/api-reference/overview>.
const OPENROUTER_ALONE: Names =
    &["deferred_tools", "plugins", "stop_server_tools_when", "transforms", "route"];

/// What Groq alone has. From the same source as its list.
const GROQ_ALONE: Names = &["compound_custom", "disable_tool_validation", "search_settings"];

/// What Alibaba's Qwen and its hosts have. Source: <https://www.alibabacloud.com/help/en/model-studio/use-qwen-by-calling-api>.
const QWEN_ALONE: Names = &["enable_thinking", "thinking_budget"];

/// Source: `ConverseRequest` in `bedrock-runtime/2023-09-30/service-2.json` of botocore 1.44.5, in both spellings.
const CONVERSE: Names = &[
    "inferenceConfig",
    "toolConfig",
    "guardrailConfig",
    "guardrail_config",
    "additionalModelRequestFields",
    "additional_model_request_fields",
    "promptVariables",
    "prompt_variables",
    "additionalModelResponseFieldPaths",
    "additional_model_response_field_paths",
    "requestMetadata",
    "request_metadata",
    "performanceConfig",
    "performance_config",
    "outputConfig",
];

/// What hosts of open models take besides OpenAI's members, though other vendors have it too. Source: the engines
/// that they run (<https://docs.vllm.ai/en/stable/serving/openai_compatible_server.html>, extra parameters).
const OPEN_MODELS: Names = &["top_k", "documents", "metadata", "thinking", "labels"];

/// The types of OpenAI's own tools that have no counterpart elsewhere. Source: `ToolParam` in
/// `types/responses/tool_param.py` of OpenAI's Python SDK 3.54. Not in the list: functions and web search.
pub(crate) const OPENAI_TOOLS: Names = &[
    "file_search",
    "computer",
    "computer_use_preview",
    "mcp",
    "code_interpreter",
    "programmatic_tool_calling",
    "image_generation",
    "local_shell",
    "shell",
    "custom",
    "namespace",
    "tool_search",
    "apply_patch",
];

/// What OpenAI's functions have besides name, description, parameters and `strict`, and Anthropic's tools have not.
/// Sources: `types/responses/function_tool_param.py` of the same SDK, `types/tool_param.py` of Anthropic's.
pub(crate) const OPENAI_FUNCTION_MEMBERS: Names = &["output_schema", "async"];

/// Every list.
const ALL: &[Names] = &[
    OPENAI,
    OPENAI_RESPONSES,
    ANTHROPIC,
    GEMINI,
    MISTRAL,
    COHERE,
    GROQ,
    CEREBRAS,
    CONVERSE,
    PERPLEXITY_ALONE,
    XAI_ALONE,
    OPENROUTER_ALONE,
    QWEN_ALONE,
];

/// Whether a vendor's chat requests have a member of this name.
pub fn is_listed(name: &str) -> bool {
    ALL.iter().any(|list| list.contains(&name))
}

/// Which members a vendor takes, as far as that is known.
#[derive(Debug, Clone, Copy)]
pub struct VendorMembers {
    own: &'static [Names],
    /// Lists of other vendors, whose members it must not get.
    others: &'static [Names],
    /// Of its own lists, what it does not take here.
    without: Names,
}

impl VendorMembers {
    pub const OPENAI: VendorMembers = VendorMembers { own: &[OPENAI], others: ALL, without: &[] };
    pub const ANTHROPIC: VendorMembers = VendorMembers { own: &[ANTHROPIC], others: ALL, without: &[] };
    /// Anthropic's models at a cloud.
    pub(crate) const ANTHROPIC_IN_CLOUD: VendorMembers =
        VendorMembers { without: ANTHROPIC_AT_HOME, ..Self::ANTHROPIC };
    pub const GEMINI: VendorMembers = VendorMembers { own: &[GEMINI, &["store"]], others: ALL, without: &[] };
    pub const MISTRAL: VendorMembers = VendorMembers { own: &[MISTRAL], others: ALL, without: &[] };
    pub(crate) const COHERE: VendorMembers = VendorMembers { own: &[COHERE], others: ALL, without: &[] };
    pub(crate) const GROQ: VendorMembers = VendorMembers { own: &[GROQ], others: ALL, without: &[] };
    pub(crate) const CEREBRAS: VendorMembers = VendorMembers { own: &[CEREBRAS], others: ALL, without: &[] };
    /// A model on Bedrock that is none of the vendors above.
    pub(crate) const BEDROCK: VendorMembers = VendorMembers { own: &[], others: ALL, without: &[] };
    /// A model on Bedrock whose vendor is not known: the parameters that any model there takes as an additional field.
    pub(crate) const UNKNOWN_ON_BEDROCK: VendorMembers = VendorMembers {
        own: &[ANTHROPIC, COHERE, MISTRAL, OPEN_MODELS, QWEN_ALONE],
        others: ALL,
        without: &[],
    };
    /// A host of open models: it takes OpenAI's members and the parameters of its engine, which carry the names of
    /// several vendors.
    pub(crate) const OPEN_MODELS: VendorMembers = VendorMembers {
        own: &[OPEN_MODELS],
        // Not Mistral's and Cohere's, whose models such hosts serve too.
        others: &[
            OPENAI_ALONE,
            AGENTS_ALONE,
            ANTHROPIC_ALONE,
            GEMINI,
            CONVERSE,
            PERPLEXITY_ALONE,
            XAI_ALONE,
            OPENROUTER_ALONE,
            GROQ_ALONE,
        ],
        without: &[],
    };
    pub(crate) const PERPLEXITY: VendorMembers =
        VendorMembers { own: &[OPEN_MODELS, PERPLEXITY_ALONE], ..Self::OPEN_MODELS };
    pub(crate) const XAI: VendorMembers =
        VendorMembers { own: &[OPEN_MODELS, XAI_ALONE], ..Self::OPEN_MODELS };
    /// Whatever runs behind OpenAI's provider at a host of the operator's: OpenAI itself, or an engine.
    pub const CUSTOM_HOST: VendorMembers = VendorMembers {
        own: &[OPENAI, OPEN_MODELS],
        others: &[ANTHROPIC_ALONE, GEMINI, CONVERSE],
        without: &[],
    };
    /// A router to other vendors: it gets everything.
    pub const ANY: VendorMembers = VendorMembers { own: &[], others: &[], without: &[] };

    /// Whether a member belongs to another vendor's API and not to this one's; then its name as listed.
    pub fn foreign(&self, name: &[u8]) -> Option<&'static str> {
        let is_named = |own: &&&'static str| own.as_bytes() == name;
        if let Some(missing) = self.without.iter().find(is_named) {
            return Some(missing);
        }
        let find = |lists: &[Names]| lists.iter().find_map(|list| list.iter().find(is_named).copied());
        match find(self.own) {
            Some(_) => None,
            None => find(self.others),
        }
    }
}

/// What Anthropic has and neither OpenAI nor a host of open models.
const ANTHROPIC_ALONE: Names = &[
    "system",
    "stop_sequences",
    "output_config",
    "output_format",
    "cache_control",
    "container",
    "context_management",
    "mcp_servers",
    "speed",
    "inference_geo",
    "diagnostics",
    "compaction",
    "thread",
    "billing_policy",
    "fallbacks",
    "fallback_credit_token",
    "user_profile_id",
    "workspace_id",
    "betas",
    "anthropic_beta",
    "anthropic_version",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_is_foreign_where_only_others_have_it() {
        let cases = [
            (VendorMembers::OPENAI, "top_k", true),
            (VendorMembers::OPENAI, "container", true),
            (VendorMembers::OPENAI, "safety_settings", true),
            (VendorMembers::OPENAI, "verbosity", false),
            (VendorMembers::OPENAI, "a_new_one", false),
            (VendorMembers::ANTHROPIC, "prompt_cache_options", true),
            (VendorMembers::ANTHROPIC, "top_k", false),
            (VendorMembers::ANTHROPIC, "context_management", false),
            (VendorMembers::ANTHROPIC, "speed", false),
            (VendorMembers::ANTHROPIC_IN_CLOUD, "speed", true),
            (VendorMembers::ANTHROPIC_IN_CLOUD, "mcp_servers", true),
            (VendorMembers::ANTHROPIC_IN_CLOUD, "context_management", false),
            (VendorMembers::ANTHROPIC_IN_CLOUD, "top_k", false),
            (VendorMembers::OPEN_MODELS, "client_metadata", true),
            (VendorMembers::ANTHROPIC, "client_metadata", true),
            (VendorMembers::MISTRAL, "top_k", false),
            (VendorMembers::MISTRAL, "moderation", true),
            (VendorMembers::COHERE, "documents", false),
            (VendorMembers::CEREBRAS, "top_k", true),
            (VendorMembers::OPEN_MODELS, "top_k", false),
            (VendorMembers::OPEN_MODELS, "min_p", false),
            (VendorMembers::OPEN_MODELS, "store", false),
            (VendorMembers::OPEN_MODELS, "moderation", true),
            (VendorMembers::OPEN_MODELS, "container", true),
            (VendorMembers::OPEN_MODELS, "generationConfig", true),
            (VendorMembers::OPEN_MODELS, "speed", true),
            (VendorMembers::OPEN_MODELS, "thread", true),
            (VendorMembers::CUSTOM_HOST, "speed", true),
            (VendorMembers::CUSTOM_HOST, "thread", true),
            (VendorMembers::UNKNOWN_ON_BEDROCK, "moderation", true),
            (VendorMembers::UNKNOWN_ON_BEDROCK, "safety_settings", true),
            (VendorMembers::UNKNOWN_ON_BEDROCK, "context_management", false),
            (VendorMembers::UNKNOWN_ON_BEDROCK, "safe_prompt", false),
            (VendorMembers::UNKNOWN_ON_BEDROCK, "a_new_one", false),
            (VendorMembers::ANY, "container", false),
            (VendorMembers::ANTHROPIC, "search_domain_filter", true),
            (VendorMembers::OPENAI, "search_parameters", true),
            (VendorMembers::GROQ, "transforms", true),
            (VendorMembers::GROQ, "compound_custom", false),
            (VendorMembers::MISTRAL, "enable_thinking", true),
            (VendorMembers::OPEN_MODELS, "enable_thinking", false),
            (VendorMembers::OPEN_MODELS, "search_domain_filter", true),
            (VendorMembers::OPEN_MODELS, "safe_prompt", false),
            (VendorMembers::PERPLEXITY, "search_domain_filter", false),
            (VendorMembers::PERPLEXITY, "search_parameters", true),
            (VendorMembers::XAI, "search_parameters", false),
            (VendorMembers::XAI, "return_images", true),
            (VendorMembers::CUSTOM_HOST, "search_domain_filter", false),
        ];
        for (members, name, foreign) in cases {
            assert_eq!(members.foreign(name.as_bytes()).is_some(), foreign, "{members:?} {name}");
        }
    }

    #[test]
    fn no_list_names_a_member_twice() {
        for list in ALL.iter().chain([&OPENAI_ALONE, &ANTHROPIC_ALONE, &GROQ_ALONE, &OPEN_MODELS]) {
            let mut names = list.to_vec();
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), list.len(), "{list:?}");
        }
        let is_listed = |list: Names, name: &&str| list.contains(name);
        assert!(OPENAI_ALONE.iter().all(|name| is_listed(OPENAI, name)));
        assert!(ANTHROPIC_ALONE.iter().all(|name| is_listed(ANTHROPIC, name)));
        assert!(GROQ_ALONE.iter().all(|name| is_listed(GROQ, name)));
        // What others have too, or hosts of open models in Anthropic's sense.
        let shared = |name: &&&str| {
            let others = [OPENAI, OPEN_MODELS, MISTRAL, COHERE, GROQ, CEREBRAS];
            others.iter().any(|list| list.contains(name))
        };
        let missing = ANTHROPIC.iter().filter(|name| !ANTHROPIC_ALONE.contains(name) && !shared(name));
        assert_eq!(missing.collect::<Vec<_>>(), Vec::<&&str>::new());
    }
}
