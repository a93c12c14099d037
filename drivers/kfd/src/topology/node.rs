//! One node of the topology: identity, shape, memory banks, caches, links. Reading the files is in `scan`.

use super::dev_info::DeviceInfo;
use super::isa::Isa;
use super::properties::{Properties, Property};
use alloc::vec::Vec;
use core::fmt;

/// A node's number in sysfs. Not stable across boots or hot-plug: identity is [`Identity`].
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeIndex(pub u32);

impl fmt::Display for NodeIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "node {}", self.0)
    }
}

/// The kind of a GPU, by its memory.
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GpuKind {
    /// A card with its own memory.
    Discrete,
    /// Part of a CPU; its memory is the system's.
    Apu,
}

impl GpuKind {
    /// The kind that the render node reports; without an answer, the usual kind of chips with this ISA.
    pub(crate) fn of(isa: Isa, info: Option<&DeviceInfo>) -> Self {
        let is_apu = info.map_or(isa.is_usually_apu(), |info| info.is_apu);
        if is_apu { Self::Apu } else { Self::Discrete }
    }
}

impl fmt::Display for GpuKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Discrete => "discrete",
            Self::Apu => "integrated",
        })
    }
}

/// Type of a memory bank (`HSA_MEM_HEAP_TYPE_*` in `amdkfd/kfd_crat.h`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heap {
    /// System memory.
    System,
    /// Device memory that the CPU reaches entirely.
    Public,
    /// Device memory of which the CPU reaches a part, which KFD does not let it map.
    Private,
    /// Anything else: LDS, scratch, GDS.
    Other(u32),
}

/// One memory bank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bank {
    /// Its type.
    pub heap: Heap,
    /// Bytes.
    pub bytes: u64,
    /// Bus width in bits.
    pub width: u32,
    /// MHz.
    pub clock: u32,
}

/// One kind of cache of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cache {
    /// 1, 2 or 3.
    pub level: u32,
    /// Kibibytes.
    pub kib: u32,
    /// Bytes of a line.
    pub line: u32,
    /// Bit 0 data, bit 1 instructions, bit 2 CPU, bit 3 SIMD.
    pub kind: u32,
}

/// Type of a link between two nodes (`HSA_IOLINKTYPE_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkKind {
    /// PCI Express.
    Pcie,
    /// AMD's GPU interconnect.
    Xgmi,
    /// Anything else, by number.
    Other(u32),
}

/// A link to another node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// The other end.
    pub to: NodeIndex,
    /// Its type.
    pub kind: LinkKind,
    /// Bit 0 enabled, bits 2 and 3 no 32- and 64-bit atomics, bit 4 no peer access.
    pub flags: u32,
    /// True for a GPU-GPU link over the host's bus (`p2p_links`).
    pub peer: bool,
}

/// A PCI address.
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PciAddress {
    /// Domain (segment).
    pub domain: u32,
    /// Bus, device and function as in configuration space: bus << 8 | device << 3 | function.
    pub location: u32,
}

impl fmt::Display for PciAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { domain, location } = *self;
        write!(f, "{domain:04x}:{:02x}:{:02x}.{}", location >> 8 & 0xff, location >> 3 & 31, location & 7)
    }
}

/// Identity of a device across boots and hot-plug.
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Identity {
    /// Its PCI address.
    pub pci: PciAddress,
    /// Serial of the die; 0 on many APUs.
    pub unique: u64,
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.unique {
            0 => write!(f, "{}", self.pci),
            unique => write!(f, "{}#{unique:016x}", self.pci),
        }
    }
}

/// One node of the topology.
#[derive(Clone, Debug)]
pub struct Node {
    /// Its number now.
    pub index: NodeIndex,
    /// The handle that every ioctl takes; 0 for a CPU.
    pub gpu_id: u32,
    /// The kernel's name for the chip ("ip discovery" on all recent ones).
    pub name: heapless::String<32>,
    /// The `properties` file.
    pub properties: Properties,
    /// Memory.
    pub banks: Vec<Bank>,
    /// Caches, one entry per distinct level, size and kind.
    pub caches: Vec<Cache>,
    /// Links to other nodes.
    pub links: Vec<Link>,
}

impl Node {
    /// True for a GPU that KFD can use.
    pub fn is_gpu(&self) -> bool {
        self.gpu_id != 0
    }

    /// The instruction set.
    pub fn isa(&self) -> Isa {
        Isa(self.properties.small(Property::GfxTargetVersion))
    }

    /// Compute dies (XCC); 1 where the kernel does not say.
    pub fn xcc_count(&self) -> u32 {
        self.properties.small(Property::NumXcc).max(1)
    }

    /// Active compute units over all XCCs: `simd_count / simd_per_cu`.
    pub fn compute_units(&self) -> u32 {
        let per_cu = self.properties.small(Property::SimdPerCu);
        self.properties.small(Property::SimdCount).checked_div(per_cu).unwrap_or(0)
    }

    /// Shader engines of one XCC.
    pub fn shader_engines(&self) -> u32 {
        let arrays = self.properties.small(Property::SimdArraysPerEngine);
        self.properties.small(Property::ArrayCount).checked_div(arrays).unwrap_or(0) / self.xcc_count()
    }

    /// LDS bytes that one workgroup may use.
    pub fn lds_bytes(&self) -> u32 {
        self.properties.small(Property::LdsSizeInKb).saturating_mul(1024)
    }

    /// Bits 12–13 of `capability`: 2 = 64-bit AQL doorbells, the only kind this driver rings.
    pub fn doorbell_type(&self) -> u32 {
        self.properties.small(Property::Capability) >> 12 & 3
    }

    /// N of `/dev/dri/renderD<N>`; `None` when the device has none.
    pub fn render_minor(&self) -> Option<u32> {
        let minor = self.properties.get(Property::DrmRenderMinor)?;
        u32::try_from(minor).ok().filter(|&minor| minor != 0)
    }

    /// Identity of the device across boots.
    pub fn identity(&self) -> Identity {
        Identity {
            pci: PciAddress {
                domain: self.properties.small(Property::Domain),
                location: self.properties.small(Property::LocationId),
            },
            unique: self.properties.get(Property::UniqueId).unwrap_or(0),
        }
    }

    /// Bytes of device memory as KFD counts it: VRAM, or on an APU what VRAM requests are served from.
    pub fn bank_bytes(&self) -> u64 {
        let device = self.banks.iter().filter(|bank| matches!(bank.heap, Heap::Public | Heap::Private));
        device.fold(0, |sum, bank| sum.saturating_add(bank.bytes))
    }

    /// True if the CPU may map VRAM: all banks are public (large BAR, or an APU).
    pub fn is_vram_mappable(&self) -> bool {
        !self.banks.iter().any(|bank| bank.heap == Heap::Private)
    }

    /// Bytes of the largest cache of a level, 0 when unknown.
    pub fn cache_bytes(&self, level: u32) -> u64 {
        let kib = self.caches.iter().filter(|cache| cache.level == level).map(|cache| cache.kib).max();
        u64::from(kib.unwrap_or(0)) * 1024
    }
}
