//! What a client may use of the MCP servers of its workspace, and under which names: one rule for lists and for calls.
//!
//! What the rule hides is unknown to a call as well. Items of servers pass as they are, but for their names.

use super::McpPeer;
use super::access::McpClient;
use crate::engine::Engine;
use crate::engine::request_context::RequestContext;
use futures_util::future::join_all;
use memory::state::mcp_sessions::{LIST_TIME_TO_LIVE, ListPurpose, McpItem, McpItems, McpList};
use memory::state::snapshot::SettingsSnapshot;
use memory::state::stored::mcp_access::AccessKind;
use memory::state::stored::mcp_servers::Approval;
use percent_encoding::percent_decode_str;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use words::api::mcp::message::McpMessage;
use words::api::mcp::names;
use words::api::mcp::param_headers::{MARK, param_headers};
use words::error::Error;
use words::json::Json;
use words::json::write::ObjectWriter;

/// A call of something that is not in a list has the list fetched again, where that is older.
const MISS_AGE: Duration = Duration::from_secs(5);

/// What has a name, or a URI.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ItemKind {
    Tool,
    Prompt,
    Resource,
    Template,
}

/// Something of a server that a client may use.
#[derive(Debug, Clone)]
pub struct FoundItem {
    pub peer: McpPeer,
    /// As its server calls it.
    pub own_name: String,
    /// Of a tool that wants arguments repeated in headers: the JSON of its schema.
    input_schema: Option<Box<str>>,
}

impl FoundItem {
    fn of(peer: &McpPeer, item: Item<'_>) -> Self {
        let input_schema = item.marked_schema();
        Self { peer: peer.clone(), own_name: item.own_name, input_schema }
    }

    /// The headers that repeat arguments of a call.
    pub fn param_headers(&self, message: &McpMessage<'_>) -> Vec<(String, String)> {
        let schema = self.input_schema.as_deref().and_then(Json::parse);
        let both = schema.zip(message.param("arguments"));
        both.map(|(schema, arguments)| param_headers(&schema, arguments)).unwrap_or_default()
    }
}

/// Why there is nothing of a name.
#[derive(Debug, Clone)]
pub enum NotFound {
    /// There is none, or the client may not use it.
    Unknown,
    /// The server that may have it cannot be listed.
    Unlisted(Error),
}

/// The servers that a client sees.
#[derive(Debug)]
pub struct McpCatalog {
    peers: Vec<McpPeer>,
    /// Whether names begin with the server's.
    is_prefixed: bool,
}

impl ItemKind {
    const fn list(self) -> McpList {
        match self {
            Self::Tool => McpList::Tools,
            Self::Prompt => McpList::Prompts,
            Self::Resource => McpList::Resources,
            Self::Template => McpList::Templates,
        }
    }

    const fn access(self) -> AccessKind {
        match self {
            Self::Tool => AccessKind::Tools,
            Self::Prompt => AccessKind::Prompts,
            Self::Resource | Self::Template => AccessKind::Resources,
        }
    }

    /// The member of `params` by which it is called.
    pub const fn param(self) -> &'static str {
        match self {
            Self::Tool | Self::Prompt => "name",
            Self::Resource | Self::Template => "uri",
        }
    }

    /// The member that has its name.
    const fn member(self) -> &'static str {
        match self {
            Self::Tool | Self::Prompt => "name",
            Self::Resource => "uri",
            Self::Template => "uriTemplate",
        }
    }

    /// URIs are the servers' own, and stay as they are.
    const fn is_named(self) -> bool {
        matches!(self, Self::Tool | Self::Prompt)
    }
}

