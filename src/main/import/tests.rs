//! What holds for all products: no secret of the input is in settings or report, and no name leads to more than it did.

use super::cursor::InputAt;
use super::import::Import;
use super::product::Product;

/// The settings and the report that are made of a text.
fn imported(product: Product, text: &str) -> (String, String) {
    let (mut node, problems) = words::settings::read_yaml(text).unwrap();
    assert!(problems.is_empty(), "{problems:?}");
    product.prepare(&mut node);
    assert_eq!(product.refuse(&node), None);
    let mut import = Import { file_names: vec!["file".to_owned()], ..Import::default() };
    product.import(&mut import, &[InputAt::root(&node, 0)]);
    let report = import.findings.report(0, "f", &node, product.keys()).text();
    (import.moved.text("Made.", None), report)
}

const LITELLM: &str = r#"
model_list:
  - model_name: a
    litellm_params: {model: openai/a, api_key: canary-1, api_base: "https://u:canary@one.example/v1", organization: o,
      extra_body: {webhook: {headers: {Authorization: canary-2}, api_key: canary-3}}}
  - model_name: b
    litellm_params: {model: vertex_ai/b, vertex_credentials: '{"private_key": "canary-4"}'}
  - model_name: c
    litellm_params: {model: vertex_ai/c, vertex_credentials: '{"private_key": "canary-5"}'}
  - model_name: d
    litellm_params: {model: azure/d, api_base: "https://h.example/?sig=canary-6", client_secret: canary-7, azure_ad_token: canary-8}
  - model_name: e
    litellm_params: {model: bedrock/e, aws_access_key_id: canary-9, aws_secret_access_key: canary-10, aws_session_token: canary-11}
  - model_name: f
    litellm_params: {model: openai/f}
litellm_settings: {cache: true, cache_params: {type: redis, url: "redis://:canary-12@h:1"}}
router_settings: {redis_host: h, redis_password: canary-13}
general_settings: {master_key: canary-14, database_url: "postgres://u:canary@h/d", alerting: [slack]}
"#;
const BIFROST: &str = r#"
version: 2
encryption_key: canary-0
providers:
  openai: {keys: [{name: k, value: canary-1, models: ["*"]}], network_config: {base_url: "https://u:canary@h.example"},
    proxy_config: {url: "http://u:canary@p"}}
  azure: {keys: [{name: k, value: canary-2, models: ["*"], azure_key_config: {endpoint: "https://u:canary@h.example", client_secret: canary-3}}]}
  vertex: {keys: [{name: k, models: ["*"], vertex_key_config: {auth_credentials: '{"k": "canary-4"}', project_id: p, region: r}}]}
  bedrock: {keys: [{name: k, models: ["*"], bedrock_key_config: {access_key: canary-5, secret_key: canary-6, session_token: canary-7}}]}
governance: {virtual_keys: [{name: v, value: canary-8}]}
"#;
const PORTKEY: &str = r#"
{"targets": [
  {"provider": "openai", "api_key": "canary-1", "custom_host": "https://u:canary@h.example/v1",
   "override_params": {"model": "gpt-4o", "extra_headers": {"x": "canary-2"}}},
  {"provider": "bedrock", "aws_access_key_id": "canary-3", "aws_secret_access_key": "canary-4", "aws_session_token": "canary-5"},
  {"provider": "azure-openai", "azure_ad_token": "canary-6", "azure_entra_client_secret": "canary-7"},
  {"provider": "vertex-ai", "vertex_service_account_json": {"private_key": "canary-8"}}],
 "input_guardrails": [{"checks": [
   {"id": "default.webhook", "parameters": {"webhookURL": "https://u:canary@h/x", "headers": {"Authorization": "canary-9"}}},
   {"id": "partner.check", "parameters": {"credentials": {"apiKey": "canary-10", "domain": "canary-11"}}}]}]}
"#;
const KONG: &str = r#"
_format_version: "3.0"
plugins:
  - name: ai-proxy-advanced
    config:
      targets:
        - {auth: {header_value: "Bearer canary-1"}, model: {provider: openai, name: a, options: {upstream_url: "https://u:canary@h.example/v1"}}}
        - {auth: {param_value: canary-2}, model: {provider: gemini, name: b}}
        - {auth: {aws_access_key_id: canary-3, aws_secret_access_key: canary-4}, model: {provider: bedrock, name: c}}
        - {auth: {azure_client_secret: canary-5}, model: {provider: azure, name: d}}
        - {auth: {gcp_service_account_json: '{"k": "canary-6"}'}, model: {provider: gemini, name: e}}
consumers: [{username: u, keyauth_credentials: [{key: canary-7}]}]
"#;
const OPENROUTER: &str =
    r#"{"models": ["a/b"], "plugins": [{"id": "web", "api_key": "canary-1", "headers": {"x": "canary-2"}}]}"#;
const CLOUDFLARE: &str = r#"{"name": "n", "elements": [{"id": "s", "type": "start", "outputs": {"next": {"elementId": "m"}}},
  {"id": "m", "type": "model", "properties": {"provider": "openai", "model": "a", "api_key": "canary-1"}}]}"#;

