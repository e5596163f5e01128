//! Input that a server of 2026-07-28 needs before it can carry out a call: what it requests, and the call with what was given.
//!
//! Such a server requests nothing within a stream: its result names what it needs, and the call is sent again with that.

use super::envelope::request;
use super::features::ClientFeatures;
use super::message::McpMessage;
use super::reply::{McpReply, member};
use crate::json::Json;
use crate::json::write::ObjectWriter;
use std::borrow::Cow;
use std::collections::HashSet;

/// The most requests of one result, and the longest `params` of each, bytes.
const MAX_REQUESTS: usize = 16;
const MAX_PARAMS: usize = 128 << 10;
/// The members of `params` that a call has when it is sent again.
const RESPONSES: &str = "inputResponses";
const STATE: &str = "requestState";

/// What a result names.
#[derive(Debug)]
pub struct NeededInput {
    requests: Vec<InputRequest>,
    /// JSON text that only the server understands.
    state: Option<String>,
}

/// One request.
#[derive(Debug)]
pub struct InputRequest {
    /// The server's name for it.
    name: String,
    method: String,
    /// JSON text.
    params: String,
}

/// What was given: JSON texts.
#[derive(Debug)]
pub struct GivenInput {
    responses: String,
    state: Option<String>,
}

impl InputRequest {
    fn read(name: &str, json: &Json<'_>) -> Option<Self> {
        let method = member(json.get(), "method")?.text()?.into_owned();
        let params =
            member(json.get(), "params").map_or_else(|| "{}".to_owned(), |json| json.get().to_owned());
        // Of two members with one name the client could take the other one.
        let members = Json::members(&params).filter(|_| params.len() <= MAX_PARAMS)?;
        let names: HashSet<&str> = members.iter().map(|(name, _)| &**name).collect();
        (names.len() == members.len()).then(|| Self { name: name.to_owned(), method, params })
    }

    /// For a client, under this id (JSON text).
    pub fn for_client(&self, id: &str) -> Vec<u8> {
        request(id, &self.method, &self.params)
    }
}

impl NeededInput {
    /// What a reply needs. `None`: it is a result, or it cannot be read.
    pub fn of(reply: &McpReply) -> Option<Self> {
        let McpReply::Result(result) = reply else { return None };
        if member(result, "resultType")?.text()? != "input_required" {
            return None;
        }
        let requests = match member(result, "inputRequests") {
            None => Vec::new(),
            Some(requests) => {
                let members = requests.own_members().filter(|members| members.len() <= MAX_REQUESTS)?;
                let names: HashSet<&str> = members.iter().map(|(name, _)| &**name).collect();
                let read = members.iter().map(|(name, json)| InputRequest::read(name, json));
                read.collect::<Option<Vec<_>>>().filter(|_| names.len() == members.len())?
            }
        };
        let state = member(result, STATE).filter(|state| state.text().is_some());
        let state = state.map(|state| state.get().to_owned());
        (!requests.is_empty() || state.is_some()).then_some(Self { requests, state })
    }

    pub fn requests(&self) -> &[InputRequest] {
        &self.requests
    }

    /// Whether all of it may be requested of such a client.
    pub fn is_allowed(&self, features: ClientFeatures) -> bool {
        self.requests.iter().all(|request| features.allow(&request.method, &request.params))
    }

    /// With the result of each request, in their order: JSON texts.
    pub fn given(self, results: &[String]) -> GivenInput {
        let mut out = Vec::new();
        let mut responses = ObjectWriter::open(&mut out);
        for (request, result) in self.requests.iter().zip(results) {
            responses.raw(&*request.name, result);
        }
        responses.close();
        GivenInput { responses: String::from_utf8(out).unwrap_or_default(), state: self.state }
    }
}

