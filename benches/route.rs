//! `cargo bench --bench route`: the cost of deciding where a request goes, without a socket.
//!
//! Not here: request and response bodies (`translate`), a gateway under load (`load`).

mod timer;

use bytes::Bytes;
use http::{HeaderMap, Method};
use judgment::route::compile::{Sources, compile};
use judgment::route::compiled::{CompiledConfig, TargetGroup};
use judgment::route::env::{RoutingEnv, TargetLoad};
use judgment::route::model_names::ModelNaming;
use judgment::route::plan::Plan;
use judgment::route::prefix_choice::{PrefixChoice, PrefixGroup};
use judgment::route::prompt_prefix::{MAX_BLOCKS, PromptPrefix};
use judgment::route::target::Target;
use memory::net::outbound::custom_host::HostRules;
use memory::state::directory::Directory;
use memory::state::discovered_hosts::HostLists;
use memory::state::prefix_tables::PrefixTables;
use memory::state::stored::Stored;
use memory::state::targets::CircuitStatus;
use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};
use timer::Timer;
use words::api::body::Body;
use words::api::operation::Operation;
use words::config::Checks;
use words::config::balance::Sticky;
use words::config::headers::GatewayHeaders;
use words::config::node::Node;
use words::config::pattern::{Excerpt, Pattern, PatternBudget};
use words::config::query::Query;
use words::config::read::{Cursor, Problems};
use words::settings::{SecretSources, Settings};

const ONE_TARGET: &str = r#"{"provider":"@up"}"#;

const NESTED: &str = r#"{"strategy":{"mode":"fallback","on_status_codes":[429,500,502,503]},"retry":{"attempts":2,"on_status_codes":[429]},"request_timeout":30000,"targets":[{"provider":"anthropic","api_key":"sk-one","override_params":{"model":"claude-sonnet","max_tokens":1024}},{"strategy":{"mode":"loadbalance"},"targets":[{"provider":"openai","api_key":"sk-two","weight":0.7},{"provider":"groq","api_key":"sk-three","weight":0.3}]}]}"#;

fn main() {
    let timer = Timer::start();
    for (name, method, path) in [
        ("operation: chat", Method::POST, "/v1/chat/completions"),
        ("operation: a path of one provider", Method::GET, "/v1/vector_stores/vs_1/files"),
    ] {
        timer.row(name, || Operation::find(black_box(&method), black_box(path)));
    }
    for (name, text) in [("config: one target", ONE_TARGET), ("config: nested fallback", NESTED)] {
        timer.row(&format!("{name}, JSON read"), || Node::from_json(black_box(text.as_bytes())));
        let Ok(node) = Node::from_json(text.as_bytes()) else { continue };
        timer.row(&format!("{name}, fields walked"), || {
            let problems = Problems::default();
            Cursor::root(black_box(&node), &problems).entries().map(|entries| entries.len())
        });
    }
    patterns(&timer);
    prefixes(&timer);
}

/// The choice of a target by the beginning of a request, among eight engines.
fn prefixes(timer: &Timer) {
    let Some(config) = by_prefix() else { return };
    for (name, bytes) in [("16 KB", 16 << 10), ("200 KB", 200 << 10), ("2 MB", 2 << 20)] {
        let Some(body) = chat(bytes) else { continue };
        let read = || PromptPrefix::new(Operation::ChatCompletions, Some("m"), black_box(&body));
        timer.row(&format!("prefix: blocks of a chat of {name}"), read);
        let Some(prefix) = read() else { continue };
        let blocks = prefix.blocks().len();
        debug_assert!(blocks <= MAX_BLOCKS);
        let mut env =
            PrefixEnv { prefix, tables: PrefixTables::default(), now: Instant::now(), knows: false };
        let choose = |env: &mut PrefixEnv| Plan::new(Arc::clone(&config), None).first(env);
        timer.row(&format!("prefix: choice, none of {blocks} blocks known"), || choose(&mut env));
        env.knows = true;
        timer.row(&format!("prefix: choice, {blocks} blocks known, and remembered again"), || {
            choose(&mut env)
        });
    }
}

/// A chat of about so many bytes, in messages of 2 KB.
fn chat(bytes: usize) -> Option<Body> {
    let text = |number: usize| format!("message {number} ").chars().cycle().take(2048).collect::<String>();
    let role = |number: usize| if number.is_multiple_of(2) { "user" } else { "assistant" };
    let message = |number: usize| serde_json::json!({"role": role(number), "content": text(number)});
    let messages: Vec<_> = (0..bytes / 2048).map(message).collect();
    Body::parse(Bytes::from(serde_json::json!({"messages": messages}).to_string())).ok()
}

