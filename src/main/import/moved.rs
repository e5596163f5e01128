//! The settings that an import makes: providers, configs, names of models and the rest, in the order of the shipped file.
//!
//! Equal accounts become one provider. Secrets are variables of the environment, never texts. Not here: what the other gateway meant.

use super::tree::{Member, Tree};
use super::yaml;
use std::collections::{BTreeMap, BTreeSet};

/// The order of the sections that an import may write: that of the shipped settings.
const SECTIONS: [&str; 13] = [
    "limits",
    "auth",
    "cache",
    "prices",
    "alerts",
    "logs",
    "providers",
    "configs",
    "models",
    "default_config",
    "header_prefixes",
    "cors",
    "telemetry",
];

/// What a variable is used for, which decides what stands for it while the result is checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VariableUse {
    Secret,
    /// A base URL.
    Url,
    /// The name of a host.
    Host,
    /// The URL of a Redis.
    Redis,
    Port,
    /// An address of mail.
    Mail,
    /// A service account of Google in JSON.
    ServiceAccount,
    Text,
}

impl VariableUse {
    /// A value of that kind. Those of secrets differ, as keys must.
    fn stand_in(self, name: &str) -> String {
        match self {
            Self::Secret => return format!("stand-in-{name}-0123456789"),
            Self::Url => "https://stand-in.example/v1",
            Self::Host => "stand-in.example",
            Self::Redis => "redis://stand-in.example:6379",
            Self::Port => "6379",
            Self::Mail => "stand-in@example.com",
            Self::ServiceAccount | Self::Text => "stand-in",
        }
        .to_owned()
    }
}

/// The settings so far.
#[derive(Default)]
pub struct Moved {
    sections: BTreeMap<&'static str, Tree>,
    variables: BTreeMap<String, VariableUse>,
    /// The variables that stand for secrets in the input.
    for_secrets: BTreeMap<String, String>,
    /// Names of variables that the input uses: none of them is given to a secret.
    reserved: BTreeSet<String>,
    /// The slugs of accounts, by what is in them.
    accounts: BTreeMap<String, String>,
    /// The first number that a name of a section may have where it is taken.
    next_numbers: BTreeMap<(&'static str, String), usize>,
    /// The names of keys.
    key_names: BTreeSet<String>,
    /// The overlay of prices.
    prices: Option<Tree>,
    comments: BTreeMap<&'static str, String>,
}

impl Moved {
    /// The text `${NAME}`.
    pub fn variable(&mut self, name: &str, of: VariableUse) -> String {
        let name = variable_name(name);
        let text = format!("${{{name}}}");
        self.variables.entry(name).or_insert(of);
        text
    }

    /// The text `${NAME}` for a value that no other variable has; `wanted` is a good name.
    pub fn new_variable(&mut self, wanted: &str, of: VariableUse) -> String {
        let name = self.free_variable(wanted);
        self.variable(&name, of)
    }

    fn free_variable(&mut self, wanted: &str) -> String {
        let wanted = variable_name(wanted);
        let next = self.next_numbers.entry(("variables", wanted.clone())).or_insert(1);
        loop {
            let name = if *next == 1 { wanted.clone() } else { format!("{wanted}_{next}") };
            *next += 1;
            if !self.reserved.contains(&name) && !self.variables.contains_key(&name) {
                return name;
            }
        }
    }

    /// Says what the variable of a text `${NAME}` is used for.
    pub fn use_as(&mut self, text: &str, of: VariableUse) {
        self.variables.insert(variable_in(text).to_owned(), of);
    }

    /// Keeps a name of a variable that the input uses.
    pub fn reserve(&mut self, name: &str) {
        self.reserved.insert(variable_name(name));
    }

    /// The text `${NAME}` for a secret that is written in the input; `wanted` is a good name.
    pub fn secret(&mut self, secret: &str, wanted: &str) -> String {
        if let Some(name) = self.for_secrets.get(secret) {
            return format!("${{{name}}}");
        }
        let name = self.free_variable(wanted);
        self.for_secrets.insert(secret.to_owned(), name.clone());
        self.variable(&name, VariableUse::Secret)
    }

