//! Settings of a backend: memory, placement, and the form of submission.

use doorbell_core::backend::KvType;
use doorbell_core::plan::{KvPages, Shape};
use doorbell_kfd::packet::Encoding;
use doorbell_kfd::queue::QueueOptions;

use crate::placement::Placement;

/// Settings of a backend: memory, placement, and the form of submission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// KV pages of each group.
    pub pages: KvPages,
    /// Element type of keys and values.
    pub kv: KvType,
    /// The largest step.
    pub shape: Shape,
    /// Recurrent states, for models that have them.
    pub states: u32,
    /// Milliseconds without progress after which the device counts as hanging.
    pub hang_ms: u32,
    /// The operations that the device runs.
    pub placement: Placement,
    /// Time every dispatch. They are then submitted as [`Encoding::Aql`], whose packets record their start and end.
    pub profile: bool,
    /// The form in which dispatches are submitted. [`GpuBackend::check_kernels`](crate::GpuBackend::check_kernels)
    /// falls back to AQL packets if PM4 lists do not work.
    pub submit: Encoding,
}

impl Settings {
    /// Everything on the device that it has kernels for, no recurrent states yet, and a hang after ten seconds without progress.
    pub fn new(pages: impl Into<KvPages>, kv: KvType, shape: Shape) -> Self {
        let pages = pages.into();
        let (placement, submit) = (Placement::Device, Encoding::Pm4);
        Self { pages, kv, shape, states: 0, hang_ms: 10_000, placement, profile: false, submit }
    }

    /// Options of its queue.
    pub(crate) fn queue(&self) -> QueueOptions {
        QueueOptions { packets: PACKETS, profile: self.profile, ..QueueOptions::default() }
    }
}

/// Packets of the ring.
pub(crate) const PACKETS: u32 = 4096;
