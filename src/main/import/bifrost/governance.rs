//! `governance`: virtual keys with their budgets and rates, and routing rules that compare the model.
//!
//! Not taken: teams and customers, which are workspaces and policies of the store, and rules whose CEL says more.

use super::super::cursor::InputAt;
use super::super::import::Import;
use super::super::moved::{VariableUse, variable_in};
use super::super::report::Taken;
use super::super::tree::Tree;
use super::super::value::WrittenValue;
use super::models::{self, Provider};
use super::value;

/// Virtual keys.
pub fn read_keys(
    import: &mut Import,
    governance: &InputAt<'_>,
    providers: &[Provider<'_>],
    empty_is_all: bool,
) {
    for at in governance.member("virtual_keys").map(|keys| keys.items()).unwrap_or_default() {
        if at.member("is_active").is_some_and(|active| active.flag() == Some(false)) {
            import.findings.not_taken(&at, "is not active");
            continue;
        }
        let allowed = allowed(import, &at, providers, empty_is_all);
        read_key(import, governance, &at, allowed);
    }
}

fn read_key(import: &mut Import, governance: &InputAt<'_>, at: &InputAt<'_>, allowed: Option<Tree>) {
    let named = at.member("name").or_else(|| at.member("id"));
    let Some(name) = named.as_ref().and_then(InputAt::text) else {
        import.findings.not_taken(at, "has no name");
        return;
    };
    let wanted = format!("{name}_KEY").to_uppercase();
    let value_at = at.member("value");
    let given = value_at.as_ref().and_then(value::text).filter(|text| !text.is_empty());
    let written = match &given {
        Some(given) => import.hidden(given, value::reader, &wanted, VariableUse::Secret),
        // Bifrost makes a value that is in its database alone. Without the key the gateway could be open.
        None => {
            let text = import.moved.new_variable(&wanted, VariableUse::Secret);
            let more =
                format!(": set {} to its value, which is in Bifrost's database alone", variable_in(&text));
            WrittenValue { text, taken: Taken::Different, more }
        }
    };
    let mut key = Tree::of([
        ("name", Tree::text(name.clone())),
        ("key", Tree::Text(written.text)),
        ("scopes", Tree::List(vec![Tree::text("completions.write")])),
    ]);
    key = key.with_some("usage_limits", budgets(import, governance, at));
    key = key.with_some("rate_limits", rates(import, governance, at));
    key = key.with_some("allowed_models", allowed);
    if !import.moved.key(key) {
        import.findings.not_taken(at, format!("another virtual key is called {name}"));
        return;
    }
    let more = written.more;
    let text = format!("auth.keys[{name}], sent as bearer or in x-gateway-api-key, not in x-bf-vk{more}");
    let value_at = value_at.filter(|_| given.is_some());
    let has_value = value_at.is_some();
    if let Some(at) = value_at {
        value::record(import, &at, written.taken, &text);
    }
    match named {
        Some(at) if has_value => import.findings.exact(&at, format!("auth.keys[{name}]")),
        Some(at) => import.findings.different(&at, text),
        None => {}
    }
    if let Some(at) = at.member("is_active") {
        import.findings.exact(&at, "is so here");
    }
}

/// The models of a key; `None`: all.
fn allowed(
    import: &mut Import,
    at: &InputAt<'_>,
    providers: &[Provider<'_>],
    empty_is_all: bool,
) -> Option<Tree> {
    if let Some(all) = at.member("allow_all_providers").filter(|all| all.flag() == Some(true)) {
        import.findings.exact(&all, "a key without allowed_models may use all");
        return None;
    }
    let configs = at.member("provider_configs").map(|configs| configs.items()).unwrap_or_default();
    // A key without providers may use all in version 1, and none in version 2.
    if configs.is_empty() && empty_is_all {
        return None;
    }
    let mut names = Vec::new();
    for config in configs {
        let Some(provider_at) = config.member("provider") else { continue };
        let provider = provider_at.text().unwrap_or_default();
        import.findings.exact(&provider_at, "allowed_models of the key");
        let models_at = config.member("allowed_models");
        let models: Vec<String> = models_at
            .as_ref()
            .map(|at| at.items().iter().filter_map(InputAt::text).collect())
            .unwrap_or_default();
        if let Some(at) = &models_at {
            import.findings.exact(at, "allowed_models of the key");
        }
        let is_all = models.iter().any(|model| model == "*")
            || (models.is_empty() && (empty_is_all || models_at.is_none()));
        if is_all {
            names.push(format!("{provider}/*"));
            // Models by their plain names, which lead to these accounts.
            let of = providers.iter().filter(|found| found.name == provider);
            names.extend(of.flat_map(Provider::slugs).map(|slug| format!("@{slug}/*")));
        }
        for model in models.iter().filter(|model| *model != "*") {
            names.push(format!("{provider}/{model}"));
            let of = providers.iter().filter(|found| found.name == provider);
            names.extend(of.flat_map(|found| found.at_providers(model)));
            if models::is_plain_name_of(providers, &provider, model) {
                names.push(model.clone());
            }
        }
        if let Some(ids) = config.member("key_ids") {
            let is_any =
                ids.items().is_empty() || ids.items().iter().any(|id| id.text().as_deref() == Some("*"));
            match is_any {
                true => import.findings.exact(&ids, "is so here: the key may use every account"),
                false => import.findings.not_taken(&ids, "keys of providers are not given to keys of clients: write a config for the key (defaults.config_id, docs/keys.md)"),
            }
        }
    }
    names.dedup();
    Some(Tree::List(names.into_iter().map(Tree::Text).collect()))
}

/// The objects of a list of governance that a key names, or that name the key.
fn of_key<'n>(governance: &InputAt<'n>, key: &InputAt<'n>, list: &str, member: &str) -> Vec<InputAt<'n>> {
    let id = key.text_of("id");
    let named: Vec<String> = key.text_of(member).into_iter().collect();
    let all = governance.member(list).map(|list| list.items()).unwrap_or_default();
    let mut found: Vec<InputAt<'n>> = all
        .into_iter()
        .filter(|object| {
            object.text_of("id").is_some_and(|id| named.contains(&id))
                || (id.is_some() && object.text_of("virtual_key_id") == id)
        })
        .collect();
    // Newer files may have them in the key.
    found.extend(key.member(list).map(|list| list.items()).unwrap_or_default());
    found
}

fn budgets(import: &mut Import, governance: &InputAt<'_>, key: &InputAt<'_>) -> Option<Tree> {
    let mut limits = Vec::new();
    for at in of_key(governance, key, "budgets", "budget_id") {
        let Some((max_at, max)) = at.member("max_limit").and_then(|at| Some((at.clone(), at.number()?)))
        else {
            continue;
        };
        let reset_at = at.member("reset_duration");
        let limit = Tree::of([("credit_limit", Tree::number(max))]);
        let reset = reset_at.as_ref().and_then(InputAt::text).unwrap_or_default();
        let aligned_at = at.member("calendar_aligned").or_else(|| key.member("calendar_aligned"));
        let is_aligned = aligned_at.as_ref().is_some_and(|at| at.flag() == Some(true));
        let Some((limit, taken, how)) = with_reset(limit, &reset, is_aligned) else {
            import.findings.not_taken(
                &at,
                format!("a budget of {reset}: the shortest period of one here is a day (docs/limits.md)"),
            );
            continue;
        };
        limits.push(limit);
        import.findings.exact(&max_at, "usage_limits.credit_limit of the key");
        if let Some(at) = reset_at {
            import.findings.whole(&at, taken, &how);
        }
        if let Some(at) = aligned_at {
            let is_same = matches!(reset.as_str(), "1M" | "1w") || !is_aligned;
            let taken = if is_same { Taken::Exact } else { Taken::Different };
            import.findings.whole(&at, taken, "usage_limits.periodic_reset of the key: months and weeks are the calendar's (limits.timezone)");
        }
        for name in ["id", "virtual_key_id"] {
            if let Some(at) = at.member(name) {
                import.findings.exact(&at, "the limit of its key");
            }
        }
    }
    if let Some(at) = key.member("budget_id").filter(|_| !limits.is_empty()) {
        import.findings.exact(&at, "usage_limits of the key");
    }
    (!limits.is_empty()).then_some(Tree::List(limits))
}

/// A limit with its period: `1M`, `1w`, `30d`.
fn with_reset(limit: Tree, reset: &str, is_aligned: bool) -> Option<(Tree, Taken, String)> {
    let split = reset.len().checked_sub(1)?;
    let count: u64 = reset.get(..split)?.parse().ok()?;
    let unit = reset.get(split..)?;
    match (count, unit) {
        (1, "M") if is_aligned => Some((
            limit.with("periodic_reset", Tree::text("monthly")),
            Taken::Exact,
            "usage_limits.periodic_reset".to_owned(),
        )),
        (1, "w") if is_aligned => Some((
            limit.with("periodic_reset", Tree::text("weekly")),
            Taken::Exact,
            "usage_limits.periodic_reset".to_owned(),
        )),
        _ => {
            let days = match unit {
                "d" => count,
                "w" => count.saturating_mul(7),
                "M" => count.saturating_mul(30),
                "Y" | "y" => count.saturating_mul(365),
                _ => return None,
            };
            let limit = limit.with("periodic_reset_days", Tree::whole(days.clamp(1, 365)));
            let taken = if matches!(unit, "d" | "w") && (1..=365).contains(&days) {
                Taken::Exact
            } else {
                Taken::Different
            };
            let how = match days {
                0..=365 => format!("usage_limits.periodic_reset_days: {}", days.max(1)),
                _ => "usage_limits.periodic_reset_days: 365, which is the longest here".to_owned(),
            };
            Some((limit, taken, how))
        }
    }
}

fn rates(import: &mut Import, governance: &InputAt<'_>, key: &InputAt<'_>) -> Option<Tree> {
    let mut limits = Vec::new();
    for at in of_key(governance, key, "rate_limits", "rate_limit_id") {
        for (max, reset, of) in [
            ("request_max_limit", "request_reset_duration", "requests"),
            ("token_max_limit", "token_reset_duration", "tokens"),
        ] {
            let Some((max_at, max)) = at.member(max).and_then(|at| Some((at.clone(), at.number()?))) else {
                continue;
            };
            let reset_at = at.member(reset);
            let unit = match reset_at.as_ref().and_then(InputAt::text).as_deref() {
                Some("1s") => "rps",
                Some("1m") => "rpm",
                Some("1h") => "rph",
                Some("1d") => "rpd",
                Some("1w") => "rpw",
                _ => {
                    for at in [Some(max_at), reset_at].into_iter().flatten() {
                        import.findings.not_taken(
                            &at,
                            "a rate is for one second, minute, hour, day or week here (docs/limits.md)",
                        );
                    }
                    continue;
                }
            };
            let limit = Tree::of([
                ("unit", Tree::text(unit)),
                ("value", Tree::number(max.trunc())),
                ("type", Tree::text(of)),
            ]);
            limits.push(limit);
            for at in [Some(max_at), reset_at].into_iter().flatten() {
                import.findings.exact(&at, "rate_limits of the key");
            }
        }
        if let Some(at) = at.member("id") {
            import.findings.exact(&at, "the limit of its key");
        }
    }
    if let Some(at) = key.member("rate_limit_id").filter(|_| !limits.is_empty()) {
        import.findings.exact(&at, "rate_limits of the key");
    }
    (!limits.is_empty()).then_some(Tree::List(limits))
}

/// Routing rules, the most important first.
pub fn read_rules(import: &mut Import, governance: &InputAt<'_>, providers: &[Provider<'_>]) {
    let mut rules = governance.member("routing_rules").map(|rules| rules.items()).unwrap_or_default();
    rules.sort_by(|a, b| {
        let priority =
            |at: &InputAt<'_>| at.member("priority").and_then(|at| at.number()).unwrap_or_default();
        priority(a).total_cmp(&priority(b))
    });
    let mut patterns = Vec::new();
    for rule in rules {
        if let Err(why) = read_rule(import, &rule, providers, &mut patterns) {
            import.findings.not_taken(&rule, why);
        }
    }
}

/// The rule's names of models, if it is one that can be taken.
fn rule_names(rule: &InputAt<'_>, patterns: &[String]) -> Result<Vec<String>, String> {
    const OTHER_CEL: &str =
        "its CEL is more than a comparison of the model: write a config with conditions (docs/config.md)";
    if rule.member("enabled").is_some_and(|enabled| enabled.flag() == Some(false)) {
        return Err("is not enabled".to_owned());
    }
    if rule.text_of("scope").is_some_and(|scope| scope != "global") {
        return Err("is for some keys alone: write a name of models with keys (docs/models.md)".to_owned());
    }
    let cel = rule.member("cel_expression").ok_or(OTHER_CEL)?;
    let names = names_of(&cel.text().unwrap_or_default()).ok_or(OTHER_CEL)?;
    let is_meant =
        |name: &String| patterns.iter().any(|pattern| name.starts_with(pattern.trim_end_matches('*')));
    match names.iter().find(|name| is_meant(name)) {
        Some(name) => Err(format!("a rule before it counts for {name}, where here the longer name would")),
        None => Ok(names),
    }
}

fn read_rule(
    import: &mut Import,
    rule: &InputAt<'_>,
    providers: &[Provider<'_>],
    patterns: &mut Vec<String>,
) -> Result<(), String> {
    let names = rule_names(rule, patterns)?;
    let targets_at = rule.member("targets").map(|targets| targets.items()).unwrap_or_default();
    let targets_at = if targets_at.is_empty() { vec![rule.clone()] } else { targets_at };
    // A target without a model requests the one of the request, so that each name has a route of its own.
    let mut routes = Vec::new();
    for name in &names {
        routes.push((name, rule_route(&targets_at, providers, name)?));
    }
    let chain = fallbacks(import, rule, providers);
    let id = rule.text_of("name").or_else(|| rule.text_of("id")).unwrap_or_else(|| names.concat());
    let mut others = Vec::new();
    for (name, route) in routes {
        let mut entry = models::saved(import, &id, &with_fallbacks(route, &chain));
        if name.contains('*') && entry.member("to").is_none() {
            entry = Tree::of([("to", entry)]);
        }
        // In CEL the provider is no part of the model: the rule is for its name at each of them.
        let at_providers = providers.iter().map(|provider| format!("{}/{name}", provider.name));
        if name.contains('*') {
            // Without the provider before it.
            entry.set("model", Tree::text(name.clone()));
        }
        for name in at_providers.chain([name.clone()]) {
            if !import.moved.model(&name, entry.clone()) {
                others.push(name);
            }
        }
    }
    patterns.extend(names.iter().filter(|name| name.contains('*')).cloned());
    record_rule(import, rule, &targets_at, &format!("models.{}", names.join(", models.")));
    if let Some(at) = rule.member("cel_expression").filter(|_| !others.is_empty()) {
        let why =
            format!("models.{}; a rule before it counts for {}", names.join(", models."), others.join(", "));
        import.findings.different(&at, why);
    }
    Ok(())
}

/// The targets of a rule for one name.
fn rule_route(targets: &[InputAt<'_>], providers: &[Provider<'_>], name: &str) -> Result<Tree, String> {
    let mut routes = Vec::new();
    for at in targets {
        let provider = at.text_of("provider").ok_or("names no provider")?;
        let model = at.text_of("model").filter(|model| !model.is_empty());
        let found = providers.iter().find(|found| found.name == provider);
        let route = match &model {
            None if name.contains('*') => found.and_then(Provider::route_pattern),
            Some(model) => found.and_then(|found| found.route(model)),
            None => found.and_then(|found| found.route(name)),
        };
        let model = model.as_deref().unwrap_or(name);
        let route =
            route.ok_or_else(|| format!("names {provider}/{model}, which no key is for, or not each"))?;
        let weight = at.member("weight").and_then(|at| at.number()).filter(|_| targets.len() > 1);
        routes.push(route.with_some("weight", weight.map(Tree::number)));
    }
    if let [one] = routes.as_slice() {
        return Ok(one.clone());
    }
    Ok(Tree::of([("strategy", super::super::config_parts::balanced(None)), ("targets", Tree::List(routes))]))
}

/// The fallbacks of a rule, each as a target.
fn fallbacks(import: &mut Import, rule: &InputAt<'_>, providers: &[Provider<'_>]) -> Vec<Tree> {
    let mut chain = Vec::new();
    for at in rule.member("fallbacks").map(|list| list.items()).unwrap_or_default() {
        let named = at.text().unwrap_or_default();
        let found = named.split_once('/').and_then(|(provider, model)| {
            providers.iter().find(|found| found.name == provider)?.route(model)
        });
        match found {
            Some(target) => {
                chain.push(target);
                import.findings.exact(&at, "a fallback in its config");
            }
            None => import.findings.not_taken(&at, format!("no key is for {named}")),
        }
    }
    chain
}

fn with_fallbacks(route: Tree, chain: &[Tree]) -> Tree {
    if chain.is_empty() {
        return route;
    }
    let mut all = vec![route];
    all.extend(chain.iter().cloned());
    Tree::of([("strategy", Tree::of([("mode", Tree::text("fallback"))])), ("targets", Tree::List(all))])
}

/// Reports the parts of a rule that was taken.
fn record_rule(import: &mut Import, rule: &InputAt<'_>, targets: &[InputAt<'_>], text: &str) {
    let parts = ["cel_expression", "name", "id", "provider", "model", "enabled", "scope", "priority"];
    for at in parts.iter().filter_map(|name| rule.member(name)) {
        import.findings.exact(&at, text);
    }
    for at in
        targets.iter().flat_map(|at| ["provider", "model", "weight"].map(|name| at.member(name))).flatten()
    {
        import.findings.exact(&at, text);
    }
}

