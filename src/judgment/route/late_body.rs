//! Bodies below `/v1/proxy/` that would stream through unread, and are read because something must be judged by them.
//!
//! The config is chosen before. Not here: how such a body is read (`admission::body_reading`).

use super::attempt::Request;
use super::compiled::CompiledConfig;
use super::request_mode::RequestMode;
use std::borrow::Cow;
use words::api::body::Body;
use words::api::operation::{BodyKind, Operation};

impl Request {
    /// Whether its body is read once its config is known: for hooks that decide over it, and for lists of models that may be used.
    pub fn reads_late(&self, config: &CompiledConfig) -> bool {
        self.may_read_late() && (config.has_deciding_hooks() || self.has_allowed_models(config))
    }

    /// Whether its body streams through unread, and may be JSON nevertheless.
    fn may_read_late(&self) -> bool {
        let may_be_json =
            || self.operation == Operation::Passthrough || self.operation.body_kind() == BodyKind::Json;
        self.body.is_none() && self.mode == RequestMode::Passthrough && may_be_json()
    }

    fn has_allowed_models(&self, config: &CompiledConfig) -> bool {
        self.allowed_models.is_some() || config.targets().iter().any(|target| target.allowed.is_some())
    }

    /// Takes a body that was to stream through. The config was chosen without it, so a slug in its model is none.
    pub fn set_late_body(&mut self, body: Body) {
        if self.model.is_none() {
            self.model = body.text("model").map(Cow::into_owned);
        }
        self.body = Some(body);
    }
}
