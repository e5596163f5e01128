//! The list of providers that speak OpenAI's shape: one spec each.
//!
//! Data only; `spec` explains the fields. Where a vendor has an international and a Chinese address, the spec
//! has the international one and its note the other. Closed services stay listed as long as Portkey
//! lists them, with a note, so that their ids work with a custom host.
//!
//! A new vendor is one spec here and one fixture, `tests/golden/<id>/address.json`; `UPDATE_GOLDEN=1 cargo
//! test provider` rewrites `docs/providers.md`.

use super::batch_jobs::fireworks::{self as fireworks_jobs, FireworksJobs};
use super::batch_jobs::mistral::MistralJobs;
use super::batch_jobs::together::TogetherJobs;
use super::embeddings::PROMPT_TOKENS;
use super::fine_tuning::{files, fireworks, mistral, together};
use super::key::Key;
use super::openai_chat::{OPENAI_OR_ENGINE, Rule, quirks};
use super::openai_responses::OpenAiResponses;
use super::rerank;
use super::rescue::prefill;
use super::self_hosted;
use super::spec::{CustomHost, Host, NativeApi, ProviderSpec, Value};
use words::api::operation::Operation;

/// Finds a spec by id or alias.
pub fn find(id: &str) -> Option<&'static ProviderSpec> {
    SPECS.iter().find(|spec| spec.id == id || spec.aliases.contains(&id))
}

/// Every id and alias.
pub fn names() -> impl Iterator<Item = &'static str> {
    SPECS.iter().flat_map(|spec| [spec.id].into_iter().chain(spec.aliases.iter().copied()))
}

/// The source of facts that only Portkey's list of providers states.
const PORTKEY: &str = "https://github.com/Portkey-AI/gateway";

