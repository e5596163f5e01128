//! Who may use what of a stored MCP server: the `access` of its record, compiled.
//!
//! Nothing may be used that no set of rules allows. One set is for every client of the server's workspace, the others for those that
//! meet their conditions; what one of a client's sets denies, no other allows. Which client it is, the caller gives as facts: only what the
//! gateway itself has from its key, never what the client says of itself.

use crate::auth::fact_key::Condition;
use crate::auth::facts::Facts;
use crate::store::Catalog;
use serde_json::Value;
use words::settings::AllowedNames;

/// The most rules with conditions; the set without them is one more.
pub const MAX_RULES: usize = 50;

/// What has rules of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AccessKind {
    Tools,
    Prompts,
    Resources,
}

impl AccessKind {
    /// With their names in records.
    pub const ALL: [(&'static str, Self); 3] =
        [("tools", Self::Tools), ("prompts", Self::Prompts), ("resources", Self::Resources)];
}

/// What may be used of a server, and by whom. The first set has no conditions.
#[derive(Debug, Default)]
pub struct McpAccess(Box<[AccessSet]>);

/// Which sets are a client's, by their bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GrantedSets(u64);

/// What a client may use of one kind.
#[derive(Clone, Copy)]
pub struct GrantedRules<'a> {
    access: &'a McpAccess,
    granted: GrantedSets,
    kind: AccessKind,
    within: Option<&'a Narrowing>,
}

/// What of a server is in a bundle: all of a kind that it does not speak of.
#[derive(Debug, Default)]
pub struct Narrowing {
    tools: Option<AccessRules>,
    prompts: Option<AccessRules>,
    resources: Option<AccessRules>,
}

impl Narrowing {
    pub(super) fn read(entry: &Value) -> Self {
        let rules = |kind: &str| {
            entry.get(kind).is_some_and(Value::is_object).then(|| AccessRules::read(entry, kind))
        };
        Self { tools: rules("tools"), prompts: rules("prompts"), resources: rules("resources") }
    }

    fn has(&self, kind: AccessKind, name: &str, only_reads: bool) -> bool {
        let rules = match kind {
            AccessKind::Tools => &self.tools,
            AccessKind::Prompts => &self.prompts,
            AccessKind::Resources => &self.resources,
        };
        rules.as_ref().is_none_or(|rules| rules.allows(name, only_reads) && !rules.deny.allows(name))
    }
}

#[derive(Debug, Default)]
struct AccessSet {
    conditions: Vec<Requirement>,
    tools: AccessRules,
    prompts: AccessRules,
    resources: AccessRules,
}

/// What a client must be.
#[derive(Debug)]
enum Requirement {
    Fact(Condition),
    /// One of these roles in its workspace (or any, if that is empty), and none of the others.
    Role {
        values: Vec<Box<str>>,
        excludes: Vec<Box<str>>,
    },
}

/// What may be used of one kind. The default allows nothing.
#[derive(Debug)]
struct AccessRules {
    allow: AllowedNames,
    deny: AllowedNames,
    /// Of tools: only those that their server marks as reading only.
    read_only: bool,
}

impl Default for AccessRules {
    fn default() -> Self {
        Self { allow: AllowedNames::new([]), deny: AllowedNames::new([]), read_only: false }
    }
}

impl AccessRules {
    fn read(set: &Value, kind: &str) -> Self {
        let Some(rules) = set.get(kind) else { return Self::default() };
        let names = |list: &str| {
            let names = rules.get(list).and_then(Value::as_array).into_iter().flatten();
            AllowedNames::new(names.filter_map(Value::as_str))
        };
        let read_only = rules.get("read_only").and_then(Value::as_bool).unwrap_or(false);
        Self { allow: names("allow"), deny: names("deny"), read_only }
    }

    fn allows(&self, name: &str, only_reads: bool) -> bool {
        self.allow.allows(name) && (only_reads || !self.read_only)
    }
}

impl Requirement {
    fn read(item: &Value, catalog: &Catalog) -> Option<Self> {
        if item.get("key").and_then(Value::as_str) != Some("role") {
            return Condition::read(item, catalog).map(Self::Fact);
        }
        let texts = |name: &str| -> Vec<Box<str>> {
            let value = item.get(name);
            let list = value.and_then(Value::as_array).into_iter().flatten();
            value.into_iter().chain(list).filter_map(Value::as_str).map(Box::from).collect()
        };
        Some(Self::Role { values: texts("value"), excludes: texts("excludes") })
    }

