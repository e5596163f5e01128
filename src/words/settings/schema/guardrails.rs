//! The schema of `guardrails`.
//!
//! Not the hooks of configs (`config_object`).

use super::{flag, integer, ms, object, or};
use crate::settings::GuardrailSettings;
use serde_json::Value;

pub(super) fn guardrails() -> Value {
    let default = GuardrailSettings::default();
    object(
        "What holds for all hooks and guardrails (docs/guardrails.md).",
        &[],
        vec![
            (
                "fail_on_error",
                or(
                    flag("Whether a check that could not decide fails, where its parameters do not say."),
                    default.fail_on_error,
                ),
            ),
            (
                "check_timeout_ms",
                or(
                    integer(
                        "For each check that has no `timeout` of its own, milliseconds.",
                        1,
                        Some(120_000),
                    ),
                    ms(default.check_timeout),
                ),
            ),
        ],
    )
}
