//! Signing against AWS's published test vectors (awslabs/aws-c-auth, `tests/aws-signing-test-suite/v4`). Only
//! vectors whose paths need no encoding: every AWS service except S3 signs a doubly encoded path, while the
//! suite encodes it once.

use super::*;
use http::Method;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// 2015-08-30T12:36:00Z, the time the suite signs at.
fn then() -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(1_440_938_160)
}

fn keys(token: Option<&str>) -> Keys {
    let token = token.map(Secret::new);
    let secret = Secret::new("wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY");
    Keys::from_secrets(&Secret::new("AKIDEXAMPLE"), &secret, token.as_ref()).unwrap()
}

const SCOPE: Scope<'static> = Scope { service: "service", region: "us-east-1" };
const TOKEN: &str = "6e86291e8372ff2a2260956d9b8aae1d763fbf315fa00fa31553b73ebf194267";
const STS_TOKEN: &str = "AQoDYXdzEPT//////////wEXAMPLEtc764bNrC9SAPBSM22wDOk4x4HIZ8j4FZTwdQWLWsKWHGBuFqwAeMicRXmxfpSPfIeoIYRqTflfKD8YUuwthAx7mSEI/qkPpKPi/kMcGdQrmGdeehM4IC1NtBmUpp2wUE8phUZampKsburEDy0KPkyQDYwT7WZ0wq5VSXDvp75YU9HFvlRd8Tx6q6fE8YQcHNVXAkiY9q6d+xo0rKwT38xVqr7ZD0u0iPPkUL64lIZbqBAz+scqKmlzm8FDrypNC9Yjc8fPOLn9FX9KSYvKTr4rvx3iSIlTJabIQwj2ICCR/oLxBA==";
const FORM_HASH: &str = "9095672bbd1f56dfc5b65f3e153adc8731a4a654192329106275f4c7b24d0b6e";

struct Vector {
    name: &'static str,
    method: Method,
    target: &'static str,
    body: &'static str,
    token: Option<&'static str>,
    headers: &'static [(&'static str, &'static str)],
    signed: &'static str,
    signature: &'static str,
}

const PLAIN: Vector = Vector {
    name: "get-vanilla",
    method: Method::GET,
    target: "/",
    body: "",
    token: None,
    headers: &[],
    signed: "host;x-amz-date",
    signature: "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31",
};

const VECTORS: [Vector; 12] = [
    PLAIN,
    Vector {
        name: "get-vanilla-query-order-key-case",
        target: "/?Param2=value2&Param1=value1",
        signature: "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500",
        ..PLAIN
    },
    Vector {
        name: "get-vanilla-query-order-encoded",
        target: "/?Param-3=Value3&Param=Value2&%E1%88%B4=Value1",
        signature: "371d3713e185cc334048618a97f809c9ffe339c62934c032af5a0e595648fcac",
        ..PLAIN
    },
    Vector {
        name: "get-vanilla-with-session-token",
        token: Some(TOKEN),
        signed: "host;x-amz-date;x-amz-security-token",
        signature: "07ec1639c89043aa0e3e2de82b96708f198cceab042d4a97044c66dd9f74e7f8",
        ..PLAIN
    },
    Vector { name: "get-relative-normalized", target: "/example/..", ..PLAIN },
    Vector {
        name: "get-slashes-normalized",
        target: "//example//",
        signature: "9a624bd73a37c9a373b5312afbebe7a714a789de108f0bdfe846570885f57e84",
        ..PLAIN
    },
    Vector {
        name: "get-unreserved",
        target: "/-._~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz",
        signature: "07ef7494c76fa4850883e2b006601f940f8a34d404d0cfa977f52a65bbf5f24f",
        ..PLAIN
    },
    Vector {
        name: "get-header-value-trim",
        headers: &[("My-Header1", " value1"), ("My-Header2", " \"a   b   c\"")],
        signed: "host;my-header1;my-header2;x-amz-date",
        signature: "acc3ed3afb60bb290fc8d2dd0098b9911fcaa05412b367055dee359757a9c736",
        ..PLAIN
    },
    Vector {
        name: "post-vanilla",
        method: Method::POST,
        signature: "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b",
        ..PLAIN
    },
    Vector {
        name: "post-sts-header-before",
        method: Method::POST,
        token: Some(STS_TOKEN),
        signed: "host;x-amz-date;x-amz-security-token",
        signature: "85d96828115b5dc0cfc3bd16ad9e210dd772bbebba041836c64533a82be05ead",
        ..PLAIN
    },
    Vector {
        name: "post-header-value-case",
        method: Method::POST,
        headers: &[("My-Header1", "VALUE1")],
        signed: "host;my-header1;x-amz-date",
        signature: "cdbc9802e29d2942e5e10b5bccfdd67c5f22c7c4e8ae67b53629efa58b974b7d",
        ..PLAIN
    },
    Vector {
        name: "post-x-www-form-urlencoded",
        method: Method::POST,
        body: "Param1=value1",
        headers: &[
            ("Content-Type", "application/x-www-form-urlencoded"),
            ("Content-Length", "13"),
            ("X-Amz-Content-Sha256", FORM_HASH),
        ],
        signed: "content-length;content-type;host;x-amz-content-sha256;x-amz-date",
        signature: "d3875051da38690788ef43de4db0d8f280229d82040bfac253562e56c3f20e0b",
        ..PLAIN
    },
];

