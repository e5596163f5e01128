//! Providers and virtual keys by their slugs: stored providers whose secrets are variables to fill.
//!
//! Portkey shows no secret of a virtual key. Which provider a slug is of is known from an export, from the config, or guessed by its name.

use super::super::blank_account;
use super::super::cursor::InputAt;
use super::super::import::Import;
use super::super::moved::id_of;
use super::super::tree::Tree;
use std::collections::BTreeMap;

/// What the files say of slugs and guardrails.
#[derive(Default)]
pub struct Slugs {
    /// The provider of a slug, from an export.
    exported: BTreeMap<String, String>,
    guardrails: BTreeMap<String, Tree>,
}

/// Parts of slugs, and the providers they hint at. The first that fits counts.
const HINTS: &[(&str, &str)] = &[
    ("azure-ai", "azure-ai"),
    ("azure", "azure-openai"),
    ("bedrock", "bedrock"),
    ("aws", "bedrock"),
    ("vertex", "vertex-ai"),
    ("gemini", "google"),
    ("google", "google"),
    ("palm", "google"),
    ("anthropic", "anthropic"),
    ("claude", "anthropic"),
    ("openrouter", "openrouter"),
    ("openai", "openai"),
    ("open-ai", "openai"),
    ("gpt", "openai"),
    ("groq", "groq"),
    ("mistral", "mistral-ai"),
    ("together", "together-ai"),
    ("cohere", "cohere"),
    ("deepseek", "deepseek"),
    ("perplexity", "perplexity-ai"),
    ("fireworks", "fireworks-ai"),
    ("anyscale", "anyscale"),
    ("cerebras", "cerebras"),
    ("deepinfra", "deepinfra"),
    ("huggingface", "huggingface"),
    ("grok", "x-ai"),
    ("xai", "x-ai"),
];

/// The id of a provider as Portkey names it.
pub fn our_id(name: &str) -> &str {
    match name {
        "openai" | "open-ai" => "openai",
        other => other,
    }
}

fn is_provider(name: &str) -> bool {
    knowledge::provider::find(name).is_some()
}

/// The provider that a slug's name hints at.
fn hinted(slug: &str) -> Option<&'static str> {
    let slug = slug.to_ascii_lowercase();
    HINTS.iter().find(|(part, _)| slug.contains(part)).map(|(_, id)| *id)
}

impl Slugs {
    /// Keeps which provider a slug is of.
    pub fn export(&mut self, slug: &str, provider: &str) {
        self.exported.insert(slug.to_owned(), provider.to_owned());
    }

    pub fn export_guardrail(&mut self, id: &str, guardrail: Tree) {
        self.guardrails.insert(id.to_owned(), guardrail);
    }

    pub fn guardrail(&self, id: &str) -> Option<&Tree> {
        self.guardrails.get(id)
    }

    /// The stored provider of a slug, made where it is not there. `stated`: the provider that the config names beside it.
    pub fn provider(
        &mut self,
        import: &mut Import,
        at: &InputAt<'_>,
        slug: &str,
        stated: Option<&str>,
    ) -> String {
        let id = id_of(slug);
        let stated = stated.map(our_id).filter(|name| is_provider(name));
        let exported =
            self.exported.get(slug).map(|name| our_id(name).to_owned()).filter(|name| is_provider(name));
        let sure = exported.or_else(|| stated.map(str::to_owned));
        let is_guess = sure.is_none();
        let vendor = sure.or_else(|| hinted(slug).map(str::to_owned));
        let vendor = vendor.unwrap_or_else(|| "openai".to_owned());
        if !import.moved.has_provider(&id) {
            let account = blank_account::of(import, &id, &vendor);
            import.moved.set("providers", &id, account);
        }
        let text = format!("providers.{id}, of {vendor}; Portkey shows no secrets: fill its variables");
        if is_guess {
            import.findings.different(
                at,
                format!("{text}. Which provider it is of is in none of the files, and is a guess by its name: correct it"),
            );
        } else {
            import.findings.exact(at, text);
        }
        id
    }
}
