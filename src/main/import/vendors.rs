//! The providers by the names that LiteLLM, Bifrost and Kong give them, and what they are here.
//!
//! Not here: what an account of one needs (`litellm::account`, `bifrost::account`).

/// A provider of another gateway.
pub struct Vendor {
    /// Its names there.
    pub names: &'static [&'static str],
    /// Its id here (docs/providers.md).
    pub id: &'static str,
    /// The variable that LiteLLM takes the key from where the file has none.
    pub key: &'static str,
    /// Where it is, if it has no id of its own here and speaks OpenAI's API, or has no address by itself.
    pub host: Option<&'static str>,
    /// It speaks OpenAI's API at an address of the operator's own, and nowhere else.
    pub needs_host: bool,
}

impl Vendor {
    /// The variable of its base URL, such as `GROQ_API_BASE`.
    pub fn base_variable(&self) -> String {
        self.key.replace("_API_KEY", "_API_BASE")
    }
}

const fn vendor(names: &'static [&'static str], id: &'static str, key: &'static str) -> Vendor {
    Vendor { names, id, key, host: None, needs_host: false }
}

/// One that speaks OpenAI's API and is known here by its address only.
const fn at(names: &'static [&'static str], key: &'static str, host: &'static str) -> Vendor {
    Vendor { names, id: "openai", key, host: Some(host), needs_host: false }
}

/// A server of the operator's own that speaks OpenAI's API.
const fn hosted(names: &'static [&'static str], key: &'static str) -> Vendor {
    Vendor { names, id: "openai", key, host: None, needs_host: true }
}

const VENDORS: &[Vendor] = &[
    vendor(&["openai", "text-completion-openai", "custom_openai", "openai_like"], "openai", "OPENAI_API_KEY"),
    vendor(&["azure", "azure_text"], "azure-openai", "AZURE_API_KEY"),
    vendor(&["azure_ai"], "azure-ai", "AZURE_AI_API_KEY"),
    vendor(&["anthropic", "anthropic_text"], "anthropic", "ANTHROPIC_API_KEY"),
    vendor(&["bedrock", "bedrock_converse"], "bedrock", "AWS_BEARER_TOKEN_BEDROCK"),
    vendor(&["vertex_ai", "vertex_ai_beta", "vertex"], "vertex-ai", "VERTEX_API_KEY"),
    vendor(&["gemini", "google"], "google", "GEMINI_API_KEY"),
    vendor(&["mistral", "mistralai"], "mistral-ai", "MISTRAL_API_KEY"),
    at(&["codestral", "text-completion-codestral"], "CODESTRAL_API_KEY", "https://codestral.mistral.ai/v1"),
    vendor(&["groq"], "groq", "GROQ_API_KEY"),
    vendor(&["cohere", "cohere_chat"], "cohere", "COHERE_API_KEY"),
    vendor(&["deepseek"], "deepseek", "DEEPSEEK_API_KEY"),
    vendor(&["together_ai", "together"], "together-ai", "TOGETHERAI_API_KEY"),
    vendor(&["openrouter"], "openrouter", "OPENROUTER_API_KEY"),
    Vendor {
        names: &["ollama", "ollama_chat"],
        id: "ollama",
        key: "OLLAMA_API_KEY",
        host: Some("http://localhost:11434"),
        needs_host: false,
    },
    Vendor {
        names: &["lm_studio"],
        id: "lmstudio",
        key: "LM_STUDIO_API_KEY",
        host: Some("http://localhost:1234/v1"),
        needs_host: false,
    },
    Vendor {
        names: &["llamafile"],
        id: "llamacpp",
        key: "LLAMAFILE_API_KEY",
        host: Some("http://127.0.0.1:8080/v1"),
        needs_host: false,
    },
    vendor(&["hosted_vllm", "vllm"], "vllm", "HOSTED_VLLM_API_KEY"),
    hosted(&["sgl"], "SGL_API_KEY"),
    hosted(&["xinference"], "XINFERENCE_API_KEY"),
    hosted(&["lemonade"], "LEMONADE_API_KEY"),
    hosted(&["docker_model_runner"], "DOCKER_MODEL_RUNNER_API_KEY"),
    hosted(&["infinity"], "INFINITY_API_KEY"),
    vendor(&["litellm_proxy"], "litellm", "LITELLM_PROXY_API_KEY"),
    vendor(&["huggingface"], "huggingface", "HUGGINGFACE_API_KEY"),
    vendor(&["perplexity"], "perplexity-ai", "PERPLEXITYAI_API_KEY"),
    vendor(&["xai"], "x-ai", "XAI_API_KEY"),
    vendor(&["fireworks_ai", "fireworks"], "fireworks-ai", "FIREWORKS_AI_API_KEY"),
    vendor(&["cerebras"], "cerebras", "CEREBRAS_API_KEY"),
    vendor(&["sambanova"], "sambanova", "SAMBANOVA_API_KEY"),
    vendor(&["nvidia_nim"], "nvidia", "NVIDIA_NIM_API_KEY"),
    vendor(&["deepinfra"], "deepinfra", "DEEPINFRA_API_KEY"),
    vendor(&["databricks"], "databricks", "DATABRICKS_API_KEY"),
    vendor(&["replicate"], "replicate", "REPLICATE_API_KEY"),
    vendor(&["ai21", "ai21_chat"], "ai21", "AI21_API_KEY"),
    vendor(&["anyscale"], "anyscale", "ANYSCALE_API_KEY"),
    vendor(&["predibase"], "predibase", "PREDIBASE_API_KEY"),
    vendor(&["voyage"], "voyage", "VOYAGE_API_KEY"),
    vendor(&["jina_ai"], "jina", "JINA_AI_API_KEY"),
    vendor(&["cloudflare"], "workers-ai", "CLOUDFLARE_API_KEY"),
    vendor(&["friendliai"], "friendli", "FRIENDLIAI_API_KEY"),
    vendor(&["github"], "github", "GITHUB_API_KEY"),
    vendor(&["novita"], "novita-ai", "NOVITA_API_KEY"),
    vendor(&["nebius"], "nebius", "NEBIUS_API_KEY"),
    vendor(&["moonshot"], "moonshot", "MOONSHOT_API_KEY"),
    vendor(&["minimax"], "minimax", "MINIMAX_API_KEY"),
    vendor(&["zai"], "z-ai", "ZAI_API_KEY"),
    vendor(&["zhipu", "bigmodel"], "zhipu", "ZHIPU_API_KEY"),
    vendor(&["dashscope"], "dashscope", "DASHSCOPE_API_KEY"),
    vendor(&["hyperbolic"], "hyperbolic", "HYPERBOLIC_API_KEY"),
    vendor(&["lambda_ai"], "lambda", "LAMBDA_API_KEY"),
    vendor(&["nscale"], "nscale", "NSCALE_API_KEY"),
    vendor(&["featherless_ai"], "featherless-ai", "FEATHERLESS_AI_API_KEY"),
    vendor(&["siliconflow"], "siliconflow", "SILICONFLOW_API_KEY"),
    vendor(&["cometapi"], "cometapi", "COMETAPI_API_KEY"),
    vendor(&["ovhcloud"], "ovhcloud", "OVHCLOUD_API_KEY"),
    vendor(&["snowflake"], "snowflake", "SNOWFLAKE_JWT"),
    vendor(&["recraft"], "recraft-ai", "RECRAFT_API_KEY"),
    at(&["volcengine"], "VOLCENGINE_API_KEY", "https://ark.cn-beijing.volces.com/api/v3"),
    at(&["vercel_ai_gateway"], "VERCEL_AI_GATEWAY_API_KEY", "https://ai-gateway.vercel.sh/v1"),
    at(&["aiml"], "AIML_API_KEY", "https://api.aimlapi.com/v1"),
    at(&["meta_llama"], "LLAMA_API_KEY", "https://api.llama.com/compat/v1"),
    at(&["baseten"], "BASETEN_API_KEY", "https://inference.baseten.co/v1"),
    at(&["wandb"], "WANDB_API_KEY", "https://api.inference.wandb.ai/v1"),
    at(&["galadriel"], "GALADRIEL_API_KEY", "https://api.galadriel.com/v1"),
    at(&["inception"], "INCEPTION_API_KEY", "https://api.inceptionlabs.ai/v1"),
    at(&["parasail"], "PARASAIL_API_KEY", "https://api.parasail.io/v1"),
];

