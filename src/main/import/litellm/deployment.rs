//! An item of `model_list`: which model is requested where, with which parameters, and how often it is chosen.
//!
//! Not here: the account (`account`), and what the items of one name are together (`routes`).

use super::super::config_parts::add_params;
use super::super::cursor::InputAt;
use super::super::import::Import;
use super::super::moved::{VariableUse, plain};
use super::super::tree::{Member, Tree};
use super::super::vendors::{self, Vendor};
use super::account::{self, Params};
use super::pricing;
use super::value;
use std::collections::BTreeMap;

/// One deployment.
pub struct Deployment<'n> {
    pub name: String,
    /// Its item of `model_list`.
    pub at: InputAt<'n>,
    pub slug: String,
    /// The model as the provider has it; a pattern where it has a `*`.
    pub model: String,
    /// Parameters for requests that do not set them.
    pub defaults: Tree,
    /// Other members of its target.
    pub target: Tree,
    pub weight: Option<f64>,
    pub order: Option<f64>,
    pub rpm: Option<f64>,
    pub tpm: Option<f64>,
    /// Dollars per million tokens, of input and output.
    pub price: Option<Tree>,
}

/// Members of a request's body that may stand in `litellm_params`.
const REQUEST_PARAMS: [&str; 38] = [
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "n",
    "stop",
    "seed",
    "max_tokens",
    "max_completion_tokens",
    "presence_penalty",
    "frequency_penalty",
    "repetition_penalty",
    "logit_bias",
    "logprobs",
    "top_logprobs",
    "user",
    "response_format",
    "tools",
    "tool_choice",
    "parallel_tool_calls",
    "reasoning",
    "reasoning_effort",
    "thinking",
    "service_tier",
    "dimensions",
    "encoding_format",
    "modalities",
    "audio",
    "voice",
    "speed",
    "size",
    "quality",
    "style",
    "language",
    "store",
    "verbosity",
    "web_search_options",
    "chat_template_kwargs",
];

/// Of a model of the database that cannot be read.
const ENCRYPTED: &str = "is encrypted: set LITELLM_SALT_KEY to LiteLLM's salt key (without one, to its master key), or name its variable \
                         with --salt-key-env";

/// Models that are choices of LiteLLM's own.
const OWN_ROUTERS: &str =
    "LiteLLM's own choice among models; here a config with conditions or a balanced group (docs/config.md)";

/// Reads an item; `None`: it cannot be one here, and a finding says why.
pub fn read<'n>(
    import: &mut Import,
    at: &InputAt<'n>,
    credentials: &BTreeMap<String, InputAt<'n>>,
    has_limits: bool,
) -> Option<Deployment<'n>> {
    let Some(params) = at.member("litellm_params") else {
        let is_encrypted = at.member("encrypted_litellm_params").is_some();
        import.findings.not_taken(at, if is_encrypted { ENCRYPTED } else { "has no litellm_params" });
        return None;
    };
    let named = params.text_of("litellm_credential_name");
    let credential = named.and_then(|name| credentials.get(&name).cloned());
    let params = Params { own: params, credential };
    let Some(name_at) = at.member("model_name") else {
        import.findings.not_taken(at, "has no model_name");
        return None;
    };
    let name = name_at.text().filter(|name| is_usable(name));
    let Some(name) = name else {
        import.findings.not_taken(at, "its model_name has spaces, more than one *, or an @ at its beginning: no name of a model here (docs/models.md)");
        return None;
    };
    let (vendor, model) = target(import, at, &params)?;
    import.findings.exact(&name_at, format!("models.{name}"));
    // Groups are weighed by what stands in litellm_params alone; limits may stand beside it.
    let number = |name: &str| params.member(name).and_then(|at| at.number());
    let rate = |name: &str| number(name).or_else(|| at.member(name)?.number());
    let limits = if has_limits { rate_limits(rate("rpm"), rate("tpm")) } else { None };
    let places =
        params.member("max_parallel_requests").filter(|at| at.number().is_some_and(|places| places >= 1.0));
    let concurrency =
        places.as_ref().map(|at| Tree::of([("max", Tree::number(at.number().unwrap_or(1.0).trunc()))]));
    let bounds = [("rate_limits", limits), ("concurrency", concurrency)];
    let bounds = bounds.into_iter().filter_map(|(name, bound)| Some((name, bound?))).collect();
    let slug = account::provider(import, vendor, &params, bounds);
    if let Some(at) = places {
        let text = format!(
            "providers.{slug}.concurrency.max; as many wait as its queue has room for, there without a bound"
        );
        import.findings.different(&at, text);
    }
    let mut deployment = Deployment {
        name,
        at: at.clone(),
        slug,
        model,
        defaults: Tree::map(),
        target: Tree::map(),
        weight: number("weight"),
        order: number("order"),
        rpm: number("rpm"),
        tpm: number("tpm"),
        price: None,
    };
    if let Some(at) = params.own.member("litellm_credential_name") {
        import.findings.exact(&at, format!("providers.{}", deployment.slug));
    }
    deployment.read_parameters(import, &params);
    deployment.read_times(import, &params);
    deployment.read_dropped(import, &params);
    deployment.price = pricing::read(import, vendor.id, &deployment.model, at, &params);
    Some(deployment)
}

