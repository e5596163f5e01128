//! Tokens signed here, each wrong in one way, and what the claims of good ones come to.

use super::*;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair};
use serde_json::json;
use words::config::Checks;
use words::settings::{SecretSources, Settings};

const NOW: i64 = 1_900_000_000;

fn jwt_settings(more: &str) -> Jwt {
    let yaml = format!(
        "auth: {{jwt: {{jwks_url: 'https://id.example.com/jwks', issuer: 'https://id.example.com', audience: turnpike{more}}}}}\n"
    );
    let checks = Checks::NONE;
    let sources = SecretSources { env: &|_| None, credential: &|_| Err(String::new()) };
    Settings::parse(&yaml, &sources, &checks).unwrap().auth.jwt.unwrap()
}

fn encode(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// An identity provider with two keys.
struct Provider {
    ec: EcdsaKeyPair,
    ed: Ed25519KeyPair,
}

impl Provider {
    fn new() -> Self {
        let random = SystemRandom::new();
        let document = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).unwrap();
        let ec =
            EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, document.as_ref(), &random).unwrap();
        let ed =
            Ed25519KeyPair::from_pkcs8(Ed25519KeyPair::generate_pkcs8(&random).unwrap().as_ref()).unwrap();
        Self { ec, ed }
    }

    fn key_set(&self) -> Value {
        let point = self.ec.public_key().as_ref();
        json!({"keys": [
            {"kty": "EC", "crv": "P-256", "kid": "ec", "alg": "ES256", "x": encode(&point[1..33]), "y": encode(&point[33..])},
            {"kty": "OKP", "crv": "Ed25519", "kid": "ed", "use": "sig", "x": encode(self.ed.public_key())},
            {"kty": "oct", "kid": "shared", "k": encode("a secret that anyone may know")},
            {"kty": "OKP", "crv": "Ed25519", "kid": "enc", "use": "enc", "x": encode(self.ed.public_key())},
            {"kty": "of tomorrow", "kid": "new"}, 7,
        ]})
    }

    fn tokens(&self, more: &str) -> Tokens {
        let tokens = Tokens::new(jwt_settings(more));
        tokens.set_keys(KeySet::parse(self.key_set().to_string().as_bytes()).unwrap());
        tokens
    }

    fn sign(&self, header: &Value, claims: &Value) -> String {
        let message = format!("{}.{}", encode(header.to_string()), encode(claims.to_string()));
        let signature = match header["alg"].as_str() {
            Some("ES256") => {
                self.ec.sign(&SystemRandom::new(), message.as_bytes()).unwrap().as_ref().to_vec()
            }
            _ => self.ed.sign(message.as_bytes()).as_ref().to_vec(),
        };
        format!("{message}.{}", encode(signature))
    }

    fn token(&self, claims: &Value) -> String {
        self.sign(&json!({"alg": "EdDSA", "kid": "ed", "typ": "JWT"}), claims)
    }
}

fn claims() -> Value {
    json!({"iss": "https://id.example.com", "aud": ["other", "turnpike"], "sub": "ann", "exp": NOW + 600,
        "workspace_slug": "team", "scope": "completions.write vendor.prompts.render nope workspaces.create"})
}

