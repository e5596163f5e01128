//! Decides what passes in a realtime session: a turn passes when its limits hold it, and its key is still good.
//!
//! A turn that its client asks for is held before it is sent. One that the provider begins by itself is held when it has begun, and ended
//! where a limit refuses it; under hard limits it is held before the audio that may begin it is sent. Every report of a response is
//! charged, whether the gateway knows its turn or not. Reads and writes no connection.

use super::conversation::{AHEAD, Conversation};
use super::session_bounds::SessionBounds;
use super::turn::{HeldResponse, Terms};
use crate::engine::Engine;
use crate::engine::limit_holds::{Behalf, HeldTurn, only_transcribes};
use crate::engine::request_context::RequestContext;
use crate::engine::request_span::new_trace_id;
use crate::engine::usage_estimate::TurnUse;
use jiff::Timestamp;
use judgment::route::admission::meant::models_in_query;
use judgment::route::attempt::Attempt;
use judgment::route::model_names::is_allowed;
use memory::auth;
use pingora::http::RequestHeader;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};
use words::api::realtime::events::{
    self, ClientEvent, MaxOutput, ServerEvent, Update, cancel_event, error_event, with_model,
};
use words::error::Error;
use words::settings::scopes::Scope;

/// The most responses at once whose turns are told apart.
const MAX_RUNNING: usize = 64;
/// How long audio is dropped after a refusal: clients send it many times a second.
const DROPS_FOR: Duration = Duration::from_secs(1);
/// The code of a provider's error for a turn while another one runs.
const IS_RUNNING: &str = "conversation_already_has_active_response";

/// What becomes of a client's message.
#[derive(Debug)]
pub enum ClientStep {
    Pass,
    /// The provider gets this message in its place.
    Replace(String),
    /// It is not sent, and the client gets this event.
    Refuse(String),
    /// It is not sent, for the reason that the client was given a moment ago.
    Drop,
    /// The client gets this event, and the session ends.
    End(String),
}

/// What follows from a provider's message, which passes.
#[derive(Debug, Default)]
pub struct ProviderStep {
    pub to_provider: Option<String>,
    pub to_client: Option<String>,
    /// The session ends: its key is not good any more.
    pub ends: bool,
}

/// One session.
pub struct RealtimeSession {
    engine: Arc<Engine>,
    terms: Terms,
    conversation: Conversation,
    /// Which limits its turns have, as far as is known.
    held: HeldTurn,
    bounds: SessionBounds,
    /// Sent, and not begun: with the client's id of the event.
    requested: VecDeque<(Option<String>, HeldResponse)>,
    /// Held for a turn that the provider may begin.
    ahead: Option<HeldResponse>,
    running: HashMap<String, HeldResponse>,
    /// Until when audio is dropped without another judgment.
    drops_until: Option<Instant>,
}

impl RealtimeSession {
    /// `header`: the client's request.
    pub fn new(
        engine: &Arc<Engine>,
        ctx: &RequestContext,
        attempt: Arc<Attempt>,
        header: RequestHeader,
    ) -> Self {
        let named = &ctx.record.named;
        let set = engine.limits.in_force(&ctx.snapshot);
        let may_be_hard = set.has_hard_budgets();
        let model = attempt.model.as_deref().map(str::to_owned);
        let model = model.or_else(|| models_in_query(&header.uri).pop());
        Self {
            engine: Arc::clone(engine),
            terms: Terms {
                attempt,
                model,
                header,
                client: ctx.record.client.clone(),
                metadata: named.metadata.clone(),
                log: named.log.clone(),
                response_model: None,
                requested_model: named.requested_model.clone(),
                trace_id: Arc::clone(&ctx.span.trace_id),
                api: ctx.api,
                limits: Behalf::of(ctx),
            },
            conversation: Conversation::default(),
            // Until the first turn has said which limits are for this session.
            held: HeldTurn {
                is_limited: set.has_request_limits() || set.has_target_limits(),
                is_hard: may_be_hard,
            },
            bounds: SessionBounds::default(),
            requested: VecDeque::new(),
            ahead: None,
            running: HashMap::new(),
            drops_until: None,
        }
    }

    /// Takes a client's message, without its frames.
    pub async fn from_client(&mut self, message: &[u8]) -> ClientStep {
        match events::of_client(message) {
            ClientEvent::Audio => self.audio(message.len()).await,
            ClientEvent::Turn(turn) => {
                self.conversation.add(message.len());
                self.turn(turn.event_id, turn.max_output).await
            }
            ClientEvent::Update(update) => {
                self.conversation.add(message.len());
                self.update(&update, message).await
            }
            ClientEvent::Other => {
                self.conversation.add(message.len());
                ClientStep::Pass
            }
            ClientEvent::Unreadable if self.is_judged() => {
                let error = Error::bad_request(
                    "The gateway cannot read this event: send a JSON object with one member \"type\", in UTF-8.",
                );
                ClientStep::Refuse(event(&error, None))
            }
            ClientEvent::Unreadable => {
                self.conversation.add(message.len());
                ClientStep::Pass
            }
        }
    }

