//! `litellm_settings`, `router_settings` and `general_settings`: how names are routed, and what holds for the whole process.
//!
//! Not here: the names themselves (`routes`).

use super::super::cursor::InputAt;
use super::super::import::Import;
use super::super::moved::VariableUse;
use super::super::report::Taken;
use super::super::tree::Tree;
use super::super::value::WrittenValue;
use super::routes::{Fallbacks, Routing};
use super::value;

/// Reads the sections of one file.
pub fn read<'n>(import: &mut Import, root: &InputAt<'n>, routing: &mut Routing<'n>) {
    if let Some(general) = root.member("general_settings") {
        read_general(import, &general);
    }
    let library = root.member("litellm_settings");
    let router = root.member("router_settings");
    for section in [&library, &router].into_iter().flatten() {
        read_routing(import, section, routing);
    }
    if let Some(library) = &library {
        read_cache(import, library, routing);
        read_callbacks(import, library);
        if let Some(at) = library.member("drop_params") {
            match at.flag() {
                Some(true) => import.findings.exact(&at, "is so here: a translation leaves out what the provider does not take, with a warning (docs/translation.md)"),
                _ => import.findings.different(&at, "a translation leaves out what the provider does not take, with a warning, and refuses nothing (docs/translation.md)"),
            }
        }
    }
    if let Some(router) = &router {
        read_strategy(import, router, routing);
        read_aliases(import, router, routing);
        read_redis(import, router);
    }
}

fn policy(routing: &mut Routing<'_>, name: &str, value: Tree) {
    let policies = routing.policies.take().unwrap_or_else(Tree::map);
    routing.policies = Some(policies.with(name, value));
}

/// Retries, timeouts, breakers and fallbacks, which both sections may have.
fn read_routing<'n>(import: &mut Import, section: &InputAt<'n>, routing: &mut Routing<'n>) {
    if let Some(at) = section.member("num_retries") {
        match at.number().filter(|count| (0.0..=100.0).contains(count)) {
            Some(count) if count >= 1.0 => {
                let mut retry = Tree::of([("attempts", Tree::number(count.trunc()))]);
                if let Some(after) = section.member("retry_after").filter(|after| after.number() != Some(0.0))
                {
                    match value::milliseconds(&after) {
                        Some(wait) => {
                            retry.set("backoff_ms", Tree::whole(wait));
                            import.findings.different(
                                &after,
                                "retry.backoff_ms of every config: the longest first wait, not the shortest",
                            );
                        }
                        None => import.findings.not_taken(&after, "is no number of seconds"),
                    }
                }
                policy(routing, "retry", retry);
                import.findings.different(&at, "retry.attempts of every config: at the same target before the next, where LiteLLM chooses anew");
            }
            Some(_) => import.findings.exact(&at, "is so here: nothing is retried without retry"),
            None => import.findings.not_taken(&at, "is no number of retries"),
        }
    }
    for name in ["request_timeout", "timeout"] {
        let Some(at) = section.member(name) else { continue };
        match value::milliseconds(&at) {
            Some(time) => {
                import.moved.set("limits", "request_timeout_ms", Tree::whole(time));
                import.findings.exact(&at, "limits.request_timeout_ms");
            }
            None => import.findings.not_taken(
                &at,
                "is no number of seconds that can be written here; see limits.request_timeout_ms",
            ),
        }
    }
    read_breaker(import, section, routing);
    read_fallbacks(import, section, routing);
}

/// `allowed_fails` and `cooldown_time`.
fn read_breaker(import: &mut Import, section: &InputAt<'_>, routing: &mut Routing<'_>) {
    let fails = section.member("allowed_fails").filter(|at| at.number().is_some_and(|fails| fails >= 0.0));
    let cooldown = section.member("cooldown_time").filter(|at| at.number().is_some());
    if fails.is_none() && cooldown.is_none() {
        return;
    }
    // LiteLLM's own where the file says one of them only.
    let threshold = fails.as_ref().and_then(InputAt::number).unwrap_or(3.0).trunc() + 1.0;
    let cooldown_ms = cooldown.as_ref().and_then(value::milliseconds).unwrap_or(5000).max(30_000);
    let breaker = Tree::of([
        ("failure_threshold", Tree::number(threshold)),
        ("cooldown_interval", Tree::whole(cooldown_ms)),
    ]);
    policy(routing, "cb_config", breaker);
    if let Some(at) = fails {
        import.findings.different(&at, "cb_config.failure_threshold of every config: failures within one cooldown_interval open the circuit");
    }
    if let Some(at) = cooldown {
        import.findings.different(&at, "cb_config.cooldown_interval of every config, at least 30 seconds; then it closes step by step (docs/reliability.md)");
    }
}

