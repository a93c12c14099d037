//! How a model is put on a device.

use doorbell_core::backend::KvType;
use doorbell_core::plan::Shape;
use doorbell_kfd::packet::Encoding;
use doorbell_kfd::queue::QueueOptions;

use crate::placement::Placement;

/// How a model is put on a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// KV pages per group.
    pub pages: u32,
    /// Element type of keys and values.
    pub kv: KvType,
    /// The largest step.
    pub shape: Shape,
    /// Milliseconds without progress after which the device counts as hanging.
    pub hang_ms: u32,
    /// Which operations the device runs.
    pub placement: Placement,
    /// Time every dispatch. They are then submitted as [`Encoding::Aql`], whose packets each tell when they ran.
    pub profile: bool,
    /// How dispatches are submitted. [`check_kernels`](crate::GpuBackend::check_kernels) falls back to packets if
    /// lists do not work.
    pub submit: Encoding,
}

impl Settings {
    /// Everything on the device that it has kernels for, unchecked, and ten seconds of patience.
    pub fn new(pages: u32, kv: KvType, shape: Shape) -> Self {
        let (placement, submit) = (Placement::Device, Encoding::Pm4);
        Self { pages, kv, shape, hang_ms: 10_000, placement, profile: false, submit }
    }

    /// How its queue is made.
    pub(crate) fn queue(&self) -> QueueOptions {
        QueueOptions { packets: PACKETS, profile: self.profile, ..QueueOptions::default() }
    }
}

/// Packets of the ring.
pub(crate) const PACKETS: u32 = 4096;
