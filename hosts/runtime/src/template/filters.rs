//! Filters, tests and functions that differ between minijinja and Jinja2, or that `transformers` adds.

use super::calendar::Moment;
use super::{json, python};
use minijinja::value::{Kwargs, Value, ValueKind};
use minijinja::{Environment, Error, ErrorKind, Output, State};

/// The error of `raise_exception`, so that it can be distinguished from all others.
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
    environment.add_filter("string", |state: &State<'_, '_>, value: &Value| python::str_of(value, state));
    environment.add_filter("upper", |state: &State<'_, '_>, value: &Value| {
        Ok::<_, Error>(python::str_of(value, state)?.to_uppercase())
    });
    environment.add_filter("lower", |state: &State<'_, '_>, value: &Value| {
        Ok::<_, Error>(python::str_of(value, state)?.to_lowercase())
    });
    environment.add_filter("join", join);
    environment.add_filter("tojson", json::tojson);
    // no template needs it, and its output is unbounded for values that share parts
    environment.remove_filter("pprint");
    environment.add_function("raise_exception", raise_exception);
}

/// Adds `strftime_now`, which prints the caller's time.
pub(super) fn install_clock(environment: &mut Environment<'_>, now: Moment) {
    environment.add_function("strftime_now", move |format: &str| now.strftime(format));
}

fn print(output: &mut Output<'_>, state: &mut State<'_, '_>, value: &Value) -> Result<(), Error> {
    match value.as_str() {
        Some(text) => output.write_str(text),
        None => output.write_str(&python::str_of(value, state)?),
    }
    .map_err(Error::from)
}

/// `items|join(between, attribute)`.
fn join(
    state: &State<'_, '_>,
    items: &Value,
    between: Option<&Value>,
    attribute: Option<&Value>,
    arguments: Kwargs,
) -> Result<String, Error> {
    let between = match (between, arguments.get::<Option<Value>>("d")?) {
        (Some(between), _) => python::str_of(between, state)?,
        (None, Some(between)) => python::str_of(&between, state)?,
        (None, None) => String::new(),
    };
    let named = arguments.get::<Option<Value>>("attribute")?;
    let attribute = attribute.or(named.as_ref()).filter(|attribute| !attribute.is_none());
    arguments.assert_all_used()?;
    let mut out = String::new();
    for (index, item) in items.try_iter()?.enumerate() {
        let item = match attribute.map(|attribute| (attribute, attribute.as_str())) {
            Some((_, Some(path))) => path.split('.').try_fold(item, |item, name| item.get_attr(name))?,
            Some((index, None)) => item.get_item(index)?,
            None => item,
        };
        let text = python::str_of(&item, state)?;
        python::charge(state, between.len() + text.len())?;
        out.push_str(if index == 0 { "" } else { &between });
        out.push_str(&text);
    }
    Ok(out)
}

/// As in Jinja2: undefined can be iterated, none can't.
fn is_iterable(value: &Value) -> bool {
    !value.is_none() && value.try_iter().is_ok()
}

/// True for values with a length and an index, which include strings, mappings and undefined.
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

fn raise_exception(state: &State<'_, '_>, message: Value) -> Result<String, Error> {
    let message = python::str_of(&message, state)?;
    Err(Error::new(ErrorKind::InvalidOperation, message.clone()).with_source(Raised(message)))
}
