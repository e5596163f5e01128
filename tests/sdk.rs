//! The libraries clients use (OpenAI's, Anthropic's, Google's, LangChain, LiteLLM, the Vercel AI SDK, another gateway's)
//! against the gateway.
//!
//! The scripts of tests/sdk contain the checks. The first half tests what each library can do, with `base_url` and headers; the
//! matrix tests every library with every provider, with base URL and key alone. `make test` runs a representative half of the
//! matrix, `make test-clients` all of it. Without Python, Node or their registries they fail on CI, and elsewhere
//! print clearly that they were skipped.

use crate::support::packages;
use crate::support::settings::{JOBS, KEY, MATRIX, MATRIX_MODELS, OPERATOR_KEY, STANDARD};
use crate::support::{Gateway, gateway, report};
use std::process::Command;

/// A second prefix of the gateway's headers, which the SDK of another gateway sends.
const PREFIXES: &str = "header_prefixes: [\"x-gateway-\", \"x-portkey-\"]\n";

#[test]
fn the_openai_sdk_works() {
    python("openai", &["openai_sdk.py"], &gateway());
}

#[test]
fn the_openai_sdk_works_with_a_translated_provider() {
    python("openai", &["openai_translated.py"], &gateway());
}

#[test]
fn the_openai_sdk_runs_batches_at_every_provider() {
    python("openai", &["openai_jobs.py"], &Gateway::start(JOBS));
}

#[test]
fn the_openai_sdk_fine_tunes() {
    python("openai", &["openai_fine_tuning.py"], &Gateway::start(JOBS));
}

#[test]
fn the_openai_sdk_for_node_runs_jobs_at_every_provider() {
    node("node-stable", "jobs.mjs", &Gateway::start(JOBS));
}

#[test]
fn the_openai_sdk_puts_odd_streams_together() {
    python("openai", &["openai_deviations.py"], &gateway());
}

#[test]
fn the_openai_sdk_for_node_puts_odd_streams_together() {
    node("node-stable", "deviations.mjs", &gateway());
}

#[test]
fn the_anthropic_sdk_works() {
    python("anthropic", &["anthropic_sdk.py"], &gateway());
}

#[test]
fn the_anthropic_sdk_works_with_a_translated_provider() {
    python("anthropic", &["anthropic_translated.py"], &gateway());
}

#[test]
fn the_openai_sdk_meets_guardrails() {
    python("openai", &["openai_guardrails.py"], &gateway());
}

#[test]
fn the_anthropic_sdk_meets_guardrails() {
    python("anthropic", &["anthropic_guardrails.py"], &gateway());
}

#[test]
fn the_openai_sdk_for_node_meets_guardrails() {
    node("node-stable", "guardrails.mjs", &gateway());
}

#[test]
fn the_openai_sdk_reads_waiting_and_broken_streams() {
    python("openai", &["readers_openai.py"], &gateway());
}

#[test]
fn the_anthropic_sdk_reads_waiting_and_broken_streams() {
    python("anthropic", &["readers_anthropic.py"], &gateway());
}

#[test]
fn the_sdks_for_node_read_waiting_and_broken_streams() {
    node("node-newest", "readers.mjs", &gateway());
}

#[test]
fn googles_sdk_works() {
    python("google", &["google_genai_sdk.py"], &gateway());
}

#[test]
fn the_openai_sdk_for_azure_works() {
    python("openai", &["azure_openai_sdk.py"], &gateway());
}

#[test]
fn the_sdk_of_another_gateway_works() {
    python("portkey", &["portkey_sdk.py"], &Gateway::start(&format!("{PREFIXES}{STANDARD}")));
}

#[test]
fn the_sdk_of_another_gateway_administrates() {
    python("portkey", &["portkey_admin.py"], &Gateway::start(&format!("{PREFIXES}{STANDARD}")));
}

#[test]
fn the_sdk_of_another_gateway_for_node_administrates() {
    node("node-newest", "portkey_admin.mjs", &Gateway::start(&format!("{PREFIXES}{STANDARD}")));
}

#[test]
fn the_openai_sdk_for_node_works() {
    node("node-stable", "openai.mjs", &gateway());
}

#[test]
fn the_vercel_ai_sdk_works() {
    node("node-stable", "vercel.mjs", &gateway());
}

