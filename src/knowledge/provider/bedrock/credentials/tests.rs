//! The requests of each token exchange and the credentials read from the responses. No network involved.

use super::*;
use http::Method;
use std::collections::BTreeMap;
use std::time::UNIX_EPOCH;
use words::config::account::CloudA;

/// 2026-08-01T11:00:00Z.
fn now() -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(1_785_582_000)
}

fn account(auth_type: Option<AuthTypeA>, role: Option<&str>, keys: bool) -> Account {
    let cloud_a = CloudA {
        access_key_id: keys.then(|| Secret::new("AKID")),
        secret_access_key: keys.then(|| Secret::new("hidden")),
        region: Some("eu-west-1".to_owned()),
        role_arn: role.map(str::to_owned),
        external_id: Some("x&y".to_owned()),
        auth_type,
        ..CloudA::default()
    };
    Account { cloud_a: cloud_a.into(), ..Account::default() }
}

/// Runs an exchange against canned responses, which are looked up by the beginning of `METHOD url`. Returns
/// the requests made and the result.
fn run_exchange(
    exchange: &dyn TokenExchange,
    canned: &BTreeMap<&str, (u16, &str)>,
) -> (Vec<String>, Result<Credentials, String>) {
    let mut requests = Vec::new();
    let mut responses = Vec::new();
    loop {
        match exchange.next_step(&responses, now()) {
            Err(reason) => return (requests, Err(reason)),
            Ok(Step::Done(credentials, lifetime)) => {
                requests.push(format!("for {} s", lifetime.as_secs()));
                return (requests, Ok(credentials));
            }
            Ok(Step::Request(request)) => {
                let line = format!("{} {}", request.method, request.url);
                let canned_response = canned.iter().find(|(start, _)| line.starts_with(*start));
                let (status, body) = canned_response.map_or((404, ""), |(_, response)| *response);
                responses.push(TokenResponse { status, body: body.as_bytes().to_vec() });
                let metadata = if request.is_metadata { "" } else { " (outside)" };
                requests.push(format!("{line}{metadata}"));
                assert!(requests.len() < 20, "{requests:#?}");
            }
        }
    }
}

fn aws(id: &str, secret: &str, token: Option<&str>) -> Result<Credentials, String> {
    Ok(aws_credentials(id, secret, token))
}

const STS: &str = "<AssumeRoleResponse xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\"><AssumeRoleResult>\n\
    <AssumedRoleUser><Arn>arn:aws:sts::1:assumed-role/r/turnpike</Arn></AssumedRoleUser><Credentials>\
    <AccessKeyId>ASIA1</AccessKeyId><SecretAccessKey>s/1+=</SecretAccessKey><SessionToken>t1==</SessionToken>\
    <Expiration>2026-08-01T12:00:00Z</Expiration></Credentials></AssumeRoleResult></AssumeRoleResponse>";
const MACHINE: &str = r#"{"Code":"Success","AccessKeyId":"ASIA2","SecretAccessKey":"s2","Token":"t2",
    "Expiration":"2026-08-01T11:30:00Z"}"#;

#[test]
fn a_role_is_assumed_with_the_accounts_keys() {
    let account = account(None, Some("arn:aws:iam::1:role/r"), true);
    let exchange = token_exchange(&account).unwrap();
    let Ok(Step::Request(request)) = exchange.next_step(&[], now()) else { panic!("no request is made") };
    assert_eq!(
        (request.method, request.url.as_str()),
        (Method::POST, "https://sts.eu-west-1.amazonaws.com/")
    );
    assert_eq!(
        String::from_utf8(request.body).unwrap(),
        "Action=AssumeRole&Version=2011-06-15&RoleSessionName=turnpike&RoleArn=arn%3Aaws%3Aiam%3A%3A1%3Arole%2Fr\
         &DurationSeconds=3600&ExternalId=x%26y"
    );
    let authorization = request.headers["authorization"].to_str().unwrap();
    assert!(authorization.contains("Credential=AKID/20260801/eu-west-1/sts/aws4_request"), "{authorization}");
    let (requests, got) =
        run_exchange(exchange.as_ref(), &BTreeMap::from([("POST https://sts", (200, STS))]));
    assert_eq!(requests, ["POST https://sts.eu-west-1.amazonaws.com/ (outside)", "for 3600 s"]);
    assert_eq!(got, aws("ASIA1", "s/1+=", Some("t1==")));
}

#[test]
fn refusals_of_the_token_service_are_quoted() {
    let exchange = token_exchange(&account(None, Some("r"), true)).unwrap();
    let refused =
        "<ErrorResponse><Error><Code>AccessDenied</Code><Message>Not you.</Message></Error></ErrorResponse>";
    let error = |status, body| {
        run_exchange(exchange.as_ref(), &BTreeMap::from([("POST", (status, body))])).1.unwrap_err()
    };
    assert_eq!(error(403, refused), "The token service (STS) answered with status 403: Not you.");
    assert_eq!(error(502, "<html>"), "The token service (STS) answered with status 502");
    assert_eq!(error(200, "<html>"), "The token service (STS) answered without credentials.");
}

