//! Tests of the software GPU: instruction values, compiled programs, coverage, sanitizers, the driver on it, errnos.

#![expect(clippy::unwrap_used, reason = "a test that cannot set itself up has failed")]
#![expect(clippy::std_instead_of_alloc, reason = "tests have std")]

mod behavior;
mod command;
mod counts;
mod coverage;
mod deleted;
mod driver;
mod errno;
mod findings;
mod hostile;
mod matrix;
mod modes;
mod opencl;
mod ordering;
mod program;
mod references;
mod rows;
mod sanitizers;
mod table;
mod threads;
mod traps;
mod twins;
mod values;
mod waits;
mod wild;
mod words;
