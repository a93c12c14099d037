//! Values as Python prints them: `str` and `repr`.

use core::fmt::Write as _;
use minijinja::value::{Value, ValueKind};
use minijinja::{Error, ErrorKind, State};

/// Limit of nested values that are printed; real conversations stay far below.
pub(super) const DEPTH_MAX: usize = 200;

/// The error for a value that is nested too deeply.
pub(super) fn too_deep() -> Error {
    Error::new(ErrorKind::InvalidOperation, "value is nested too deeply")
}

/// Consumes the fuel for printing `bytes` bytes: one unit for each eight, plus one. Values can share parts, so their
/// printed size is not bounded by the work of building them.
pub(super) fn charge(state: &State<'_, '_>, bytes: usize) -> Result<(), Error> {
    state.consume_fuel(u64::try_from(bytes).unwrap_or(u64::MAX) / 8 + 1)
}

/// `str(value)`; undefined is empty, as Jinja2 prints it.
pub(super) fn str_of(value: &Value, state: &State<'_, '_>) -> Result<String, Error> {
    match (value.as_str(), value.kind()) {
        (Some(text), _) => Ok(text.to_owned()),
        (None, ValueKind::Undefined) => Ok(String::new()),
        _ => {
            let mut out = String::new();
            repr(value, 0, &mut out, state)?;
            Ok(out)
        }
    }
}

fn repr(value: &Value, depth: usize, out: &mut String, state: &State<'_, '_>) -> Result<(), Error> {
    if depth > DEPTH_MAX {
        return Err(too_deep());
    }
    charge(state, value.as_str().map_or(0, str::len))?;
    match value.kind() {
        ValueKind::Undefined => out.push_str("Undefined"),
        ValueKind::None => out.push_str("None"),
        ValueKind::Bool => out.push_str(if value.is_true() { "True" } else { "False" }),
        ValueKind::Number => number(value, out),
        ValueKind::String => string_repr(value.as_str().unwrap_or_default(), out),
        ValueKind::Seq | ValueKind::Iterable => {
            let tuple = value.is_tuple();
            out.push(if tuple { '(' } else { '[' });
            for (index, item) in value.try_iter()?.enumerate() {
                out.push_str(if index == 0 { "" } else { ", " });
                repr(&item, depth + 1, out, state)?;
            }
            if tuple && value.len() == Some(1) {
                out.push(',');
            }
            out.push(if tuple { ')' } else { ']' });
        }
        ValueKind::Map => {
            out.push('{');
            for (index, key) in value.try_iter()?.enumerate() {
                out.push_str(if index == 0 { "" } else { ", " });
                repr(&key, depth + 1, out, state)?;
                out.push_str(": ");
                repr(&value.get_item(&key)?, depth + 1, out, state)?;
            }
            out.push('}');
        }
        // writing to a String can't fail
        _ => {
            let _ = write!(out, "{value}");
        }
    }
    Ok(())
}

/// A number; floats as Python prints them: shortest digits, scientific from 1e16 on and below 1e-4.
pub(super) fn number(value: &Value, out: &mut String) {
    let float = if value.is_integer() { None } else { f64::try_from(value.clone()).ok() };
    let Some(float) = float.filter(|float| float.is_finite()) else {
        let _ = match float {
            Some(float) if float.is_nan() => write!(out, "nan"),
            Some(float) => write!(out, "{}inf", if float < 0.0 { "-" } else { "" }),
            None => write!(out, "{value}"),
        };
        return;
    };
    let scientific = format!("{float:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let _ = if (-4..16).contains(&exponent) {
        write!(out, "{float:?}")
    } else {
        let sign = if exponent < 0 { '-' } else { '+' };
        write!(out, "{digits}e{sign}{:02}", exponent.unsigned_abs())
    };
}

/// `repr` of a string: double quotes if it has single ones only, otherwise single quotes; escapes for characters that
/// are not printable.
fn string_repr(text: &str, out: &mut String) {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    out.push(quote);
    for c in text.chars() {
        let code = u32::from(c);
        let _ = match c {
            '\\' => write!(out, "\\\\"),
            '\n' => write!(out, "\\n"),
            '\r' => write!(out, "\\r"),
            '\t' => write!(out, "\\t"),
            _ if c == quote => write!(out, "\\{c}"),
            _ if printable(c) => write!(out, "{c}"),
            _ if code < 0x100 => write!(out, "\\x{code:02x}"),
            _ if code < 0x1_0000 => write!(out, "\\u{code:04x}"),
            _ => write!(out, "\\U{code:08x}"),
        };
    }
    out.push(quote);
}

/// True if Python prints the character unescaped: no control character, unassigned code point, or separator but space.
fn printable(c: char) -> bool {
    if c.is_ascii() {
        return !c.is_ascii_control();
    }
    // escape_debug uses the same categories; the letter before it prevents escapes of combining marks
    let mut pair = String::from("a");
    pair.push(c);
    !pair.escape_debug().any(|escaped| escaped == '\\')
}
