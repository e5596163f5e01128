//! `default.modelWhitelist`: whether the request's model is in a list.

use super::{BEFORE, NOT};
use crate::guard::check::{CheckKind, LocalCheck, Prepared};
use crate::guard::finding::Finding;
use crate::guard::parameters::{Parameters, Type, Unusable, required};
use crate::guard::subject::Subject;
use serde_json::{Value, json};

pub(crate) const MODEL_WHITELIST: CheckKind = CheckKind {
    id: "default.modelWhitelist",
    aliases: &["default.modelwhitelist", "modelwhitelist"],
    phases: BEFORE,
    about: "Passes where the request's model is in the list, as the request names it.",
    source: "",
    parameters: &[required("models", Type::List, "The models."), NOT],
    prepare,
};

#[derive(Debug)]
struct ModelWhitelist {
    models: Vec<String>,
    not: bool,
}

fn prepare(parameters: &Parameters<'_>) -> Result<Prepared, Unusable> {
    let message = "Missing allowed model list";
    let missing = || Unusable { data: Some(failure(message)), ..Unusable::new("models", message) };
    let models = parameters.texts("models").filter(|models| !models.is_empty()).ok_or_else(missing)?;
    let models = models.into_iter().map(str::to_owned).collect();
    Ok(Prepared::Local(Box::new(ModelWhitelist { models, not: parameters.flag("not") })))
}

fn failure(message: &str) -> Value {
    json!({"explanation": format!("An error occurred while checking model whitelist: {message}")})
}

impl LocalCheck for ModelWhitelist {
    fn run(&self, subject: &Subject) -> Finding {
        let Some(model) = subject.model.as_deref().filter(|model| !model.is_empty()) else {
            let message = "Missing model in request";
            return Finding::failed("Error", message).with_data(failure(message));
        };
        let is_listed = self.models.iter().any(|listed| listed == model);
        let verdict = is_listed != self.not;
        let place = if is_listed { "is in" } else { "is not in" };
        Finding::of(
            verdict,
            json!({
                "explanation": format!("Model \"{model}\" {place} the list."),
                "requestedModel": model,
                "allowedModels": self.models,
                "not": self.not,
                "verdict": verdict,
            }),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guard::checks::testing::{data, error, request, request_with, run};

    #[test]
    fn the_model_is_in_the_list() {
        for (models, holds) in [(json!(["gpt-4o", "x"]), true), (json!(["gpt-4"]), false)] {
            for not in [false, true] {
                let parameters = json!({"models": models, "not": not});
                let finding = run(&MODEL_WHITELIST, parameters, &request("a"));
                assert_eq!((finding.verdict, &data(&finding)["not"]), (holds != not, &json!(not)));
            }
        }
        let finding =
            run(&MODEL_WHITELIST, json!({"models": ["a"]}), &request_with(&json!({"messages": []})));
        assert_eq!((error(&finding), finding.verdict), ("Missing model in request", false));
        for parameters in [json!({}), json!({"models": []})] {
            assert_eq!(
                error(&run(&MODEL_WHITELIST, parameters, &request("a"))),
                "Missing allowed model list"
            );
        }
    }
}
