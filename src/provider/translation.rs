//! How one call is translated: decided when its attempt is made, used when the answer is there.
//!
//! The one place that pairs a caller's dialect with a provider's way. Not the work itself: [`Rewriter`].

use super::outgoing::Outgoing;
use super::rescue;
use super::rewriter::Rewriter;
use super::way::{Chat, Exchange, Mend, Target, Way};
use super::{Call, Provider};
use crate::api::body::Body;
use crate::api::chat::{ChatRequest, Decoder, EncodeContext, Encoder};
use crate::api::operation::Operation;
use crate::api::{chat_completions, completions, messages, responses};
use crate::config::account::Account;
use crate::error::Error;

/// What must be done to the answer.
#[derive(Debug, Clone)]
pub struct Translation {
    work: Work,
    operation: Operation,
    provider: &'static str,
    model: String,
    strict: bool,
    /// The caller wants events.
    streamed: bool,
    include_usage: bool,
    request: Option<Body>,
}

#[derive(Debug, Clone, Copy)]
enum Work {
    Chat(&'static dyn Chat),
    Exchange(&'static dyn Exchange),
    Mend(&'static dyn Mend),
}

/// A call made ready for its provider.
#[derive(Debug)]
pub struct Ready {
    /// Path and query, as [`Provider::path`] has it.
    pub path: String,
    /// The body to send; `None` when there is none to send or it streams through unread.
    pub body: Option<Vec<u8>>,
    /// `None`: the answer passes as it comes.
    pub translation: Option<Translation>,
    /// The operation the provider sees: its auth headers may depend on it.
    pub operation: Operation,
    /// The answer, where the gateway knows it without asking anyone.
    pub local: Option<Vec<u8>>,
}

/// Makes a call ready: chooses the way, writes the body in the provider's words. `body` is the caller's, with
/// `override_params` merged in; the result has one of its own only where something was changed.
///
/// # Errors
/// 400 that names what the provider cannot do.
pub fn prepare(
    provider: &'static dyn Provider,
    call: &Call<'_>,
    account: &Account,
    body: Option<&Body>,
    strict: bool,
    outgoing: &mut Outgoing,
) -> Result<Ready, Error> {
    nothing_is_kept(provider, call, account)?;
    let model = call.model.unwrap_or_default();
    let making = Making { provider, target: Target { call, account, model }, strict };
    match (provider.way(call, account)?, body) {
        (Way::Chat(_), Some(body)) if call.operation == Operation::CountTokens => {
            Ok(making.estimate(body, outgoing))
        }
        (Way::Chat(chat), Some(body)) => making.chat(chat, body, outgoing),
        (Way::Chat(_), None) => Err(Error::bad_request("The request body must be a JSON object.")),
        (Way::Exchange(exchange), body) => making.exchange(exchange, body, outgoing),
        (Way::Same(mend), body) => making.same(mend, body, outgoing),
    }
}

/// A call being made ready.
struct Making<'a> {
    provider: &'static dyn Provider,
    target: Target<'a>,
    strict: bool,
}

impl Making<'_> {
    fn translation(&self, work: Work, request: Option<&Body>) -> Translation {
        Translation {
            work,
            operation: self.target.call.operation,
            provider: self.provider.id(),
            model: self.target.model.to_owned(),
            strict: self.strict,
            streamed: false,
            include_usage: false,
            request: request.cloned(),
        }
    }

    fn ready(&self, body: Option<Vec<u8>>, translation: Option<Translation>) -> Result<Ready, Error> {
        let Target { call, account, .. } = self.target;
        let path = self.provider.path(call, account)?;
        Ok(Ready { path, body, translation, operation: call.operation, local: None })
    }

    /// Tokens counted here, for a provider that cannot.
    fn estimate(&self, body: &Body, outgoing: &mut Outgoing) -> Ready {
        outgoing.warn("input_tokens", format!("estimated, {} cannot count tokens", self.provider.id()));
        Ready {
            path: String::new(),
            body: None,
            translation: None,
            operation: self.target.call.operation,
            local: Some(messages::count_response(messages::estimate(body))),
        }
    }

    fn chat(&self, chat: &'static dyn Chat, body: &Body, outgoing: &mut Outgoing) -> Result<Ready, Error> {
        let mut request = read(self.target.call.operation, body)?;
        outgoing.warnings.append(&mut request.warnings);
        let mut translation = self.translation(Work::Chat(chat), Some(body));
        translation.streamed = request.stream;
        translation.include_usage = request.include_usage;
        let operation = Operation::ChatCompletions;
        let call = Call { operation, path: "chat/completions", ..*self.target.call };
        let there = Making { target: Target { call: &call, ..self.target }, ..*self };
        let bytes = chat.write(request, &there.target, outgoing)?;
        there.ready(Some(bytes), Some(translation))
    }

    fn exchange(
        &self,
        exchange: &'static dyn Exchange,
        body: Option<&Body>,
        outgoing: &mut Outgoing,
    ) -> Result<Ready, Error> {
        let bytes = exchange.write(body, &self.target, outgoing)?;
        self.ready(bytes, Some(self.translation(Work::Exchange(exchange), body)))
    }

    fn same(
        &self,
        mend: Option<&'static dyn Mend>,
        body: Option<&Body>,
        outgoing: &mut Outgoing,
    ) -> Result<Ready, Error> {
        let edits = match body {
            Some(body) => self.provider.edits(body, &self.target, outgoing)?,
            None => Vec::new(),
        };
        let changed = body.filter(|_| !edits.is_empty()).map(|body| body.edit(&edits).to_vec());
        self.ready(changed, mend.map(|mend| self.translation(Work::Mend(mend), None)))
    }
}

/// A provider that only chats keeps no responses: better said here than by a 404 in words about something else.
fn nothing_is_kept(provider: &dyn Provider, call: &Call<'_>, account: &Account) -> Result<(), Error> {
    let (Operation::ResponsesGet
    | Operation::ResponsesDelete
    | Operation::ResponsesCancel
    | Operation::ResponsesInputItems) = call.operation
    else {
        return Ok(());
    };
    let create = Call { operation: Operation::Responses, path: "responses", ..*call };
    match provider.way(&create, account) {
        Ok(Way::Same(_)) => Ok(()),
        _ => {
            let id = provider.id();
            let message = format!(
                "{id} keeps no responses, so there is none to get, cancel or delete. Choose a provider with a \
                 Responses API of its own (openai, azure-openai)."
            );
            Err(Error::bad_request(message).with_provider(id))
        }
    }
}

/// Reads the caller's body in its dialect.
fn read(operation: Operation, body: &Body) -> Result<ChatRequest<'_>, Error> {
    match operation {
        Operation::Completions => completions::read(body),
        Operation::Responses => responses::read(body),
        Operation::Messages => messages::read(body),
        _ => chat_completions::read(body),
    }
}

