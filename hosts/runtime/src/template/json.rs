//! The `tojson` filter: JSON as Python's `json.dumps` writes it, with the arguments that `transformers` passes.

use super::python::{self, DEPTH_MAX, charge, too_deep};
use core::fmt::Write as _;
use minijinja::value::{Kwargs, Value, ValueKind};
use minijinja::{Error, ErrorKind, State};

/// Layout of the output, from the filter's arguments.
struct JsonLayout<'s, 't, 'e> {
    state: &'s State<'t, 'e>,
    ascii: bool,
    indent: Option<String>,
    item_separator: String,
    key_separator: String,
    sort_keys: bool,
}

/// `value|tojson(ensure_ascii, indent, separators, sort_keys)`.
pub(super) fn tojson(
    state: &State<'_, '_>,
    value: &Value,
    ascii: Option<Value>,
    arguments: Kwargs,
) -> Result<String, Error> {
    let positional = ascii.is_some_and(|ascii| ascii.is_true());
    let ascii = arguments.get::<Option<Value>>("ensure_ascii")?.map_or(positional, |ascii| ascii.is_true());
    let indent = match arguments.get::<Option<Value>>("indent")? {
        Some(text) if text.as_str().is_some() => text.as_str().map(str::to_owned),
        Some(count) if !count.is_none() => Some(" ".repeat(count.as_usize().unwrap_or(0).min(64))),
        _ => None,
    };
    let separators = arguments.get::<Option<Value>>("separators")?.filter(|value| !value.is_none());
    let (item_separator, key_separator) = match separators {
        Some(pair) => (part(&pair, 0, state)?, part(&pair, 1, state)?),
        None => (String::from(if indent.is_some() { "," } else { ", " }), String::from(": ")),
    };
    let sort_keys = arguments.get::<Option<Value>>("sort_keys")?.is_some_and(|sort| sort.is_true());
    arguments.assert_all_used()?;
    let style = JsonLayout { state, ascii, indent, item_separator, key_separator, sort_keys };
    let mut out = String::new();
    style.write(value, 0, &mut out)?;
    Ok(out)
}

fn part(pair: &Value, index: usize, state: &State<'_, '_>) -> Result<String, Error> {
    python::str_of(&pair.get_item_by_index(index)?, state)
}

impl JsonLayout<'_, '_, '_> {
    fn write(&self, value: &Value, depth: usize, out: &mut String) -> Result<(), Error> {
        if depth > DEPTH_MAX {
            return Err(too_deep());
        }
        let layout = self.indent.as_ref().map_or(0, |indent| indent.len() * (depth + 2));
        let separators = self.item_separator.len() + self.key_separator.len();
        charge(self.state, value.as_str().map_or(0, str::len) + layout + separators)?;
        match value.kind() {
            ValueKind::None => out.push_str("null"),
            ValueKind::Bool => out.push_str(if value.is_true() { "true" } else { "false" }),
            ValueKind::Number => number(value, out),
            ValueKind::String => self.string(value.as_str().unwrap_or_default(), out),
            ValueKind::Seq | ValueKind::Iterable => {
                let items = value.try_iter()?;
                self.container(['[', ']'], depth, items, out, |item, out| self.write(&item, depth + 1, out))?;
            }
            ValueKind::Map => {
                let mut keys: Vec<_> = value.try_iter()?.collect();
                if self.sort_keys {
                    keys.sort();
                }
                self.container(['{', '}'], depth, keys.into_iter(), out, |key, out| {
                    self.key(&key, out)?;
                    out.push_str(&self.key_separator);
                    self.write(&value.get_item(&key)?, depth + 1, out)
                })?;
            }
            kind => {
                let reason = format!("a value of type {kind} is not JSON serializable");
                return Err(Error::new(ErrorKind::BadSerialization, reason));
            }
        }
        Ok(())
    }

    fn container(
        &self,
        [open, close]: [char; 2],
        depth: usize,
        items: impl Iterator<Item = Value>,
        out: &mut String,
        mut write: impl FnMut(Value, &mut String) -> Result<(), Error>,
    ) -> Result<(), Error> {
        out.push(open);
        let mut empty = true;
        for item in items {
            if !empty {
                out.push_str(&self.item_separator);
            }
            empty = false;
            self.line(depth + 1, out);
            write(item, out)?;
        }
        if !empty {
            self.line(depth, out);
        }
        out.push(close);
        Ok(())
    }

    /// A line break with the indentation of `depth`, if there is an indentation.
    fn line(&self, depth: usize, out: &mut String) {
        if let Some(indent) = &self.indent {
            out.push('\n');
            for _ in 0..depth {
                out.push_str(indent);
            }
        }
    }

    fn key(&self, key: &Value, out: &mut String) -> Result<(), Error> {
        match key.kind() {
            ValueKind::String => self.string(key.as_str().unwrap_or_default(), out),
            ValueKind::None | ValueKind::Bool | ValueKind::Number => {
                out.push('"');
                self.write(key, 0, out)?;
                out.push('"');
            }
            kind => {
                let reason = format!("a key of type {kind} is not JSON serializable");
                return Err(Error::new(ErrorKind::BadSerialization, reason));
            }
        }
        Ok(())
    }

    fn string(&self, text: &str, out: &mut String) {
        out.push('"');
        for c in text.chars() {
            // writing to a String can't fail
            let _ = match c {
                '"' => write!(out, "\\\""),
                '\\' => write!(out, "\\\\"),
                '\n' => write!(out, "\\n"),
                '\r' => write!(out, "\\r"),
                '\t' => write!(out, "\\t"),
                '\u{8}' => write!(out, "\\b"),
                '\u{c}' => write!(out, "\\f"),
                '\0'..'\u{20}' => write!(out, "\\u{:04x}", u32::from(c)),
                '\u{7f}'.. if self.ascii => {
                    c.encode_utf16(&mut [0; 2]).iter().try_for_each(|unit| write!(out, "\\u{unit:04x}"))
                }
                _ => write!(out, "{c}"),
            };
        }
        out.push('"');
    }
}

fn number(value: &Value, out: &mut String) {
    match f64::try_from(value.clone()) {
        Ok(float) if !value.is_integer() && !float.is_finite() => {
            out.push_str(if float.is_nan() {
                "NaN"
            } else {
                ["Infinity", "-Infinity"][usize::from(float < 0.0)]
            });
        }
        _ => python::number(value, out),
    }
}
