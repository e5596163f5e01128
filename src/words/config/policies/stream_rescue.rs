//! `stream_rescue`: what the gateway does when a stream breaks after its first token (a key of our own).
//!
//! Not here: doing it (`route` decides, `engine` carries it out).

use super::{DescribeContext, Policies, PolicyKey, inherit_value};
use crate::config::members::Choice;
use serde_json::Value;

pub(super) const KEY: PolicyKey = PolicyKey {
    members: |policies, table| {
        let doc = "What happens when a stream breaks after its first token.";
        policies.stream_rescue = table.get("stream_rescue", Choice(&StreamRescue::VARIANTS), doc);
    },
    inherit: |policies, above| inherit_value(&mut policies.stream_rescue, &above.stream_rescue),
    describe: Some(describe),
    ..PolicyKey::NONE
};

/// What the gateway does when a stream breaks after its first token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamRescue {
    /// Ends the stream with an error event.
    Off,
    /// Continues the stream from the point of the break with another attempt.
    Resume,
    /// Holds the response until it is complete, so that a break leaves nothing to continue.
    Buffer,
}

impl StreamRescue {
    const VARIANTS: [(&'static str, Self); 3] =
        [("off", Self::Off), ("resume", Self::Resume), ("buffer", Self::Buffer)];

    /// The value as written in a config.
    fn as_str(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Resume => "resume",
            Self::Buffer => "buffer",
        }
    }
}

impl Policies {
    /// The stream rescue in force.
    pub fn stream_rescue(&self) -> StreamRescue {
        self.stream_rescue.unwrap_or(StreamRescue::Resume)
    }
}

fn describe(policies: &Policies, _: &DescribeContext) -> (&'static str, Value) {
    ("stream_rescue", policies.stream_rescue().as_str().into())
}