impl McpCatalog {
    /// The servers of the client's workspace. `only`: the one with this slug, or those of the bundle with it. `None`: there is none of that
    /// slug, or the client may use nothing of it.
    pub fn find(engine: &Engine, ctx: &RequestContext, only: Option<&str>) -> Option<Self> {
        let servers = ctx.snapshot.stored.mcp_servers(ctx.workspace());
        let one = only.filter(|only| servers.iter().any(|server| server.slug == *only));
        let bundle = match (only, one) {
            (Some(slug), None) => Some(ctx.snapshot.stored.mcp_bundle(ctx.workspace(), slug)?),
            _ => None,
        };
        let mut client = None;
        let mut peers: Vec<McpPeer> = Vec::new();
        for server in servers.into_iter().filter(|server| one.is_none_or(|one| one == server.slug)) {
            let within = bundle.as_ref().map(|bundle| bundle.server(&server.slug));
            if within.is_some_and(|within| within.is_none()) {
                continue;
            }
            let granted = match server.access.has_conditions() {
                true => client.get_or_insert_with(|| McpClient::new(ctx)).granted(ctx, &server.access),
                false => server.access.granted_to_all(),
            };
            // Two with one name would be one to clients: the first counts.
            let part = names::server_part(&server.slug);
            let is_first = peers.iter().all(|peer| names::server_part(&peer.server.slug) != part);
            let peer = McpPeer::new(engine, server, granted, ctx.record.client.as_deref(), &ctx.snapshot);
            let peer = match within.flatten() {
                Some(within) => peer.within(within),
                None => peer,
            };
            if is_first && AccessKind::ALL.iter().any(|(_, kind)| !peer.rules(*kind).is_empty()) {
                peers.push(peer);
            }
        }
        (only.is_none() || !peers.is_empty()).then_some(Self { peers, is_prefixed: one.is_none() })
    }

    /// Why the client can use no server of it, which `access` would allow.
    pub fn refusal(&self) -> Option<Error> {
        let mut refusals = self.peers.iter().map(McpPeer::refusal);
        let first = refusals.next()??;
        refusals.all(|refusal| refusal.is_some()).then_some(first)
    }

    /// Why there is no token of a server for the client, where that is why nothing of it was listed.
    pub async fn unauthorized(&self, engine: &Engine, snapshot: &Arc<SettingsSnapshot>) -> Option<Error> {
        for peer in &self.peers {
            if let Some(error) = peer.unauthorized(engine, snapshot).await {
                return Some(error);
            }
        }
        None
    }

    /// Whether it is of several servers: of all, or of a bundle.
    pub const fn is_of_several(&self) -> bool {
        self.is_prefixed
    }

    /// What lists are fetched for. `is_named`: by a name that says which server is meant.
    const fn purpose(&self, is_named: bool) -> ListPurpose {
        if is_named || !self.is_prefixed { ListPurpose::ThisServer } else { ListPurpose::AllServers }
    }

    /// Whether any of the servers allows something of this kind.
    pub fn may_have(&self, kind: ItemKind) -> bool {
        self.peers.iter().any(|peer| !peer.rules(kind.access()).is_empty())
    }

    /// The items that the client may use, sorted by their names, as JSON; and what is said of servers that could not be listed.
    pub async fn items(
        &self,
        engine: &Engine,
        snapshot: &Arc<SettingsSnapshot>,
        kind: ItemKind,
    ) -> (Vec<String>, Vec<String>) {
        let allowed = self.peers.iter().filter(|peer| !peer.rules(kind.access()).is_empty());
        let (open, closed): (Vec<&McpPeer>, Vec<&McpPeer>) =
            allowed.partition(|peer| peer.refusal().is_none());
        let purpose = self.purpose(false);
        let lists = open.into_iter().map(async |peer| {
            (peer, peer.items(engine, snapshot, kind.list(), LIST_TIME_TO_LIVE, purpose).await)
        });
        let mut found: BTreeMap<String, String> = BTreeMap::new();
        let mut failed: Vec<String> = closed.into_iter().map(McpPeer::closed_warning).collect();
        for (peer, list) in join_all(lists).await {
            match list {
                Ok(items) => {
                    for (name, item) in self.usable(peer, kind, &items) {
                        found.entry(name).or_insert_with(|| item.written(kind));
                    }
                }
                // Why is in the log: it may have the address of the server.
                Err(_) => failed.push(format!("{}: not listed", peer.server.slug)),
            }
        }
        (found.into_values().collect(), failed)
    }