    fn is_met(&self, facts: &Facts<'_>, role: Option<&str>) -> bool {
        let (values, excludes) = match self {
            Self::Fact(condition) => return facts.meet(condition),
            Self::Role { values, excludes } => (values, excludes),
        };
        let Some(role) = role else { return false };
        let is_one_of = |texts: &[Box<str>]| texts.iter().any(|text| **text == *role || **text == *"*");
        (values.is_empty() || is_one_of(values)) && !is_one_of(excludes)
    }
}

impl AccessSet {
    /// # Errors
    /// A condition that cannot be read.
    fn read(set: &Value, catalog: &Catalog) -> Result<Self, String> {
        let conditions = set.get("conditions").and_then(Value::as_array).into_iter().flatten();
        let conditions: Option<_> = conditions.map(|item| Requirement::read(item, catalog)).collect();
        Ok(Self {
            conditions: conditions.ok_or("a condition of its access cannot be read")?,
            tools: AccessRules::read(set, "tools"),
            prompts: AccessRules::read(set, "prompts"),
            resources: AccessRules::read(set, "resources"),
        })
    }

    const fn rules(&self, kind: AccessKind) -> &AccessRules {
        match kind {
            AccessKind::Tools => &self.tools,
            AccessKind::Prompts => &self.prompts,
            AccessKind::Resources => &self.resources,
        }
    }
}

impl McpAccess {
    /// That of a record.
    ///
    /// # Errors
    /// A condition that cannot be read, and more rules than [`MAX_RULES`].
    pub(super) fn read(access: Option<&Value>, catalog: &Catalog) -> Result<Self, String> {
        let Some(access) = access else { return Ok(Self::default()) };
        let rules = access.get("rules").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        if rules.len() > MAX_RULES {
            return Err(format!("its access has more than {MAX_RULES} rules"));
        }
        std::iter::once(access)
            .chain(rules)
            .map(|set| AccessSet::read(set, catalog))
            .collect::<Result<_, _>>()
            .map(Self)
    }

    /// Whether it depends on the client.
    pub fn has_conditions(&self) -> bool {
        self.0.iter().any(|set| !set.conditions.is_empty())
    }

    /// The sets of a client with these facts, and this role in its workspace.
    pub fn granted(&self, facts: &Facts<'_>, role: Option<&str>) -> GrantedSets {
        let is_met = |set: &AccessSet| set.conditions.iter().all(|condition| condition.is_met(facts, role));
        let bits = self.0.iter().enumerate().map(|(at, set)| u64::from(is_met(set)) << at);
        GrantedSets(bits.fold(0, |all, bit| all | bit))
    }

    /// The sets of a client of which nothing is looked at: those without conditions.
    pub fn granted_to_all(&self) -> GrantedSets {
        let bits = self.0.iter().enumerate().map(|(at, set)| u64::from(set.conditions.is_empty()) << at);
        GrantedSets(bits.fold(0, |all, bit| all | bit))
    }

    /// What of this kind is in these sets. `within`: and in a bundle.
    pub const fn rules<'a>(
        &'a self,
        granted: GrantedSets,
        kind: AccessKind,
        within: Option<&'a Narrowing>,
    ) -> GrantedRules<'a> {
        GrantedRules { access: self, granted, kind, within }
    }
}

