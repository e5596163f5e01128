//! `turnpike store`: the commands on a database, as an operator calls them.
//!
//! The store's own behaviour is tested beside it (`src/memory/store/tests`).

use crate::support::command::turnpike;
use std::path::Path;

/// Calls `turnpike -c SETTINGS store ...`.
fn store(settings: &Path, arguments: &[&str]) -> (Option<i32>, String) {
    let settings = settings.to_str().unwrap();
    let output = turnpike(&[&["-c", settings, "store"], arguments].concat());
    (output.code, output.stdout + &output.stderr)
}

#[test]
fn a_database_is_made_copied_checked_and_sealed_again() {
    let folder = tempfile::tempdir().unwrap();
    let settings = folder.path().join("turnpike.yaml");
    std::fs::write(&settings, "").unwrap();
    let database = folder.path().join("data/turnpike.db");
    let key = folder.path().join("data/master.key");
    for command in [&["verify"][..], &["rekey"], &["backup", "copy.db"]] {
        let (code, text) = store(&settings, command);
        assert!(code == Some(1) && text.contains("there is no database at"), "{command:?}: {text}");
        assert!(!database.exists() && !key.exists(), "nothing is made");
    }
    let (code, text) = store(&settings, &["migrate"]);
    assert!(
        code == Some(0) && text.contains("up to date, 1 records") && text.contains("made the master key"),
        "{text}"
    );
    let (code, text) = store(&settings, &["migrate"]);
    assert!(code == Some(0) && !text.contains("made"), "{text}");

    let copy = folder.path().join("copy.db");
    let (code, text) = store(&settings, &["backup", copy.to_str().unwrap()]);
    assert!(code == Some(0) && text.contains("copied to"), "{text}");
    let (code, text) = store(&settings, &["backup", copy.to_str().unwrap()]);
    assert!(code == Some(1) && text.contains("exists"), "nothing is overwritten: {text}");

    let before = std::fs::read_to_string(&key).unwrap();
    let (code, text) = store(&settings, &["rekey"]);
    assert!(code == Some(0) && text.contains("sealed 1 records again"), "{text}");
    let after = std::fs::read_to_string(&key).unwrap();
    assert_ne!(before, after);
    for secret in [before.trim(), after.trim()] {
        assert!(!text.contains(secret));
    }
    let (code, text) = store(&settings, &["verify"]);
    assert!(code == Some(0) && text.contains("1 records, nothing is wrong"), "{text}");

    // The copy is a database of its own, under the key of then.
    let with_copy = |key: &str| {
        let text = format!("store:\n  url: sqlite://{}\n  encryption_key: {key}\n", copy.display());
        std::fs::write(&settings, text).unwrap();
        store(&settings, &["verify"])
    };
    assert_eq!(with_copy(before.trim()).0, Some(0));
    let (code, text) = with_copy(after.trim());
    assert!(code == Some(1) && text.contains("not the one of this database"), "{text}");
}

#[test]
fn damage_and_wrong_settings_are_named_without_secrets() {
    let folder = tempfile::tempdir().unwrap();
    let settings = folder.path().join("turnpike.yaml");
    std::fs::write(&settings, "").unwrap();
    assert_eq!(store(&settings, &["migrate"]).0, Some(0));
    let database = folder.path().join("data/turnpike.db");
    let mut bytes = std::fs::read(&database).unwrap();
    // All pages but the first, which has the list of tables.
    for byte in bytes.iter_mut().skip(4096) {
        *byte ^= 0x55;
    }
    std::fs::write(&database, bytes).unwrap();
    let (code, text) = store(&settings, &["verify"]);
    assert!(code == Some(1) && text.contains("malformed"), "{text}");

    let url = "postgres://gateway:hunter22@127.0.0.1:1/turnpike";
    let key = "ab".repeat(32);
    let wrong = "sslmode=sometimes";
    for (text, expected) in [
        (format!("store: {{url: '{url}'}}"), "store.encryption_key: is required"),
        (format!("store: {{url: '{url}?{wrong}', encryption_key: {key}}}"), "sslmode must be"),
        (
            format!("store: {{url: '{url}', encryption_key: {key}}}"),
            "127.0.0.1:1/turnpike: the store is not available",
        ),
    ] {
        std::fs::write(&settings, text).unwrap();
        let (code, text) = store(&settings, &["verify"]);
        assert!(code == Some(1) && text.contains(expected), "{expected}: {text}");
        assert!(!text.contains("hunter22") && !text.contains(&key), "{text}");
    }
}