    /// What a client calls by this name.
    ///
    /// # Errors
    /// [`NotFound`].
    pub async fn item(
        &self,
        engine: &Engine,
        snapshot: &Arc<SettingsSnapshot>,
        kind: ItemKind,
        name: &str,
    ) -> Result<FoundItem, NotFound> {
        let is_possible = |peer: &&McpPeer| {
            let is_of = !self.is_prefixed
                || !kind.is_named()
                || names::server_of(name) == Some(&*names::server_part(&peer.server.slug));
            is_of && !peer.rules(kind.access()).is_empty()
        };
        let possible = self.peers.iter().filter(is_possible);
        let (mut peers, closed): (Vec<&McpPeer>, Vec<&McpPeer>) =
            possible.partition(|peer| peer.refusal().is_none());
        // A URI says nothing of its server: those that the client cannot use are passed over.
        let closed = closed.first().filter(|_| kind.is_named()).and_then(|peer| peer.refusal());
        let mut unlisted = closed.map(NotFound::Unlisted);
        for max_age in [LIST_TIME_TO_LIVE, MISS_AGE] {
            // At once, so that servers that hang are waited for together; each is asked again only where it has answered.
            let purpose = self.purpose(kind.is_named());
            let list = kind.list();
            let lists =
                join_all(peers.iter().map(|peer| peer.items(engine, snapshot, list, max_age, purpose)));
            let mut listed = Vec::with_capacity(peers.len());
            for (peer, list) in peers.iter().copied().zip(lists.await) {
                match list {
                    Ok(items) => {
                        if let Some(item) = self.named(peer, kind, &items, name) {
                            return Ok(FoundItem::of(peer, item));
                        }
                        listed.push(peer);
                    }
                    Err(why) if unlisted.is_none() => {
                        unlisted = Some(NotFound::Unlisted(peer.unusable(engine, snapshot, why).await));
                    }
                    Err(_) => {}
                }
            }
            peers = listed;
        }
        // What a template makes is in no list, and what is in one is nobody's template.
        if kind == ItemKind::Resource {
            let made = join_all(peers.iter().map(|peer| self.is_of_template(engine, snapshot, peer, name)));
            if let Some((peer, _)) = peers.iter().zip(made.await).find(|(_, is_made)| *is_made) {
                let peer = (*peer).clone();
                return Ok(FoundItem { peer, own_name: name.to_owned(), input_schema: None });
            }
        }
        Err(unlisted.unwrap_or(NotFound::Unknown))
    }

    /// Whether a URI begins as a template of the server does, and is allowed.
    async fn is_of_template(
        &self,
        engine: &Engine,
        snapshot: &Arc<SettingsSnapshot>,
        peer: &McpPeer,
        uri: &str,
    ) -> bool {
        let rules = peer.rules(AccessKind::Resources);
        // Also by what its escapes stand for: a server reads both the same.
        let meant = percent_decode_str(uri).decode_utf8_lossy();
        if !is_plain_uri(uri) || !rules.allows(uri, true) || !rules.allows(&meant, true) {
            return false;
        }
        let purpose = self.purpose(false);
        let listed = peer.items(engine, snapshot, McpList::Templates, LIST_TIME_TO_LIVE, purpose).await;
        let Ok(items) = listed else { return false };
        let is_of = |item: &Item<'_>| is_expansion(&item.own_name, uri);
        items.iter().filter_map(|item| Item::read(&item.text, ItemKind::Template)).any(|item| is_of(&item))
    }

    /// The items of a server's list that the client may use, by the names that it gets. Of two with one name the first counts.
    fn usable<'i>(&self, peer: &McpPeer, kind: ItemKind, items: &'i McpItems) -> BTreeMap<String, Item<'i>> {
        let mut found: BTreeMap<String, Item<'i>> = BTreeMap::new();
        for (listed, mut item) in items.iter().filter_map(|item| Some((item, Item::read(&item.text, kind)?)))
        {
            if may_use(peer, kind, listed, &item) {
                item.name = self.name_for_client(peer, kind, &item.own_name);
                found.entry(item.name.clone()).or_insert(item);
            }
        }
        found
    }

    /// The item of a server's list that the client calls by this name, if it may use it.
    fn named<'i>(&self, peer: &McpPeer, kind: ItemKind, items: &'i McpItems, name: &str) -> Option<Item<'i>> {
        let is_named = |item: &Item<'_>| self.name_for_client(peer, kind, &item.own_name) == name;
        first_usable(items, kind, is_named, |listed, item| may_use(peer, kind, listed, item))
    }

    /// What the client calls an item of a server.
    fn name_for_client(&self, peer: &McpPeer, kind: ItemKind, own_name: &str) -> String {
        match (kind.is_named(), self.is_prefixed) {
            (true, true) => names::prefixed(&peer.server.slug, own_name),
            (true, false) => names::plain(own_name),
            (false, _) => own_name.to_owned(),
        }
    }
}

