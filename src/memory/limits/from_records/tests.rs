//! What bodies mean, as the control plane writes them.

use super::*;
use crate::store::Status;
use serde_json::json;

fn record(kind: Kind, body: Value) -> Record {
    Record {
        kind,
        id: Uuid::from_u128(7),
        parent: None,
        workspace: Some(Uuid::from_u128(1)),
        slug: Some("own".to_owned()),
        number: None,
        status: Status::Active,
        revision: 1,
        created_at: Timestamp::UNIX_EPOCH,
        updated_at: Timestamp::UNIX_EPOCH,
        body: body.to_string().into(),
        sealed: None,
    }
}

fn limits(kind: Kind, body: Value) -> Vec<Limit> {
    let team = Record {
        id: Uuid::from_u128(5),
        slug: Some("team".to_owned()),
        ..record(Kind::Workspace, json!({}))
    };
    let catalog = Catalog::new([Arc::new(Record { workspace: None, ..team })], 1);
    limits_of(&record(kind, body), &catalog, Timestamp::UNIX_EPOCH)
}

#[test]
fn a_usage_policy() {
    let body = json!({
        "name": "a", "type": "cost", "credit_limit": 0.000_75, "alert_threshold": 0.0005, "periodic_reset": "weekly",
        "conditions": [{"key": "workspace_id", "value": ["team", "*"], "excludes": "x"}, {"key": "metadata._user", "value": "ann"}],
        "group_by": [{"key": "metadata._user"}, {"key": "model"}], "on_missing": "deny", "hard": true, "fit": true,
    });
    let team = Uuid::from_u128(5).to_string();
    let wanted = Limit {
        name: Some("a".into()),
        workspace: Some(Uuid::from_u128(1)),
        conditions: vec![
            Condition::new(FactKey::Workspace, [team.as_str(), "*"], ["x"]),
            Condition::new(FactKey::Metadata("_user".into()), ["ann"], []),
        ],
        group_by: vec![FactKey::Metadata("_user".into()), FactKey::Model],
        on_missing: OnMissing::Deny,
        hard: true,
        fit: true,
        ..Limit::new(
            Uuid::from_u128(7),
            LimitScope::Policy,
            LimitKind::Usage {
                of: UsageOf::Cost,
                credit: 750_000,
                alert_at: Some(500_000),
                reset: Reset::Weekly,
            },
        )
    };
    assert_eq!(limits(Kind::UsagePolicy, body), [wanted]);
}

#[test]
fn what_this_version_cannot_read_limits_nothing_rather_than_something_else() {
    let body = json!({"type": "cost", "credit_limit": 1, "conditions": [{"key": "of_tomorrow", "value": "*"}], "group_by": []});
    assert_eq!(limits(Kind::UsagePolicy, body), []);
    let body = json!({"type": "requests", "unit": "rpy", "value": 1, "conditions": [], "group_by": []});
    assert_eq!(limits(Kind::RatePolicy, body), []);
    assert_eq!(limits(Kind::Config, json!({"usage_limits": {"credit_limit": 1}})), []);
}

#[test]
fn members_of_keys_workspaces_and_providers() {
    let body = json!({
        "usage_limits": {"credit_limit": 2.5, "type": "tokens", "periodic_reset_days": 3, "next_usage_reset_at": "2026-05-09T00:00:00.000Z"},
        "rate_limits": [{"unit": "rpm", "value": 2.5, "smooth": true}, {"type": "tokens", "unit": "rpw", "value": 9}],
        "usage_resets": 3,
    });
    let found = limits(Kind::ApiKey, body.clone());
    let days = Reset::Days { days: 3, from: Date::constant(2026, 5, 9) };
    let kinds: Vec<_> = found.iter().map(|limit| (limit.index, limit.kind)).collect();
    let of = UsageOf::Tokens;
    assert_eq!(
        kinds,
        [
            (20, LimitKind::Usage { of, credit: 3, alert_at: None, reset: days }),
            (70, LimitKind::Rate { of: RateOf::Requests, unit: RateUnit::Minute, value: 2 }),
            (118, LimitKind::Rate { of: RateOf::Tokens, unit: RateUnit::Week, value: 9 }),
        ]
    );
    assert!(
        found[1].smooth && found.iter().all(|limit| limit.scope == LimitScope::Key && limit.generation == 3)
    );
    let list = json!({"usage_limits": [{"credit_limit": 1}, {"alert_threshold": 1}, {}]});
    let found = limits(Kind::Workspace, list);
    assert_eq!(
        found.iter().map(|limit| (limit.index, limit.value())).collect::<Vec<_>>(),
        [(0, 1_000_000_000), (1, i64::MAX)]
    );
    let both = json!({"usage_limits": {"credit_limit": 1}, "integration_rate_limits": [{"unit": "rps", "value": 1}]});
    let found = limits(Kind::Provider, both);
    let scopes: Vec<_> = found.iter().map(|limit| (limit.scope, limit.index)).collect();
    assert_eq!(scopes, [(LimitScope::Provider, 0), (LimitScope::Integration, 192)]);
}

