//! The settings most tests run on.
//!
//! Not the shipped `conf/turnpike.yaml`, which `tests/house.rs` loads: these have keys and saved configs that
//! tests refer to. `Ports::fill` inserts the ports.

/// The service key of the client in most tests, named `tests` in the access line.
pub(crate) const KEY: &str = "tp-tests-0123456789";
/// The service key of a second client, named `others`.
pub(crate) const OTHER_KEY: &str = "tp-others-0123456789";
/// The key of the control plane in every gateway whose settings have no `auth` of their own.
pub(crate) const OPERATOR_KEY: &str = "tp-operator-0123456789";
/// Prepended to settings without `auth:`. The key may not call, so the data port needs none.
pub(crate) const OPERATOR: &str = "
auth:
  keys:
    - {name: operator, key: tp-operator-0123456789, scopes: [administration]}
";
/// The provider key that the gateway sends to the emulator for `@emulator`.
pub(crate) const PROVIDER_KEY: &str = "sk-emulator-0123456789";

/// Listeners and the emulator. `Gateway::start` prepends them to settings without `listen:`.
pub(crate) const LISTEN: &str = "
listen:
  data: [127.0.0.1:DATA_PORT]
  control: 127.0.0.1:CONTROL_PORT
emulator:
  listen: 127.0.0.1:EMULATOR_PORT
";

/// Two keys, the emulator as six providers, all private hosts allowed, a few saved configs.
pub(crate) const STANDARD: &str = "
server:
  threads: 2
  grace_period_seconds: 5
auth:
  keys:
    - {name: tests, key: tp-tests-0123456789}
    - {name: others, key: tp-others-0123456789}
    - {name: operator, key: tp-operator-0123456789, scopes: [administration]}
providers:
  emulator:
    provider: openai
    api_key: sk-emulator-0123456789
    custom_host: http://127.0.0.1:EMULATOR_PORT/v1
  anthropic-emulator:
    provider: anthropic
    api_key: sk-emulator-0123456789
    custom_host: http://127.0.0.1:EMULATOR_PORT/v1
  together-emulator:
    provider: together-ai
    api_key: sk-emulator-0123456789
    custom_host: http://127.0.0.1:EMULATOR_PORT/v1
  google-emulator:
    provider: google
    api_key: sk-emulator-0123456789
    custom_host: http://127.0.0.1:EMULATOR_PORT
  bedrock-emulator:
    provider: bedrock
    cloud_a_access_key_id: AKIAEMULATOR
    cloud_a_secret_access_key: sk-emulator-0123456789
    cloud_a_region: us-east-1
    custom_host: http://127.0.0.1:EMULATOR_PORT
  cohere-emulator:
    provider: cohere
    api_key: sk-emulator-0123456789
    custom_host: http://127.0.0.1:EMULATOR_PORT
configs:
  cf-emulator:
    provider: '@emulator'
    retry: {attempts: 1}
  cf-single:
    strategy: {mode: single}
    targets: [{provider: '@emulator'}]
  cf-override:
    provider: '@emulator'
    override_params: {temperature: 0.25}
    retry: {attempts: 1}
  cf-fallback:
    strategy: {mode: fallback}
    targets: [{provider: '@emulator'}, {provider: '@anthropic-emulator'}]
custom_hosts:
  allow_private: true
";

/// The emulator as every provider whose dialect it speaks, and as some that differ from OpenAI in details, for clients that have
/// a base URL and a key only.
pub(crate) const MATRIX: &str = "
auth:
  keys:
    - {name: tests, key: tp-tests-0123456789}
providers:
  openai: {provider: openai, api_key: sk-emulator-0123456789, custom_host: 'http://127.0.0.1:EMULATOR_PORT/v1'}
  anthropic: {provider: anthropic, api_key: sk-emulator-0123456789, custom_host: 'http://127.0.0.1:EMULATOR_PORT/v1'}
  google: {provider: google, api_key: sk-emulator-0123456789, custom_host: 'http://127.0.0.1:EMULATOR_PORT'}
  vertex:
    provider: vertex-ai
    api_key: sk-emulator-0123456789
    cloud_b_project_id: demo
    cloud_b_region: global
    custom_host: http://127.0.0.1:EMULATOR_PORT
  bedrock:
    provider: bedrock
    cloud_a_access_key_id: AKIAEMULATOR
    cloud_a_secret_access_key: sk-emulator-0123456789
    cloud_a_region: us-east-1
    custom_host: http://127.0.0.1:EMULATOR_PORT
  cohere: {provider: cohere, api_key: sk-emulator-0123456789, custom_host: 'http://127.0.0.1:EMULATOR_PORT'}
  azure: {provider: azure-openai, api_key: sk-emulator-0123456789, custom_host: 'http://127.0.0.1:EMULATOR_PORT'}
  azure-dated:
    provider: azure-openai
    api_key: sk-emulator-0123456789
    api_version: '2024-10-21'
    custom_host: http://127.0.0.1:EMULATOR_PORT
  foundry: {provider: azure-ai, api_key: sk-emulator-0123456789, custom_host: 'http://127.0.0.1:EMULATOR_PORT'}
  mistral: {provider: mistral-ai, api_key: sk-emulator-0123456789, custom_host: 'http://127.0.0.1:EMULATOR_PORT/v1'}
  together: {provider: together-ai, api_key: sk-emulator-0123456789, custom_host: 'http://127.0.0.1:EMULATOR_PORT/v1'}
  groq: {provider: groq, api_key: sk-emulator-0123456789, custom_host: 'http://127.0.0.1:EMULATOR_PORT/v1'}
  deepseek: {provider: deepseek, api_key: sk-emulator-0123456789, custom_host: 'http://127.0.0.1:EMULATOR_PORT/v1'}
