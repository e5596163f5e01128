//! Portkey's rules as a table, where we differ from them, and hostile spellings of addresses.

use super::*;
use proptest::prelude::{any, prop_assert, proptest};
use std::net::{Ipv4Addr, Ipv6Addr};

fn rules(allow_private: bool, allow: &[&str]) -> HostRules {
    let allow = allow.iter().map(|text| AllowRule::parse(text).unwrap()).collect();
    HostRules::new(&CustomHosts { allow_private, allow })
}

/// Whether a client's URL passes all checks that need no DNS.
fn passes(rules: &HostRules, url: &str) -> bool {
    Origin::parse(url, false).is_ok_and(|origin| rules.check_name(&origin).is_ok())
}

/// Whether a client's URL passes when its host resolves to `ip`.
fn reaches(rules: &HostRules, url: &str, ip: &str) -> bool {
    let Ok(origin) = Origin::parse(url, false) else { return false };
    rules.check_name(&origin).is_ok() && rules.check_address(&origin, ip.parse().unwrap()).is_ok()
}

/// Rows that Portkey calls valid, and we too. The addresses of names are still checked later.
const VALID: &[&str] = &[
    "http://134744072", // 8.8.8.8
    "http://8.8.8.8",
    "http://172.32.0.1",
    "http://100.128.0.1",
    "https://EXAMPLE.com",
    "https://exämple.com",
    "http://kubernetes",
    "https://example.com:65535",
    "https://example.com/%00",
    " https://example.com",
    "https://a.b.c.d.e.f.g.h.i.j",
    "http://127.0.0.1.nip.io",
];

/// Rows that Portkey calls valid and we refuse by default, each with the reason.
const STRICTER: &[(&str, &str)] = &[
    ("http://localhost:11434", "loopback must be opened by the operator"),
    ("http://127.0.0.1:8000", "loopback"),
    ("http://127.1", "loopback, shortened"),
    ("http://2130706433", "loopback, decimal"),
    ("http://0x7f000001", "loopback, hex"),
    ("http://0177.0.0.1", "loopback, octal"),
    ("http://host.docker.internal:8080", "the machine we run on"),
    ("http://foo.localhost", "loopback by name"),
    ("http://1.2.3", "passes: see below"),
    ("http://198.18.0.1", "benchmarking range"),
    ("http://192.0.2.1", "documentation range"),
    ("https://exa%6dple.com", "a % in the host is never needed and often an attack"),
];

/// Rows that both Portkey and we refuse.
const INVALID: &[&str] = &[
    "http://127.0.0.2",
    "http://10.0.0.1",
    "http://172.16.0.1",
    "http://192.168.1.1",
    "http://100.64.0.1",
    "http://169.254.169.254",
    "http://169.254.1.1",
    "http://0.0.0.0",
    "http://224.0.0.1",
    "http://[::1]",
    "http://[::ffff:127.0.0.1]",
    "http://foo.local",
    "http://svc.internal",
    "http://db.corp",
    "http://x.home",
    "http://y.lan",
    "http://a.test",
    "http://a.invalid",
    "http://a.onion",
    "http://metadata",
    "http://metadata.google.internal",
    "http://metadata.azure.com",
    "http://instance-data",
    "https://user:pass@example.com",
    "https://example.com/@foo",
    "ftp://example.com",
    "file:///etc/passwd",
    "data:text/plain,x",
    "gopher://x",
    "ws://example.com",
    "https://example.com.",
    "https://ex_ample.com",
    "https://example.com:0",
    "https://example.com:65536",
    "example.com",
    "//example.com",
    "https://a.b.c.d.e.f.g.h.i.j.k",
    "http://1.2.3.4.5",
    "http://exam\tple.com",
    "",
];

#[test]
fn the_reference_rows_with_default_rules() {
    let rules = HostRules::default();
    for url in VALID {
        assert!(passes(&rules, url), "{url:?} must pass");
    }
    for url in INVALID {
        assert!(!passes(&rules, url), "{url:?} must be refused");
    }
    for (url, why) in STRICTER {
        // 1.2.3 means 1.2.0.3, a public address: the only row of this list that we accept, too.
        assert_eq!(passes(&rules, url), *url == "http://1.2.3", "{url:?}: {why}");
    }
    // Portkey refuses every IPv6 literal; we accept public ones.
    assert!(passes(&rules, "http://[2001:4860:4860::8888]"));
}

