//! `turnpike doctor`: finds nothing wrong beside a healthy gateway, and each thing that is wrong where it is.
//!
//! Not the unit, which is the machine's own and has unit tests.

use crate::support::command::{Finished, turnpike};
use crate::support::settings::{LISTEN, STANDARD};
use crate::support::{Gateway, ports};
use rcgen::{CertificateParams, KeyPair};
use serde_json::Value;
use std::fs::File;
use std::net::TcpListener;
use std::os::unix::fs::chown;
use std::path::Path;
use std::time::{Duration, SystemTime};

/// The findings of `turnpike doctor --json` on this file: status, and each as `check state text`.
fn doctor(settings: &Path, arguments: &[&str]) -> (Finished, Vec<String>) {
    let end = turnpike(&[&["doctor", "--json", "-c", settings.to_str().unwrap()], arguments].concat());
    let found: Vec<Value> = serde_json::from_str(&end.stdout).unwrap_or_else(|_| panic!("{end:?}"));
    for finding in &found {
        assert_eq!(finding["state"] == "ok", finding["what_to_do"].is_null(), "what to do: {finding}");
    }
    let text = |finding: &Value, name: &str| finding[name].as_str().unwrap().to_owned();
    let line =
        |finding| format!("{} {} {}", text(finding, "check"), text(finding, "state"), text(finding, "text"));
    (end, found.iter().map(line).collect())
}

/// The findings of a file with these settings, in a folder of its own.
fn doctor_of(yaml: &str) -> (Finished, Vec<String>) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("turnpike.yaml");
    std::fs::write(&file, yaml).unwrap();
    doctor(&file, &[])
}

fn free_listeners() -> String {
    format!("listen: {{data: ['127.0.0.1:{}'], control: '127.0.0.1:{}'}}\n", ports::free(), ports::free())
}

#[track_caller]
fn assert_has(found: &[String], begin: &str, part: &str) {
    assert!(
        found.iter().any(|line| line.starts_with(begin) && line.contains(part)),
        "{begin}… {part}: {found:#?}"
    );
}

#[tokio::test]
async fn a_healthy_gateway_has_no_failure() {
    let gateway = Gateway::start(STANDARD);
    let file = gateway.folder().join("turnpike.yaml");
    let (end, found) = doctor(&file, &["--connect"]);
    assert!(found.iter().all(|line| !line.contains(" fail ")), "{found:#?}");
    assert_eq!(end.code, Some(0));
    for check in ["settings", "clock", "descriptors", "listen", "state", "store", "disk", "provider"] {
        assert_has(&found, check, "");
    }
    assert_has(&found, "listen ok listen.data[0]", "held by a running turnpike");
    assert_has(&found, "listen ok listen.control", "held by a running turnpike");
    assert_has(&found, "store ok", "tables of version 1");
    assert_has(&found, "provider ok", "accepts connections");
    let text = turnpike(&["doctor", "-c", file.to_str().unwrap()]);
    assert!(
        text.code == Some(0) && text.stdout.contains("ok    store") && text.stdout.ends_with(" 0 failures\n"),
        "{text:?}"
    );
}

#[tokio::test]
async fn a_gateway_whose_state_is_elsewhere_is_noticed() {
    let gateway = Gateway::start(LISTEN);
    let text = std::fs::read_to_string(gateway.folder().join("turnpike.yaml")).unwrap();
    let (end, found) = doctor_of(&text);
    assert_eq!(end.code, Some(1));
    assert_has(&found, "store fail there is no database at", "its state is elsewhere");
}

