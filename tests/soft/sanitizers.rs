//! Programs that each sanitizer must catch.