/// Keeps the variables that a deployment without a key or an address takes by itself, so that none of them is given to a secret.
pub fn reserve(import: &mut Import, at: &InputAt<'_>, credentials: &BTreeMap<String, InputAt<'_>>) {
    let Some(own) = at.member("litellm_params") else { return };
    let credential = own.text_of("litellm_credential_name").and_then(|name| credentials.get(&name).cloned());
    let params = Params { own, credential };
    let stated = params.own.text_of("custom_llm_provider").and_then(|name| vendors::find(&name));
    let written = params.own.text_of("model").unwrap_or_default();
    let Ok((vendor, _, _)) = split(&written, stated, true) else { return };
    if params.member("api_key").is_none() {
        import.moved.reserve(vendor.key);
    }
    if params.member("api_base").is_none() && params.member("base_url").is_none() {
        import.moved.reserve(&vendor.base_variable());
    }
}

/// Rates of a deployment as limits of its provider.
fn rate_limits(rpm: Option<f64>, tpm: Option<f64>) -> Option<Tree> {
    let limits = [("requests", rpm), ("tokens", tpm)].into_iter().filter_map(|(of, rate)| {
        let rate = rate.filter(|rate| *rate >= 1.0)?;
        let value = Tree::number(rate.trunc());
        Some(Tree::of([("type", Tree::text(of)), ("unit", Tree::text("rpm")), ("value", value)]))
    });
    let limits: Vec<Tree> = limits.collect();
    (!limits.is_empty()).then_some(Tree::List(limits))
}

/// Whether it can be a name of `models`.
fn is_usable(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= 256
        && !name.contains(char::is_whitespace)
        && name.matches('*').count() <= 1
        && !name.starts_with('@')
}

/// The provider and the model of `model`.
fn target(import: &mut Import, at: &InputAt<'_>, params: &Params<'_>) -> Option<(&'static Vendor, String)> {
    let Some(model_at) = params.own.member("model") else {
        import.findings.not_taken(at, "names no model");
        return None;
    };
    let written = model_at.text().unwrap_or_default();
    let stated = params.own.member("custom_llm_provider");
    let has_host = params.member("api_base").is_some() || params.member("base_url").is_some();
    let stated_vendor = stated.as_ref().and_then(|at| vendors::find(&at.text()?));
    if let (Some(at), Some(vendor)) = (&stated, stated_vendor) {
        import.findings.exact(at, format!("provider {}", vendor.id));
    }
    if let Some(unknown) = stated.as_ref().filter(|_| stated_vendor.is_none()).and_then(InputAt::text) {
        if !has_host {
            import.findings.not_taken(at, no_provider(&unknown));
            return None;
        }
        if let Some(at) = &stated {
            let why =
                format!("there is no provider {unknown} here; its api_base is called with OpenAI's API");
            import.findings.different(at, why);
        }
    }
    if let Some(name) = value::reference(&written) {
        let text = import.moved.variable(name, VariableUse::Text);
        let vendor = stated_vendor.or_else(|| vendors::find("openai"))?;
        let why = format!("{text}, at {}: the variable must have the model without its provider", vendor.id);
        import.findings.different(&model_at, why);
        return Some((vendor, text));
    }
    let found = match (&stated, stated_vendor) {
        (Some(_), None) => {
            vendors::find("openai").map(|openai| (openai, written.clone(), true)).ok_or_else(String::new)
        }
        _ => split(&written, stated_vendor, has_host),
    };
    match found {
        Ok((vendor, model, is_assumed)) => {
            let text = format!("{model} at {}", vendor.id);
            match is_assumed {
                false => import.findings.exact(&model_at, text),
                true => import.findings.different(
                    &model_at,
                    format!(
                        "{text}: it names no provider that is known here, and is called with OpenAI's API"
                    ),
                ),
            }
            Some((vendor, plain(&model)))
        }
        Err(why) => {
            import.findings.not_taken(at, why);
            None
        }
    }
}

