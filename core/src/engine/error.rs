//! Errors of an engine. Those of a request are in `request`.

use crate::heap::OutOfMemory;
use crate::plan::PlanError;
use crate::scheduler::Config;
use core::fmt;

/// An engine that could not be made, or a step that failed.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum EngineError<E> {
    /// A limit of zero, or more than the arithmetic holds.
    Config(Config),
    /// The heap refused.
    Memory(OutOfMemory),
    /// A plan could not be made.
    Plan(PlanError),
    /// The device failed. All requests in flight are lost.
    Backend(E),
}

impl<E> From<OutOfMemory> for EngineError<E> {
    fn from(error: OutOfMemory) -> Self {
        Self::Memory(error)
    }
}

impl<E> From<PlanError> for EngineError<E> {
    fn from(error: PlanError) -> Self {
        Self::Plan(error)
    }
}

impl<E: fmt::Display> fmt::Display for EngineError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Config(config) => write!(f, "limits must be positive and within u32: {config:?}"),
            Self::Memory(error) => error.fmt(f),
            Self::Plan(error) => error.fmt(f),
            Self::Backend(error) => error.fmt(f),
        }
    }
}

impl<E: core::error::Error> core::error::Error for EngineError<E> {}
