//! Checked file names from clients.

use super::error::PrefixError;
use core::fmt;

/// A plain file name: it can't leave its folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileName(String);

/// Longest name in bytes; with the suffix of an unfinished file it is still below every file system's limit.
const LONGEST: usize = 128;

impl FileName {
    /// Checks a name: letters, digits, dots, dashes and underscores, not beginning with a dot.
    ///
    /// # Errors
    /// [`PrefixError::Name`]
    pub fn new(name: &str) -> Result<Self, PrefixError> {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        let good = (1..=LONGEST).contains(&name.len()) && !name.starts_with('.') && name.bytes().all(plain);
        if good { Ok(Self(name.to_owned())) } else { Err(PrefixError::Name) }
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The name while the file is written; clients can't request it.
    pub(super) fn unfinished(&self) -> String {
        format!(".{}.part", self.0)
    }
}

impl fmt::Display for FileName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_names_are_taken() {
        for name in ["a", "slot1.bin", "A_b-c.9", &"x".repeat(128)] {
            assert_eq!(FileName::new(name).unwrap().as_str(), name);
        }
        let bad = [
            "",
            ".",
            "..",
            ".a",
            "a/b",
            "/etc/passwd",
            "..\\a",
            "a b",
            "a\0",
            "a\n",
            "ä",
            "C:a",
            "~",
            "a%2f",
        ];
        for name in bad.into_iter().chain([&*"x".repeat(129)]) {
            assert!(matches!(FileName::new(name), Err(PrefixError::Name)), "{name:?}");
        }
    }
}
