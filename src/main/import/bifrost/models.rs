//! Which models each key of a provider is for: names such as `openai/gpt-4o`, balanced over the keys.
//!
//! Bifrost's clients name the provider in the model. A model or alias that is listed at one provider alone also has its plain name.

use super::super::cursor::InputAt;
use super::super::import::Import;
use super::super::moved::plain;
use super::super::report::Taken;
use super::super::tree::Tree;
use super::super::vendors;
use super::account;
use std::collections::{BTreeMap, BTreeSet};

/// A provider of the file.
pub struct Provider<'n> {
    pub name: String,
    /// Its lists of models that are not for a key.
    exclusions: Vec<InputAt<'n>>,
    pub keys: Vec<ProviderKey>,
    /// `retry` of its targets.
    retry: Option<Tree>,
}

/// One of its keys.
pub struct ProviderKey {
    pub slug: String,
    weight: f64,
    /// Whether it is for every model.
    is_for_all: bool,
    models: Vec<String>,
    excluded: BTreeSet<String>,
    /// What a model is called at the provider, where that is another name.
    aliases: BTreeMap<String, String>,
}

impl ProviderKey {
    fn is_for(&self, model: &str) -> bool {
        let is_listed = self.models.iter().any(|name| name == model) || self.aliases.contains_key(model);
        (self.is_for_all || is_listed) && !self.excluded.contains(model)
    }

    fn model<'m>(&'m self, model: &'m str) -> &'m str {
        self.aliases.get(model).map_or(model, String::as_str)
    }
}

/// Reads a provider; `None`: there is none here.
pub fn read<'n>(
    import: &mut Import,
    name: &str,
    at: &InputAt<'n>,
    empty_is_all: bool,
) -> Option<Provider<'n>> {
    let custom = at.member("custom_provider_config");
    let base = custom.as_ref().and_then(|custom| custom.member("base_provider_type"));
    let named = base.as_ref().and_then(InputAt::text).unwrap_or_else(|| name.to_owned());
    let Some(vendor) = vendors::find(&named) else {
        import.findings.not_taken(
            at,
            format!("there is no provider {named} here: if it speaks OpenAI's API, write a provider with provider: openai and custom_host (docs/providers.md)"),
        );
        return None;
    };
    if let Some(base) = &base {
        import.findings.exact(base, format!("provider: {}", vendor.id));
    }
    let keys = at.member("keys").map(|keys| keys.items()).unwrap_or_default();
    let exclusions = keys.iter().filter_map(|key| key.member("blacklisted_models")).collect();
    let retry = retry(import, at);
    let mut provider = Provider { name: name.to_owned(), exclusions, keys: Vec::new(), retry };
    if keys.is_empty() {
        let slug = account::provider(import, vendor, name, at, None);
        provider.keys.push(ProviderKey {
            slug,
            weight: 1.0,
            is_for_all: true,
            models: Vec::new(),
            excluded: BTreeSet::new(),
            aliases: BTreeMap::new(),
        });
    }
    for key in &keys {
        if let Some(enabled) = key.member("enabled").filter(|enabled| enabled.flag() == Some(false)) {
            import.findings.not_taken(key, "is not enabled");
            import.findings.exact(&enabled, "the key is left out");
            continue;
        }
        let slug = account::provider(import, vendor, name, at, Some(key));
        provider.keys.push(read_key(import, key, slug, empty_is_all));
    }
    Some(provider)
}

fn retry(import: &mut Import, at: &InputAt<'_>) -> Option<Tree> {
    let network = at.member("network_config")?;
    let count_at = network.member("max_retries")?;
    let count = count_at.number().filter(|count| *count >= 0.0)?;
    if count < 1.0 {
        import.findings.exact(&count_at, "is so here: nothing is retried without retry");
        return None;
    }
    let mut retry = Tree::of([("attempts", Tree::number(count.trunc()))]);
    for (name, ours) in [("retry_backoff_initial", "backoff_ms"), ("retry_backoff_max", "max_backoff_ms")] {
        let at = network.member(name).or_else(|| network.member(&format!("{name}_ms")));
        if let Some((at, wait)) =
            at.and_then(|at| Some((at.clone(), at.number()?))).filter(|(_, wait)| *wait >= 1.0)
        {
            retry.set(ours, Tree::number(wait.trunc()));
            import.findings.exact(&at, format!("retry.{ours}"));
        }
    }
    import.findings.exact(&count_at, "retry.attempts of its targets");
    Some(retry)
}

