//! The choice of a device for a caller that names none, by kind and memory. Speed is not considered.

use super::isa::Isa;
use super::node::{GpuKind, Identity};
use core::fmt;

/// The GPU kernels that the caller has for an instruction set.
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KernelSupport {
    /// Kernels made for it.
    Own,
    /// Kernels made for this relative, which it runs.
    Relative(Isa),
    /// None.
    None,
}

/// A device that may be chosen.
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Its handle.
    pub gpu_id: u32,
    /// Its type.
    pub isa: Isa,
    /// The kernels that exist for it.
    pub kernels: KernelSupport,
    /// Card or part of a CPU.
    pub kind: GpuKind,
    /// Bytes of its first pool.
    pub bytes: u64,
    /// Its PCI address.
    pub identity: Identity,
}

/// Why a device was passed over.
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Skipped {
    /// There are no kernels for its instruction set.
    NoKernels(Isa),
    /// Another device is a card, this one is not.
    NotDiscrete,
    /// Another one has at least as much memory.
    LessMemory,
}

/// The device chosen, in words that say why.
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The device.
    pub device: Candidate,
    /// Devices that could have been used.
    pub usable: usize,
    /// Devices seen.
    pub seen: usize,
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Candidate { isa, kernels, kind, bytes, identity, .. } = self.device;
        write!(f, "{isa} at {identity}: {kind}, {} MiB", bytes >> 20)?;
        match self.seen {
            1 => f.write_str(", the only GPU")?,
            seen => write!(f, ", most memory of {} usable of {seen} GPUs", self.usable)?,
        }
        match kernels {
            KernelSupport::Relative(other) => write!(f, "; runs kernels made for {other}"),
            _ => Ok(()),
        }
    }
}

/// Higher is better: cards before integrated, then memory, then the lower PCI address.
fn rank(candidate: &Candidate) -> impl Ord + use<> {
    (candidate.kind == GpuKind::Discrete, candidate.bytes, core::cmp::Reverse(candidate.identity))
}

/// The discrete device with most memory among those that have kernels; an integrated one when there is no other.
pub fn choose(candidates: &[Candidate]) -> Option<Choice> {
    let usable = || candidates.iter().filter(|candidate| candidate.kernels != KernelSupport::None);
    let device = usable().max_by_key(|candidate| rank(candidate))?;
    Some(Choice { device: *device, usable: usable().count(), seen: candidates.len() })
}

impl Choice {
    /// Why `other` is not the device chosen; `None` for the chosen one.
    pub fn skipped(&self, other: &Candidate) -> Option<Skipped> {
        if other.kernels == KernelSupport::None {
            Some(Skipped::NoKernels(other.isa))
        } else if other == &self.device {
            None
        } else if other.kind != self.device.kind {
            Some(Skipped::NotDiscrete)
        } else {
            Some(Skipped::LessMemory)
        }
    }
}