/// Usage is kept under the index, so what a limit counts decides it, and not where it stands.
#[test]
fn no_limit_has_the_index_of_one_that_counts_something_else() {
    let mut taken = std::collections::HashMap::new();
    let one = |of: &str| json!({"usage_limits": [{"type": of, "credit_limit": 1}]});
    for of in ["cost", "tokens", "requests"] {
        let found = limits(Kind::Workspace, one(of));
        assert!(taken.insert(found[0].index, of.to_owned()).is_none(), "{of}");
        let second =
            json!({"usage_limits": [{"type": "tokens", "credit_limit": 7}, {"type": of, "credit_limit": 1}]});
        let moved = limits(Kind::Workspace, second);
        assert_eq!(moved[1].index, found[0].index + u8::from(of == "tokens"), "{of}");
    }
    for (of, unit) in ["requests", "tokens"].into_iter().flat_map(|of| RateUnit::ALL.map(|unit| (of, unit))) {
        let rate = json!({"type": of, "unit": unit.as_str(), "value": 1});
        let found = limits(Kind::ApiKey, json!({"rate_limits": vec![rate; 7]}));
        assert_eq!(found.len(), MAX_SAME_RATES);
        for limit in found {
            assert!(limit.index < 128);
            assert!(taken.insert(limit.index, format!("{of} {unit:?}")).is_none(), "{limit:?}");
        }
    }
    // A first one was taken away: the second keeps its number.
    let numbered = json!({"usage_limits": [{"credit_limit": 1}, {"type": "tokens", "credit_limit": 1}], "usage_limit_numbers": [1, 0]});
    let indices: Vec<u8> = limits(Kind::Workspace, numbered).iter().map(|limit| limit.index).collect();
    assert_eq!(indices, [1, 20]);
}

#[test]
fn amounts_are_exact() {
    let amount = |text: &str, decimals, up| whole(&serde_json::from_str(text).unwrap(), decimals, up);
    for (text, decimals, below, above) in [
        ("0.1", 9, 100_000_000, 100_000_000),
        ("0.00075", 9, 750_000, 750_000),
        ("7.5e-4", 9, 750_000, 750_000),
        ("1e-10", 9, 0, 1),
        ("1e-300", 9, 0, 1),
        ("0", 9, 0, 0),
        ("9000000000", 9, 9_000_000_000_000_000_000, 9_000_000_000_000_000_000),
        ("1e300", 9, i64::MAX, i64::MAX),
        ("2.5", 0, 2, 3),
        ("2.0", 0, 2, 2),
        ("1.1", 9, 1_100_000_000, 1_100_000_000),
        ("9e15", 0, 9_000_000_000_000_000, 9_000_000_000_000_000),
    ] {
        assert_eq!((amount(text, decimals, false), amount(text, decimals, true)), (below, above), "{text}");
    }
}

#[test]
fn keys_of_the_settings_have_limits_under_their_name() {
    use words::config::secret::Secret;
    use words::settings::KeyLimits;
    use words::settings::scopes::ScopeSet;
    use words::settings::service_key::KeyValue;
    let usage = vec![json!({"type": "requests", "credit_limit": 3})];
    let rates = vec![json!({"type": "tokens", "unit": "rph", "value": 8})];
    let key = ServiceKey {
        name: "a".to_owned(),
        key: KeyValue::Text(Secret::new("k")),
        scopes: ScopeSet::all(),
        workspace: None,
        log_payloads: None,
        priority: None,
        allowed_models: None,
        limits: KeyLimits { usage, rates },
    };
    let found = limits_of_key(&key, Timestamp::UNIX_EPOCH);
    let values: Vec<_> = found.iter().map(|limit| (limit.id, limit.index, limit.value())).collect();
    let id = settings_key_id("a");
    assert_eq!(values, [(id, 40, 3), (id, 106, 8)]);
    assert_eq!(found[0].conditions, [Condition::new(FactKey::ApiKey, ["a"], [])]);
    assert_ne!(settings_key_id("b"), id);
}

