//! One kernel to run: its spec, grid, arguments, and ideal cost.

use crate::kernel_spec::KernelSpec;
use alloc::vec::Vec;
use doorbell_compiler::object::ArgumentValue;

/// Bytes and multiply-adds that a launch needs at least, to compare with measured ones. The rows of attention count as
/// the last ones of the longest sequence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Bytes that have to be read at least once.
    pub read: u64,
    /// Bytes that have to be written.
    pub written: u64,
    /// Multiply-adds.
    pub products: u64,
}

/// One dispatch.
#[derive(Clone, Debug, PartialEq)]
pub struct Launch {
    /// The kernel.
    pub spec: KernelSpec,
    /// Workgroups along X, Y, Z.
    pub groups: [u32; 3],
    /// In the order of the function's arguments.
    pub arguments: Vec<ArgumentValue>,
    /// True if it has to wait for the launch before it.
    pub waits: bool,
    /// Ideal cost.
    pub cost: Cost,
}