/// Writes an answer in the caller's dialect.
fn writer(operation: Operation, streamed: bool, setting: EncodeContext) -> Box<dyn Encoder> {
    match operation {
        Operation::Completions => completions::encoder(streamed, setting),
        Operation::Responses => responses::encoder(streamed, setting),
        Operation::Messages => messages::encoder(streamed, setting),
        _ => chat_completions::encoder(streamed, setting),
    }
}

impl Translation {
    /// Whether the caller gets a stream of events, if all goes well.
    pub fn streams(&self) -> bool {
        self.streamed
    }

    /// Whether the answer keeps the provider's shape and is only put right in places.
    pub fn mends(&self) -> bool {
        matches!(self.work, Work::Mend(_))
    }

    /// A reader of one answer alone, for an answer that goes on in a stream begun by another attempt
    /// ([`Rewriter::resume`]); `None` where the answer is not read as a chat.
    pub fn reader(&self, streamed: bool) -> Option<Box<dyn Decoder>> {
        match self.work {
            Work::Chat(chat) => Some(chat.reader(streamed)),
            // The caller's own shape: its reader knows every accent that is mended.
            Work::Mend(_) => rescue::decoder(self.operation, streamed),
            Work::Exchange(_) => None,
        }
    }

    /// The translation of one answer with a good status. `streamed`: it came as a stream of events; `id`:
    /// unique, for ids the provider does not tell; `created`: Unix seconds.
    pub fn rewriter(&self, streamed: bool, id: &str, created: u64) -> Rewriter {
        match self.work {
            Work::Chat(chat) => {
                let setting = EncodeContext {
                    id: id.to_owned(),
                    created,
                    model: self.model.clone(),
                    provider: self.provider,
                    strict: self.strict,
                    include_usage: self.include_usage,
                    request: self.request.clone(),
                };
                let writer = writer(self.operation, self.streamed, setting);
                Rewriter::chat(chat.reader(streamed), writer, id)
            }
            Work::Exchange(exchange) => {
                Rewriter::exchange(exchange, self.request.clone(), self.model.clone(), created)
            }
            Work::Mend(mend) => Rewriter::mend(mend, streamed),
        }
    }
}
