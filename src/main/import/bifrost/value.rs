//! Values of Bifrost's file: texts, and references such as `env.NAME`.

use super::super::cursor::InputAt;
use super::super::import::Import;
use super::super::moved::VariableUse;
use super::super::report::Taken;
use super::super::value::{InputReference, WrittenValue};

/// What a text refers to.
pub fn reader(text: &str) -> Option<InputReference> {
    let named = |name: &str| (!name.is_empty()).then(|| name.to_owned());
    match text.strip_prefix("vault.") {
        Some(path) => named(path).map(InputReference::Vault),
        None => named(text.strip_prefix("env.")?).map(InputReference::Variable),
    }
}

/// The text of a value: newer files also write `{"value": …, "env_var": …}`.
pub fn text(at: &InputAt<'_>) -> Option<String> {
    if !at.is_container() {
        return at.text();
    }
    let named = at.text_of("env_var").filter(|name| !name.is_empty());
    match named {
        Some(name) => Some(format!("env.{}", name.trim_start_matches("env."))),
        None => at.text_of("value"),
    }
}

/// A value for the settings; `None`: there is none. `wanted` names a variable for one that is not copied.
pub fn written(import: &mut Import, at: &InputAt<'_>, wanted: &str, of: VariableUse) -> Option<WrittenValue> {
    let given = text(at).filter(|text| !text.is_empty())?;
    Some(import.written(&given, reader, wanted, of))
}

/// Records what became of a value and of the parts it is written in.
pub fn record(import: &mut Import, at: &InputAt<'_>, taken: Taken, text: &str) {
    import.findings.whole(at, taken, text);
}