fn team(name: &str) -> Option<Option<Uuid>> {
    (name == "team").then_some(Some(Uuid::from_u128(7)))
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

#[test]
fn a_good_token_becomes_the_identity_of_its_claims() {
    let provider = Provider::new();
    let tokens = provider.tokens("");
    for header in
        [json!({"alg": "ES256", "kid": "ec", "typ": "at+jwt"}), json!({"alg": "EdDSA", "kid": "ed"})]
    {
        let token = provider.sign(&header, &claims());
        assert!(has_form(&token) && tokens.is_ours(token.as_bytes()));
        let identity = tokens.verify(&token, &team, at(NOW)).unwrap();
        assert_eq!((identity.kind, identity.workspace), (IdentityKind::Jwt, Some(Uuid::from_u128(7))));
        assert!(identity.is_bound && identity.name.as_deref() == Some("ann"));
        let scopes: Vec<_> = identity.scopes.iter().map(Scope::as_str).collect();
        assert_eq!(
            scopes,
            ["prompts.render", "completions.write"],
            "no others, and none of the organisation"
        );
        assert_eq!(identity.expires_at, Some(at(NOW + 600)));
    }
}

#[test]
fn a_person_is_the_issuer_and_the_subject_alone() {
    let provider = Provider::new();
    let tokens = provider.tokens("");
    let header = json!({"alg": "EdDSA", "kid": "ed"});
    let person = |more: Value| {
        let mut all = claims();
        all.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let token = provider.sign(&header, &all);
        let shown = tokens.verify(&token, &team, at(NOW)).unwrap().shown.clone().unwrap();
        assert_eq!(shown.text.expose(), token);
        shown.person
    };
    let first = person(json!({"sub": "1", "email_id": "ann"}));
    assert_eq!(first, person(json!({"sub": "1", "email_id": "bob", "jti": "2"})));
    assert_ne!(first, person(json!({"sub": "2", "email_id": "ann"})));
    // Users may write other claims themselves: without a subject a token is nobody else's.
    let alone = person(json!({"sub": null, "email_id": "1"}));
    assert_ne!(alone, first);
    assert_ne!(alone, person(json!({"sub": null, "email_id": "1", "jti": "3"})));
}

#[test]
fn tokens_are_exchanged_where_the_settings_allow_it() {
    let tokens = Tokens::new(jwt_settings(", exchange_urls: ['https://sts.example.net:8443/token']"));
    for (url, is_open) in [
        ("https://id.example.com/oauth/token", true),
        ("https://ID.example.com:443/other?x=1", true),
        ("https://sts.example.net:8443/any", true),
        ("https://sts.example.net/token", false),
        ("http://id.example.com/oauth/token", false),
        ("https://id.example.com.evil.example/token", false),
        ("https://id.example.com@evil.example/token", false),
        ("https://evil.example/https://id.example.com/", false),
        ("", false),
    ] {
        assert_eq!(tokens.may_exchange_at(url), is_open, "{url}");
    }
}

#[test]
fn rsa_tokens_count_with_long_keys_and_their_own_algorithm() {
    let golden: Value = serde_json::from_str(include_str!("../../../../tests/golden/jwt/rsa.json")).unwrap();
    let tokens = Tokens::new(jwt_settings(""));
    tokens.set_keys(KeySet::parse(golden["jwks"].to_string().as_bytes()).unwrap());
    for (name, wanted) in [
        ("RS256", None),
        ("RS512", None),
        ("PS256", None),
        ("short", Some(TokenRefusal::Signature)),
        ("RS512 with a key for RS256", Some(TokenRefusal::Algorithm)),
    ] {
        let found = tokens.verify(golden[name].as_str().unwrap(), &team, at(NOW));
        assert_eq!(found.err(), wanted, "{name}");
    }
}

/// The claims with another value for one of them, or without it.
fn changed_claims(name: &str, value: Option<Value>) -> Value {
    let mut claims = claims();
    match value {
        Some(value) => claims[name] = value,
        None => drop(claims.as_object_mut().unwrap().remove(name)),
    }
    claims
}

#[test]
fn a_token_with_one_thing_wrong_is_refused() {
    let provider = Provider::new();
    let tokens = provider.tokens("");
    let ed = json!({"alg": "EdDSA", "kid": "ed", "typ": "JWT"});
    let header = |name: &str, value: Value| {
        let mut header = ed.clone();
        header[name] = value;
        provider.sign(&header, &claims())
    };
    let claim = |name: &str, value: Value| provider.token(&changed_claims(name, Some(value)));
    let without = |name: &str| provider.token(&changed_claims(name, None));
    let good = provider.token(&claims());
    let (message, signature) = good.rsplit_once('.').unwrap();
    let stranger = Provider::new().token(&claims());
    let payload = good.split('.').nth(1).unwrap();
    let unsigned = format!("{}.{payload}.", encode(json!({"alg": "none", "kid": "ed"}).to_string()));
    // The classic confusion: the public key as the secret of an HMAC.
    let hs = json!({"alg": "HS256", "kid": "ed"});
    let hs_message = format!("{}.{payload}", encode(hs.to_string()));
    let hmac = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, provider.ed.public_key().as_ref());
    let confused = format!("{hs_message}.{}", encode(ring::hmac::sign(&hmac, hs_message.as_bytes())));
    let shared = confused
        .replace(&encode(hs.to_string()), &encode(json!({"alg": "HS256", "kid": "shared"}).to_string()));
    for (token, wanted) in [
        (unsigned, TokenRefusal::Algorithm),
        (confused, TokenRefusal::Algorithm),
        (shared, TokenRefusal::Algorithm),
        (header("alg", json!("ES256")).replace(' ', ""), TokenRefusal::Algorithm),
        (header("typ", json!("JOSE")), TokenRefusal::Type),
        (header("crit", json!(["exp"])), TokenRefusal::Malformed),
        (header("crit", json!([])), TokenRefusal::Malformed),
        (header("kid", Value::Null), TokenRefusal::KidMissing),
        (header("kid", json!("gone")), TokenRefusal::KidUnknown),
        (header("kid", json!("enc")), TokenRefusal::KidUnknown),
        (header("kid", json!("shared")), TokenRefusal::KidUnknown),
        (stranger, TokenRefusal::Signature),
        (format!("{message}.{}", signature.chars().rev().collect::<String>()), TokenRefusal::Signature),
        (claim("exp", json!(NOW - 60)), TokenRefusal::Expired),
        (claim("exp", json!("2033")), TokenRefusal::Malformed),
        (without("exp"), TokenRefusal::ClaimMissing),
        (claim("nbf", json!(NOW + 61)), TokenRefusal::NotYetValid),
        (claim("iat", json!(NOW + 61)), TokenRefusal::NotYetValid),
        (claim("iss", json!("https://id.example.com/")), TokenRefusal::Issuer),
        (claim("aud", json!(["other"])), TokenRefusal::Audience),
        (without("aud"), TokenRefusal::Audience),
        (without("workspace_slug"), TokenRefusal::ClaimMissing),
        (claim("workspace_slug", json!("gone")), TokenRefusal::WorkspaceUnknown),
        (without("sub"), TokenRefusal::ClaimMissing),
        (claim("role", json!(["member"])), TokenRefusal::Role),
        (claim("role", json!({"member": true})), TokenRefusal::Role),
        (claim("role", json!(5)), TokenRefusal::Role),
        (claim("role", Value::Null), TokenRefusal::Role),
        ("eyJ.a.b".to_owned(), TokenRefusal::Malformed),
        (format!("{good}{}", "a".repeat(20_000)), TokenRefusal::Malformed),
    ] {
        assert_eq!(tokens.verify(&token, &team, at(NOW)).err(), Some(wanted), "{token}");
    }
    for token in [claim("exp", json!(NOW - 59)), claim("nbf", json!(NOW + 60))] {
        assert!(tokens.verify(&token, &team, at(NOW)).is_ok(), "within the leeway");
    }
}

