//! `realtime`: what of the realtime API the gateway lets pass without seeing it.
//!
//! Not here: how its websockets are counted (`engine::realtime`).

use crate::config::members::{FLAG, MemberTable};

/// `realtime`; all of it may be absent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RealtimeSettings {
    /// Offers of WebRTC and calls by SIP are passed on: their media and events flow beside the gateway.
    pub webrtc: bool,
    /// Websockets are passed on although their target has guardrails, which cannot judge what is said in them.
    pub unjudged: bool,
}

impl RealtimeSettings {
    pub(super) const DOC: &str =
        "What of the realtime API passes without being seen (docs/limits.md#realtime-sessions).";

    pub(super) fn members(table: &mut MemberTable<'_>) -> Option<Self> {
        let webrtc = "Whether POST /v1/realtime/calls and what is below it is passed on: sessions by WebRTC and SIP, whose media and events \
                      flow beside the gateway, so that no limit counts them and no log has them. Default: false.";
        let unjudged = "Whether websockets are passed on where a workspace or config has guardrails that read texts: they cannot judge what is \
                        said in them. Default: false.";
        Some(Self {
            webrtc: table.get("webrtc", FLAG, webrtc).unwrap_or_default(),
            unjudged: table.get("unjudged", FLAG, unjudged).unwrap_or_default(),
        })
    }
}
