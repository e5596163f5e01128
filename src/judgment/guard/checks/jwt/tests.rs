//! Tokens signed here, each good or wrong in one way, and where their keys come from.

use super::*;
use crate::guard::checks::testing::{TestOutside, data, error, outside_response, prepare, request};
use crate::guard::outside::OutsideError;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use futures_util::FutureExt;
use ring::rand::SystemRandom;
use ring::signature::{Ed25519KeyPair, KeyPair};

const NOW: i64 = 1_900_000_000;

struct Signer(Ed25519KeyPair);

impl Signer {
    fn new() -> Self {
        let document = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
        Self(Ed25519KeyPair::from_pkcs8(document.as_ref()).unwrap())
    }

    fn key_set(&self, id: &str) -> Value {
        let key = URL_SAFE_NO_PAD.encode(self.0.public_key());
        json!({"keys": [{"kty": "OKP", "crv": "Ed25519", "kid": id, "use": "sig", "x": key}]})
    }

    fn token(&self, id: &str, claims: &Value) -> String {
        let encode = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let header = json!({"alg": "EdDSA", "kid": id, "tenant": "t"});
        let message = format!("{}.{}", encode(&header), encode(claims));
        format!("{message}.{}", URL_SAFE_NO_PAD.encode(self.0.sign(message.as_bytes())))
    }
}

fn check(parameters: Value) -> JwtCheck {
    let members = parameters.as_object().unwrap().clone();
    let patterns = words::config::pattern::PatternBudget::default();
    read(&Parameters { members: &members, patterns: &patterns }).unwrap()
}

fn with_header(name: &'static str, value: &str) -> Subject {
    let mut subject = request("a");
    Arc::make_mut(&mut subject.headers).insert(name, value.parse().unwrap());
    subject
}

fn run(check: &JwtCheck, token: &str, outside: &TestOutside, now: i64) -> Finding {
    let subject = with_header("authorization", &format!("Bearer {token}"));
    check.judge(&subject, outside, now).now_or_never().unwrap()
}

fn claims() -> Value {
    json!({"sub": "ann", "iat": NOW - 60, "exp": NOW + 60, "roles": ["admin"], "tenant": "t"})
}

#[test]
fn a_token_must_be_signed_and_in_time() {
    let signer = Signer::new();
    let other = Signer::new();
    let outside = TestOutside::responding(500, "");
    let check = check(json!({"jwks": signer.key_set("k"), "algorithms": ["EdDSA"]}));
    let good = signer.token("k", &claims());
    let with = |name: &str, value: Value| {
        let mut claims = claims();
        claims[name] = value;
        signer.token("k", &claims)
    };
    for (token, now, wanted) in [
        (good.clone(), NOW, "JWT token validation succeeded"),
        (good.clone(), NOW + 64, "JWT token validation succeeded"),
        (good.clone(), NOW + 65, "JWT validation error: The token has expired"),
        (with("nbf", json!(NOW + 6)), NOW, "JWT validation error: The token is not valid yet"),
        (with("iat", json!(NOW + 6)), NOW, "JWT validation error: The token was issued in the future"),
        (with("iat", json!(NOW - 86_406)), NOW, "JWT validation error: The token is older than maxTokenAge"),
        (other.token("k", &claims()), NOW, "JWT validation error: The signature is not the key's"),
        (other.token("x", &claims()), NOW, "JWT validation error: No matching key found for kid"),
        ("a.b.c".to_owned(), NOW, "JWT validation error: The header has no signed token"),
        (String::new(), NOW, "JWT validation error: The header has no signed token"),
    ] {
        let finding = run(&check, &token, &outside, now);
        assert_eq!(data(&finding)["explanation"], wanted);
        assert_eq!(finding.verdict, wanted.ends_with("succeeded"));
    }
    assert!(outside.calls().is_empty());
    let rs256 = super::tests::check(json!({"jwks": signer.key_set("k")}));
    let finding = run(&rs256, &good, &outside, NOW);
    assert_eq!(
        data(&finding)["explanation"],
        "JWT validation error: The token's algorithm is not one that counts"
    );
}

#[test]
fn the_header_may_have_another_name() {
    let signer = Signer::new();
    let check =
        check(json!({"jwks": signer.key_set("k"), "algorithms": ["EdDSA"], "headerKey": "X-User-Token"}));
    let outside = TestOutside::responding(500, "");
    let token = signer.token("k", &claims());
    let judge = |subject: Subject| check.judge(&subject, &outside, NOW).now_or_never().unwrap();
    assert!(judge(with_header("x-user-token", &token)).verdict);
    let finding = judge(with_header("authorization", &token));
    assert_eq!(
        (finding.verdict, &data(&finding)["explanation"]),
        (false, &json!("Missing authorization header"))
    );
}

