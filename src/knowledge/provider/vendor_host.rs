//! The host that a resource's name stands for, below the domains of its vendor.
//!
//! Not a custom host, which may be any.

/// `https://` and the host that `name` stands for; `None` when it is not a valid name below these domains.
pub(super) fn host_below(name: &str, domains: &[&str]) -> Option<String> {
    let proper = name.len() <= 190
        && name.split('.').all(|label| {
            let edge = label.starts_with('-') || label.ends_with('-');
            let allowed = |each: char| each.is_ascii_alphanumeric() || each == '-' || each == '_';
            (1..=63).contains(&label.len()) && !edge && label.chars().all(allowed)
        });
    let name = name.to_ascii_lowercase();
    let below = |domain: &&str| name.strip_suffix(*domain).is_some_and(|left| left.ends_with('.'));
    match domains.first() {
        _ if !proper => None,
        _ if domains.iter().any(below) => Some(format!("https://{name}")),
        Some(domain) => Some(format!("https://{name}.{domain}")),
        None => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_resource_name_cannot_name_a_foreign_host() {
        let domains = &["cloud.databricks.com", "azuredatabricks.net"];
        let host = |name| host_below(name, domains);
        assert_eq!(host("dbc-1").as_deref(), Some("https://dbc-1.cloud.databricks.com"));
        assert_eq!(
            host("adb-1.7.AzureDatabricks.net").as_deref(),
            Some("https://adb-1.7.azuredatabricks.net")
        );
        // A name that does not end in one of the vendor's domains is a label below the first one.
        assert_eq!(host("evil.com").as_deref(), Some("https://evil.com.cloud.databricks.com"));
        assert_eq!(
            host("xcloud.databricks.com").as_deref(),
            Some("https://xcloud.databricks.com.cloud.databricks.com")
        );
        for name in ["", ".", "a..b", "a/b", "a?b", "a#b", "a@b", "a:1", "-a", "a b", "a\r\n", "é", "a."] {
            assert_eq!(host(name), None, "{name:?}");
        }
    }
}
