//! The structs that cross the system-call line, byte for byte, and the constants inside them.
//!
//! Source: `include/uapi/linux/kfd_ioctl.h` and `include/uapi/drm/amdgpu_drm.h`, Linux 7.2; the layouts of 6.1
//! and 6.12 are prefixes of these. Field names are the header's. Size and every offset are asserted here at
//! compile time and compared with the installed header by a C probe in the tests.

use bytemuck::{Pod, Zeroable};

/// Declares ABI structs and asserts their layout.
macro_rules! abi {
    ($($(#[$meta:meta])* $name:ident[$size:literal] as $c:literal {
        $($(#[$field_meta:meta])* $field:ident @ $offset:literal : $ty:ty,)*
    })*) => {
        $(
            $(#[$meta])*
            #[repr(C)]
            #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
            pub struct $name {
                $($(#[$field_meta])* pub $field: $ty,)*
            }
            const _: () = {
                assert!(size_of::<$name>() == $size);
                $(assert!(core::mem::offset_of!($name, $field) == $offset);)*
            };
        )*
        /// The layout of every struct here: the C tag, its size, and (field, offset) pairs; for conformance
        /// tests against a header.
        pub const LAYOUTS: &[(&str, usize, &[(&str, usize)])] =
            &[$(($c, $size, &[$((stringify!($field), $offset),)*]),)*];
    };
}

abi! {
    /// GET_VERSION: the interface's version.
    GetVersion[8] as "kfd_ioctl_get_version_args" {
        /// Must be 1.
        major_version @ 0: u32,
        /// The number by which features are detected.
        minor_version @ 4: u32,
    }
    /// CREATE_QUEUE, in the 96-byte form of Linux 6.8 and later (older kernels ignore the tail).
    CreateQueue[96] as "kfd_ioctl_create_queue_args" {
        /// In: VA of the ring.
        ring_base_address @ 0: u64,
        /// In: VA of the 64-bit write pointer.
        write_pointer_address @ 8: u64,
        /// In: VA of the 64-bit read pointer.
        read_pointer_address @ 16: u64,
        /// Out: mmap offset on `/dev/kfd` plus the byte offset inside the page.
        doorbell_offset @ 24: u64,
        /// In: bytes of the ring, a power of two.
        ring_size @ 32: u32,
        /// In: the device.
        gpu_id @ 36: u32,
        /// In: one of `queue_type`.
        queue_type @ 40: u32,
        /// In: low byte 0..=100; 0 creates the queue inactive.
        queue_percentage @ 44: u32,
        /// In: 0..=15.
        queue_priority @ 48: u32,
        /// Out: the id for UPDATE and DESTROY.
        queue_id @ 52: u32,
        /// In: VA of the end-of-pipe buffer.
        eop_buffer_address @ 56: u64,
        /// In: its bytes.
        eop_buffer_size @ 64: u64,
        /// In: VA of the context-save area.
        ctx_save_restore_address @ 72: u64,
        /// In: bytes of control stack and wave state of one XCC.
        ctx_save_restore_size @ 80: u32,
        /// In: bytes of the control stack of one XCC; must equal the kernel's figure.
        ctl_stack_size @ 84: u32,
        /// In: only for SDMA_BY_ENG_ID.
        sdma_engine_id @ 88: u32,
        /// In: 0; padding before minor 22.
        metadata_ring_size @ 92: u32,
    }
    /// DESTROY_QUEUE.
    DestroyQueue[8] as "kfd_ioctl_destroy_queue_args" {
        /// The queue.
        queue_id @ 0: u32,
        /// 0.
        pad @ 4: u32,
    }
    /// UPDATE_QUEUE: a ring of 0 or a percentage of 0 takes the queue off the hardware.
    UpdateQueue[24] as "kfd_ioctl_update_queue_args" {
        /// VA of the ring.
        ring_base_address @ 0: u64,
        /// The queue.
        queue_id @ 8: u32,
        /// Bytes of the ring.
        ring_size @ 12: u32,
        /// 0..=100.
        queue_percentage @ 16: u32,
        /// 0..=15.
        queue_priority @ 20: u32,
    }
    /// GET_CLOCK_COUNTERS: one moment read on three clocks.
    GetClockCounters[40] as "kfd_ioctl_get_clock_counters_args" {
        /// Out: the GPU's counter (10 ns ticks on gfx11 and gfx12); 0 without a device.
        gpu_clock_counter @ 0: u64,
        /// Out: CLOCK_MONOTONIC_RAW in ns.
        cpu_clock_counter @ 8: u64,
        /// Out: CLOCK_BOOTTIME in ns.
        system_clock_counter @ 16: u64,
        /// Out: ticks per second of the two CPU clocks.
        system_clock_freq @ 24: u64,
        /// In: the device.
        gpu_id @ 32: u32,
        /// 0.
        pad @ 36: u32,
    }
    /// One element of GET_PROCESS_APERTURES_NEW.
    Aperture[56] as "kfd_process_device_apertures" {
        /// First address of the LDS aperture.
        lds_base @ 0: u64,
        /// Last address of it.
        lds_limit @ 8: u64,
        /// First address of the scratch aperture.
        scratch_base @ 16: u64,
        /// Last address of it.
        scratch_limit @ 24: u64,
        /// First usable GPU virtual address.
        gpuvm_base @ 32: u64,
        /// Last usable one.
        gpuvm_limit @ 40: u64,
        /// The device.
        gpu_id @ 48: u32,
        /// 0.
        pad @ 52: u32,
    }
    /// GET_PROCESS_APERTURES_NEW: with a count of 0 it returns the count.
    GetApertures[16] as "kfd_ioctl_get_process_apertures_new_args" {
        /// In: pointer to [`Aperture`]s.
        kfd_process_device_apertures_ptr @ 0: u64,
        /// In: room; out: devices.
        num_of_nodes @ 8: u32,
        /// 0.
        pad @ 12: u32,
    }
    /// ACQUIRE_VM: binds a render node's address space to the process.
    AcquireVm[8] as "kfd_ioctl_acquire_vm_args" {
        /// The open render node.
        drm_fd @ 0: u32,
        /// The device.
        gpu_id @ 4: u32,
    }
    /// ALLOC_MEMORY_OF_GPU.
    AllocMemory[40] as "kfd_ioctl_alloc_memory_of_gpu_args" {
        /// In: GPU virtual address.
        va_addr @ 0: u64,
        /// In: bytes.
        size @ 8: u64,
        /// Out: handle.
        handle @ 16: u64,
        /// Out: mmap offset on the render node (or `/dev/kfd` for MMIO).
        mmap_offset @ 24: u64,
        /// In: the device.
        gpu_id @ 32: u32,
        /// In: kind and attributes, see `alloc_flag`.
        flags @ 36: u32,
    }
    /// FREE_MEMORY_OF_GPU.
    FreeMemory[8] as "kfd_ioctl_free_memory_of_gpu_args" {
        /// The buffer.
        handle @ 0: u64,
    }
    /// MAP_MEMORY_TO_GPU and UNMAP_MEMORY_FROM_GPU.
    MapMemory[24] as "kfd_ioctl_map_memory_to_gpu_args" {
        /// The buffer.
        handle @ 0: u64,
        /// Pointer to 32-bit gpu ids.
        device_ids_array_ptr @ 8: u64,
        /// Their number.
        n_devices @ 16: u32,
        /// In and out: how many are done.
        n_success @ 20: u32,
    }
    /// CREATE_EVENT.
    CreateEvent[32] as "kfd_ioctl_create_event_args" {
        /// In: handle of the event page on the first call, else 0; out: mmap offset of the kernel's own page.
        event_page_offset @ 0: u64,
        /// Out: what to write to the mailbox.
        event_trigger_data @ 8: u32,
        /// In: one of `event_type`.
        event_type @ 12: u32,
        /// In: 1 = resets itself when a wait is satisfied.
        auto_reset @ 16: u32,
        /// In: 0.
        node_id @ 20: u32,
        /// Out: id.
        event_id @ 24: u32,
        /// Out: slot in the event page.
        event_slot_index @ 28: u32,
    }
    /// DESTROY_EVENT.
    DestroyEvent[8] as "kfd_ioctl_destroy_event_args" {
        /// The event.
        event_id @ 0: u32,
        /// 0.
        pad @ 4: u32,
    }
    /// SET_EVENT.
    SetEvent[8] as "kfd_ioctl_set_event_args" {
        /// The event.
        event_id @ 0: u32,
        /// 0.
        pad @ 4: u32,
    }
    /// RESET_EVENT.
    ResetEvent[8] as "kfd_ioctl_reset_event_args" {
        /// The event.
        event_id @ 0: u32,
        /// 0.
        pad @ 4: u32,
    }
    /// One element of WAIT_EVENTS. The first 32 bytes are a union by event type.
    EventData[48] as "kfd_event_data" {
        /// The union: see the accessors.
        memory_exception_data @ 0: [u64; 4],
        /// 0.
        kfd_event_data_ext @ 32: u64,
        /// The event.
        event_id @ 40: u32,
        /// 0.
        pad @ 44: u32,
    }
    /// WAIT_EVENTS.
    WaitEvents[24] as "kfd_ioctl_wait_events_args" {
        /// Pointer to [`EventData`]s.
        events_ptr @ 0: u64,
        /// Their number.
        num_events @ 8: u32,
        /// 1 = all, 0 = any.
        wait_for_all @ 12: u32,
        /// In: ms; 0 polls, `u32::MAX` never ends; out: what is left.
        timeout @ 16: u32,
        /// Out: one of `wait_result`.
        wait_result @ 20: u32,
    }
    /// AVAILABLE_MEMORY (minor 9).
    AvailableMemory[16] as "kfd_ioctl_get_available_memory_args" {
        /// Out: bytes.
        available @ 0: u64,
        /// In: the device.
        gpu_id @ 8: u32,
        /// 0.
        pad @ 12: u32,
    }
    /// RUNTIME_ENABLE (minor 13).
    RuntimeEnable[16] as "kfd_ioctl_runtime_enable_args" {
        /// In: 0 without a debugger.
        r_debug @ 0: u64,
        /// In: bit 0 enable, bit 1 save TTMPs.
        mode_mask @ 8: u32,
        /// Out.
        capabilities_mask @ 12: u32,
    }
    /// SET_TRAP_HANDLER: a second-level handler.
    SetTrapHandler[24] as "kfd_ioctl_set_trap_handler_args" {
        /// VA of the code, 256-byte aligned.
        tba_addr @ 0: u64,
        /// VA of its data.
        tma_addr @ 8: u64,
        /// The device.
        gpu_id @ 16: u32,
        /// 0.
        pad @ 20: u32,
    }
    /// SMI_EVENTS: opens a stream of text lines about a device.
    SmiEvents[8] as "kfd_ioctl_smi_events_args" {
        /// The device.
        gpuid @ 0: u32,
        /// Out: file descriptor.
        anon_fd @ 4: u32,
    }
    /// SET_XNACK_MODE: −1 asks.
    SetXnackMode[4] as "kfd_ioctl_set_xnack_mode_args" {
        /// In and out.
        xnack_enabled @ 0: i32,
    }
}

/// AMDGPU_INFO on a render node (`struct drm_amdgpu_info`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
pub struct AmdgpuInfo {
    /// Pointer to the answer.
    pub return_pointer: u64,
    /// Its room in bytes.
    pub return_size: u32,
    /// One of `amdgpu_query`.
    pub query: u32,
    /// A union that the queries used here leave at 0.
    pub rest: [u32; 4],
}
const _: () = assert!(size_of::<AmdgpuInfo>() == 32);

/// Queries of AMDGPU_INFO.
pub mod amdgpu_query {
    /// Sizes of VRAM, CPU-visible VRAM and GTT: 96 bytes.
    pub const MEMORY: u32 = 0x19;
    /// Version of one firmware, chosen by the first word of `rest`: 8 bytes, the version first.
    pub const FW_VERSION: u32 = 0x0e;
    /// The scheduler firmware, for `FW_VERSION`.
    pub const FW_MES: u32 = 0x1a;
    /// Device description: 440 bytes on recent kernels.
    pub const DEV_INFO: u32 = 0x16;
}

/// Queue types of CREATE_QUEUE.
pub mod queue_type {
    /// PM4 compute.
    pub const COMPUTE: u32 = 0;
    /// System DMA.
    pub const SDMA: u32 = 1;
    /// AQL compute.
    pub const COMPUTE_AQL: u32 = 2;
    /// System DMA for XGMI links.
    pub const SDMA_XGMI: u32 = 3;
}

/// Event types of CREATE_EVENT.
pub mod event_type {
    /// Set by a GPU interrupt or SET_EVENT.
    pub const SIGNAL: u32 = 0;
    /// Hang, reset or fatal error.
    pub const HW_EXCEPTION: u32 = 3;
    /// GPU page fault.
    pub const MEMORY: u32 = 8;
}

/// Results of WAIT_EVENTS.
pub mod wait_result {
    /// The condition holds.
    pub const COMPLETE: u32 = 0;
    /// The time is over.
    pub const TIMEOUT: u32 = 1;
    /// The wait could not be done.
    pub const FAIL: u32 = 2;
}

/// Flags of ALLOC_MEMORY_OF_GPU.
pub mod alloc_flag {
    /// Device memory (GTT or carve-out on an APU, by kernel policy).
    pub const VRAM: u32 = 1 << 0;
    /// System memory of the kernel's own.
    pub const GTT: u32 = 1 << 1;
    /// The caller's memory; never used here and refused by [`crate::sys::Linux`].
    pub const USERPTR: u32 = 1 << 2;
    /// The process's doorbell slice.
    pub const DOORBELL: u32 = 1 << 3;
    /// The page with the HDP flush registers.
    pub const MMIO_REMAP: u32 = 1 << 4;
    /// Physically contiguous (minor 16).
    pub const CONTIGUOUS: u32 = 1 << 23;
    /// Coherent across devices.
    pub const EXT_COHERENT: u32 = 1 << 24;
    /// Not cached by the GPU.
    pub const UNCACHED: u32 = 1 << 25;
    /// Coherent with the CPU: not cached on gfx11, ignored on gfx12.
    pub const COHERENT: u32 = 1 << 26;
    /// gfx7 and gfx8 only.
    pub const AQL_QUEUE_MEM: u32 = 1 << 27;
    /// Fail rather than move elsewhere.
    pub const NO_SUBSTITUTE: u32 = 1 << 28;
    /// The CPU will map it.
    pub const PUBLIC: u32 = 1 << 29;
    /// The GPU may execute it.
    pub const EXECUTABLE: u32 = 1 << 30;
    /// The GPU may write it.
    pub const WRITABLE: u32 = 1 << 31;
}

/// Data of a MEMORY event (`struct kfd_hsa_memory_exception_data`).
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryException {
    /// The page had no translation.
    pub not_present: bool,
    /// A write met a read-only page.
    pub read_only: bool,
    /// A fetch met a page without execute permission.
    pub no_execute: bool,
    /// The address may be off.
    pub imprecise: bool,
    /// Faulting address, rounded down to its page.
    pub va: u64,
    /// The device; 0 means that nothing was reported.
    pub gpu_id: u32,
    /// 0 none, 1 SRAM ECC, 2 poison, 3 hang.
    pub error_type: u32,
}

/// Data of a HW_EXCEPTION event (`struct kfd_hsa_hw_exception_data`).
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HwException {
    /// 0 whole GPU, 1 one engine.
    pub reset_type: u32,
    /// 0 hang, 1 ECC.
    pub reset_cause: u32,
    /// VRAM content is gone.
    pub memory_lost: bool,
    /// The device; 0 means that nothing was reported.
    pub gpu_id: u32,
}

const fn low(word: u64) -> u32 {
    (word & 0xffff_ffff) as u32
}

const fn high(word: u64) -> u32 {
    (word >> 32) as u32
}

impl EventData {
    /// An element that waits for `event_id`.
    pub const fn new(event_id: u32) -> Self {
        Self { memory_exception_data: [0; 4], kfd_event_data_ext: 0, event_id, pad: 0 }
    }

    /// A SIGNAL element whose last seen age is `age` (minor 14; 0 asks for the older behavior).
    pub const fn with_age(event_id: u32, age: u64) -> Self {
        Self { memory_exception_data: [age, 0, 0, 0], ..Self::new(event_id) }
    }

    /// The age of a SIGNAL event as the kernel wrote it back.
    pub const fn age(&self) -> u64 {
        self.memory_exception_data[0]
    }

    /// The union read as a memory exception.
    pub const fn memory(&self) -> MemoryException {
        let [first, second, va, last] = self.memory_exception_data;
        MemoryException {
            not_present: low(first) != 0,
            read_only: high(first) != 0,
            no_execute: low(second) != 0,
            imprecise: high(second) != 0,
            va,
            gpu_id: low(last),
            error_type: high(last),
        }
    }

    /// The union read as a hardware exception.
    pub const fn hw(&self) -> HwException {
        let [first, second, ..] = self.memory_exception_data;
        HwException {
            reset_type: low(first),
            reset_cause: high(first),
            memory_lost: low(second) != 0,
            gpu_id: high(second),
        }
    }
}

impl MemoryException {
    /// The element's union for this exception: what a kernel writes.
    pub fn encode(&self) -> [u64; 4] {
        let pair = |a: u32, b: u32| u64::from(a) | u64::from(b) << 32;
        [
            pair(self.not_present.into(), self.read_only.into()),
            pair(self.no_execute.into(), self.imprecise.into()),
            self.va,
            pair(self.gpu_id, self.error_type),
        ]
    }
}

impl HwException {
    /// The element's union for this exception: what a kernel writes.
    pub fn encode(&self) -> [u64; 4] {
        let pair = |a: u32, b: u32| u64::from(a) | u64::from(b) << 32;
        [pair(self.reset_type, self.reset_cause), pair(self.memory_lost.into(), self.gpu_id), 0, 0]
    }
}
