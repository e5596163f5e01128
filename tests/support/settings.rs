//! The settings most tests run on.
//!
//! Not the shipped `conf/turnpike.yaml`, which `tests/house.rs` loads: these have keys and saved configs that
//! tests refer to. `Ports::fill` inserts the ports.

/// The service key of the client in most tests, named `tests` in the access line.
pub(crate) const KEY: &str = "tp-tests-0123456789";
/// The service key of a second client, named `others`.
pub(crate) const OTHER_KEY: &str = "tp-others-0123456789";
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
