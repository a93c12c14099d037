//! The purpose of a buffer, and the allocation flags that follow from it, as one table.
//!
//! Source: `amdgpu/gmc_v11_0.c` and `gmc_v12_0.c` (`get_vm_pte`: which flags give which memory type),
//! `amdkfd/kfd_queue.c` (queue buffers), `amdgpu/amdgpu_amdkfd_gpuvm.c` (kinds). On gfx11 each of COHERENT,
//! EXT_COHERENT and UNCACHED makes memory uncached for the GPU; on gfx12 only UNCACHED does. So memory that GPU
//! kernels work in never carries them, above all not on an APU, where everything is GTT.

use crate::sys::alloc_flag as flag;
use crate::topology::GpuKind;

/// The purpose of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Usage {
    /// Weights, KV cache, activations: cached, fast.
    Data,
    /// The same in system memory by explicit GTT requests, for APUs whose VRAM requests are served from a
    /// small carve-out.
    DataGtt,
    /// Kernel code.
    Code,
    /// AQL or SDMA ring, PM4 indirect buffer.
    Ring,
    /// The page of read and write pointers.
    Pointers,
    /// Signals and completion counters.
    Signals,
    /// The event page.
    EventPage,
    /// Kernel arguments.
    Kernarg,
    /// End-of-pipe buffer of a compute queue.
    EndOfPipe,
    /// Context-save area of a compute queue.
    SaveArea,
    /// Scratch of kernels that spill.
    Scratch,
    /// Cached system memory that SDMA copies from or to.
    Staging,
    /// The page with the HDP flush registers.
    Mmio,
}

/// The facts about a device's memory that flags depend on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryTraits {
    /// Card or part of a CPU.
    pub kind: GpuKind,
    /// The CPU may map VRAM.
    pub is_vram_mappable: bool,
}

impl Usage {
    /// All of them.
    pub const ALL: [Self; 13] = [
        Self::Data,
        Self::DataGtt,
        Self::Code,
        Self::Ring,
        Self::Pointers,
        Self::Signals,
        Self::EventPage,
        Self::Kernarg,
        Self::EndOfPipe,
        Self::SaveArea,
        Self::Scratch,
        Self::Staging,
        Self::Mmio,
    ];

    /// Flags of ALLOC_MEMORY_OF_GPU.
    pub fn flags(self, traits: MemoryTraits) -> u32 {
        const W: u32 = flag::WRITABLE | flag::NO_SUBSTITUTE;
        const WX: u32 = W | flag::EXECUTABLE;
        const UNCACHED: u32 = flag::COHERENT | flag::UNCACHED;
        let public = if traits.is_vram_mappable { flag::PUBLIC } else { 0 };
        match self {
            Self::Data => flag::VRAM | W | public,
            Self::DataGtt | Self::Staging | Self::SaveArea => flag::GTT | W,
            Self::Code if traits.kind == GpuKind::Apu => flag::GTT | WX,
            Self::Code => flag::VRAM | WX | public,
            // The packet processor fetches packets with execute permission.
            Self::Ring | Self::Pointers | Self::EventPage => flag::GTT | WX | UNCACHED,
            Self::Signals | Self::Kernarg => flag::GTT | W | UNCACHED,
            Self::EndOfPipe | Self::Scratch => flag::VRAM | W,
            Self::Mmio => flag::MMIO_REMAP | W | flag::COHERENT,
        }
    }

    /// True if the CPU maps it.
    pub fn is_host_mapped(self, traits: MemoryTraits) -> bool {
        self.flags(traits) & (flag::GTT | flag::PUBLIC | flag::MMIO_REMAP) != 0
    }

    /// True if the kernel compares its size with an expected one, so that it may not be rounded up to a
    /// fragment (`kfd_queue.c:kfd_queue_buffer_get`).
    pub fn is_exact(self) -> bool {
        !matches!(self, Self::Data | Self::DataGtt | Self::Code | Self::Staging | Self::Scratch)
    }

    /// True if its addresses are never used again: stale lines of the instruction cache would survive.
    pub fn keeps_addresses(self) -> bool {
        self == Self::Code
    }

    /// True if every device of the process maps it.
    pub fn is_shared(self) -> bool {
        matches!(self, Self::EventPage | Self::Signals)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const APU: MemoryTraits = MemoryTraits { kind: GpuKind::Apu, is_vram_mappable: true };
    const CARD: MemoryTraits = MemoryTraits { kind: GpuKind::Discrete, is_vram_mappable: true };
    const SMALL_BAR: MemoryTraits = MemoryTraits { kind: GpuKind::Discrete, is_vram_mappable: false };

    #[test]
    fn flags_equal_those_real_clients_send() {
        assert_eq!(Usage::Mmio.flags(CARD), 0x9400_0010);
        assert_eq!(Usage::EventPage.flags(CARD), 0xD600_0002);
        assert_eq!(Usage::EndOfPipe.flags(CARD), 0x9000_0001);
        assert_eq!(Usage::Code.flags(CARD), 0xF000_0001);
        assert_eq!(Usage::Code.flags(SMALL_BAR), 0xD000_0001);
        assert_eq!(Usage::Code.flags(APU), 0xD000_0002);
        assert_eq!(Usage::Data.flags(APU), 0xB000_0001);
    }

    #[test]
    fn nothing_that_kernels_work_in_is_uncached() {
        let uncached = flag::COHERENT | flag::UNCACHED | flag::EXT_COHERENT;
        for traits in [APU, CARD, SMALL_BAR] {
            for usage in [Usage::Data, Usage::DataGtt, Usage::Code, Usage::Scratch, Usage::Staging] {
                assert_eq!(usage.flags(traits) & uncached, 0, "{usage:?} on {traits:?}");
            }
            for usage in Usage::ALL {
                let flags = usage.flags(traits);
                assert_eq!(flags & (flag::USERPTR | flag::AQL_QUEUE_MEM), 0);
                let kinds = flag::VRAM | flag::GTT | flag::MMIO_REMAP;
                assert_eq!((flags & kinds).count_ones(), 1, "{usage:?}");
                assert!(flags & flag::PUBLIC == 0 || traits.is_vram_mappable, "{usage:?}");
            }
        }
        assert!(!Usage::Data.is_host_mapped(SMALL_BAR));
        assert!(Usage::Data.is_host_mapped(CARD));
        assert!(Usage::SaveArea.is_host_mapped(SMALL_BAR), "the kernel reads its header through our mapping");
    }
}
