//! How the process starts: what prevents a start is reported at once, and systemd is notified.
//!
//! Not under a real systemd: a datagram socket replaces it. How the process stops is in `stopping`.

use crate::support::client::{chat, client, hello, new_trace};
use crate::support::command::turnpike;
use crate::support::settings::STANDARD;
use crate::support::wait::{until, until_blocking};
use crate::support::{Gateway, ports, postgres_server, stores};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixDatagram;
use std::time::Duration;

#[test]
fn a_start_failure_is_reported_and_ends_the_process() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap();
    let data = ports::free();
    let control = ports::free();
    let listen = format!("listen: {{data: ['127.0.0.1:{data}'], control: '127.0.0.1:{control}'}}\n");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("turnpike.yaml");
    let run = |yaml: &str, arguments: &[&str]| {
        std::fs::write(&file, yaml).unwrap();
        turnpike(&[&["run", "-c", file.to_str().unwrap()], arguments].concat())
    };
    for (yaml, expected) in [
        (
            "colour: red\nlimits: {max_body_bytes: 1}\n".to_owned(),
            &["yaml:1:1: colour", "yaml:2:26: limits.max_body_bytes"][..],
        ),
        (
            listen.replace(&data.to_string(), &taken.port().to_string()),
            &["listen.data", &taken.to_string(), "in use"],
        ),
        (format!("{listen}emulator: {{listen: '{taken}'}}\n"), &["emulator.listen", "in use"]),
        (
            listen.replace(&format!("127.0.0.1:{control}"), "192.0.2.1:8788"),
            &["listen.control", "192.0.2.1:8788"],
        ),
        (
            listen.replace(
                &format!("'127.0.0.1:{data}'"),
                &format!("{{address: '127.0.0.1:{data}', tls: {{cert: /no/cert, key: /no/key}}}}"),
            ),
            &["/no/cert"],
        ),
        (
            format!("{listen}access_log: {{output: file, path: /no/such/folder/a.log}}\n"),
            &["access_log.path: /no/such/folder/a.log: there is no folder /no/such/folder"],
        ),
        (
            format!("{listen}server: {{pid_file: /no/such/folder/pid}}\n"),
            &["server.pid_file", "there is no folder /no/such/folder"],
        ),
    ] {
        let end = run(&yaml, &[]);
        assert_eq!(end.code, Some(1), "{yaml}\n{end:?}");
        assert!(
            expected.iter().all(|text| end.stderr.contains(text)),
            "{expected:?} of {yaml}\n{}",
            end.stderr
        );
        assert!(!end.stderr.contains("panicked") && !end.stderr.contains("serving on"), "{}", end.stderr);
    }
    if !std::path::Path::new("/run/systemd/journal/socket").exists() {
        let end = run(&format!("{listen}access_log: {{output: journald}}\n"), &[]);
        assert!(end.code == Some(1) && end.stderr.contains("access_log.output: "), "{end:?}");
    }
}

/// systemd's end of the notify socket.
struct Systemd {
    socket: UnixDatagram,
    _folder: tempfile::TempDir,
}

impl Systemd {
    fn listen() -> (Self, String) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let socket = UnixDatagram::bind(&path).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        (Self { socket, _folder: folder }, path.to_str().unwrap().to_owned())
    }

    /// The next notification that is not from the watchdog.
    fn receive(&self) -> String {
        let next = || {
            let text = self.next();
            (text != "WATCHDOG=1").then_some(text)
        };
        until_blocking(next).expect("a notification")
    }

    fn next(&self) -> String {
        let mut buffer = [0; 4096];
        let length = self.socket.recv(&mut buffer).expect("nothing was notified");
        String::from_utf8(buffer[..length].to_vec()).unwrap().trim_end().to_owned()
    }
}

