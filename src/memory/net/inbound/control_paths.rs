//! Which paths belong to the control plane when they arrive at the data port.
//!
//! Plain data for both planes: `control` makes it from its route table, the data plane looks paths up. Contains no
//! routes.

use percent_encoding::percent_decode_str;

/// The control plane's paths at the data port.
#[derive(Debug, Clone, Default)]
pub struct ControlPaths {
    /// First segments below `/v1`.
    pub names: Vec<&'static str>,
    /// First segments of paths without a version.
    pub unversioned: Vec<&'static str>,
    /// Paths for which a client needs no key; from the first parameter in braces on, anything.
    pub open: Vec<&'static str>,
}

impl ControlPaths {
    /// Whether a client needs no key for this path of the control plane.
    pub fn is_open(&self, path: &str) -> bool {
        self.open.iter().any(|open| match open.split_once('{') {
            Some((beginning, _)) => path.starts_with(beginning),
            None => path == *open,
        })
    }

    /// Whether this path is the control plane's, however it is spelled: what a client means for the gateway must never
    /// reach a provider, whose server may read a path more leniently than this one (in any case, with doubled slashes,
    /// percent-encoded, with `..`). Below `/v1/proxy/` every path is the provider's.
    pub fn owns(&self, path: &str) -> bool {
        self.is_open(path) || self.name(path).is_some()
    }

    /// The control plane's name in a path.
    pub fn name(&self, path: &str) -> Option<&'static str> {
        let decoded = percent_decode_str(path).decode_utf8_lossy();
        let mut segments: Vec<&str> = Vec::new();
        for segment in decoded.split(['/', '\\']) {
            let name = segment.split(';').next().unwrap_or_default();
            match name.trim_matches(|char: char| char.is_whitespace() || char.is_control()) {
                "" | "." => {}
                ".." => drop(segments.pop()),
                name => segments.push(name),
            }
        }
        // A base URL that ends in `/v1` before a path that begins with it.
        let versions = segments.iter().take_while(|segment| segment.eq_ignore_ascii_case("v1")).count();
        let names = if versions > 0 { &self.names } else { &self.unversioned };
        let first = segments.get(versions);
        first.and_then(|first| names.iter().find(|name| name.eq_ignore_ascii_case(first)).copied())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_owned_however_it_is_spelled() {
        let paths =
            ControlPaths { names: vec!["virtual-keys"], unversioned: vec!["prices"], open: vec!["/livez"] };
        for path in [
            "/livez",
            "/prices/openai/gpt",
            "/v1/virtual-keys",
            "/v1/virtual-keys/",
            "/v1/virtual-keys/a/b",
            "/v1//virtual-keys",
            "//v1/virtual-keys",
            "/v1/./virtual-keys",
            "/v1/files/../virtual-keys",
            "/v1/proxy/../virtual-keys",
            "/v1/%76irtual%2Dkeys",
            "/v1/virtual-keys%2Fa",
            "/v1%2fvirtual-keys",
            "/v1/virtual-keys;a=b",
            "/v1/virtual-keys%20",
            "/v1/virtual-keys%00",
            "/v1/\\virtual-keys",
            "/V1/Virtual-Keys",
            "/v1/v1/virtual-keys",
        ] {
            assert!(paths.owns(path), "{path}");
        }
        for path in [
            "/",
            "/v1",
            "/v1/",
            "/livez/x",
            "/virtual-keys",
            "/v1/prices",
            "/v1/virtual-keysx",
            "/v1/x/virtual-keys",
            "/v1/proxy/virtual-keys",
            "/v1/chat/completions",
            "/v2/virtual-keys",
        ] {
            assert!(!paths.owns(path), "{path}");
        }
    }
}