fn read_fallbacks<'n>(import: &mut Import, section: &InputAt<'n>, routing: &mut Routing<'n>) {
    if let Some(lists) = section.member("fallbacks") {
        for (of, list) in lists.items().iter().flat_map(InputAt::entries) {
            let names = names(import, &list);
            routing.fallbacks.push(Fallbacks { of: of.to_owned(), names });
        }
    }
    for (key, class) in
        [("context_window_fallbacks", "context_window"), ("content_policy_fallbacks", "content_policy")]
    {
        let lists = section.member(key).map(|lists| lists.items()).unwrap_or_default();
        for (of, list) in lists.iter().flat_map(InputAt::entries) {
            let names = names(import, &list);
            routing.class_fallbacks.push((class, Fallbacks { of: of.to_owned(), names }));
        }
    }
    if let Some(list) = section.member("default_fallbacks") {
        let names = names(import, &list);
        routing.default_fallbacks.extend(names);
    }
}

/// The names of a list of fallbacks; those with parameters of their own are not taken.
fn names<'n>(import: &mut Import, list: &InputAt<'n>) -> Vec<(String, InputAt<'n>)> {
    let mut names = Vec::new();
    for at in list.items() {
        match at.text() {
            Some(name) => {
                import.findings.not_taken(&at, "is a fallback of a name that is not in model_list");
                names.push((name, at));
            }
            None => import.findings.not_taken(&at, "a fallback with parameters of its own: write a config with override_params in the target (docs/config.md)"),
        }
    }
    names
}

fn read_strategy(import: &mut Import, router: &InputAt<'_>, routing: &mut Routing<'_>) {
    let Some(at) = router.member("routing_strategy") else { return };
    let named = at.text().unwrap_or_default();
    match named.as_str() {
        "simple-shuffle" => import.findings.exact(&at, "strategy.mode loadbalance, by weight"),
        "latency-based-routing" => {
            // Both choose among deployments whose rates are not used up.
            routing.by = Some("least_latency");
            routing.has_limits = true;
            import
                .findings
                .different(&at, "strategy.by least_latency: the faster of two that are drawn by weight");
        }
        "cost-based-routing" => {
            routing.by = Some("price");
            routing.has_limits = true;
            import.findings.different(&at, "strategy.by price, in groups whose deployments all have prices in the file; others by weight");
        }
        "usage-based-routing" | "usage-based-routing-v2" => {
            routing.has_limits = true;
            import.findings.different(&at, "strategy.mode loadbalance with failover: a deployment whose rate is used up is passed over, the least used is not preferred");
        }
        "least-busy" => {
            routing.by = Some("least_busy");
            import.findings.exact(&at, "strategy.by least_busy");
        }
        _ => import
            .findings
            .not_taken(&at, "no strategy of LiteLLM that is known here; groups are balanced by weight"),
    }
}

/// `model_group_alias`: other names of a name.
fn read_aliases<'n>(import: &mut Import, router: &InputAt<'n>, routing: &mut Routing<'n>) {
    let Some(aliases) = router.member("model_group_alias") else { return };
    for (alias, at) in aliases.entries() {
        let (name, place) = match at.member("model") {
            Some(model) => (model.text(), model),
            None => (at.text(), at.clone()),
        };
        if let Some(hidden) = at.member("hidden") {
            match hidden.flag() {
                Some(true) => import.findings.not_taken(
                    &hidden,
                    "every name is listed to those who may use it; keys says who may (docs/models.md)",
                ),
                _ => import.findings.exact(&hidden, "is so here"),
            }
        }
        if let Some(name) = name {
            routing.aliases.push((alias.to_owned(), name, place));
        }
    }
}

/// The address of a Redis from host, port and password, or from a URL.
fn redis_url(import: &mut Import, section: &InputAt<'_>, prefix: &str) -> Option<String> {
    let member = |name: &str| section.text_of(&format!("{prefix}{name}"));
    if let Some(url) = member("url") {
        return Some(import.written(&url, value::reader, "REDIS_URL", VariableUse::Redis).text);
    }
    let host = value::text(import, &member("host")?, VariableUse::Host);
    let port = member("port").unwrap_or_else(|| "6379".to_owned());
    let port = value::text(import, &port, VariableUse::Port);
    let user = member("password").map(|password| {
        let password = import.hidden(&password, value::reader, "REDIS_PASSWORD", VariableUse::Secret);
        format!(":{}@", password.text)
    });
    let user = user.unwrap_or_default();
    let scheme = if member("ssl").as_deref() == Some("true") { "rediss" } else { "redis" };
    Some(format!("{scheme}://{user}{host}:{port}"))
}

