//! `/v1/feedback`: what clients think of responses, by trace id. All of a call is kept, or nothing.

use super::call::Call;
use super::field::{Field, Type, optional, read_object, required};
use super::logs::{ledger, refused};
use super::reply::Reply;
use super::route::{Access, MaxBody, Route, Shape, post, put};
use memory::ledger::{Feedback, Question};
use serde_json::{Map, Value, json};
use std::time::Duration;
use uuid::Uuid;
use words::config::node::{Node, NodeKind};
use words::config::read::Problems;
use words::error::Error;
use words::settings::scopes::Scope;

/// Feedback of one call, at most.
const MAX_FEEDBACK: usize = 1000;
/// How long the log store may take.
const TIMEOUT: Duration = Duration::from_secs(10);
const WRITE: Access = Access::Scope(&[Scope::FeedbacksWrite, Scope::CompletionsWrite]);
const WEIGHT: Type = Type::Number(0.0, 1.0);
const VALUE: Type = Type::Integer(-10, 10);

const CREATE: &[Field] = &[
    required("trace_id", Type::Name(256), "The trace id of the request; the request may come later."),
    required("value", VALUE, "From -10 to 10."),
    optional("weight", WEIGHT, "From 0 to 1; 1 where absent."),
    optional("metadata", Type::AnyObject, "Anything."),
];

const UPDATE: &[Field] = &[
    required("value", VALUE, "From -10 to 10."),
    optional("weight", WEIGHT, "From 0 to 1; unchanged where absent."),
    optional("metadata", Type::AnyObject, "Anything; unchanged where absent."),
];

const DONE: &[Field] = &[
    required("status", Type::Text(20), "`success`."),
    required("message", Type::Text(100), "For people."),
    required("feedback_ids", Type::List(&Type::Uuid, 1, MAX_FEEDBACK), "In the order of the request."),
];

pub(super) const ROUTES: &[Route] = &[
    post("/v1/feedback", WRITE, "Keeps feedback: one, or a list of up to 1,000", |call| {
        Box::pin(create(call))
    })
    .of_members(CREATE)
    .takes(MaxBody::Large)
    .replies(Shape::Object(DONE))
    .for_clients(),
    put("/v1/feedback/{id}", WRITE, "Changes feedback", |call| Box::pin(update(call)))
        .body(UPDATE)
        .replies(Shape::Object(DONE))
        .for_clients(),
];

async fn create(call: Call) -> Result<Reply, Error> {
    let problems = Problems::default();
    let node = Node::from_json(&call.bytes).map_err(|why| {
        Error::bad_request(format!("The request body must be feedback or a list of it: {why}."))
    })?;
    let read: Vec<Map<String, Value>> = match &node.kind {
        NodeKind::List(items) => items
            .iter()
            .enumerate()
            .map(|(index, item)| read_object(CREATE, item, &format!("[{index}]"), &problems))
            .collect(),
        _ => vec![read_object(CREATE, &node, "", &problems)],
    };
    if read.is_empty() || read.len() > MAX_FEEDBACK {
        problems.push("", None, format!("must be from 1 to {MAX_FEEDBACK} pieces of feedback"));
    }
    if !problems.is_empty() {
        return Err(Error::invalid_body(problems.into_vec()));
    }
    let workspace = call.new_workspace()?;
    let feedback: Vec<Feedback> = read
        .iter()
        .map(|members| Feedback {
            id: Uuid::now_v7(),
            created_ms: call.now.as_millisecond(),
            trace_id: members.get("trace_id").and_then(Value::as_str).unwrap_or_default().replace('\0', ""),
            workspace: Some(workspace),
            value: members.get("value").and_then(Value::as_i64).unwrap_or_default(),
            weight: members.get("weight").and_then(Value::as_f64).unwrap_or(1.0),
            metadata: metadata(members),
        })
        .collect();
    put_all(&call, feedback, "Feedback successfully saved").await
}

async fn update(call: Call) -> Result<Reply, Error> {
    let named = call.named();
    let missing = || {
        Error::not_found(format!("There is no feedback {named:?} that this key may see."))
            .with_unknown_name(named)
    };
    let id = Uuid::try_parse(named).map_err(|_| missing())?;
    let before = ledger(&call)?
        .run(Question::Feedback.of(call.own_workspace()), TIMEOUT, move |store, _| store.feedback(id))
        .await
        .map_err(refused)?;
    let own = call.own_workspace();
    let before = before.filter(|before| own.is_none() || before.workspace == own).ok_or_else(missing)?;
    let changed = Feedback {
        value: call.body.get("value").and_then(Value::as_i64).unwrap_or(before.value),
        weight: call.body.get("weight").and_then(Value::as_f64).unwrap_or(before.weight),
        metadata: metadata(&call.body).or_else(|| before.metadata.clone()),
        ..before
    };
    put_all(&call, vec![changed], "Feedback successfully updated").await
}

async fn put_all(call: &Call, feedback: Vec<Feedback>, message: &str) -> Result<Reply, Error> {
    let ids: Vec<Uuid> = feedback.iter().map(|one| one.id).collect();
    ledger(call)?
        .run(Question::Feedback.of(call.own_workspace()), TIMEOUT, move |store, _| {
            store.put_feedback(&feedback)
        })
        .await
        .map_err(refused)?;
    Ok(Reply::from(json!({"status": "success", "message": message, "feedback_ids": ids})))
}

fn metadata(members: &Map<String, Value>) -> Option<String> {
    members
        .get("metadata")
        .filter(|value| value.is_object())
        .map(|value| value.to_string().replace("\\u0000", "\\ufffd"))
}