#[test]
fn a_trusted_list_opens_what_it_names_and_nothing_else() {
    // As TRUSTED_CUSTOM_HOSTS=llm.corp,10.0.0.5 at Portkey; that it still trusts localhost then is a bug.
    let rules = rules(false, &["llm.corp", "10.0.0.5"]);
    for url in ["http://llm.corp", "http://LLM.corp:8080/v1", "http://10.0.0.5", "http://[::ffff:10.0.0.5]"] {
        assert!(passes(&rules, url), "{url}");
    }
    for url in ["http://10.0.0.6", "http://127.0.0.1", "http://127.1", "http://169.254.169.254"] {
        assert!(!passes(&rules, url), "{url}");
    }
    assert!(reaches(&rules, "http://llm.corp", "192.168.7.7"), "an allowed name may point anywhere private");
    assert!(!reaches(&rules, "http://localhost", "127.0.0.1"));
    assert!(!reaches(&rules, "http://x.llm.corp", "192.168.7.7"));
    assert!(!reaches(&rules, "http://llm.corp", "169.254.169.254"), "but not at a metadata service");
}

#[test]
fn every_resolved_address_is_checked() {
    let rules = HostRules::default();
    let url = "http://api.example.com";
    for ip in ["93.184.216.34", "2606:4700::1111", "64:ff9b::8.8.8.8", "::ffff:8.8.8.8"] {
        assert!(reaches(&rules, url, ip), "{ip}");
    }
    for ip in [
        "127.0.0.1",
        "10.1.2.3",
        "169.254.169.254",
        "100.100.100.200",
        "168.63.129.16",
        "::1",
        "fd00:ec2::254",
        "fe80::1",
        "::ffff:10.0.0.1",
        "64:ff9b::a9fe:a9fe",
        "64:ff9b:1::1",
        "2002:7f00:1::",
        "2001:0:1::1",
        "0.0.0.0",
        "255.255.255.255",
    ] {
        assert!(!reaches(&rules, url, ip), "{ip}");
    }
}

#[test]
fn allow_rules_open_exactly_their_hosts() {
    // rule, URL, resolved address, passes
    let rows = [
        ("*.corp", "http://db.corp", "10.0.0.1", true),
        ("*.corp", "http://a.b.corp", "10.0.0.1", true),
        ("*.corp", "http://corp", "10.0.0.1", false),
        ("*.corp", "http://evilcorp", "10.0.0.1", false),
        ("*.corp", "http://db.corp", "169.254.169.254", false),
        ("db.corp:8080", "http://db.corp:8080", "10.0.0.1", true),
        ("db.corp:8080", "http://db.corp", "10.0.0.1", false),
        ("10.0.0.0/8", "http://any.example.com", "10.9.9.9", true),
        ("10.0.0.0/8", "http://svc.internal", "10.9.9.9", true),
        ("10.0.0.0/8", "http://svc.internal", "192.168.0.1", false),
        ("10.0.0.0/8", "http://localhost", "127.0.0.1", false),
        ("10.0.0.0/8", "http://metadata.google.internal", "10.0.0.1", false),
        ("10.0.0.0/8", "http://any.example.com", "64:ff9b::10.9.9.9", true),
        ("10.0.0.0/8", "http://any.example.com", "::ffff:10.9.9.9", true),
        ("10.0.0.0/8:8000", "http://any.example.com:8000", "10.1.1.1", true),
        ("10.0.0.0/8:8000", "http://any.example.com:8001", "10.1.1.1", false),
        ("127.0.0.1", "http://localhost:11434", "127.0.0.1", true),
        ("127.0.0.1", "http://localhost:11434", "::1", false),
        ("localhost", "http://localhost:11434", "::1", true),
        ("localhost", "http://foo.localhost", "127.0.0.1", false),
        ("::1", "http://x.example.com", "::1", true),
        ("[::1]:8000", "http://x.example.com:8000", "::1", true),
        ("[fd00::/8]:8000", "http://x.example.com:8000", "fd12::1", true),
        ("fd00::/8", "http://x.example.com", "fd00:ec2::254", true),
        ("::ffff:10.0.0.0/104", "http://x.example.com", "10.1.1.1", true),
        ("0x7f000001", "http://localhost", "127.0.0.1", true),
        ("metadata.google.internal", "http://metadata.google.internal", "8.8.8.8", true),
        ("*.google.internal", "http://metadata.google.internal", "8.8.8.8", false),
        ("169.254.169.254", "http://x.example.com", "169.254.169.254", true),
        ("exämple.corp", "http://exämple.corp", "10.0.0.1", true),
    ];
    for (rule, url, ip, wanted) in rows {
        assert_eq!(reaches(&rules(false, &[rule]), url, ip), wanted, "{rule} {url} {ip}");
    }
}

