//! Values of Bifrost's file: texts, and references such as `env.NAME`.

use super::super::cursor::InputAt;
use super::super::import::Import;
use super::super::litellm::is_placeholder;
use super::super::moved::{VariableUse, plain};
use super::super::report::Taken;

/// The variable that a text refers to; of a vault's path a variable that is named after it.
pub fn reference(text: &str) -> Option<String> {
    let name = text.strip_prefix("env.").or_else(|| text.strip_prefix("vault."))?;
    let name = name.rsplit(['/', '#']).next().unwrap_or(name);
    (!name.is_empty()).then(|| name.to_owned())
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

/// A value for the settings, what is to be done, and whether that is the same. `wanted` names a variable for a secret that is written.
pub fn secret(import: &mut Import, at: &InputAt<'_>, wanted: &str) -> Option<(String, Taken, String)> {
    let given = text(at).filter(|text| !text.is_empty())?;
    if let Some(name) = reference(&given) {
        return Some((import.moved.variable(&name, VariableUse::Secret), Taken::Exact, String::new()));
    }
    if is_placeholder(&given) {
        return Some((plain(&given), Taken::Exact, String::new()));
    }
    let variable = import.moved.secret(&given, wanted);
    let name = variable.trim_start_matches("${").trim_end_matches('}').to_owned();
    Some((
        variable,
        Taken::Different,
        format!(": set {name} to the secret that is written here, which is not copied"),
    ))
}

/// A text that is no secret.
pub fn setting(import: &mut Import, at: &InputAt<'_>, of: VariableUse) -> Option<String> {
    let given = text(at).filter(|text| !text.is_empty())?;
    Some(match reference(&given) {
        Some(name) => import.moved.variable(&name, of),
        None => plain(&given),
    })
}

/// Records what became of a value and of the parts it is written in.
pub fn record(import: &mut Import, at: &InputAt<'_>, taken: Taken, text: &str) {
    import.findings.whole(at, taken, text);
}