#[tokio::test]
async fn systemd_is_notified_of_ready_reloading_watchdog_and_stopping() {
    let (systemd, socket) = Systemd::listen();
    let gateway = Gateway::start_with(STANDARD, &|command| {
        command.env("NOTIFY_SOCKET", &socket).env("WATCHDOG_USEC", "150000");
    });
    assert_eq!(systemd.receive(), "READY=1\nSTATUS=serving");
    let response = chat(&gateway, &new_trace(), &hello(false)).send().await.unwrap();
    assert_eq!(response.status(), 200, "READY was sent before requests could be served");
    assert_eq!((systemd.next(), systemd.next()), ("WATCHDOG=1".to_owned(), "WATCHDOG=1".to_owned()));

    for yaml in [format!("{STANDARD}# changed\n"), "colour: red\n".to_owned()] {
        gateway.reload(&yaml);
        let reloading = systemd.receive();
        let at = reloading.strip_prefix("RELOADING=1\nMONOTONIC_USEC=").expect(&reloading);
        assert!(at.parse::<u64>().unwrap() > 0, "{reloading}");
        assert_eq!(systemd.receive(), "READY=1", "after a good file and after a wrong one");
    }

    gateway.terminate();
    assert_eq!(systemd.receive(), "STOPPING=1\nSTATUS=draining");
    assert!(gateway.ended().await.success());
}

#[tokio::test]
async fn gateways_that_start_at_once_prepare_their_store_together() {
    let Some(server) = postgres_server::shared() else { return };
    // No key in the settings, so that an administrator's key is made.
    let settings = format!("auth: {{keys: []}}\n{}", stores::settings(&server.new_database(), ""));
    let starts: Vec<_> = (0..3)
        .map(|_| {
            let settings = settings.clone();
            std::thread::spawn(move || Gateway::start(&settings))
        })
        .collect();
    let gateways: Vec<Gateway> = starts.into_iter().map(|start| start.join().unwrap()).collect();
    let keys = |gateway: &Gateway| gateway.stderr.lines_with("administrates the control port").len();
    for gateway in &gateways {
        until("the end of the announcement", async || gateway.stderr.lines_with("providers:").pop()).await;
    }
    assert_eq!(gateways.iter().map(keys).sum::<usize>(), 1, "one of them makes the key");
    for gateway in &gateways {
        let file = gateway.folder().join("data/administrator.key");
        assert_eq!(file.exists(), keys(gateway) == 1, "{}", gateway.log());
        let left = std::fs::read_dir(gateway.folder().join("data")).unwrap();
        let left = left.filter(|file| file.as_ref().unwrap().file_name().to_string_lossy().contains(".key."));
        assert_eq!(left.count(), 0, "no key that is not in the store is left");
    }
    for gateway in &gateways {
        assert!(gateway.stderr.lines_with("cannot be prepared").is_empty(), "{}", gateway.log());
    }
}

#[tokio::test]
async fn the_first_administrators_key_is_in_a_file_and_not_in_the_log() {
    let keyless = "auth: {keys: []}\n";
    let gateway = Gateway::start(keyless);
    let line =
        until("the announcement", async || gateway.stderr.lines_with("administrates the control port").pop())
            .await;
    let file = gateway.folder().join("data/administrator.key");
    assert!(line.contains(&file.canonicalize().unwrap().display().to_string()), "{line}");
    assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let key = std::fs::read_to_string(&file).unwrap().trim().to_owned();
    let url = format!("{}/v1/api-keys/self", gateway.control_url());
    let own = client().get(url).header("x-gateway-api-key", &key).send().await.unwrap();
    assert_eq!(own.status(), 200);
    gateway.terminate();
    gateway.ended().await;
    assert!(!gateway.log().contains(&key), "the key is in no line");

    // Where the file cannot be written there is no key that nobody has: the log says how to make one.
    let no_directory = format!(
        "{keyless}store: {{url: 'sqlite://t.db'}}\nserver: {{state_dir: turnpike.yaml}}\nlogs: {{enabled: false}}\nbatches: {{directory: files}}\n"
    );
    let gateway = Gateway::start(&no_directory);
    let why =
        until("the reason", async || gateway.stderr.lines_with("no administrator's key was made").pop())
            .await;
    assert!(why.contains("turnpike keys create"), "{why}");
    assert!(gateway.stderr.lines_with("administrates the control port").is_empty());
}