#[test]
fn allow_private_opens_private_networks_but_never_metadata() {
    let rules = rules(true, &[]);
    for (url, ip) in [
        ("http://localhost", "127.0.0.1"),
        ("http://foo.local", "192.168.0.1"),
        ("http://host.docker.internal", "172.17.0.1"),
        ("http://x.example.com", "fd12::1"),
        ("http://x.example.com", "100.64.0.1"),
    ] {
        assert!(reaches(&rules, url, ip), "{url} {ip}");
    }
    for (url, ip) in [
        ("http://x.example.com", "169.254.169.254"),
        ("http://x.example.com", "100.100.100.200"),
        ("http://x.example.com", "fd00:ec2::254"),
        ("http://x.example.com", "224.0.0.1"),
        ("http://metadata", "8.8.8.8"),
    ] {
        assert!(!reaches(&rules, url, ip), "{url} {ip}");
    }
}

#[test]
fn bad_rules_are_all_reported_with_their_index() {
    let bad = [
        "",
        "https://example.com",
        "10.0.0.0/33",
        "example.com/x",
        "*",
        "*.*.corp",
        "a.*.corp",
        "*.",
        "host:0",
        "host:65536",
        "host:+1",
        "host:",
        "[::1",
        "[::1]x",
        "a b",
        "*.10.0.0.1",
    ];
    for text in bad {
        assert!(AllowRule::parse(text).is_err(), "{text}");
    }
}

#[test]
fn operator_hosts_are_trusted() {
    let origin = Origin::parse("http://localhost:11434", true).unwrap();
    let rules = HostRules::default();
    assert!(rules.check_name(&origin).is_ok());
    assert!(rules.check_address(&origin, Ipv4Addr::LOCALHOST.into()).is_ok());
}

#[test]
fn a_refusal_advises_the_operator_and_hides_the_address() {
    let rules = HostRules::default();
    let origin = Origin::parse("http://db.example.com", false).unwrap();
    let text = rules.check_address(&origin, "10.20.30.40".parse().unwrap()).unwrap_err();
    assert!(text.contains("custom_hosts.allow") && text.contains("db.example.com"), "{text}");
    assert!(!text.contains("10.20") && !text.contains("private"), "{text}");
    let origin = Origin::parse("http://0xa000001", false).unwrap();
    let text = rules.check_name(&origin).unwrap_err();
    assert!(text.contains("10.0.0.1") && text.contains("private"), "{text}");
}

proptest! {
    /// No text panics, and an IP literal that passes is a public address.
    #[test]
    fn no_text_reaches_a_forbidden_literal(text in "(https?://)?[0-9a-fxX.:\\[\\]@%/\\\\]{0,40}", free in any::<String>()) {
        let rules = HostRules::default();
        for text in [text, free] {
            let _ = (Origin::parse(&text, true), AllowRule::parse(&text));
            let Ok(origin) = Origin::parse(&text, false) else { continue };
            if rules.check_name(&origin).is_ok() && let Host::Ip(ip) = origin.host {
                prop_assert!(Ranges::default().special(ip).is_none(), "{text} {ip}");
            }
        }
    }

    /// Every spelling of a forbidden IPv4 address is refused.
    #[test]
    fn no_notation_of_a_private_address_passes(low in any::<u32>(), pick in 0..6usize) {
        let bases = [(0x0a00_0000, 8), (0x7f00_0000, 8), (0xa9fe_0000, 16), (0xc0a8_0000, 16), (0xac10_0000, 12), (0xe000_0000, 3)];
        let (base, bits): (u32, u32) = bases[pick];
        let ip = Ipv4Addr::from_bits(base | (low & (u32::MAX >> bits)));
        let [a, b, c, d] = ip.octets();
        let n = ip.to_bits();
        let mapped = ip.to_ipv6_mapped();
        let nat64 = Ipv6Addr::from_bits((0x0064_ff9b_u128 << 96) | u128::from(n));
        let sixtofour = Ipv6Addr::from_bits((0x2002_u128 << 112) | (u128::from(n) << 80));
        for host in [
            ip.to_string(),
            n.to_string(),
            format!("0x{n:x}"),
            format!("0{n:o}"),
            format!("{a:#x}.{b:#x}.{c:#x}.{d:#x}"),
            format!("0{a:o}.0{b:o}.0{c:o}.0{d:o}"),
            format!("{a}.{}", n & 0xff_ffff),
            format!("{a}.{b}.{}", n & 0xffff),
            format!("[{mapped}]"),
            format!("[::ffff:{:x}:{:x}]", n >> 16, n & 0xffff),
            format!("[{nat64}]"),
            format!("[{sixtofour}]"),
            format!("[::{ip}]"),
            ip.to_string().replace('.', "。"),
            ip.to_string().replace('1', "１"),
        ] {
            prop_assert!(!passes(&HostRules::default(), &format!("http://{host}/v1")), "{host}");
        }
    }
}
