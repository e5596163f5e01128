//! The keys of a product's files: for each what becomes of it here.
//!
//! A table per product. Its documentation is made of it, and the report of what the importer did not decide case by case.

use super::report::Taken;

/// A key, or all keys below one.
#[derive(Clone, Copy)]
pub struct Key {
    /// Such as `model_list[].litellm_params.rpm`; `*` is any name, `**` at the end is everything there and below.
    pub path: &'static str,
    /// What becomes of it where it can be taken.
    pub taken: Taken,
    /// Where it is here, or why it is not, and what to do instead.
    pub text: &'static str,
    /// Whether the importer looks at each value: where it did not, the key has no effect.
    pub is_read: bool,
}

/// A key whose values the importer looks at.
pub const fn read(path: &'static str, taken: Taken, text: &'static str) -> Key {
    Key { path, taken, text, is_read: true }
}

/// A key that is never taken.
pub const fn dropped(path: &'static str, text: &'static str) -> Key {
    Key { path, taken: Taken::Not, text, is_read: false }
}

/// A part of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Segment {
    Name(String),
    Item,
}

/// The first key of the table that a path meets.
pub fn find<'k>(keys: &'k [Key], path: &[Segment]) -> Option<&'k Key> {
    keys.iter().find(|key| fits(key.path, path))
}

fn fits(pattern: &str, path: &[Segment]) -> bool {
    let mut path = path.iter();
    for name in pattern.split('.') {
        if name == "**" {
            return true;
        }
        let base = name.trim_end_matches("[]");
        match path.next() {
            Some(Segment::Name(found)) if base == "*" || found == base => {}
            _ => return false,
        }
        for _ in 0..(name.len() - base.len()) / 2 {
            if path.next() != Some(&Segment::Item) {
                return false;
            }
        }
    }
    // The items of a plain list are those of its key.
    path.all(|rest| *rest == Segment::Item)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_meets_a_pattern() {
        let name = |name: &str| Segment::Name(name.to_owned());
        for (pattern, path, wanted) in [
            ("a.b", vec![name("a"), name("b")], true),
            ("a.b", vec![name("a"), name("b"), Segment::Item], true),
            ("a.b", vec![name("a"), name("b"), name("c")], false),
            ("a[].b", vec![name("a"), Segment::Item, name("b")], true),
            ("a[].b", vec![name("a"), name("b")], false),
            ("a.*.c", vec![name("a"), name("x"), name("c")], true),
            ("a.**", vec![name("a"), name("x"), Segment::Item, name("c")], true),
            ("a.**", vec![name("a")], true),
            ("a.**", vec![name("b")], false),
        ] {
            assert_eq!(fits(pattern, &path), wanted, "{pattern} {path:?}");
        }
    }

    /// The tables of the pages, and where they stand.
    const PAGES: [(&str, &[Key]); 2] =
        [("litellm", super::super::litellm::KEYS), ("bifrost", super::super::bifrost::keys::KEYS)];
    const BEGIN: &str =
        "<!-- keys: written by a test (UPDATE_GOLDEN=1 cargo test key_table) -->\n\n```text\n";

    #[test]
    fn the_pages_have_the_tables() {
        for (page, keys) in PAGES {
            let path =
                std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("docs/moving/{page}.md"));
            let text = std::fs::read_to_string(&path).unwrap();
            let (before, found) = text.split_once(BEGIN).expect("the page has a place for the table");
            let row = |key: &Key| format!("{:<9}  {}: {}\n", key.taken.as_str(), key.path, key.text);
            let table: String = keys.iter().map(row).collect::<String>() + "```\n";
            if std::env::var_os("UPDATE_GOLDEN").is_some() {
                std::fs::write(&path, format!("{before}{BEGIN}{table}")).unwrap();
            } else {
                assert_eq!(found, table, "docs/moving/{page}.md; UPDATE_GOLDEN=1 writes it");
            }
        }
    }

    #[test]
    fn each_key_stands_once_and_names_pages_that_are_there() {
        let docs = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
        for (product, keys) in PAGES {
            for (index, key) in keys.iter().enumerate() {
                assert!(
                    keys.iter().skip(index + 1).all(|other| other.path != key.path),
                    "{product} {}",
                    key.path
                );
                for page in key.text.split("docs/").skip(1) {
                    let name = page.split_inclusive(".md").next().unwrap_or_default();
                    assert!(docs.join("docs").join(name).exists(), "{product} {}: docs/{name}", key.path);
                }
            }
        }
    }
}
