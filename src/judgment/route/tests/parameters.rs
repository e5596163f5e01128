//! Tests of what a target's parameters make of a request: what is sent, and what limits are told of it.

use super::{compiled, target};
use crate::route::admission::Endpoint;
use crate::route::attempt::{Attempt, Request};
use bytes::Bytes;
use http::{Method, Uri};
use std::sync::Arc;
use words::api::body::Body;

fn request(path: &'static str, body: &str) -> Request {
    let uri = Uri::from_static(path);
    let endpoint = Endpoint::find(&Method::POST, uri.path());
    Request::new(endpoint, Method::POST, uri, Some(Body::parse(Bytes::from(body.to_owned())).unwrap()))
}

const CHATS: &str = "/v1/chat/completions";
const PLAIN: &str = r#"{"model":"m","messages":[]}"#;
const BOUNDED: &str = r#"{"model":"m","messages":[],"max_tokens":50,"n":2}"#;

/// What is held for an attempt is bounded by what is sent, and what layers see is what is sent.
#[test]
fn bounds_and_views_are_those_of_the_body_that_is_sent() {
    for (params, body, sent, most) in [
        ("", PLAIN, PLAIN, None),
        (
            r#""default_params":{"max_tokens":7}"#,
            PLAIN,
            r#"{"model":"m","messages":[],"max_tokens":7}"#,
            Some(7),
        ),
        (r#""default_params":{"max_tokens":7}"#, BOUNDED, BOUNDED, Some(100)),
        (r#""default_params":{"max_completion_tokens":7}"#, BOUNDED, BOUNDED, Some(100)),
        (
            r#""default_params":{"max_tokens":7,"seed":1},"override_params":{"max_tokens":9}"#,
            PLAIN,
            r#"{"model":"m","messages":[],"seed":1,"max_tokens":9}"#,
            Some(9),
        ),
        (r#""drop_params":["max_tokens","n"]"#, BOUNDED, PLAIN, None),
        (r#""drop_params":["n"]"#, BOUNDED, r#"{"model":"m","messages":[],"max_tokens":50}"#, Some(50)),
        (
            r#""override_params":{"n":5},"drop_params":["n"]"#,
            BOUNDED,
            r#"{"model":"m","messages":[],"max_tokens":50}"#,
            Some(50),
        ),
        (r#""drop_params":["seed"]"#, BOUNDED, BOUNDED, Some(100)),
    ] {
        let config = compiled(&target(params));
        let target = &config.targets()[0];
        let request = request(CHATS, body);
        let attempt = Attempt::new(Arc::clone(target), &request).unwrap();
        let found = std::str::from_utf8(attempt.body.as_ref().unwrap()).unwrap();
        assert_eq!((found, attempt.most_output), (sent, most), "{params} {body}");
        let edited = request.as_edited_for(target).unwrap();
        assert_eq!(edited.body.as_ref().unwrap().bytes(), sent.as_bytes(), "{params} {body}");
        assert_eq!(request.may_be_edited_for(target), !params.is_empty());
    }
}

#[test]
fn defaults_stand_for_required_members_and_not_for_wrong_ones() {
    let defaults = compiled(&target(r#""default_params":{"max_tokens":7}"#));
    let one_of_two = compiled(&format!(
        r#"{{"strategy":{{"mode":"fallback"}},"targets":[{},{}]}}"#,
        target(r#""default_params":{"max_tokens":7}"#),
        target("")
    ));
    let absent = r#"{"model":"m","messages":[{"role":"user","content":"a"}]}"#;
    let wrong = r#"{"model":"m","messages":[{"role":"user","content":"a"}],"max_tokens":"x"}"#;
    for (config, body, is_good) in
        [(&defaults, absent, true), (&defaults, wrong, false), (&one_of_two, absent, false)]
    {
        assert_eq!(request("/v1/messages", body).check(config).is_ok(), is_good, "{body}");
    }
}
