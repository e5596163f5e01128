//! `outbound` with and without the environment, and the rules of `NO_PROXY`.

use super::*;
use crate::config::Checks;
use crate::settings::{SecretSources, Settings};

fn read(text: &str, variables: &[(&str, &str)]) -> Result<Outbound, Vec<Problem>> {
    let env = |name: &str| {
        variables.iter().find(|(variable, _)| *variable == name).map(|(_, value)| (*value).to_owned())
    };
    let sources = SecretSources { env: &env, credential: &|_| Err(String::new()) };
    let checks = Checks::NONE;
    Settings::parse(text, &sources, &checks).map(|settings| settings.outbound)
}

/// The proxies for http and https, each with where it is from.
fn proxies(outbound: &Outbound) -> [String; 2] {
    [&outbound.http, &outbound.https].map(|named| {
        named.as_ref().map_or_else(String::new, |named| format!("{} {}", named.from, named.proxy))
    })
}

#[test]
fn the_file_goes_before_the_environment_and_lower_case_before_upper() {
    let all = [("ALL_PROXY", "http://all:1")];
    let both = [("HTTP_PROXY", "a:1"), ("HTTPS_PROXY", "http://u:s3cret@b:2"), ("ALL_PROXY", "c:3")];
    let lower = [("HTTPS_PROXY", "b:2"), ("https_proxy", "c:3"), ("http_proxy", " ")];
    for (text, variables, http, https) in [
        ("", &[][..], "", ""),
        ("", &all[..], "ALL_PROXY http://all:1", "ALL_PROXY http://all:1"),
        ("", &both[..], "HTTP_PROXY http://a:1", "HTTPS_PROXY http://***@b:2"),
        ("", &lower[..], "", "https_proxy http://c:3"),
        ("outbound: {proxy: none}", &both[..], "", ""),
        (
            "outbound: {proxy: 'http://u:${P}@x:9'}",
            &[("P", "s3cret"), ("HTTPS_PROXY", "b:2")][..],
            "outbound.proxy http://***@x:9",
            "outbound.proxy http://***@x:9",
        ),
    ] {
        let found = read(text, variables).unwrap();
        assert_eq!(proxies(&found), [http, https], "{text} {variables:?}");
    }
}

#[test]
fn proxies_are_described_without_credentials() {
    let described = |variables: &[(&str, &str)]| read("", variables).unwrap().described();
    assert_eq!(described(&[]), [""; 0]);
    let one = described(&[("ALL_PROXY", "http://u:s3cret@h:1")]);
    assert_eq!(one, ["http://***@h:1 for http:// and https:// addresses (ALL_PROXY)"]);
    let two = described(&[("HTTP_PROXY", "h:1"), ("HTTPS_PROXY", "h:1")]);
    let wanted =
        ["http://h:1 for http:// addresses (HTTP_PROXY)", "http://h:1 for https:// addresses (HTTPS_PROXY)"];
    assert_eq!(two, wanted);
}

#[test]
fn a_variable_that_is_no_proxy_is_a_problem_unless_the_file_decides() {
    for value in ["socks5://u:s3cret@h:1", "http://h/x"] {
        let problems = read("", &[("ALL_PROXY", value)]).unwrap_err();
        assert_eq!(problems.len(), 1, "{problems:?}");
        let text = problems[0].to_string();
        assert!(text.starts_with("outbound.proxy: ALL_PROXY of the environment"), "{text}");
        assert!(!text.contains("s3cret"), "{text}");
        assert!(read("outbound: {proxy: none}", &[("ALL_PROXY", value)]).is_ok());
    }
}

#[test]
fn no_proxy_has_hosts_suffixes_ranges_ports_and_everything() {
    let list = "example.com, .corp  *.lan,10.1.2.3/8,[fd00::]/8,192.0.2.7:8443,host:8080,bad/entry,";
    for (name, ip, port, direct) in [
        (Some("example.com"), None, 443, true),
        (Some("api.example.com"), None, 443, true),
        (Some("badexample.com"), None, 443, false),
        (Some("corp"), None, 443, false),
        (Some("llm.corp"), None, 443, true),
        (Some("a.lan"), None, 80, true),
        (None, Some("10.200.0.1"), 443, true),
        (None, Some("11.0.0.1"), 443, false),
        (None, Some("::ffff:10.0.0.1"), 443, true),
        (None, Some("192.0.2.7"), 8443, true),
        (None, Some("192.0.2.7"), 443, false),
        (Some("host"), None, 8080, true),
        (Some("a.host"), None, 8080, true),
        (Some("host"), None, 443, false),
    ] {
        let ip = ip.map(|ip: &str| ip.parse().unwrap());
        assert_eq!(NoProxy::from_text(list).has(name, ip, port), direct, "{name:?} {ip:?} {port}");
        assert!(NoProxy::from_text("x,*").has(name, ip, port));
        assert!(!NoProxy::default().has(name, ip, port));
    }
    let in_file = read("outbound: {no_proxy: [a.example]}", &[("NO_PROXY", "*")]).unwrap();
    assert!(in_file.no_proxy.has(Some("a.example"), None, 1) && !in_file.no_proxy.has(Some("b"), None, 1));
    let in_environment = read("outbound: {proxy: 'p:1'}", &[("no_proxy", "b")]).unwrap();
    assert!(in_environment.no_proxy.has(Some("b"), None, 1));
}

#[test]
fn mistakes_have_their_place() {
    let text = "outbound: {no_proxy: [a, 'b c'], source_address: [10.0.0.1, 10.0.0.2, x], ip: v5, dns: theirs, proxy: 'http://h/x'}";
    let mut paths: Vec<_> = read(text, &[]).unwrap_err().into_iter().map(|problem| problem.path).collect();
    paths.sort();
    let wanted = [
        "outbound.dns",
        "outbound.ip",
        "outbound.no_proxy[1]",
        "outbound.proxy",
        "outbound.source_address[1]",
        "outbound.source_address[2]",
    ];
    assert_eq!(paths, wanted);
    let one = read("outbound: {source_address: 10.0.0.1, ip: v4, dns: system}", &[]).unwrap();
    assert_eq!(one.source_addresses, ["10.0.0.1".parse::<IpAddr>().unwrap()]);
    assert_eq!((one.ip, one.resolver), (IpVersions::V4, NameResolver::System));
}

#[test]
fn a_provider_may_have_a_proxy_of_its_own_and_a_config_may_not() {
    let sources = SecretSources { env: &|_| None, credential: &|_| Err(String::new()) };
    let checks = Checks::NONE;
    let text = "providers:\n  a: {provider: openai, proxy: 'http://u:p@h:1'}\n  b: {provider: openai, proxy: none}\n";
    let settings = Settings::parse(text, &sources, &checks).unwrap();
    let shown = |slug: &str| settings.providers[slug].policies.proxy.as_ref().unwrap().to_string();
    assert_eq!((shown("a").as_str(), shown("b").as_str()), ("http://***@h:1", "none"));
    let config = "configs:\n  c: {provider: openai, proxy: 'http://h:1'}\n";
    assert!(Settings::parse(config, &sources, &checks).is_err());
}
