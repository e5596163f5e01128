//! `turnpike import`: files of other gateways become settings that serve their clients, and each key has a line in the report.
//!
//! The examples of docs/moving are those of LiteLLM, Portkey and Bifrost, and what the pages show is what the command makes
//! (`UPDATE_GOLDEN=1` writes it). Not here: which key becomes what (tables and unit tests in `import`).

use crate::support::Gateway;
use crate::support::client::client;
use crate::support::command::{Finished, turnpike_with};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The address of the examples' only provider, which is the emulator's while they are tried.
const HOST: &str = "http://vllm.internal:8000";
const MASTER_KEY: &str = "sk-master-0123456789";
const TEAM_KEY: &str = "sk-team-a-0123456789";
/// Everything that the settings of the examples refer to.
const ENVIRONMENT: [(&str, &str); 10] = [
    ("LITELLM_MASTER_KEY", MASTER_KEY),
    ("TEAM_A_KEY", TEAM_KEY),
    ("FIRST_KEY", "os-first-0123456789"),
    ("SECOND_KEY", "os-second-0123456789"),
    ("OPENAI_API_KEY", "os-openai-0123456789"),
    ("OPENAI_API_KEY_2", "os-openai-2-0123456789"),
    ("ANTHROPIC_MAIN_API_KEY", "os-anthropic-0123456789"),
    ("ANTHROPIC_API_KEY", "os-anthropic-0123456789"),
    ("OPENROUTER_API_KEY", "os-openrouter-0123456789"),
    ("MISTRAL_API_KEY", "os-mistral-0123456789"),
];

const KONG: &str = r#"
_format_version: "3.0"
services:
  - name: chats
    routes:
      - name: balanced
        paths: [/any]
        plugins:
          - name: ai-proxy-advanced
            config:
              balancer: {algorithm: round-robin}
              targets:
                - route_type: llm/v1/chat
                  auth: {header_name: Authorization, header_value: 'Bearer ${{ env "FIRST_KEY" }}'}
                  model: {provider: openai, name: gpt-4o, options: {upstream_url: "http://vllm.internal:8000/v1/chat/completions"}}
                  weight: 70
                - route_type: llm/v1/chat
                  auth: {header_name: Authorization, header_value: "{vault://env/second-key}"}
                  model: {provider: openai, name: gpt-4o, options: {upstream_url: "http://vllm.internal:8000/v1/chat/completions"}}
                  weight: 30
          - name: rate-limiting
            config: {minute: 5}
"#;

const CLOUDFLARE: &str = r#"{"name": "support", "elements": [
  {"id": "s", "type": "start", "outputs": {"next": {"elementId": "c"}}},
  {"id": "c", "type": "conditional", "properties": {"conditions": {"metadata.plan": {"$eq": "free"}}},
   "outputs": {"true": {"elementId": "m1"}, "false": {"elementId": "p"}}},
  {"id": "p", "type": "percentage", "outputs": {"10%": {"elementId": "m1"}, "else": {"elementId": "m2"}}},
  {"id": "m1", "type": "model", "properties": {"provider": "openai", "model": "gpt-4o-mini", "timeout": 30000},
   "outputs": {"success": {"elementId": "e"}, "fallback": {"elementId": "e"}}},
  {"id": "m2", "type": "model", "properties": {"provider": "anthropic", "model": "claude-sonnet-4-5", "retries": 2},
   "outputs": {"success": {"elementId": "e"}, "fallback": {"elementId": "m1"}}},
  {"id": "e", "type": "end", "outputs": {}}]}"#;

const OPENROUTER: &str = r#"{"models": ["openai/gpt-4o", "anthropic/claude-sonnet-4.5"], "provider": {"order": ["azure"],
  "max_price": {"prompt": 1}}, "temperature": 0.2, "messages": [{"role": "user", "content": "Hi"}], "house": 1}"#;

/// A file of another gateway.
struct Example {
    product: &'static str,
    name: &'static str,
    text: String,
}