/// Reports a part of an address of Redis; a password in it is not copied.
fn note_redis(import: &mut Import, at: &InputAt<'_>, member: &str) {
    let given = at.text().unwrap_or_default();
    let written = match at.path.ends_with("password") {
        true => import.hidden(&given, value::reader, "REDIS_PASSWORD", VariableUse::Secret),
        false if at.path.ends_with("url") => {
            import.written(&given, value::reader, "REDIS_URL", VariableUse::Redis)
        }
        false => WrittenValue::exact(String::new()),
    };
    let text = format!("{member}{}", written.more);
    match written.taken {
        Taken::Exact => import.findings.exact(at, text),
        _ => import.findings.different(at, text),
    }
}

/// Redis of the router: limits are counted there.
fn read_redis(import: &mut Import, router: &InputAt<'_>) {
    let Some(url) = redis_url(import, router, "redis_") else { return };
    import.moved.set("limits", "shared", Tree::text(url));
    for name in ["redis_url", "redis_host", "redis_port", "redis_password", "redis_ssl"] {
        if let Some(at) = router.member(name) {
            import.findings.different(&at, "limits.shared: limits are counted there together; each gateway has its own circuits (docs/limit-counters.md)");
        }
    }
}

/// `cache` and `cache_params`.
fn read_cache(import: &mut Import, library: &InputAt<'_>, routing: &mut Routing<'_>) {
    let Some(at) = library.member("cache") else { return };
    let params = library.member("cache_params");
    if at.flag() != Some(true) {
        import.findings.exact(&at, "is so here: nothing is cached without cache in a config");
        return;
    }
    let kind =
        params.as_ref().and_then(|params| params.text_of("type")).unwrap_or_else(|| "redis".to_owned());
    let types = params.as_ref().and_then(|params| params.member("supported_call_types"));
    if types.as_ref().is_some_and(|types| types.items().is_empty()) {
        import.findings.exact(&at, "caches nothing, as supported_call_types is empty");
        if let Some(types) = types {
            import.findings.exact(&types, "nothing is cached");
        }
    } else if let Some(why) = opts_out(params.as_ref(), types.as_ref()) {
        import.findings.not_taken(&at, why);
    } else {
        let is_semantic = kind.ends_with("-semantic");
        let mode = if is_semantic { "semantic" } else { "simple" };
        let mut cache = Tree::of([("mode", Tree::text(mode))]);
        let ttl = params.as_ref().and_then(|params| params.member("ttl"));
        if let Some((ttl, seconds)) = ttl.and_then(|ttl| Some((ttl.clone(), ttl.number()?))) {
            cache.set("max_age", Tree::number(seconds.trunc()));
            import.findings.exact(&ttl, "cache.max_age of every config");
        }
        if is_semantic {
            import.findings.not_taken(&at, "finds what means the same: write semantic_cache with a model for vectors, and cache in the configs (docs/cache.md)");
        } else {
            policy(routing, "cache", cache);
            import.findings.different(
                &at,
                "cache of every config; the requests are equal by another rule (docs/cache.md)",
            );
        }
    }
    let Some(params) = params else { return };
    read_cache_store(import, &params, &kind);
}

/// Why chats are not cached though the cache is on.
fn opts_out(params: Option<&InputAt<'_>>, types: Option<&InputAt<'_>>) -> Option<&'static str> {
    if params.and_then(|params| params.text_of("mode")).as_deref() == Some("default_off") {
        return Some("requests ask for it one by one: clients send a config with cache (docs/cache.md)");
    }
    let is_chat = |at: &InputAt<'_>| matches!(at.text().as_deref(), Some("completion" | "acompletion"));
    let has_chats = types.is_none_or(|types| types.items().iter().any(is_chat));
    (!has_chats).then_some(
        "is for operations other than chats: write cache into the configs of those (docs/cache.md)",
    )
}

fn read_cache_store(import: &mut Import, params: &InputAt<'_>, kind: &str) {
    let Some(type_at) = params.member("type") else { return };
    match kind {
        "local" => import.findings.exact(&type_at, "is so here: in memory"),
        "redis" | "valkey" => match redis_url(import, params, "") {
            Some(url) => {
                import.moved.set("cache", "url", Tree::text(url));
                import.findings.exact(&type_at, "cache.url");
                for name in ["url", "host", "port", "password", "ssl"] {
                    if let Some(at) = params.member(name) {
                        note_redis(import, &at, "cache.url");
                    }
                }
            }
            None => import.findings.not_taken(
                &type_at,
                "its address is in the environment of LiteLLM; write cache.url (docs/cache.md)",
            ),
        },
        _ => import
            .findings
            .not_taken(&type_at, "is kept in memory, or in Redis or Valkey by cache.url (docs/cache.md)"),
    }
}