fn read_key(import: &mut Import, at: &InputAt<'_>, slug: String, empty_is_all: bool) -> ProviderKey {
    let list = |name: &str| -> Vec<String> {
        at.member(name)
            .map(|list| list.items().iter().filter_map(InputAt::text).collect())
            .unwrap_or_default()
    };
    let models = list("models");
    let is_for_all = models.iter().any(|model| model == "*")
        || (models.is_empty() && (empty_is_all || at.member("models").is_none()));
    let mut aliases = BTreeMap::new();
    let sections = ["azure_key_config", "bedrock_key_config", "vertex_key_config"];
    let deployments = sections.iter().filter_map(|section| at.member(section)?.member("deployments"));
    for (name, to) in deployments.chain(at.member("aliases")).flat_map(|map| map.entries()) {
        if let Some(text) = to.text() {
            import.findings.exact(&to, format!("the model of {name} at providers.{slug}"));
            if text != name {
                aliases.insert(name.to_owned(), plain(&text));
            }
        }
    }
    for name in ["models", "blacklisted_models"] {
        if let Some(at) = at.member(name) {
            import.findings.exact(&at, "the names of models that lead here");
        }
    }
    if let Some(at) = at.member("weight") {
        import.findings.exact(&at, "weight of its target");
    }
    if let Some(at) = at.member("name") {
        import.findings.exact(&at, format!("providers.{slug}"));
    }
    if let Some(at) = at.member("enabled") {
        import.findings.exact(&at, "is so here");
    }
    let weight = at.member("weight").and_then(|at| at.number()).unwrap_or(1.0);
    let excluded = list("blacklisted_models").into_iter().collect();
    let models = models.into_iter().filter(|model| model != "*").collect();
    ProviderKey { slug, weight, is_for_all, models, excluded, aliases }
}

impl Provider<'_> {
    /// Every model and alias that one of its keys lists.
    fn listed(&self) -> BTreeSet<&str> {
        let mut listed = BTreeSet::new();
        for key in &self.keys {
            listed.extend(key.models.iter().map(String::as_str));
            listed.extend(key.aliases.keys().map(String::as_str));
            listed.extend(key.excluded.iter().map(String::as_str).filter(|model| *model != "*"));
        }
        listed
    }

    /// The models as they are called at the provider, each as `@slug/model`, that this name leads to.
    pub fn at_providers(&self, model: &str) -> Vec<String> {
        let keys = self.keys.iter().filter(|key| key.is_for(model));
        keys.map(|key| format!("@{}/{}", key.slug, key.model(model))).collect()
    }

    /// A group for every model of a pattern, under its own name; `None`: some key is for some models alone.
    pub fn route_pattern(&self) -> Option<Tree> {
        let is_whole =
            |key: &ProviderKey| key.is_for_all && key.excluded.is_empty() && key.aliases.is_empty();
        let keys: Vec<&ProviderKey> = self.keys.iter().collect();
        keys.iter().all(|key| is_whole(key)).then(|| self.group(&keys, &|_| None)).flatten()
    }

    /// The stored providers of its keys.
    pub fn slugs(&self) -> impl Iterator<Item = &str> {
        self.keys.iter().map(|key| key.slug.as_str())
    }

    /// A target, or a balanced group, for a model; `None`: no key is for it.
    pub fn route(&self, model: &str) -> Option<Tree> {
        let keys: Vec<&ProviderKey> = self.keys.iter().filter(|key| key.is_for(model)).collect();
        self.group(&keys, &|key| Some(key.model(model).to_owned()))
    }

    /// A group of keys. `model`: what each requests; `None`: what the name says.
    fn group(&self, keys: &[&ProviderKey], model: &dyn Fn(&ProviderKey) -> Option<String>) -> Option<Tree> {
        let target = |key: &ProviderKey| {
            let params = model(key).map(|model| Tree::of([("model", Tree::Text(model))]));
            Tree::of([("provider", Tree::Text(format!("@{}", key.slug)))])
                .with_some("override_params", params)
        };
        let tree = match keys {
            [] => return None,
            [key] => target(key),
            keys => {
                let are_all_zero = keys.iter().all(|key| key.weight <= 0.0);
                let targets = keys.iter().map(|key| match are_all_zero {
                    true => target(key),
                    false => target(key).with("weight", Tree::number(key.weight)),
                });
                let targets = Tree::List(targets.collect());
                Tree::of([("strategy", super::super::config_parts::balanced(None)), ("targets", targets)])
            }
        };
        Some(tree.with_some("retry", self.retry.clone()))
    }

    /// What a name of models stands for.
    fn entry(&self, import: &mut Import, name: &str, model: &str) -> Option<Tree> {
        let keys: Vec<&ProviderKey> = self.keys.iter().filter(|key| key.is_for(model)).collect();
        if let ([key], None) = (keys.as_slice(), &self.retry) {
            return Some(Tree::Text(format!("@{}/{}", key.slug, key.model(model))));
        }
        let config = self.route(model)?;
        Some(saved(import, name, &config))
    }
}