fn by_prefix() -> Option<Arc<CompiledConfig>> {
    let engine = |number: usize| serde_json::json!({"provider": "vllm", "custom_host": format!("https://engine-{number}.example.com/v1")});
    let targets: Vec<_> = (0..8).map(engine).collect();
    let config = serde_json::json!({"strategy": {"mode": "loadbalance", "by": "prefix"}, "targets": targets});
    let mut headers = HeaderMap::new();
    headers.insert("x-gateway-config", config.to_string().parse().ok()?);
    let secrets = SecretSources { env: &|_| None, credential: &|_| Err(String::new()) };
    let settings = Settings::parse("", &secrets, &Checks::NONE).ok()?;
    let hosts = HostRules::new(&settings.custom_hosts);
    let stored = Stored::default();
    let gateway_headers = GatewayHeaders::read(&headers, &settings.header_prefixes).ok()?;
    let sources = Sources {
        settings: &settings,
        hosts: &hosts,
        directory: Directory {
            settings: &settings,
            stored: &stored,
            hosts_of: &HostLists::new(),
            workspace: None,
        },
        gateway_headers: &gateway_headers,
        provider_key: None,
        model_slug: None,
        names: ModelNaming::default(),
        prompt: None,
        object: None,
    };
    compile(&sources).ok().map(Arc::new)
}

/// What the plan of a request looks at, without a process around it.
struct PrefixEnv {
    prefix: PromptPrefix,
    tables: PrefixTables,
    now: Instant,
    /// Choices are remembered.
    knows: bool,
}

impl RoutingEnv for PrefixEnv {
    fn random(&mut self) -> f64 {
        0.5
    }

    fn circuit(&self, _: &Target) -> CircuitStatus {
        CircuitStatus::Closed
    }

    fn latency(&self, _: &Target) -> Option<Duration> {
        None
    }

    fn matches(&self, _: &Query) -> bool {
        false
    }

    fn sticky_choice(&self, _: &TargetGroup, _: &Sticky) -> Option<usize> {
        None
    }

    fn remember_choice(&self, _: &TargetGroup, _: &Sticky, _: usize) {}

    fn prefix(&self) -> Option<&PromptPrefix> {
        Some(&self.prefix)
    }

    fn find_prefix(&self, group: &PrefixGroup, blocks_of: &mut [u16]) {
        if let Some(table) = self.tables.get(group.owner) {
            table.find(self.prefix.blocks(), self.now, blocks_of);
        }
    }

    fn prefix_chosen(&self, group: &PrefixGroup, choice: PrefixChoice) {
        if self.knows {
            let table = self.tables.find_or_insert(group.owner, self.now);
            table.insert(self.prefix.blocks(), choice.member, choice.ttl, self.now);
        }
    }

    fn prefix_failed(&self, _: &PrefixGroup, _: usize) {}

    fn load(&self, _: &Target, _: Option<&str>) -> TargetLoad {
        TargetLoad::default()
    }
}

/// The patterns that take longest to compile or to match, of thousands that were tried.
fn patterns(timer: &Timer) {
    let all: String = ('a'..='z').chain('A'..='Z').chain('0'..='9').collect();
    let each = |part: &dyn Fn(char) -> String| all.chars().map(part).collect::<Vec<_>>().join("|");
    let text: String = std::iter::repeat_with(fastrand::alphanumeric).take(Excerpt::MAX_BYTES).collect();
    let text = Excerpt::of(text);
    let compile = |pattern: &str| Pattern::compile(pattern, &PatternBudget::default());
    for (name, pattern) in [
        ("500 times .*", ".*".repeat(500)),
        ("250 times .*, then !", format!("{}!", ".*".repeat(250))),
        ("a choice of parts", each(&|c| format!(r"{c}\w{{2}}!"))),
        ("a choice of long parts", each(&|c| format!(r"{c}\w{{5}}!"))),
        ("options", format!("(?:{}){{10}}!", all.chars().map(|c| format!("{c}?")).collect::<String>())),
        ("a gap", "[ab].{20}!".to_owned()),
        ("a short gap", "[ab].{8}!".to_owned()),
        ("letters of all scripts", r"\pL{2}!".to_owned()),
    ] {
        timer.row(&format!("pattern: {name}, compiled or refused"), || compile(black_box(&pattern)).is_ok());
        let Ok(compiled) = compile(&pattern) else { continue };
        timer.row(&format!("pattern: {name}, 16 KiB"), || compiled.is_match(black_box(&text)));
    }
}