#[test]
fn published_vectors_give_the_published_signatures() {
    for vector in VECTORS {
        let url = format!("https://example.amazonaws.com{}", vector.target);
        let signing =
            Signing { method: &vector.method, url: &url, body: vector.body.as_bytes(), now: then() };
        let headers = vector.headers.iter().copied().chain([("host", "example.amazonaws.com")]);
        let signature_headers = signature(&signing, &keys(vector.token), &SCOPE, headers).unwrap();
        let value = |name: &str| {
            let header = signature_headers.iter().find(|(header_name, _)| header_name == name);
            header.map(|(_, value)| value.to_str().unwrap().to_owned())
        };
        let wanted = format!(
            "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request, \
             SignedHeaders={}, Signature={}",
            vector.signed, vector.signature
        );
        assert_eq!(value("authorization"), Some(wanted), "{}", vector.name);
        assert_eq!(value("x-amz-date").as_deref(), Some("20150830T123600Z"), "{}", vector.name);
        assert_eq!(value("x-amz-security-token").as_deref(), vector.token, "{}", vector.name);
    }
}

/// The signature of a hand-written canonical request.
fn by_hand(canonical: &str, scope: &Scope<'_>) -> String {
    use ring::digest::{SHA256, digest};
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let hash = hex(digest(&SHA256, canonical.as_bytes()).as_ref());
    let Scope { service, region } = scope;
    let text =
        format!("AWS4-HMAC-SHA256\n20150830T123600Z\n20150830/{region}/{service}/aws4_request\n{hash}");
    let secret = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY";
    let key = v4::generate_signing_key(secret, then(), region, service);
    v4::calculate_signature(key, text.as_bytes())
}

#[test]
fn a_bedrock_call_is_signed_as_sent() {
    let scope = Scope { service: "bedrock", region: "eu-west-1" };
    let url = "https://vpce-1.bedrock-runtime.eu-west-1.vpce.amazonaws.com:8443/model/a.b-v1%3A0/converse";
    let signing = Signing { method: &Method::POST, url, body: b"{}", now: then() };
    let mut headers = HeaderMap::new();
    headers.insert("content-type", HeaderValue::from_static("application/json"));
    headers.insert("x-amzn-bedrock-trace", HeaderValue::from_static("ENABLED"));
    headers.insert("x-amzn-trace-id", HeaderValue::from_static("Root=1"));
    sign(&signing, &keys(Some("TOKEN")), &scope, &mut headers).unwrap();
    // The colon of the model id is encoded once in the path and a second time in the canonical request.
    let canonical = "POST\n/model/a.b-v1%253A0/converse\n\n\
        host:vpce-1.bedrock-runtime.eu-west-1.vpce.amazonaws.com:8443\n\
        x-amz-date:20150830T123600Z\nx-amz-security-token:TOKEN\nx-amzn-bedrock-trace:ENABLED\n\n\
        host;x-amz-date;x-amz-security-token;x-amzn-bedrock-trace\n\
        44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a";
    let signature = by_hand(canonical, &scope);
    let authorization = headers["authorization"].to_str().unwrap();
    assert!(authorization.ends_with(&format!("Signature={signature}")), "{authorization}");
    assert!(headers["authorization"].is_sensitive() && headers["x-amz-security-token"].is_sensitive());
    assert!(!format!("{headers:?}").contains("TOKEN"), "{headers:?}");
}

#[test]
fn keys_invalid_in_headers_are_refused_and_never_printed() {
    let good = Secret::new("good");
    for bad in ["a\nb", "a\u{e9}"] {
        let bad = Secret::new(bad);
        assert_eq!(Keys::from_secrets(&bad, &good, None).unwrap_err().status(), 400);
        let error = Keys::from_secrets(&good, &good, Some(&bad)).unwrap_err();
        assert_eq!((error.status(), error.param.as_deref()), (400, Some("cloud_a_session_token")));
    }
    let keys = Keys::from_secrets(&good, &Secret::new("hidden"), Some(&Secret::new("veiled"))).unwrap();
    let shown = format!("{keys:?}");
    assert!(!shown.contains("hidden") && !shown.contains("veiled"), "{shown}");
}

/// The example "GET Bucket (List Objects)" and the one of the lifecycle in
/// <https://docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html>.
#[test]
fn calls_of_s3_are_signed_as_published() {
    let id = Secret::new("AKIAIOSFODNN7EXAMPLE");
    let keys =
        Keys::from_secrets(&id, &Secret::new("wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"), None).unwrap();
    // 2013-05-24T00:00:00Z
    let now = UNIX_EPOCH + Duration::from_secs(1_369_353_600);
    let scope = Scope { service: "s3", region: "us-east-1" };
    let examples = [
        ("?max-keys=2&prefix=J", "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"),
        ("?lifecycle", "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"),
    ];
    for (query, signature) in examples {
        let url = format!("https://examplebucket.s3.amazonaws.com/{query}");
        let signing = Signing { method: &Method::GET, url: &url, body: b"", now };
        let mut headers = HeaderMap::new();
        sign(&signing, &keys, &scope, &mut headers).unwrap();
        let authorization = headers["authorization"].to_str().unwrap();
        assert!(authorization.ends_with(&format!("Signature={signature}")), "{query}: {authorization}");
        let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(headers["x-amz-content-sha256"], empty);
    }
}
