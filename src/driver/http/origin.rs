//! The base URL of a partition: the origin it may talk to, and the path its tools start from.

use ureq::http::Uri;

/// Scheme, host and port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Origin {
    scheme: &'static str,
    host: String,
    port: u16,
    text: String,
}

impl Origin {
    /// The origin and the path of `base_url`, the path without a slash at its end. The errors do not
    /// repeat it: it may hold a credential.
    pub(super) fn parse(base_url: &str) -> Result<(Origin, String), String> {
        let broken = |rule: &str| Err(format!("`base_url`: {rule}"));
        let Ok(uri) = base_url.parse::<Uri>() else {
            return broken("is no URL; write it as in `https://search.example/v1`");
        };
        let Some((scheme, default_port)) = scheme(&uri) else {
            return broken("must start with `http://` or `https://`");
        };
        let Some(authority) = uri.authority().filter(|authority| !authority.host().is_empty())
        else {
            return broken("has no host");
        };
        if authority.as_str().contains('@') {
            return broken(
                "must hold no user or password; send the `Authorization` header instead",
            );
        }
        if uri.query().is_some() || base_url.contains('#') {
            return broken("must have no `?` or `#`; parameters belong to the tools");
        }
        let origin = Origin {
            scheme,
            host: authority.host().to_ascii_lowercase(),
            port: authority.port_u16().unwrap_or(default_port),
            text: format!("{scheme}://{authority}"),
        };
        Ok((origin, uri.path().trim_end_matches('/').to_owned()))
    }

    /// Whether `uri` is of this origin.
    pub(super) fn is_of(&self, uri: &Uri) -> bool {
        scheme(uri).is_some_and(|(scheme, default_port)| {
            scheme == self.scheme
                && uri.host().is_some_and(|host| host.eq_ignore_ascii_case(&self.host))
                && uri.port_u16().unwrap_or(default_port) == self.port
        })
    }

    pub(super) fn host(&self) -> &str {
        &self.host
    }

    pub(super) fn port(&self) -> u16 {
        self.port
    }

    /// As the beginning of a URL.
    pub(super) fn as_str(&self) -> &str {
        &self.text
    }
}

/// The scheme and its port.
fn scheme(uri: &Uri) -> Option<(&'static str, u16)> {
    match uri.scheme_str() {
        Some("http") => Some(("http", 80)),
        Some("https") => Some(("https", 443)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_origin_is_scheme_host_and_port() {
        let (origin, path) = Origin::parse("https://Search.example/v1/").unwrap();
        assert_eq!((origin.host(), origin.port(), path.as_str()), ("search.example", 443, "/v1"));
        for (url, same) in [
            ("https://search.example/other", true),
            ("https://SEARCH.example:443/", true),
            ("http://search.example/", false),
            ("https://search.example:444/", false),
            ("https://search.example.evil/", false),
            ("/relative", false),
        ] {
            assert_eq!(origin.is_of(&url.parse().unwrap()), same, "{url}");
        }
    }
}
