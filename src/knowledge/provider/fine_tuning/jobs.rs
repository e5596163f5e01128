//! The adapter of a vendor's fine-tuning API: OpenAI's operations, each as what the vendor has for it.
//!
//! Not here: what the vendors have ([`JobApi`]).

use super::job::{JobEvent, TuningJob};
use super::job_call::TuningCall;
use super::job_list::{self, Page};
use super::job_request::JobRequest;
use super::{JobApi, write};
use crate::provider::Call;
use crate::provider::adapter::{Adapter, CallTarget, JsonAdapter, ResponseContext};
use crate::provider::translation_notes::TranslationNotes;
use words::api::body::Body;
use words::api::chat::ProviderError;
use words::api::operation::Operation;
use words::config::account::Account;
use words::error::Error;

/// Translates the fine-tuning operations for one vendor.
#[derive(Debug)]
pub struct Jobs(pub &'static dyn JobApi);

impl Jobs {
    /// Path and query below the vendor's prefix.
    ///
    /// # Errors
    /// 400 for an account that lacks something, and for a query that cannot be read.
    pub fn path(&self, call: &Call<'_>, account: &Account) -> Result<String, Error> {
        self.0.path(&TuningCall::new(call.operation, call.path, call.query)?, account)
    }

    /// How the vendor serves a fine-tuning operation.
    ///
    /// # Errors
    /// 501 for an operation that it lacks.
    pub fn adapter(&'static self, operation: Operation) -> Result<Adapter, Error> {
        let Some(why) = self.0.refusal(operation) else { return Ok(Adapter::Json(self)) };
        let provider = self.0.provider();
        let message = format!("{provider} cannot serve {}: {why}.", operation.label());
        Err(Error::not_implemented(message).with_provider(provider))
    }
}

impl JsonAdapter for Jobs {
    fn write(
        &self,
        body: Option<&Body>,
        target: &CallTarget<'_>,
        _notes: &mut TranslationNotes,
    ) -> Result<Option<Vec<u8>>, Error> {
        if target.call.operation != Operation::FineTuningCreate {
            return Ok(None);
        }
        let mut request = JobRequest::read(body, self.0.provider())?;
        let written = self.0.create(&mut request, target)?;
        request.finish()?;
        let bytes = serde_json::to_vec(&written)
            .map_err(|_| Error::internal("a fine-tuning job cannot be written"))?;
        Ok(Some(bytes))
    }

    fn read(&self, response: &[u8], _: Option<&Body>, _: &str) -> Result<Vec<u8>, ProviderError> {
        write(&self.0.job(response)?.settled())
    }

    fn read_in(&self, response: &[u8], context: &ResponseContext<'_>) -> Result<Vec<u8>, ProviderError> {
        let Some(place) = context.place else { return self.read(response, context.request, context.model) };
        let call = TuningCall::new(place.operation, &place.path, place.query.as_deref())
            .map_err(|error| ProviderError::new(400, error.message))?;
        let api = self.0;
        match place.operation {
            Operation::FineTuningCreate => write(&api.created(response, context)?.settled()),
            Operation::FineTuningList => {
                let Page { items, is_partial } = api.jobs(response)?;
                let items = items.into_iter().map(TuningJob::settled).collect();
                job_list::write(Page { items, is_partial }, &call, 20, api.provider())
            }
            Operation::FineTuningCancel => write(&api.cancelled(response, &call)?.settled()),
            Operation::FineTuningEvents => {
                let items = JobEvent::numbered(api.events(response, &call)?, &call.id);
                job_list::write(Page { items, is_partial: false }, &call, 20, api.provider())
            }
            Operation::FineTuningCheckpoints => {
                let items = api.checkpoints(response, &call)?;
                job_list::write(Page { items, is_partial: false }, &call, 10, api.provider())
            }
            _ => write(&api.job(response)?.settled()),
        }
    }
}
