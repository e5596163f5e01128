//! Vendor headers that a request's content or its target's account needs, in addition to those the client sent.
//!
//! Not a provider's auth headers: `provider` makes those and `engine::upstream_headers` writes them.

use http::{HeaderMap, HeaderName, HeaderValue};
use knowledge::provider::anthropic::betas;
use words::config::account::Account;
use words::error::Error;

/// Vendor headers to send in addition to the client's own.
#[derive(Debug, Default)]
pub struct VendorHeaders {
    /// Headers the body needs, as its translation found.
    content: HeaderMap,
    /// Headers the account sets: in a config, a stored provider or a header under one of the gateway's prefixes.
    account: HeaderMap,
}

impl VendorHeaders {
    /// # Errors
    /// 400 if the account has text that is not valid in a header.
    pub fn new(content: HeaderMap, account: &Account) -> Result<Self, Error> {
        let fields = [
            ("openai-beta", "openai_beta", &account.openai_beta),
            ("anthropic-beta", "anthropic_beta", &account.anthropic_beta),
            ("anthropic-version", "anthropic_version", &account.anthropic_version),
        ];
        let mut account = HeaderMap::new();
        for (name, param, value) in fields {
            let Some(value) = value else { continue };
            let value = HeaderValue::from_str(value).map_err(|_| {
                Error::bad_request(format!("{param} must be text that can stand in a header."))
                    .with_param(param)
            })?;
            account.insert(HeaderName::from_static(name), value);
        }
        Ok(Self { content, account })
    }

    /// Sets a header at the provider, whatever the client sent; a list of betas is joined with the others.
    pub fn set(&mut self, name: HeaderName, value: HeaderValue) {
        self.content.insert(name, value);
    }

    /// All of them, whatever the client sent.
    pub fn all(&self) -> impl Iterator<Item = (&HeaderName, &HeaderValue)> {
        self.content.iter().chain(&self.account)
    }

    /// The headers to set in the upstream request, given the client's headers. Lists of betas are joined, the
    /// client's first. For any other header the body's value has precedence over the client's, and the client's
    /// over the account's. A header that only the client sent stays unchanged.
    pub fn merge_over(&self, client_headers: &HeaderMap) -> HeaderMap {
        let mut set = HeaderMap::new();
        for name in self.account.keys().chain(self.content.keys()) {
            if is_list(name) {
                if let Some(value) = joined(name, [client_headers, &self.content, &self.account]) {
                    set.insert(name, value);
                }
            } else if let Some(value) = self.content.get(name) {
                set.insert(name, value.clone());
            } else if let (Some(value), false) = (self.account.get(name), client_headers.contains_key(name)) {
                set.insert(name, value.clone());
            }
        }
        set
    }
}

fn is_list(name: &HeaderName) -> bool {
    name.as_str().ends_with("-beta")
}

fn same_feature(one: &[u8], other: &[u8]) -> bool {
    let feature = |item| std::str::from_utf8(item).ok().map(betas::feature);
    feature(one).is_some() && feature(one) == feature(other)
}

/// The items of these lists in their order, without duplicates. A list does not add another date of a beta that an
/// earlier list has: the client has chosen its version.
fn joined(name: &HeaderName, lists: [&HeaderMap; 3]) -> Option<HeaderValue> {
    let mut items: Vec<&[u8]> = Vec::new();
    for list in lists {
        let before = items.len();
        for value in list.get_all(name) {
            for item in value.as_bytes().split(|byte| *byte == b',').map(<[u8]>::trim_ascii) {
                let is_chosen = items.iter().take(before).any(|earlier| same_feature(earlier, item));
                if !item.is_empty() && !is_chosen && !items.contains(&item) {
                    items.push(item);
                }
            }
        }
    }
    HeaderValue::from_bytes(&items.join(&b","[..])).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let pair = |&(name, value): &(&'static str, &str)| {
            (HeaderName::from_static(name), HeaderValue::from_str(value).unwrap())
        };
        let mut map = HeaderMap::new();
        for (name, value) in pairs.iter().map(pair) {
            map.append(name, value);
        }
        map
    }

    fn account() -> Account {
        Account {
            openai_beta: Some("assistants=v2".to_owned()),
            anthropic_beta: Some("account-1, both-1".to_owned()),
            anthropic_version: Some("account".to_owned()),
            ..Account::default()
        }
    }

    #[test]
    fn betas_of_client_body_and_account_are_joined_without_duplicates() {
        let content = headers(&[("anthropic-beta", "body-1,both-1")]);
        let vendor_headers = VendorHeaders::new(content, &account()).unwrap();
        let client_headers = headers(&[
            ("anthropic-beta", "caller-1, caller-2"),
            ("anthropic-beta", "both-1,"),
            ("openai-beta", "assistants=v2"),
        ]);
        let set = vendor_headers.merge_over(&client_headers);
        assert_eq!(set["anthropic-beta"], "caller-1,caller-2,both-1,body-1,account-1");
        assert_eq!(set["openai-beta"], "assistants=v2");
        assert_eq!(set.get_all("anthropic-beta").iter().count(), 1);
    }

    #[test]
    fn the_clients_version_of_a_beta_stays() {
        let content = headers(&[("anthropic-beta", "mcp-client-2025-11-20,skills-2025-10-02")]);
        let vendor_headers = VendorHeaders::new(content, &Account::default()).unwrap();
        let set = vendor_headers.merge_over(&headers(&[("anthropic-beta", "mcp-client-2025-04-04")]));
        assert_eq!(set["anthropic-beta"], "mcp-client-2025-04-04,skills-2025-10-02");
    }

    #[test]
    fn the_body_version_wins_over_the_client_version_and_that_over_the_account_version() {
        let version = |content: &[(&'static str, &str)], client_headers: &[(&'static str, &str)]| {
            let vendor_headers = VendorHeaders::new(headers(content), &account()).unwrap();
            vendor_headers.merge_over(&headers(client_headers)).get("anthropic-version").cloned()
        };
        let body = [("anthropic-version", "body")];
        let client_version = [("anthropic-version", "caller")];
        assert_eq!(version(&[], &[]).unwrap(), "account");
        assert_eq!(version(&[], &client_version), None, "the caller's stays as it came");
        assert_eq!(version(&body, &client_version).unwrap(), "body");
        assert_eq!(version(&body, &[]).unwrap(), "body");
    }

    #[test]
    fn headers_only_the_client_sent_are_left_alone() {
        let vendor_headers = VendorHeaders::new(HeaderMap::new(), &Account::default()).unwrap();
        assert!(
            vendor_headers
                .merge_over(&headers(&[("anthropic-beta", "a, a"), ("openai-beta", "b")]))
                .is_empty()
        );
    }

    #[test]
    fn an_account_value_invalid_in_a_header_is_rejected_by_its_key() {
        let account = Account { openai_beta: Some("a\nb".to_owned()), ..Account::default() };
        let error = VendorHeaders::new(HeaderMap::new(), &account).unwrap_err();
        assert_eq!(error.param.as_deref(), Some("openai_beta"));
    }
}
