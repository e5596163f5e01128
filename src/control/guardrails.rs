//! Saved guardrails: kept, checked, and tried on a text.
//!
//! Checks and their parameters are judged as `guard` describes them. Not here: running them for requests (`engine`).

use super::call::Call;
use super::declared::Managed;
use super::field::{Field, Type, not_null, nullable, optional, required};
use super::guardrail_owner;
use super::masking::mask;
use super::origin::{ORIGIN, SET};
use super::page;
use super::records::{member, members, set};
use super::reply::Reply;
use super::resource::{
    Changed, Draft, Item, Resource, create, delete, list, read, stored_items, update, view,
};
use super::route::{Access, MaxBody, Route, Shape, post};
use super::work::Work;
use judgment::guard::{Hook, HookCompiler, HookPlace, Subject, check_kind};
use memory::state::stored::{compile_guardrail, guardrail_hook};
use memory::store::{Kind, Record, Status};
use motion::engine::guarding::try_hook;
use serde_json::{Value, json};
use std::sync::Arc;
use uuid::Uuid;
use words::api::operation::Operation;
use words::config;
use words::config::hooks::{HookPhase, MAX_OVERLAP};
use words::config::pattern::PatternBudget;
use words::config::read::Problems;
use words::error::{Error, Problem};
use words::settings::scopes::Scope;

const CHECK: Type = Type::Object(&[
    required("id", Type::Name(128), "The check: `default.contains`, `default.regexMatch` …"),
    optional("parameters", Type::AnyObject, "What the check needs."),
    optional("name", Type::Text(255), "For people."),
    optional("is_enabled", Type::Flag, "True by default."),
]);

const FEEDBACK: Type = Type::Object(&[
    optional("value", Type::Number(-10.0, 10.0), "The rating."),
    optional("weight", Type::Number(0.0, 1.0), "How much it counts; 1 by default."),
    optional("metadata", Type::AnyObject, "Kept with it."),
]);

const OUTCOME: Type = Type::Object(&[
    optional("deny", Type::Flag, "Whether the request or response is denied then."),
    optional("feedback", FEEDBACK, "The feedback that is written."),
]);

const ACTIONS: Type = Type::Object(&[
    optional("deny", Type::Flag, "Whether a failed check refuses the request or response."),
    optional("async", Type::Flag, "Whether it runs beside the request and cannot hold it up."),
    optional("sequential", Type::Flag, "Whether checks run one after another."),
    optional("type", Type::OneOf(&["guardrail", "mutator"]), "`mutator`: its checks run one after another."),
    optional("parallel", Type::Flag, "Whether requests are sent on while it runs; for requests only."),
    optional("stream", Type::OneOf(&["window", "buffer"]), "How streams are checked; for responses only."),
    optional("overlap_bytes", Type::Integer(1, MAX_OVERLAP), "Bytes of a stream that are held back."),
    optional("scope", Type::OneOf(&["new", "all"]), "What is judged of requests: what is new, or all."),
    optional(
        "also",
        Type::List(&Type::OneOf(&["tools", "files"]), 0, 2),
        "What is judged of requests besides messages.",
    ),
    optional("on_success", OUTCOME, "What follows when all checks pass."),
    optional("on_fail", OUTCOME, "What follows when a check fails."),
    optional("message", Type::Text(2048), "What the client is told."),
]);

const CHECKS: Type = Type::List(&CHECK, 1, 100);

const CREATE: &[Field] = &[
    required("name", Type::Name(255), "For people; the slug begins with it."),
    required("checks", CHECKS, "What is checked."),
    required("actions", ACTIONS, "What follows."),
    optional("slug", Type::Slug(2, 128), "How configs name it; made of the name where absent."),
    optional("workspace_id", Type::Name(128), "Id or slug of the workspace."),
    optional("organisation_id", Type::Text(64), "Taken from the key."),
];

const UPDATE: &[Field] = &[
    not_null("name", Type::Name(255), "For people."),
    optional("checks", CHECKS, "Replaces all checks."),
    optional("actions", ACTIONS, "Replaces all actions."),
];

const MADE: &[Field] = &[
    required("id", Type::Uuid, "The guardrail."),
    required("slug", Type::Text(128), "How configs name it."),
    required("version_id", Type::Uuid, "Changes with every change."),
];