/// The provider, the model, and whether the provider is a guess.
fn split(
    written: &str,
    stated: Option<&'static Vendor>,
    has_host: bool,
) -> Result<(&'static Vendor, String, bool), String> {
    if let Some(vendor) = stated {
        let names = vendor.names.iter();
        let model = names.filter_map(|name| written.strip_prefix(name)?.strip_prefix('/')).next();
        return Ok((vendor, own_model(vendor, model.unwrap_or(written)), false));
    }
    let openai = vendors::find("openai").ok_or("there is no provider openai")?;
    if let Some((prefix, rest)) = written.split_once('/') {
        if prefix == "auto_router" {
            return Err(OWN_ROUTERS.to_owned());
        }
        if let Some(vendor) = vendors::find(prefix) {
            return Ok((vendor, own_model(vendor, rest), false));
        }
    }
    if let Some(vendor) = vendors::of_model(written) {
        return Ok((vendor, own_model(vendor, written), false));
    }
    if has_host {
        return Ok((openai, written.to_owned(), true));
    }
    if written == "*" {
        return Err("means every provider that LiteLLM knows: write a provider here for each that is used, and names such as \
                    \"openai/*\": \"@openai/*\" (docs/models.md)"
            .to_owned());
    }
    Err(no_provider(written.split('/').next().unwrap_or(written)))
}

fn no_provider(provider: &str) -> String {
    format!(
        "there is no provider {provider} here, and no api_base that says where it is: if it speaks OpenAI's API, write a provider \
         with provider: openai and custom_host (docs/providers.md)"
    )
}

/// The model without what LiteLLM puts before it to choose one of a provider's APIs.
fn own_model(vendor: &Vendor, model: &str) -> String {
    let prefixes: &[&str] = match vendor.id {
        "bedrock" => &["converse/", "invoke/"],
        "azure-openai" => &["responses/", "o_series/", "gpt5_series/"],
        "openai" => &["responses/"],
        _ => &[],
    };
    let without = |model: &str| -> String {
        prefixes.iter().find_map(|prefix| model.strip_prefix(prefix)).unwrap_or(model).to_owned()
    };
    let model = without(model);
    match region(vendor, &model) {
        Some(region) => without(model.get(region.len() + 1..).unwrap_or_default()),
        None => model,
    }
}

/// The region that Bedrock's models may have in front of them: `us-west-2/anthropic.claude-v2`.
fn region<'m>(vendor: &Vendor, model: &'m str) -> Option<&'m str> {
    let (region, _) = model.split_once('/').filter(|_| vendor.id == "bedrock")?;
    let mut parts = region.split('-');
    let area =
        parts.next().is_some_and(|area| area.len() == 2 && area.bytes().all(|b| b.is_ascii_lowercase()));
    let ends = region
        .rsplit('-')
        .next()
        .is_some_and(|end| end.len() == 1 && end.bytes().all(|b| b.is_ascii_digit()));
    (area && ends && (3..=4).contains(&region.split('-').count())).then_some(region)
}

/// The region in a model as it is written in the file.
pub fn region_of(vendor: &Vendor, written: &str) -> Option<String> {
    let model = written.strip_prefix("bedrock/").unwrap_or(written);
    let model =
        ["converse/", "invoke/"].iter().find_map(|prefix| model.strip_prefix(prefix)).unwrap_or(model);
    region(vendor, model).map(str::to_owned)
}

