//! What each `model_name` becomes: a model of a provider, a balanced group, a chain of fallbacks.
//!
//! Not here: one deployment (`deployment`), and the keys that say how to choose (`process`).

use super::super::config_parts::balanced as balanced_strategy;
use super::super::cursor::InputAt;
use super::super::import::Import;
use super::super::report::Taken;
use super::super::tree::Tree;
use super::deployment::Deployment;

/// A list of fallbacks of a name.
pub struct Fallbacks<'n> {
    pub of: String,
    /// The names that are tried, each with its place.
    pub names: Vec<(String, InputAt<'n>)>,
}

/// How names are routed.
#[derive(Default)]
pub struct Routing<'n> {
    /// `strategy.by` of groups; `None`: by weight.
    pub by: Option<&'static str>,
    pub fallbacks: Vec<Fallbacks<'n>>,
    /// For names without fallbacks of their own.
    pub default_fallbacks: Vec<(String, InputAt<'n>)>,
    /// Those for one class of failures, with the class.
    pub class_fallbacks: Vec<(&'static str, Fallbacks<'n>)>,
    /// Whether the rates of deployments are limits, and not only what they are weighed by.
    pub has_limits: bool,
    /// Other names of a name.
    pub aliases: Vec<(String, String, InputAt<'n>)>,
    /// Members of every config: retries, breakers, cache.
    pub policies: Option<Tree>,
}

/// The deployments of one name.
pub struct Group<'n> {
    pub name: String,
    pub deployments: Vec<Deployment<'n>>,
}

/// The groups, in the order of their names in the file.
pub fn groups<'n>(import: &mut Import, deployments: Vec<Deployment<'n>>) -> Vec<Group<'n>> {
    let mut groups: Vec<Group<'n>> = Vec::new();
    for deployment in deployments {
        // The name of a group has one pattern of models here.
        let of_name = groups.iter().find(|group| group.name == deployment.name);
        let mut patterns = of_name.iter().flat_map(|group| &group.deployments).map(|other| &other.model);
        let is_other = |pattern: &String| pattern.contains('*') && *pattern != deployment.model;
        if deployment.model.contains('*') && patterns.any(is_other) {
            import.findings.whole(&deployment.at, Taken::Not, "another deployment of this name means models by another pattern; here a name has one (docs/models.md)");
            continue;
        }
        match groups.iter_mut().find(|group| group.name == deployment.name) {
            Some(group) => group.deployments.push(deployment),
            None => groups.push(Group { name: deployment.name.clone(), deployments: vec![deployment] }),
        }
    }
    groups
}

