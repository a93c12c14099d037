//! The memory that a model may take on a device, with the rule that limits it.
//!
//! Facts come from the KFD banks, the render node's heap sizes, the TTM limit, `/proc/meminfo` and KFD's
//! AVAILABLE_MEMORY. Allocation itself (which is authoritative) is elsewhere.
//! Source: `amdgpu/amdgpu_amdkfd_gpuvm.c` (`amdgpu_amdkfd_gpuvm_init_mem_limits`, `amdgpu_amdkfd_reserve_mem_limit`),
//! `amdgpu/amdgpu_ttm.c:amdgpu_ttm_init`.

use super::dev_info::MemoryInfo;
use super::node::{GpuKind, Node};
use super::properties::{field, number};
use crate::sys::{Errno, Fd, Kernel};
use core::fmt;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// Left free where other programs (a desktop, the page cache) need memory: overcommitted VRAM does not fail,
/// it evicts, and eviction stops all our queues.
pub(super) const HEADROOM: u64 = 256 * MIB;

/// First minor version whose kernels serve an APU's memory with the newer limits (Linux 6.3 and later).
const NEWER_LIMITS: u32 = 12;

/// The memory of a pool and the kind of request that allocates it.
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryDomain {
    /// The card's own memory.
    Vram,
    /// An APU's carve-out, by VRAM requests.
    CarveOut,
    /// System memory, by VRAM requests that the kernel serves from GTT (APU).
    VramFromGtt,
    /// System memory, by GTT requests.
    Gtt,
}

/// A fact that limits a pool.
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// Size of the VRAM or carve-out, less KFD's page-table reserve.
    VramSize,
    /// KFD's AVAILABLE_MEMORY, less headroom.
    KfdAvailable,
    /// Size of the GTT heap.
    GttSize,
    /// `ttm.pages_limit`.
    TtmLimit,
    /// KFD's own share of system memory.
    SystemLimit,
    /// `MemAvailable` of `/proc/meminfo` (page cache counts as available), less headroom.
    MemAvailable,
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::VramSize => "VRAM size less page tables",
            Self::KfdAvailable => "free memory by KFD less 256 MiB",
            Self::GttSize => "GTT size",
            Self::TtmLimit => "ttm.pages_limit",
            Self::SystemLimit => "KFD's share of system memory",
            Self::MemAvailable => "MemAvailable less 256 MiB",
        })
    }
}

impl fmt::Display for MemoryDomain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Vram => "VRAM",
            Self::CarveOut => "BIOS carve-out",
            Self::VramFromGtt => "system memory (GTT, by VRAM requests)",
            Self::Gtt => "system memory (GTT)",
        })
    }
}

/// One rule with its figure.
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// The rule.
    pub rule: Rule,
    /// Bytes.
    pub bytes: u64,
}

/// One kind of memory that a device can use.
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryPool {
    /// The memory and the kind of request.
    pub domain: MemoryDomain,
    /// All rules that apply, with their figures.
    pub limits: heapless::Vec<Limit, 6>,
}

impl MemoryPool {
    /// The rule that decides and the bytes it leaves.
    pub fn decisive(&self) -> Limit {
        let least = self.limits.iter().min_by_key(|limit| limit.bytes);
        least.copied().unwrap_or(Limit { rule: Rule::VramSize, bytes: 0 })
    }

    /// Bytes that may be allocated.
    pub fn bytes(&self) -> u64 {
        self.decisive().bytes
    }
}

/// Memory that a device can use: the pool to use first, and the other one if there is one.
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Budget {
    /// The pool for weights and KV cache.
    pub first: MemoryPool,
    /// The other pool that the GPU can reach.
    pub second: Option<MemoryPool>,
}

impl fmt::Display for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Limit { rule, bytes } = self.first.decisive();
        write!(f, "{} MiB of {} ({rule})", bytes / MIB, self.first.domain)?;
        match &self.second {
            Some(pool) => write!(f, ", and {} MiB of {}", pool.bytes() / MIB, pool.domain),
            None => Ok(()),
        }
    }
}

/// Everything the budget is made of. Absent facts limit nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryFacts {
    /// Bytes of the KFD banks.
    pub bank: u64,
    /// VRAM or carve-out by the DRM side.
    pub vram: Option<u64>,
    /// GTT heap.
    pub gtt: Option<u64>,
    /// `ttm.pages_limit` in bytes.
    pub ttm_limit: Option<u64>,
    /// `MemTotal` in bytes.
    pub mem_total: Option<u64>,
    /// `MemAvailable` in bytes.
    pub mem_available: Option<u64>,
    /// KFD's AVAILABLE_MEMORY.
    pub kfd_available: Option<u64>,
    /// `amdgpu.no_system_mem_limit`.
    pub no_system_limit: bool,
}