    /// A member of a section.
    pub fn set(&mut self, section: &'static str, member: &str, value: Tree) {
        self.sections.entry(section).or_insert_with(Tree::map).set(member, value);
    }

    /// A section that is a value by itself.
    pub fn set_section(&mut self, section: &'static str, value: Tree) {
        self.sections.insert(section, value);
    }

    /// Lines above a section.
    pub fn comment(&mut self, section: &'static str, text: &str) {
        self.comments.insert(section, text.to_owned());
    }

    /// The slug of the provider with this account: one that is there, or a new one.
    pub fn provider(&mut self, wanted: &str, account: &Tree) -> String {
        match self.accounts.get(&format!("{account:?}")) {
            Some(slug) => slug.clone(),
            None => self.own_provider(wanted, account),
        }
    }

    pub fn has_provider(&self, slug: &str) -> bool {
        self.sections.get("providers").is_some_and(|section| section.member(slug).is_some())
    }

    /// The id of a saved config: of an equal one whose id begins with `wanted`, or of a new one.
    pub fn config(&mut self, wanted: &str, config: &Tree) -> String {
        let id = id_of(wanted);
        let section = self.sections.entry("configs").or_insert_with(Tree::map);
        if section.member(&id) == Some(config) {
            return id;
        }
        let id = self.free_member("configs", &id);
        self.set("configs", &id, config.clone());
        id
    }

    /// The slug of a new provider, also where there is an equal one.
    pub fn own_provider(&mut self, wanted: &str, account: &Tree) -> String {
        let slug = self.free_member("providers", &id_of(wanted));
        self.accounts.entry(format!("{account:?}")).or_insert_with(|| slug.clone());
        self.set("providers", &slug, account.clone());
        slug
    }

    /// A name that no member of a section has: with a number, where it is taken.
    fn free_member(&mut self, section: &'static str, wanted: &str) -> String {
        let members = self.sections.entry(section).or_insert_with(Tree::map);
        // Thousands of accounts may begin with the same name.
        let next = self.next_numbers.entry((section, wanted.to_owned())).or_insert(1);
        loop {
            let name = if *next == 1 { wanted.to_owned() } else { format!("{wanted}-{next}") };
            *next += 1;
            if members.member(&name).is_none() {
                return name;
            }
        }
    }

    /// A name for clients. False: it is there already.
    pub fn model(&mut self, name: &str, to: Tree) -> bool {
        let section = self.sections.entry("models").or_insert_with(Tree::map);
        let is_new = section.member(name).is_none();
        if is_new {
            section.set(name, to);
        }
        is_new
    }

    /// Whether clients need a key.
    pub fn has_keys(&self) -> bool {
        self.sections.get("auth").is_some_and(|auth| auth.member("keys").is_some())
    }

    /// A service key. False: there is one of this name.
    pub fn key(&mut self, key: Tree) -> bool {
        let name = key.member("name").cloned();
        let auth = self.sections.entry("auth").or_insert_with(Tree::map);
        if auth.member("keys").is_none() {
            auth.set("keys", Tree::List(Vec::new()));
        }
        let is_new = name.is_none_or(|name| self.key_names.insert(format!("{name:?}")));
        if let (true, Some(Tree::List(keys))) = (is_new, auth.member_mut("keys")) {
            keys.push(key);
        }
        is_new
    }

    /// Whether there is nothing to write.
    pub fn is_empty(&self) -> bool {
        self.sections.values().all(Tree::is_empty) && self.prices.is_none()
    }

    /// The price of a model in the overlay. False: there is another one.
    pub fn price(&mut self, model: &str, price: &Tree) -> bool {
        let prices = self.prices.get_or_insert_with(Tree::map);
        match prices.member(model) {
            Some(other) => other == price,
            None => {
                prices.set(model, price.clone());
                true
            }
        }
    }

    /// The text of the overlay of prices, where there are any.
    pub fn prices_text(&self) -> Option<String> {
        self.prices.as_ref().map(yaml::write)
    }