#[test]
fn claims_are_judged_and_extracted() {
    let signer = Signer::new();
    let outside = TestOutside::responding(500, "");
    let rules = json!({
        "jwks": signer.key_set("k"), "algorithms": ["EdDSA"], "requiredClaims": ["sub", "email"], "headerPayloadMatch": ["tenant"],
        "claimValues": {"roles": {"values": "admin", "matchType": "contains"}}, "extractClaims": ["sub", "roles"],
    });
    let check = check(rules);
    let finding = run(&check, &signer.token("k", &claims()), &outside, NOW);
    assert_eq!(data(&finding)["explanation"], "JWT validation failed: Missing required claims: email");
    assert!(!finding.verdict && data(&finding)["extractedClaims"].is_null());
    let mut claims = claims();
    claims["email"] = json!("ann@example.com");
    let finding = run(&check, &signer.token("k", &claims), &outside, NOW);
    assert!(finding.verdict);
    assert_eq!(data(&finding)["extractedClaims"], json!({"x-jwt-sub": "ann", "x-jwt-roles": "admin"}));
}

#[test]
fn key_sets_are_fetched_seldom() {
    let signer = Signer::new();
    let keys = signer.key_set("k").to_string();
    let outside = TestOutside::responding(200, &keys);
    let check =
        check(json!({"jwksUri": "https://id.example/jwks", "algorithms": ["EdDSA"], "cacheMaxAge": 1000}));
    let token = |id| signer.token(id, &json!({}));
    for (id, now, verdict, calls) in [
        ("k", NOW, true, 1),
        ("k", NOW + 999, true, 1),
        ("new", NOW + 999, false, 2),
        ("new", NOW + 1028, false, 2),
        ("new", NOW + 1029, false, 3),
        ("k", NOW + 2100, true, 4),
    ] {
        assert_eq!(run(&check, &token(id), &outside, now).verdict, verdict, "{id} {now}");
        assert_eq!(outside.calls().len(), calls, "{id} {now}");
    }
    let broken = TestOutside::new(|_| Err(OutsideError::TimedOut));
    assert!(run(&check, &token("k"), &broken, NOW + 9000).verdict, "the last good keys stay in force");
    let unfetched = super::tests::check(json!({"jwksUri": "https://id.example/jwks"}));
    let finding = run(&unfetched, &token("k"), &broken, NOW);
    assert_eq!(error(&finding), "The key set cannot be fetched: it did not respond in time");
    assert!(!finding.verdict);
}

#[test]
fn another_server_decides_whether_a_token_is_active() {
    let outside = TestOutside::new(|call| {
        let is_good = call.body.ends_with(b"token=good");
        Ok(outside_response(
            200,
            &[],
            if is_good {
                r#"{"active": true, "sub": "ann", "exp": 1900000030}"#
            } else {
                r#"{"active": false}"#
            },
        ))
    });
    let parameters = json!({"introspectEndpoint": "https://id.example/active", "introspectCacheMaxAge": 100, "requiredClaims": ["sub"]});
    let check = check(parameters);
    for (token, now, verdict, calls) in [
        ("good", NOW, true, 1),
        ("good", NOW + 34, true, 1),
        ("good", NOW + 35, false, 2),
        ("bad", NOW, false, 3),
        ("bad", NOW, false, 4),
    ] {
        assert_eq!(run(&check, token, &outside, now).verdict, verdict, "{token} {now}");
        assert_eq!(outside.calls().len(), calls, "{token} {now}");
    }
    assert_eq!(outside.calls()[0].headers["content-type"], FORM);
    for (outside, wanted) in [
        (TestOutside::responding(503, ""), Some("The introspection failed: status 503")),
        (
            TestOutside::responding(200, "[]"),
            Some("The introspection failed: its response is no JSON object"),
        ),
        (TestOutside::responding(401, ""), None),
    ] {
        let finding = run(&check, "other", &outside, NOW);
        assert_eq!(finding.error.map(|error| error.message).as_deref(), wanted);
        assert!(!finding.verdict);
    }
    let json = super::tests::check(
        json!({"introspectEndpoint": "https://id.example/active", "introspectContentType": "application/json"}),
    );
    let outside = TestOutside::responding(200, r#"{"sub": "ann"}"#);
    assert!(run(&json, "t", &outside, NOW).verdict);
    assert_eq!(outside.calls()[0].body, r#"{"token":"t"}"#);
}

#[test]
fn unusable_parameters_have_their_reasons() {
    for (parameters, wanted) in [
        (json!({}), "Either jwks, jwksUri, or introspectEndpoint must be provided"),
        (json!({"jwksUri": "x"}), "Invalid JWKS URL format"),
        (json!({"jwks": {"keys": []}}), "jwks is of no use: "),
        (
            json!({"jwksUri": "https://a.example", "maxTokenAge": "soon"}),
            "maxTokenAge must be like 30s, 5m, 12h or 1d",
        ),
        (json!({"jwksUri": "https://a.example", "clockTolerance": -1}), "clockTolerance must be from 0 to"),
        (json!({"jwksUri": "https://a.example", "headerKey": "a b"}), "headerKey is no name of a header"),
    ] {
        let unusable = prepare(&JWT, parameters).unwrap_err();
        assert!(unusable.error.message.starts_with(wanted), "{}", unusable.error.message);
        assert!(
            unusable.data.unwrap()["explanation"].as_str().unwrap().starts_with("JWT validation error: ")
        );
    }
    assert_eq!((age("2 weeks"), age("90s"), age("d"), age("5")), (Some(1_209_600), Some(90), None, None));
}
