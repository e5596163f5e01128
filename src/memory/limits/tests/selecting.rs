//! Which limits are for a request: scopes, conditions, groups, missing values.

use super::*;

const NOON: &str = "2026-11-22T12:00:00Z";
const WORKSPACE: Uuid = Uuid::from_u128(0x77);
const KEY: Uuid = Uuid::from_u128(0x88);
const PROVIDER: Uuid = Uuid::from_u128(0x99);

const NONE: &[(&str, &str)] = &[];

fn request() -> Facts<'static> {
    Facts {
        workspace: Some(WORKSPACE),
        api_key: Some(Id::Record(KEY)),
        config: Some(Named { slug: "pc-main", id: Id::Settings("pc-main") }),
        endpoint_type: Some("chatComplete"),
        ..facts(&NONE)
    }
}

fn attempt() -> Facts<'static> {
    let target = TargetFacts {
        model: Some("gpt-4o"),
        provider: "openai",
        virtual_key: Some(Named { slug: "emu", id: Id::Record(PROVIDER) }),
        integration: None,
    };
    Facts { target: Some(target), ..request() }
}

fn selects(limit: Limit, facts: &Facts<'_>, phase: Phase) -> bool {
    let set = LimitSet::new(vec![limit], BucketHash::random());
    !set.select(facts, phase).unwrap().is_empty()
}

fn rpm() -> LimitKind {
    rate(RateOf::Requests, RateUnit::Minute, 5)
}

#[test]
fn conditions_compare_the_values_of_the_reference() {
    // (key, values, excludes, whether it is for the attempt)
    let id = KEY.to_string();
    let cases: &[(&str, &[&str], &[&str], bool)] = &[
        ("model", &["@emu/gpt-4o"], &[], true),
        ("model", &["@openai/gpt-4o"], &[], true),
        ("model", &["gpt-4o"], &[], true),
        ("model", &["@emu/*"], &[], true),
        ("model", &["@em/*"], &[], false),
        ("model", &["@emu/gpt-4*"], &[], false),
        ("model", &["gpt-4"], &[], false),
        ("model", &["*"], &["@emu/*"], false),
        ("model", &["x", "@emu/gpt-4o"], &[], true),
        ("model", &[], &["@emu/gpt-5"], true),
        ("provider", &["openai"], &[], true),
        ("provider", &["emu"], &[], false),
        ("provider", &["open*"], &[], false),
        ("virtual_key", &["emu"], &[], true),
        ("api_key", &[&id], &[], true),
        ("api_key", &["*"], &[&id], false),
        ("config", &["pc-main"], &[], true),
        ("prompt", &["*"], &[], false),
        ("endpoint_type", &["embed", "chatComplete"], &[], true),
        ("metadata._user", &["*"], &[], false),
        ("metadata._user", &[], &["bob"], false),
        ("organisation_id", &["*"], &[], false),
        ("workspace_id", &["*"], &[], true),
    ];
    for (key, values, excludes, wanted) in cases {
        let key = FactKey::parse(key).unwrap();
        let condition = Condition::new(key, values.iter().copied(), excludes.iter().copied());
        let limit = Limit { conditions: vec![condition], ..policy(1, rpm()) };
        let phase = if limit.is_for_targets() { Phase::Target } else { Phase::Request };
        assert_eq!(selects(limit.clone(), &attempt(), phase), *wanted, "{limit:?}");
        let other = if phase == Phase::Target { Phase::Request } else { Phase::Target };
        assert!(!selects(limit, &attempt(), other), "judged twice");
    }
    for key in FactKey::NAMES.into_iter().chain(["metadata.a.b"]) {
        assert_eq!(FactKey::parse(key).unwrap().to_string(), key);
    }
    assert!([FactKey::parse("metadata."), FactKey::parse("user")].iter().all(Option::is_none));
}

#[test]
fn limits_are_for_those_they_belong_to() {
    let other = Uuid::from_u128(5);
    for (scope, id, workspace, phase, wanted) in [
        (LimitScope::Policy, other, None, Phase::Request, true),
        (LimitScope::Policy, other, Some(WORKSPACE), Phase::Request, true),
        (LimitScope::Policy, other, Some(other), Phase::Request, false),
        (LimitScope::Key, KEY, None, Phase::Request, true),
        (LimitScope::Key, other, None, Phase::Request, false),
        (LimitScope::Workspace, WORKSPACE, None, Phase::Request, true),
        (LimitScope::Workspace, KEY, None, Phase::Request, false),
        (LimitScope::Provider, PROVIDER, None, Phase::Target, true),
        (LimitScope::Provider, other, None, Phase::Target, false),
        (LimitScope::Integration, PROVIDER, None, Phase::Target, false),
    ] {
        let limit = Limit { workspace, ..Limit::new(id, scope, rpm()) };
        assert_eq!(selects(limit.clone(), &attempt(), phase), wanted, "{limit:?}");
    }
}