fn page(product: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("docs/moving/{product}.md"))
}

/// The blocks of a page in this language: where their text begins and ends.
fn block(text: &str, language: &str) -> (usize, usize) {
    let fence = format!("```{language}\n");
    let begin = text.find(&fence).unwrap_or_else(|| panic!("no block of {language}")) + fence.len();
    (begin, begin + text[begin..].find("```").unwrap())
}

fn of_page(product: &'static str, name: &'static str, language: &str) -> Example {
    let text = std::fs::read_to_string(page(product)).unwrap();
    let (begin, end) = block(&text, language);
    Example { product, name, text: text[begin..end].to_owned() }
}

fn examples() -> Vec<Example> {
    let own = |product, name, text: &str| Example { product, name, text: text.to_owned() };
    vec![
        of_page("litellm", "config.yaml", "yml"),
        of_page("portkey", "main.json", "json"),
        of_page("bifrost", "config.json", "json"),
        own("kong", "kong.yaml", KONG),
        own("cloudflare", "support.json", CLOUDFLARE),
        own("openrouter", "body.json", OPENROUTER),
    ]
}

/// What a command has made of a file.
struct Imported {
    folder: tempfile::TempDir,
    finished: Finished,
    report: Value,
}

impl Imported {
    fn of(example: &Example) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join(example.name);
        std::fs::write(&file, &example.text).unwrap();
        let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
        let (out, report) = (at("turnpike.yaml"), at("report.json"));
        let arguments =
            ["import", example.product, file.to_str().unwrap(), "--out", &out, "--report", &report, "--json"];
        let finished = turnpike_with(&arguments, &[]);
        let text = std::fs::read_to_string(&report).unwrap_or_default();
        let report = serde_json::from_str(&text).unwrap_or_default();
        Self { folder, finished, report }
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("turnpike.yaml")
    }

    fn settings(&self) -> String {
        std::fs::read_to_string(self.file())
            .unwrap_or_else(|why| panic!("{why}: {:?} {}", self.finished, self.report))
    }

    /// The lines of the report: path, what became of it, text.
    fn lines(&self) -> Vec<(String, String, String)> {
        let lines = self.report["files"][0]["lines"].as_array().unwrap();
        let text = |line: &Value, name: &str| line[name].as_str().unwrap().to_owned();
        lines.iter().map(|line| (text(line, "path"), text(line, "taken"), text(line, "text"))).collect()
    }
}

/// The leaves of a file: all but objects and lists with one in them; of a plain list its own path.
fn leaves(value: &Value, path: &str, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(members) if !members.is_empty() => {
            for (name, value) in members {
                let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                leaves(value, &path, found);
            }
        }
        Value::Array(items) if items.iter().any(|item| item.is_object() || item.is_array()) => {
            for (index, item) in items.iter().enumerate() {
                leaves(item, &format!("{path}[{index}]"), found);
            }
        }
        _ => {
            found.insert(path.to_owned());
        }
    }
}

fn parsed(text: &str) -> Value {
    serde_saphyr::from_str(text).unwrap()
}

#[test]
fn every_key_of_the_input_has_a_line() {
    for example in examples() {
        let imported = Imported::of(&example);
        assert_eq!(
            imported.finished.code,
            Some(0),
            "{} {:?} {}",
            example.product,
            imported.finished,
            imported.report
        );
        let mut wanted = BTreeSet::new();
        leaves(&parsed(&example.text), "", &mut wanted);
        // The items of a plain list may have lines of their own.
        let reported: BTreeSet<String> = imported
            .lines()
            .into_iter()
            .map(|(path, _, _)| match path.strip_suffix(']').and_then(|path| path.rsplit_once('[')) {
                Some((list, _)) if !wanted.contains(&path) => list.to_owned(),
                _ => path,
            })
            .collect();
        assert_eq!(reported, wanted, "{}", example.product);
        let counted: u64 = ["exact", "different", "not_taken"]
            .iter()
            .map(|name| imported.report[name].as_u64().unwrap())
            .sum();
        assert_eq!(counted, imported.lines().len() as u64, "{}", example.product);
    }
    let unknown = Imported::of(&examples().remove(5));
    let line = unknown.lines().into_iter().find(|(path, _, _)| path == "house").unwrap();
    assert_eq!((line.1.as_str(), line.2.as_str()), ("not", "unknown to this importer"));
}