#[test]
fn a_limit_of_a_settings_key_is_for_its_requests_alone() {
    use crate::limits::{BucketHash, Facts, Id, LimitSet, Phase};
    let condition = Condition::new(FactKey::ApiKey, ["a"], []);
    let kind = LimitKind::Rate { of: RateOf::Requests, unit: RateUnit::Minute, value: 1 };
    let limit =
        Limit { conditions: vec![condition], ..Limit::new(settings_key_id("a"), LimitScope::Key, kind) };
    let set = LimitSet::new(vec![limit], BucketHash::random());
    for (key, wanted) in [
        (Some(Id::Settings("a")), 1),
        (Some(Id::Settings("b")), 0),
        (Some(Id::Record(settings_key_id("a"))), 0),
        (None, 0),
    ] {
        let nothing: &[(&str, &str)] = &[];
        let facts = Facts {
            organisation: None,
            workspace: None,
            api_key: key,
            config: None,
            prompt: None,
            endpoint_type: None,
            metadata: &nothing,
            target: None,
        };
        assert_eq!(set.select(&facts, Phase::Request).unwrap().limits().count(), wanted, "{key:?}");
    }
}

#[test]
fn an_integration_limits_each_workspace() {
    use crate::limits::{BucketHash, Facts, LimitSet, Phase, TargetFacts};
    let [with_entry, without_limits, other] = [1, 2, 3].map(Uuid::from_u128);
    let body = json!({
        "workspaces": [
            {"id": with_entry, "enabled": true, "usage_limits": [{"credit_limit": 1}], "rate_limits": [{"unit": "rpm", "value": 5}], "usage_resets": 2},
            {"id": without_limits, "enabled": true},
        ],
        "global_workspace_access": {"enabled": true, "usage_limits": [{"type": "tokens", "credit_limit": 9}]},
    });
    let integration = Uuid::from_u128(7);
    let found = limits(Kind::Provider, body);
    assert!(found.iter().all(|limit| (limit.scope, limit.record) == (LimitScope::Integration, integration)));
    let set = LimitSet::new(found, BucketHash::random());
    let selected = |workspace, integration| {
        let nothing: &[(&str, &str)] = &[];
        let target = TargetFacts {
            model: None,
            provider: "openai",
            virtual_key: None,
            integration: Some(integration),
        };
        let facts = Facts {
            organisation: None,
            workspace,
            api_key: None,
            config: None,
            prompt: None,
            endpoint_type: None,
            metadata: &nothing,
            target: Some(target),
        };
        let selection = set.select(&facts, Phase::Target).unwrap();
        let each = selection.items.iter();
        let mut each: Vec<_> =
            each.map(|item| (item.limit.value(), item.limit.generation, item.bucket)).collect();
        each.sort_unstable();
        each
    };
    let values = |of: Vec<(i64, u32, u128)>| -> Vec<_> {
        of.into_iter().map(|(value, generation, _)| (value, generation)).collect()
    };
    assert_eq!(values(selected(Some(with_entry), integration)), [(5, 2), (1_000_000_000, 2)]);
    assert_eq!(values(selected(Some(without_limits), integration)), []);
    assert_eq!(values(selected(None, integration)), []);
    assert_eq!(values(selected(Some(with_entry), other)), [], "another integration");
    // Each of the others by itself.
    let one = selected(Some(other), integration);
    let two = selected(Some(Uuid::from_u128(4)), integration);
    assert_eq!((one.len(), one[0].0, two[0].0), (1, 9, 9));
    assert_ne!(one[0].2, two[0].2);
}