#[test]
fn a_missing_group_value_skips_shares_or_denies() {
    let limit = |on_missing| Limit {
        on_missing,
        group_by: vec![FactKey::Metadata("_user".into())],
        ..policy(1, usage(UsageOf::Tokens, 5, Reset::Never))
    };
    let now = at(NOON);
    let it = Fixture::new(vec![limit(OnMissing::Skip)]);
    assert!(it.reserve(None, &tokens(5), now).unwrap().is_empty());
    let it = Fixture::new(vec![limit(OnMissing::Shared)]);
    drop(it.reserve(None, &tokens(5), now).unwrap());
    assert_eq!(it.reserve(None, &tokens(5), now).unwrap_err().cause, Cause::Spent);
    drop(it.reserve(Some(""), &tokens(5), now).unwrap());
    drop(it.reserve(Some("ann"), &tokens(5), now).unwrap());
    assert_eq!(it.peek(&limit(OnMissing::Shared), now).len(), 3);
    let set = LimitSet::new(vec![limit(OnMissing::Deny)], it.limits.hash());
    let facts = request();
    let missing = set.select(&facts, Phase::Request).err().unwrap();
    assert_eq!(&*missing.key, "metadata._user");
}

/// The recipe of docs/limits.md: its condition is on the key that it groups by.
#[test]
fn a_condition_on_any_value_keeps_no_request_from_on_missing() {
    let key = || FactKey::Metadata("_user".into());
    let limit = |on_missing, condition| Limit {
        on_missing,
        group_by: vec![key()],
        conditions: vec![condition],
        ..policy(1, usage(UsageOf::Tokens, 5, Reset::Never))
    };
    let facts = request();
    let is_denied = |limit: Limit| {
        LimitSet::new(vec![limit], BucketHash::random()).select(&facts, Phase::Request).is_err()
    };
    let any = || Condition::new(key(), ["*"], []);
    let all_but_bob = Condition::new(key(), [], ["bob"]);
    for (on_missing, condition, denies, wanted) in [
        (OnMissing::Deny, any(), true, false),
        (OnMissing::Deny, all_but_bob.clone(), true, false),
        (OnMissing::Deny, Condition::new(key(), ["ann", "*"], []), true, false),
        // One user alone is meant, and a condition on another key is not met.
        (OnMissing::Deny, Condition::new(key(), ["ann"], []), false, false),
        (OnMissing::Deny, Condition::new(FactKey::Prompt, ["*"], []), false, false),
        (OnMissing::Shared, any(), false, true),
        (OnMissing::Shared, all_but_bob, false, true),
        (OnMissing::Skip, any(), false, false),
    ] {
        let limit = limit(on_missing, condition);
        assert_eq!(is_denied(limit.clone()), denies, "{limit:?}");
        if !denies {
            assert_eq!(selects(limit.clone(), &facts, Phase::Request), wanted, "{limit:?}");
        }
    }
    // What was selected before says nothing of a request without the value, nor of one with it.
    let set = LimitSet::new(vec![limit(OnMissing::Shared, any())], BucketHash::random());
    let bucket = |facts: &Facts<'_>| set.select(facts, Phase::Request).unwrap().items[0].bucket;
    let metadata: &[(&str, &str)] = &[("_user", "ann")];
    let of_ann = Facts { metadata: &metadata, ..request() };
    let shared = bucket(&facts);
    let own = bucket(&of_ann);
    assert_ne!(shared, own);
    assert_eq!((bucket(&facts), bucket(&of_ann)), (shared, own));
}

#[test]
fn buckets_are_named_by_ids() {
    let keys = ["api_key", "model", "virtual_key", "config"];
    let group_by = keys.iter().map(|key| FactKey::parse(key).unwrap()).collect();
    let limit = Limit { group_by, ..policy(1, rpm()) };
    let it = Fixture::new(vec![limit.clone()]);
    let facts = attempt();
    let selection = it.set.select(&facts, Phase::Target).unwrap();
    let estimate = tokens(1);
    let held = it.limits.reserve(&selection, &estimate, None, at(NOON)).now_or_never().unwrap().unwrap();
    let wanted = format!("api_key:{KEY}-model:emu.gpt-4o-virtual_key:{PROVIDER}-config:pc-main");
    assert_eq!(*it.peek(&limit, at(NOON))[0].value_key, *wanted);
    held.cancel(at(NOON));
}