#[test]
fn a_remembered_token_ends_with_its_time_its_workspace_and_its_key() {
    let provider = Provider::new();
    let tokens = provider.tokens("");
    let token = provider.token(&claims());
    let first = tokens.verify(&token, &team, at(NOW)).unwrap();
    assert!(Arc::ptr_eq(&first, &tokens.verify(&token, &team, at(NOW + 100)).unwrap()), "remembered");
    assert_eq!(tokens.verify(&token, &|_| None, at(NOW)).err(), Some(TokenRefusal::WorkspaceUnknown));
    assert_eq!(tokens.verify(&token, &team, at(NOW + 660)).err(), Some(TokenRefusal::Expired));
    tokens.set_keys(KeySet::parse(Provider::new().key_set().to_string().as_bytes()).unwrap());
    assert_eq!(tokens.verify(&token, &team, at(NOW)).err(), Some(TokenRefusal::Signature));
    let other = Tokens::new(jwt_settings(""));
    assert_eq!(other.verify(&token, &team, at(NOW)).err(), Some(TokenRefusal::KidUnknown));
    other.take_over(&tokens);
    assert_eq!(other.verify(&token, &team, at(NOW)).err(), Some(TokenRefusal::Signature));
}

#[test]
fn claims_are_mapped_by_the_settings() {
    let provider = Provider::new();
    let more = ", workspace: team, default_scopes: [configs.list], claims: {user: /person/mail, scopes: /access/roles, \
                role: kind, defaults: gateway}";
    let tokens = provider.tokens(more);
    let mut given = claims();
    given.as_object_mut().unwrap().remove("workspace_slug");
    given["person"] = json!({"mail": "ann@example.com"});
    given["gateway"] =
        json!({"config_id": "pc-a", "metadata": {"team": "a", "n": 1}, "allowed_models": ["gpt-4o*", 5]});
    let bare = tokens.verify(&provider.token(&given), &team, at(NOW)).unwrap();
    assert_eq!(bare.user.as_deref(), Some("ann@example.com"));
    assert_eq!(bare.scopes, [Scope::ConfigsList].into_iter().collect());
    assert_eq!(bare.defaults.config_id.as_deref(), Some("pc-a"));
    assert_eq!(bare.defaults.metadata, [("team".into(), "a".into())]);
    let allowed = bare.defaults.allowed_models.as_ref().unwrap();
    assert!(allowed.allows("gpt-4o-mini") && !allowed.allows("o9"));
    given["access"] = json!({"roles": ["configs.read", "logs.read", "audit_logs.list"]});
    given["kind"] = json!("member");
    let mapped = tokens.verify(&provider.token(&given), &team, at(NOW)).unwrap();
    assert_eq!((mapped.role, mapped.user.as_deref()), (Some(Role::Member), Some("ann@example.com")));
    assert_eq!(mapped.scopes, [Scope::ConfigsRead, Scope::LogsView].into_iter().collect());
    assert_eq!(bare.id, mapped.id, "another token of the same person is the same client");
}