#[test]
fn the_settings_pass_check_and_are_the_same_each_time() {
    for example in examples() {
        let imported = Imported::of(&example);
        let settings = imported.settings();
        let again = Imported::of(&example).settings();
        let here =
            |imported: &Imported, text: &str| text.replace(imported.folder.path().to_str().unwrap(), "");
        let folder_less = |text: &str| {
            text.lines().filter(|line| !line.contains("overlay:")).collect::<Vec<_>>().join("\n")
        };
        assert_eq!(folder_less(&here(&imported, &settings)), folder_less(&again), "{}", example.product);
        let check = turnpike_with(&["check", "-c", imported.file().to_str().unwrap()], &ENVIRONMENT);
        assert_eq!(check.code, Some(0), "{} {check:?}\n{settings}", example.product);
        let printed = turnpike_with(
            &["import", example.product, imported.folder.path().join(example.name).to_str().unwrap()],
            &[],
        );
        assert!(printed.stdout.starts_with("# Settings of Turnpike"), "{printed:?}");
        assert!(printed.stderr.contains(" keys: "), "{printed:?}");
    }
}

#[test]
fn what_the_pages_show_is_what_the_command_makes() {
    for (product, name, language) in [
        ("litellm", "config.yaml", "yml"),
        ("portkey", "main.json", "json"),
        ("bifrost", "config.json", "json"),
    ] {
        let imported = Imported::of(&of_page(product, name, language));
        let folder = format!("{}/", imported.folder.path().display());
        let made = imported.settings().replace(&folder, "");
        let text = std::fs::read_to_string(page(product)).unwrap();
        let (begin, end) = block(&text, "yaml");
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            std::fs::write(page(product), format!("{}{made}{}", &text[..begin], &text[end..])).unwrap();
        } else {
            assert_eq!(&text[begin..end], made, "docs/moving/{product}.md; UPDATE_GOLDEN=1 writes it");
        }
    }
}

/// A key that is called exact and could be left out without a change is a lie, or is so without it.
#[test]
fn what_is_exact_makes_a_difference() {
    let example = of_page("litellm", "config.yaml", "yml");
    let whole = parsed(&example.text);
    let of = |value: &Value| {
        let imported =
            Imported::of(&Example { product: "litellm", name: "config.yaml", text: value.to_string() });
        let prices =
            std::fs::read_to_string(imported.folder.path().join("turnpike.prices.yaml")).unwrap_or_default();
        let settings = imported.settings().replace(imported.folder.path().to_str().unwrap(), "");
        (settings + &prices, imported)
    };
    let (settings, imported) = of(&whole);
    let mut tried = 0;
    for (path, taken, text) in imported.lines() {
        let is_default = text.starts_with("is so here") || text.contains("by weight");
        if taken != "exact" || is_default || path.ends_with(']') {
            continue;
        }
        let mut without = whole.clone();
        let pointer = format!("/{}", path.replace("[", ".").replace("]", "").replace('.', "/"));
        let (above, name) = pointer.rsplit_once('/').unwrap();
        without.pointer_mut(above).unwrap().as_object_mut().unwrap().remove(name).unwrap();
        assert_ne!(of(&without).0, settings, "{path}: {text}");
        tried += 1;
    }
    assert!(tried >= 15, "{tried}");
}

/// A gateway with the settings of an example, whose provider is the emulator.
fn serve(imported: &Imported) -> Gateway {
    let settings = imported.settings().replace(HOST, "http://127.0.0.1:EMULATOR_PORT");
    Gateway::start_with(&settings, &|command| {
        command.envs(ENVIRONMENT);
    })
}

