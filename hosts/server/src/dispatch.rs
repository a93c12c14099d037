//! The way of every request: origin and key, limits, body, handler, log.
//!
//! Not here: the table of routes (`routes`), and the rules for keys and origins (`access`).

use crate::access;
use crate::app::App;
use crate::body_limit;
use crate::clients::ClientId;
use crate::connection::Peer;
use crate::error::{Dialect, Failure, FailureKind, LOGGED, cut};
use crate::in_flight::InFlight;
use crate::request_context::RequestContext;
use crate::request_log::RequestLog;
use crate::routes::{Access, HttpMethod, PathPrefix, ROUTES, Route, VERSIONS};
use alloc::sync::Arc;
use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderValue, Method, header};
use axum::response::Response;
use axum::routing::{MethodFilter, on};
use percent_encoding::percent_decode_str;
use tracing::Instrument as _;

/// A router with the routes of the table.
pub(crate) fn router(app: &Arc<App>) -> Router {
    let mut router = Router::new();
    for route in &ROUTES {
        for path in paths(route) {
            let app = Arc::clone(app);
            let filter = MethodFilter::try_from(route.method.method()).unwrap_or(MethodFilter::GET);
            let handler = move |request: Request| respond(Arc::clone(&app), route, request);
            router = router.route(&path, on(filter, handler));
        }
    }
    let (missing, wrong) = (Arc::clone(app), Arc::clone(app));
    router
        .fallback(move |request: Request| refuse(Arc::clone(&missing), FailureKind::NotFound, request))
        .method_not_allowed_fallback(move |request: Request| {
            refuse(Arc::clone(&wrong), FailureKind::MethodNotAllowed, request)
        })
}

/// The paths of a route, each also with a slash at the end, and with two at the beginning: clients append `/v1/...` to an
/// address that ends with one.
fn paths(route: &Route) -> Vec<String> {
    let versions = VERSIONS.iter().map(|prefix| format!("{prefix}{}", route.path));
    let mut paths: Vec<String> = match route.prefix {
        PathPrefix::Root => vec![route.path.to_owned()],
        PathPrefix::Versions => versions.collect(),
        PathPrefix::Both => core::iter::once(route.path.to_owned()).chain(versions).collect(),
    };
    if !route.path.ends_with(['/', '}']) {
        paths.extend_from_within(..);
        let half = paths.len() / 2;
        paths[half..].iter_mut().for_each(|path| path.push('/'));
    }
    let doubled: Vec<String> =
        paths.iter().filter(|path| *path != "/").map(|path| format!("/{path}")).collect();
    paths.extend(doubled);
    paths
}

/// Answers or refuses a request, and logs it.
async fn respond(app: Arc<App>, route: &'static Route, request: Request) -> Response {
    let log = RequestLog::begin(&request);
    let response = answer(app, route, request).instrument(log.span()).await;
    log.attach(response)
}

/// Answers or refuses a request, and adds the headers that every response has.
async fn answer(app: Arc<App>, route: &'static Route, request: Request) -> Response {
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let origin = access::check_origin(&app.settings, request.headers());
    let mut response = match origin {
        Ok(origin) => {
            let mut response = match handle(Arc::clone(&app), route, request).await {
                Ok(response) => response,
                Err(failure) => {
                    app.metrics.not_taken(&failure);
                    let (path, failure_text) = (cut(&path, LOGGED), failure.for_log());
                    tracing::info!(%method, %path, failure = failure_text, "refused");
                    failure.response(route.dialect)
                }
            };
            if let Some(origin) = origin {
                access::allow_origin(response.headers_mut(), origin);
            }
            response
        }
        Err(failure) => {
            app.metrics.not_taken(&failure);
            failure.response(route.dialect)
        }
    };
    response.headers_mut().insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

/// Refuses a request without a key, and one that comes while too many are in progress. Returns its client.
fn authorize(app: &App, route: &Route, request: &Request) -> Result<ClientId, Failure> {
    let peer = request.extensions().get::<Peer>().map(|&Peer(address)| address);
    match route.access {
        Access::Open => Ok(ClientId::new(None, peer)),
        Access::Key => {
            let key = access::check_key(&app.settings, request.headers())?;
            InFlight::check(app)?;
            Ok(ClientId::new(key, peer))
        }
    }
}

/// Reads the body and runs the handler.
async fn handle(app: Arc<App>, route: &'static Route, request: Request) -> Result<Response, Failure> {
    let client = authorize(&app, route, &request)?;
    let name = variable_part(route, request.uri().path());
    let query = request.uri().query().unwrap_or_default().to_owned();
    let accept = request.headers().get(header::ACCEPT).cloned();
    // the body of a GET request means nothing, and its client may have no key
    let body = match route.method {
        HttpMethod::Get => Default::default(),
        HttpMethod::Post | HttpMethod::Delete => body_limit::read(&app, request).await?,
    };
    // a request counts as in progress once it is complete
    let in_flight = if route.access == Access::Key { Some(InFlight::begin(&app)?) } else { None };
    let mut aborted = app.aborted.subscribe();
    let context = RequestContext::new(app, client, (name, query), accept, body);
    // the engine may be in the middle of a step that takes longer than the server lives
    let response = tokio::select! {
        response = (route.handler)(context) => response?,
        _ = aborted.wait_for(|&aborted| aborted) => return Err(Failure::shutting_down()),
    };
    Ok(match in_flight {
        Some(in_flight) => in_flight.attach(response),
        None => response,
    })
}

/// The part of the path that a route leaves open, decoded.
fn variable_part(route: &Route, path: &str) -> Option<String> {
    let (fixed, _) = route.path.split_once("{*")?;
    let at = path.find(fixed)? + fixed.len();
    Some(percent_decode_str(&path[at..]).decode_utf8_lossy().into_owned())
}

/// Answers requests that no route takes: preflight requests of browsers, unknown paths, and wrong methods.
async fn refuse(app: Arc<App>, kind: FailureKind, request: Request) -> Response {
    let path = request.uri().path();
    let dialect = dialect(path);
    let origin = match access::check_origin(&app.settings, request.headers()) {
        Ok(origin) => origin,
        Err(failure) => {
            app.metrics.not_taken(&failure);
            return failure.response(dialect);
        }
    };
    let mut response = match (request.method(), &origin) {
        (&Method::OPTIONS, Some(_)) => {
            let mut response = Response::new(Body::empty());
            access::answer_preflight(response.headers_mut(), request.headers());
            response
        }
        _ => {
            let message = match kind {
                FailureKind::MethodNotAllowed => format!("{} does not take this method", cut(path, LOGGED)),
                _ => format!("there is nothing at {}", cut(path, LOGGED)),
            };
            let failure = Failure::new(kind, message);
            app.metrics.not_taken(&failure);
            failure.response(dialect)
        }
    };
    if let Some(origin) = origin {
        access::allow_origin(response.headers_mut(), origin);
    }
    response
}

/// The API that a path without a route belongs to.
fn dialect(path: &str) -> Dialect {
    let path = path.strip_prefix('/').filter(|path| path.starts_with('/')).unwrap_or(path);
    let version = VERSIONS.iter().find_map(|prefix| path.strip_prefix(prefix));
    match version {
        Some(path) if path.starts_with("/messages") => Dialect::Anthropic,
        None if path.starts_with("/api/") => Dialect::Ollama,
        _ => Dialect::OpenAi,
    }
}