#[test]
fn the_models_of_a_claim_are_a_list_or_one_name_and_anything_else_allows_none() {
    let provider = Provider::new();
    let tokens = provider.tokens(", workspace: team, claims: {defaults: gateway}");
    for (allowed_models, wanted) in [
        (json!(["gpt-4o*"]), [true, false]),
        (json!("gpt-4o*"), [true, false]),
        (json!(""), [false, false]),
        (json!([]), [false, false]),
        (json!({"gpt-4o": true}), [false, false]),
        (json!(5), [false, false]),
        (json!(null), [true, true]),
    ] {
        let mut given = claims();
        given.as_object_mut().unwrap().remove("workspace_slug");
        given["gateway"] = json!({"allowed_models": allowed_models});
        let client = tokens.verify(&provider.token(&given), &team, at(NOW)).unwrap();
        let allowed = client.defaults.allowed_models.as_ref();
        let found = ["gpt-4o-mini", "o9"].map(|model| allowed.is_none_or(|allowed| allowed.allows(model)));
        assert_eq!(found, wanted, "{allowed_models}");
    }
}

const WANTED: &str = "policies.create policies.list workspaces.create workspaces.list configs.create completions.write audit_logs.list";

/// The role of a token that names this one, and what it holds of `WANTED`; `None`: it is refused. `more`: of the settings.
fn held(more: &str, role: &str, workspace: Option<&str>) -> Option<(Option<Role>, String)> {
    let provider = Provider::new();
    let mut given = claims();
    given["role"] = json!(role);
    given["scope"] = json!(WANTED);
    given["workspace_slug"] = json!(workspace);
    let found = provider.tokens(more).verify(&provider.token(&given), &team, at(NOW)).ok()?;
    assert_eq!((found.is_bound, found.workspace.is_some()), (workspace.is_some(), workspace.is_some()));
    Some((found.role, sorted(&found.scopes.iter().map(Scope::as_str).collect::<Vec<_>>().join(" "))))
}

fn sorted(scopes: &str) -> String {
    let mut names: Vec<&str> = scopes.split(' ').collect();
    names.sort_unstable();
    names.join(" ")
}

#[test]
fn a_role_that_the_settings_name_writes_and_acts_for_the_organisation() {
    let both = ", write_roles: [owner, manager], organisation_roles: [owner, admin]";
    let team = Some("team");
    let reads = "policies.list configs.create completions.write workspaces.list";
    let writes = "policies.create policies.list configs.create completions.write workspaces.list";
    let reads_all = "policies.list workspaces.list audit_logs.list";
    let writes_all =
        "policies.create policies.list workspaces.create workspaces.list configs.create audit_logs.list";
    for (more, role, workspace, wanted) in [
        ("", "admin", team, Some((Role::WorkspaceAdmin, reads))),
        ("", "owner", None, None),
        (both, "admin", team, Some((Role::WorkspaceAdmin, reads))),
        (both, "manager", team, Some((Role::Manager, writes))),
        (both, "owner", team, Some((Role::WorkspaceAdmin, writes))),
        (both, "admin", None, Some((Role::Admin, reads_all))),
        (both, "owner", None, Some((Role::Owner, writes_all))),
        (both, "manager", None, None),
    ] {
        let wanted = wanted.map(|(role, scopes)| (Some(role), sorted(scopes)));
        assert_eq!(held(more, role, workspace), wanted, "{more} {role} {workspace:?}");
    }
}