/// The provider of this name.
pub fn find(name: &str) -> Option<&'static Vendor> {
    VENDORS.iter().find(|vendor| vendor.names.contains(&name))
}

/// The provider that LiteLLM takes for a model without one, by how the model is called.
pub fn of_model(model: &str) -> Option<&'static Vendor> {
    const BEGINNINGS: &[(&str, &str)] = &[
        ("gpt-", "openai"),
        ("chatgpt-", "openai"),
        ("o1", "openai"),
        ("o3", "openai"),
        ("o4", "openai"),
        ("text-embedding-", "openai"),
        ("dall-e", "openai"),
        ("whisper", "openai"),
        ("tts-", "openai"),
        ("omni-moderation", "openai"),
        ("text-moderation", "openai"),
        ("davinci", "openai"),
        ("babbage", "openai"),
        ("ft:", "openai"),
        ("claude-", "anthropic"),
        ("gemini-", "vertex_ai"),
        ("textembedding-gecko", "vertex_ai"),
        ("command-", "cohere"),
        ("rerank-", "cohere"),
        ("embed-", "cohere"),
        ("anthropic.", "bedrock"),
        ("us.", "bedrock"),
        ("eu.", "bedrock"),
        ("global.", "bedrock"),
        ("amazon.", "bedrock"),
        ("meta.", "bedrock"),
        ("cohere.", "bedrock"),
        ("mistral.", "bedrock"),
        ("ai21.", "bedrock"),
        ("deepseek-", "deepseek"),
    ];
    let (_, name) = BEGINNINGS.iter().find(|(beginning, _)| model.starts_with(beginning))?;
    find(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_a_provider_and_each_name_stands_once() {
        let ids: Vec<_> = knowledge::provider::ids().collect();
        let mut names: Vec<_> = VENDORS.iter().flat_map(|vendor| vendor.names).collect();
        for vendor in VENDORS {
            assert!(ids.contains(&vendor.id), "{}", vendor.id);
        }
        let count = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), count);
        assert_eq!(of_model("gpt-4o").map(|vendor| vendor.id), Some("openai"));
        assert!(of_model("qwen").is_none() && find("nobody").is_none());
    }
}