custom_hosts:
  allow_private: true
";

/// A model of each provider of `MATRIX`, named as a client names it.
pub(crate) const MATRIX_MODELS: &[&str] = &[
    "@openai/gpt-4o-mini",
    "@anthropic/claude-sonnet-4-5",
    "@google/gemini-2.5-flash",
    "@vertex/gemini-2.5-flash",
    "@bedrock/anthropic.claude-sonnet-4-5-20250929-v1:0",
    "@bedrock/amazon.nova-pro-v1:0",
    "@cohere/command-a-03-2025",
    "@azure/my-gpt",
    "@azure-dated/my-gpt",
    "@foundry/Llama-3.3-70B-Instruct",
    "@foundry/claude-sonnet-4-5",
    "@mistral/mistral-large-latest",
    "@together/meta-llama/Llama-3.3-70B-Instruct-Turbo",
    "@groq/openai/gpt-oss-120b",
    "@deepseek/deepseek-chat",
];

/// The emulator as each provider that has batches or fine-tuning jobs of its own; two of them lack what batches need.
pub(crate) const JOBS: &str = "
server: {threads: 2, grace_period_seconds: 5}
auth:
  keys:
    - {name: tests, key: tp-tests-0123456789}
    - {name: operator, key: tp-operator-0123456789, scopes: [administration]}
providers:
  openai: {provider: openai, api_key: sk-emulator-0123456789, custom_host: 'http://127.0.0.1:EMULATOR_PORT/v1'}
  groq: {provider: groq, api_key: sk-emulator-0123456789, custom_host: 'http://127.0.0.1:EMULATOR_PORT/v1'}
  azure: {provider: azure-openai, api_key: sk-emulator-0123456789, custom_host: 'http://127.0.0.1:EMULATOR_PORT'}
  anthropic: {provider: anthropic, api_key: sk-emulator-0123456789, custom_host: 'http://127.0.0.1:EMULATOR_PORT/v1'}
  google: {provider: google, api_key: sk-emulator-0123456789, custom_host: 'http://127.0.0.1:EMULATOR_PORT'}
  mistral: {provider: mistral-ai, api_key: sk-emulator-0123456789, custom_host: 'http://127.0.0.1:EMULATOR_PORT/v1'}
  mistral-tuning: {provider: mistral-ai, api_key: sk-emulator-0123456789, custom_host: 'http://127.0.0.1:EMULATOR_PORT/mistral/v1'}
  together: {provider: together-ai, api_key: sk-emulator-0123456789, custom_host: 'http://127.0.0.1:EMULATOR_PORT/together/v1'}
  together-tuning: {provider: together-ai, api_key: sk-emulator-0123456789, custom_host: 'http://127.0.0.1:EMULATOR_PORT/v1'}
  fireworks: {provider: fireworks-ai, api_key: fw-0123456789, custom_host: 'http://127.0.0.1:EMULATOR_PORT/v1', resource_name: my-account}
  fireworks-tuning: {provider: fireworks-ai, api_key: fw-0123456789, custom_host: 'http://127.0.0.1:EMULATOR_PORT/inference/v1', resource_name: acme}
  vertex:
    provider: vertex-ai
    api_key: ya29.emulator-0123456789
    custom_host: 'http://127.0.0.1:EMULATOR_PORT'
    cloud_b_project_id: my-project
    cloud_b_region: us-central1
    cloud_b_storage_bucket_name: batches-of-tests
  bedrock:
    provider: bedrock
    custom_host: 'http://127.0.0.1:EMULATOR_PORT'
    cloud_a_access_key_id: AKIAEXAMPLE
    cloud_a_secret_access_key: secret-0123456789
    cloud_a_region: us-east-1
    cloud_a_s3_bucket: batches-of-tests
    cloud_a_batch_role_arn: arn:aws:iam::123456789012:role/batches
  plain-bedrock:
    provider: bedrock
    custom_host: 'http://127.0.0.1:EMULATOR_PORT'
    cloud_a_access_key_id: AKIAEXAMPLE
    cloud_a_secret_access_key: secret-0123456789
    cloud_a_s3_bucket: batches-of-tests
  lost-vertex:
    provider: vertex-ai
    api_key: ya29.emulator-0123456789
    custom_host: 'http://127.0.0.1:EMULATOR_PORT'
    cloud_b_project_id: my-project
    cloud_b_region: us-central1
    cloud_b_storage_bucket_name: missing-bucket
custom_hosts: {allow_private: true}
";
