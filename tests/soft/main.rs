//! Tests of the software GPU: instruction values, compiled programs, coverage, sanitizers, the driver on it, errnos.

mod command;
mod coverage;
mod driver;
mod errno;
mod opencl;
mod program;
mod references;
mod sanitizers;
mod values;
