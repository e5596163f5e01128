//! Several gateways on one store: a change is in force and shown at each of them, `turnpike nodes` lists them, and an edge node changes
//! nothing and needs no right to.
//!
//! What becomes of requests while parts of such a cluster fail is in `cluster`.

use crate::support::client::{chat, client, hello};
use crate::support::command::turnpike_with;
use crate::support::exclusive::exclusive;
use crate::support::postgres_server::Server;
use crate::support::settings::{OPERATOR_KEY, STANDARD};
use crate::support::wait::until;
use crate::support::{Gateway, postgres_server, stores};
use control::openapi_document;
use reqwest::Method;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

const PAGE: &str = include_str!("../docs/cluster.md");
/// How long a change may take to be in force and shown at another gateway.
const IN_FORCE: Duration = Duration::from_secs(2);

fn node(name: &str, url: &str, more: &str) -> Gateway {
    let named = STANDARD.replace("server:\n", &format!("server:\n  node: {name}\n"));
    Gateway::start(&format!("{named}{}", stores::settings(url, more)))
}

/// What `/readyz?verbose` says of the store's revision: its number and source.
async fn revision(gateway: &Gateway) -> (u64, String) {
    let shown = gateway.read("/readyz?verbose").await;
    let config = &shown["config"];
    (config["revision"].as_u64().unwrap(), config["source"].as_str().unwrap().to_owned())
}

fn nodes(gateway: &Gateway, arguments: &[&str]) -> (String, String) {
    let (url, key) = (gateway.control_url(), OPERATOR_KEY);
    let all = [&["nodes"], arguments].concat();
    let end = turnpike_with(&all, &[("TURNPIKE_URL", &url), ("TURNPIKE_KEY", key)]);
    assert_eq!(end.code, Some(0), "{end:?}");
    (end.stdout, end.stderr)
}

async fn listed(gateway: &Gateway, name: &str) -> Option<Value> {
    let list = gateway.read("/v1/nodes").await;
    list["data"].as_array().unwrap().iter().find(|node| node["name"] == name).cloned()
}

#[tokio::test]
async fn a_change_is_in_force_and_shown_at_each_gateway_within_two_seconds() {
    let _alone = exclusive().await;
    let Some(server) = postgres_server::shared() else { return };
    let url = server.new_database();
    let [one, two] = ["one", "two"].map(|name| node(name, &url, ""));
    let mut longest = Duration::ZERO;
    for number in 0..5 {
        let config = json!({"name": format!("c{number}"), "slug": format!("c{number}"), "config": {"provider": "@emulator"}});
        one.create("/v1/configs", &config).await;
        let begin = Instant::now();
        let (wanted, source) = revision(&one).await;
        assert_eq!(source, "store");
        until("the change to be shown at the other gateway", async || {
            (revision(&two).await.0 >= wanted).then_some(())
        })
        .await;
        longest = longest.max(begin.elapsed());
        let call = chat(&two, "in-force", &hello(false)).header("x-gateway-config", format!("c{number}"));
        assert_eq!(call.send().await.unwrap().status(), 200, "it is shown and not in force");
        let metric = two.metric("turnpike_config_revision ").await.unwrap();
        assert!(metric >= wanted as f64, "{metric} {wanted}");
    }
    println!("a change was shown at the other gateway after {longest:?} at most");
    assert!(longest < IN_FORCE, "{longest:?}");
}

