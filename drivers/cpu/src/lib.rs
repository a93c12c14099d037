//! Placeholder until its room is filled.