impl Deployment<'_> {
    /// Parameters of requests.
    fn read_parameters(&mut self, import: &mut Import, params: &Params<'_>) {
        for (name, at) in params.own.entries() {
            if REQUEST_PARAMS.contains(&name) {
                let value = with_flags(import.default_param(&at, value::reader));
                self.defaults.set(name, value);
            }
        }
        let body = params.own.member("extra_body").map(|body| body.entries()).unwrap_or_default();
        for (name, at) in body {
            let value = with_flags(import.default_param(&at, value::reader));
            self.defaults.set(name, value);
        }
    }

    /// Parameters that are left out.
    fn read_dropped(&mut self, import: &mut Import, params: &Params<'_>) {
        let mut paths = Vec::new();
        for name in ["drop_params", "additional_drop_params"] {
            let Some(at) = params.own.member(name) else { continue };
            if at.is_container() {
                paths
                    .extend(at.items().iter().filter_map(InputAt::text).map(|text| Tree::Text(plain(&text))));
                import.findings.exact(&at, "drop_params of its target");
            } else if at.flag() == Some(true) {
                import.findings.exact(&at, "is so here: a translation leaves out what the provider does not take, with a warning (docs/translation.md)");
            } else {
                import.findings.different(&at, "a translation leaves out what the provider does not take, with a warning, and refuses nothing (docs/translation.md)");
            }
        }
        if !paths.is_empty() {
            self.target.set("drop_params", Tree::List(paths));
        }
    }

    /// Time limits and retries.
    fn read_times(&mut self, import: &mut Import, params: &Params<'_>) {
        const NO_NUMBER: &str =
            "is no number of seconds that can be written here; set request_timeout in milliseconds by hand";
        if let Some(at) = params.own.member("timeout") {
            match value::milliseconds(&at) {
                Some(time) => {
                    self.target.set("request_timeout", Tree::whole(time));
                    import.findings.exact(&at, "request_timeout of its target, in milliseconds");
                }
                None => import.findings.not_taken(&at, NO_NUMBER),
            }
        }
        if let Some(at) = params.own.member("stream_timeout") {
            match value::milliseconds(&at) {
                Some(time) => {
                    let limits =
                        Tree::of([("first_token_ms", Tree::whole(time)), ("gap_ms", Tree::whole(time))]);
                    self.target.set("time_limits", limits);
                    import.findings.exact(&at, "time_limits.first_token_ms and gap_ms of its target");
                }
                None => import.findings.not_taken(&at, NO_NUMBER),
            }
        }
        for name in ["num_retries", "max_retries"] {
            let Some(at) = params.own.member(name) else { continue };
            if self.target.member("retry").is_some() {
                import.findings.not_taken(&at, "num_retries counts");
                continue;
            }
            match at.number().filter(|count| (0.0..=100.0).contains(count)) {
                Some(count) => {
                    let retry = Tree::of([("attempts", Tree::number(count.trunc()))]);
                    self.target.set("retry", retry);
                    import.findings.exact(&at, "retry.attempts of its target");
                }
                None => import.findings.not_taken(&at, "is no number of retries"),
            }
        }
    }

    /// Its target in a group, or as the only one.
    pub fn target_tree(&self, model: Option<&str>) -> Tree {
        let mut params = Tree::map();
        if let Some(model) = model {
            params.set("model", Tree::text(model));
        }
        let mut target = Tree::of([("provider", Tree::Text(format!("@{}", self.slug)))]);
        add_params(&mut target, params, &self.defaults);
        if let Tree::Map(members) = &self.target {
            for member in members {
                target.set(&member.name, member.value.clone());
            }
        }
        target
    }

    /// Whether a target of it says more than where and which model.
    pub fn is_bare(&self) -> bool {
        self.defaults.is_empty() && self.target.is_empty()
    }
}

/// Flags as Python reads them in YAML, where `True` is one.
fn with_flags(value: Tree) -> Tree {
    match value {
        Tree::Text(text) if matches!(text.as_str(), "True" | "TRUE") => Tree::Flag(true),
        Tree::Text(text) if matches!(text.as_str(), "False" | "FALSE") => Tree::Flag(false),
        Tree::List(items) => Tree::List(items.into_iter().map(with_flags).collect()),
        Tree::Map(members) => {
            let flagged = |member: Member| Member { value: with_flags(member.value), ..member };
            Tree::Map(members.into_iter().map(flagged).collect())
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_provider_is_found_as_litellm_finds_it() {
        let of = |model: &str, has_host| {
            split(model, None, has_host).map(|(vendor, model, assumed)| (vendor.id, model, assumed)).ok()
        };
        let is = |id, model: &str, assumed| Some((id, model.to_owned(), assumed));
        for (model, has_host, wanted) in [
            ("openai/gpt-4o", false, is("openai", "gpt-4o", false)),
            ("gpt-4o", false, is("openai", "gpt-4o", false)),
            ("openai//model", true, is("openai", "/model", false)),
            ("openai/mlx-community/gemma", true, is("openai", "mlx-community/gemma", false)),
            ("bedrock/converse/us.anthropic.x", false, is("bedrock", "us.anthropic.x", false)),
            ("bedrock/us-west-2/anthropic.claude-v2", false, is("bedrock", "anthropic.claude-v2", false)),
            ("bedrock/us-gov-west-1/converse/amazon.x", false, is("bedrock", "amazon.x", false)),
            (
                "bedrock/arn:aws:bedrock:us-east-1:1:model/x",
                false,
                is("bedrock", "arn:aws:bedrock:us-east-1:1:model/x", false),
            ),
            ("anthropic/*", false, is("anthropic", "*", false)),
            ("mistralai/mixtral", true, is("mistral-ai", "mixtral", false)),
            ("custom/model", true, is("openai", "custom/model", true)),
            ("custom/model", false, None),
            ("auto_router/x", false, None),
            ("*", false, None),
        ] {
            assert_eq!(of(model, has_host), wanted, "{model}");
        }
    }
}
