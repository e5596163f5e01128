//! Values of LiteLLM's file: texts, references to the environment, secrets.

use super::super::cursor::InputAt;
use super::super::import::Import;
use super::super::moved::VariableUse;
use super::super::value::{InputReference, WrittenValue};

/// How LiteLLM refers to the environment.
const REFERENCE: &str = "os.environ/";

/// The variable that a text refers to.
pub fn reference(text: &str) -> Option<&str> {
    text.strip_prefix(REFERENCE)
}

/// What a text refers to.
pub fn reader(text: &str) -> Option<InputReference> {
    reference(text).map(|name| InputReference::Variable(name.to_owned()))
}

/// A text as the settings have it, which is no secret.
pub fn text(import: &mut Import, text: &str, of: VariableUse) -> String {
    import.written(text, reader, "VALUE", of).text
}

/// A value that may be a secret; `wanted` names a variable for one that is written in the file.
pub fn secret(import: &mut Import, at: &InputAt<'_>, wanted: &str) -> WrittenValue {
    import.written(&at.text().unwrap_or_default(), reader, wanted, VariableUse::Secret)
}

/// The base URL of a provider. `wanted` names a variable for one that cannot be written.
pub fn host(import: &mut Import, at: &InputAt<'_>, wanted: &str) -> WrittenValue {
    let given = at.text().unwrap_or_default();
    let trimmed = given.trim_end_matches('/');
    let trimmed = trimmed.strip_suffix("/chat/completions").unwrap_or(trimmed);
    import.written(trimmed, reader, wanted, VariableUse::Url)
}

/// Seconds as whole milliseconds; `None` where they are in the environment or are no number.
pub fn milliseconds(at: &InputAt<'_>) -> Option<u64> {
    let seconds = at.number().filter(|seconds| *seconds > 0.0 && *seconds < 1e9)?;
    // The range is checked above.
    Some((seconds * 1000.0).round().max(1.0) as u64)
}

#[cfg(test)]
mod tests {
    use super::super::super::report::Taken;
    use super::*;

    #[test]
    fn references_become_variables_and_secrets_are_not_copied() {
        let text =
            "a: os.environ/KEY\nb: sk-live-0123456789\nc: EMPTY\nd: http://u:p@h/v1\ne: http://h:1/v1/\n";
        let (node, _) = words::settings::read_yaml(text).unwrap();
        let root = InputAt::root(&node, 0);
        let mut import = Import::default();
        let mut of = |name: &str| secret(&mut import, &root.member(name).unwrap(), "A_KEY");
        assert_eq!(of("a").text, "${KEY}");
        let copied = of("b");
        assert_eq!((copied.text.as_str(), copied.taken), ("${A_KEY}", Taken::Different));
        assert!(copied.more.contains("set A_KEY") && !copied.more.contains("sk-live"), "{}", copied.more);
        assert_eq!(of("c").text, "EMPTY");
        let mut of = |name: &str| host(&mut import, &root.member(name).unwrap(), "A_BASE");
        assert_eq!(of("d").text, "${A_BASE}");
        assert_eq!(of("e").text, "http://h:1/v1");
    }
}
