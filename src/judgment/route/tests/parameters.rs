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
        // Two names for one bound.
        (
            r#""default_params":{"max_tokens":7},"override_params":{"max_completion_tokens":9}"#,
            PLAIN,
            r#"{"model":"m","messages":[],"max_completion_tokens":9}"#,
            Some(9),
        ),
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

/// Where a limit has bounded the output, no path makes it more, and none that is left out comes back.
#[test]
fn a_limits_bound_is_set_where_the_target_leaves_it() {
    let both = r#""drop_params":["max_tokens","max_completion_tokens"]"#;
    for (params, body, wanted) in [
        (
            r#""drop_params":["max_completion_tokens"]"#,
            PLAIN,
            Some(r#"{"model":"m","messages":[],"max_tokens":8}"#),
        ),
        (
            r#""drop_params":["max_tokens"]"#,
            BOUNDED,
            Some(r#"{"model":"m","messages":[],"n":2,"max_completion_tokens":4}"#),
        ),
        (both, PLAIN, None),
    ] {
        let config = compiled(&target(params));
        let mut request = request(CHATS, body);
        request.bound_output(8);
        let attempt = Attempt::new(Arc::clone(&config.targets()[0]), &request);
        match wanted {
            Some(wanted) => assert_eq!(attempt.unwrap().body.unwrap(), wanted.as_bytes(), "{params}"),
            None => assert!(attempt.unwrap_err().message.contains("drop_params"), "{params}"),
        }
        request.output_bound = None;
        assert!(Attempt::new(Arc::clone(&config.targets()[0]), &request).is_ok());
    }
}

/// Two names for one bound are those of chats alone.
#[test]
fn a_bound_of_another_name_is_none_of_a_completion() {
    let config = compiled(&target(r#""default_params":{"max_tokens":7}"#));
    let body = r#"{"model":"m","prompt":"a","max_completion_tokens":3}"#;
    let attempt = Attempt::new(Arc::clone(&config.targets()[0]), &request("/v1/completions", body)).unwrap();
    let sent = r#"{"model":"m","prompt":"a","max_completion_tokens":3,"max_tokens":7}"#;
    assert_eq!(attempt.body.unwrap(), sent.as_bytes());
}

/// A path into the body of millions of values is work without end; a member of the body itself is found at once.
#[test]
fn paths_lead_into_bodies_of_so_many_values() {
    let many = format!(r#"{{"model":"m","messages":[{}1],"user":"u"}}"#, "1,".repeat(130_000));
    for (path, is_good) in
        [("messages[*].name", false), ("messages[0]", false), ("metadata.a", true), ("user", true)]
    {
        let config = compiled(&target(&format!(r#""drop_params":["{path}"]"#)));
        let attempt = Attempt::new(Arc::clone(&config.targets()[0]), &request(CHATS, &many));
        assert_eq!(attempt.is_ok(), is_good, "{path}");
    }
}

/// What hooks have made of a target's request is sent as they have seen it.
#[test]
fn a_request_that_hooks_have_changed_is_not_edited_again() {
    let config = compiled(&target(
        r#""default_params":{"seed":1,"user":"d"},"override_params":{"top_p":1},"drop_params":["messages[0]"]"#,
    ));
    let body = r#"{"model":"m","messages":[1,2,3]}"#;
    let request = request(CHATS, body);
    let edited = request.as_edited_for(&config.targets()[0]).unwrap().into_owned();
    let edited_text = r#"{"model":"m","messages":[2,3],"seed":1,"user":"d","top_p":1}"#;
    assert_eq!(edited.body.as_ref().unwrap().bytes(), edited_text.as_bytes());
    let changed = r#"{"model":"m","messages":[2,4],"seed":1}"#;
    let changed =
        Request { body: Some(Body::parse(Bytes::from(changed)).unwrap()), is_edited: true, ..edited };
    let attempt = Attempt::new(Arc::clone(&config.targets()[0]), &changed).unwrap();
    let sent = r#"{"model":"m","messages":[2,4],"seed":1,"top_p":1}"#;
    assert_eq!(attempt.body.unwrap(), sent.as_bytes());
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

#[test]
fn marks_by_use_are_for_an_hour_where_the_conversation_pauses() {
    let text = "word ".repeat(2000);
    let body = format!(
        r#"{{"model":"claude-sonnet-4-5","max_tokens":9,"messages":[{{"role":"user","content":"{text}"}}]}}"#
    );
    let sent = |ttl: &str, pauses: bool| {
        let text = format!(
            r#"{{"provider":"anthropic","api_key":"k","prompt_cache":{{"mode":"auto","ttl":"{ttl}"}}}}"#
        );
        let config = compiled(&text);
        let mut request = request("/v1/messages", &body);
        request.pauses = pauses;
        let attempt = Attempt::new(Arc::clone(&config.targets()[0]), &request).unwrap();
        let sent = String::from_utf8(attempt.body.as_ref().unwrap().to_vec()).unwrap();
        (sent.matches("cache_control").count(), sent.matches(r#""ttl":"1h""#).count(), config.uses_prefix())
    };
    for (ttl, pauses, wanted) in [
        ("auto", false, (1, 0, true)),
        ("auto", true, (1, 1, true)),
        ("5m", true, (1, 0, false)),
        ("1h", false, (1, 1, false)),
    ] {
        assert_eq!(sent(ttl, pauses), wanted, "{ttl} {pauses}");
    }
}