/// Whether a client may use an item of a server: by the rules of `access`, and because its definition is approved.
fn may_use(peer: &McpPeer, kind: ItemKind, listed: &McpItem, item: &Item<'_>) -> bool {
    let is_approved =
        || kind != ItemKind::Tool || peer.server.approval(&item.own_name, || listed.hash()) == Approval::Good;
    peer.rules(kind.access()).allows(&item.own_name, item.only_reads) && is_approved()
}

/// The first item that is meant and may be used. Whether it may is found out for those alone that are meant.
fn first_usable<'i>(
    items: &'i [McpItem],
    kind: ItemKind,
    is_named: impl Fn(&Item<'_>) -> bool,
    may_use: impl Fn(&McpItem, &Item<'_>) -> bool,
) -> Option<Item<'i>> {
    let read = items.iter().filter_map(|listed| Some((listed, Item::read(&listed.text, kind)?)));
    let mut named = read.filter(|(_, item)| is_named(item));
    named.find(|(listed, item)| may_use(listed, item)).map(|(_, item)| item)
}

/// Whether a URI has one spelling alone, so that a rule of `access` and the server mean the same by it.
fn is_plain_uri(uri: &str) -> bool {
    let path = uri.split_once("://").map_or(uri, |(_, rest)| rest);
    // After the authority, which may be empty, no step is empty.
    let has_empty =
        path.split_once('/').is_some_and(|(_, steps)| steps.contains("//") || steps.starts_with('/'));
    let has_step =
        path.split(['/', '?', '#']).any(|part| matches!(part, "." | "..") || part.starts_with(';'));
    let has_odd = uri.bytes().any(|byte| !byte.is_ascii_graphic() || byte == b'\\');
    let is_needed = |escape: &str| {
        let digits = escape.get(..2).filter(|digits| !digits.bytes().any(|byte| byte.is_ascii_lowercase()));
        let byte = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        byte.is_some_and(|byte| {
            !(byte.is_ascii_alphanumeric()
                || byte.is_ascii_control()
                || b"-._~/\\%!$&'()*+,;=:@".contains(&byte))
        })
    };
    !has_empty && !has_step && !has_odd && uri.split('%').skip(1).all(is_needed)
}

/// Whether a template of RFC 6570 can become this URI. A simple expression has no `/`, `?` and `#`. Where several readings are possible, the
/// shortest counts.
fn is_expansion(template: &str, uri: &str) -> bool {
    let mut parts = template.split('{');
    let fixed = parts.next().unwrap_or_default();
    let Some(mut rest) = uri.strip_prefix(fixed).filter(|_| !fixed.is_empty()) else { return false };
    for part in parts {
        let Some((expression, behind)) = part.split_once('}') else { return false };
        let end = if behind.is_empty() { Some(rest.len()) } else { rest.find(behind) };
        let Some((value, after)) = end.and_then(|end| rest.split_at_checked(end)) else { return false };
        let is_simple = !expression.starts_with(['+', '#', '/', '.', ';', '?', '&']);
        if is_simple && (value.is_empty() || value.contains(['/', '?', '#'])) {
            return false;
        }
        rest = after.strip_prefix(behind).unwrap_or_default();
    }
    rest.is_empty()
}

/// An item of a server's list.
struct Item<'i> {
    own_name: String,
    /// For the client.
    name: String,
    /// The server marks it so.
    only_reads: bool,
    members: Vec<(Cow<'i, str>, Json<'i>)>,
}

