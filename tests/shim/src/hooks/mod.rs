//! The functions of libc and libdrm that this library takes the place of.
//!
//! C declares some of them with `...`; on the machines this is for, what a caller passes behind the named arguments
//! arrives as a further argument would.

mod devices;
mod drm;
mod next;
mod paths;
mod symbols;
