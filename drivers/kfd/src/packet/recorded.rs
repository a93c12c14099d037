//! One dispatch of a list, and why a list cannot be encoded.

use super::aql::Dispatch;
use crate::code::Kernel;
use core::fmt;

/// The work that a dispatch waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dependency {
    /// Nothing: it may run beside its predecessors, back to the last one that waited.
    None,
    /// Everything before it.
    Previous,
}

/// Invalidation of the caches above L2 before a dispatch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acquire {
    /// Always right.
    Agent,
    /// Left out: the caller has proved that nothing it reads was read before in this submission and rewritten
    /// since, or the kernel invalidates by itself.
    Proven,
}

/// One dispatch of the list.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Recorded {
    /// The kernel.
    pub kernel: Kernel,
    /// Its shape and arguments.
    pub dispatch: Dispatch,
    /// The work that it waits for.
    pub dependency: Dependency,
    /// Cache invalidation before it.
    pub acquire: Acquire,
}

/// Why a list was not encoded.
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EncodeError {
    /// The list has no dispatch.
    Empty,
    /// Room for this many elements is needed and not there.
    Full {
        /// Elements needed, at least.
        needed: usize,
        /// Elements there.
        available: usize,
    },
    /// A dispatch has a dimension of 0, or more work-items in a group than a kernel may have (1024).
    Shape(Dispatch),
}

impl fmt::Display for EncodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("there is nothing to run"),
            Self::Full { needed, available } => write!(f, "{needed} elements needed, {available} there"),
            Self::Shape(dispatch) => {
                write!(f, "grid {:?} by workgroup {:?} cannot be", dispatch.grid, dispatch.workgroup)
            }
        }
    }
}

impl core::error::Error for EncodeError {}
