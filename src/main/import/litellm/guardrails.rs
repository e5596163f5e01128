//! `guardrails` of the file: those that run on every request become guardrails of every config.
//!
//! One that runs where a request names it is only reported, as are those of makers that no check here calls.

use super::super::cursor::InputAt;
use super::super::import::Import;
use super::super::moved::{VariableUse, plain};
use super::super::report::Taken;
use super::super::tree::Tree;
use super::routes::Routing;
use super::value;

/// A check that does the same.
struct Check {
    id: &'static str,
    parameters: Tree,
    /// Whether it changes texts and denies nothing.
    is_mask: bool,
}

/// When a guardrail runs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Before,
    During,
    After,
}

/// What Presidio calls what a check finds too.
const ENTITIES: [(&str, &str); 6] = [
    ("EMAIL_ADDRESS", "EMAIL_ADDRESS"),
    ("PHONE_NUMBER", "PHONE_NUMBER"),
    ("CREDIT_CARD", "CREDIT_CARD"),
    ("IBAN_CODE", "IBAN"),
    ("IP_ADDRESS", "IP_ADDRESS"),
    ("US_SSN", "SSN"),
];

/// Reads the guardrails of one file.
pub fn read(import: &mut Import, root: &InputAt<'_>, routing: &mut Routing<'_>) {
    for at in root.member("guardrails").map(|list| list.items()).unwrap_or_default() {
        guardrail(import, &at, routing);
    }
}

fn guardrail(import: &mut Import, at: &InputAt<'_>, routing: &mut Routing<'_>) {
    let Some(params) = at.member("litellm_params") else { return };
    let kind = params.text_of("guardrail").unwrap_or_default();
    if params.member("default_on").and_then(|on| on.flag()) != Some(true) {
        import.findings.not_taken(at, not_always(&kind));
        return;
    }
    let Some(modes) = modes(&params) else {
        import.findings.not_taken(at, "runs on logs alone, or by tags; a guardrail with async: true judges without changing anything (docs/guardrails.md)");
        return;
    };
    let checks = checks(import, &params, &kind);
    if checks.is_empty() {
        import.findings.not_taken(at, unavailable(&kind));
        return;
    }
    let name = at.text_of("guardrail_name").unwrap_or_else(|| kind.clone());
    for mode in &modes {
        for (index, check) in checks.iter().enumerate() {
            let id = if index == 0 { name.clone() } else { format!("{name}-{}", index + 1) };
            add(routing, *mode, &id, check);
        }
    }
    let ids: Vec<&str> = checks.iter().map(|check| check.id).collect();
    let ids = ids.join(", ");
    if let Some(at) = at.member("guardrail_name") {
        import.findings.exact(&at, "the id of guardrails of every config");
    }
    for (name, below) in params.entries() {
        match name {
            "mode" if modes.contains(&Mode::During) => import
                .findings
                .exact(&below, "input_guardrails of every config, parallel where they mask nothing"),
            "mode" => import.findings.exact(&below, "input_guardrails, output_guardrails of every config"),
            "default_on" => import.findings.exact(&below, "is so in every config"),
            "guardrail" if kind == "presidio" || kind == "hide-secrets" => import.findings.different(
                &below,
                format!("{ids}, which finds by form and check digits: no names, places and dates"),
            ),
            "guardrail" => import.findings.exact(&below, format!("the check {ids}")),
            _ => {}
        }
    }
}

/// When it runs; `None`: never on a request or response itself.
fn modes(params: &InputAt<'_>) -> Option<Vec<Mode>> {
    let at = params.member("mode")?;
    let items = if at.is_container() { at.items() } else { vec![at] };
    let modes = items.iter().map(|item| match item.text().as_deref() {
        Some("pre_call") => Some(Mode::Before),
        Some("during_call") => Some(Mode::During),
        Some("post_call") => Some(Mode::After),
        _ => None,
    });
    modes.collect::<Option<Vec<Mode>>>().filter(|modes| !modes.is_empty())
}

fn add(routing: &mut Routing<'_>, mode: Mode, name: &str, check: &Check) {
    let mut item = Tree::of([("id", Tree::Text(plain(name))), (check.id, check.parameters.clone())]);
    if !check.is_mask {
        item.set("deny", Tree::Flag(true));
        if mode == Mode::During {
            item.set("parallel", Tree::Flag(true));
        }
    }
    let phase = if mode == Mode::After { "output_guardrails" } else { "input_guardrails" };
    let policies = routing.policies.get_or_insert_with(Tree::map);
    match policies.member_mut(phase) {
        Some(Tree::List(items)) => items.push(item),
        _ => policies.set(phase, Tree::List(vec![item])),
    }
}

/// The checks that do what a guardrail does; none: there is none.
fn checks(import: &mut Import, params: &InputAt<'_>, kind: &str) -> Vec<Check> {
    let check = |id, parameters| vec![Check { id, parameters, is_mask: false }];
    match kind {
        "presidio" => presidio(import, params),
        "hide-secrets" => {
            let names = ["API_KEY", "JWT", "PRIVATE_KEY"].map(Tree::text);
            let parameters =
                Tree::of([("categories", Tree::List(names.into())), ("redact", Tree::Flag(true))]);
            vec![Check { id: "default.pii", parameters, is_mask: true }]
        }
        "lakera" | "lakera_v2" => {
            let mut parameters = Tree::map();
            if let Some(at) = params.member("project_id") {
                parameters.set(
                    "projectID",
                    Tree::Text(value::text(import, &at.text().unwrap_or_default(), VariableUse::Text)),
                );
                import.findings.exact(&at, "projectID of the check");
            }
            let key = secret(import, params, "api_key", "LAKERA_API_KEY");
            check("lakera.guard", parameters.with("credentials", Tree::of([("apiKey", key)])))
        }
        "openai_moderation" => {
            let key = secret(import, params, "api_key", "OPENAI_API_KEY");
            let mut parameters = Tree::of([("credentials", Tree::of([("apiKey", key)]))]);
            if let Some(at) = params.member("model") {
                parameters.set("model", Tree::Text(plain(&at.text().unwrap_or_default())));
                import.findings.exact(&at, "model of the check");
            }
            check("openai.moderateContent", parameters)
        }
        "bedrock" => {
            bedrock(import, params).map_or_else(Vec::new, |parameters| check("bedrock.guard", parameters))
        }
        _ => Vec::new(),
    }
}

