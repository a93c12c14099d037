//! Short names of buffers, for ledgers and fault reports. Not an identifier of anything.

use core::fmt::{self, Write};

/// A name of at most 63 bytes; longer ones are cut at a character.
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[derive(Clone, PartialEq, Eq)]
pub struct Name(heapless::String<63>);

impl Name {
    /// Bytes that fit.
    pub const CAPACITY: usize = 63;

    /// Takes a text.
    pub fn new(text: &str) -> Self {
        Self::format(format_args!("{text}"))
    }

    /// Formats one, e.g. `kv_cache[12]`.
    pub fn format(args: fmt::Arguments<'_>) -> Self {
        struct Cut(heapless::String<63>);
        impl Write for Cut {
            fn write_str(&mut self, text: &str) -> fmt::Result {
                for character in text.chars() {
                    self.0.push(character).map_err(|_| fmt::Error)?;
                }
                Ok(())
            }
        }
        let mut cut = Cut(heapless::String::new());
        let _ = cut.write_fmt(args);
        Self(cut.0)
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.as_str())
    }
}
