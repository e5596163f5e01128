//! What is done with every kind of stored object: it is created, listed, read, changed and deleted.
//!
//! The file of a resource has an `impl Resource`, and rows of the route table that [`create`], [`list`], [`read`], [`update`] and
//! [`delete`] make: one row has method, path, scopes, entry in the audit log, OpenAPI parts and function of an operation. A hook
//! that a resource does not have does what is usual, and a resource that does an operation in a way of its own has that operation
//! itself. What an object has besides (`test`, `versions`) are rows like any other.
//!
//! No resource is known here.

use super::ORGANISATION;
use super::call::Call;
use super::field::Field;
use super::limit_owner;
use super::origin;
use super::page::{self, NameFilter, Page};
use super::records::{archived, changed, created, member, members, object, overlay, put, set, time};
use super::reply::Reply;
use super::route::{self, Access, Route, Shape};
use memory::store::{Change, Kind, Record, Status};
use serde_json::{Map, Value, json};
use std::sync::Arc;
use uuid::Uuid;
use words::error::Error;
use words::settings::scopes::Scope;

/// A kind of stored object, as the API has it.
pub(super) trait Resource: Sized + 'static {
    const KIND: Kind;
    /// The name in the audit log.
    const NAME: &'static str;
    /// The path of all of them, and of one.
    const PATHS: [&'static str; 2];
    /// What a slug begins with that is made of a name.
    const PREFIX: &'static str = "";
    /// The members of a request's body that are kept as they are; a null removes one.
    const KEPT: &'static [&'static str] = &[];
    /// The members that may have secrets in them: those are sealed, and shown masked.
    const SECRET: &'static [&'static str] = &[];
    /// Whether a write compiles what was sent: it takes a large body, and a place for such work.
    const IS_COMPILED: bool = false;
    /// Whether lists take a name. Not where objects have none, or where `name` means something else.
    const IS_NAMED: bool = true;
    /// Items on a page where the request names no number.
    const PAGE_SIZE: usize = 50;
    /// What the client gets of a change.
    const CHANGED: Changed = Changed::Nothing;

    /// The workspace in which an object is created; `None`: the organisation.
    fn workspace(call: &Call) -> Result<Option<Uuid>, Error> {
        call.new_workspace().map(Some)
    }

    /// The slug of a new object.
    fn slug(call: &Call, workspace: Option<Uuid>) -> Result<String, Error> {
        call.new_slug(Self::KIND, workspace, Self::PREFIX, call.text("name").unwrap_or_default())
    }

    /// Checks a request, and puts into the draft what is not only kept.
    fn fill(_call: &Call, _draft: &mut Draft<'_>) -> Result<(), Error> {
        Ok(())
    }

    /// What is written together with the record.
    fn more_changes(_call: &Call, _before: Option<&Record>, _record: &Record) -> Result<Vec<Change>, Error> {
        Ok(Vec::new())
    }

    /// What the client gets of an object that it has made.
    fn made(record: &Record) -> Reply {
        Reply::from(json!({"id": record.id, "slug": record.slug}))
    }

    /// The name by which a list is filtered.
    fn name(record: &Record) -> Option<String> {
        member(&members(record), "name").as_str().map(str::to_owned)
    }

    /// What a list has, in its order, whatever the names.
    fn items(call: &Call) -> Result<Vec<Item>, Error> {
        Ok(stored_items(call.list(Self::KIND)?))
    }

    /// The object that the path names, where it is in no record and can only be read.
    fn unstored(_call: &Call) -> Result<Option<Value>, Error> {
        Ok(None)
    }

    /// The record that the path names.
    fn find(call: &Call) -> Result<Arc<Record>, Error> {
        call.find(Self::KIND)
    }

    /// The object as it is read.
    fn shown(call: &Call, record: &Arc<Record>) -> impl Future<Output = Result<Value, Error>> + Send;

    /// The object as an item of a list.
    fn listed(call: &Call, record: &Arc<Record>) -> impl Future<Output = Result<Value, Error>> + Send {
        Self::shown(call, record)
    }

    /// # Errors
    /// 409 where something uses it, so that it cannot go out of use.
    fn check_unused(_call: &Call, _record: &Record) -> Result<(), Error> {
        Ok(())
    }

    /// What is written to delete it.
    fn removal(call: &Call, record: &Record) -> Result<Vec<Change>, Error> {
        Ok(vec![put(archived(record, call.now))])
    }

    fn create(mut call: Call) -> impl Future<Output = Result<Reply, Error>> + Send {
        async move {
            let workspace = Self::workspace(&call)?;
            let slug = Self::slug(&call, workspace)?;
            let record = new_record::<Self>(&call, workspace, slug)?;
            let mut changes = vec![put(record.clone())];
            changes.extend(Self::more_changes(&call, None, &record)?);
            call.commit(changes).await?;
            Ok(Self::made(&record))
        }
    }

    fn list(call: Call) -> impl Future<Output = Result<Reply, Error>> + Send {
        async move {
            let mut items = Self::items(&call)?;
            if Self::IS_NAMED {
                retain_named::<Self>(&call, &mut items);
            }
            let page = Page::of(&call, Self::PAGE_SIZE);
            let mut shown = Vec::new();
            for item in page.part(&items) {
                shown.push(match item {
                    Item::Stored(record) => Self::listed(&call, record).await?,
                    Item::Unstored(value) => value.clone(),
                });
            }
            Ok(page.reply_with(items.len(), shown))
        }
    }

    fn read(call: Call) -> impl Future<Output = Result<Reply, Error>> + Send {
        async move {
            Ok(Reply::from(match Self::unstored(&call)? {
                Some(value) => value,
                None => Self::shown(&call, &Self::find(&call)?).await?,
            }))
        }
    }

    fn update(mut call: Call) -> impl Future<Output = Result<Reply, Error>> + Send {
        async move {
            let before = Self::find(&call)?;
            let record = Arc::new(changed_record::<Self>(&call, &before)?);
            let mut changes = vec![Change::Put(Arc::clone(&record))];
            changes.extend(Self::more_changes(&call, Some(&before), &record)?);
            call.commit(changes).await?;
            Ok(match Self::CHANGED {
                Changed::Nothing => Reply::empty(),
                Changed::Made => Self::made(&record),
                Changed::Shown => Reply::from(Self::shown(&call, &record).await?),
            })
        }
    }

    fn delete(mut call: Call) -> impl Future<Output = Result<Reply, Error>> + Send {
        async move {
            let record = Self::find(&call)?;
            call.check_owner(&record)?;
            limit_owner::check_removal(&call, &record)?;
            Self::check_unused(&call, &record)?;
            call.commit(Self::removal(&call, &record)?).await?;
            Ok(Reply::empty())
        }
    }
}