    /// The text of the settings. `overlay`: the file of the prices.
    pub fn text(&self, heading: &str, overlay: Option<&str>) -> String {
        let mut text = String::new();
        for line in heading.lines().map(str::to_owned).chain(self.variable_lines()) {
            text.push_str(format!("# {line}").trim_end());
            text.push('\n');
        }
        for name in SECTIONS {
            let mut value = self.sections.get(name).cloned();
            if let Some(overlay) = overlay.filter(|_| name == "prices") {
                value = Some(value.unwrap_or_else(Tree::map).with("overlay", Tree::text(overlay)));
            }
            let Some(value) = value.filter(|value| !value.is_empty()) else { continue };
            let comment = self.comments.get(name).cloned().unwrap_or_default();
            let section = Tree::Map(vec![Member { name: name.to_owned(), value, comment }]);
            text.push('\n');
            text.push_str(&yaml::write(&section));
        }
        text
    }

    fn variable_lines(&self) -> Vec<String> {
        if self.variables.is_empty() {
            return Vec::new();
        }
        let mut lines = vec![String::new(), "It needs these variables of the environment:".to_owned()];
        let mut line = String::new();
        for name in self.variables.keys() {
            if line.len() + name.len() > 100 {
                lines.push(std::mem::take(&mut line));
            }
            line.push_str(if line.is_empty() { "  " } else { ", " });
            line.push_str(name);
        }
        lines.push(line);
        lines
    }

    /// What stands for a variable while the result is checked.
    pub fn stand_in(&self, name: &str) -> Option<String> {
        self.variables.get(name).map(|of| of.stand_in(name))
    }

    /// The settings as they are checked: no text can stand for a private key, so an account without its variable signs in otherwise.
    pub fn checkable(&self, settings: &str, is_set: &dyn Fn(&str) -> bool) -> String {
        let accounts =
            self.variables.iter().filter(|(name, of)| **of == VariableUse::ServiceAccount && !is_set(name));
        accounts.fold(settings.to_owned(), |text, (name, _)| {
            let member = format!("cloud_b_service_account_json: ${{{name}}}");
            text.replace(&member, "cloud_b_auth_type: workloadIdentity")
        })
    }
}

/// The name in `${NAME}`.
pub fn variable_in(text: &str) -> &str {
    text.trim_start_matches("${").trim_end_matches('}')
}

/// A text as the name of a variable.
fn variable_name(text: &str) -> String {
    let name: String = text.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
    let begins_well = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    if begins_well { name } else { format!("_{name}") }
}

/// A text as a slug or an id.
pub fn id_of(text: &str) -> String {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    let id: String = text.chars().map(|c| if allowed(c) { c } else { '-' }).take(120).collect();
    let id = id.trim_matches('-');
    if id.is_empty() { "any".to_owned() } else { id.to_owned() }
}

/// A text of the input that is no reference, as the settings have it: `${` is written `$${`.
pub fn plain(text: &str) -> String {
    text.replace("${", "$${")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_accounts_are_one_provider_and_secrets_are_variables() {
        let mut moved = Moved::default();
        moved.reserve("OPENAI_API_KEY");
        let account = Tree::of([("provider", Tree::text("openai"))]);
        let other = account.clone().with("api_key", Tree::Text(moved.secret("sk-1", "OPENAI_API_KEY")));
        let slugs = [&account, &other, &account].map(|account| moved.provider("openai", account));
        assert_eq!(slugs, ["openai", "openai-2", "openai"]);
        assert_eq!(moved.secret("sk-1", "X"), "${OPENAI_API_KEY_2}");
        assert!(moved.key(Tree::of([("name", Tree::text("a"))])));
        assert!(!moved.key(Tree::of([("name", Tree::text("a"))])));
        assert_eq!(moved.config("a b", &account), "a-b");
        assert_eq!(moved.config("a/b", &other), "a-b-2");
        let text = moved.text("Made.", Some("p.yaml"));
        assert!(text.starts_with(
            "# Made.\n#\n# It needs these variables of the environment:\n#   OPENAI_API_KEY_2\n"
        ));
        assert!(text.find("\nauth:").unwrap() < text.find("\nprices:").unwrap(), "{text}");
        assert!(
            text.contains("\n  openai-2:\n    provider: openai\n    api_key: ${OPENAI_API_KEY_2}\n"),
            "{text}"
        );
    }
}