#[test]
fn an_unlisted_role_gives_what_a_member_may() {
    let provider = Provider::new();
    let defaults: &[Scope] = &[Scope::WorkspacesUpdate, Scope::ConfigsCreate, Scope::LogsView];
    let tokens = provider.tokens(
        ", write_roles: [owner, admin], default_scopes: [workspaces.update, configs.create, logs.view]",
    );
    let of = |role: &str| {
        let mut given = claims();
        given["role"] = json!(role);
        given.as_object_mut().unwrap().retain(|name, _| !name.starts_with("scope"));
        let found = tokens.verify(&provider.token(&given), &team, at(NOW)).unwrap();
        let allowed = roles::allowed(&found, &roles::client_role(&found, &crate::store::Catalog::default()));
        (found.role, allowed)
    };
    let member = of("member");
    assert_eq!(member, (Some(Role::Member), [Scope::LogsView].into_iter().collect()));
    for role in
        ["Member", "MEMBER", "Admin", "OWNER", "viewer", "guest", "member ", " admin", "", "manager,admin"]
    {
        assert_eq!(of(role), member, "{role:?}");
    }
    assert_eq!(of("admin"), (Some(Role::WorkspaceAdmin), defaults.iter().copied().collect()));
}

#[test]
fn default_scopes_let_a_token_of_the_organisation_write_only_by_its_role() {
    let provider = Provider::new();
    let mut given = claims();
    given.as_object_mut().unwrap().retain(|name, _| name != "scope" && name != "workspace_slug");
    given["role"] = json!("owner");
    let scopes = "organisation_roles: [owner], default_scopes: [configs.create, configs.list]";
    for (more, wanted) in [
        (format!(", {scopes}"), &[Scope::ConfigsList][..]),
        (format!(", write_roles: [owner], {scopes}"), &[Scope::ConfigsCreate, Scope::ConfigsList]),
    ] {
        let found = provider.tokens(&more).verify(&provider.token(&given), &team, at(NOW)).unwrap();
        assert!(!found.is_bound);
        assert_eq!(found.scopes, wanted.iter().copied().collect(), "{more}");
    }
}

#[test]
fn only_the_documented_claims_choose_a_workspace() {
    let provider = Provider::new();
    let verify = |more: &str, name: &str| {
        let mut given = claims();
        let slug = given.as_object_mut().unwrap().remove("workspace_slug").unwrap();
        given[name] = slug;
        provider.tokens(more).verify(&provider.token(&given), &team, at(NOW)).map(|found| found.workspace)
    };
    let in_team = Ok(Some(Uuid::from_u128(7)));
    for name in ["workspace_slug", "portkey_workspace"] {
        assert_eq!(verify("", name), in_team, "{name}");
    }
    for name in ["my_workspace", "x_workspace", "_workspace", "workspace", "Workspace_slug"] {
        assert_eq!(verify("", name), Err(TokenRefusal::ClaimMissing), "{name}");
    }
    assert_eq!(verify(", claims: {workspace: my_workspace}", "my_workspace"), in_team);
    assert_eq!(
        verify(", claims: {workspace: my_workspace}", "portkey_workspace"),
        Err(TokenRefusal::ClaimMissing)
    );
}

#[test]
fn the_workspace_of_those_that_name_none_is_not_for_tokens_of_the_organisation() {
    let provider = Provider::new();
    let tokens = provider.tokens(", organisation_roles: [owner], workspace: team");
    let mut given = claims();
    given.as_object_mut().unwrap().remove("workspace_slug");
    for (role, is_bound) in [("owner", false), ("member", true)] {
        given["role"] = json!(role);
        let token = provider.token(&given);
        for _ in 0..2 {
            let found = tokens.verify(&token, &team, at(NOW)).unwrap();
            assert_eq!((found.is_bound, found.workspace.is_some()), (is_bound, is_bound), "{role}");
        }
    }
}

#[test]
fn a_set_without_a_usable_key_is_refused() {
    for (text, part) in [
        ("", "no JSON Web Key Set"),
        ("[]", "no JSON Web Key Set"),
        (r#"{"keys":[]}"#, "no public key"),
        (r#"{"keys":[{"kty":"oct","kid":"a","k":"YQ"}]}"#, "no public key"),
    ] {
        assert!(KeySet::parse(text.as_bytes()).unwrap_err().contains(part), "{text}");
    }
}
