//! What hooks of one request run with: the settings, who the client is, where feedback goes, and the outside that checks may call.
//!
//! Every address that a check calls is judged as a custom host of a client is, whoever wrote it.

use crate::engine::Engine;
use crate::engine::hook_notes::{HookNotes, HookSide};
use crate::engine::own_request::{OwnError, OwnRequest, Payer};
use crate::engine::request_context::RequestContext;
use futures_util::future::BoxFuture;
use jiff::Timestamp;
use judgment::guard::{
    Hook, HookResult, Outside, OutsideCall, OutsideError, OutsideResponse, PhaseRun, Run, Subject,
};
use judgment::route::admission::key_rules::KeyRules;
use memory::auth::ClientIdentity;
use memory::ledger::{Feedback, Question};
use memory::net::outbound::side_client::FetchError;
use memory::net::outbound::side_http::SideRequest;
use memory::state::large_work::LargeWork;
use memory::state::snapshot::SettingsSnapshot;
use serde_json::Value;
use serde_json::value::RawValue;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::OwnedSemaphorePermit;
use uuid::Uuid;
use words::config::headers::GatewayHeaders;

/// How long the log store may take for feedback.
const FEEDBACK_TIMEOUT: Duration = Duration::from_secs(10);
/// The largest response of a model that judges, bytes.
const MAX_JUDGMENT: usize = 1 << 20;

/// Where a hook is written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum WrittenIn {
    /// In a config.
    Config,
    /// In a saved guardrail that a config names.
    Saved,
    /// In a saved guardrail that the workspace has by default.
    Workspace,
}

/// What hooks of one request run with.
pub(crate) struct GuardEnv {
    engine: Arc<Engine>,
    snapshot: Arc<SettingsSnapshot>,
    payer: Payer,
    trace_id: Arc<str>,
    notes: Arc<HookNotes>,
}

impl GuardEnv {
    pub fn new(engine: &Arc<Engine>, ctx: &mut RequestContext) -> Self {
        Self {
            notes: Arc::clone(ctx.record.hooks.get_or_insert_default()),
            engine: Arc::clone(engine),
            snapshot: Arc::clone(&ctx.snapshot),
            payer: Payer::of(ctx),
            trace_id: Arc::clone(&ctx.span.trace_id),
        }
    }

    /// The id of the request's trace, which is unique.
    pub fn trace_id(&self) -> &str {
        &self.trace_id
    }

    /// Where large texts are read.
    pub fn large_work(&self) -> &LargeWork {
        &self.engine.shared.large_work
    }

    /// Whether a check that could not decide fails, where its parameters do not say.
    pub fn fails_on_error(&self) -> bool {
        self.snapshot.settings.guardrails.fail_on_error
    }

    /// Whether logs and webhooks get what was denied.
    pub fn keeps_denied(&self) -> bool {
        self.snapshot.settings.guardrails.keep_denied
    }

