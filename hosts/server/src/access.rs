//! Access rules: API keys, and the origins of web pages.

use crate::error::{Failure, FailureKind};
use crate::settings::Settings;
use axum::http::{HeaderMap, HeaderValue, header};
use core::hint::black_box;
use core::net::IpAddr;

/// True if a key is among the server's. The time it takes does not depend on how much of the key is right.
fn is_known(keys: &[String], given: &str) -> bool {
    let mut any = false;
    for key in keys {
        let mut different = u8::from(key.len() != given.len());
        // over the given key, whose length is no secret
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
    // some clients send a key of their own besides the configured one
    let mut given = [bearer, text("x-api-key")].into_iter().flatten().peekable();
    if given.peek().is_none() {
        return Err(Failure::new(
            FailureKind::Authentication,
            "an API key is needed; send it as \"Authorization: Bearer KEY\"",
        ));
    }
    if given.any(|key| is_known(&settings.api_keys, key)) {
        return Ok(());
    }
    Err(Failure::new(FailureKind::Authentication, "the API key is not one of this server's"))
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

/// Refuses web pages of unknown origins: a page may come from anywhere, but the browser that runs it is on this machine.
/// Returns the origin that may read the answer, if a page sends the request.
///
/// A server without a key on the loopback interface also refuses host names other than localhost, so that no page can
/// point its own name here (DNS rebinding).
///
/// # Errors
/// The refusal.
pub(crate) fn check_origin(settings: &Settings, headers: &HeaderMap) -> Result<Option<HeaderValue>, Failure> {
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    if settings.address.ip().is_loopback()
        && settings.api_keys.is_empty()
        && !host.is_empty()
        && !is_loopback(host_name(host))
    {
        return Err(Failure::new(
            FailureKind::Permission,
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
            FailureKind::Permission,
            "web pages of this origin may not use the server; allow it with --origin",
        ))
    }
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
        assert!(is_known(&keys, "secret") && is_known(&keys, "other"));
        for key in ["", "secre", "secret2", "Secret", "secretother"] {
            assert!(!is_known(&keys, key), "{key}");
        }
        assert!(!is_known(&[], ""));
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