/// Writes all names.
pub fn write(import: &mut Import, groups: &[Group<'_>], routing: &Routing<'_>) {
    for group in groups {
        weigh(import, group, routing);
    }
    for group in groups {
        let entry = entry(import, groups, routing, group);
        import.moved.model(&group.name, entry);
    }
    // Names that a wildcard means, with fallbacks of their own.
    let own = routing.fallbacks.iter().filter(|list| list.of != "*");
    for list in own.filter(|list| groups.iter().all(|group| group.name != list.of)) {
        let Some((group, star)) = find(groups, &list.of) else { continue };
        let (route, _) = route(group, routing, Some(&star));
        let chain = chain(import, groups, routing, &list.of);
        let config = with_policies(fallback(route, chain), routing);
        let id = import.moved.config(&list.of, &config);
        import.moved.model(&list.of, Tree::Text(id));
    }
    for (alias, name, at) in &routing.aliases {
        let Some(group) = groups.iter().find(|group| group.name == *name) else {
            import.findings.not_taken(at, format!("there is no model_name {name}"));
            continue;
        };
        let to = renamed(entry(import, groups, routing, group), name);
        if import.moved.model(alias, to) {
            import.findings.exact(at, format!("models.{alias}"));
        } else {
            import.findings.not_taken(at, format!("{alias} is a model_name as well, which counts here"));
        }
    }
}

/// An entry under another name: the model of one that takes it from its name is written.
fn renamed(entry: Tree, name: &str) -> Tree {
    match &entry {
        Tree::Map(_)
            if entry
                .member("model")
                .is_some_and(|model| matches!(model, Tree::Text(text) if text.contains('*'))) =>
        {
            entry.with("model", Tree::text(name))
        }
        _ => entry,
    }
}

/// What a name stands for.
fn entry(import: &mut Import, groups: &[Group<'_>], routing: &Routing<'_>, group: &Group<'_>) -> Tree {
    let chain = chain(import, groups, routing, &group.name);
    let (route, pattern) = route(group, routing, None);
    let single = match group.deployments.as_slice() {
        [single] if chain.is_empty() => Some(single),
        _ => None,
    };
    if let Some(single) = single.filter(|single| single.is_bare() && routing.policies.is_none()) {
        return Tree::Text(format!("@{}/{}", single.slug, single.model));
    }
    let config = with_policies(fallback(route, chain), routing);
    let to = match single {
        Some(_) => config,
        None => Tree::Text(import.moved.config(&group.name, &config)),
    };
    match (pattern, &to) {
        (None, Tree::Text(_)) => to,
        (pattern, _) => Tree::of([("to", to)]).with_some("model", pattern.map(Tree::text)),
    }
}

/// How many fallbacks one leads to, as LiteLLM has it (`max_fallbacks`).
const MAX_HOPS: usize = 5;

/// The fallbacks of a name, each as a target. Where one of them fails, LiteLLM tries that one's own fallbacks before the next of the list,
/// and none twice.
fn chain(import: &mut Import, groups: &[Group<'_>], routing: &Routing<'_>, name: &str) -> Vec<Tree> {
    let mut chain = Vec::new();
    let mut tried = vec![name.to_owned()];
    follow(import, groups, routing, &mut tried, &mut chain);
    chain
}

/// Adds the fallbacks of the last name that was tried.
fn follow(
    import: &mut Import,
    groups: &[Group<'_>],
    routing: &Routing<'_>,
    tried: &mut Vec<String>,
    chain: &mut Vec<Tree>,
) {
    let Some(name) = tried.last().cloned() else { return };
    chain.extend(class_chain(import, groups, routing, &name));
    let own = routing.fallbacks.iter().find(|list| list.of == name);
    let any = routing.fallbacks.iter().find(|list| list.of == "*");
    let names = own.or(any).map_or(&routing.default_fallbacks, |list| &list.names);
    for (other, at) in names {
        let is_first_hop = tried.first() == Some(&name);
        if tried.contains(other) || tried.len() > MAX_HOPS {
            continue;
        }
        match find(groups, other) {
            Some((group, star)) => {
                chain.push(route(group, routing, Some(&star)).0);
                if is_first_hop {
                    import.findings.exact(at, "a fallback in configs, with its own fallbacks behind it");
                }
                tried.push(other.clone());
                follow(import, groups, routing, tried, chain);
            }
            None => import.findings.not_taken(at, format!("there is no model_name {other}")),
        }
    }
}

/// The fallbacks of a name for classes of failures.
fn class_chain(import: &mut Import, groups: &[Group<'_>], routing: &Routing<'_>, name: &str) -> Vec<Tree> {
    let mut chain = Vec::new();
    for (class, list) in routing.class_fallbacks.iter().filter(|(_, list)| list.of == name || list.of == "*")
    {
        for (other, at) in list.names.iter().filter(|(other, _)| other != name) {
            let Some((group, star)) = find(groups, other) else {
                import.findings.not_taken(at, format!("there is no model_name {other}"));
                continue;
            };
            let target = route(group, routing, Some(&star)).0;
            chain.push(target.with("for_errors", Tree::List(vec![Tree::text(*class)])));
            import.findings.exact(at, format!("a fallback in configs, for_errors {class}"));
        }
    }
    chain
}

/// The group of a name, or of the wildcard that means it, with what its `*` stands for.
fn find<'g, 'n>(groups: &'g [Group<'n>], name: &str) -> Option<(&'g Group<'n>, String)> {
    if let Some(group) = groups.iter().find(|group| group.name == name) {
        return Some((group, "*".to_owned()));
    }
    let star = |pattern: &str| {
        let (before, after) = pattern.split_once('*')?;
        Some(name.strip_prefix(before)?.strip_suffix(after)?.to_owned())
    };
    let meant = groups.iter().filter_map(|group| Some((group, star(&group.name)?)));
    meant.max_by_key(|(group, _)| group.name.len())
}

/// A group as a target, and the model pattern of its entry where it has one. `star`: what the `*` of its name stands for.
fn route(group: &Group<'_>, routing: &Routing<'_>, star: Option<&str>) -> (Tree, Option<String>) {
    let star = star.filter(|star| *star != "*");
    let model = |deployment: &Deployment<'_>| match (deployment.model.contains('*'), star) {
        (true, Some(star)) => Some(deployment.model.replacen('*', star, 1)),
        (true, None) => None,
        (false, _) => Some(deployment.model.clone()),
    };
    let pattern = group.deployments.iter().find(|deployment| model(deployment).is_none());
    let pattern = pattern.map(|deployment| deployment.model.clone());
    if let [single] = group.deployments.as_slice() {
        return (single.target_tree(model(single).as_deref()), pattern);
    }
    let mut orders: Vec<f64> = group.deployments.iter().map(order).collect();
    orders.sort_by(f64::total_cmp);
    orders.dedup();
    let mut levels = orders.into_iter().map(|level| {
        let members: Vec<&Deployment<'_>> =
            group.deployments.iter().filter(|deployment| order(deployment) == level).collect();
        balanced(&members, routing, &model)
    });
    let first = levels.next().unwrap_or_else(Tree::map);
    (fallback(first, levels.collect()), pattern)
}

/// Those without an order are tried after those with one.
fn order(deployment: &Deployment<'_>) -> f64 {
    deployment.order.unwrap_or(f64::MAX)
}

fn balanced(
    members: &[&Deployment<'_>],
    routing: &Routing<'_>,
    model: &dyn Fn(&Deployment<'_>) -> Option<String>,
) -> Tree {
    let metric = metric(members.iter().copied());
    let by_price = routing.by == Some("price") && members.iter().all(|member| member.price.is_some());
    let by = routing.by.filter(|by| *by != "price" || by_price);
    let mut targets = members.iter().map(|member| {
        let target = member.target_tree(model(member).as_deref());
        let target = target.with_some("price", member.price.clone().filter(|_| by_price));
        match metric.map(|metric| metric(member).unwrap_or_default()) {
            Some(weight) if by.is_none() && !routing.has_limits => {
                target.with("weight", Tree::number(weight))
            }
            _ => target,
        }
    });
    match members {
        [_] => targets.next().unwrap_or_else(Tree::map),
        _ => Tree::of([("strategy", balanced_strategy(by)), ("targets", Tree::List(targets.collect()))]),
    }
}

type Metric = fn(&Deployment<'_>) -> Option<f64>;

/// What a group is weighed by: the first of weight, rpm and tpm that one of its members has.
fn metric<'d, 'n: 'd>(members: impl Iterator<Item = &'d Deployment<'n>> + Clone) -> Option<Metric> {
    const METRICS: [Metric; 3] = [|one| one.weight, |one| one.rpm, |one| one.tpm];
    METRICS
        .into_iter()
        .find(|metric| members.clone().any(|member| metric(member).is_some_and(|value| value > 0.0)))
}

/// Reports what became of weights, rates and orders.
fn weigh(import: &mut Import, group: &Group<'_>, routing: &Routing<'_>) {
    const ALONE: &str = "has no effect: no other deployment has this model_name";
    const UNUSED: &str = "has no effect: the routing strategy weighs by another number, and limits nothing";
    let is_group = group.deployments.len() > 1;
    let metric = metric(group.deployments.iter());
    for deployment in &group.deployments {
        let params = deployment.at.member("litellm_params");
        for (name, value) in [("weight", deployment.weight), ("rpm", deployment.rpm), ("tpm", deployment.tpm)]
        {
            let own = params.as_ref().and_then(|params| params.member(name));
            let is_outside = own.is_none();
            let Some(at) = own.or_else(|| deployment.at.member(name)) else { continue };
            if is_outside && !(routing.has_limits && name != "weight") {
                import.findings.exact(&at, "has no effect beside litellm_params");
                continue;
            }
            let is_used = is_group
                && routing.by.is_none()
                && !routing.has_limits
                && metric.and_then(|metric| metric(deployment)) == value;
            match (is_used, name) {
                (true, "weight") => import.findings.exact(&at, "weight of its target"),
                (_, "rpm" | "tpm") if routing.has_limits => {
                    import.findings.exact(&at, format!("providers.{}.rate_limits", deployment.slug));
                }
                (true, _) => import.findings.exact(&at, "weight of its target, by which LiteLLM chooses"),
                (false, "weight") if !is_group => import.findings.exact(&at, ALONE),
                (false, "weight") => import.findings.not_taken(&at, "the groups are not balanced by weight"),
                (false, _) if !is_group => import.findings.exact(&at, ALONE),
                (false, _) => import.findings.exact(&at, UNUSED),
            }
        }
        if let Some(at) = params.and_then(|params| params.member("order")) {
            let text = if is_group { "the order of groups in a fallback" } else { ALONE };
            import.findings.exact(&at, text);
        }
    }
}

/// A target with others after it.
fn fallback(first: Tree, rest: Vec<Tree>) -> Tree {
    if rest.is_empty() {
        return first;
    }
    let mut targets = vec![first];
    targets.extend(rest);
    Tree::of([("strategy", Tree::of([("mode", Tree::text("fallback"))])), ("targets", Tree::List(targets))])
}

fn with_policies(mut config: Tree, routing: &Routing<'_>) -> Tree {
    if let Some(Tree::Map(members)) = &routing.policies {
        for member in
            members.iter().filter(|member| config.member(&member.name).is_none()).collect::<Vec<_>>()
        {
            config.set(&member.name, member.value.clone());
        }
    }
    config
}
