//! Filters, tests and functions where minijinja differs from Jinja2, or that `transformers` adds.

use super::calendar::Moment;
use super::{json, python};
use minijinja::value::{Value, ValueKind};
use minijinja::{Environment, Error, ErrorKind, Output, State};

/// Marks the error of `raise_exception` among all other errors.
#[derive(Debug)]
pub(super) struct Raised(pub(super) String);

impl core::fmt::Display for Raised {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(&self.0)
    }
}

impl core::error::Error for Raised {}

/// Makes `environment` print, test and filter as Jinja2 does.
pub(super) fn install(environment: &mut Environment<'_>) {
    environment.set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
    environment.set_formatter(print);
    environment.add_test("iterable", is_iterable);
    environment.add_test("sequence", is_sequence);
    environment.add_filter("length", length);
    environment.add_filter("count", length);
    environment.add_filter("string", |value: &Value| python::str_of(value));
    environment.add_filter("upper", |value: &Value| Ok::<_, Error>(python::str_of(value)?.to_uppercase()));
    environment.add_filter("lower", |value: &Value| Ok::<_, Error>(python::str_of(value)?.to_lowercase()));
    environment.add_filter("tojson", json::tojson);
    environment.add_function("raise_exception", raise_exception);
}

/// Adds the function that prints the present date, as the caller sees the present.
pub(super) fn install_clock(environment: &mut Environment<'_>, now: Moment) {
    environment.add_function("strftime_now", move |format: &str| now.strftime(format));
}

fn print(output: &mut Output<'_>, _: &mut State<'_, '_>, value: &Value) -> Result<(), Error> {
    match value.as_str() {
        Some(text) => output.write_str(text),
        None => output.write_str(&python::str_of(value)?),
    }
    .map_err(Error::from)
}

/// Jinja2's undefined can be iterated, none can't.
fn is_iterable(value: &Value) -> bool {
    !value.is_none() && value.try_iter().is_ok()
}

/// Whatever has a length and can be indexed, which strings, mappings and undefined are too.
fn is_sequence(value: &Value) -> bool {
    matches!(value.kind(), ValueKind::Seq | ValueKind::String | ValueKind::Map | ValueKind::Undefined)
}

fn length(value: &Value) -> Result<usize, Error> {
    if value.is_undefined() {
        return Ok(0);
    }
    value.len().ok_or_else(|| {
        let kind = value.kind();
        let kind = if kind == ValueKind::Iterable { "generator".into() } else { kind.to_string() };
        Error::new(ErrorKind::InvalidOperation, format!("a value of type {kind} has no length"))
    })
}

fn raise_exception(message: Value) -> Result<String, Error> {
    let message = python::str_of(&message)?;
    Err(Error::new(ErrorKind::InvalidOperation, message.clone()).with_source(Raised(message)))
}