const ITEM: &[Field] = &[
    required("id", Type::Uuid, "The guardrail."),
    required("slug", Type::Text(128), "How configs name it."),
    required("name", Type::Text(255), "For people."),
    required("organisation_id", Type::Uuid, "The organisation."),
    nullable("workspace_id", Type::Uuid, "Where it is used."),
    required("status", Type::Text(20), "`active`."),
    required("created_at", Type::Time, "When it was made."),
    required("last_updated_at", Type::Time, "When it was changed last."),
    nullable("owner_id", Type::Text(128), "Who made it."),
    nullable("updated_by", Type::Text(128), "Who changed it last."),
    required("version_id", Type::Uuid, "Changes with every change."),
    required("checks", Type::List(&Type::AnyObject, 0, 100), "What is checked, secrets masked."),
    required("actions", Type::AnyObject, "What follows."),
    ORIGIN,
    SET,
    required("object", Type::Text(20), "`guardrail`."),
];

const LIST: &[Field] = &[
    page::WORKSPACE,
    optional("organisation_id", Type::Text(64), "Taken from the key."),
    optional("ids", Type::Ids(4096), "Only these: ids or slugs with commas."),
];

const TEST: &[Field] = &[
    required("text", Type::Text(1 << 20), "What it looks at: the message of a chat, or the response to one."),
    optional(
        "phase",
        Type::OneOf(&["before", "after"]),
        "Whether the text is a request or a response; a request where all checks are for those.",
    ),
];

const TESTED: &[Field] = &[
    required("verdict", Type::Flag, "Whether it passes."),
    required("id", Type::Text(128), "The guardrail's slug."),
    required("transformed", Type::Flag, "Whether a check changed the text."),
    required("checks", Type::List(&Type::AnyObject, 0, 100), "The result of each check."),
    nullable("feedback", Type::AnyObject, "What would be written as feedback."),
    required("execution_time", Type::Number(0.0, 1e9), "Milliseconds."),
    required("async", Type::Flag, "Whether it runs beside requests."),
    required("type", Type::Text(20), "`guardrail` or `mutator`."),
    required("created_at", Type::Time, "When it ran."),
    required("deny", Type::Flag, "Whether the request or response would be denied."),
    optional("judged", Type::AnyObject, "What was judged."),
    nullable("text", Type::Text(1 << 20), "The text with all changes."),
];

pub(super) const ROUTES: &[Route] = &[
    create::<Guardrail>(
        &[Scope::GuardrailsCreate, Scope::OrganisationGuardrailsCreate],
        "Saves a guardrail",
        CREATE,
        Shape::Object(MADE),
    ),
    list::<Guardrail>(
        &[Scope::GuardrailsList, Scope::OrganisationGuardrailsList],
        "Lists guardrails",
        LIST,
        ITEM,
    ),
    read::<Guardrail>(&[Scope::GuardrailsRead, Scope::OrganisationGuardrailsRead], "Reads a guardrail", ITEM)
        .query(page::IN_WORKSPACE),
    update::<Guardrail>(
        &[Scope::GuardrailsUpdate, Scope::OrganisationGuardrailsUpdate],
        "Changes a guardrail",
        UPDATE,
        Shape::Object(MADE),
    )
    .query(page::IN_WORKSPACE),
    post(
        "/v1/guardrails/{id}/test",
        Access::Scope(&[
            Scope::GuardrailsInvoke,
            Scope::GuardrailsUpdate,
            Scope::OrganisationGuardrailsUpdate,
        ]),
        "Tries a guardrail on a text",
        |call| Box::pin(test(call)),
    )
    .query(page::IN_WORKSPACE)
    .body(TEST)
    .works_at(Work::Trial)
    .takes(MaxBody::Large)
    .replies(Shape::Object(TESTED)),
    delete::<Guardrail>(
        &[Scope::GuardrailsDelete, Scope::OrganisationGuardrailsDelete],
        "Takes a guardrail out of use",
    )
    .query(page::IN_WORKSPACE),
];

/// As files have it.
pub(super) const MANAGED: Managed = Managed::of::<Guardrail>("guardrails");

struct Guardrail;

