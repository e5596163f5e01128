//! Values of LiteLLM's file: texts, references to the environment, secrets.

use super::super::cursor::InputAt;
use super::super::import::Import;
use super::super::moved::{VariableUse, plain};
use super::super::report::Taken;
use super::super::tree::Tree;

/// How LiteLLM refers to the environment.
const REFERENCE: &str = "os.environ/";

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

/// The variable that a text refers to.
pub fn reference(text: &str) -> Option<&str> {
    text.strip_prefix(REFERENCE)
}

/// A text as the settings have it, which is no secret.
pub fn text(import: &mut Import, text: &str, of: VariableUse) -> String {
    match reference(text) {
        Some(name) => import.moved.variable(name, of),
        None => plain(text),
    }
}

/// A value of a key, or of a member: what the settings have, and whether that is the same.
pub struct Written {
    pub tree: Tree,
    pub taken: Taken,
    /// What else is to be done.
    pub more: String,
}

/// A value that may be a secret; `wanted` names a variable for one that is written in the file.
pub fn secret(import: &mut Import, at: &InputAt<'_>, wanted: &str) -> Written {
    let given = at.text().unwrap_or_default();
    if is_placeholder(&given) {
        return Written { tree: Tree::text(given), taken: Taken::Exact, more: String::new() };
    }
    own_secret(import, at, wanted)
}

/// A value that is a secret, whatever it looks like.
pub fn own_secret(import: &mut Import, at: &InputAt<'_>, wanted: &str) -> Written {
    let given = at.text().unwrap_or_default();
    if let Some(name) = reference(&given) {
        let tree = Tree::Text(import.moved.variable(name, VariableUse::Secret));
        return Written { tree, taken: Taken::Exact, more: String::new() };
    }
    let variable = import.moved.secret(&given, wanted);
    let name = variable.trim_start_matches("${").trim_end_matches('}');
    let more = format!(": set {name} to the secret that is written here, which is not copied");
    Written { tree: Tree::text(variable.clone()), taken: Taken::Different, more }
}

/// Whether a key is no secret.
pub fn is_placeholder(text: &str) -> bool {
    PLACEHOLDERS.contains(&text.to_ascii_lowercase().as_str())
}

/// The base URL of a provider. `wanted` names a variable for one that cannot be written.
pub fn host(import: &mut Import, at: &InputAt<'_>, wanted: &str) -> Written {
    let given = at.text().unwrap_or_default();
    if let Some(name) = reference(&given) {
        let tree = Tree::Text(import.moved.variable(name, VariableUse::Url));
        return Written { tree, taken: Taken::Exact, more: String::new() };
    }
    let trimmed = given.trim_end_matches('/');
    let trimmed = trimmed.strip_suffix("/chat/completions").unwrap_or(trimmed);
    match reqwest::Url::parse(trimmed) {
        Ok(url) if is_base(&url) => {
            Written { tree: Tree::text(plain(trimmed)), taken: Taken::Exact, more: String::new() }
        }
        _ => {
            let variable = import.moved.variable(wanted, VariableUse::Url);
            let more = format!(
                ": set {wanted}; what is written here is no base URL of http or https without user and query"
            );
            Written { tree: Tree::text(variable), taken: Taken::Different, more }
        }
    }
}

fn is_base(url: &reqwest::Url) -> bool {
    matches!(url.scheme(), "http" | "https")
        && url.host_str().is_some_and(|host| !host.is_empty() && !host.contains(['<', '>', '{', '}']))
        && url.username().is_empty()
        && url.password().is_none()
        && url.query().is_none()
        && url.fragment().is_none()
}

/// Seconds as whole milliseconds; `None` where they are in the environment or are no number.
pub fn milliseconds(at: &InputAt<'_>) -> Option<u64> {
    let seconds = at.number().filter(|seconds| *seconds > 0.0 && *seconds < 1e9)?;
    // The range is checked above.
    Some((seconds * 1000.0).round().max(1.0) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_become_variables_and_secrets_are_not_copied() {
        let text =
            "a: os.environ/KEY\nb: sk-live-0123456789\nc: EMPTY\nd: http://u:p@h/v1\ne: http://h:1/v1/\n";
        let (node, _) = words::settings::read_yaml(text).unwrap();
        let root = InputAt::root(&node, 0);
        let mut import = Import::default();
        let mut of = |name: &str| secret(&mut import, &root.member(name).unwrap(), "A_KEY");
        assert_eq!(of("a").tree, Tree::text("${KEY}"));
        let copied = of("b");
        assert_eq!((copied.tree, copied.taken), (Tree::text("${A_KEY}"), Taken::Different));
        assert!(copied.more.contains("set A_KEY") && !copied.more.contains("sk-live"), "{}", copied.more);
        assert_eq!(of("c").tree, Tree::text("EMPTY"));
        let mut of = |name: &str| host(&mut import, &root.member(name).unwrap(), "A_BASE");
        assert_eq!(of("d").tree, Tree::text("${A_BASE}"));
        assert_eq!(of("e").tree, Tree::text("http://h:1/v1"));
    }
}