/// What the client of a change gets.
pub(super) enum Changed {
    /// `{}`.
    Nothing,
    /// The same as of a new object.
    Made,
    /// The object.
    Shown,
}

/// An object as a request makes or changes it.
pub(super) struct Draft<'a> {
    /// The record that is changed; `None`: it is new.
    pub before: Option<&'a Record>,
    pub record: Record,
    /// The members that the record gets.
    pub body: Map<String, Value>,
}

/// An item of a list.
pub(super) enum Item {
    Stored(Arc<Record>),
    /// As it is shown; it is in no record.
    Unstored(Value),
}

/// Removes the items with other names than the request asks for.
fn retain_named<R: Resource>(call: &Call, items: &mut Vec<Item>) {
    let wanted = NameFilter::of(call);
    if wanted.has_all() {
        return;
    }
    items.retain(|item| match item {
        Item::Stored(record) => wanted.has(R::name(record).as_deref(), record.slug.as_deref()),
        Item::Unstored(value) => {
            let text = |name: &str| value.get(name).and_then(Value::as_str);
            wanted.has(text("name"), text("slug"))
        }
    });
}

pub(super) fn stored_items(records: Vec<Arc<Record>>) -> Vec<Item> {
    records.into_iter().map(Item::Stored).collect()
}

/// An object as it is shown: the members of its table of fields. Where `own` has none, they are the record's, or its body's.
pub(super) fn view(fields: &[Field], record: &Record, own: Value) -> Value {
    let body = members(record);
    let mut own = object(own);
    let mut shown = Map::new();
    for field in fields {
        let value = own.remove(field.name).unwrap_or_else(|| match field.name {
            "id" => json!(record.id),
            "slug" => json!(record.slug),
            "organisation_id" => json!(ORGANISATION),
            "workspace_id" => json!(record.workspace),
            "status" => record.status.as_str().into(),
            "created_at" => time(record.created_at),
            "last_updated_at" => time(record.updated_at),
            "origin" => origin::of_members(&body).into(),
            name => member(&body, name),
        });
        if field.is_required || !value.is_null() {
            set(&mut shown, field.name, value);
        }
    }
    Value::Object(shown)
}

