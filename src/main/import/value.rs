//! A value of the input as the settings have it: a reference becomes a variable, a secret a variable to set, other texts are copied.
//!
//! One way for all products; how each refers to the environment is its own [`ReferenceReader`]. Not here: where the value goes.

use super::cursor::InputAt;
use super::import::Import;
use super::moved::{VariableUse, plain, variable_in};
use super::report::{Taken, is_leaf};
use super::tree::Tree;
use words::config::node::{Node, NodeKind};

/// Where a text of the input says that the value is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InputReference {
    /// In this variable of the environment.
    Variable(String),
    /// In a vault, under this path.
    Vault(String),
}

/// How a product refers to values that are elsewhere; `None`: the text is the value.
pub type ReferenceReader = fn(&str) -> Option<InputReference>;

/// What the settings have, and whether that is the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrittenValue {
    pub text: String,
    pub taken: Taken,
    /// What else is to be done.
    pub more: String,
}

impl WrittenValue {
    /// One that means the same.
    pub fn exact(text: impl Into<String>) -> Self {
        Self { text: text.into(), taken: Taken::Exact, more: String::new() }
    }
}

/// Keys that stand where one is demanded and none is needed. They are no secrets.
const PLACEHOLDERS: [&str; 28] = [
    "none",
    "no-key",
    "nokey",
    "no_key",
    "no-key-required",
    "empty",
    "dummy",
    "dummy-key",
    "fake",
    "fake-key",
    "fake_key",
    "not-needed",
    "not_needed",
    "not-used",
    "notneeded",
    "not-required",
    "na",
    "n/a",
    "sk-xxx",
    "sk-1234",
    "sk-dummy",
    "sk-fake",
    "anything",
    "placeholder",
    "ollama",
    "lm-studio",
    "local",
    "test",
];

fn is_placeholder(text: &str) -> bool {
    PLACEHOLDERS.contains(&text.to_ascii_lowercase().as_str())
}

/// Whether a text can be written as a base URL: it has no user, password or query, which may be secrets.
fn is_base(text: &str) -> bool {
    reqwest::Url::parse(text).is_ok_and(|url| {
        matches!(url.scheme(), "http" | "https")
            && url.host_str().is_some_and(|host| !host.is_empty() && !host.contains(['<', '>', '{', '}']))
            && url.username().is_empty()
            && url.password().is_none()
            && url.query().is_none()
            && url.fragment().is_none()
    })
}

/// Whether a member of this name is a secret where it is a text.
fn is_secret_name(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    ["key", "token", "pat", "auth"].iter().any(|ending| name.ends_with(ending))
        || ["secret", "password", "credential", "authorization", "bearer"]
            .iter()
            .any(|part| name.contains(part))
}

/// Whether all texts below a member of this name may be secrets.
fn holds_secrets(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    name.ends_with("headers") || name.contains("credential") || name.contains("secret")
}

impl Import {
    /// A text of the input. `wanted` names a variable for a secret that is written there.
    pub fn written(
        &mut self,
        given: &str,
        read: ReferenceReader,
        wanted: &str,
        of: VariableUse,
    ) -> WrittenValue {
        let is_copied = match of {
            VariableUse::Secret => is_placeholder(given),
            VariableUse::ServiceAccount => false,
            VariableUse::Url => is_base(given),
            VariableUse::Redis => !given.contains('@'),
            _ => true,
        };
        if read(given).is_none() && is_copied {
            return WrittenValue::exact(plain(given));
        }
        self.hidden(given, read, wanted, of)
    }

    /// A text that is not copied, whatever it looks like.
    pub fn hidden(
        &mut self,
        given: &str,
        read: ReferenceReader,
        wanted: &str,
        of: VariableUse,
    ) -> WrittenValue {
        let reference = read(given);
        if let Some(InputReference::Variable(name)) = &reference {
            return WrittenValue::exact(self.moved.variable(name, of));
        }
        let wanted = match &reference {
            Some(InputReference::Vault(path)) => path.as_str(),
            _ => wanted,
        };
        let text = self.moved.secret(given, wanted);
        self.moved.use_as(&text, of);
        let name = variable_in(&text);
        let more = match (reference, of) {
            (Some(_), _) => format!(": set {name} to what the vault has"),
            (None, VariableUse::Url) => format!(
                ": set {name}; what is written here is no base URL of http or https without user and query"
            ),
            (None, _) => format!(": set {name} to the secret that is written here, which is not copied"),
        };
        WrittenValue { text, taken: Taken::Different, more }
    }

    /// A value with all below it, but for the secrets in it. `text`: where it is here.
    pub fn copied(&mut self, at: &InputAt<'_>, read: ReferenceReader, text: &str) -> Tree {
        self.findings.whole(at, Taken::Exact, text);
        let name = at.path.rsplit('.').next().unwrap_or_default();
        let mut copy = Copy { import: self, read, place: text };
        copy.below(at, at, name, holds_secrets(name))
    }

