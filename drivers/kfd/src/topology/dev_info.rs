//! Queries of a render node about its device: AMDGPU_INFO with DEV_INFO, MEMORY and FW_VERSION.
//!
//! Source: `include/uapi/drm/amdgpu_drm.h` (`struct drm_amdgpu_info_device`, `drm_amdgpu_memory_info`), answered by
//! `amdgpu/amdgpu_kms.c:amdgpu_info_ioctl`. The kernel copies `min(return_size, its size)` bytes.

use crate::sys::{AmdgpuInfo, Errno, Fd, Kernel, amdgpu_query, call_pointed};

/// Bit 0 of `ids_flags`: part of a CPU.
pub const FUSION: u32 = 1;

/// Bytes of the answer to DEV_INFO that this crate reads.
const SIZE: usize = 440;

macro_rules! offsets {
    ($($name:ident = $offset:literal,)*) => {
        /// Byte offsets of the fields used, by the header's names.
        pub const OFFSETS: &[(&str, usize)] = &[$((stringify!($name), $offset),)*];
        #[expect(non_upper_case_globals, reason = "the header's own names")]
        #[expect(dead_code, reason = "the fields that only a conformance test compares")]
        mod offset {
            $(pub(super) const $name: usize = $offset;)*
        }
    };
}

offsets! {
    num_shader_engines = 20,
    num_shader_arrays_per_engine = 24,
    gpu_counter_freq = 28,
    max_engine_clock = 32,
    cu_active_number = 48,
    cu_bitmap = 56,
    ids_flags = 136,
    virtual_address_alignment = 160,
    pte_fragment_size = 164,
    vram_type = 176,
    vram_bit_width = 180,
    num_tcc_blocks = 252,
}

/// The part of DEV_INFO that decides something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceInfo {
    /// Part of a CPU.
    pub is_apu: bool,
    /// Timestamp ticks per second.
    pub counter_hz: u64,
    /// Highest shader clock in kHz.
    pub max_clock_khz: u64,
    /// Active compute units.
    pub active_compute_units: u32,
    /// Memory bus width in bits.
    pub memory_bits: u32,
}

/// Sizes of one memory heap, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeapInfo {
    /// All of it.
    pub total: u64,
    /// Less what the kernel keeps.
    pub usable: u64,
    /// In use now. Does not follow KFD's allocations reliably: a hint.
    pub used: u64,
}

/// The answer to MEMORY.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryInfo {
    /// VRAM, or an APU's carve-out.
    pub vram: HeapInfo,
    /// The part that the CPU reaches.
    pub visible: HeapInfo,
    /// System memory that the GPU may map.
    pub gtt: HeapInfo,
}

fn query(kernel: &(impl Kernel + ?Sized), render: &Fd, query: u32, answer: &mut [u8]) -> Result<(), Errno> {
    query_with(kernel, render, query, [0; 4], answer)
}

fn query_with(
    kernel: &(impl Kernel + ?Sized),
    render: &Fd,
    query: u32,
    rest: [u32; 4],
    answer: &mut [u8],
) -> Result<(), Errno> {
    let return_size = u32::try_from(answer.len()).map_err(|_| Errno::EINVAL)?;
    let mut arg = AmdgpuInfo { return_size, query, rest, ..AmdgpuInfo::default() };
    call_pointed(kernel, render, &mut arg, answer)
}

/// Version word of the scheduler (MES) firmware. Kernels before 6.5 do not know the question.
pub fn scheduler_firmware(kernel: &(impl Kernel + ?Sized), render: &Fd) -> Result<u32, Errno> {
    let mut answer = [0; 8];
    query_with(kernel, render, amdgpu_query::FW_VERSION, [amdgpu_query::FW_MES, 0, 0, 0], &mut answer)?;
    Ok(word32(&answer, 0))
}

fn word32(bytes: &[u8], offset: usize) -> u32 {
    bytes[offset..].first_chunk().map_or(0, |&chunk| u32::from_le_bytes(chunk))
}

fn word64(bytes: &[u8], offset: usize) -> u64 {
    bytes[offset..].first_chunk().map_or(0, |&chunk| u64::from_le_bytes(chunk))
}

impl DeviceInfo {
    /// Asks the render node.
    pub fn query(kernel: &(impl Kernel + ?Sized), render: &Fd) -> Result<Self, Errno> {
        let mut answer = [0; SIZE];
        query(kernel, render, amdgpu_query::DEV_INFO, &mut answer)?;
        let flags = word64(&answer, offset::ids_flags);
        Ok(Self {
            is_apu: flags & u64::from(FUSION) != 0,
            counter_hz: u64::from(word32(&answer, offset::gpu_counter_freq)) * 1000,
            max_clock_khz: word64(&answer, offset::max_engine_clock),
            active_compute_units: word32(&answer, offset::cu_active_number),
            memory_bits: word32(&answer, offset::vram_bit_width),
        })
    }
}

impl MemoryInfo {
    /// Asks the render node.
    pub fn query(kernel: &(impl Kernel + ?Sized), render: &Fd) -> Result<Self, Errno> {
        let mut answer = [0; 96];
        query(kernel, render, amdgpu_query::MEMORY, &mut answer)?;
        let heap = |at: usize| HeapInfo {
            total: word64(&answer, at),
            usable: word64(&answer, at + 8),
            used: word64(&answer, at + 16),
        };
        Ok(Self { vram: heap(0), visible: heap(32), gtt: heap(64) })
    }
}