#[test]
fn an_instance_is_queried_by_imds_v2() {
    let exchange = token_exchange(&account(Some(AuthTypeA::ServiceRole), Some("ignored"), true)).unwrap();
    let role = "GET http://169.254.169.254/latest/meta-data/iam/security-credentials/my-role";
    let canned = BTreeMap::from([
        ("PUT http://169.254.169.254/latest/api/token", (200, "tok\n")),
        (role, (200, MACHINE)),
        ("GET http://169.254.169.254/latest/meta-data/iam/security-credentials/", (200, "my-role\n")),
    ]);
    // A request line is looked up exactly, not by its beginning: in map order the shorter URL would match
    // first.
    let canned: BTreeMap<&str, (u16, &str)> = canned;
    let mut responses = Vec::new();
    let mut requests = Vec::new();
    let got = loop {
        match exchange.next_step(&responses, now()).unwrap() {
            Step::Done(credentials, lifetime) => break (credentials, lifetime.as_secs()),
            Step::Request(request) => {
                let line = format!("{} {}", request.method, request.url);
                let (status, body) = canned.get(line.as_str()).copied().unwrap_or((404, ""));
                let sent_token =
                    request.headers.get("x-aws-ec2-metadata-token").map(|token| token.to_str().unwrap());
                assert_eq!(sent_token, line.starts_with("GET http").then_some("tok"), "{line}");
                assert!(request.is_metadata);
                responses.push(TokenResponse { status, body: body.as_bytes().to_vec() });
                requests.push(line);
            }
        }
    };
    assert_eq!(got, (aws_credentials("ASIA2", "s2", Some("t2")), 1800));
    assert_eq!(requests.last().map(String::as_str), Some(role));
}

#[test]
fn a_machine_without_a_role_is_reported() {
    let exchange = token_exchange(&account(Some(AuthTypeA::ServiceRole), None, false)).unwrap();
    let reason = run_exchange(exchange.as_ref(), &BTreeMap::new()).1.unwrap_err();
    assert_eq!(
        reason,
        "The instance's metadata server answered with status 404: is this an instance with a role?"
    );
}

#[test]
fn a_container_is_queried_at_the_url_in_its_environment() {
    let exchange = token_exchange(&account(Some(AuthTypeA::ServiceRole), None, false)).unwrap();
    let canned = BTreeMap::from([
        ("GET env:AWS_CONTAINER_CREDENTIALS_FULL_URI", (200, "http://169.254.170.23/v1/credentials")),
        ("GET env:AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", (200, "/var/run/token")),
        ("GET file:/var/run/token", (200, "secret-token\n")),
        ("GET http://169.254.170.23/v1/credentials", (200, MACHINE)),
    ]);
    let (requests, got) = run_exchange(exchange.as_ref(), &canned);
    assert_eq!(got, aws("ASIA2", "s2", Some("t2")));
    assert_eq!(requests.last().map(String::as_str), Some("for 1800 s"));
    let relative = BTreeMap::from([
        ("GET env:AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", (200, "/v2/credentials/1")),
        ("GET http://169.254.170.2/v2/credentials/1", (200, MACHINE)),
    ]);
    assert_eq!(run_exchange(exchange.as_ref(), &relative).1, aws("ASIA2", "s2", Some("t2")));
    for stranger in ["http://evil.example/", "ftp://127.0.0.1/", "http://10.0.0.1/", "x"] {
        let canned = BTreeMap::from([("GET env:AWS_CONTAINER_CREDENTIALS_FULL_URI", (200, stranger))]);
        let reason = run_exchange(exchange.as_ref(), &canned).1.unwrap_err();
        assert!(reason.contains("AWS_CONTAINER_CREDENTIALS_FULL_URI must be"), "{reason}");
    }
}

#[test]
fn a_role_is_assumed_with_the_machines_own_credentials() {
    let exchange = token_exchange(&account(Some(AuthTypeA::AssumedRole), Some("arn:r"), false)).unwrap();
    let keys = BTreeMap::from([
        ("GET env:AWS_ACCESS_KEY_ID", (200, "AKENV")),
        ("GET env:AWS_SECRET_ACCESS_KEY", (200, "senv")),
        ("POST https://sts.eu-west-1.amazonaws.com/", (200, STS)),
    ]);
    let (requests, got) = run_exchange(exchange.as_ref(), &keys);
    assert_eq!(got, aws("ASIA1", "s/1+=", Some("t1==")));
    assert_eq!(requests.len(), 5, "{requests:#?}");
    let workload = BTreeMap::from([
        ("GET env:AWS_WEB_IDENTITY_TOKEN_FILE", (200, "/t")),
        ("GET env:AWS_ROLE_ARN", (200, "arn:pod")),
        ("GET file:/t", (200, "jwt")),
        ("POST https://sts.eu-west-1.amazonaws.com/", (200, STS)),
    ]);
    let (requests, got) = run_exchange(exchange.as_ref(), &workload);
    assert_eq!(got, aws("ASIA1", "s/1+=", Some("t1==")));
    assert_eq!(requests.iter().filter(|line| line.starts_with("POST")).count(), 2, "{requests:#?}");
}

#[test]
fn only_the_same_credentials_have_the_same_name() {
    let key = |secret: &str, role: &str, external: &str| {
        let mut account = account(None, Some(role), true);
        account.cloud_a.secret_access_key = Some(Secret::new(secret));
        account.cloud_a.external_id = Some(external.to_owned());
        token_exchange(&account).unwrap().key()
    };
    assert_eq!(key("a", "r", "e"), key("a", "r", "e"));
    let others = [key("b", "r", "e"), key("a", "r2", "e"), key("a", "r", "e2")];
    assert!(others.iter().all(|other| *other != key("a", "r", "e")), "{others:?}");
    assert!(!key("hidden", "r", "e").contains("hidden"));
}

#[test]
fn a_role_that_is_not_named_cannot_be_assumed() {
    let error = token_exchange(&account(Some(AuthTypeA::AssumedRole), None, true)).unwrap_err();
    assert_eq!((error.status(), error.param.as_deref()), (400, Some("cloud_a_role_arn")));
}