    /// Takes a provider's message, and its frames.
    pub async fn from_provider(&mut self, message: &[u8], frames: &[u8]) -> ProviderStep {
        match events::of_provider(message) {
            ServerEvent::Begun(id) => return self.begun(id).await,
            ServerEvent::Done { id, tokens } => self.done(&id, tokens, frames).await,
            ServerEvent::Session { update, answers } => {
                self.bounds.report(&update, answers);
                if update.model.is_some() {
                    self.terms.response_model = update.model;
                }
            }
            ServerEvent::Failed { event_id, code } => self.failed(event_id.as_deref(), code.as_deref()),
            ServerEvent::Other => {}
        }
        ProviderStep::default()
    }

    /// The session is over. What was requested or has begun may be charged, and was not reported: what is held for it counts.
    pub async fn end(mut self) {
        if let Some(ahead) = self.ahead.take() {
            ahead.cancel();
        }
        let requested = self.requested.into_iter().map(|(_, turn)| turn);
        for turn in requested.chain(self.running.into_values()) {
            self.terms.finish(&self.engine, turn, None).await;
        }
    }

    /// Whether anything judges what is sent.
    fn is_judged(&self) -> bool {
        let client = self.terms.client.as_ref();
        let is_bound = client.is_some_and(|client| client.defaults.allowed_models.is_some());
        self.held.is_limited || is_bound || self.terms.attempt.target.allowed.is_some()
    }

    async fn audio(&mut self, bytes: usize) -> ClientStep {
        self.conversation.add_audio(bytes);
        if !self.bounds.begins_turns() || !self.held.is_hard {
            return ClientStep::Pass;
        }
        let sent = self.conversation.sent().most;
        if self.ahead.as_ref().is_some_and(|ahead| sent - ahead.sent.most < AHEAD) {
            return ClientStep::Pass;
        }
        let now = Instant::now();
        if self.drops_until.is_some_and(|until| now < until) {
            self.conversation.take_back_audio(bytes);
            return ClientStep::Drop;
        }
        if let Some(ahead) = self.ahead.take() {
            ahead.cancel();
        }
        if let Err(error) = self.identify() {
            return ClientStep::End(event(&error, None));
        }
        let ahead = self.conversation.turn_ahead(self.bounds.output(None));
        match self.hold(&ahead).await {
            Ok(turn) => {
                self.ahead = Some(turn);
                ClientStep::Pass
            }
            Err(error) => {
                self.conversation.take_back_audio(bytes);
                self.drops_until = Some(now + DROPS_FOR);
                ClientStep::Refuse(event(&error, None))
            }
        }
    }

    async fn turn(&mut self, event_id: Option<String>, bound: Option<MaxOutput>) -> ClientStep {
        if let Err(error) = self.identify() {
            return ClientStep::End(event(&error, event_id.as_deref()));
        }
        if self.requested.len() >= MAX_RUNNING {
            let error = Error::bad_request(format!(
                "{MAX_RUNNING} turns of this session have not begun yet. Wait for them."
            ));
            return ClientStep::Refuse(event(&error, event_id.as_deref()));
        }
        let turn = self.conversation.turn(self.bounds.output(bound));
        match self.hold(&turn).await {
            Ok(turn) => {
                self.requested.push_back((event_id, turn));
                ClientStep::Pass
            }
            Err(error) => ClientStep::Refuse(event(&error, event_id.as_deref())),
        }
    }

    async fn update(&mut self, update: &Update, message: &[u8]) -> ClientStep {
        let event_id = update.event_id.as_deref();
        if update.transcribes && self.held.is_limited {
            return ClientStep::Refuse(event(&only_transcribes(), event_id));
        }
        let step = self.with_own_model(update, message);
        if matches!(step, ClientStep::Pass | ClientStep::Replace(_))
            && let Err(error) = self.hold_higher(update).await
        {
            return ClientStep::Refuse(event(&error, event_id));
        }
        step
    }

    /// What becomes of a change by the model that it names.
    fn with_own_model(&self, update: &Update, message: &[u8]) -> ClientStep {
        let own = self.terms.model.as_deref();
        match (update.model.as_deref(), own) {
            (None, _) => ClientStep::Pass,
            (Some(model), Some(own)) if model == own => ClientStep::Pass,
            // The name by which the client opened it, which its provider does not know.
            (Some(model), Some(own)) if self.terms.requested_model.as_deref() == Some(model) => {
                with_model(message, own).map_or(ClientStep::Pass, ClientStep::Replace)
            }
            (Some(model), _) => {
                let error = Error::bad_request(format!(
                    "The model of a session is chosen when it is opened, and this one is not for {model}. Open another session with \
                     ?model={model}."
                ));
                let error = error.with_param("session.model");
                ClientStep::Refuse(event(&error, update.event_id.as_deref()))
            }
        }
    }

