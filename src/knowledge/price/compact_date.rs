//! Dates in names of models: `gpt-5.2-20251211` is written `gpt-5.2-2025-12-11` by some.
//!
//! Not here: any other spelling of a name.

use jiff::civil::Date;

/// The name with each compact date behind a hyphen, and before a hyphen, a colon or the end, written with hyphens. `None`
/// if there is none.
pub(crate) fn with_hyphens(name: &str) -> Option<String> {
    let mut text = String::with_capacity(name.len() + 2);
    let mut rest = name;
    let mut has_date = false;
    while let Some(at) = rest.find('-') {
        let (before, after) = rest.split_at_checked(at + 1)?;
        text.push_str(before);
        rest = after;
        let Some((date, following)) = after.split_at_checked(8) else { continue };
        let ends = following.is_empty() || following.starts_with(['-', ':']);
        if let Some(date) = compact_date(date).filter(|_| ends) {
            text.push_str(&date);
            rest = following;
            has_date = true;
        }
    }
    text.push_str(rest);
    has_date.then_some(text)
}

/// `20251211` as `2025-12-11`, if it is a day of this century.
fn compact_date(text: &str) -> Option<String> {
    if !text.starts_with("20") || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let number = |from, to| text.get(from..to)?.parse::<i16>().ok();
    let month = number(4, 6)?.try_into().ok()?;
    let day = number(6, 8)?.try_into().ok()?;
    let date = Date::new(number(0, 4)?, month, day).ok()?;
    Some(date.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compact_dates_get_hyphens() {
        for (name, expected) in [
            ("gpt-5.2-20251211", Some("gpt-5.2-2025-12-11")),
            ("model-20251211:free", Some("model-2025-12-11:free")),
            ("a-20251211-20240229", Some("a-2025-12-11-2024-02-29")),
            ("model-20250230", None),
            ("model-202512110", None),
            ("model", None),
            ("-", None),
            ("gpt-20äöü1", None),
        ] {
            assert_eq!(with_hyphens(name).as_deref(), expected, "{name}");
        }
    }
}