/// OpenAI, then vendors of models, hosts of open models, clouds, self-hosted servers, and vendors of other
/// services whose paths are only passed on.
pub(crate) static SPECS: &[ProviderSpec] = &[
    ProviderSpec {
        id: "openai",
        host: Host::Fixed("https://api.openai.com"),
        headers: &[("openai-organization", Value::Organization), ("openai-project", Value::Project)],
        chat: Some(&OPENAI_OR_ENGINE),
        chat_patch: None,
        native_apis: &[
            NativeApi::Completions,
            NativeApi::StoredResponses,
            NativeApi::InputTokens,
            NativeApi::Compaction,
            NativeApi::CompactionTriggers,
        ],
        responses_chat: Some(&OpenAiResponses),
        note: "provider_organization and provider_project become headers",
        source: "https://platform.openai.com/docs/api-reference/authentication",
        ..ProviderSpec::PLAIN
    },
    // Vendors of models.
    ProviderSpec {
        id: "mistral-ai",
        aliases: &["mistral"],
        host: Host::Fixed("https://api.mistral.ai"),
        chat: Some(&quirks::MISTRAL),
        prefill: prefill::mistral,
        fine_tuning: Some(&mistral::JOBS),
        files: Some(&files::MISTRAL),
        rules: &[
            (Operation::Embeddings, "dimensions", Rule::Name("output_dimension")),
            (Operation::Embeddings, "user", Rule::Drop),
        ],
        batch_jobs: Some(&MistralJobs),
        source: "https://docs.mistral.ai/api",
        ..ProviderSpec::PLAIN
    },
    ProviderSpec {
        id: "deepseek",
        host: Host::Fixed("https://api.deepseek.com"),
        prefix: "",
        other_prefixes: &[(Operation::Completions, "/beta"), (Operation::Messages, "/anthropic/v1")],
        custom_host: CustomHost::Prefixed("/v1"),
        chat: Some(&quirks::DEEPSEEK),
        native_apis: &[NativeApi::Messages, NativeApi::Completions, NativeApi::Responses],
        note: "completions (fill in the middle) are under /beta, messages under /anthropic/v1",
        source: "https://api-docs.deepseek.com",
        ..ProviderSpec::PLAIN
    },
    ProviderSpec {
        id: "x-ai",
        aliases: &["xai"],
        host: Host::Fixed("https://api.x.ai"),
        chat: Some(&quirks::XAI),
        // Compaction: <https://docs.x.ai/developers/advanced-api-usage/context-compaction>.
        native_apis: &[NativeApi::Completions, NativeApi::StoredResponses, NativeApi::Compaction],
        source: "https://docs.x.ai/developers/rest-api-reference/inference",
        ..ProviderSpec::PLAIN
    },
    ProviderSpec {
        id: "perplexity-ai",
        aliases: &["perplexity"],
        host: Host::Fixed("https://api.perplexity.ai"),
        prefix: "",
        other_prefixes: &[(Operation::Responses, "/v1"), (Operation::Embeddings, "/v1")],
        chat: Some(&quirks::PERPLEXITY),
        native_apis: &[NativeApi::StoredResponses],
        note: "chat is at the root, responses and embeddings under /v1",
        source: "https://docs.perplexity.ai/docs/sonar/openai-compatibility",
        ..ProviderSpec::PLAIN
    },
    ProviderSpec {
        id: "moonshot",
        aliases: &["kimi"],
        host: Host::Fixed("https://api.moonshot.ai"),
        other_prefixes: &[(Operation::Messages, "/anthropic/v1")],
        custom_host: CustomHost::Prefixed("/v1"),
        chat: Some(&quirks::MOONSHOT),
        native_apis: &[NativeApi::Messages],
        note: "China: https://api.moonshot.cn",
        source: "https://platform.kimi.ai/docs/api/overview",
        ..ProviderSpec::PLAIN
    },
    ProviderSpec {
        id: "zhipu",
        host: Host::Fixed("https://open.bigmodel.cn"),
        prefix: "/api/paas/v4",
        chat: Some(&quirks::ZAI),
        other_prefixes: &[(Operation::Messages, "/api/anthropic/v1")],
        native_apis: &[NativeApi::Messages],
        note: "the Chinese platform; z-ai is the international one",
        source: "https://docs.bigmodel.cn",
        ..ProviderSpec::PLAIN
    },
    ProviderSpec {
        id: "z-ai",
        aliases: &["zai"],
        host: Host::Fixed("https://api.z.ai"),
        prefix: "/api/paas/v4",
        other_prefixes: &[(Operation::Messages, "/api/anthropic/v1")],
        chat: Some(&quirks::ZAI),
        native_apis: &[NativeApi::Messages],
        note: "China: zhipu; coding plan: custom_host https://api.z.ai/api/coding/paas/v4",
        source: "https://docs.z.ai/api-reference/introduction",
        ..ProviderSpec::PLAIN
    },
    ProviderSpec {
        id: "dashscope",
        aliases: &["qwen"],
        host: Host::Fixed("https://dashscope-intl.aliyuncs.com"),
        prefix: "/compatible-mode/v1",
        chat: Some(&quirks::DASHSCOPE),
        other_prefixes: &[(Operation::Messages, "/apps/anthropic/v1")],
        native_apis: &[NativeApi::Messages, NativeApi::StoredResponses],
        note: "Singapore; keys are bound to a region. Workspace domains \
               (https://{WorkspaceId}.ap-southeast-1.maas.aliyuncs.com/compatible-mode/v1) and China \
               (https://dashscope.aliyuncs.com/compatible-mode/v1): custom_host",
        source: "https://www.alibabacloud.com/help/en/model-studio/compatibility-of-openai-with-dashscope",
        ..ProviderSpec::PLAIN
    },
    ProviderSpec {
        id: "minimax",
        host: Host::Fixed("https://api.minimax.io"),
        other_prefixes: &[(Operation::Messages, "/anthropic/v1")],
        chat: Some(&quirks::NEW_LIMIT),
        native_apis: &[NativeApi::Messages],
        note: "China: https://api.minimaxi.com/v1",
        source: "https://platform.minimax.io/docs/guides/text-generation",
        ..ProviderSpec::PLAIN
    },
    ProviderSpec {
        id: "ai21",
        host: Host::Fixed("https://api.ai21.com"),
        prefix: "/studio/v1",
        chat: Some(&quirks::OLD_LIMIT),
        note: "Jamba's chat/completions; the older /{model}/chat is for retired models",
        source: "https://docs.ai21.com/reference/jamba-1-6-api-ref",
        ..ProviderSpec::PLAIN
    },
    ProviderSpec {
        id: "upstage",
        host: Host::Fixed("https://api.upstage.ai"),
        chat: Some(&quirks::OLD_LIMIT),
        note: "/v1/solar is the older base",
        source: "https://console.upstage.ai/api-keys?api=chat-reasoning",
        ..ProviderSpec::PLAIN
    },
    ProviderSpec {
        id: "lingyi",
        host: Host::Fixed("https://api.lingyiwanwu.com"),
        custom_host: CustomHost::Prefixed("/v1"),
        chat: Some(&quirks::OLD_LIMIT),
        source: PORTKEY,
        ..ProviderSpec::PLAIN
    },
    ProviderSpec {
        id: "krutrim",
        host: Host::Fixed("https://cloud.olakrutrim.com"),
        source: PORTKEY,
        ..ProviderSpec::PLAIN
    },
    ProviderSpec {
        id: "jina",
        host: Host::Fixed("https://api.jina.ai"),
        chat: None,
        note: "embeddings and rerank",
        source: "https://jina.ai/embeddings",
        ..ProviderSpec::PLAIN
    },
    ProviderSpec {
        id: "voyage",
        host: Host::Fixed("https://api.voyageai.com"),
        chat: None,
        rules: &[
            (Operation::Embeddings, "dimensions", Rule::Name("output_dimension")),
            (Operation::Embeddings, "encoding_format", Rule::DropValue("float")),
            (Operation::Embeddings, "user", Rule::Drop),
        ],
        rerank: Some(&rerank::VOYAGE),
        embeddings_patch: Some(&PROMPT_TOKENS),
        note: "embeddings and rerank",
        source: "https://docs.voyageai.com/reference/embeddings-api",
        ..ProviderSpec::PLAIN
    },
    ProviderSpec {
        id: "recraft-ai",
        host: Host::Fixed("https://external.api.recraft.ai"),
        chat: None,
        note: "images",
        source: PORTKEY,
        ..ProviderSpec::PLAIN
    },
    // Hosts of open models.
    ProviderSpec {
        id: "groq",
        host: Host::Fixed("https://api.groq.com"),
        prefix: "/openai/v1",
        chat: Some(&quirks::GROQ),
        native_apis: &[NativeApi::Responses],
        source: "https://console.groq.com/docs/openai",
        ..ProviderSpec::PLAIN
    },
    ProviderSpec {
        id: "together-ai",
        aliases: &["together"],
        host: Host::Fixed("https://api.together.ai"),
        custom_host: CustomHost::Prefixed("/v1"),
        chat: Some(&quirks::TOGETHER),
        fine_tuning: Some(&together::JOBS),
        files: Some(&files::TOGETHER),
        native_apis: &[NativeApi::Completions],
        batch_jobs: Some(&TogetherJobs),
        note: "older address: https://api.together.xyz",
        source: "https://docs.together.ai/docs/inference/openai-compatibility",
        ..ProviderSpec::PLAIN
    },
    ProviderSpec {
        id: "fireworks-ai",
        aliases: &["fireworks"],
        host: Host::Fixed("https://api.fireworks.ai"),
        prefix: "/inference/v1",
        chat: Some(&quirks::FIREWORKS),
        rerank: Some(&rerank::FIREWORKS),
        fine_tuning: Some(&fireworks::JOBS),
        native_apis: &[NativeApi::Messages, NativeApi::Completions, NativeApi::StoredResponses],
        batch_jobs: Some(&FireworksJobs),
        other_hosts: fireworks_jobs::HOSTS,
        note: "control API: custom_host https://api.fireworks.ai/v1",
        source: "https://docs.fireworks.ai/tools-sdks/openai-compatibility",
        ..ProviderSpec::PLAIN
    },
    ProviderSpec {
        id: "openrouter",
        host: Host::Fixed("https://openrouter.ai"),
        prefix: "/api/v1",
        custom_host: CustomHost::Prefixed("/v1"),
        chat: Some(&quirks::OPENROUTER),
        prefill: prefill::openrouter,
        native_apis: &[NativeApi::Messages, NativeApi::Completions, NativeApi::Responses],
        source: "https://openrouter.ai/docs/quickstart",
        ..ProviderSpec::PLAIN
    },
    ProviderSpec {
        id: "cerebras",
        host: Host::Fixed("https://api.cerebras.ai"),
        headers: &[("user-agent", Value::Default("turnpike"))],
        chat: Some(&quirks::CEREBRAS),
        native_apis: &[NativeApi::Completions],
        note: "requires a User-Agent",
        source: "https://inference-docs.cerebras.ai/resources/openai",
        ..ProviderSpec::PLAIN
    },
    ProviderSpec {
        id: "sambanova",
        host: Host::Fixed("https://api.sambanova.ai"),
        custom_host: CustomHost::Prefixed("/v1"),
        native_apis: &[NativeApi::Completions],
        source: "https://docs.sambanova.ai/docs/en/features/openai-compatibility",
        ..ProviderSpec::PLAIN
    },
    ProviderSpec {
        id: "nvidia",
        aliases: &["nim"],
        host: Host::Fixed("https://integrate.api.nvidia.com"),
        chat: Some(&quirks::THINKING_HOST),
        note: "the hosted catalogue; your own NIM: custom_host http://host:8000/v1",
        source: "https://docs.api.nvidia.com/nim/reference/llm-apis",
        ..ProviderSpec::PLAIN
    },
    ProviderSpec {
        id: "huggingface",
        aliases: &["hf"],
        host: Host::Fixed("https://router.huggingface.co"),
        custom_host: CustomHost::Prefixed("/v1"),
        chat: Some(&quirks::OLD_LIMIT),
        native_apis: &[NativeApi::Responses],
        note: "the router; a dedicated endpoint: custom_host",
        source: "https://huggingface.co/docs/inference-providers/index",
        ..ProviderSpec::PLAIN
    },
    ProviderSpec {
        id: "deepinfra",
        host: Host::Fixed("https://api.deepinfra.com"),
        prefix: "/v1/openai",
        chat: Some(&quirks::THINKING_HOST),
        native_apis: &[NativeApi::Completions],
        source: "https://deepinfra.com/docs/advanced/openai_api",
        ..ProviderSpec::PLAIN
    },
    ProviderSpec {
        id: "novita-ai",
        aliases: &["novita"],
        host: Host::Fixed("https://api.novita.ai"),
        prefix: "/openai/v1",
        other_prefixes: &[(Operation::Messages, "/anthropic/v1")],
        custom_host: CustomHost::Prefixed("/v1"),
        chat: Some(&quirks::THINKING_HOST),
        native_apis: &[NativeApi::Messages, NativeApi::Completions],
        note: "/v3/openai is the older base",
        source: "https://novita.ai/docs/guides/llm-api",
        ..ProviderSpec::PLAIN
    },
    ProviderSpec {
        id: "hyperbolic",
        host: Host::Fixed("https://api.hyperbolic.xyz"),
        custom_host: CustomHost::Prefixed("/v1"),
        chat: Some(&quirks::OLD_LIMIT),
        source: "https://docs.hyperbolic.xyz",
        ..ProviderSpec::PLAIN
    },
    ProviderSpec {
        id: "nebius",
        host: Host::Fixed("https://api.tokenfactory.nebius.com"),
        native_apis: &[NativeApi::Completions],
        note: "Token Factory, formerly AI Studio (https://api.studio.nebius.ai/v1)",
        source: "https://docs.tokenfactory.nebius.com/api-reference/introduction",
        ..ProviderSpec::PLAIN
    },
    ProviderSpec {
        id: "siliconflow",
        host: Host::Fixed("https://api.siliconflow.com"),
        chat: Some(&quirks::THINKING_HOST),
        note: "China: https://api.siliconflow.cn/v1",
        source: "https://docs.siliconflow.com/en/api-reference/chat-completions/chat-completions",
        ..ProviderSpec::PLAIN
    },
    ProviderSpec {
        id: "inference-net",
        host: Host::Fixed("https://api.inference.net"),
        source: "https://docs.inference.net",
        ..ProviderSpec::PLAIN
    },
    ProviderSpec {
        id: "featherless-ai",
        aliases: &["featherless"],
        host: Host::Fixed("https://api.featherless.ai"),
        chat: Some(&quirks::OLD_LIMIT),
        native_apis: &[NativeApi::Completions],
        source: "https://featherless.ai/docs",
        ..ProviderSpec::PLAIN
    },
    ProviderSpec {
        id: "friendli",
        host: Host::Fixed("https://api.friendli.ai"),
        prefix: "/serverless/v1",
        native_apis: &[NativeApi::Completions],
        note: "dedicated endpoints: custom_host https://api.friendli.ai/dedicated/v1",
        source: "https://friendli.ai/docs/openapi/model-apis/chat-completions",
        ..ProviderSpec::PLAIN
    },
    ProviderSpec {
        id: "predibase",
        host: Host::Fixed("https://serving.app.predibase.com"),
        prefix: "/{resource_name}/deployments/v2/llms/{deployment}/v1",
        custom_host: CustomHost::Prefixed("/{resource_name}/deployments/v2/llms/{deployment}/v1"),
        chat: Some(&quirks::OLD_LIMIT),
        native_apis: &[NativeApi::Completions],
        note: "resource_name is the tenant; the deployment is deployment_id, or else the model up to a colon",
        source: "https://docs.predibase.com/user-guide/inference/migrate-openai",
        ..ProviderSpec::PLAIN
    },
    ProviderSpec {
        id: "ovhcloud",
        host: Host::Fixed("https://oai.endpoints.kepler.ai.cloud.ovh.net"),
        key: Key::OPTIONAL,
        note: "without a key: the free tier",
        source: "https://ovh.github.io/apache-airflow-provider-ovhcloud-ai/ai-endpoints",
        ..ProviderSpec::PLAIN
    },
    ProviderSpec {
        id: "iointelligence",
        host: Host::Fixed("https://api.intelligence.io.solutions"),
        prefix: "/api/v1",
        source: "https://io.net/docs/guides/intelligence/io-intelligence",
        ..ProviderSpec::PLAIN
    },
    ProviderSpec {
        id: "nscale",
        host: Host::Fixed("https://inference.api.nscale.com"),
        source: "https://docs.nscale.com/docs/inference/serverless-models/overview",
        ..ProviderSpec::PLAIN
    },
    ProviderSpec {
        id: "ncompass",
        host: Host::Fixed("https://api.ncompass.tech"),
        source: PORTKEY,
        ..ProviderSpec::PLAIN
    },
    ProviderSpec {
        id: "kluster-ai",
        host: Host::Fixed("https://api.kluster.ai"),
        source: PORTKEY,
        ..ProviderSpec::PLAIN
    },
    ProviderSpec {
        id: "nextbit",
        host: Host::Fixed("https://api.nextbit256.com"),
        native_apis: &[NativeApi::Completions],
        source: PORTKEY,
        ..ProviderSpec::PLAIN
    },
    ProviderSpec {
        id: "matterai",
        host: Host::Fixed("https://api.matterai.so"),
        source: PORTKEY,
        ..ProviderSpec::PLAIN
    },
    ProviderSpec {
        id: "cometapi",
        host: Host::Fixed("https://api.cometapi.com"),
        source: PORTKEY,
        ..ProviderSpec::PLAIN
    },
    ProviderSpec {
        id: "lemonfox-ai",
        host: Host::Fixed("https://api.lemonfox.ai"),
        source: PORTKEY,
        ..ProviderSpec::PLAIN
    },
    ProviderSpec {
        id: "monsterapi",
        host: Host::Fixed("https://llm.monsterapi.ai"),
        source: PORTKEY,
        ..ProviderSpec::PLAIN
    },
    ProviderSpec {
        id: "302ai",
        host: Host::Fixed("https://api.302.ai"),
        custom_host: CustomHost::Prefixed("/v1"),
        source: PORTKEY,
        ..ProviderSpec::PLAIN
    },
    ProviderSpec {
        id: "aibadgr",
        host: Host::Fixed("https://aibadgr.com"),
        prefix: "/api/v1",
        source: PORTKEY,
        ..ProviderSpec::PLAIN
    },
    ProviderSpec {
        id: "deepbricks",
        host: Host::Fixed("https://api.deepbricks.ai"),
        headers: &[("deepbricks-organization", Value::Organization), ("deepbricks-project", Value::Project)],
        source: PORTKEY,
        ..ProviderSpec::PLAIN
    },
    ProviderSpec {
        id: "lambda",
        host: Host::Fixed("https://api.lambda.ai"),
        native_apis: &[NativeApi::Completions],
        note: "closed by Lambda on 25 September 2025; kept for custom hosts",
        source: "https://docs.lambda.ai/public-cloud/lambda-inference-api",
        ..ProviderSpec::PLAIN
    },
    ProviderSpec {
        id: "anyscale",
        host: Host::Fixed("https://api.endpoints.anyscale.com"),
        chat: Some(&quirks::OLD_LIMIT),
        native_apis: &[NativeApi::Completions],
        note: "public access ended on 1 August 2024; kept for custom hosts",
        source: "https://docs.anyscale.com/endpoints/text-generation/deprecations",
        ..ProviderSpec::PLAIN
    },
    ProviderSpec {
        id: "github",
        aliases: &["github-models"],
        host: Host::Fixed("https://models.github.ai"),
        prefix: "/inference",
        native_apis: &[NativeApi::Completions],
        note: "GitHub retired GitHub Models on 30 July 2026; kept for custom hosts",
        source: "https://github.blog/changelog/2025-07-17-deprecation-of-azure-endpoint-for-github-models",
        ..ProviderSpec::PLAIN
    },
    // Clouds.
    ProviderSpec {
        id: "databricks",
        host: Host::Below(&[
            "cloud.databricks.com",
            "azuredatabricks.net",
            "gcp.databricks.com",
            "databricks.azure.us",
            "databricks.azure.cn",
        ]),
        prefix: "/serving-endpoints",
        chat: Some(&quirks::DATABRICKS),
        note: "resource_name is the workspace (dbc-1, or the whole host adb-1.2.azuredatabricks.net)",
        source: "https://docs.databricks.com/machine-learning/model-serving/score-foundation-models",
        ..ProviderSpec::PLAIN
    },
    ProviderSpec {
        id: "snowflake",
        aliases: &["cortex"],
        host: Host::Below(&["snowflakecomputing.com", "snowflakecomputing.cn"]),
        prefix: "/api/v2/cortex/v1",
        chat: Some(&quirks::SNOWFLAKE),
        note: "resource_name is the account identifier. Snowflake recognizes the kind of token; a client's \
               X-Snowflake-Authorization-Token-Type is forwarded, the gateway adds none",
        source: "https://docs.snowflake.com/en/user-guide/snowflake-cortex/cortex-rest-api",
        ..ProviderSpec::PLAIN
    },
    // Self-hosted servers.
    self_hosted::OLLAMA,
    self_hosted::VLLM,
    self_hosted::LMSTUDIO,
    self_hosted::LLAMACPP,
    self_hosted::LITELLM,
    self_hosted::MODAL,
    self_hosted::LEPTON,
    self_hosted::TRITON,
    // Other services: paths are passed on unchanged.
    ProviderSpec {
        id: "replicate",
        host: Host::Fixed("https://api.replicate.com"),
        chat: None,
        note: "its own API: predictions, models",
        source: "https://replicate.com/docs/reference/http",
        ..ProviderSpec::PLAIN
    },
    ProviderSpec {
        id: "meshy",
        host: Host::Fixed("https://api.meshy.ai"),
        prefix: "/openapi/v1",
        chat: None,
        note: "its own API; text-to-3d is in v2: custom_host https://api.meshy.ai/openapi/v2",
        source: PORTKEY,
        ..ProviderSpec::PLAIN
    },
    ProviderSpec {
        id: "tripo3d",
        host: Host::Fixed("https://api.tripo3d.ai"),
        prefix: "/v2/openapi",
        chat: None,
        note: "its own API",
        source: PORTKEY,
        ..ProviderSpec::PLAIN
    },
    ProviderSpec {
        id: "milvus",
        key: Key::OPTIONAL,
        note: "its own API",
        source: PORTKEY,
        chat: None,
        ..ProviderSpec::PLAIN
    },
    ProviderSpec {
        id: "qdrant",
        key: Key { header: "api-key", prefix: "", required: false },
        chat: None,
        note: "its own API; the key is sent without a scheme",
        source: "https://qdrant.tech/documentation/operations/security/",
        ..ProviderSpec::PLAIN
    },
];
