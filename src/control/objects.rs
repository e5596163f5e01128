//! The kinds of objects that the control API has, for programs that work on any of them: made from the table of routes, so that a new
//! resource is a new kind.
//!
//! Only paths and names. Who calls them is not here (`turnpike get`, `create`, `edit`, `delete`), nor what an object means.

use super::field::{Field, Type};
use super::route::{Body, Route, Shape};
use super::routes::routes;
use std::collections::BTreeMap;

/// A kind of objects: a list, or a place where objects are made.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ObjectKind {
    /// The path below `/v1` (and `/v1/admin`), with parameters in braces: `configs`, `prompts/{id}/versions`.
    pub name: &'static str,
    pub list: Option<ObjectList>,
    /// The path of one object, which is read there.
    pub read: Option<&'static str>,
    /// Where one is made.
    pub create: Option<&'static str>,
    pub update: Option<ObjectChange>,
    /// The path of one object, which is deleted there.
    pub delete: Option<&'static str>,
    /// Where a part of the list is changed as a whole.
    pub update_list: Option<&'static str>,
    /// Where a part of the list is deleted as a whole.
    pub delete_list: Option<&'static str>,
}

/// A list of objects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectList {
    pub path: &'static str,
    /// The member of the response that has the objects.
    pub items: &'static str,
    /// The members of an object that are texts, numbers, times and flags, in the order of the API's document.
    pub columns: Vec<&'static str>,
}

/// A change of one object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectChange {
    pub path: &'static str,
    /// The members that the body may have.
    pub members: Vec<&'static str>,
}

/// All kinds, in the order of their names.
pub fn object_kinds() -> Vec<ObjectKind> {
    let mut kinds: BTreeMap<&'static str, ObjectKind> = BTreeMap::new();
    for route in routes() {
        let Some(name) = name(route.path) else { continue };
        match (route.method, parent(name)) {
            ("GET", _) if route.is_list() => {
                entry(&mut kinds, name).list.get_or_insert_with(|| list(route));
            }
            ("POST", _) if is_creation(route) => entry(&mut kinds, name).create = Some(route.path),
            ("PUT", None) => entry(&mut kinds, name).update_list = Some(route.path),
            ("DELETE", None) => entry(&mut kinds, name).delete_list = Some(route.path),
            ("GET", Some(of)) => entry(&mut kinds, of).read = Some(route.path),
            ("PUT", Some(of)) => entry(&mut kinds, of).update = Some(change(route)),
            ("DELETE", Some(of)) => entry(&mut kinds, of).delete = Some(route.path),
            _ => {}
        }
    }
    // What is neither listed nor made is an action (`…/reset`), or a single page.
    kinds.into_values().filter(|kind| kind.list.is_some() || kind.create.is_some()).collect()
}

/// The kind of this name.
fn entry<'k>(kinds: &'k mut BTreeMap<&'static str, ObjectKind>, name: &'static str) -> &'k mut ObjectKind {
    kinds.entry(name).or_insert_with(|| ObjectKind { name, ..ObjectKind::default() })
}

/// The name of the kind whose list, or object, has this path; `None` outside of `/v1`.
fn name(path: &'static str) -> Option<&'static str> {
    let below = path.strip_prefix("/v1/")?;
    Some(below.strip_prefix("admin/").unwrap_or(below))
}

/// The name without its last segment, where that names an object.
fn parent(name: &'static str) -> Option<&'static str> {
    let (parent, last) = name.rsplit_once('/')?;
    (last.starts_with('{') && !last.starts_with("{*")).then_some(parent)
}

fn is_creation(route: &Route) -> bool {
    route.change.is_some_and(|(_, action)| action == "create")
}

fn list(route: &Route) -> ObjectList {
    let of_item = |field: &Field| match field.of {
        Type::List(Type::Object(fields), ..) => *fields,
        _ => &[],
    };
    let found = match route.reply {
        Shape::List(fields) => Some(("data", fields)),
        Shape::Object(fields) => {
            let items = fields.iter().find(|field| matches!(field.of, Type::List(..)));
            items.map(|field| (field.name, of_item(field)))
        }
        _ => None,
    };
    let (items, fields) = found.unwrap_or(("data", &[]));
    let columns = fields.iter().filter(|field| is_scalar(&field.of)).map(|field| field.name).collect();
    ObjectList { path: route.path, items, columns }
}

fn is_scalar(of: &Type) -> bool {
    !matches!(
        of,
        Type::List(..)
            | Type::Map(..)
            | Type::Object(_)
            | Type::AnyObject
            | Type::ConfigObject
            | Type::AnyOf(_)
            | Type::Any
    )
}

fn change(route: &Route) -> ObjectChange {
    let members = match route.body {
        Body::Object(fields) | Body::Raw(fields) => fields.iter().map(|field| field.name).collect(),
        Body::None => Vec::new(),
    };
    ObjectChange { path: route.path, members }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The kinds that have this path in one of their places.
    fn uses(path: &str, place: fn(&ObjectKind) -> [Option<&'static str>; 2]) -> usize {
        object_kinds().iter().flat_map(place).flatten().filter(|own| *own == path).count()
    }

    /// A list, a creation, a change or a deletion that no kind had could not be called from the command line.
    #[test]
    fn every_route_of_objects_is_one_of_a_kind() {
        let mut found = 0;
        for route in routes().filter(|route| name(route.path).is_some()) {
            let count = match route.method {
                // The same list under two paths.
                "GET" if route.path == "/v1/admin/workspaces" => continue,
                "GET" if route.is_list() => {
                    uses(route.path, |kind| [kind.list.as_ref().map(|list| list.path), None])
                }
                "POST" if is_creation(route) => uses(route.path, |kind| [kind.create, None]),
                "PUT" if route.path.ends_with('}') => {
                    uses(route.path, |kind| [kind.update.as_ref().map(|change| change.path), None])
                }
                "DELETE" => uses(route.path, |kind| [kind.delete, kind.delete_list]),
                _ => continue,
            };
            // Feedback is written and never listed.
            let wanted = usize::from(route.path != "/v1/feedback/{id}");
            assert_eq!(count, wanted, "{} {}", route.method, route.path);
            found += 1;
        }
        assert!(found > 80, "{found}");
    }

    #[test]
    fn kinds_are_named_as_their_paths() {
        let kinds = object_kinds();
        let kind =
            |name: &str| kinds.iter().find(|kind| kind.name == name).unwrap_or_else(|| panic!("{name}"));
        let configs = kind("configs");
        assert_eq!((configs.read, configs.create), (Some("/v1/configs/{slug}"), Some("/v1/configs")));
        assert!(configs.update.as_ref().unwrap().members.contains(&"config"));
        let list = configs.list.as_ref().unwrap();
        assert!(list.items == "data" && list.columns.contains(&"slug") && !list.columns.contains(&"config"));
        assert_eq!(kind("users").list.as_ref().unwrap().path, "/v1/admin/users");
        assert_eq!(kind("audit-logs").list.as_ref().unwrap().items, "records");
        assert!(kind("audit-logs").create.is_none() && kind("audit-logs").delete.is_none());
        assert!(kind("api-keys").create.is_none() && kind("api-keys/workspace/service").create.is_some());
        assert!(kind("workspaces/{id}/users").delete.is_some());
        assert!(kind("integrations/{slug}/models").update_list.is_some());
        let names: Vec<&str> = kinds.iter().map(|kind| kind.name).collect();
        assert!(names.iter().all(|name| !name.contains("reset") && !name.contains("openapi")), "{names:?}");
    }
}