/// Callbacks that have a counterpart.
fn read_callbacks(import: &mut Import, library: &InputAt<'_>) {
    for list in ["callbacks", "success_callback", "failure_callback", "service_callback"] {
        let Some(list) = library.member(list) else { continue };
        let items = if list.is_container() { list.items() } else { vec![list] };
        for at in items {
            callback(import, &at);
        }
    }
}

fn callback(import: &mut Import, at: &InputAt<'_>) {
    let name = at.text().unwrap_or_default();
    match name.as_str() {
        "prometheus" => import.findings.exact(at, "is so here: /metrics of the control port, with names of its own (docs/metrics.md)"),
        "otel" | "opentelemetry" => {
            let endpoint = import.moved.variable("OTEL_EXPORTER_OTLP_ENDPOINT", VariableUse::Url);
            import.moved.set("telemetry", "otlp", Tree::of([("endpoint", Tree::Text(endpoint))]));
            import.findings.different(at, "telemetry.otlp, with spans of its own; set OTEL_EXPORTER_OTLP_ENDPOINT (docs/telemetry.md)");
        }
        "langfuse" | "langfuse_otel" | "arize" | "arize_phoenix" | "langsmith" | "weave_otel" | "traceloop" | "logfire" => {
            import.findings.not_taken(at, format!("{name} takes traces by OTLP: write its address as telemetry.otlp.endpoint (docs/telemetry.md)"));
        }
        "datadog" | "datadog_llm_observability" | "newrelic" => import.findings.not_taken(
            at,
            format!("{name}'s agent takes traces by OTLP (telemetry.otlp) and reads the access log (docs/telemetry.md, docs/access-log.md)"),
        ),
        "s3" | "s3_v2" | "gcs_bucket" | "azure_storage" => import.findings.not_taken(
            at,
            "exports of logs write files of rows (docs/logs.md)",
        ),
        "smtp_email" | "email" => smtp(import, at),
        _ if name.contains('.') => import.findings.not_taken(
            at,
            "code in Python; here a guardrail with default.webhook calls a server of yours (docs/guardrails.md)",
        ),
        _ => import.findings.not_taken(
            at,
            "has no counterpart: logs are in the gateway's own store (docs/logs.md), traces go out by telemetry.otlp",
        ),
    }
}

/// Mail, whose address LiteLLM takes from the environment.
fn smtp(import: &mut Import, at: &InputAt<'_>) {
    let mut text = |name: &str, of| Tree::Text(import.moved.variable(name, of));
    let smtp = Tree::of([
        ("host", text("SMTP_HOST", VariableUse::Host)),
        ("username", text("SMTP_USERNAME", VariableUse::Text)),
        ("password", text("SMTP_PASSWORD", VariableUse::Secret)),
        ("from", text("SMTP_SENDER_EMAIL", VariableUse::Mail)),
    ]);
    import.moved.set("alerts", "smtp", smtp);
    import
        .findings
        .different(at, "alerts.smtp, for messages about limits; set alerts.smtp.to (docs/alerts.md)");
}

/// Keys of the process.
fn read_general(import: &mut Import, general: &InputAt<'_>) {
    if let Some(at) = general.member("master_key").filter(|at| at.text().is_some()) {
        // A service key is a secret whatever it is.
        let given = at.text().unwrap_or_default();
        let written = import.hidden(&given, value::reader, "LITELLM_MASTER_KEY", VariableUse::Secret);
        import.moved.key(Tree::of([("name", Tree::text("master")), ("key", Tree::Text(written.text))]));
        let note = "auth.keys[master], which calls and administrates; it must have 8 characters at least. Keys of LiteLLM's \
                    database are taken by --db (docs/moving/litellm.md)";
        match written.taken {
            Taken::Exact => import.findings.exact(&at, note),
            _ => import.findings.different(&at, format!("{note}{}", written.more)),
        }
    }
    let Some(at) = general.member("alerting") else { return };
    for at in if at.is_container() { at.items() } else { vec![at] } {
        match at.text().as_deref() {
            Some("email") => smtp(import, &at),
            Some("slack") => {
                let url = import.moved.variable("SLACK_WEBHOOK_URL", VariableUse::Url);
                let hook = Tree::of([("url", Tree::Text(url)), ("format", Tree::text("slack"))]);
                import.moved.set("alerts", "webhooks", Tree::List(vec![hook]));
                import
                    .findings
                    .different(&at, "alerts.webhooks, about limits; set SLACK_WEBHOOK_URL (docs/alerts.md)");
            }
            _ => import
                .findings
                .not_taken(&at, "alerts.webhooks takes URLs that read JSON of ours (docs/alerts.md)"),
        }
    }
}
