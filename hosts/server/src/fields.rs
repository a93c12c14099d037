//! Reading the fields of a JSON object. A failure names the field that is wrong; unknown fields are ignored.

use crate::error::{Failure, FailureKind};
use serde_json::{Map, Value};

/// Bytes of a model's name: every event of a stream repeats it.
const MAX_MODEL_NAME: usize = 256;

/// The fields of one object; `null` counts as absent.
#[derive(Clone, Copy)]
pub(crate) struct Fields<'j> {
    object: &'j Map<String, Value>,
    /// Name of the object in messages; empty for the request itself.
    path: &'j str,
}

impl<'j> Fields<'j> {
    /// The fields of a request.
    pub(crate) fn of_request(value: &'j Value) -> Result<Self, Failure> {
        Self::of(value, "")
    }

    /// The fields of a nested object.
    pub(crate) fn of(value: &'j Value, path: &'j str) -> Result<Self, Failure> {
        match value.as_object() {
            Some(object) => Ok(Self { object, path }),
            None if path.is_empty() => {
                Err(Failure::new(FailureKind::Invalid, "the body must be a JSON object"))
            }
            None => Err(Failure::field(path, "must be an object")),
        }
    }

    /// Name of a field in messages.
    pub(crate) fn name(&self, field: &str) -> String {
        if self.path.is_empty() { field.to_owned() } else { format!("{}.{field}", self.path) }
    }

    /// The failure of a field with a wrong value.
    pub(crate) fn wrong(&self, field: &str, message: impl core::fmt::Display) -> Failure {
        Failure::field(self.name(field), message)
    }

    /// The value of a field.
    pub(crate) fn get(&self, field: &str) -> Option<&'j Value> {
        self.object.get(field).filter(|value| !value.is_null())
    }

    fn read<T>(
        &self,
        field: &str,
        expected: &str,
        read: impl FnOnce(&'j Value) -> Option<T>,
    ) -> Result<Option<T>, Failure> {
        let Some(value) = self.get(field) else { return Ok(None) };
        read(value).map(Some).ok_or_else(|| self.wrong(field, format_args!("must be {expected}")))
    }

    pub(crate) fn text(&self, field: &str) -> Result<Option<&'j str>, Failure> {
        self.read(field, "a string", Value::as_str)
    }

    /// The field `model`, which answers repeat; the server's own name if there is none.
    pub(crate) fn model(&self, own: &'j str) -> Result<&'j str, Failure> {
        let name = self.text("model")?.filter(|name| !name.is_empty()).unwrap_or(own);
        if name.len() > MAX_MODEL_NAME {
            return Err(self.wrong("model", format_args!("must have at most {MAX_MODEL_NAME} bytes")));
        }
        Ok(name)
    }

    pub(crate) fn flag(&self, field: &str) -> Result<Option<bool>, Failure> {
        self.read(field, "true or false", Value::as_bool)
    }

    pub(crate) fn object(&self, field: &str) -> Result<Option<&'j Map<String, Value>>, Failure> {
        self.read(field, "an object", Value::as_object)
    }

    pub(crate) fn list(&self, field: &str) -> Result<Option<&'j [Value]>, Failure> {
        self.read(field, "a list", |value| value.as_array().map(Vec::as_slice))
    }

    /// A number within the range of f32.
    pub(crate) fn number(&self, field: &str) -> Result<Option<f32>, Failure> {
        self.read(field, "a number", |value| {
            let number = value.as_f64()?;
            (number.abs() <= f64::from(f32::MAX)).then_some(number as f32)
        })
    }

    /// A whole number of at least 0, also if written with a decimal point. Larger ones become `u32::MAX`.
    pub(crate) fn count(&self, field: &str) -> Result<Option<u32>, Failure> {
        self.read(field, "a whole number of at least 0", count)
    }

    /// As [`Fields::count`]; -1 means all, or no limit, and becomes `u32::MAX`.
    pub(crate) fn count_or_all(&self, field: &str) -> Result<Option<u32>, Failure> {
        self.read(field, "a whole number of at least -1", |value| {
            if value.as_i64() == Some(-1) { Some(u32::MAX) } else { count(value) }
        })
    }

    /// Any integer, also if written with a decimal point.
    pub(crate) fn integer(&self, field: &str) -> Result<Option<i64>, Failure> {
        self.read(field, "a whole number", |value| {
            let whole = || value.as_f64().filter(|number| number.fract() == 0.0).map(|number| number as i64);
            value.as_i64().or_else(|| value.as_u64().map(u64::cast_signed)).or_else(whole)
        })
    }

    /// One text or a list of texts.
    pub(crate) fn texts(&self, field: &str) -> Result<Vec<String>, Failure> {
        let texts = self.read(field, "a string or a list of strings", |value| match value {
            Value::String(text) => Some(vec![text.clone()]),
            Value::Array(texts) => {
                texts.iter().map(|text| text.as_str().map(ToOwned::to_owned)).collect::<Option<Vec<_>>>()
            }
            _ => None,
        })?;
        Ok(texts.unwrap_or_default())
    }
}

/// The whole number of a JSON value, at most `u32::MAX`.
pub(crate) fn count(value: &Value) -> Option<u32> {
    if let Some(number) = value.as_u64() {
        return Some(u32::try_from(number).unwrap_or(u32::MAX));
    }
    let number = value.as_f64()?;
    (number >= 0.0 && number.fract() == 0.0).then_some(number as u32)
}