impl<'i> Item<'i> {
    /// `None`: it has no name, or two.
    fn read(text: &'i str, kind: ItemKind) -> Option<Self> {
        let members = Json::members(text)?;
        let mut named = members.iter().filter(|(name, _)| name == kind.member());
        let own_name = named.next()?.1.text()?.into_owned();
        if named.next().is_some() {
            return None;
        }
        let annotations = members.iter().find(|(name, _)| name == "annotations");
        let only_reads = annotations.and_then(|(_, json)| json.own_members()).is_some_and(|members| {
            members.iter().any(|(name, flag)| name == "readOnlyHint" && flag.is_true())
        });
        Some(Self { own_name, name: String::new(), only_reads, members })
    }

    /// Its schema, if that marks arguments for headers.
    fn marked_schema(&self) -> Option<Box<str>> {
        let (_, schema) = self.members.iter().find(|(name, _)| name == "inputSchema")?;
        schema.get().contains(MARK).then(|| schema.get().into())
    }

    /// Its JSON for the client.
    fn written(&self, kind: ItemKind) -> String {
        let mut out = Vec::new();
        let mut object = ObjectWriter::open(&mut out);
        for (name, json) in &self.members {
            if name == kind.member() {
                object.text(&**name, &self.name);
            } else {
                object.raw(&**name, json.get());
            }
        }
        object.close();
        String::from_utf8(out).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uri_of_a_template_has_one_spelling() {
        for uri in ["file:///docs/a", "file:///docs/a%20b", "db://t/1?x=2", "file:///docs/%C3%BC", "item:1"] {
            assert!(is_plain_uri(uri), "{uri}");
        }
        for uri in [
            "f:///d/../e",
            "f:///d/./e",
            "f:///d/%2e%2e/e",
            "f:///d/%73",
            "f:///d/%252e",
            "f:///d/a\r\nX",
            "f:///d/a\\b",
            "f:///d/%2Fe",
            "f:///d/%zz",
            "f:///d//e",
            "f:///d/;/e",
            "f:///d/a%2Cb",
            "f:///d/x%40y",
            "f:///d/%c3%bc",
            "f:///d/ü",
        ] {
            assert!(!is_plain_uri(uri), "{uri}");
        }
    }

    #[test]
    fn of_two_with_one_name_the_first_that_may_be_used_counts_and_no_other_is_judged() {
        let texts = [
            r#"{"name":"other","description":"0"}"#,
            r#"{"name":"a","description":"1"}"#,
            r#"{"name":"a","name":"a","description":"no name"}"#,
            r#"{"name":"a","description":"2"}"#,
            r#"{"name":"a","description":"3"}"#,
        ];
        let items: Vec<McpItem> = texts.map(McpItem::new).into();
        let judged = std::cell::RefCell::new(Vec::new());
        let find = |name: &str| {
            let may_use = |listed: &McpItem, _: &Item<'_>| {
                judged.borrow_mut().push(listed.text.to_string());
                !listed.text.contains('1')
            };
            first_usable(&items, ItemKind::Tool, |item| item.own_name == name, may_use)
        };
        assert_eq!(find("a").unwrap().written(ItemKind::Tool), r#"{"name":"","description":"2"}"#);
        assert_eq!(judged.take(), [texts[1], texts[3]]);
        assert!(find("none").is_none() && judged.take().is_empty());
    }

    #[test]
    fn a_simple_expression_stays_in_its_segment() {
        for (template, uri, wanted) in [
            ("file:///docs/{path}", "file:///docs/a", true),
            ("file:///docs/{path}", "file:///docs/a/b", false),
            ("file:///docs/{path}", "file:///docs/a?b", false),
            ("file:///docs/{path}", "file:///docs/", false),
            ("file:///docs/{+path}", "file:///docs/a/b", true),
            ("db://{table}/rows/{id}", "db://t/rows/1", true),
            ("db://{table}/rows/{id}", "db://t/other/1", false),
            ("db://{table}/rows", "db://t/rows/1", false),
            ("{any}", "db://t", false),
        ] {
            assert_eq!(is_expansion(template, uri), wanted, "{template} {uri}");
        }
    }
}
