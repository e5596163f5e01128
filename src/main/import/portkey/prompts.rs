//! Prompts of an export: prompts of the store, with `--to store`.
//!
//! Of each the version that the export shows, which is the published one. Not here: making them (`store_writer`).

use super::super::cursor::InputAt;
use super::super::import::{Import, ImportTarget};
use super::super::objects::{PlannedKind, PlannedObject};
use super::super::report::Taken;
use super::providers::Slugs;
use serde_json::{Map, Value, json};

/// Members that are taken over as they are.
const SAME: [&str; 8] = [
    "string",
    "parameters",
    "model",
    "functions",
    "tools",
    "tool_choice",
    "template_metadata",
    "is_raw_template",
];

/// Members of a prompt whose text has another name here.
const DESCRIPTIONS: [&str; 2] = ["prompt_version_description", "version_description"];

const NEEDS_STORE: &str = "prompts are objects of the store: turnpike import portkey FILE --to store makes them (docs/moving/portkey.md)";

/// Plans the prompt.
pub fn read(import: &mut Import, slugs: &mut Slugs, at: &InputAt<'_>) {
    let Some(slug_at) = at.member("slug") else { return };
    let slug = slug_at.text().unwrap_or_default();
    if import.target == ImportTarget::Settings {
        import.findings.not_taken(at, NEEDS_STORE);
        return;
    }
    let Some((provider_at, provider, model)) = provider(at) else {
        import.findings.not_taken(at, "names no provider: it has no virtual_key, and no @slug in its model");
        return;
    };
    let provider = slugs.provider(import, &provider_at, &provider, None);
    let mut body = Map::new();
    body.insert("slug".to_owned(), json!(slug));
    let name = at.text_of("name").unwrap_or_else(|| slug.clone());
    body.insert("name".to_owned(), json!(name));
    body.insert("virtual_key".to_owned(), json!(provider));
    body.insert("parameters".to_owned(), json!({}));
    let text = format!("prompts/{slug} of the store");
    for at in SAME.iter().filter_map(|name| at.member(name)) {
        let name = at.path.rsplit('.').next().unwrap_or_default().to_owned();
        if let Ok(value) = serde_json::from_str::<Value>(&at.node.to_json()) {
            body.insert(name, value);
            import.findings.whole(&at, Taken::Exact, &text);
        }
    }
    if let Some(model) = model {
        body.insert("model".to_owned(), json!(model));
    }
    if let Some(description) = DESCRIPTIONS.iter().find_map(|name| at.member(name)) {
        body.insert("version_description".to_owned(), json!(description.text()));
        import.findings.exact(&description, text.clone());
    }
    for at in [Some(slug_at), at.member("name")].into_iter().flatten() {
        import.findings.exact(&at, text.clone());
    }
    let mark = format!("portkey prompt {slug}");
    import.objects.push(PlannedObject::of(PlannedKind::Prompt, at, &mark, body));
}

/// The slug of its provider, where it is named, and the model without it: `@slug/model` names both.
fn provider<'n>(at: &InputAt<'n>) -> Option<(InputAt<'n>, String, Option<String>)> {
    if let Some(key) = at.member("virtual_key") {
        let slug = key.text().filter(|slug| !slug.is_empty())?;
        return Some((key, slug, None));
    }
    let model = at.member("model")?;
    let text = model.text()?;
    let (slug, name) = text.strip_prefix('@')?.split_once('/')?;
    Some((model, slug.to_owned(), Some(name.to_owned())))
}