#[tokio::test]
async fn gateways_of_one_store_are_listed_with_what_they_run() {
    let Some(server) = postgres_server::shared() else { return };
    let url = server.new_database();
    let one = node("one", &url, "");
    let two = node("two", &url, "control: {role: edge}\n");
    until("both to be listed as serving", async || {
        let both = [listed(&one, "one").await?, listed(&one, "two").await?];
        both.iter().all(|node| node["status"] == "serving" && node["behind"] == 0).then_some(())
    })
    .await;
    let shown = one.read("/readyz?verbose=1").await;
    let of_one = listed(&two, "one").await.unwrap();
    assert_eq!(
        (&shown["node"]["name"], &shown["node"]["role"], &shown["node"]["settings_hash"]),
        (&json!("one"), &json!("primary"), &Value::Null),
        "the route is open"
    );
    assert_eq!(of_one["settings_hash"].as_str().unwrap().len(), 12);
    assert_eq!(shown["node"]["started_at"], of_one["started_at"]);
    assert_eq!(listed(&one, "two").await.unwrap()["role"], "edge");
    assert!(of_one["clock_ahead_seconds"].as_f64().unwrap().abs() < 5.0, "{of_one}");
    let (table, _) = nodes(&two, &[]);
    assert!(table.starts_with("NAME ") && table.contains(" edge ") && table.lines().count() == 3, "{table}");
    let (text, _) = nodes(&two, &["--json"]);
    assert_eq!(serde_json::from_str::<Vec<Value>>(&text).unwrap().len(), 2);
    // The data port may be open to anyone: neither names nor hashes are shown there, and nothing without `verbose`.
    let open = async |path: &str| -> Value {
        client().get(format!("{}{path}", one.data_url())).send().await.unwrap().json().await.unwrap()
    };
    let open = [open("/readyz?verbose").await, open("/readyz").await];
    assert!(open[0]["config"]["revision"].is_u64() && open[0]["node"].is_null(), "{}", open[0]);
    assert!(open[1]["config"].is_null(), "{}", open[1]);

    // One that is heard no more is shown as silent.
    let database = url.rsplit('/').next().unwrap().split('?').next().unwrap();
    let hour_ago = "SELECT gen_random_uuid(), 'three', address, clock, reported_at - 3600000000000, body FROM nodes WHERE name = 'one'";
    assert!(server.sql(database, &format!("INSERT INTO nodes {hour_ago}")));
    let silent = listed(&one, "three").await.unwrap();
    assert_eq!(silent["status"], "silent", "{silent}");
    let (_, notes) = nodes(&one, &[]);
    assert!(notes.contains("three (") && notes.contains("has last reported at"), "{notes}");
    // A killed one gives way to its successor, as soon as it is silent.
    let two = two.killed_and_started_again();
    let aged = "UPDATE nodes SET reported_at = reported_at - 3600000000000 WHERE id = (SELECT id FROM nodes WHERE name = 'two' ORDER BY id LIMIT 1)";
    assert!(server.sql(database, aged));
    until("one row of it, that serves", async || {
        let list = one.read("/v1/nodes").await;
        let mut rows = list["data"].as_array().unwrap().iter().filter(|node| node["name"] == "two");
        (rows.next()?["status"] == "serving" && rows.next().is_none()).then_some(())
    })
    .await;
    // One that stops takes itself off the list.
    two.terminate();
    assert!(two.ended().await.success());
    assert_eq!(listed(&one, "two").await, None);
}

#[tokio::test]
async fn a_gateway_alone_lists_itself() {
    let gateway = Gateway::start(STANDARD);
    let list = until("itself", async || {
        let list = gateway.read("/v1/nodes").await;
        (list["total"] == 1).then_some(list)
    })
    .await;
    assert!(!list["data"][0]["name"].as_str().unwrap().is_empty(), "{list}");
    assert_eq!(revision(&gateway).await.1, "store");
}

/// The statements of the page that give an edge node its rights, with another password.
fn grants() -> String {
    let blocks = PAGE.split("```").skip(1).step_by(2);
    let mut found = blocks.filter_map(|block| block.strip_prefix("sql\n"));
    found.find(|block| block.contains("CREATE ROLE turnpike_edge")).unwrap().to_owned()
}

/// The URL of the database for the role of the page.
fn edge_url(server: &Server, url: &str) -> String {
    let database = url.rsplit('/').next().unwrap().split('?').next().unwrap();
    // One server has several databases, and one role.
    let _made = server.sql(database, "CREATE ROLE turnpike_edge LOGIN");
    let text = grants();
    let rights: Vec<&str> = text.lines().filter(|line| line.starts_with("GRANT ")).collect();
    assert!(rights.len() > 2, "{text}");
    for right in rights {
        assert!(
            server.sql(database, &right.replace("DATABASE turnpike", &format!("DATABASE {database}"))),
            "{right}"
        );
    }
    url.replace("turnpike@", "turnpike_edge@")
}

