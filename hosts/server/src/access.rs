//! Access rules: API keys, and the origins of web pages.

use crate::error::{Failure, FailureKind};
use crate::settings::Settings;
use axum::http::{HeaderMap, HeaderValue, header};
use core::net::IpAddr;
use subtle::ConstantTimeEq as _;

/// The index of a key among the server's. The time it takes does not depend on how much of the key is right.
fn index_of(keys: &[String], given: &str) -> Option<usize> {
    let same = |key: &String| bool::from(key.as_bytes().ct_eq(given.as_bytes()));
    // every key is compared, whichever is found
    keys.iter()
        .map(same)
        .enumerate()
        .fold(None, |found, (index, same)| if same { Some(index) } else { found })
}

/// Refuses requests without one of the server's keys, if it has any. Returns the index of the key.
pub(crate) fn check_key(settings: &Settings, headers: &HeaderMap) -> Result<Option<usize>, Failure> {
    if settings.api_keys.is_empty() {
        return Ok(None);
    }
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let bearer = text("authorization").and_then(|value| {
        let (scheme, key) = value.split_once(' ')?;
        scheme.eq_ignore_ascii_case("bearer").then(|| key.trim())
    });
    // some clients send a key of their own besides the configured one
    let mut given = [bearer, text("x-api-key")].into_iter().flatten().peekable();
    if given.peek().is_none() {
        return Err(Failure::new(
            FailureKind::Authentication,
            "an API key is needed; send it as \"Authorization: Bearer KEY\"",
        ));
    }
    match given.find_map(|key| index_of(&settings.api_keys, key)) {
        Some(index) => Ok(Some(index)),
        None => Err(Failure::new(FailureKind::Authentication, "the API key is not one of this server's")),
    }
}

/// The name in `host`, without its port and without the brackets of an IPv6 address.
fn host_name(host: &str) -> &str {
    match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or(rest),
        None => host.rsplit_once(':').map_or(host, |(name, _)| name),
    }
}

fn is_loopback(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    name == "localhost"
        || name.ends_with(".localhost")
        || name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// True if a server without a key answers to a host name. A page can point a name of its own at any address (DNS
/// rebinding), and its browser then takes this server for the page's own; an address can't be pointed elsewhere.
fn is_trusted(settings: &Settings, host: &str) -> bool {
    let name = host_name(host);
    let listed = |origin: &String| {
        let allowed = origin.split_once("://").map_or("", |(_, rest)| host_name(rest));
        origin == "*" || (!allowed.is_empty() && allowed.eq_ignore_ascii_case(name))
    };
    host.is_empty()
        || is_loopback(name)
        || name.parse::<IpAddr>().is_ok()
        || settings.origins.iter().any(listed)
}

/// Refuses web pages of unknown origins: a page may come from anywhere, but the browser that runs it is on this machine.
/// Returns the origin that may read the answer, if a page sends the request.
///
/// # Errors
/// The refusal.
pub(crate) fn check_origin(settings: &Settings, headers: &HeaderMap) -> Result<Option<HeaderValue>, Failure> {
    let host = match headers.get(header::HOST).map(HeaderValue::to_str) {
        None => "",
        Some(Ok(host)) => host,
        Some(Err(_)) => return Err(Failure::new(FailureKind::Permission, "the host name is not ASCII text")),
    };
    if settings.api_keys.is_empty() && !is_trusted(settings, host) {
        return Err(Failure::new(
            FailureKind::Permission,
            "without a key this server answers to localhost and to addresses, not to this host name; give it a \
             key with --api-key, or allow the name with --origin",
        ));
    }
    let Some(origin) = headers.get(header::ORIGIN) else { return Ok(None) };
    let text = origin.to_str().unwrap_or_default();
    let name = text.split_once("://").map(|(_, rest)| rest).unwrap_or_default();
    let own = !name.is_empty() && name == host;
    let local = !name.is_empty() && is_loopback(host_name(name)) && is_loopback(host_name(host));
    let listed = settings.origins.iter().any(|allowed| allows(allowed, text));
    if own || local || listed {
        Ok(Some(origin.clone()))
    } else {
        Err(Failure::new(
            FailureKind::Permission,
            "web pages of this origin may not use the server; allow it with --origin",
        ))
    }
}

/// True if an entry of the list of origins allows an origin: `*` all, `SCHEME://*` all of a scheme, such as those of a
/// browser's extensions, which Firefox names anew in every profile.
fn allows(allowed: &str, origin: &str) -> bool {
    let of_scheme = |scheme: &str| origin.strip_prefix(scheme).is_some_and(|name| name.starts_with("://"));
    allowed == "*" || allowed == origin || allowed.strip_suffix("://*").is_some_and(of_scheme)
}

/// Allows pages of an origin to read the response.
pub(crate) fn allow_origin(headers: &mut HeaderMap, origin: HeaderValue) {
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    headers.insert(header::VARY, HeaderValue::from_static("origin"));
}

/// Answers a browser's preflight request, whose headers are `asked`.
pub(crate) fn answer_preflight(headers: &mut HeaderMap, asked: &HeaderMap) {
    let methods = HeaderValue::from_static("GET, POST, DELETE, OPTIONS");
    headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, methods);
    let wanted = asked.get(header::ACCESS_CONTROL_REQUEST_HEADERS).cloned();
    let wanted = wanted.unwrap_or_else(|| HeaderValue::from_static("authorization, content-type"));
    headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, wanted);
    headers.insert(header::ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("600"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_compared_whole() {
        let keys = ["secret".to_owned(), "other".to_owned()];
        assert_eq!(index_of(&keys, "secret"), Some(0));
        assert_eq!(index_of(&keys, "other"), Some(1));
        for key in ["", "secre", "secret2", "Secret", "secretother"] {
            assert_eq!(index_of(&keys, key), None, "{key}");
        }
        assert_eq!(index_of(&[], ""), None);
    }

    #[test]
    fn a_server_without_a_key_answers_to_addresses_and_allowed_names() {
        let mut settings = Settings::new(([0, 0, 0, 0], 13305).into());
        settings.origins.push("http://box.lan:3000".to_owned());
        for host in
            ["", "localhost", "192.0.2.1:13305", "[2001:db8::1]:80", "[::1]", "box.lan", "BOX.lan:13305"]
        {
            assert!(is_trusted(&settings, host), "{host}");
        }
        for host in
            ["evil.example", "evil.example:13305", "192.0.2.1.evil.example", "lan", "127.0.0.1.nip.io"]
        {
            assert!(!is_trusted(&settings, host), "{host}");
        }
    }

    #[test]
    fn origins_are_allowed_one_by_one_or_by_scheme() {
        assert!(allows("*", "null") && allows("http://a", "http://a") && !allows("http://a", "http://ab"));
        let extensions = "moz-extension://*";
        assert!(allows(extensions, "moz-extension://5b1e8f0c-0000-4000-8000-000000000000"));
        for origin in
            ["chrome-extension://a", "moz-extension", "moz-extensions://a", "https://moz-extension://a"]
        {
            assert!(!allows(extensions, origin), "{origin}");
        }
    }

    #[test]
    fn names_of_this_machine_are_loopback() {
        for host in ["localhost", "LocalHost:13305", "127.0.0.1:80", "[::1]:80", "a.localhost"] {
            assert!(is_loopback(host_name(host)), "{host}");
        }
        for host in ["example.org", "localhost.example.org:80", "192.168.0.1", "[::2]:80"] {
            assert!(!is_loopback(host_name(host)), "{host}");
        }
    }
}