    /// Runs hooks.
    pub async fn run<'h>(&self, hooks: impl Iterator<Item = &'h Hook>, subject: &Subject) -> PhaseRun {
        let run = Run {
            outside: self,
            outside_of_saved: &OfSaved(self),
            outside_of_workspace: &OfWorkspace(self),
            large_work: self.large_work(),
            fail_on_error: self.fails_on_error(),
            time_limit: self.snapshot.settings.guardrails.check_timeout,
        };
        run.hooks(hooks, subject).await
    }

    /// The right to run hooks in the background; `None`: too many run already, and these are left out and counted.
    pub(crate) fn background_place(&self) -> Option<OwnedSemaphorePermit> {
        let place = Arc::clone(&self.engine.background_hooks).try_acquire_owned().ok();
        if place.is_none() {
            self.engine.shared.metrics.record_hooks_left_out();
        }
        place
    }

    /// Notes what hooks found that the request waits for, and reports it.
    pub fn note(&self, side: HookSide, results: &[HookResult]) {
        self.notes.add(side, results);
        self.report(results);
    }

    /// Counts what hooks found, and has their feedback kept.
    pub fn report(&self, results: &[HookResult]) {
        let metrics = &self.engine.shared.metrics;
        for result in results {
            metrics.record_hook(result.deny, result.verdict);
            for check in &result.checks {
                let verdict = match (&check.error, check.verdict) {
                    (Some(_), _) => "error",
                    (None, true) => "passed",
                    (None, false) => "failed",
                };
                metrics.record_check(&check.id, verdict, check.execution_time);
                if let Some(error) = &check.error {
                    log::debug!(target: "turnpike", "check {} could not decide: {}: {}", check.id, error.name, error.message);
                }
            }
        }
        let now = Timestamp::now();
        let feedback: Vec<Feedback> = results
            .iter()
            .filter_map(|result| result.feedback.as_ref())
            .map(|feedback| Feedback {
                id: Uuid::now_v7(),
                created_ms: now.as_millisecond(),
                trace_id: self.trace_id.to_string(),
                workspace: self.payer.client.as_ref().and_then(|client| client.workspace),
                value: feedback.value.round().clamp(-10.0, 10.0) as i64,
                weight: feedback.weight.clamp(0.0, 1.0),
                metadata: Some(
                    Value::Object(feedback.metadata.clone()).to_string().replace("\\u0000", "\\ufffd"),
                ),
            })
            .collect();
        let Some(ledger) = self.engine.shared.ledger().filter(|_| !feedback.is_empty()) else { return };
        let ledger = Arc::clone(ledger);
        let engine = Arc::clone(&self.engine);
        let Some(place) = self.background_place() else { return };
        tokio::spawn(async move {
            let kept = ledger
                .run(Question::Upkeep, FEEDBACK_TIMEOUT, move |store, _| store.put_feedback(&feedback))
                .await;
            if let Err(why) = kept {
                engine.shared.metrics.record_hooks_left_out();
                log::warn!(target: "turnpike", "feedback of a guardrail is lost: {why}");
            }
            drop(place);
        });
    }

    async fn send(&self, call: OutsideCall<'_>) -> Result<OutsideResponse, OutsideError> {
        let request = SideRequest {
            method: call.method,
            url: call.url,
            headers: call.headers,
            body: call.body.into(),
            timeout: call.timeout,
            max_body: call.max_bytes,
            trusted: false,
        };
        let timeout = request.timeout;
        let shared = &self.engine.shared;
        let sending = self.engine.outside.send(request, &shared.dns, &self.snapshot.hosts);
        let Ok(sent) = tokio::time::timeout(timeout, sending).await else {
            return Err(OutsideError::TimedOut);
        };
        match sent {
            Ok(response) => {
                let status = http::StatusCode::from_u16(response.status).unwrap_or_default();
                Ok(OutsideResponse { status, headers: response.headers, body: response.body.into() })
            }
            Err(FetchError::Refused(why)) => Err(OutsideError::Refused(why)),
            Err(FetchError::Broken(why)) => {
                log::debug!(target: "turnpike", "a check called the outside in vain: {why}");
                Err(OutsideError::Failed(
                    "The server could not be reached, or broke its response off.".to_owned(),
                ))
            }
        }
    }

    /// Sends a chat of the gateway's own, which a hook asks for.
    async fn judge(&self, config: &Value, body: &Value, written: WrittenIn) -> Result<Value, OutsideError> {
        // A saved config is named by its id.
        let config = config.as_str().map_or_else(|| config.to_string(), str::to_owned);
        let request = OwnRequest {
            snapshot: &self.snapshot,
            payer: &self.payer,
            trace_id: &self.trace_id,
            path: "/v1/chat/completions",
            config: &config,
            timeout: None,
            max_response: MAX_JUDGMENT,
            is_judged: written != WrittenIn::Workspace,
            is_of_config: written == WrittenIn::Config,
        };
        let body = (self.engine.send_own)(&self.engine, &request, Some(body.to_string())).await;
        let body = body.map_err(|why| match why {
            OwnError::Refused(error) => OutsideError::Refused(error.message),
            why => OutsideError::Failed(why.message()),
        })?;
        serde_json::from_slice(&body).map_err(|why| OutsideError::Failed(why.to_string()))
    }
}

/// Runs a hook that no request of the data plane has: a guardrail that is tried. What it finds is not counted or kept; what it asks a model
/// is under the limits of who tries it.
pub async fn try_hook(
    engine: &Arc<Engine>,
    hook: &Hook,
    subject: &Subject,
    snapshot: &Arc<SettingsSnapshot>,
    client: &Arc<ClientIdentity>,
) -> PhaseRun {
    let mut ctx = RequestContext::new(&engine.shared);
    ctx.load.in_flight = None;
    ctx.snapshot = Arc::clone(snapshot);
    ctx.record.client = Some(Arc::clone(client));
    ctx.record.named.metadata = KeyRules::new(client, snapshot)
        .metadata(&GatewayHeaders::default())
        .and_then(|text| RawValue::from_string(text.into_owned()).ok());
    ctx.span.trace_id = Uuid::now_v7().to_string().into();
    let env = GuardEnv::new(engine, &mut ctx);
    env.run(std::iter::once(hook), subject).await
}

impl Outside for GuardEnv {
    fn call<'a>(&'a self, call: OutsideCall<'a>) -> BoxFuture<'a, Result<OutsideResponse, OutsideError>> {
        Box::pin(self.send(call))
    }

    fn chat<'a>(&'a self, config: &'a Value, body: &'a Value) -> BoxFuture<'a, Result<Value, OutsideError>> {
        Box::pin(self.judge(config, body, WrittenIn::Config))
    }
}

/// The outside for saved guardrails that a config names: the models that they ask are their author's choice.
struct OfSaved<'a>(&'a GuardEnv);

impl Outside for OfSaved<'_> {
    fn call<'a>(&'a self, call: OutsideCall<'a>) -> BoxFuture<'a, Result<OutsideResponse, OutsideError>> {
        self.0.call(call)
    }

    fn chat<'a>(&'a self, config: &'a Value, body: &'a Value) -> BoxFuture<'a, Result<Value, OutsideError>> {
        Box::pin(self.0.judge(config, body, WrittenIn::Saved))
    }
}

/// The outside for guardrails that the workspace has by default: what they ask a model does not pass them in turn.
struct OfWorkspace<'a>(&'a GuardEnv);

impl Outside for OfWorkspace<'_> {
    fn call<'a>(&'a self, call: OutsideCall<'a>) -> BoxFuture<'a, Result<OutsideResponse, OutsideError>> {
        self.0.call(call)
    }

    fn chat<'a>(&'a self, config: &'a Value, body: &'a Value) -> BoxFuture<'a, Result<Value, OutsideError>> {
        Box::pin(self.0.judge(config, body, WrittenIn::Workspace))
    }
}
