//! What a provider's refusals say of a request's model, and what a refusal of an attempt adds to that.
//!
//! Kept in `state::learned_forms`; what a refusal means is in `provider::responses_only`.

use super::attempt::{Attempt, Request};
use super::request_mode::RequestMode;
use super::target::Target;
use knowledge::provider::responses_only;
use words::api::chat::ProviderError;
use words::api::operation::Operation;
use words::config::account::ResponsesWhen;

impl Request {
    /// Which chats the target's provider takes only in another form, as far as its refusals say so.
    pub(super) fn learned_of(&self, target: &Target, model: Option<&str>) -> Option<ResponsesWhen> {
        self.learned.as_ref()?.find(target.provider.id(), &target.origin, model?)
    }
}

impl Attempt {
    /// Whether a refusal says that the provider takes the chat of `request`, from which this was made, only in another form; that is
    /// remembered then. False where it cannot be: sent again, the chat would be the same.
    pub fn learn_form(&self, request: &Request, refusal: &ProviderError) -> bool {
        let (Some(learned), Some(model)) = (&request.learned, self.model.as_deref()) else { return false };
        if self.mode != RequestMode::Api || self.sent_operation != Operation::ChatCompletions {
            return false;
        }
        let Target { provider, account, origin, .. } = &*self.target;
        let call = request.call(Some(model), request.uri.query());
        let Some(when) = responses_only::learn(*provider, &call, account, refusal) else { return false };
        learned.insert(provider.id(), origin, model, when)
    }
}
