//! The functions of libc and libdrm that this library replaces.
//!
//! C declares some of them with `...`; on the supported machines a variadic argument arrives like a named one.

mod devices;
mod drm;
mod next;
mod paths;
mod symbols;