/// A group is a saved config, a single target stands where it is used.
pub fn saved(import: &mut Import, name: &str, config: &Tree) -> Tree {
    match config.member("targets") {
        Some(_) => Tree::Text(import.moved.config(name, config)),
        None => Tree::of([("to", config.clone())]),
    }
}

/// The providers that list each model, by its plain name.
fn by_plain_name<'p>(providers: &'p [Provider<'p>]) -> BTreeMap<&'p str, Vec<&'p Provider<'p>>> {
    let mut plain: BTreeMap<&str, Vec<&'p Provider<'p>>> = BTreeMap::new();
    for provider in providers {
        for model in provider.listed() {
            plain.entry(model).or_default().push(provider);
        }
    }
    plain
}

/// Whether a plain name leads to this provider.
pub fn is_plain_name_of(providers: &[Provider<'_>], provider: &str, model: &str) -> bool {
    let plain = by_plain_name(providers);
    is_name(model)
        && plain.get(model).is_some_and(|of| matches!(of.as_slice(), [only] if only.name == provider))
}

/// Writes the names of all providers.
pub fn write(import: &mut Import, providers: &[Provider<'_>]) {
    for provider in providers {
        for model in provider.listed() {
            let name = format!("{}/{model}", provider.name);
            if let Some(entry) = provider.entry(import, &name, model) {
                import.moved.model(&name, entry);
            } else if provider.keys.iter().any(|key| key.is_for_all) {
                for at in &provider.exclusions {
                    import.findings.not_taken(at, format!("no key is for {model}, which {}/* means here all the same: give clients keys with allowed_models (docs/keys.md)", provider.name));
                }
            }
        }
        let keys: Vec<&ProviderKey> = provider.keys.iter().filter(|key| key.is_for_all).collect();
        let name = format!("{}/*", provider.name);
        let entry = match (keys.as_slice(), &provider.retry) {
            ([key], None) => Some(Tree::Text(format!("@{}/*", key.slug))),
            _ => provider.group(&keys, &|_| None).map(|config| {
                let to = match saved(import, &provider.name, &config) {
                    Tree::Text(id) => Tree::of([("to", Tree::Text(id))]),
                    to => to,
                };
                to.with("model", Tree::text("*"))
            }),
        };
        if let Some(entry) = entry {
            import.moved.model(&name, entry);
        }
    }
    for (model, of) in by_plain_name(providers) {
        if let [provider] = of.as_slice()
            && is_name(model)
            && let Some(entry) = provider.entry(import, &format!("{}/{model}", provider.name), model)
        {
            import.moved.model(model, entry);
        }
    }
}

fn is_name(model: &str) -> bool {
    !model.starts_with('@')
        && !model.contains(char::is_whitespace)
        && !model.contains('*')
        && !model.is_empty()
}

/// Reports keys of a provider that none of this reads.
pub fn note_rest(import: &mut Import, at: &InputAt<'_>) {
    if let Some(allowed) =
        at.member("network_config").and_then(|network| network.member("allow_private_network"))
    {
        import.findings.whole(
            &allowed,
            Taken::Exact,
            "is so here: hosts of the operator's own may be private",
        );
    }
}
