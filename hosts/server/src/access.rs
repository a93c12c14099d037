//! Who may ask: keys, and which web pages.

use crate::error::{Failure, Kind};
use crate::settings::Settings;
use axum::http::{HeaderMap, HeaderValue, header};
use core::hint::black_box;
use core::net::IpAddr;

/// Whether a key is among the server's. The time does not tell how much of it was right.
fn known(keys: &[String], given: &str) -> bool {
    let mut any = false;
    for key in keys {
        let mut different = u8::from(key.len() != given.len());
        // always over what was given, whose length is no secret
        for (index, byte) in given.bytes().enumerate() {
            let own = key.as_bytes().get(index).copied().unwrap_or(0);
            different |= black_box(own ^ byte);
        }
        any |= black_box(different) == 0;
    }
    any
}

/// Refuses requests without one of the server's keys, if it has any.
pub(crate) fn check_key(settings: &Settings, headers: &HeaderMap) -> Result<(), Failure> {
    if settings.api_keys.is_empty() {
        return Ok(());
    }
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let bearer = text("authorization").and_then(|value| {
        let (scheme, key) = value.split_once(' ')?;
        scheme.eq_ignore_ascii_case("bearer").then(|| key.trim())
    });
    // some clients send a key of their own beside the one that they were given
    let mut given = [bearer, text("x-api-key")].into_iter().flatten().peekable();
    if given.peek().is_none() {
        return Err(Failure::new(
            Kind::Authentication,
            "an API key is needed; send it as \"Authorization: Bearer KEY\"",
        ));
    }
    if given.any(|key| known(&settings.api_keys, key)) {
        return Ok(());
    }
    Err(Failure::new(Kind::Authentication, "the API key is not one of this server's"))
}

/// Name and port of `host`, without the brackets of an IPv6 address.
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

/// Refuses web pages of strangers: a page may be anywhere, but the browser that shows it is here.
///
/// A server on the loopback interface also refuses names that are not its own, so that no page can make its own name
/// lead here.
///
/// # Errors
/// The refusal. Otherwise the origin that may read the answer, if a page asks.
pub(crate) fn check_origin(settings: &Settings, headers: &HeaderMap) -> Result<Option<HeaderValue>, Failure> {
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    if settings.address.ip().is_loopback()
        && settings.api_keys.is_empty()
        && !host.is_empty()
        && !is_loopback(host_name(host))
    {
        return Err(Failure::new(
            Kind::Permission,
            "without a key this server answers to localhost only; give it one with --api-key",
        ));
    }
    let Some(origin) = headers.get(header::ORIGIN) else { return Ok(None) };
    let text = origin.to_str().unwrap_or_default();
    let name = text.split_once("://").map(|(_, rest)| rest).unwrap_or_default();
    let own = !name.is_empty() && name == host;
    let local = !name.is_empty() && is_loopback(host_name(name)) && is_loopback(host_name(host));
    let listed = settings.origins.iter().any(|allowed| allowed == "*" || allowed == text);
    if own || local || listed {
        Ok(Some(origin.clone()))
    } else {
        Err(Failure::new(
            Kind::Permission,
            "web pages of this origin may not use the server; allow it with --origin",
        ))
    }
}

/// Lets the page of an origin read an answer.
pub(crate) fn allow_origin(headers: &mut HeaderMap, origin: HeaderValue) {
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    headers.insert(header::VARY, HeaderValue::from_static("origin"));
}

/// What a browser asks for before the request proper.
pub(crate) fn allow_request(headers: &mut HeaderMap, asked: &HeaderMap) {
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
        assert!(known(&keys, "secret") && known(&keys, "other"));
        for key in ["", "secre", "secret2", "Secret", "secretother"] {
            assert!(!known(&keys, key), "{key}");
        }
        assert!(!known(&[], ""));
    }

    #[test]
    fn names_of_this_machine_are_known() {
        for host in ["localhost", "LocalHost:13305", "127.0.0.1:80", "[::1]:80", "a.localhost"] {
            assert!(is_loopback(host_name(host)), "{host}");
        }
        for host in ["example.org", "localhost.example.org:80", "192.168.0.1", "[::2]:80"] {
            assert!(!is_loopback(host_name(host)), "{host}");
        }
    }
}