impl Resource for Guardrail {
    const KIND: Kind = Kind::Guardrail;
    const NAME: &'static str = "guardrails";
    const PATHS: [&'static str; 2] = ["/v1/guardrails", "/v1/guardrails/{id}"];
    const PREFIX: &'static str = "pg-";
    const IS_COMPILED: bool = true;
    const KEPT: &'static [&'static str] = &["name"];
    const SECRET: &'static [&'static str] = &["checks"];
    const PAGE_SIZE: usize = 100;
    const CHANGED: Changed = Changed::Made;

    fn fill(call: &Call, draft: &mut Draft<'_>) -> Result<(), Error> {
        let body = &mut draft.body;
        for name in ["checks", "actions"] {
            if let Some(value) = call.body.get(name).filter(|value| !value.is_null()) {
                set(body, name, value.clone());
            }
        }
        if ["checks", "actions"].iter().any(|name| call.has(name)) {
            if let Some(before) = draft.before {
                guardrail_owner::check(call, before)?;
            }
            let hook = judge(&member(body, "checks"), &member(body, "actions"))?;
            for (phase, _) in draft.before.map_or(Ok(Vec::new()), |before| default_uses(call, before))? {
                compile(&hook, phase, true).map_err(refused)?;
            }
        }
        set(body, "version_id", Uuid::now_v7().to_string());
        Ok(())
    }

    fn made(record: &Record) -> Reply {
        let version_id = member(&members(record), "version_id");
        Reply::from(json!({"id": record.id, "slug": record.slug, "version_id": version_id}))
    }

    fn items(call: &Call) -> Result<Vec<Item>, Error> {
        let mut found = call.list(Self::KIND)?;
        if let Some(ids) = call.query_text("ids") {
            let wanted: Vec<&str> = ids.split(',').map(str::trim).collect();
            found.retain(|record| {
                wanted.contains(&record.id.to_string().as_str())
                    || record.slug.as_deref().is_some_and(|slug| wanted.contains(&slug))
            });
        }
        Ok(stored_items(found))
    }

    async fn shown(_: &Call, record: &Arc<Record>) -> Result<Value, Error> {
        let mut shown = view(ITEM, record, json!({"object": "guardrail"}));
        // Those saved before addresses were masked as they are saved have them in the clear.
        if let Some(checks) = shown.get_mut("checks") {
            mask(checks);
        }
        Ok(shown)
    }

    fn check_unused(call: &Call, record: &Record) -> Result<(), Error> {
        match default_uses(call, record)?.first() {
            None => Ok(()),
            Some((_, workspace)) => Err(Error::conflict(format!(
                "The guardrail runs on everything of the workspace {workspace}. Change the workspace's defaults first."
            ))),
        }
    }
}

/// # Errors
/// 400 for checks that there are not, parameters that are missing or have another type, values that no check can use, and actions
/// that are not possible with these checks: all of them.
fn judge(checks: &Value, actions: &Value) -> Result<config::hooks::Hook, Error> {
    let hook = guardrail_hook("", checks.clone(), Some(actions)).map_err(refused)?;
    compile(&hook, phase_of(&hook), true).map_err(refused)?;
    Ok(hook)
}

/// The default guardrails in the `defaults` of a workspace: each must be there, and be for its phase. `workspace`: `None` for one that is
/// made now, and has none of its own.
pub(super) fn check_defaults(
    call: &Call,
    workspace: Option<Uuid>,
    defaults: Option<&Value>,
    problems: &Problems,
) {
    let directory = call.snapshot.directory(workspace);
    for (name, phase) in DEFAULTS {
        let slugs = defaults.and_then(|defaults| defaults.get(name)?.as_array()).into_iter().flatten();
        for (index, slug) in slugs.enumerate() {
            let path = format!("defaults.{name}[{index}]");
            let found = directory.guardrail(slug.as_str().unwrap_or_default());
            let Some(hook) = found.filter(|_| workspace.is_some()) else {
                problems.push(path, None, "names no guardrail of the workspace");
                continue;
            };
            for problem in compile(&hook, phase, false).err().into_iter().flatten() {
                problems.push(&path, None, format!("{}: {}", problem.path, problem.message));
            }
        }
    }
}