#[test]
fn no_secret_of_any_product_is_in_settings_or_report() {
    for (product, text) in [
        (Product::Litellm, LITELLM),
        (Product::Bifrost, BIFROST),
        (Product::Portkey, PORTKEY),
        (Product::Kong, KONG),
        (Product::Openrouter, OPENROUTER),
        (Product::Cloudflare, CLOUDFLARE),
    ] {
        let (settings, report) = imported(product, text);
        assert!(!settings.contains("canary"), "{product:?}\n{settings}");
        assert!(!report.contains("canary"), "{product:?}\n{report}");
        assert!(settings.contains("provider: "), "{product:?}\n{settings}");
    }
}

#[test]
fn values_that_differ_have_variables_of_their_own() {
    let (settings, _) = imported(Product::Litellm, LITELLM);
    // The key of f, which has none in the file, is the environment's.
    for wanted in
        ["${OPENAI_API_KEY_2}", "${OPENAI_API_KEY}", "${VERTEX_CREDENTIALS}", "${VERTEX_CREDENTIALS_2}"]
    {
        assert!(settings.contains(wanted), "{wanted}\n{settings}");
    }
}

#[test]
fn what_cannot_be_meant_here_is_not_taken() {
    let text = "model_list:\n\
        - {model_name: team/*, litellm_params: {model: openai/a-*, api_key: os.environ/K}}\n\
        - {model_name: team/*, litellm_params: {model: openai/b-*, api_key: os.environ/K}}\n\
        - {model_name: other, litellm_params: {model: other, custom_llm_provider: house}}\n\
        litellm_settings: {cache: true, cache_params: {type: local, supported_call_types: [aembedding]}}\n";
    let (settings, report) = imported(Product::Litellm, text);
    assert!(
        settings.contains("a-*") && !settings.contains("b-*") && !settings.contains("cache"),
        "{settings}"
    );
    for wanted in ["model_list[1].litellm_params.model: another", "there is no provider house here"] {
        assert!(report.contains(wanted), "{wanted}\n{report}");
    }
}

#[test]
fn fallbacks_of_a_class_come_first_and_orders_are_levels() {
    let text = "model_list:\n\
        - {model_name: a, litellm_params: {model: openai/a2, order: 2, api_key: os.environ/K}}\n\
        - {model_name: a, litellm_params: {model: openai/a1, order: 1, api_key: os.environ/K}}\n\
        - {model_name: long, litellm_params: {model: openai/long, api_key: os.environ/K}}\n\
        - {model_name: b, litellm_params: {model: openai/b, api_key: os.environ/K}}\n\
        litellm_settings: {fallbacks: [{a: [b]}], context_window_fallbacks: [{a: [long]}]}\n";
    let (settings, _) = imported(Product::Litellm, text);
    let configs = settings.split("configs:").nth(1).unwrap();
    let places =
        ["model: a1", "model: a2", "model: long", "model: b"].map(|text| configs.find(text).unwrap());
    assert!(places.is_sorted(), "{settings}");
    assert!(settings.contains("for_errors: [context_window]"), "{settings}");
}

#[test]
fn a_rule_without_a_model_keeps_that_of_the_request() {
    let text = "providers:\n  openai: {keys: [{name: k, value: env.K, models: ['*']}]}\n  \
        groq: {keys: [{name: k, value: env.G, models: ['*']}]}\n\
        governance:\n  routing_rules:\n  \
        - {name: r, cel_expression: \"model in ['a', 'b']\", targets: [{provider: groq}]}\n  \
        - {name: s, cel_expression: \"model.startsWith('c-')\", targets: [{provider: groq}]}\n  \
        - {name: t, cel_expression: \"model == 'c-1'\", targets: [{provider: openai}]}\n";
    let (settings, report) = imported(Product::Bifrost, text);
    let models = settings.split("\nmodels:").nth(1).unwrap();
    let of = |name: &str| {
        let begin = models.find(&format!("\n  {name}:")).unwrap_or_else(|| panic!("{name}\n{settings}"));
        models
            .get(begin + 1..)
            .unwrap()
            .split("\n  ")
            .take_while(|line| !line.is_empty())
            .take(4)
            .collect::<Vec<_>>()
            .join(" ")
    };
    for (name, model) in [("a", "model: a"), ("openai/b", "model: b"), ("openai/c-*", "model: c-*")] {
        assert!(of(name).contains("@groq") && of(name).contains(model), "{name} {model}\n{settings}");
    }
    assert!(report.contains("a rule before it counts for c-1") && !models.contains("\n  c-1:"), "{report}");
}