#[tokio::test]
async fn clients_go_on_with_their_models_and_keys() {
    let master = Some(MASTER_KEY);
    let models: [(usize, Option<&str>, &[&str]); 4] = [
        (0, master, &["gpt-4o", "small", "team/any-model"]),
        (1, None, &["gpt-4o"]),
        (2, Some(TEAM_KEY), &["local/any-model", "fast", "local/fast", "cheap"]),
        (3, None, &["gpt-4o"]),
    ];
    for (number, key, names) in models {
        let example = examples().remove(number);
        let gateway = serve(&Imported::of(&example));
        for name in names {
            let body = json!({"model": name, "messages": [{"role": "user", "content": "Hello"}]});
            let mut call = client().post(format!("{}/chat/completions", gateway.base_url())).json(&body);
            if let Some(key) = key {
                call = call.bearer_auth(key);
            }
            let response = call.send().await.unwrap();
            let status = response.status();
            assert_eq!(status, 200, "{} {name}: {}", example.product, response.text().await.unwrap());
        }
        if key.is_some() {
            let body = json!({"model": names[0], "messages": [{"role": "user", "content": "Hello"}]});
            let refused = client()
                .post(format!("{}/chat/completions", gateway.base_url()))
                .bearer_auth("sk-wrong-0123456789")
                .json(&body);
            assert_eq!(refused.send().await.unwrap().status(), 401, "{}", example.product);
        }
    }
}

/// The slug, or the provider, of the target that a request goes to first, and the model that is requested there.
fn first_target(imported: &Imported, request: &Value) -> (String, String) {
    let file = imported.folder.path().join("request.json");
    std::fs::write(&file, request.to_string()).unwrap();
    let arguments =
        ["explain", "-c", imported.file().to_str().unwrap(), "--request", file.to_str().unwrap(), "--json"]
            .map(str::to_owned);
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let finished = turnpike_with(&arguments, &ENVIRONMENT);
    let response: Value =
        serde_json::from_str(&finished.stdout).unwrap_or_else(|why| panic!("{why} {finished:?}"));
    let index = response["first"]["index"].as_str().unwrap_or_else(|| panic!("{response}")).to_owned();
    let mut node = &response["tree"];
    for part in index.split('[').skip(1) {
        let number: usize = part.split(']').next().unwrap().parse().unwrap();
        node = &node["targets"][number];
    }
    let model = response["request"]["model"].as_str().unwrap_or_default().to_owned();
    let place = node["slug"].as_str().or(node["provider"].as_str()).unwrap_or_else(|| panic!("{response}"));
    (place.to_owned(), model)
}