#[test]
fn matrix_of_the_openai_sdk() {
    python("openai", &["matrix/openai_all.py"], &matrix());
}

#[test]
fn matrix_of_the_anthropic_sdk_0() {
    python("anthropic-0", &["matrix/anthropic_all.py"], &matrix());
}

#[test]
fn matrix_of_the_anthropic_sdk() {
    if all_clients() {
        python("anthropic", &["matrix/anthropic_all.py"], &matrix());
    }
}

#[test]
fn matrix_of_the_openai_sdk_for_azure() {
    if all_clients() {
        python("openai", &["matrix/openai_all.py", "azure"], &matrix());
    }
}

#[test]
fn matrix_of_googles_sdk() {
    python("google", &["matrix/google_genai_all.py"], &matrix());
}

#[test]
fn matrix_of_langchain_openai() {
    python("langchain-openai", &["matrix/langchain_all.py", "openai", "responses"], &matrix());
}

#[test]
fn matrix_of_langchain_anthropic() {
    if all_clients() {
        python("langchain-anthropic", &["matrix/langchain_all.py", "anthropic"], &matrix());
    }
}

#[test]
fn matrix_of_litellm() {
    if all_clients() {
        python("litellm", &["matrix/litellm_all.py", "openai", "anthropic", "gemini"], &matrix());
    }
}

#[test]
fn matrix_of_the_sdk_of_another_gateway() {
    if all_clients() {
        python("portkey", &["matrix/portkey_all.py"], &matrix());
    }
}

#[test]
fn matrix_of_the_vercel_ai_sdk() {
    node("node-stable", "matrix_vercel.mjs", &matrix());
}

#[test]
fn matrix_of_the_libraries_for_node() {
    if all_clients() {
        let gateway = matrix();
        node("node-stable", "matrix_openai.mjs", &gateway);
        for script in ["matrix_openai.mjs", "matrix_anthropic.mjs", "matrix_portkey.mjs", "matrix_vercel.mjs"]
        {
            node("node-newest", script, &gateway);
        }
    }
}

/// Whether to run what takes CI too long (`make test-clients`).
fn all_clients() -> bool {
    std::env::var("TEST_CLIENTS").is_ok_and(|value| value == "all")
}

/// A gateway of its own: these clients send no header that chooses the provider.
fn matrix() -> Gateway {
    Gateway::start(&format!("{PREFIXES}{MATRIX}"))
}

/// Runs a script of tests/sdk, with arguments, in the set of packages named.
pub(crate) fn python(set: &str, script: &[&str], gateway: &Gateway) {
    let Some(mut command) = packages::python(set, script[0]) else { return };
    run(&script.join(" "), command.args(&script[1..]), gateway);
}

fn node(set: &str, script: &str, gateway: &Gateway) {
    let Some(mut command) = packages::node(set, script) else { return };
    run(script, &mut command, gateway);
}

fn run(script: &str, command: &mut Command, gateway: &Gateway) {
    // Remove developers' own keys, addresses and vendors' telemetry.
    for vendor in ["OPENAI", "ANTHROPIC", "PORTKEY", "GOOGLE", "GEMINI", "AZURE_OPENAI", "LANGSMITH"] {
        for name in ["API_KEY", "AUTH_TOKEN", "BASE_URL", "API_BASE", "ENDPOINT"] {
            command.env_remove(format!("{vendor}_{name}"));
        }
    }
    let output = command
        .env("BASE_URL", gateway.base_url())
        .env("KEY", KEY)
        .env("CONTROL", gateway.control_url())
        .env("OPERATOR_KEY", OPERATOR_KEY)
        .env("EMULATOR", format!("{}/v1", gateway.emulator_url()))
        .env("MODELS", MATRIX_MODELS.join(" "))
        // The machine's own proxy.
        .env("NO_PROXY", "127.0.0.1")
        .env("LANGSMITH_TRACING", "false")
        // Otherwise LiteLLM fetches its price list from the internet.
        .env("LITELLM_LOCAL_MODEL_COST_MAP", "True")
        // And the tokenizer of a Llama, again and again where there is none.
        .env("HF_HUB_OFFLINE", "1")
        .output()
        .unwrap();
    let printed = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    report(&printed);
    assert!(output.status.success(), "{script} failed, see above");
}
