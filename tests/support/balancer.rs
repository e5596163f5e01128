//! HAProxy or nginx as a balancer before gateways, with a configuration of docs/balancers.md or docs/cluster.md.
//!
//! Killed when its guard is dropped, or by its guardian.

use super::gateway::guardian;
use super::ports::free;
use super::report;
use super::wait::until_blocking;
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

const PAGE: &str = include_str!("../../docs/balancers.md");
const CLUSTER: &str = include_str!("../../docs/cluster.md");

/// A running balancer.
pub(crate) struct Balancer {
    pub(crate) port: u16,
    process: Child,
    guardian: Child,
    folder: tempfile::TempDir,
}

impl Balancer {
    /// HAProxy before these ports of gateways, with the page's configuration that has `line`. `None` where it is not installed; CI has it.
    pub(crate) fn haproxy(line: &str, gateways: [u16; 2]) -> Option<Self> {
        let addresses = gateways.map(|port| format!("127.0.0.1:{port}"));
        Self::haproxy_of(&filled(&block(PAGE, "haproxy", line), &addresses))
    }

    /// HAProxy before gateways at these addresses, with the configuration of docs/cluster.md.
    pub(crate) fn of_cluster(gateways: &[String; 2]) -> Option<Self> {
        Self::haproxy_of(&filled(&block(CLUSTER, "haproxy", "nbsrv"), gateways))
    }

    fn haproxy_of(text: &str) -> Option<Self> {
        let port = free();
        let text = replaced(text, "inter 1s", "inter 200ms");
        let bind = text.lines().find(|line| line.trim_start().starts_with("bind ")).unwrap().trim();
        let text = replaced(&text, bind, &format!("bind 127.0.0.1:{port}"));
        Self::start(port, "haproxy", &["-db", "-f", "balancer.conf"], &text)
    }

    /// The same with nginx.
    pub(crate) fn nginx(gateways: [u16; 2]) -> Option<Self> {
        let port = free();
        let addresses = gateways.map(|port| format!("127.0.0.1:{port}"));
        let mut text = filled(&block(PAGE, "nginx", "upstream gateways"), &addresses);
        for (from, to) in [
            ("listen 443 ssl http2;", format!("listen 127.0.0.1:{port};")),
            ("    ssl_certificate /etc/nginx/gateway.crt;\n", String::new()),
            ("    ssl_certificate_key /etc/nginx/gateway.key;\n", String::new()),
            ("keepalive_timeout 5s;", "keepalive_timeout 1s;".to_owned()),
        ] {
            text = replaced(&text, from, &to);
        }
        let paths = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];
        let paths: String = paths.iter().map(|name| format!("{name}_temp_path temp_{name};\n")).collect();
        let whole = format!(
            "daemon off;\nworker_processes 1;\npid nginx.pid;\nerror_log stderr;\nevents {{}}\nhttp {{\naccess_log off;\n{paths}{text}}}\n"
        );
        Self::start(port, "nginx", &["-p", ".", "-c", "balancer.conf"], &whole)
    }

    fn start(port: u16, program: &str, arguments: &[&str], text: &str) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("balancer.conf"), text).unwrap();
        let log = std::fs::File::create(folder.path().join("log")).unwrap();
        let found = ["", "/usr/sbin/"].iter().find_map(|place| {
            let mut command = Command::new(format!("{place}{program}"));
            command.args(arguments).current_dir(folder.path()).stdin(Stdio::null()).stdout(Stdio::null());
            command.stderr(log.try_clone().unwrap()).spawn().ok()
        });
        let Some(process) = found else {
            assert!(
                std::env::var_os("CI").is_none_or(|value| value.is_empty()),
                "CI installs {program} (.ci/run)"
            );
            report(&format!(
                "*** SKIPPED: docs/balancers.md was NOT tested with {program}: it is not installed"
            ));
            return None;
        };
        let running = Self { port, guardian: guardian(process.id()), process, folder };
        let listens = until_blocking(|| TcpStream::connect(("127.0.0.1", port)).ok());
        assert!(listens.is_some(), "{program} did not start: {}\n{text}", running.log());
        Some(running)
    }

    /// Has nginx send no more requests to the gateway at this port, as the page says: `down`, and a reload.
    pub(crate) fn leave_out(&self, gateway: u16) {
        let file = self.folder.path().join("balancer.conf");
        let server = format!("server 127.0.0.1:{gateway}");
        let text = replaced(&std::fs::read_to_string(&file).unwrap(), &server, &format!("{server} down"));
        std::fs::write(file, text).unwrap();
        let sent = Command::new("sh").args(["-c", &format!("kill -HUP {}", self.process.id())]).status();
        assert!(sent.unwrap().success());
    }

    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }
}

impl Drop for Balancer {
    fn drop(&mut self) {
        // nginx's worker ends with its master only when the master is asked to end.
        let id = self.process.id();
        let _signalled = Command::new("sh").args(["-c", &format!("kill -TERM {id}")]).status();
        let ended = until_blocking(|| self.process.try_wait().ok().flatten());
        for process in [&mut self.guardian, &mut self.process] {
            let _ended_already = process.kill();
            let _ = process.wait();
        }
        assert!(ended.is_some() || std::thread::panicking(), "the balancer did not end");
    }
}

/// The block of this language in a page that has a line.
fn block(page: &str, language: &str, line: &str) -> String {
    let blocks = page.split("```").skip(1).step_by(2);
    let mut found = blocks.filter_map(|block| block.strip_prefix(&format!("{language}\n")));
    let found = found.find(|block| block.contains(line));
    found.unwrap_or_else(|| panic!("the page has no block of {language} with {line}")).to_owned()
}

fn filled(text: &str, gateways: &[String; 2]) -> String {
    let mut text = text.to_owned();
    for (address, own) in ["10.0.0.11:8787", "10.0.0.12:8787"].iter().zip(gateways) {
        text = replaced(&text, address, own);
    }
    text
}

fn replaced(text: &str, from: &str, to: &str) -> String {
    assert!(text.contains(from), "the page has no {from}");
    text.replace(from, to)
}
