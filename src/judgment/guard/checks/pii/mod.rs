//! `default.pii`: personal data and secrets in a text, detected in the process by their form and check digits.
//!
//! Detected is what has a form of its own: names, addresses of houses and dates of birth have none, and are not. The figures in
//! [`PII`] are held by `tests/guard_detection.rs`.

mod announced;
mod bytes;
mod card;
mod category;
mod digits;
mod email;
mod explanation;
mod iban;
mod ip;
mod phone;
mod redaction;
mod scan;
mod secret;
mod ssn;

use crate::guard::check::{CheckKind, Finder, LocalCheck, Match, Prepared};
use crate::guard::finding::{Change, Finding};
use crate::guard::parameters::{Parameters, Type, Unusable, optional};
use crate::guard::subject::Subject;
use category::{Categories, Category, NAMES};
use explanation::{counts, explanation};
use redaction::Redaction;
use scan::{Found, Scan};
use serde_json::{Value, json};
use std::ops::Range;
use words::config::hooks::HookPhase;

pub(crate) const PII: CheckKind = CheckKind {
    id: "default.pii",
    aliases: &["portkey.pii"],
    phases: &[HookPhase::Before, HookPhase::After],
    about: "Passes where no personal data and no secret is found; with `redact` it replaces them and passes. It detects by form and \
            check digits, in the process: no names, postal addresses or dates. Measured on 1,000 sentences of Presidio's \
            generator of test data (recall, precision): e-mail, card, IBAN, IP and SSN 1.00, 1.00; telephone 0.82, 1.00 \
            (missed: national numbers that nothing announces). Secrets are known by the prefixes of their providers or \
            by a name (`password = …`); no public set measures them. A stream is held back by the longest match: 256 \
            bytes, with `redact` 2,048 for `JWT` and 3,500 for `PRIVATE_KEY`; name the categories that matter to hold back less.",
    source: "",
    parameters: &[
        optional(
            "categories",
            Type::SomeOf(&NAMES),
            "",
            "What is looked for; all of them where it is absent.",
        ),
        optional(
            "redact",
            Type::Flag,
            "false",
            "Whether what is found is replaced by its category, as `{{EMAIL_ADDRESS}}`, in every text; the check then passes.",
        ),
        optional(
            "restore",
            Type::Flag,
            "false",
            "With `redact`, on requests: placeholders are numbered (`{{EMAIL_ADDRESS_1}}`, the same value the same one in all checks of the request), and \
             the response has the values again where the model repeats them.",
        ),
        optional("not", Type::Flag, "false", "Whether the verdict is turned round. Not with `redact`."),
    ],
    prepare,
};

/// A result lists so many places at most; counts are of all.
const MAX_LISTED: usize = 50;

#[derive(Debug)]
struct Pii {
    scan: Scan,
    redacts: bool,
    restores: bool,
    not: bool,
}

fn prepare(parameters: &Parameters<'_>) -> Result<Prepared, Unusable> {
    let named = parameters.texts("categories").filter(|names| !names.is_empty());
    let categories = match named {
        Some(names) => names.into_iter().filter_map(Category::from_name).collect(),
        None => Categories::all(),
    };
    let redacts = parameters.flag("redact");
    let restores = parameters.flag("restore");
    let not = parameters.flag("not");
    if restores && !redacts {
        return Err(Unusable::new(
            "restore",
            "`restore` needs `redact: true`: nothing is replaced without it",
        ));
    }
    if not && redacts {
        return Err(Unusable::new(
            "not",
            "`not` has no meaning with `redact: true`: the check always passes",
        ));
    }
    Ok(Prepared::Local(Box::new(Pii { scan: Scan::new(categories, redacts), redacts, restores, not })))
}

impl Pii {
    /// Replaces what is found in every text.
    fn redacted(&self, subject: &Subject) -> Finding {
        let mut redaction = if self.restores && subject.phase == HookPhase::Before {
            Redaction::numbered(&subject.placeholders)
        } else {
            Redaction::plain()
        };
        let mut all = Vec::new();
        let mut texts = Vec::with_capacity(subject.texts.len());
        for text in subject.texts.iter() {
            let found = self.scan.find(&text.text, 0..text.text.len());
            texts.push(redaction.replace(&text.text, &found));
            all.extend(found.into_iter().map(|hit| hit.category));
        }
        let data = json!({
            "explanation": explanation(all.len(), true),
            "categories": counts(all.iter().map(|category| category.as_str())),
        });
        let finding = Finding::of(true, data);
        match redaction.originals() {
            _ if all.is_empty() => finding,
            Some(originals) => finding.with_change(Change::Placeholders(texts, originals)),
            None => finding.with_change(Change::Texts(texts)),
        }
    }

    fn judged<'a>(&self, found: impl Iterator<Item = (&'a str, Range<usize>)> + Clone) -> Finding {
        let count = found.clone().count();
        let listed = found.clone().take(MAX_LISTED);
        let places: Vec<Value> = listed
            .map(|(category, range)| json!({"category": category, "start": range.start, "end": range.end}))
            .collect();
        let data = json!({
            "explanation": explanation(count, self.redacts),
            "categories": counts(found.map(|(category, _)| category)),
            "found": places,
        });
        Finding::of(self.redacts || (count == 0) != self.not, data)
    }
}

impl LocalCheck for Pii {
    fn may_change(&self) -> bool {
        self.redacts
    }

    fn run(&self, subject: &Subject) -> Finding {
        if self.redacts {
            return self.redacted(subject);
        }
        let Some(text) = subject.text() else {
            return Finding::failed("Error", "Missing text to search");
        };
        let found = self.scan.find(text, 0..text.len());
        self.judged(found.iter().map(|hit| (hit.category.as_str(), hit.range.clone())))
    }

    /// With `not` it must see that there is nothing in all of the text.
    fn finder(&self) -> Option<&dyn Finder> {
        (!self.not).then_some(self)
    }
}

impl Finder for Pii {
    fn find(&self, text: &str, range: Range<usize>) -> Vec<Match> {
        let as_match = |Found { category, range }| Match {
            range,
            replacement: self.redacts.then(|| redaction::placeholder(category)),
            detail: json!(category.as_str()),
        };
        self.scan.find(text, range).into_iter().map(as_match).collect()
    }

    fn longest(&self) -> Option<usize> {
        Some(self.scan.longest())
    }

    fn finding(&self, found: &[Match]) -> Finding {
        self.judged(found.iter().map(|hit| (hit.detail.as_str().unwrap_or_default(), hit.range.clone())))
    }
}

#[cfg(test)]
mod tests;