/// What is masked and what is blocked are checks of their own.
fn presidio(import: &mut Import, params: &InputAt<'_>) -> Vec<Check> {
    let restores = params.member("output_parse_pii").filter(|at| at.flag() == Some(true));
    if let Some(at) = &restores {
        import.findings.exact(at, "restore of the check");
    }
    let check = |names: Vec<Tree>, is_mask: bool| {
        let mut parameters = Tree::map();
        if !names.is_empty() {
            parameters.set("categories", Tree::List(names));
        }
        if is_mask {
            parameters.set("redact", Tree::Flag(true));
            if restores.is_some() {
                parameters.set("restore", Tree::Flag(true));
            }
        }
        Check { id: "default.pii", parameters, is_mask }
    };
    let Some(config) = params.member("pii_entities_config") else { return vec![check(Vec::new(), true)] };
    let mut masked = Vec::new();
    let mut blocked = Vec::new();
    for (name, at) in config.entries() {
        let Some((_, own)) = ENTITIES.iter().find(|(entity, _)| *entity == name) else {
            import.findings.not_taken(&at, "is not found by default.pii; default.regexMatch and default.regexReplace find what has a form (docs/guardrails.md)");
            continue;
        };
        import.findings.exact(&at, format!("categories of default.pii: {own}"));
        let is_blocked = at.text().as_deref() == Some("BLOCK");
        if is_blocked { blocked.push(Tree::text(*own)) } else { masked.push(Tree::text(*own)) }
    }
    let lists = [(masked, true), (blocked, false)].into_iter().filter(|(names, _)| !names.is_empty());
    lists.map(|(names, is_mask)| check(names, is_mask)).collect()
}

fn bedrock(import: &mut Import, params: &InputAt<'_>) -> Option<Tree> {
    let mut text = |name: &str, own: &str| -> Option<Tree> {
        let at = params.member(name)?;
        import.findings.exact(&at, format!("{own} of the check"));
        Some(Tree::Text(value::text(import, &at.text()?, VariableUse::Text)))
    };
    let id = text("guardrailIdentifier", "guardrailId")?;
    let version = text("guardrailVersion", "guardrailVersion")?;
    let region = text("aws_region_name", "credentials");
    let region =
        region.unwrap_or_else(|| Tree::Text(import.moved.variable("AWS_REGION_NAME", VariableUse::Text)));
    let key = secret(import, params, "aws_access_key_id", "AWS_ACCESS_KEY_ID");
    let secret_key = secret(import, params, "aws_secret_access_key", "AWS_SECRET_ACCESS_KEY");
    let credentials = Tree::of([("accessKeyId", key), ("accessKeySecret", secret_key), ("region", region)]);
    Some(Tree::of([("guardrailId", id), ("guardrailVersion", version), ("credentials", credentials)]))
}

/// A secret of the guardrail, or the variable that LiteLLM takes it from.
fn secret(import: &mut Import, params: &InputAt<'_>, name: &str, variable: &str) -> Tree {
    let Some(at) = params.member(name).filter(|at| at.text().is_some()) else {
        return Tree::Text(import.moved.variable(variable, VariableUse::Secret));
    };
    let written = value::secret(import, &at, variable);
    let text = format!("credentials of the check{}", written.more);
    match written.taken {
        Taken::Exact => import.findings.exact(&at, text),
        _ => import.findings.different(&at, text),
    }
    Tree::Text(written.text)
}

fn not_always(kind: &str) -> String {
    format!(
        "runs where a request, a key or a team names it (default_on is not true): write a guardrail ({}) into the config that those \
         clients use, or into the defaults of a workspace (docs/guardrails.md)",
        counterpart(kind).unwrap_or("default.webhook calls a server of yours")
    )
}

fn unavailable(kind: &str) -> String {
    match counterpart(kind) {
        Some(check) => format!(
            "write it as {check} into input_guardrails or output_guardrails of the configs (docs/guardrails.md)"
        ),
        None => format!(
            "no check here calls {kind}; default.webhook calls a server of yours, default.promptInjection and default.modelJudge judge \
             texts here (docs/guardrails.md)"
        ),
    }
}

/// The check that comes closest.
fn counterpart(kind: &str) -> Option<&'static str> {
    Some(match kind {
        "presidio" | "hide-secrets" => "default.pii",
        "lakera" | "lakera_v2" => "lakera.guard",
        "openai_moderation" => "openai.moderateContent",
        "bedrock" => "bedrock.guard",
        "azure/prompt_shield" => "azure.shieldPrompt",
        "azure/text_moderations" => "azure.contentSafety",
        "pangea" | "crowdstrike_aidr" => "pangea.textGuard",
        "qualifire" => "qualifire.contentModeration",
        "tool_permission" => "default.requestParametersCheck",
        "litellm_content_filter" => "default.contains and default.regexMatch",
        "llm_as_a_judge" => "default.modelJudge",
        _ => return None,
    })
}
