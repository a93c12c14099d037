//! The two ways in which a list of dispatches reaches the packet processor, by name.

use core::fmt;
use core::str::FromStr;

/// The form in which a list of dispatches is submitted.
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Encoding {
    /// An AQL packet for each.
    Aql,
    /// PM4 words that stay in memory, run by one AQL packet: what has not changed is not said again, which makes
    /// dependent dispatches several times cheaper (ROCm/legacy-rocm-build#6409).
    Pm4,
}

impl Encoding {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Aql, Self::Pm4];

    /// The name in settings.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Aql => "aql",
            Self::Pm4 => "pm4",
        }
    }
}

impl fmt::Display for Encoding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Encoding {
    type Err = UnknownEncoding;

    fn from_str(name: &str) -> Result<Self, UnknownEncoding> {
        Self::ALL.into_iter().find(|encoding| encoding.name() == name).ok_or(UnknownEncoding)
    }
}

/// A name that is none of [`Encoding::name`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownEncoding;

impl fmt::Display for UnknownEncoding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("dispatches can be submitted as aql or pm4")
    }
}

impl core::error::Error for UnknownEncoding {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back() {
        for encoding in Encoding::ALL {
            assert_eq!(encoding.name().parse(), Ok(encoding));
        }
        assert_eq!("PM4".parse::<Encoding>(), Err(UnknownEncoding));
    }
}