/// The members of a workspace's `defaults` that name guardrails.
pub(super) const DEFAULTS: [(&str, HookPhase); 2] =
    [("input_guardrails", HookPhase::Before), ("output_guardrails", HookPhase::After)];

/// The phases in which workspaces have a guardrail run by default, with the name of the workspace.
fn default_uses(call: &Call, guardrail: &Record) -> Result<Vec<(HookPhase, String)>, Error> {
    let is_it = |name: &Value| {
        let name = name.as_str().unwrap_or_default();
        guardrail.slug.as_deref() == Some(name) || Uuid::try_parse(name).is_ok_and(|id| id == guardrail.id)
    };
    let own = |workspace: &&Arc<Record>| {
        workspace.status == Status::Active && guardrail.workspace.is_none_or(|own| own == workspace.id)
    };
    let mut uses = Vec::new();
    for workspace in call.catalog()?.all(Kind::Workspace).filter(own) {
        let body = members(workspace);
        for (name, phase) in DEFAULTS {
            let named = body.get("defaults").and_then(|defaults| defaults.get(name)?.as_array());
            if named.into_iter().flatten().any(is_it) {
                uses.push((phase, workspace.slug.clone().unwrap_or_default()));
            }
        }
    }
    Ok(uses)
}

/// The first phase that all checks are for. Where there is none, those that are for the other one alone are a problem.
fn phase_of(hook: &config::hooks::Hook) -> HookPhase {
    let kinds = hook.checks.iter().filter_map(|check| check_kind(&check.id));
    let mut others = kinds.filter(|kind| !kind.phases.contains(&HookPhase::Before));
    if others.next().is_some() { HookPhase::After } else { HookPhase::Before }
}

/// `is_strict`: what its checks cannot use is a problem, and not an error of their results.
fn compile(hook: &config::hooks::Hook, phase: HookPhase, is_strict: bool) -> Result<Hook, Vec<Problem>> {
    let problems = Problems::default();
    let patterns = PatternBudget::default();
    let compiler = HookCompiler { saved: &|_| None, patterns: &patterns, problems: &problems, is_strict };
    let compiled = compiler.hook(hook, &HookPlace { phase, path: "", index: 0 }, true);
    if problems.is_empty() { Ok(compiled) } else { Err(problems.into_vec()) }
}

/// A problem of a hook by its place in the body of a guardrail.
fn in_body(problem: Problem) -> Problem {
    let path = problem.path.trim_start_matches('.');
    let path = if path.starts_with("checks") { path.to_owned() } else { format!("actions.{path}") };
    Problem { path, ..problem }
}

fn refused(problems: Vec<Problem>) -> Error {
    Error::invalid_body(problems.into_iter().map(in_body).collect())
}

/// Runs a guardrail over a text, as the one message of a chat or its response. Nothing of it is counted or kept.
async fn test(call: Call) -> Result<Reply, Error> {
    let record = call.find(Kind::Guardrail)?;
    let broken = |why: String| Error::bad_request(format!("The guardrail cannot run: {why}."));
    let hook = compile_guardrail(&record, call.store()?).map_err(broken)?;
    let phase = match call.text("phase") {
        Some("before") => HookPhase::Before,
        Some(_) => HookPhase::After,
        None => phase_of(&hook),
    };
    let hook = compile(&hook, phase, false).map_err(refused)?;
    let text = call.text("text").unwrap_or_default();
    let message = |role: &str| json!({"role": role, "content": text});
    let request = json!({"model": "test", "messages": [message("user")]}).to_string();
    let subject = Subject::of_request(Operation::ChatCompletions, &request);
    let subject = match phase {
        HookPhase::Before => subject,
        HookPhase::After => {
            let choice = json!({"index": 0, "message": message("assistant"), "finish_reason": "stop"});
            subject.with_response(&json!({"choices": [choice]}).to_string())
        }
    };
    let run = try_hook(&call.engine, &hook, &subject, &call.snapshot, &call.identity).await;
    let mut reply = serde_json::to_value(run.results.first()).unwrap_or_default();
    if let Some(members) = reply.as_object_mut() {
        let changed = run.changed.as_ref().unwrap_or(&subject);
        members.insert("text".to_owned(), changed.text.as_deref().into());
    }
    Ok(Reply::from(reply))
}
