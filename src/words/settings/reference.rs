//! References in string values: `${NAME}` for the environment, `credential:NAME` for a systemd credential.
//!
//! Resolved in the node tree, before anything is checked, and only in values, never in keys. Resolved values
//! are remembered so that no problem message can repeat them. Not here: reading the environment and
//! credentials (`main` passes that in as [`SecretSources`]).
//!
//! Example: `https://${HOST}/v1` becomes `https://example.com/v1` when `HOST` is `example.com`; `$${HOST}` is
//! the literal text `${HOST}`; `credential:openai` becomes the content of that file without trailing line
//! breaks.

use crate::config::account::names::B_SERVICE_ACCOUNT;
use crate::config::node::{Node, NodeKind};
use crate::error::Problem;
use std::collections::HashSet;
use std::fmt;

/// Looks up references. `main` passes in the process's environment and credentials directory; this module
/// does no I/O.
pub struct SecretSources<'a> {
    /// The value of an environment variable.
    pub env: &'a dyn Fn(&str) -> Option<String>,
    /// The content of the file of that name in `$CREDENTIALS_DIRECTORY`, or why it cannot be read.
    pub credential: &'a dyn Fn(&str) -> Result<String, String>,
}

const CREDENTIAL: &str = "credential:";

/// Resolved values of fewer bytes are not masked in problem messages: masking them would garble ordinary
/// words, and a value that short is no secret.
const MIN_MASKED_LEN: usize = 4;

/// The problems found while resolving, and the resolved values for masking.
#[derive(Default)]
pub(super) struct Resolved {
    pub(super) problems: Vec<Problem>,
    /// The paths of the problems.
    failed: HashSet<String>,
    /// The resolved values, longest first.
    values: Vec<String>,
}

/// Replaces every reference in `node` by its value. A text with a reference that cannot be resolved is left
/// as written.
pub(super) fn resolve(node: &mut Node, sources: &SecretSources<'_>) -> Resolved {
    let mut resolved = Resolved::default();
    resolve_node(node, "", sources, &mut resolved);
    resolved.values.sort_by_key(|value| std::cmp::Reverse(value.len()));
    resolved.values.dedup();
    resolved
}

impl Resolved {
    /// Returns `text` with every resolved value replaced by `***`.
    pub(super) fn mask(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for value in &self.values {
            if text.contains(value.as_str()) {
                text = text.replace(value.as_str(), "***");
            }
            // As `{:?}` writes it, where that differs.
            let plain = |c: char| c.is_ascii_graphic() && !matches!(c, '"' | '\'' | '\\');
            if !value.chars().all(plain) {
                text = text.replace(&value.escape_debug().to_string(), "***");
            }
        }
        text
    }

    /// The paths of the references that could not be resolved.
    pub(super) fn failed(&self) -> impl Iterator<Item = &str> {
        self.failed.iter().map(String::as_str)
    }

    /// Whether the reference at `path` could not be resolved; other problems at that path follow from it.
    pub(super) fn failed_at(&self, path: &str) -> bool {
        self.failed.contains(path)
    }
}

/// Shows no values.
impl fmt::Debug for Resolved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Resolved").field("problems", &self.problems).finish_non_exhaustive()
    }
}

fn resolve_node(node: &mut Node, path: &str, sources: &SecretSources<'_>, resolved: &mut Resolved) {
    match &mut node.kind {
        NodeKind::Text(text) => match resolve_text(text, sources, &mut resolved.values) {
            Ok(None) => {}
            Ok(Some(value)) => *text = value,
            Err(message) => {
                resolved.failed.insert(path.to_owned());
                resolved.problems.push(Problem { path: path.to_owned(), message, place: node.place });
            }
        },
        NodeKind::List(items) => {
            for (index, item) in items.iter_mut().enumerate() {
                resolve_node(item, &format!("{path}[{index}]"), sources, resolved);
            }
        }
        NodeKind::Map(entries) => {
            for entry in entries {
                let name = &entry.name;
                let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                resolve_node(&mut entry.value, &path, sources, resolved);
                if B_SERVICE_ACCOUNT.contains(&entry.name.as_str()) {
                    parse_service_account(&mut entry.value);
                }
            }
        }
        NodeKind::Null | NodeKind::Bool(_) | NodeKind::Number(_) => {}
    }
}

/// Parses a service account, which is an object in the config but JSON text in its credential.
fn parse_service_account(value: &mut Node) {
    if let NodeKind::Text(text) = &value.kind
        && let Ok(account) = Node::from_json(text.as_bytes())
    {
        value.kind = account.kind;
    }
}

/// The value of `text` with its references resolved; `None` when it holds no reference.
fn resolve_text(
    text: &str,
    sources: &SecretSources<'_>,
    values: &mut Vec<String>,
) -> Result<Option<String>, String> {
    let value = if let Some(name) = text.strip_prefix(CREDENTIAL) {
        credential(name, sources)?
    } else if text.contains("${") {
        environment(text, sources, values)?
    } else {
        return Ok(None);
    };
    if value.is_empty() {
        return Err(format!("{text} is there but empty; give it a value"));
    }
    remember(&value, values);
    Ok(Some(value))
}

fn remember(value: &str, values: &mut Vec<String>) {
    if value.len() >= MIN_MASKED_LEN {
        values.push(value.to_owned());
    }
}

