//! Typed access to metadata by key.

use super::{Array, Gguf, Kind, Label, Value};
use core::fmt;

/// A key that a caller needs and that is missing or unusable.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum KeyError {
    /// The file has no such key.
    Missing {
        /// The key.
        key: Label,
    },
    /// The value is of another type, or out of the range of the expected one.
    Unfit {
        /// The key.
        key: Label,
        /// The expected type.
        expected: &'static str,
        /// The type found.
        found: Kind,
    },
}

impl fmt::Display for KeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing { key } => write!(f, "key \"{key}\" is missing"),
            Self::Unfit { key, expected, found } => {
                write!(f, "key \"{key}\" should be {expected}, but is {found} or out of range")
            }
        }
    }
}

impl core::error::Error for KeyError {}

/// A Rust type that metadata values convert to.
pub trait FromValue<'a>: Sized {
    /// The accepted kinds of values, for error messages.
    const EXPECTED: &'static str;

    /// The value, if it fits.
    fn from_value(value: Value<'a>) -> Option<Self>;
}

macro_rules! from_value {
    ($($ty:ty, $expected:literal, $method:ident;)*) => {$(
        impl<'a> FromValue<'a> for $ty {
            const EXPECTED: &'static str = $expected;

            fn from_value(value: Value<'a>) -> Option<Self> {
                value.$method()
            }
        }
    )*};
}

from_value! {
    u64, "an integer in 0..2^64", as_u64;
    i64, "an integer", as_i64;
    u32, "an integer in 0..2^32", as_u32;
    f32, "a number with a fraction", as_f32;
    bool, "a truth value", as_bool;
    &'a [u8], "a string", as_bytes;
    &'a str, "a UTF-8 string", text;
    Array<'a>, "an array", as_array;
}

impl<'a> Gguf<'a> {
    /// The value of `key` as `T`; `None` if the file does not have the key.
    pub fn find<T: FromValue<'a>>(&self, key: &str) -> Result<Option<T>, KeyError> {
        let Some(value) = self.get(key) else { return Ok(None) };
        T::from_value(value).map(Some).ok_or_else(|| KeyError::Unfit {
            key: Label::new(key.as_bytes()),
            expected: T::EXPECTED,
            found: value.kind(),
        })
    }

    /// The value of `key` as `T`.
    pub fn require<T: FromValue<'a>>(&self, key: &str) -> Result<T, KeyError> {
        self.find(key)?.ok_or_else(|| KeyError::Missing { key: Label::new(key.as_bytes()) })
    }
}