impl GrantedRules<'_> {
    fn sets(&self) -> impl Iterator<Item = &AccessRules> {
        let is_granted = |at: usize| self.granted.0 >> at & 1 == 1;
        let sets = self.access.0.iter().enumerate().filter(move |(at, _)| is_granted(*at));
        sets.map(|(_, set)| set.rules(self.kind))
    }

    /// Whether something of this name may be used. `only_reads`: its server marks it so.
    pub fn allows(&self, name: &str, only_reads: bool) -> bool {
        self.within.is_none_or(|within| within.has(self.kind, name, only_reads))
            && self.sets().any(|rules| rules.allows(name, only_reads))
            && !self.sets().any(|rules| rules.deny.allows(name))
    }

    /// Whether nothing can be allowed.
    pub fn is_empty(&self) -> bool {
        self.sets().all(|rules| rules.allow.names().next().is_none())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::facts::Id;
    use serde_json::json;

    /// Whether a client of this key, team and role may use a tool.
    fn may(access: &Value, client: (&str, &str, Option<&str>), name: &str, only_reads: bool) -> bool {
        let (key, team, role) = client;
        let metadata: &[(&str, &str)] = &[("team", team)];
        let facts = Facts {
            organisation: None,
            workspace: None,
            api_key: Some(Id::Settings(key)),
            config: None,
            prompt: None,
            endpoint_type: None,
            metadata: &metadata,
            target: None,
        };
        let access = McpAccess::read(Some(access), &Catalog::default()).unwrap();
        let granted = access.granted(&facts, role);
        let rules = access.rules(granted, AccessKind::Tools, None);
        assert!(!rules.allows(name, only_reads) || !rules.is_empty());
        rules.allows(name, only_reads)
    }

    const ANY: (&str, &str, Option<&str>) = ("k", "t", None);

    #[test]
    fn nothing_is_allowed_that_is_not_listed() {
        for none in [
            json!({}),
            json!({"tools": {}}),
            json!({"tools": {"deny": ["x"]}}),
            json!({"prompts": {"allow": ["*"]}}),
            json!({"rules": [{"conditions": [{"key": "api_key", "value": "k"}]}]}),
        ] {
            assert!(!may(&none, ANY, "a", true), "{none}");
        }
        let some = json!({"tools": {"allow": ["a*", "b"], "deny": ["a_hidden*"]}});
        for (name, wanted) in [("a", true), ("a_b", true), ("b", true), ("bc", false), ("a_hidden_x", false)]
        {
            assert_eq!(may(&some, ANY, name, false), wanted, "{name}");
        }
        let reading = json!({"tools": {"allow": ["*"], "read_only": true}});
        assert!(may(&reading, ANY, "a", true) && !may(&reading, ANY, "a", false));
    }

    #[test]
    fn a_rule_is_for_who_meets_all_its_conditions() {
        let access = json!({
            "tools": {"allow": ["read_*"]},
            "rules": [
                {"conditions": [{"key": "api_key", "value": ["ops", "root"]}], "tools": {"allow": ["*"]}},
                {"conditions": [{"key": "metadata.team", "value": "data"}, {"key": "role", "value": ["admin", "manager"]}],
                 "tools": {"allow": ["write_*"]}},
                {"conditions": [{"key": "metadata.team", "value": "guests"}], "tools": {"deny": ["read_secret*"]}},
            ],
        });
        for (client, name, wanted) in [
            (ANY, "read_a", true),
            (ANY, "write_a", false),
            (("ops", "t", None), "write_a", true),
            (("k", "data", Some("admin")), "write_a", true),
            (("k", "data", Some("member")), "write_a", false),
            (("k", "data", None), "write_a", false),
            (("k", "other", Some("admin")), "write_a", false),
            (ANY, "read_secret", true),
            (("k", "guests", None), "read_secret", false),
            // What one of its sets denies, no other allows.
            (("root", "guests", None), "read_secret", false),
            (("root", "guests", None), "write_a", true),
        ] {
            assert_eq!(may(&access, client, name, false), wanted, "{client:?} {name}");
        }
    }

    #[test]
    fn a_bundle_takes_away_alone() {
        let access =
            McpAccess::read(Some(&json!({"tools": {"allow": ["a*"]}})), &Catalog::default()).unwrap();
        let may = |entry: Value, name: &str| {
            let within = Narrowing::read(&entry);
            access.rules(access.granted_to_all(), AccessKind::Tools, Some(&within)).allows(name, false)
        };
        assert!(may(json!({"server": "s"}), "ab") && !may(json!({"server": "s"}), "b"));
        let some = json!({"tools": {"allow": ["ab", "b"], "deny": ["ac"]}});
        assert!(may(some.clone(), "ab") && !may(some.clone(), "b") && !may(some, "ad"));
        assert!(!may(json!({"tools": {"allow": ["*"], "read_only": true}}), "ab"));
        assert!(!may(json!({"tools": {}}), "ab"));
    }

    #[test]
    fn a_mark_of_the_server_counts_for_its_own_set_alone() {
        let access = json!({
            "tools": {"allow": ["*"], "read_only": true},
            "rules": [{"conditions": [{"key": "api_key", "value": "ops"}], "tools": {"allow": ["write"]}}],
        });
        assert!(!may(&access, ANY, "write", false) && may(&access, ("ops", "t", None), "write", false));
        assert!(!may(&access, ("ops", "t", None), "delete", false));
    }

    #[test]
    fn what_cannot_be_read_is_no_rule() {
        for access in [
            json!({"rules": [{"conditions": [{"key": "colour", "value": "red"}], "tools": {"deny": ["*"]}}]}),
            json!({"rules": vec![json!({}); MAX_RULES + 1]}),
        ] {
            assert!(McpAccess::read(Some(&access), &Catalog::default()).is_err());
        }
    }
}
