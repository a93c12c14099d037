//! The chat page: a single file that loads nothing from elsewhere.

use crate::error::Failure;
use crate::request_context::RequestContext;
use crate::stream::with_type;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;

const PAGE: &str = include_str!("web_ui.html");

/// Content security policy: only scripts of the file run, and they may connect to this server alone.
const POLICY: &str = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; connect-src 'self'; \
                      img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

pub(crate) async fn page(_: RequestContext) -> Result<Response, Failure> {
    let mut response = with_type(StatusCode::OK, "text/html; charset=utf-8", PAGE);
    response.headers_mut().insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    Ok(response)
}