    /// Keeps the names of all variables of the input, so that none of them is given to a secret.
    pub fn reserve_references(&mut self, node: &Node, read: ReferenceReader) {
        match &node.kind {
            NodeKind::Text(text) => {
                if let Some(InputReference::Variable(name)) = read(text.trim()) {
                    self.moved.reserve(&name);
                }
            }
            NodeKind::List(items) => items.iter().for_each(|item| self.reserve_references(item, read)),
            NodeKind::Map(entries) => {
                entries.iter().for_each(|entry| self.reserve_references(&entry.value, read));
            }
            _ => {}
        }
    }
}

/// A copy of a value of the input.
struct Copy<'i, 't> {
    import: &'i mut Import,
    read: ReferenceReader,
    place: &'t str,
}

impl Copy<'_, '_> {
    /// `line`: what has the line of the report; `is_hidden`: every text may be a secret.
    fn below(&mut self, at: &InputAt<'_>, line: &InputAt<'_>, name: &str, is_hidden: bool) -> Tree {
        match &at.node.kind {
            NodeKind::Map(_) => at.entries().iter().fold(Tree::map(), |map, (name, below)| {
                let value = self.below(below, below, name, is_hidden || holds_secrets(name));
                map.with(name, value)
            }),
            NodeKind::List(_) => {
                let is_plain = is_leaf(at.node);
                let items = at.items();
                let items = items
                    .iter()
                    .map(|item| self.below(item, if is_plain { line } else { item }, name, is_hidden));
                Tree::List(items.collect())
            }
            NodeKind::Text(text) => self.text(line, text, name, is_hidden || is_secret_name(name)),
            _ => Tree::from_node(at.node, &mut |text| text.to_owned()),
        }
    }

    fn text(&mut self, line: &InputAt<'_>, text: &str, name: &str, is_hidden: bool) -> Tree {
        let is_url = text.starts_with("http://") || text.starts_with("https://");
        let of = match (is_hidden, is_url) {
            (true, false) => VariableUse::Secret,
            (_, true) if has_more_than_a_place(text) => VariableUse::Url,
            _ => VariableUse::Text,
        };
        let written = self.import.written(text, self.read, &name.to_uppercase(), of);
        if written.taken != Taken::Exact {
            self.import.findings.different(line, format!("{}{}", self.place, written.more));
        }
        Tree::Text(written.text)
    }
}

/// Whether a URL has a user or a query.
fn has_more_than_a_place(url: &str) -> bool {
    reqwest::Url::parse(url)
        .is_ok_and(|url| !url.username().is_empty() || url.password().is_some() || url.query().is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reader(text: &str) -> Option<InputReference> {
        let vault = text.strip_prefix("vault.").map(|path| InputReference::Vault(path.to_owned()));
        vault.or_else(|| text.strip_prefix("env.").map(|name| InputReference::Variable(name.to_owned())))
    }

    #[test]
    fn two_values_are_never_one_variable() {
        let mut import = Import::default();
        let mut of = |text: &str, of| import.written(text, reader, "A_BASE", of).text;
        assert_eq!(of("vault.openai#key", VariableUse::Secret), "${openai_key}");
        assert_eq!(of("vault.anthropic#key", VariableUse::Secret), "${anthropic_key}");
        assert_eq!(of("vault.openai/key", VariableUse::Secret), "${openai_key_2}");
        assert_eq!(of("https://a:b@one.example/v1", VariableUse::Url), "${A_BASE}");
        assert_eq!(of("https://a:b@two.example/v1", VariableUse::Url), "${A_BASE_2}");
        assert_eq!(of("{\"type\": 1}", VariableUse::ServiceAccount), "${A_BASE_3}");
        assert_eq!(of("{\"type\": 2}", VariableUse::ServiceAccount), "${A_BASE_4}");
        assert_eq!(of("env.KEY", VariableUse::Secret), "${KEY}");
        assert_eq!(of("EMPTY", VariableUse::Secret), "EMPTY");
        assert_eq!(of("a ${b}", VariableUse::Text), "a $${b}");
    }

    #[test]
    fn a_copy_has_no_secrets_and_reports_each() {
        let text = "check: {id: webhook, url: 'https://u:canary@h/', headers: {Authorization: canary, X: [canary]},\n  \
                    apiKey: canary, words: [a, b], timeout: 5, plain: env.A, credentials: {deep: {x: canary}}}\n";
        let (node, _) = words::settings::read_yaml(text).unwrap();
        let mut import = Import::default();
        let tree = import.copied(&InputAt::root(&node, 0).member("check").unwrap(), reader, "checks");
        let printed = format!("{tree:?}");
        assert!(
            !printed.contains("canary") && printed.contains("${A}") && printed.contains("\"b\""),
            "{printed}"
        );
        let report = import.findings.report(0, "f", &node, &[]);
        let of = |taken| report.lines.iter().filter(|line| line.taken == taken).count();
        assert_eq!((of(Taken::Different), of(Taken::Exact)), (5, 4), "{}", report.text());
        assert!(!report.text().contains("canary"), "{}", report.text());
    }
}