/// Usage is kept under these numbers, in the journal and in counters that gateways share.
#[test]
fn buckets_have_the_numbers_they_always_had() {
    let keyed = BucketHash::from_bytes(&(1_u128 << 64 | 2).to_be_bytes()).unwrap();
    for (hash, only, of_ann) in [
        (
            keyed,
            116_828_104_338_024_672_504_772_573_491_108_493_532,
            230_197_142_835_485_947_058_206_178_912_344_901_715,
        ),
        (
            BucketHash::Common,
            128803744192443863652220127350883475679,
            282491961226475860014919199139121406638,
        ),
    ] {
        let group_by = ["_user", "team"].map(|name| FactKey::Metadata(name.into())).to_vec();
        let on_missing = OnMissing::Shared;
        let id = Uuid::from_u128(7);
        let limit = Limit { index: 3, group_by, on_missing, ..Limit::new(id, LimitScope::Policy, rpm()) };
        assert_eq!(hash.only(&limit), only);
        let set = LimitSet::new(vec![limit], hash);
        let metadata: &[(&str, &str)] = &[("_user", "ann")];
        let facts = facts(&metadata);
        let selection = set.select(&facts, Phase::Request).unwrap();
        assert_eq!(selection.items.first().map(|item| item.bucket), Some(of_ann));
    }
}

/// What a set has selected before changes nothing: compared with a new set for each of many requests, which differ in all that limits look at.
#[test]
fn a_set_that_has_selected_before_selects_as_a_new_one_does() {
    let hash = BucketHash::random();
    let policy = |id: u128, group_by: &[&str], conditions: Vec<Condition>| Limit {
        group_by: group_by.iter().map(|key| FactKey::parse(key).unwrap()).collect(),
        conditions,
        ..Limit::new(Uuid::from_u128(id), LimitScope::Policy, rpm())
    };
    let only = |key: &str, value: &str| vec![Condition::new(FactKey::parse(key).unwrap(), [value], [])];
    let by_client = vec![
        policy(1, &["api_key"], Vec::new()),
        policy(2, &["workspace_id"], only("endpoint_type", "embed")),
        policy(3, &["metadata._user", "api_key"], only("prompt", "greeting")),
        Limit { workspace: Some(Uuid::from_u128(1)), ..policy(4, &["organisation_id"], Vec::new()) },
        Limit::new(Uuid::from_u128(101), LimitScope::Key, rpm()),
        Limit { record: Uuid::from_u128(2), ..Limit::new(Uuid::from_u128(5), LimitScope::Workspace, rpm()) },
        Limit { on_missing: OnMissing::Shared, ..policy(6, &["metadata.team"], Vec::new()) },
    ];
    let by_config = vec![policy(7, &["config"], only("config", "pc-new"))];
    for limits in [by_client.clone(), by_client.into_iter().chain(by_config).collect()] {
        let used = LimitSet::new(limits.clone(), hash);
        let mut random = fastrand::Rng::with_seed(7);
        for _ in 0..2_000 {
            let mut one_of =
                |values: &[&'static str]| random.choice(values).copied().filter(|text| !text.is_empty());
            let user = one_of(&["", "ann", "bob"]);
            let team = one_of(&["", "ann", "search"]);
            let members = [("_user", user), ("team", team)];
            let members: Vec<(&str, &str)> =
                members.into_iter().filter_map(|(name, value)| Some((name, value?))).collect();
            let metadata = members.as_slice();
            let key = one_of(&["", "ann", "101", "102"]);
            let facts = Facts {
                workspace: one_of(&["", "1", "2"]).map(|id| Uuid::from_u128(id.parse().unwrap())),
                api_key: key.map(|key| {
                    key.parse().map_or(Id::Settings(key), |number: u128| Id::Record(Uuid::from_u128(number)))
                }),
                // A saved config keeps its id when its slug changes.
                config: one_of(&["", "pc-old", "pc-new"])
                    .map(|slug| Named { slug, id: Id::Record(Uuid::from_u128(9)) }),
                prompt: one_of(&["", "greeting"]),
                endpoint_type: one_of(&["chatComplete", "embed"]),
                ..facts(&metadata)
            };
            let fresh = LimitSet::new(limits.clone(), hash);
            let of = |set: &LimitSet| {
                let selection = set.select(&facts, Phase::Request).unwrap();
                let items = selection.items.iter().map(|item| (item.limit.id, item.bucket));
                items.collect::<Vec<_>>()
            };
            assert_eq!(of(&used), of(&fresh));
        }
    }
}