fn credential(name: &str, sources: &SecretSources<'_>) -> Result<String, String> {
    let plain = !name.is_empty() && name != "." && name != ".." && !name.contains(['/', '\0']);
    if !plain {
        return Err(format!(
            "credential:NAME needs a plain file name of $CREDENTIALS_DIRECTORY, not {name:?}"
        ));
    }
    let content = (sources.credential)(name).map_err(|why| {
        format!(
            "the credential {name} cannot be read: {why}; give the systemd unit LoadCredential={name}:FILE, \
             or set CREDENTIALS_DIRECTORY to a directory with a file {name}"
        )
    })?;
    Ok(content.trim_end_matches(['\n', '\r']).to_owned())
}

fn environment(text: &str, sources: &SecretSources<'_>, values: &mut Vec<String>) -> Result<String, String> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        // `$${` is the escape for a literal `${`.
        if let Some(before) = before.strip_suffix('$') {
            out.push_str(before);
            out.push_str("${");
            rest = after;
            continue;
        }
        out.push_str(before);
        let (name, after) =
            after.split_once('}').ok_or("has a ${ without its }; write $${ for a plain ${")?;
        let value = (sources.env)(check_variable_name(name)?).ok_or_else(|| {
            format!("the environment variable {name} is not set; set it, or write $${{ for a plain ${{")
        })?;
        remember(&value, values);
        out.push_str(&value);
        rest = after;
    }
    out.push_str(rest);
    Ok(out)
}

fn check_variable_name(name: &str) -> Result<&str, String> {
    let first = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    if first && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
        return Ok(name);
    }
    let shown: String = name.chars().take(40).collect();
    Err(format!("{shown:?} is no name of an environment variable; write $${{ for a plain ${{"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn env(name: &str) -> Option<String> {
        match name {
            "KEY" => Some("sk-secret\"1".to_owned()),
            "HOST" => Some("example.com".to_owned()),
            "EMPTY" => Some(String::new()),
            "NESTED" => Some("${KEY}".to_owned()),
            _ => None,
        }
    }

    fn credential(name: &str) -> Result<String, String> {
        match name {
            "openai" => Ok("sk-file\n".to_owned()),
            "blank" => Ok("\n".to_owned()),
            _ => Err("no such file".to_owned()),
        }
    }

    const SOURCES: SecretSources<'static> = SecretSources { env: &env, credential: &credential };

    #[test]
    fn references_are_replaced_by_their_values() {
        for (written, wanted) in [
            ("plain", "plain"),
            ("$HOST", "$HOST"),
            ("${HOST}", "example.com"),
            ("http://${HOST}/v1?${HOST}", "http://example.com/v1?example.com"),
            ("a${EMPTY}b", "ab"),
            ("$${HOST}", "${HOST}"),
            ("$${HOST} ${HOST}", "${HOST} example.com"),
            ("${NESTED}", "${KEY}"),
            ("credential:openai", "sk-file"),
            ("a credential:openai", "a credential:openai"),
        ] {
            let mut node = Node::from(NodeKind::Text(written.to_owned()));
            let resolved = resolve(&mut node, &SOURCES);
            assert_eq!(resolved.problems, [], "{written}");
            assert_eq!(node.kind, NodeKind::Text(wanted.to_owned()), "{written}");
        }
    }

    #[test]
    fn an_unresolved_reference_reports_what_to_set() {
        for (written, wanted) in [
            ("${NO}", "the environment variable NO is not set; set it, or write $${ for a plain ${"),
            ("${EMPTY}", "${EMPTY} is there but empty; give it a value"),
            ("a ${NO", "has a ${ without its }; write $${ for a plain ${"),
            ("${N-O}", "\"N-O\" is no name of an environment variable; write $${ for a plain ${"),
            ("${}", "\"\" is no name of an environment variable; write $${ for a plain ${"),
            (
                "credential:no",
                "the credential no cannot be read: no such file; give the systemd unit \
                 LoadCredential=no:FILE, or set CREDENTIALS_DIRECTORY to a directory with a file no",
            ),
            ("credential:blank", "credential:blank is there but empty; give it a value"),
            (
                "credential:../etc/x",
                "credential:NAME needs a plain file name of $CREDENTIALS_DIRECTORY, not \"../etc/x\"",
            ),
        ] {
            let mut node = Node::from_json(format!(r#"{{"a":[0,"{written}"]}}"#).as_bytes()).unwrap();
            let resolved = resolve(&mut node, &SOURCES);
            let found: Vec<_> =
                resolved.problems.iter().map(|p| (p.path.as_str(), p.message.as_str())).collect();
            assert_eq!(found, [("a[1]", wanted)], "{written}");
        }
    }

    #[test]
    fn resolved_values_are_masked_in_messages() {
        let mut node = Node::from_json(br#"["x${KEY}","credential:openai"]"#).unwrap();
        let resolved = resolve(&mut node, &SOURCES);
        assert_eq!(resolved.mask("no sk-secret\"1 here"), "no *** here");
        assert_eq!(
            resolved.mask(r#"no "sk-secret\"1", "xsk-secret\"1" or sk-file"#),
            r#"no "***", "***" or ***"#
        );
    }
}
