//! One turn of a realtime session: what it holds of its limits, and its record, which is that of a request of its own.
//!
//! When a turn begins and ends, `session`.

use super::conversation::Sent;
use crate::engine::Engine;
use crate::engine::downstream::Downstream;
use crate::engine::limit_holds::{Behalf, HeldTurn, LimitHolds, hold_turn};
use crate::engine::memory_downstream::MemoryDownstream;
use crate::engine::named::{LogHeaders, Named};
use crate::engine::request_context::{CalledApi, RequestContext};
use crate::engine::response_headers::new_header;
use crate::engine::usage_estimate::TurnUse;
use http::StatusCode;
use judgment::route::attempt::Attempt;
use memory::auth::ClientIdentity;
use pingora::http::RequestHeader;
use pingora_core::protocols::http::HttpTask;
use serde_json::value::RawValue;
use std::sync::Arc;
use std::time::Instant;
use words::api::realtime::events::created_event;
use words::api::realtime::frames::{Sender, text_frame};
use words::api::tap::Tap;
use words::error::Error;

/// What the turns of a session have in common.
pub(super) struct Terms {
    pub attempt: Arc<Attempt>,
    /// That of the session: a websocket has it in its query.
    pub model: Option<String>,
    /// The client's request for the session.
    pub header: RequestHeader,
    pub client: Option<Arc<ClientIdentity>>,
    pub metadata: Option<Box<RawValue>>,
    pub log: Option<Box<LogHeaders>>,
    pub requested_model: Option<String>,
    /// As the provider names it.
    pub response_model: Option<String>,
    pub trace_id: Arc<str>,
    pub api: CalledApi,
    /// What limits look at of the request for the session.
    pub limits: Behalf,
}

/// A turn that is held.
pub(super) struct HeldResponse {
    ctx: RequestContext,
    /// What had been sent when it was held, or when its response began.
    pub sent: Sent,
}

impl Terms {
    fn context(&self, engine: &Engine) -> RequestContext {
        // The settings of now: limits that were changed count from the next turn on.
        let mut ctx = RequestContext::new(&engine.shared);
        ctx.api = self.api;
        ctx.span.trace_id = Arc::clone(&self.trace_id);
        ctx.record.client.clone_from(&self.client);
        ctx.record.is_single_attempt = true;
        ctx.record.named = Named {
            metadata: self.metadata.clone(),
            log: self.log.clone(),
            requested_model: self.requested_model.clone(),
            ..Named::default()
        };
        ctx.limits = LimitHolds::of_turn(&self.limits);
        ctx
    }

    /// Holds a turn, or records that it was refused.
    ///
    /// # Errors
    /// The refusal.
    pub async fn hold(
        &self,
        engine: &Arc<Engine>,
        turn: &TurnUse,
        sent: Sent,
    ) -> Result<(HeldResponse, HeldTurn), Box<Error>> {
        let mut ctx = self.context(engine);
        let model = self.model.as_deref();
        match hold_turn(engine, &mut ctx, &self.attempt.target, model, turn).await {
            Ok(found) => Ok((HeldResponse { ctx, sent }, found)),
            Err(error) => {
                ctx.record.named.model = model.map(str::to_owned);
                ctx.failure = Some(error.clone());
                engine.record(&MemoryDownstream::new(self.header.clone(), None), &mut ctx);
                Err(Box::new(error))
            }
        }
    }

    /// Settles and records a turn. `report`: the frames of the provider's report; `None`: there is none, so that what it used is unknown.
    pub async fn finish(&self, engine: &Arc<Engine>, turn: HeldResponse, report: Option<&[u8]>) {
        let mut ctx = turn.ctx;
        let mut tap = Tap::of_socket();
        if let Some(model) = self.response_model.as_ref().or(self.model.as_ref()) {
            tap.push(&text_frame(Sender::Provider, &created_event(model)));
        }
        match report {
            Some(frames) => tap.push(frames),
            None => tap.push(&text_frame(Sender::Provider, "{}")),
        };
        ctx.observers.tap = Some(tap);
        ctx.facts.attempt = Some(Arc::clone(&self.attempt));
        ctx.facts.state.sent_at = Some(ctx.span.started);
        ctx.facts.state.header_read(StatusCode::OK.as_u16());
        ctx.facts.state.ended_at = Some(Instant::now());
        ctx.record.traffic.bytes_out = report.map_or(0, <[u8]>::len) as u64;
        let mut client = MemoryDownstream::new(self.header.clone(), None);
        if report.is_none() {
            // Dropped and not settled, so that what is held counts.
            drop(std::mem::take(&mut ctx.limits));
        }
        if let Ok(header) = new_header(StatusCode::OK) {
            // Memory takes everything.
            let _ = client.send(vec![HttpTask::Header(Box::new(header), true)]).await;
        }
        engine.record(&client, &mut ctx);
    }
}

impl HeldResponse {
    /// It was not made: it counts nowhere.
    pub fn cancel(mut self) {
        self.ctx.limits.cancel();
    }
}