#[test]
fn what_is_wrong_is_found_where_it_is() {
    let (end, found) = doctor_of(&format!("{}colour: red\n", free_listeners()));
    assert_eq!((end.code, found.len()), (Some(1), 1), "{found:?}");
    assert_has(&found, "settings fail", "colour: unknown key");

    // A name that cannot exist, an address where nothing listens, and what only the service has.
    let closed = ports::free();
    let yaml = format!(
        "{}providers:\n  a: {{provider: openai, api_key: k, custom_host: 'http://nowhere.invalid/v1'}}\n  b: {{provider: openai, api_key: \
         k, custom_host: 'http://127.0.0.1:{closed}/v1'}}\n  c: {{provider: openai, api_key: 'credential:c', custom_host: \
         'http://127.0.0.1:{closed}/v1'}}\n",
        free_listeners()
    );
    let (end, found) = doctor_of(&yaml);
    assert_eq!(end.code, Some(1));
    assert_has(&found, "settings warn", "providers.c.api_key");
    assert_has(&found, "provider fail nowhere.invalid of @a", "");
    assert_has(&found, "provider ok", "of @b, @c has the addresses 127.0.0.1");
    assert_has(&found, "store warn there is no database", "");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("turnpike.yaml");
    std::fs::write(&file, &yaml).unwrap();
    let (_, found) = doctor(&file, &["--connect"]);
    assert_has(&found, "provider fail", "of @b, @c accepts no connection");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "it makes nothing");

    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = other.local_addr().unwrap();
    let taken = format!("listen: {{data: ['{address}'], control: '127.0.0.1:{}'}}\n", ports::free());
    let (_, found) = doctor_of(&format!("{taken}limits: {{max_connections: 9000000}}\n"));
    assert_has(&found, "listen fail listen.data[0]", "Address already in use");
    assert_has(&found, "listen ok listen.control", "is free");
    assert_has(&found, "descriptors fail", "18000192");
}

#[test]
fn what_only_the_service_has_is_no_failure() {
    let yaml = format!(
        "listen: {{data: [{{address: '127.0.0.1:{}', tls: {{cert: '${{NO_CERT}}', key: '${{NO_KEY}}'}}}}], control: '127.0.0.1:{}'}}\nstore: \
         {{url: '${{NO_DATABASE}}', encryption_key: 'credential:master'}}\n",
        ports::free(),
        ports::free()
    );
    let (end, found) = doctor_of(&yaml);
    assert!(found.iter().all(|line| !line.contains(" fail ") && !line.starts_with("store")), "{found:#?}");
    assert_eq!(end.code, Some(0));
    for path in ["listen.data[0].tls.cert", "store.url", "store.encryption_key"] {
        assert_has(&found, "settings warn", path);
    }
}

#[test]
fn a_clock_behind_the_files_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("turnpike.yaml");
    std::fs::write(&file, free_listeners()).unwrap();
    let later = SystemTime::now() + Duration::from_secs(3_600);
    File::options().write(true).open(&file).unwrap().set_modified(later).unwrap();
    let (end, found) = doctor(&file, &[]);
    assert_eq!(end.code, Some(1));
    assert_has(&found, "clock fail it is 3", "turnpike.yaml");
}

/// What a command of another version, or a copy by hand, has left. Only root can make such a file.
#[test]
fn files_that_the_service_cannot_open_are_found() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("turnpike.yaml");
    std::fs::write(&file, free_listeners()).unwrap();
    assert_eq!(turnpike(&["store", "migrate", "-c", file.to_str().unwrap()]).code, Some(0));
    let state = folder.path().join("data");
    let (_, found) = doctor(&file, &[]);
    assert_has(&found, "state ok", "as do its files");
    assert_has(&found, "store ok", "tables of version 1");
    if chown(state.join("master.key"), Some(4_711), None).is_err() {
        eprintln!("skipped: only root can give a file to another user");
        return;
    }
    let (end, found) = doctor(&file, &[]);
    assert_eq!(end.code, Some(1));
    assert_has(&found, "state fail", "master.key");
}

#[test]
fn certificates_are_looked_at_before_they_end() {
    let folder = tempfile::tempdir().unwrap();
    let key = KeyPair::generate().unwrap();
    std::fs::write(folder.path().join("key.pem"), key.serialize_pem()).unwrap();
    for (year, state) in [(2001, "fail"), (2200, "ok")] {
        let mut params = CertificateParams::new(["localhost".to_owned()]).unwrap();
        params.not_before = rcgen::date_time_ymd(2000, 1, 1);
        params.not_after = rcgen::date_time_ymd(year, 1, 1);
        let file = folder.path().join("cert.pem");
        std::fs::write(&file, params.self_signed(&key).unwrap().pem()).unwrap();
        let shown = folder.path().display();
        let yaml = format!(
            "listen: {{data: [{{address: '127.0.0.1:{}', tls: {{cert: {shown}/cert.pem, key: {shown}/key.pem}}}}], control: '127.0.0.1:{}'}}\n",
            ports::free(),
            ports::free()
        );
        let (_, found) = doctor_of(&yaml);
        assert_has(&found, &format!("certificate {state} listen.data[0]"), "cert.pem");
    }
}
