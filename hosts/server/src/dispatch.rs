//! What happens to every request before and after its handler: access, limits, the body, the log.

use crate::access;
use crate::app::App;
use crate::body_limit;
use crate::error::{Dialect, Failure, Kind};
use crate::request_context::RequestContext;
use crate::routes::{Access, HttpMethod, PathPrefix, ROUTES, Route, VERSIONS};
use alloc::sync::Arc;
use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderValue, Method, header};
use axum::response::Response;
use axum::routing::{MethodFilter, on};
use core::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

/// The routes of the table, each behind [`enter`].
pub(crate) fn router(app: &Arc<App>) -> Router {
    let mut router = Router::new();
    for route in &ROUTES {
        for path in paths(route) {
            let app = Arc::clone(app);
            let filter = MethodFilter::try_from(route.method.method()).unwrap_or(MethodFilter::GET);
            let handler = move |request: Request| enter(Arc::clone(&app), route, request);
            router = router.route(&path, on(filter, handler));
        }
    }
    let (missing, wrong) = (Arc::clone(app), Arc::clone(app));
    router
        .fallback(move |request: Request| refuse(Arc::clone(&missing), Kind::NotFound, request))
        .method_not_allowed_fallback(move |request: Request| {
            refuse(Arc::clone(&wrong), Kind::MethodNotAllowed, request)
        })
}

/// The paths under which a route stands. A slash at the end makes no difference.
fn paths(route: &Route) -> Vec<String> {
    let versions = VERSIONS.iter().map(|prefix| format!("{prefix}{}", route.path));
    let mut paths: Vec<String> = match route.under {
        PathPrefix::Root => vec![route.path.to_owned()],
        PathPrefix::Versions => versions.collect(),
        PathPrefix::Both => core::iter::once(route.path.to_owned()).chain(versions).collect(),
    };
    if !route.path.ends_with(['/', '}']) {
        paths.extend_from_within(..);
        let half = paths.len() / 2;
        paths[half..].iter_mut().for_each(|path| path.push('/'));
    }
    paths
}

/// The place of a request among those in progress, until its answer is written.
struct Place(Arc<App>);

impl Place {
    fn take(app: &Arc<App>) -> Result<Self, Failure> {
        let place = Self(Arc::clone(app));
        let before = app.in_flight.fetch_add(1, Ordering::Relaxed);
        if before < app.settings.concurrency { Ok(place) } else { Err(Self::none()) }
    }

    fn none() -> Failure {
        Failure::new(Kind::Busy, "too many requests are in progress; try again later")
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let count: &AtomicUsize = &self.0.in_flight;
        count.fetch_sub(1, Ordering::Relaxed);
    }
}

async fn enter(app: Arc<App>, route: &'static Route, request: Request) -> Response {
    let start = Instant::now();
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let origin = access::check_origin(&app.settings, request.headers());
    let mut response = match origin {
        Ok(origin) => {
            let mut response = match authorize(app, route, request).await {
                Ok(response) => response,
                Err(failure) => {
                    tracing::info!(%method, path, failure = failure.message, "refused");
                    failure.response(route.dialect)
                }
            };
            if let Some(origin) = origin {
                access::allow_origin(response.headers_mut(), origin);
            }
            response
        }
        Err(failure) => failure.response(route.dialect),
    };
    response.headers_mut().insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    let (status, milliseconds) = (response.status().as_u16(), start.elapsed().as_millis());
    tracing::debug!(%method, path, status, milliseconds, "answered");
    response
}

async fn authorize(app: Arc<App>, route: &'static Route, request: Request) -> Result<Response, Failure> {
    if route.access == Access::Key {
        access::check_key(&app.settings, request.headers())?;
        if app.in_flight.load(Ordering::Relaxed) >= app.settings.concurrency {
            return Err(Place::none());
        }
    }
    let name = name(route, request.uri().path());
    let query = request.uri().query().unwrap_or_default().to_owned();
    let accept = request.headers().get(header::ACCEPT).cloned();
    // a question has no body that matters, and may be asked without a key
    let (body, _held) = match route.method {
        HttpMethod::Get => Default::default(),
        HttpMethod::Post | HttpMethod::Delete => body_limit::read(&app, request).await?,
    };
    // half a request takes no place
    let place = if route.access == Access::Key { Some(Place::take(&app)?) } else { None };
    let mut cut = app.cut.subscribe();
    // the engine may be in the middle of a step that outlasts the server
    let response = tokio::select! {
        response = (route.handler)(RequestContext { app, name, query, body, accept }) => response?,
        _ = cut.wait_for(|&cut| cut) => return Err(Failure::new(Kind::Unavailable, "the server is shutting down")),
    };
    Ok(match place {
        Some(place) => response.map(|body| Body::new(Placed { body, _place: place })),
        None => response,
    })
}

/// What the path has in place of a name.
fn name(route: &Route, path: &str) -> Option<String> {
    let (fixed, _) = route.path.split_once("{*")?;
    let at = path.find(fixed)? + fixed.len();
    Some(percent_decoded(&path[at..]))
}

fn percent_decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, tail)) = rest.split_first() {
        let digits = tail.get(..2).and_then(|digits| core::str::from_utf8(digits).ok());
        let decoded = digits.filter(|_| byte == b'%').and_then(|digits| u8::from_str_radix(digits, 16).ok());
        bytes.push(decoded.unwrap_or(byte));
        rest = if decoded.is_some() { &tail[2..] } else { tail };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// An answer that keeps its place until it is written.
struct Placed {
    body: Body,
    _place: Place,
}

impl http_body::Body for Placed {
    type Data = axum::body::Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: core::pin::Pin<&mut Self>,
        context: &mut core::task::Context<'_>,
    ) -> core::task::Poll<Option<Result<http_body::Frame<Self::Data>, Self::Error>>> {
        core::pin::Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> http_body::SizeHint {
        self.body.size_hint()
    }
}

/// Requests that no route takes: a browser's question beforehand, or a mistake.
async fn refuse(app: Arc<App>, kind: Kind, request: Request) -> Response {
    let path = request.uri().path();
    let dialect = dialect(path);
    let origin = match access::check_origin(&app.settings, request.headers()) {
        Ok(origin) => origin,
        Err(failure) => return failure.response(dialect),
    };
    let mut response = match (request.method(), &origin) {
        (&Method::OPTIONS, Some(_)) => {
            let mut response = Response::new(Body::empty());
            access::allow_request(response.headers_mut(), request.headers());
            response
        }
        (method, _) => {
            let what = match kind {
                Kind::MethodNotAllowed => format!("{path} does not take {method}"),
                _ => format!("there is nothing at {path}"),
            };
            Failure::new(kind, what).response(dialect)
        }
    };
    if let Some(origin) = origin {
        access::allow_origin(response.headers_mut(), origin);
    }
    response
}

/// Whose words a path expects.
fn dialect(path: &str) -> Dialect {
    let behind = VERSIONS.iter().find_map(|prefix| path.strip_prefix(prefix));
    match behind {
        Some(path) if path.starts_with("/messages") => Dialect::Anthropic,
        None if path.starts_with("/api/") => Dialect::Ollama,
        _ => Dialect::OpenAi,
    }
}
