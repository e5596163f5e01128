//! One control route as data: method, path, who may call it, what it takes and returns, and the function that does it.
//!
//! The table of all of them is `routes`; the router (`dispatch`), the list of control paths and the OpenAPI document are made
//! from it.

use super::call::Call;
use super::field::Field;
use super::origin::TAKE_OVER;
use super::reply::Reply;
use super::work::Work;
use futures_util::future::BoxFuture;
use jiff::Timestamp;
use serde_json::{Map, Value};
use words::config::read::Problems;
use words::error::Error;
use words::settings::scopes::Scope;

/// What a route does. Box the future of an async function: `|call| Box::pin(list(call))`.
pub(super) type Run = fn(Call) -> BoxFuture<'static, Result<Reply, Error>>;

/// Checks members of a body that depend on each other or on the time, and brings them to their normal form.
pub(super) type Check = fn(&mut Map<String, Value>, Timestamp, &Problems);

/// What the audit log calls the objects that files may have.
const IN_FILES: [&str; 15] = [
    "workspaces",
    "integrations",
    "providers",
    "virtual-keys",
    "configs",
    "model-names",
    "guardrails",
    "prompts",
    "partials",
    "labels",
    "collections",
    "usage-limits-policies",
    "rate-limits-policies",
    "api-keys",
    "mcp-servers",
];

/// One route.
#[derive(Clone, Copy)]
pub(super) struct Route {
    pub method: &'static str,
    /// With parameters in braces: `/v1/configs/{id}`.
    pub path: &'static str,
    pub access: Access,
    /// Whether the data port serves it, so that one base URL serves everything. Where it does not, its
    /// name is the control plane's there all the same.
    pub on_data_port: bool,
    /// Whether clients of models call it beside their requests. The data port serves it without the control API, too.
    pub is_for_clients: bool,
    /// One line for the OpenAPI document.
    pub summary: &'static str,
    pub query: &'static [Field],
    /// The parameters that it has in common with other lists.
    pub list_query: &'static [Field],
    /// What it does with parameters that are not in its tables; where this says nothing, a list refuses them.
    pub ignores_others: Option<bool>,
    pub body: Body,
    pub max_body: MaxBody,
    pub work: Work,
    /// Beyond the table: its problems are reported with those of the table.
    pub check: Option<Check>,
    pub reply: Shape,
    /// Another status, when, and its body: not an error of the usual shape.
    pub also: Option<(&'static str, &'static str, Shape)>,
    /// What the audit log calls it: resource and action. Only for routes that change something.
    pub change: Option<(&'static str, &'static str)>,
    /// Whether what it changes is in the memory of this process alone, and in no store.
    is_of_process: bool,
    pub run: Run,
}

/// Who may call a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    /// Anyone: the route shows no settings and no traffic.
    Open,
    /// Anyone with a signed link, which the route checks.
    Link,
    /// Any key.
    AnyKey,
    /// A key with one of these scopes.
    Scope(&'static [Scope]),
    /// Anyone while `listen.metrics` is `open`, else a key with the scope `metrics.read`.
    Metrics,
}