/// The record of a new object.
///
/// # Errors
/// Those of [`Resource::fill`].
pub(super) fn new_record<R: Resource>(
    call: &Call,
    workspace: Option<Uuid>,
    slug: String,
) -> Result<Record, Error> {
    filled::<R>(call, None, created(R::KIND, workspace, slug, &Value::Null, call.now))
}

/// The record `before` as the request changes it.
///
/// # Errors
/// 403 for an object of the organisation and for limits that it has set, 409 for one that is in use and would be archived; those of [`Resource::fill`].
pub(super) fn changed_record<R: Resource>(call: &Call, before: &Record) -> Result<Record, Error> {
    call.check_owner(before)?;
    filled::<R>(call, Some(before), changed(before, &Value::Null, call.now))
}

/// `record` with the body that the request gives it.
fn filled<R: Resource>(call: &Call, before: Option<&Record>, record: Record) -> Result<Record, Error> {
    let body = match before {
        None => Map::from_iter([("owner_id".to_owned(), call.actor().into())]),
        Some(before) if R::SECRET.is_empty() => members(before),
        Some(before) => call.open_members(before)?,
    };
    let mut draft = Draft { before, record, body };
    overlay(&mut draft.body, &call.body, R::KEPT);
    R::fill(call, &mut draft)?;
    let Draft { mut record, mut body, .. } = draft;
    limit_owner::keep(call, before, R::KIND, &mut body)?;
    set(&mut body, "updated_by", call.actor());
    if R::SECRET.is_empty() {
        record.body = Value::Object(body).to_string().into();
    } else {
        call.set_body(&mut record, body, R::SECRET)?;
    }
    if let Some(before) = before
        && call.text("status") == Some(Status::Archived.as_str())
    {
        R::check_unused(call, before)?;
        record.status = Status::Archived;
        record.sealed = None;
    }
    Ok(record)
}

type Scopes = &'static [Scope];
type Fields = &'static [Field];

/// The row of the route that creates an object.
pub(super) const fn create<R: Resource>(
    scopes: Scopes,
    summary: &'static str,
    body: Fields,
    reply: Shape,
) -> Route {
    let [all, _] = R::PATHS;
    let route = route::post(all, Access::Scope(scopes), summary, |call| Box::pin(R::create(call)));
    written::<R>(route.body(body)).replies(reply).changes(R::NAME, "create")
}

/// A route that writes one, with the bounds of its kind.
const fn written<R: Resource>(route: Route) -> Route {
    if R::IS_COMPILED { route.computes() } else { route }
}

/// The row of the route that lists the objects. `query`: the parameters besides those of every such list. `item`: the members of one.
pub(super) const fn list<R: Resource>(
    scopes: Scopes,
    summary: &'static str,
    query: Fields,
    item: Fields,
) -> Route {
    let [all, _] = R::PATHS;
    let route = route::get(all, Access::Scope(scopes), summary, |call| Box::pin(R::list(call)));
    let common = if R::IS_NAMED { page::NAMED } else { page::QUERY };
    route.query(query).lists(common).replies(Shape::List(item))
}

/// The row of the route that reads an object.
pub(super) const fn read<R: Resource>(scopes: Scopes, summary: &'static str, members: Fields) -> Route {
    let [_, one] = R::PATHS;
    let route = route::get(one, Access::Scope(scopes), summary, |call| Box::pin(R::read(call)));
    route.replies(Shape::Object(members))
}

/// The row of the route that changes an object.
pub(super) const fn update<R: Resource>(
    scopes: Scopes,
    summary: &'static str,
    body: Fields,
    reply: Shape,
) -> Route {
    let [_, one] = R::PATHS;
    let route = route::put(one, Access::Scope(scopes), summary, |call| Box::pin(R::update(call)));
    written::<R>(route.body(body)).replies(reply).changes(R::NAME, "update")
}

/// The row of the route that deletes an object.
pub(super) const fn delete<R: Resource>(scopes: Scopes, summary: &'static str) -> Route {
    let [_, one] = R::PATHS;
    let route = route::delete(one, Access::Scope(scopes), summary, |call| Box::pin(R::delete(call)));
    route.replies(Shape::Empty).changes(R::NAME, "delete")
}
