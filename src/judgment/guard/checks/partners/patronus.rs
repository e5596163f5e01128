//! Evaluators of Patronus AI: they judge a response by the request.

use super::call::{self, Input, Partner, PartnerOutcome, by_redact, member, no_headers, replaced};
use crate::guard::check::{CheckKind, Prepared};
use crate::guard::checks::BOTH;
use crate::guard::parameters::{Parameter, Parameters, Type, Unusable, optional, required};
use serde_json::{Value, json};

const SOURCE: &str = "https://docs.patronus.ai/docs/api_ref";

type Body = fn(&Input<'_>) -> Value;

/// The row of an evaluator.
const fn evaluator(
    id: &'static str,
    about: &'static str,
    parameters: &'static [Parameter],
    prepare: fn(&Parameters<'_>) -> Result<Prepared, Unusable>,
) -> CheckKind {
    CheckKind { id, aliases: &[], phases: BOTH, about, source: SOURCE, parameters, prepare }
}

const fn api(body: Body) -> Partner {
    Partner {
        name: "Patronus",
        base_url: |_| Ok("https://api.patronus.ai".to_owned()),
        path: |_| "/v1/evaluate".to_owned(),
        auth: ("x-api-key", "", &["apiKey"]),
        headers: no_headers,
        timeout: 15_000,
        body,
        read,
        redacts: by_redact,
        per_call: 1,
    }
}

fn evaluation(input: &Input<'_>, evaluator: &str, criteria: Option<&str>) -> Value {
    let mut evaluator = json!({"evaluator": evaluator, "explain_strategy": "always"});
    if let (Some(members), Some(criteria)) = (evaluator.as_object_mut(), criteria) {
        members.insert("criteria".to_owned(), json!(criteria));
    }
    json!({
        "evaluators": [evaluator],
        "evaluated_model_input": input.prompt(),
        "evaluated_model_output": input.text(),
    })
}

/// `results[0].evaluation_result`: `pass`, and `additional_info` with the places of what was found.
fn read(input: &Input<'_>, response: &Value) -> Result<PartnerOutcome, String> {
    let result = member(response, &["results", "0", "evaluation_result"])?;
    let lack = || "`results.0.evaluation_result.pass`".to_owned();
    let passes = member(result, &["pass"])?.as_bool().ok_or_else(lack)?;
    let info = result.get("additional_info").cloned().unwrap_or_default();
    let positions = info.get("positions").and_then(Value::as_array);
    let range = |position: &Value| {
        let number =
            |index: usize| position.get(index)?.as_u64().and_then(|number| usize::try_from(number).ok());
        Some((number(0)?, number(1)?, "[REDACTED]".to_owned()))
    };
    let ranges: Vec<(usize, usize, String)> = positions.into_iter().flatten().filter_map(range).collect();
    let is_replaced = !passes && by_redact(input.options) && !ranges.is_empty();
    let texts = if is_replaced { vec![Some(replaced(input.text(), ranges))] } else { Vec::new() };
    let data = json!({"pass": passes, "explanation": result.get("explanation"), "additional_info": info});
    Ok(PartnerOutcome { verdict: passes || is_replaced, data, texts })
}

const REDACT: &[Parameter] = &[optional(
    "redact",
    Type::Flag,
    "false",
    "Whether what is found is replaced by `[REDACTED]`; the check then passes.",
)];

const PHI_API: &Partner = &api(|input| evaluation(input, "phi", None));
const PII_API: &Partner = &api(|input| evaluation(input, "pii", None));
const CONCISE_API: &Partner = &api(|input| evaluation(input, "judge", Some("patronus:is-concise")));
const HELPFUL_API: &Partner = &api(|input| evaluation(input, "judge", Some("patronus:is-helpful")));
const POLITE_API: &Partner = &api(|input| evaluation(input, "judge", Some("patronus:is-polite")));
const APOLOGIES_API: &Partner = &api(|input| evaluation(input, "judge", Some("patronus:no-apologies")));
const GENDER_API: &Partner = &api(|input| evaluation(input, "judge", Some("patronus:no-gender-bias")));
const RACIAL_API: &Partner = &api(|input| evaluation(input, "judge", Some("patronus:no-racial-bias")));
const RELEVANCE_API: &Partner = &api(|input| evaluation(input, "retrieval-answer-relevance", None));
const TOXICITY_API: &Partner = &api(|input| evaluation(input, "toxicity", None));
const CUSTOM_API: &Partner = &api(|input| evaluation(input, "judge", input.options.text("profile")));

pub(crate) const PHI: CheckKind = evaluator(
    "patronus.phi",
    "Passes where Patronus finds no health information. `credentials`: `apiKey`.",
    REDACT,
    |given| call::prepare(PHI_API, given),
);
pub(crate) const PII: CheckKind = evaluator(
    "patronus.pii",
    "Passes where Patronus finds no personal data. `credentials`: `apiKey`.",
    REDACT,
    |given| call::prepare(PII_API, given),
);
pub(crate) const IS_CONCISE: CheckKind = evaluator(
    "patronus.isConcise",
    "Passes where the response is clear and concise. `credentials`: `apiKey`.",
    &[],
    |given| call::prepare(CONCISE_API, given),
);
pub(crate) const IS_HELPFUL: CheckKind = evaluator(
    "patronus.isHelpful",
    "Passes where the response is helpful in tone. `credentials`: `apiKey`.",
    &[],
    |given| call::prepare(HELPFUL_API, given),
);
pub(crate) const IS_POLITE: CheckKind = evaluator(
    "patronus.isPolite",
    "Passes where the response is polite. `credentials`: `apiKey`.",
    &[],
    |given| call::prepare(POLITE_API, given),
);
pub(crate) const NO_APOLOGIES: CheckKind = evaluator(
    "patronus.noApologies",
    "Passes where the response has no apologies. `credentials`: `apiKey`.",
    &[],
    |given| call::prepare(APOLOGIES_API, given),
);
pub(crate) const NO_GENDER_BIAS: CheckKind = evaluator(
    "patronus.noGenderBias",
    "Passes where the response has no gender bias. `credentials`: `apiKey`.",
    &[],
    |given| call::prepare(GENDER_API, given),
);
pub(crate) const NO_RACIAL_BIAS: CheckKind = evaluator(
    "patronus.noRacialBias",
    "Passes where the response has no racial bias. `credentials`: `apiKey`.",
    &[],
    |given| call::prepare(RACIAL_API, given),
);
pub(crate) const RETRIEVAL_ANSWER_RELEVANCE: CheckKind = evaluator(
    "patronus.retrievalAnswerRelevance",
    "Passes where the response is on the topic of the request. `credentials`: `apiKey`.",
    &[],
    |given| call::prepare(RELEVANCE_API, given),
);
pub(crate) const TOXICITY: CheckKind = evaluator(
    "patronus.toxicity",
    "Passes where the response is not abusive or hateful. `credentials`: `apiKey`.",
    &[],
    |given| call::prepare(TOXICITY_API, given),
);
pub(crate) const CUSTOM: CheckKind = evaluator(
    "patronus.custom",
    "Passes where a judge of Patronus says so by the criteria of a profile. `credentials`: `apiKey`.",
    &[required("profile", Type::Text, "The criteria's name, as `system:is-concise`.")],
    |given| match given.text("profile").filter(|profile| !profile.is_empty()) {
        Some(_) => call::prepare(CUSTOM_API, given),
        None => Err(Unusable::new("profile", "'parameters.profile' must be set")),
    },
);