/// The body that a route takes.
#[derive(Debug, Clone, Copy)]
pub(super) enum Body {
    None,
    Object(&'static [Field]),
    /// The route reads the bytes itself; they are JSON. The table only describes them, where it is not empty.
    Raw(&'static [Field]),
}

/// How much of a body a route reads; more is 413. Nothing is read before the client's key is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MaxBody {
    /// 64 KiB: what most objects are made of fits many times.
    Small,
    /// 1 MiB: configs, texts, lists.
    Large,
    /// `limits.max_body_bytes`; at the control port no more than that port takes of any body.
    Settings,
}

impl MaxBody {
    /// The bound in bytes. `settings`: that of `limits.max_body_bytes`.
    pub fn bytes(self, settings: usize) -> usize {
        match self {
            Self::Small => 64 << 10,
            Self::Large => 1 << 20,
            Self::Settings => settings,
        }
    }
}

/// What a route returns with status 200.
#[derive(Debug, Clone, Copy)]
pub(super) enum Shape {
    /// `{}`.
    Empty,
    Object(&'static [Field]),
    /// `{"object":"list","total":n,"data":[…]}` of these objects.
    List(&'static [Field]),
    /// `{"success":true,"data":{…}}`, with the members of `data` beside it.
    Data(&'static [Field]),
    /// Any JSON object.
    Free,
    /// Text of this content type.
    Text(&'static str),
}

const fn route(
    method: &'static str,
    path: &'static str,
    access: Access,
    summary: &'static str,
    run: Run,
) -> Route {
    Route {
        method,
        path,
        access,
        on_data_port: true,
        is_for_clients: false,
        summary,
        query: &[],
        list_query: &[],
        ignores_others: None,
        body: Body::None,
        max_body: MaxBody::Small,
        work: Work::Little,
        check: None,
        reply: Shape::Free,
        also: None,
        change: None,
        is_of_process: false,
        run,
    }
}

/// A route that reads.
pub(super) const fn get(path: &'static str, access: Access, summary: &'static str, run: Run) -> Route {
    route("GET", path, access, summary, run)
}

pub(super) const fn post(path: &'static str, access: Access, summary: &'static str, run: Run) -> Route {
    route("POST", path, access, summary, run)
}

pub(super) const fn put(path: &'static str, access: Access, summary: &'static str, run: Run) -> Route {
    route("PUT", path, access, summary, run)
}

pub(super) const fn delete(path: &'static str, access: Access, summary: &'static str, run: Run) -> Route {
    route("DELETE", path, access, summary, run)
}

impl Route {
    pub const fn query(mut self, query: &'static [Field]) -> Self {
        self.query = query;
        self
    }

    /// Says that it is a list, with the parameters that all such lists have.
    pub const fn lists(mut self, fields: &'static [Field]) -> Self {
        self.list_query = fields;
        self
    }

    /// Says that clients add parameters of their own, which mean nothing here.
    pub(crate) const fn ignoring_others(mut self) -> Self {
        self.ignores_others = Some(true);
        self
    }

    /// Says that a parameter which is not in its tables is refused, as by a list.
    pub(crate) const fn refusing_others(mut self) -> Self {
        self.ignores_others = Some(false);
        self
    }

    pub const fn body(mut self, fields: &'static [Field]) -> Self {
        self.body = Body::Object(fields);
        self
    }

    pub(crate) const fn checked_by(mut self, check: Check) -> Self {
        self.check = Some(check);
        self
    }

    pub(crate) const fn raw_body(mut self) -> Self {
        self.body = Body::Raw(&[]);
        self
    }

    /// Describes a body that the route reads itself.
    pub const fn of_members(mut self, fields: &'static [Field]) -> Self {
        self.body = Body::Raw(fields);
        self
    }

    pub const fn takes(mut self, max_body: MaxBody) -> Self {
        self.max_body = max_body;
        self
    }

    pub const fn works_at(mut self, work: Work) -> Self {
        self.work = work;
        self
    }

    /// Says that it compiles what it is sent, which takes a body of 1 MiB and a place.
    pub const fn computes(self) -> Self {
        self.works_at(Work::Compute).takes(MaxBody::Large)
    }

    pub const fn replies(mut self, reply: Shape) -> Self {
        self.reply = reply;
        self
    }

    /// Says that the route also responds with this status, with a body of its own.
    pub const fn also(mut self, status: &'static str, when: &'static str, reply: Shape) -> Self {
        self.also = Some((status, when, reply));
        self
    }

    /// Has each call written to the audit log.
    pub const fn changes(mut self, resource: &'static str, action: &'static str) -> Self {
        self.change = Some((resource, action));
        self
    }

    /// What it changes is in the memory of this process alone: an edge node has it as well.
    pub(crate) const fn of_process(mut self) -> Self {
        self.is_of_process = true;
        self
    }

    pub(crate) const fn on_control_port_only(mut self) -> Self {
        self.on_data_port = false;
        self
    }

    /// The parameters of the query: those of its own, then those of all such lists.
    pub fn parameters(&self) -> impl Iterator<Item = &'static Field> + use<> {
        let take_over = self.may_take_over().then_some(&TAKE_OVER);
        self.query.iter().chain(self.list_query).chain(take_over)
    }

    /// Whether it changes or deletes an object that a file may have.
    pub fn may_take_over(&self) -> bool {
        let is_of_file = self.change.is_some_and(|(resource, _)| IN_FILES.contains(&resource));
        is_of_file && matches!(self.method, "PUT" | "DELETE")
    }

    /// Whether a parameter that is not in its tables is refused. A list without the filter that its client has
    /// misspelled has other objects than the client asked for, and the first of them may be deleted for another.
    pub fn refuses_others(&self) -> bool {
        !self.ignores_others.unwrap_or(!self.is_list())
    }

    /// Whether it changes something, and not only notes in the audit log who has read it.
    pub fn writes(&self) -> bool {
        self.change.is_some() && self.method != "GET" && !self.is_of_process
    }

    /// Whether its response is a page of a list.
    pub fn is_list(&self) -> bool {
        self.parameters().any(|field| field.name == "current_page")
    }

    pub(crate) const fn for_clients(mut self) -> Self {
        self.is_for_clients = true;
        self
    }
}