/// The names of models that an expression compares with; `None`: it says more.
fn names_of(cel: &str) -> Option<Vec<String>> {
    let cel = cel.trim().trim_start_matches('(').trim_end_matches(')').trim();
    let literal = |text: &str| {
        let text = text.trim();
        let inner = text.strip_prefix('"').and_then(|text| text.strip_suffix('"'));
        let inner = inner.or_else(|| text.strip_prefix('\'')?.strip_suffix('\''))?;
        let is_name = !inner.is_empty()
            && !inner.contains(['"', '\'', '*', '@'])
            && !inner.contains(char::is_whitespace);
        is_name.then(|| inner.to_owned())
    };
    if let Some(rest) = cel.strip_prefix("model.startsWith(") {
        return Some(vec![format!("{}*", literal(rest)?)]);
    }
    let rest = cel.strip_prefix("model")?.trim_start();
    if let Some(rest) = rest.strip_prefix("==") {
        return Some(vec![literal(rest)?]);
    }
    let list = rest.strip_prefix("in")?.trim().strip_prefix('[')?.strip_suffix(']')?;
    list.split(',').map(literal).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comparisons_of_the_model_are_read_and_nothing_else() {
        for (cel, wanted) in [
            ("model == \"gpt-4o\"", Some(vec!["gpt-4o"])),
            ("(model == 'a/b')", Some(vec!["a/b"])),
            ("model in ['a', 'b']", Some(vec!["a", "b"])),
            ("model.startsWith('claude-')", Some(vec!["claude-*"])),
            ("model != 'a'", None),
            ("model == 'a' || model == 'b'", None),
            ("headers['x'] == 'a'", None),
            ("true", None),
        ] {
            let names = names_of(cel);
            assert_eq!(
                names.as_deref().map(|names| names.iter().map(String::as_str).collect()),
                wanted,
                "{cel}"
            );
        }
    }

    #[test]
    fn periods_of_budgets_are_ours() {
        let member = |reset: &str, is_aligned| {
            let (limit, taken, _) = with_reset(Tree::map(), reset, is_aligned)?;
            let days =
                limit.member("periodic_reset_days").or_else(|| limit.member("periodic_reset")).cloned()?;
            Some((days, taken))
        };
        assert_eq!(member("1M", true), Some((Tree::text("monthly"), Taken::Exact)));
        assert_eq!(member("30d", false), Some((Tree::whole(30), Taken::Exact)));
        assert_eq!(member("1Y", false), Some((Tree::whole(365), Taken::Different)));
        assert_eq!(member("1h", true), None);
        assert_eq!(member("", true), None);
        assert_eq!(member("1M", false), Some((Tree::whole(30), Taken::Different)));
        assert_eq!(member("1w", false), Some((Tree::whole(7), Taken::Exact)));
        assert_eq!(member("18446744073709551615M", false), Some((Tree::whole(365), Taken::Different)));
    }
}