impl MemoryFacts {
    /// Reads what sysfs, procfs and (if open) the render node report about `node`.
    pub fn read(kernel: &(impl Kernel + ?Sized), node: &Node, render: Option<&Fd>) -> Self {
        let mut buffer = [0; 4096];
        let meminfo = kernel.read("/proc/meminfo", &mut buffer).unwrap_or(0);
        let kib = |name| field(&buffer[..meminfo], name).map(|kib| kib.saturating_mul(KIB));
        let (mem_total, mem_available) = (kib("MemTotal:"), kib("MemAvailable:"));
        let heaps = render.and_then(|render| MemoryInfo::query(kernel, render).ok());
        let from_sysfs = |name: &str| {
            use fmt::Write;
            let mut path = heapless::String::<96>::new();
            let minor = node.render_minor()?;
            write!(path, "/sys/class/drm/renderD{minor}/device/mem_info_{name}").ok()?;
            read_number(kernel, &path).ok()
        };
        let pages = read_number(kernel, "/sys/module/ttm/parameters/pages_limit").ok();
        Self {
            bank: node.bank_bytes(),
            vram: heaps.map(|heaps| heaps.vram.total).or_else(|| from_sysfs("vram_total")),
            gtt: heaps.map(|heaps| heaps.gtt.total).or_else(|| from_sysfs("gtt_total")),
            ttm_limit: pages.map(|pages| pages.saturating_mul(4 * KIB)),
            mem_total,
            mem_available,
            kfd_available: None,
            no_system_limit: is_set(kernel, "/sys/module/amdgpu/parameters/no_system_mem_limit"),
        }
    }

    /// The budget of a device of this kind on a kernel whose KFD interface has this minor version.
    pub fn budget(&self, kind: GpuKind, minor: u32) -> Budget {
        match kind {
            GpuKind::Discrete => Budget {
                first: self.vram_pool(MemoryDomain::Vram),
                second: self.gtt_pool(MemoryDomain::Gtt, minor),
            },
            GpuKind::Apu => self.apu_budget(minor),
        }
    }

    /// On an APU the KFD bank is whatever VRAM requests are served from: where it is as large as the carve-out
    /// they come from there, otherwise from GTT (`amdgpu_amdkfd.c:amdgpu_amdkfd_get_local_mem_info`).
    fn apu_budget(&self, minor: u32) -> Budget {
        let carve_out = self.vram.unwrap_or(0);
        if self.bank != carve_out {
            let first = self.gtt_pool(MemoryDomain::VramFromGtt, minor);
            return Budget {
                first: first.unwrap_or_else(|| self.vram_pool(MemoryDomain::VramFromGtt)),
                second: None,
            };
        }
        let carved = self.vram_pool(MemoryDomain::CarveOut);
        match self.gtt_pool(MemoryDomain::Gtt, minor) {
            Some(gtt) if gtt.bytes() > carved.bytes() => Budget { first: gtt, second: Some(carved) },
            gtt => Budget { first: carved, second: gtt },
        }
    }

    fn vram_pool(&self, domain: MemoryDomain) -> MemoryPool {
        let size = if self.bank == 0 { self.vram.unwrap_or(0) } else { self.bank };
        // KFD keeps (free memory at module load + VRAM) / 16384 for page tables, and no less than 8 MiB.
        let tables = (self.mem_total.unwrap_or(0).saturating_add(size) / 16384).max(8 * MIB);
        let mut limits = heapless::Vec::new();
        add(&mut limits, Rule::VramSize, Some(size.saturating_sub(tables)));
        add(&mut limits, Rule::KfdAvailable, self.kfd_available.map(less_headroom));
        MemoryPool { domain, limits }
    }

    /// `None` when nothing is known about system memory.
    fn gtt_pool(&self, domain: MemoryDomain, minor: u32) -> Option<MemoryPool> {
        let newer = minor >= NEWER_LIMITS;
        let ttm = if newer {
            self.ttm_limit
        } else {
            self.mem_total.map(|total| total / 8 * 3).into_iter().chain(self.ttm_limit).min()
        };
        let system = self.mem_total.filter(|_| !self.no_system_limit).map(|total| {
            let reserve = if newer { total / 64 + 3 * GIB / 2 } else { total / 16 };
            total.saturating_sub(reserve)
        });
        let mut limits = heapless::Vec::new();
        add(&mut limits, Rule::GttSize, self.gtt);
        add(&mut limits, Rule::TtmLimit, ttm);
        add(&mut limits, Rule::SystemLimit, system);
        add(&mut limits, Rule::MemAvailable, self.mem_available.map(less_headroom));
        // For a card, KFD's figure is about its VRAM.
        let ours = self.kfd_available.filter(|_| domain == MemoryDomain::VramFromGtt);
        add(&mut limits, Rule::KfdAvailable, ours.map(less_headroom));
        (!limits.is_empty()).then_some(MemoryPool { domain, limits })
    }
}

fn less_headroom(bytes: u64) -> u64 {
    bytes.saturating_sub(HEADROOM)
}

/// There are fewer rules than room in the list.
fn add(limits: &mut heapless::Vec<Limit, 6>, rule: Rule, bytes: Option<u64>) {
    if let Some(bytes) = bytes {
        let _ = limits.push(Limit { rule, bytes });
    }
}

fn read_number(kernel: &(impl Kernel + ?Sized), path: &str) -> Result<u64, Errno> {
    let mut buffer = [0; 32];
    let count = kernel.read(path, &mut buffer)?;
    number(&buffer[..count]).ok_or(Errno::EINVAL)
}

fn is_set(kernel: &(impl Kernel + ?Sized), path: &str) -> bool {
    let mut buffer = [0; 8];
    kernel.read(path, &mut buffer).is_ok_and(|count| count > 0 && matches!(buffer[0], b'1' | b'Y' | b'y'))
}