impl GivenInput {
    /// The message of a call that is sent again with it.
    pub fn message<'m>(&'m self, call: &'m McpMessage<'_>) -> McpMessage<'m> {
        let is_own = |name: &str| name == RESPONSES || name == STATE;
        let params = call.params.iter().filter(|(name, _)| !is_own(name));
        let mut params: Vec<(Cow<'m, str>, Json<'m>)> = params.cloned().collect();
        params.extend(Json::parse(&self.responses).map(|json| (RESPONSES.into(), json)));
        params.extend(self.state.as_deref().and_then(Json::parse).map(|json| (STATE.into(), json)));
        McpMessage { id: call.id.clone(), method: call.method.clone(), params }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::mcp::envelope::{RelayedTerms, relayed_params};
    use crate::api::mcp::era::McpEra;

    fn needed(result: &str) -> Option<NeededInput> {
        NeededInput::of(&McpReply::Result(result.to_owned()))
    }

    #[test]
    fn a_call_is_sent_again_with_what_was_given() {
        let result = r#"{"resultType":"input_required","inputRequests":{"b":{"method":"elicitation/create","params":{"message":"?","x":1.0}},
            "a":{"method":"roots/list"}},"requestState":"s\u00e9"}"#;
        let needed = needed(result).unwrap();
        let sent: Vec<_> = needed.requests().iter().map(|request| request.for_client("7")).collect();
        assert_eq!(
            sent[0],
            br#"{"jsonrpc":"2.0","id":7,"method":"elicitation/create","params":{"message":"?","x":1.0}}"#
        );
        let features = |text: &str| ClientFeatures::of_capabilities(&Json::parse(text).unwrap());
        assert!(needed.is_allowed(features(r#"{"elicitation":{},"roots":{}}"#)));
        assert!(!needed.is_allowed(features(r#"{"elicitation":{}}"#)));
        let given = needed.given(&[r#"{"action":"accept"}"#.to_owned(), r#"{"roots":[]}"#.to_owned()]);
        let call = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"requestState":"mine","name":"n","arguments":{"a":1.0}}}"#;
        let call = McpMessage::read(call).unwrap();
        let message = given.message(&call);
        let params = relayed_params(&message, McpEra::Sessions, None, RelayedTerms::default());
        let wanted = r#"{"name":"n","arguments":{"a":1.0},"inputResponses":{"b":{"action":"accept"},"a":{"roots":[]}},"requestState":"s\u00e9"}"#;
        assert_eq!(params, wanted);
    }

    #[test]
    fn what_is_no_need_or_too_much_is_none() {
        for result in [
            r#"{"resultType":"complete","requestState":"a"}"#,
            r#"{"requestState":"a"}"#,
            r#"{"resultType":"input_required"}"#,
            r#"{"resultType":"input_required","inputRequests":{}}"#,
            r#"{"resultType":"input_required","inputRequests":[1],"requestState":"a"}"#,
            r#"{"resultType":"input_required","inputRequests":{"a":{"params":{}}}}"#,
            r#"{"resultType":"input_required","inputRequests":{"a":{"method":"b"},"\u0061":{"method":"c"}}}"#,
            r#"{"resultType":"input_required","inputRequests":{"a":{"method":"b","params":{"mode":"form","\u006dode":"url"}}}}"#,
            r#"{"resultType":"input_required","inputRequests":{"a":{"method":"b","params":[1]}}}"#,
        ] {
            assert!(needed(result).is_none(), "{result}");
        }
        assert!(needed(r#"{"resultType":"input_required","requestState":"a"}"#).is_some());
        let one = |number: usize| format!(r#""{number}":{{"method":"roots/list"}}"#);
        let many = |count: usize| {
            let requests: Vec<String> = (0..count).map(one).collect();
            needed(&format!(
                r#"{{"resultType":"input_required","inputRequests":{{{}}}}}"#,
                requests.join(",")
            ))
        };
        assert!(many(MAX_REQUESTS).is_some() && many(MAX_REQUESTS + 1).is_none());
        let long = format!(
            r#"{{"resultType":"input_required","inputRequests":{{"a":{{"method":"b","params":"{}"}}}}}}"#,
            "x".repeat(MAX_PARAMS)
        );
        assert!(needed(&long).is_none());
        assert!(NeededInput::of(&McpReply::Error(r#"{"resultType":"input_required"}"#.to_owned())).is_none());
    }
}
