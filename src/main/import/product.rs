//! The gateways whose files can be imported, and how a file of each is recognized.
//!
//! Not here: what is in the files.

use super::cursor::InputAt;
use super::import::Import;
use super::key_table::Key;
use super::{bifrost, cloudflare, kong, litellm, openrouter, portkey};
use clap::ValueEnum;
use words::config::node::{Node, NodeKind};

/// A gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Product {
    /// LiteLLM's proxy: config.yaml.
    Litellm,
    /// Portkey: configs, and exports of its API, in JSON.
    Portkey,
    /// Bifrost: config.json.
    Bifrost,
    /// OpenRouter: bodies of requests, and presets, in JSON.
    Openrouter,
    /// Kong: declarative files with ai-proxy or ai-proxy-advanced.
    Kong,
    /// Cloudflare's AI Gateway: dynamic routes in JSON.
    Cloudflare,
}

impl Product {
    pub fn name(self) -> &'static str {
        match self {
            Self::Litellm => "LiteLLM",
            Self::Portkey => "Portkey",
            Self::Bifrost => "Bifrost",
            Self::Openrouter => "OpenRouter",
            Self::Kong => "Kong",
            Self::Cloudflare => "Cloudflare",
        }
    }

    /// The table of its keys.
    pub fn keys(self) -> &'static [Key] {
        match self {
            Self::Litellm => litellm::KEYS,
            Self::Portkey => portkey::keys::KEYS,
            Self::Bifrost => bifrost::keys::KEYS,
            Self::Openrouter => openrouter::KEYS,
            Self::Kong => kong::KEYS,
            Self::Cloudflare => cloudflare::KEYS,
        }
    }

    pub fn import(self, import: &mut Import, files: &[InputAt<'_>]) {
        match self {
            Self::Litellm => litellm::import(import, files),
            Self::Portkey => portkey::import(import, files),
            Self::Bifrost => bifrost::import(import, files),
            Self::Openrouter => openrouter::import(import, files),
            Self::Kong => kong::import(import, files),
            Self::Cloudflare => cloudflare::import(import, files),
        }
    }

    /// What is done with a file before it is looked at.
    pub fn prepare(self, root: &mut Node) {
        if self == Self::Portkey {
            portkey::prepare(root);
        }
    }

    /// Why a file is not one of this product, where it is none.
    pub fn refuse(self, root: &Node) -> Option<String> {
        let found = recognize(root);
        if found == Some(self) {
            return None;
        }
        let looks = match found {
            Some(other) => format!("it looks like {}'s: turnpike import {}", other.name(), other.argument()),
            None => looks_like(root),
        };
        Some(format!("is no configuration of {}; {looks}", self.name()))
    }

    /// Its name on the command line.
    fn argument(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }
}

/// Whether a file is one of a product.
type Recognizer = fn(&Node) -> bool;

/// The gateway that a file is of.
fn recognize(root: &Node) -> Option<Product> {
    let has = |name: &str| root.member(name).is_some();
    if litellm::SECTIONS.iter().any(|name| has(name)) {
        return Some(Product::Litellm);
    }
    if bifrost::is_bifrost(root) {
        return Some(Product::Bifrost);
    }
    let others: [(Product, Recognizer); 4] = [
        (Product::Kong, kong::is_kong),
        (Product::Cloudflare, cloudflare::is_cloudflare),
        (Product::Openrouter, openrouter::is_openrouter),
        (Product::Portkey, portkey::is_portkey),
    ];
    others.into_iter().find(|(_, is_of)| is_of(root)).map(|(product, _)| product)
}

/// What a file is that is of none of them.
fn looks_like(root: &Node) -> String {
    match &root.kind {
        NodeKind::Map(entries) if entries.is_empty() => "it is empty".to_owned(),
        NodeKind::Null => "it is empty".to_owned(),
        NodeKind::Map(entries) => {
            let names: Vec<&str> = entries.iter().map(|entry| entry.name.as_str()).take(6).collect();
            let own = ["listen", "providers", "configs", "default_config"];
            if names.contains(&"services") && root.member("services").is_some_and(Node::is_object) {
                return "it looks like a file of Docker Compose".to_owned();
            }
            if names.iter().any(|name| own.contains(name))
                && root.member("providers").is_none_or(is_own_provider)
            {
                return "it looks like settings of Turnpike, which need no import: turnpike check".to_owned();
            }
            format!("it is an object with {}", names.join(", "))
        }
        _ => format!("it is {}", root.type_name()),
    }
}

/// Whether this section is one of Turnpike's: each provider says which one it is.
fn is_own_provider(providers: &Node) -> bool {
    match &providers.kind {
        NodeKind::Map(entries) => entries.iter().all(|entry| entry.value.member("provider").is_some()),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_something_else_is_refused_with_what_it_looks_like() {
        for (text, wanted) in [
            ("model_list: []", None),
            ("listen: {control: 127.0.0.1:1}", Some("settings of Turnpike")),
            ("services: {app: {image: a}}", Some("Docker Compose")),
            ("a: 1\nb: 2", Some("an object with a, b")),
            ("- a", Some("it is an array")),
            ("", Some("it is empty")),
        ] {
            let (node, _) = words::settings::read_yaml(text).unwrap();
            let refused = Product::Litellm.refuse(&node);
            assert_eq!(refused.is_some(), wanted.is_some(), "{text} {refused:?}");
            let refused = refused.unwrap_or_default();
            assert!(refused.contains(wanted.unwrap_or_default()), "{text} {refused}");
        }
    }
}