/// A raise adds until its time, in the unit of what it raises; then the limit is as before.
#[test]
fn a_limit_is_raised_for_a_while() {
    let until: Timestamp = "2026-12-01T00:00:00Z".parse().unwrap();
    let raise = |amount: f64| json!({"amount": amount, "until": "2026-12-01T00:00:00.000Z"});
    let catalog = Catalog::default();
    for (kind, body, usual, raised) in [
        (
            Kind::UsagePolicy,
            json!({"type": "cost", "credit_limit": 5, "raise": raise(2.5), "conditions": [], "group_by": []}),
            5_000_000_000,
            7_500_000_000,
        ),
        (
            Kind::ApiKey,
            json!({"usage_limits": {"type": "tokens", "credit_limit": 100, "raise": raise(50.0)}}),
            100,
            150,
        ),
        (
            Kind::Workspace,
            json!({"usage_limits": [{"type": "requests", "credit_limit": 7, "hard": true, "raise": raise(1.9)}]}),
            7,
            8,
        ),
        (
            Kind::Provider,
            json!({"usage_limits": {"credit_limit": 1, "raise": raise(1.0)}}),
            1_000_000_000,
            2_000_000_000,
        ),
    ] {
        let record = record(kind, body);
        let at = |now: Timestamp| limits_of(&record, &catalog, now).pop().unwrap();
        let before = at(until.checked_sub(jiff::SignedDuration::from_millis(1)).unwrap());
        assert_eq!((before.value(), before.raised_until), (raised, Some(until.as_millisecond())), "{kind:?}");
        let after = at(until);
        assert_eq!((after.value(), after.raised_until), (usual, None), "{kind:?}");
        assert_eq!((before.id, before.index), (after.id, after.index));
    }
}

/// What was used elsewhere is taken off until its time, in the unit of the limit, and shown with what is used here.
#[test]
fn a_budget_of_elsewhere_goes_on() {
    let until: Timestamp = "2026-12-01T00:00:00Z".parse().unwrap();
    let before = |amount: f64| json!({"amount": amount, "until": "2026-12-01T00:00:00.000Z"});
    let catalog = Catalog::default();
    for (kind, body, usual, left) in [
        (
            Kind::UsagePolicy,
            json!({"type": "cost", "credit_limit": 5, "used_before": before(3.21), "conditions": [], "group_by": []}),
            5_000_000_000,
            1_790_000_000,
        ),
        (
            Kind::ApiKey,
            json!({"usage_limits": {"credit_limit": 2, "used_before": before(2.0)}}),
            2_000_000_000,
            0,
        ),
        (
            Kind::ApiKey,
            json!({"usage_limits": {"credit_limit": 2, "used_before": before(9.5)}}),
            2_000_000_000,
            0,
        ),
        (
            Kind::Workspace,
            json!({"usage_limits": [{"type": "tokens", "credit_limit": 100, "used_before": before(30.0)}]}),
            100,
            70,
        ),
    ] {
        let record = record(kind, body);
        let at = |now: Timestamp| limits_of(&record, &catalog, now).pop().unwrap();
        let during = at(until.checked_sub(jiff::SignedDuration::from_millis(1)).unwrap());
        assert_eq!((during.value(), during.shown_value()), (left, usual), "{kind:?}");
        assert_eq!(during.changes_at, Some(until.as_millisecond()));
        assert_eq!(during.shown_usage(1), during.used_before + 1);
        let after = at(until);
        assert_eq!((after.value(), after.used_before, after.changes_at), (usual, 0, None), "{kind:?}");
    }
    let always =
        record(Kind::ApiKey, json!({"usage_limits": {"alert_threshold": 3, "used_before": {"amount": 1}}}));
    let always = limits_of(&always, &catalog, until).pop().unwrap();
    assert_eq!(
        (always.value(), always.alert_at(), always.shown_alert_at()),
        (i64::MAX, Some(2_000_000_000), Some(3_000_000_000))
    );
    assert_eq!(always.changes_at, None);
}

#[test]
fn a_policy_may_begin_anew_when_it_is_idle() {
    let body = json!({
        "type": "requests", "credit_limit": 200, "reset_after_idle_minutes": 60, "conditions": [],
        "group_by": [{"key": "metadata._session"}],
    });
    let found = limits(Kind::UsagePolicy, body);
    let kind = LimitKind::Usage {
        of: UsageOf::Requests,
        credit: 200,
        alert_at: None,
        reset: Reset::Idle { minutes: 60 },
    };
    assert_eq!(found[0].kind, kind);
}