    /// Takes a change of the session. A turn that the provider may begin by itself is made by it, so that what is held for that turn is held
    /// anew where its bound becomes higher.
    ///
    /// # Errors
    /// The limit that refuses it: the change is not to be sent.
    async fn hold_higher(&mut self, update: &Update) -> Result<(), Box<Error>> {
        let before = self.bounds.output(None);
        let wanted = self.bounds.output(update.max_output).max(before);
        if wanted > before
            && let Some(ahead) = self.ahead.take()
        {
            ahead.cancel();
            let higher = self.conversation.turn_ahead(wanted);
            match self.hold(&higher).await {
                Ok(turn) => self.ahead = Some(turn),
                Err(error) => {
                    // What was held for the bound that stays.
                    let as_before = self.conversation.turn_ahead(before);
                    self.ahead = self.hold(&as_before).await.ok();
                    return Err(error);
                }
            }
        }
        self.bounds.request(update);
        Ok(())
    }

    /// A response has begun.
    async fn begun(&mut self, id: String) -> ProviderStep {
        if self.running.contains_key(&id) {
            return ProviderStep::default();
        }
        let mut step = ProviderStep::default();
        let requested = self.requested.pop_front().map(|(_, turn)| turn).or_else(|| self.ahead.take());
        let turn = match requested {
            Some(turn) => Some(turn),
            None => {
                let turn = self.conversation.turn(self.bounds.output(None));
                let held = match self.identify() {
                    Ok(()) => self.hold(&turn).await,
                    Err(error) => {
                        step.ends = true;
                        Err(Box::new(error))
                    }
                };
                match held {
                    Ok(turn) => Some(turn),
                    Err(error) => {
                        step.to_provider = Some(cancel_event(&id));
                        step.to_client = Some(event(&error, None));
                        None
                    }
                }
            }
        };
        let turn = match turn {
            Some(turn) => Some(turn),
            None => self.made().await,
        };
        match turn {
            Some(mut turn) if self.running.len() < MAX_RUNNING => {
                turn.sent = self.conversation.sent();
                self.running.insert(id, turn);
            }
            // It is held when it is done.
            Some(turn) => turn.cancel(),
            None => {}
        }
        step
    }

    /// A response is over.
    async fn done(&mut self, id: &str, tokens: Option<u64>, frames: &[u8]) {
        let turn = match self.running.remove(id).or_else(|| self.requested.pop_front().map(|(_, turn)| turn))
        {
            Some(turn) => Some(turn),
            None => self.made().await,
        };
        let Some(turn) = turn else { return };
        if let Some(tokens) = tokens {
            self.conversation.report(tokens, turn.sent);
        }
        self.terms.finish(&self.engine, turn, Some(frames)).await;
    }

    /// The provider has refused an event of the client.
    fn failed(&mut self, event_id: Option<&str>, code: Option<&str>) {
        // An error without an id may be of any event.
        let by_id =
            || self.requested.iter().position(|(id, _)| event_id.is_some() && id.as_deref() == event_id);
        let last = || (code == Some(IS_RUNNING)).then(|| self.requested.len().checked_sub(1)).flatten();
        if let Some((_, turn)) = by_id().or_else(last).and_then(|at| self.requested.remove(at)) {
            turn.cancel();
        }
    }

    /// The hold of a turn that runs already: it counts, and nothing refuses it.
    async fn made(&self) -> Option<HeldResponse> {
        let turn = TurnUse { is_made: true, ..self.conversation.turn(self.bounds.output(None)) };
        let held = self.terms.hold(&self.engine, &turn, self.conversation.sent()).await;
        held.ok().map(|(turn, _)| turn)
    }

    async fn hold(&mut self, turn: &TurnUse) -> Result<HeldResponse, Box<Error>> {
        let (turn, found) = self.terms.hold(&self.engine, turn, self.conversation.sent()).await?;
        self.held = found;
        Ok(turn)
    }

    /// Whether the client's key is still good, and may use the model.
    ///
    /// # Errors
    /// 401 and 403.
    fn identify(&mut self) -> Result<(), Error> {
        let snapshot = self.engine.shared.settings_arc();
        let terms = &mut self.terms;
        let header = &terms.header;
        let keys = &snapshot.service_keys;
        let found = auth::authenticate_session(&header.headers, &header.uri, keys, Timestamp::now(), true)?;
        let client = found.0;
        if terms.client.as_ref().is_some_and(|before| before.id != client.id) {
            return Err(Error::unauthorized("The key of this session is not good any more."));
        }
        client.require(Scope::CompletionsWrite)?;
        let model = terms.model.as_deref();
        let name = terms.requested_model.as_deref().or(model).unwrap_or_default();
        if !is_allowed(&client, name, terms.attempt.target.slug.as_deref(), model) {
            return Err(Error::model_forbidden(format!("This key may not use the model {name}.")));
        }
        terms.client = Some(client);
        Ok(())
    }
}

/// The event that tells a client of an error.
fn event(error: &Error, event_id: Option<&str>) -> String {
    error_event(error, event_id, &new_trace_id())
}