#[test]
fn the_first_target_is_that_of_the_other_gateway() {
    let request = |model: &str, key: Option<&str>, headers: &[(&str, &str)]| {
        let mut all = serde_json::Map::new();
        all.extend(key.map(|key| ("x-gateway-api-key".to_owned(), json!(key))));
        all.extend(headers.iter().map(|(name, value)| ((*name).to_owned(), json!(value))));
        json!({"headers": all, "body": {"model": model, "messages": [{"role": "user", "content": "Hello"}]}})
    };
    let litellm = Imported::of(&examples().remove(0));
    let of = |slug: &str, model: &str| (slug.to_owned(), model.to_owned());
    assert_eq!(
        first_target(&litellm, &request("small", Some(MASTER_KEY), &[])),
        of("hosted_vllm", "qwen3-8b")
    );
    // A deployment with a bound of its own shares its provider with no other.
    assert_eq!(first_target(&litellm, &request("team/x", Some(MASTER_KEY), &[])), of("hosted_vllm-2", "x"));
    let portkey = Imported::of(&examples().remove(1));
    let target = first_target(&portkey, &request("gpt-4o", None, &[("x-portkey-config", "main")]));
    assert_eq!(target, of("openai", "gpt-4o"));
    let cloudflare = Imported::of(&examples().remove(4));
    let free = [("x-gateway-metadata", r#"{"plan":"free"}"#)];
    let target = first_target(&cloudflare, &request("dynamic/support", None, &free));
    assert_eq!(target, of("openai", "gpt-4o-mini"));
}

#[test]
fn what_is_no_file_of_the_product_is_refused_with_what_it_looks_like() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    for (product, text, wanted) in [
        ("portkey", "model_list: []", "it looks like LiteLLM's: turnpike import litellm"),
        (
            "litellm",
            r#"{"strategy": {"mode": "single"}, "targets": [{"provider": "openai"}]}"#,
            "it looks like Portkey's",
        ),
        ("litellm", r#"{"providers": {"openai": {"keys": []}}}"#, "it looks like Bifrost's"),
        (
            "portkey",
            r#"{"version": "1.0", "virtual_keys": {"a": {}}, "routing_rules": []}"#,
            "it is an object with version, virtual_keys",
        ),
        ("litellm", "services: {app: {image: a}}", "Docker Compose"),
        ("litellm", "a: [", "is neither YAML nor JSON"),
        (
            "litellm",
            r#"{"model_list": [{"model_name": "a", "model_name": "b"}]}"#,
            "model_list[0].model_name stands there twice",
        ),
    ] {
        std::fs::write(&file, text).unwrap();
        let refused = turnpike_with(&["import", product, file.to_str().unwrap()], &[]);
        assert!(refused.code == Some(1) && refused.stdout.is_empty(), "{refused:?}");
        assert!(refused.stderr.contains(wanted), "{wanted} is not in {refused:?}");
    }
    let missing = turnpike_with(&["import", "litellm", "/nowhere/config.yaml"], &[]);
    assert!(missing.code == Some(1) && missing.stderr.contains("/nowhere/config.yaml"), "{missing:?}");
}

#[test]
fn secrets_are_not_copied_and_files_are_not_written_over() {
    let text = "model_list: [{model_name: a, litellm_params: {model: openai/gpt-4o, api_key: sk-live-canary-1}}]\n\
                general_settings: {master_key: sk-canary-2}\n";
    let example = Example { product: "litellm", name: "config.yaml", text: text.to_owned() };
    let imported = Imported::of(&example);
    let settings = imported.settings();
    assert!(!settings.contains("canary") && settings.contains("${OPENAI_API_KEY}"), "{settings}");
    assert!(!imported.report.to_string().contains("canary"), "{}", imported.report);
    let lines = imported.lines();
    for key in ["model_list[0].litellm_params.api_key", "general_settings.master_key"] {
        let line = lines.iter().find(|(path, _, _)| path == key).unwrap();
        assert!(line.1 == "different" && line.2.contains("which is not copied"), "{line:?}");
    }
    let out = imported.file();
    std::fs::write(&out, "mine\n").unwrap();
    let input = imported.folder.path().join("config.yaml");
    let mut arguments = vec!["import", "litellm", input.to_str().unwrap(), "--out", out.to_str().unwrap()];
    let kept = turnpike_with(&arguments, &[]);
    assert!(kept.code == Some(1) && kept.stderr.contains("--force"), "{kept:?}");
    assert_eq!(std::fs::read_to_string(&out).unwrap(), "mine\n");
    arguments.push("--force");
    assert_eq!(turnpike_with(&arguments, &[]).code, Some(0));
    assert_eq!(std::fs::read_to_string(&out).unwrap(), settings);
    let report_alone = turnpike_with(&["import", "litellm", input.to_str().unwrap(), "--dry-run"], &[]);
    assert!(report_alone.code == Some(0) && report_alone.stdout.is_empty(), "{report_alone:?}");
    let store = turnpike_with(&["import", "litellm", input.to_str().unwrap(), "--to", "store"], &[]);
    assert!(store.code == Some(1) && store.stderr.contains("needs --db"), "{store:?}");
}