#[tokio::test]
async fn an_edge_node_refuses_every_change_and_needs_no_right_to_write() {
    let Some(server) = postgres_server::shared() else { return };
    let url = server.new_database();
    let primary = node("primary", &url, "");
    let config = json!({"name": "c", "slug": "of-primary", "config": {"provider": "@emulator"}});
    primary.create("/v1/configs", &config).await;
    let edge = node("edge", &edge_url(server, &url), "control: {role: edge}\n");
    let call = chat(&edge, "edge", &hello(false)).header("x-gateway-config", "of-primary");
    assert_eq!(call.send().await.unwrap().status(), 200);
    // Also what is changed later.
    let later = json!({"name": "d", "slug": "later", "config": {"provider": "@emulator"}});
    primary.create("/v1/configs", &later).await;
    until("the change", async || {
        let call = chat(&edge, "edge", &hello(false)).header("x-gateway-config", "later");
        (call.send().await.unwrap().status() == 200).then_some(())
    })
    .await;

    let before = primary.read("/v1/configs").await;
    let document = openapi_document();
    let [mut refused, mut read] = [0, 0];
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let segment =
                |segment: &str| if segment.starts_with('{') { "some".to_owned() } else { segment.to_owned() };
            let filled = path.split('/').map(segment).collect::<Vec<_>>().join("/");
            let method: Method = method.to_uppercase().parse().unwrap();
            let call =
                edge.control(method.clone(), &filled).header("content-type", "application/json").body("{}");
            let response = call.send().await.unwrap();
            let status = response.status().as_u16();
            let body: Value = response.json().await.unwrap_or_default();
            let is_refusal = status == 403 && body.to_string().contains("edge node (control.role: edge)");
            assert_eq!(
                is_refusal,
                operation["x-refused-at-edge"] == true,
                "{method} {path}: {status} {body}"
            );
            if is_refusal { refused += 1 } else { read += 1 }
        }
    }
    assert!(refused > 60 && read > 60, "{refused} {read}");
    // Who has no key learns nothing of the role.
    let open = client().post(format!("{}/v1/configs", edge.control_url())).send().await.unwrap();
    assert_eq!(open.status(), 401);
    let log = edge.log();
    assert!(!log.contains("permission denied"), "{log}");
    // It is listed: that row it may write.
    until("the edge node to be listed", async || listed(&primary, "edge").await).await;
    assert_eq!(primary.read("/v1/configs").await["total"], before["total"]);
}

#[test]
fn an_edge_node_makes_no_tables() {
    let Some(server) = postgres_server::shared() else { return };
    let url = server.new_database();
    // Its role has every right here.
    let edge = node("edge", &url, "control: {role: edge}\n");
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        assert_eq!(revision(&edge).await, (0, "settings".to_owned()));
        let made = edge.control(Method::POST, "/v1/configs").body("{}").send().await.unwrap();
        assert_eq!(made.status(), 403);
        let database = url.rsplit('/').next().unwrap().split('?').next().unwrap();
        assert!(!server.sql(database, "SELECT * FROM records"));
        // As soon as a primary has made them, it goes on by itself.
        let primary = node("primary", &url, "");
        until("the edge node to follow", async || {
            let (number, source) = revision(&edge).await;
            (number == revision(&primary).await.0 && source == "store").then_some(())
        })
        .await;
    });
}

#[test]
fn an_edge_node_needs_a_store_that_others_write() {
    let wrong = crate::support::command::check("control:\n  role: edge\n");
    assert_eq!(wrong.code, Some(1), "{wrong:?}");
    let text = format!("{}{}", wrong.stdout, wrong.stderr);
    assert!(text.contains(":2:9: control.role: edge only reads its store"), "{text}");
}
