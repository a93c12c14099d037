//! Tests of the software GPU: instruction values, compiled programs, coverage, sanitizers.

mod coverage;
mod opencl;
mod program;
mod references;
mod sanitizers;
mod values;