#[test]
fn a_key_for_one_provider_reaches_no_other() {
    let text = "version: 2\nproviders:\n  openai: {keys: [{name: k, value: env.K, models: [gpt-4o, own]}]}\n  \
        azure: {keys: [{name: k, value: env.A, models: [gpt-4o], azure_key_config: {endpoint: 'https://a.example'}}]}\n\
        governance:\n  virtual_keys:\n  \
        - {name: one, value: env.ONE, provider_configs: [{provider: openai, allowed_models: [gpt-4o, own]}]}\n  \
        - {name: none, value: env.NONE}\n  \
        - {name: unset, provider_configs: [{provider: openai, allowed_models: ['*']}]}\n";
    let (settings, report) = imported(Product::Bifrost, text);
    let list = "[openai/gpt-4o, \"@openai/gpt-4o\", openai/own, \"@openai/own\", own]";
    assert!(settings.contains(&format!("allowed_models: {list}")), "{settings}");
    assert!(settings.contains("allowed_models: []") && settings.contains("${UNSET_KEY}"), "{settings}");
    assert!(report.contains("set UNSET_KEY to its value"), "{report}");
    let (open, _) = imported(
        Product::Bifrost,
        "client: {enforce_auth_on_inference: true}\nproviders: {openai: {keys: [{name: k, value: env.K}]}}\n",
    );
    assert!(open.contains("${CLIENTS_KEY}"), "{open}");
}

#[test]
fn a_graph_with_more_ways_than_can_be_followed_ends() {
    let element = |number: usize| {
        let next = number + 1;
        format!(
            r#"{{"id": "{number}", "type": "percentage", "outputs": {{"50%": {{"elementId": "{next}"}}, "25%": {{"elementId": "{next}"}},
            "15%": {{"elementId": "{next}"}}, "else": {{"elementId": "{next}"}}}}}}"#
        )
    };
    let elements: Vec<String> = (1..11).map(element).collect();
    let text = format!(
        r#"{{"elements": [{{"id": "s", "type": "start", "outputs": {{"next": {{"elementId": "1"}}}}}}, {},
        {{"id": "11", "type": "model", "properties": {{"provider": "openai", "model": "a"}}}}]}}"#,
        elements.join(", ")
    );
    let (settings, report) = imported(Product::Cloudflare, &text);
    assert!(
        settings.matches("model: a").count() < 1000 && report.contains("or there are too many"),
        "{report}"
    );
}

#[test]
fn litellm_follows_fallbacks_of_fallbacks_and_runs_guardrails_on_every_request() {
    let text = r#"
model_list:
  - {model_name: a, litellm_params: {model: openai/a}}
  - {model_name: b, litellm_params: {model: openai/b}}
  - {model_name: c, litellm_params: {model: bedrock/us-west-2/anthropic.c}}
router_settings: {fallbacks: [{a: [b]}, {b: [c, a]}, {c: [b]}]}
guardrails:
  - guardrail_name: pii
    litellm_params: {guardrail: presidio, mode: [pre_call, post_call], default_on: true,
      pii_entities_config: {EMAIL_ADDRESS: MASK, US_SSN: BLOCK, PERSON: MASK}}
  - guardrail_name: moderation
    litellm_params: {guardrail: openai_moderation, mode: during_call, default_on: true, api_key: canary}
  - {guardrail_name: asked, litellm_params: {guardrail: lakera_v2, mode: pre_call}}
  - {guardrail_name: own, litellm_params: {guardrail: my.Guard, mode: pre_call, default_on: true}}
mcp_servers: {tools: {url: "https://tools.example/mcp", auth_value: canary}}
"#;
    let (settings, report) = imported(Product::Litellm, text);
    let (node, _) = words::settings::read_yaml(&settings).unwrap();
    let models = |id: &str| -> Vec<String> {
        let config = node.member("configs").unwrap().member(id).unwrap();
        let targets = InputAt::root(config, 0).member("targets").unwrap().items();
        let model = |at: &InputAt<'_>| at.member("override_params")?.text_of("model");
        targets.iter().filter_map(model).collect()
    };
    assert_eq!(models("a"), ["a", "b", "anthropic.c"]);
    assert_eq!(models("b"), ["b", "anthropic.c", "a"]);
    assert_eq!(models("c"), ["anthropic.c", "b", "a"]);
    assert!(settings.contains("cloud_a_region: us-west-2"), "{settings}");
    for part in [
        "default.pii",
        "EMAIL_ADDRESS",
        "redact: true",
        "SSN",
        "openai.moderateContent",
        "parallel: true",
        "deny: true",
    ] {
        assert!(settings.contains(part), "{part}: {settings}");
    }
    assert!(
        !settings.contains("canary") && !settings.contains("PERSON") && !settings.contains("lakera"),
        "{settings}"
    );
    let line = |path: &str| {
        let found = report.lines().find(|line| line.contains(&format!(": {path}: ")));
        found.unwrap_or_else(|| panic!("{path}: {report}")).to_owned()
    };
    for (path, wanted) in [
        ("guardrails[0].litellm_params.guardrail", "different"),
        ("guardrails[0].litellm_params.pii_entities_config.PERSON", "default.regexReplace"),
        ("guardrails[1].litellm_params.guardrail", "exact"),
        ("guardrails[2].litellm_params.guardrail", "lakera.guard"),
        ("guardrails[3].litellm_params.guardrail", "default.webhook"),
        ("mcp_servers.tools.url", "POST /v1/mcp-servers"),
        ("mcp_servers.tools.auth_value", "custom_headers"),
    ] {
        assert!(line(path).contains(wanted), "{wanted}: {}", line(path));
    }
}
