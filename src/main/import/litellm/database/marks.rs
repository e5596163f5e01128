//! What tells an imported object from others, and who depends on it: a digest of whose it is.
//!
//! It stands in the object's description, so that an object that somebody else made under the same slug is not taken for it. Made of ids
//! alone: a new alias changes nothing.

use super::super::super::moved::id_of;
use words::settings::service_key::sha256;

/// Of digits of a digest: in a mark, and in a slug.
const OF_MARK: usize = 32;
const OF_SLUG: usize = 12;
/// The most characters of an id in a slug, and in a description.
const MAX_ID: usize = 36;
const MAX_SHOWN: usize = 200;

/// The mark of what belongs to a row: `kind` is what it is, `ids` name it.
pub fn mark(kind: &str, ids: &[&str]) -> String {
    // With their lengths, so that no two lists of ids are one text.
    let text: String =
        std::iter::once(&kind).chain(ids).map(|part| format!("{}:{part}", part.len())).collect();
    let digest = sha256(text.as_bytes());
    let digits: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    digits.chars().take(OF_MARK).collect()
}

/// The slug of what has this mark. `id`: what people know it by.
pub fn slug(kind: &str, id: &str, mark: &str) -> String {
    let id: String = id_of(id).chars().take(MAX_ID).collect();
    format!("litellm-{kind}-{id}-{}", mark.get(..OF_SLUG).unwrap_or(mark))
}

/// The description of what has this mark.
pub fn description(what: &str, mark: &str) -> String {
    let what: String = what.chars().take(MAX_SHOWN).collect();
    format!("{what} of LiteLLM [{mark}]")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_owners_have_one_slug() {
        let of = |team: &str, user: &str| slug("member", user, &mark("member", &[team, user]));
        assert_ne!(mark("member", &["ops", "2-joe"]), mark("member", &["ops-2", "joe"]));
        assert_ne!(mark("member", &["a", "bc"]), mark("member", &["ab", "c"]));
        assert_ne!(of("a", "x/y"), of("a", "x-y"));
        assert_eq!(of("a", "x"), of("a", "x"));
        assert!(slug("team", &"x".repeat(99), &mark("team", &["x"])).len() <= 64);
        assert_eq!(description("The team t1", "0a"), "The team t1 of LiteLLM [0a]");
    }
}
