//! One table that reads, reports and describes. Not single types, which the objects that have them prove.

use super::*;
use crate::config::node::Node;
use crate::config::read::Problems;
use crate::error::Problem;
use serde_json::json;

#[derive(Debug, PartialEq)]
struct Listener {
    name: String,
    port: u16,
    peers: Vec<(String, bool)>,
}

fn listener(table: &mut MemberTable<'_>) -> Option<Listener> {
    let name = table.needed("name", NON_EMPTY, "Its name.");
    let port = table.or("port", whole(1, 65_535), 80, "Where it listens.");
    let peers = table.get("peers", list(object(peer), "A peer."), "Whom it knows.").unwrap_or_default();
    if port == 81 {
        table.problem("port", "is taken");
    }
    Some(Listener { name: name?, port, peers })
}

fn peer(table: &mut MemberTable<'_>) -> Option<(String, bool)> {
    let host = table.needed("host", NON_EMPTY, "Its host.");
    let trusted = table.or("trusted", FLAG, false, "Whether it is trusted.");
    Some((host?, trusted))
}

fn read_text(text: &str) -> (Option<Listener>, Vec<String>) {
    let node = Node::from_json(text.as_bytes()).unwrap();
    let problems = Problems::default();
    let value = read(&Cursor::root(&node, &problems), listener);
    (value, problems.into_vec().iter().map(Problem::to_string).collect())
}

#[test]
fn a_table_reads_an_object_and_reports_all_that_is_wrong_with_it() {
    let (read, problems) = read_text(r#"{"name":"a","peers":[{"host":"b"},{"host":"c","trusted":true}]}"#);
    let peers = vec![("b".to_owned(), false), ("c".to_owned(), true)];
    assert_eq!((read, problems.len()), (Some(Listener { name: "a".to_owned(), port: 80, peers }), 0));
    let (read, problems) = read_text(r#"{"port":0,"prot":1,"peers":[{"trusted":1},{"host":"d"}]}"#);
    assert_eq!(read, None);
    let wanted = [
        "name: is required",
        "port: must be at least 1",
        "peers[0].host: is required",
        "peers[0].trusted: must be a boolean, not a number",
        "prot: unknown key; did you mean port?",
    ];
    assert_eq!(problems, wanted);
    assert_eq!(read_text(r#"{"name":"a","port":81}"#).1, ["port: is taken"]);
}

#[test]
fn the_same_table_describes_it() {
    let peer = json!({
        "type": "object", "description": "A peer.", "additionalProperties": false, "required": ["host"],
        "properties": {
            "host": {"type": "string", "pattern": r"\S", "description": "Its host."},
            "trusted": {"type": ["boolean", "null"], "default": false, "description": "Whether it is trusted."},
        },
    });
    let wanted = json!({
        "type": "object", "description": "A listener.", "additionalProperties": false, "required": ["name"],
        "properties": {
            "name": {"type": "string", "pattern": r"\S", "description": "Its name."},
            "port": {
                "type": ["integer", "null"], "minimum": 1, "maximum": 65_535, "default": 80,
                "description": "Where it listens.",
            },
            "peers": {"type": ["array", "null"], "items": peer, "description": "Whom it knows."},
        },
    });
    assert_eq!(schema("A listener.", listener), wanted);
}
