//! Calls that the kernel refuses, with their error numbers, by version.
//!
//! Source of the expectations: the sources of the three kernels and runs of 6.1 and 6.12 without a GPU.

use doorbell_kfd::sys::{
    AcquireVm, AllocMemory, Arg, CreateEvent, CreateQueue, DestroyEvent, DestroyQueue, Errno, EventData, Fd,
    FreeMemory, GetApertures, GetVersion, Kernel, MapMemory, Request, RuntimeEnable, SetEvent,
    SetTrapHandler, SetXnackMode, UpdateQueue, WaitEvents, alloc_flag, call, call_pointed, event_type,
    request, wait_result,
};
use doorbell_soft::kernel::{Machine, Release, SoftKernel, chip};
use doorbell_soft::processor::Options;

pub(crate) const GPU: u32 = 0x1234;
pub(crate) const VA: u64 = 0x7000_0000_0000;

fn machine(release: Release, chips: &[&str]) -> SoftKernel {
    let chips: Vec<_> = chips.iter().map(|name| chip(name).unwrap()).collect();
    SoftKernel::new(Machine::new(release, 64 << 30, &chips), &Options::default()).unwrap()
}

/// An opened kernel with one GPU.
pub(crate) struct Client {
    pub(crate) kernel: SoftKernel,
    pub(crate) kfd: Fd,
    render: Fd,
}

impl Client {
    pub(crate) fn new(release: Release) -> Self {
        let kernel = machine(release, &["RX 7900 XTX"]);
        let (kfd, render) = (kernel.open("/dev/kfd").unwrap(), kernel.open("/dev/dri/renderD128").unwrap());
        Self { kernel, kfd, render }
    }

    pub(crate) fn with_vm(release: Release) -> Self {
        let client = Self::new(release);
        let mut acquire = AcquireVm { drm_fd: client.render.raw().cast_unsigned(), gpu_id: GPU };
        client.call(&mut acquire).unwrap();
        client
    }

    /// The render node's descriptor.
    pub(crate) fn render(&self) -> u32 {
        self.render.raw().cast_unsigned()
    }

    pub(crate) fn call<A: Arg>(&self, arg: &mut A) -> Result<(), Errno> {
        call(&self.kernel, &self.kfd, arg)
    }

    pub(crate) fn alloc(&self, va_addr: u64, size: u64, flags: u32) -> Result<AllocMemory, Errno> {
        let mut alloc = AllocMemory { va_addr, size, gpu_id: GPU, flags, ..AllocMemory::default() };
        self.call(&mut alloc)?;
        Ok(alloc)
    }

    pub(crate) fn change(&self, request: Request, handle: u64, gpus: &[u32]) -> Result<MapMemory, Errno> {
        let mut arg = MapMemory { handle, n_devices: gpus.len() as u32, ..MapMemory::default() };
        let mut ids: Vec<u8> = gpus.iter().flat_map(|gpu| gpu.to_le_bytes()).collect();
        let mut raw = [0; 24];
        raw.copy_from_slice(&bytes_of(&arg));
        let result = self.kernel.ioctl(&self.kfd, request, &mut raw, &mut ids);
        arg.n_success = u32::from_le_bytes(raw[20..24].try_into().unwrap());
        result.map(|()| arg)
    }

    pub(crate) fn mapped(&self, va: u64, size: u64, flags: u32) -> u64 {
        let handle = self.alloc(va, size, flags).unwrap().handle;
        self.change(request::MAP_MEMORY_TO_GPU, handle, &[GPU]).unwrap();
        handle
    }
}

fn bytes_of(arg: &MapMemory) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.extend(arg.handle.to_le_bytes());
    bytes.extend(arg.device_ids_array_ptr.to_le_bytes());
    bytes.extend(arg.n_devices.to_le_bytes());
    bytes.extend(arg.n_success.to_le_bytes());
    bytes
}

pub(crate) const GTT: u32 = alloc_flag::GTT | alloc_flag::WRITABLE;

#[test]
fn opening_depends_on_the_machine_and_the_version() {
    for release in Release::ALL {
        let none = machine(release, &[]);
        let expected = if release == Release::V7_2 { Err(Errno::EINVAL) } else { Ok(()) };
        assert_eq!(none.open("/dev/kfd").map(drop), expected, "{release:?}");
        assert_eq!(none.open("/dev/dri/renderD128").map(drop), Err(Errno::ENOENT));
        let client = Client::new(release);
        let mut version = GetVersion::default();
        client.call(&mut version).unwrap();
        assert_eq!((version.major_version, version.minor_version), (1, release.minor()));
    }
}

#[test]
fn a_machine_without_a_gpu_answers_as_real_kernels_do() {
    for release in [Release::V6_1, Release::V6_12] {
        let kernel = machine(release, &[]);
        let kfd = kernel.open("/dev/kfd").unwrap();
        let mut apertures = GetApertures::default();
        call(&kernel, &kfd, &mut apertures).unwrap();
        assert_eq!(apertures.num_of_nodes, 0);
        apertures.num_of_nodes = 8;
        assert_eq!(call_pointed(&kernel, &kfd, &mut apertures, &mut [0; 448]), Err(Errno::EINVAL));
        for expected in [1, 2] {
            let mut event = CreateEvent { event_type: event_type::SIGNAL, ..CreateEvent::default() };
            call(&kernel, &kfd, &mut event).unwrap();
            assert_eq!((event.event_id, event.event_slot_index), (expected, expected));
            assert_eq!(event.event_page_offset, 1 << 63);
        }
        let mut other = CreateEvent { event_type: event_type::MEMORY, ..CreateEvent::default() };
        call(&kernel, &kfd, &mut other).unwrap();
        assert_eq!((other.event_id, other.event_page_offset), (0x4000_0000, 0));
        call(&kernel, &kfd, &mut SetEvent { event_id: 1, pad: 0 }).unwrap();
        assert_eq!(call(&kernel, &kfd, &mut SetEvent { event_id: 99, pad: 0 }), Err(Errno::EINVAL));
        call(&kernel, &kfd, &mut DestroyEvent { event_id: 2, pad: 0 }).unwrap();
        assert_eq!(call(&kernel, &kfd, &mut DestroyEvent { event_id: 2, pad: 0 }), Err(Errno::EINVAL));
        let mut xnack = SetXnackMode { xnack_enabled: 1 };
        assert_eq!(call(&kernel, &kfd, &mut xnack), Err(Errno::EPERM));
        let mut enable = RuntimeEnable { mode_mask: 1, ..RuntimeEnable::default() };
        let known = if release == Release::V6_1 { Err(Errno::ENOTTY) } else { Ok(()) };
        assert_eq!(call(&kernel, &kfd, &mut enable), known);
        let unknown = Request(0xC008_4B60);
        assert_eq!(kernel.ioctl(&kfd, unknown, &mut [0; 8], &mut []), Err(Errno::ENOTTY));
        let mut alloc = AllocMemory { size: 4096, gpu_id: 1, flags: GTT, ..AllocMemory::default() };
        assert_eq!(call(&kernel, &kfd, &mut alloc), Err(Errno::EINVAL));
    }
}

#[test]
fn waiting_follows_ages_and_resets() {
    let client = Client::new(Release::V6_12);
    let mut event = CreateEvent { event_type: event_type::SIGNAL, auto_reset: 1, ..CreateEvent::default() };
    client.call(&mut event).unwrap();
    let wait = |data: EventData| {
        let (mut args, mut slots) = (WaitEvents { timeout: 5, ..WaitEvents::default() }, [data]);
        let result = client.kernel.wait(&client.kfd, &mut args, &mut slots);
        (result, args.wait_result, slots[0].age())
    };
    assert_eq!(wait(EventData::new(event.event_id)).1, wait_result::TIMEOUT);
    client.call(&mut SetEvent { event_id: event.event_id, pad: 0 }).unwrap();
    assert_eq!(wait(EventData::new(event.event_id)), (Ok(()), wait_result::COMPLETE, 2));
    assert_eq!(wait(EventData::new(event.event_id)).1, wait_result::TIMEOUT);
    // The age has moved since 1, although the event was reset.
    assert_eq!(wait(EventData::with_age(event.event_id, 1)).1, wait_result::COMPLETE);
    assert_eq!(wait(EventData::new(77)), (Err(Errno::EINVAL), wait_result::FAIL, 0));
}

#[test]
fn memory_is_refused_as_the_kernel_refuses_it() {
    for release in Release::ALL {
        let before = Client::new(release);
        assert_eq!(before.alloc(VA, 4096, GTT).map(drop), Err(Errno::ENODEV));
        let client = Client::with_vm(release);
        let mut again = AcquireVm { drm_fd: client.render.raw().cast_unsigned(), gpu_id: GPU };
        assert_eq!(client.call(&mut again), Ok(()));
        let second = client.kernel.open("/dev/dri/renderD128").unwrap();
        let mut other = AcquireVm { drm_fd: second.raw().cast_unsigned(), gpu_id: GPU };
        assert_eq!(client.call(&mut other), Err(Errno::EBUSY));
        let mut wrong = AcquireVm { drm_fd: client.kfd.raw().cast_unsigned(), gpu_id: GPU };
        assert_eq!(client.call(&mut wrong), Err(Errno::EINVAL));
        for (size, flags, errno) in [
            (0, GTT, Errno::EINVAL),
            (4096, alloc_flag::WRITABLE, Errno::EINVAL),
            (4096, alloc_flag::DOORBELL, Errno::EINVAL),
            (8192, alloc_flag::MMIO_REMAP, Errno::EINVAL),
            (4096, alloc_flag::USERPTR, Errno::EINVAL),
            (1 << 40, alloc_flag::VRAM, Errno::ENOMEM),
            (1 << 40, GTT, Errno::ENOMEM),
        ] {
            assert_eq!(client.alloc(VA, size, flags).map(drop), Err(errno), "{size:#x} {flags:#x}");
        }
        let map = request::MAP_MEMORY_TO_GPU;
        for va in [0, VA + 1, 0x8000_0000_0000] {
            let handle = client.alloc(va, 4096, GTT).unwrap().handle;
            assert_eq!(client.change(map, handle, &[GPU]).map(drop), Err(Errno::EINVAL), "{va:#x}");
        }
        let first = client.mapped(VA, 8192, GTT);
        let overlapping = client.alloc(VA + 4096, 4096, GTT).unwrap().handle;
        assert_eq!(client.change(map, overlapping, &[GPU]).map(drop), Err(Errno::EINVAL));
        assert_eq!(client.change(map, first, &[]).map(drop), Err(Errno::EINVAL));
        assert_eq!(client.change(map, first, &[99]).map(drop), Err(Errno::EINVAL));
        assert_eq!(client.change(map, 5, &[GPU]).map(drop), Err(Errno::ENOMEM));
        assert_eq!(client.change(map, first, &[GPU]).map(drop), Ok(()));
        assert_eq!(client.call(&mut FreeMemory { handle: first }), Err(Errno::EBUSY));
        client.change(request::UNMAP_MEMORY_FROM_GPU, first, &[GPU]).unwrap();
        assert_eq!(client.call(&mut FreeMemory { handle: first }), Ok(()));
        assert_eq!(client.call(&mut FreeMemory { handle: first }), Err(Errno::EINVAL));
    }
}

#[test]
fn the_event_page_is_taken_once_and_stays() {
    let client = Client::with_vm(Release::V6_12);
    let small = client.mapped(VA, 4096, GTT);
    let page = client.mapped(VA + 0x10_0000, 32768, GTT);
    let create = |handle: u64| {
        let mut event = CreateEvent {
            event_page_offset: handle,
            event_type: event_type::SIGNAL,
            ..CreateEvent::default()
        };
        client.call(&mut event).map(|()| event.event_id)
    };
    assert_eq!(create(small), Err(Errno::EINVAL));
    assert_eq!(create(page), Ok(1));
    assert_eq!(create(page), Err(Errno::EINVAL));
    assert_eq!(client.call(&mut FreeMemory { handle: page }), Err(Errno::EPERM));
    for expected in 2..4096 {
        assert_eq!(create(0), Ok(expected));
    }
    assert_eq!(create(0), Err(Errno::ENOSPC));
}

/// A queue that every version accepts, with its buffers.
pub(crate) fn good(client: &Client) -> CreateQueue {
    let [pointers, ring, eop, area] = [VA, VA + 0x1_0000, VA + 0x10_0000, VA + 0x100_0000];
    client.mapped(pointers, 4096, GTT);
    client.mapped(ring, 65536, GTT);
    client.mapped(eop, 4096, alloc_flag::VRAM | alloc_flag::WRITABLE);
    client.mapped(area, 0x2C0_2000, GTT);
    CreateQueue {
        ring_base_address: ring,
        write_pointer_address: pointers + 0x38,
        read_pointer_address: pointers + 0x80,
        ring_size: 65536,
        gpu_id: GPU,
        queue_type: 2,
        queue_percentage: 100,
        queue_priority: 7,
        eop_buffer_address: eop,
        eop_buffer_size: 4096,
        ctx_save_restore_address: area,
        ctx_save_restore_size: 0x2BE_A000,
        ctl_stack_size: 0xA000,
        ..CreateQueue::default()
    }
}

#[test]
fn queues_are_refused_as_the_kernel_refuses_them() {
    type Change = fn(&mut CreateQueue);
    // What is checked everywhere, then what only 6.12 and later check.
    let always: [(Change, Errno); 7] = [
        (|queue| queue.queue_percentage = 101, Errno::EINVAL),
        (|queue| queue.queue_priority = 16, Errno::EINVAL),
        (|queue| queue.ring_size = 3000, Errno::EINVAL),
        (|queue| queue.ring_base_address = 1 << 63, Errno::EFAULT),
        (|queue| queue.read_pointer_address = u64::MAX, Errno::EFAULT),
        (|queue| queue.queue_type = 9, Errno::ENOTSUPP),
        (|queue| queue.gpu_id = 5, Errno::EINVAL),
    ];
    let later: [Change; 9] = [
        |queue| queue.ring_base_address += 4096,
        |queue| queue.ring_size = 131_072,
        |queue| queue.write_pointer_address += 0x1_0000,
        |queue| queue.eop_buffer_size = 2048,
        |queue| queue.eop_buffer_address += 4096,
        |queue| queue.ctl_stack_size = 0x8000,
        |queue| queue.ctx_save_restore_size -= 4096,
        // An area one page too large: the buffer would have to be larger, too.
        |queue| queue.ctx_save_restore_size += 4096,
        |queue| queue.ctx_save_restore_address += 4096,
    ];
    for release in Release::ALL {
        let client = Client::with_vm(release);
        let good = good(&client);
        for (index, (change, errno)) in always.iter().enumerate() {
            let mut queue = good;
            change(&mut queue);
            assert_eq!(client.call(&mut queue), Err(*errno), "{release:?} {index}");
        }
        for (index, change) in later.iter().enumerate() {
            let mut queue = good;
            change(&mut queue);
            // The page of the write pointer is pinned: it is one page in every version.
            let pinned = queue.write_pointer_address == good.write_pointer_address;
            let expected = if release == Release::V6_1 && pinned { Ok(()) } else { Err(Errno::EINVAL) };
            assert_eq!(client.call(&mut queue), expected, "{release:?} {index}");
            if expected.is_ok() {
                client.call(&mut DestroyQueue { queue_id: queue.queue_id, pad: 0 }).unwrap();
            }
        }
        let mut queue = good;
        client.call(&mut queue).unwrap();
        assert_eq!(queue.doorbell_offset >> 46, 3 << 16 | u64::from(GPU));
        let mut enable = RuntimeEnable { mode_mask: 1, ..RuntimeEnable::default() };
        let late = if release == Release::V6_1 { Errno::ENOTTY } else { Errno::EEXIST };
        assert_eq!(client.call(&mut enable), Err(late));
        let unmap = client.change(request::UNMAP_MEMORY_FROM_GPU, u64::from(GPU) << 32 | 1, &[GPU]);
        let expected = if release == Release::V6_1 { Ok(()) } else { Err(Errno::EBUSY) };
        assert_eq!(unmap.map(drop), expected, "{release:?}");
        let mut unknown = UpdateQueue { queue_id: 99, ..UpdateQueue::default() };
        assert_eq!(client.call(&mut unknown), Err(Errno::EFAULT));
        client.call(&mut DestroyQueue { queue_id: queue.queue_id, pad: 0 }).unwrap();
        let again = client.call(&mut DestroyQueue { queue_id: queue.queue_id, pad: 0 });
        assert_eq!(again, Err(Errno::EINVAL));
    }
    let client = Client::new(Release::V6_12);
    let mut queue = CreateQueue { gpu_id: GPU, queue_type: 2, ..CreateQueue::default() };
    assert_eq!(client.call(&mut queue), Err(Errno::ESRCH));
}

#[test]
fn a_write_pointer_in_memory_of_the_process_cannot_be_pinned() {
    for release in Release::ALL {
        let client = Client::with_vm(release);
        client.kernel.expose().unwrap();
        let mut good = good(&client);
        let own = VA + 0x4000_0000;
        let flags = alloc_flag::USERPTR | alloc_flag::WRITABLE;
        let mut alloc = AllocMemory {
            va_addr: own,
            size: 4096,
            mmap_offset: own,
            gpu_id: GPU,
            flags,
            ..AllocMemory::default()
        };
        client.call(&mut alloc).unwrap();
        client.change(request::MAP_MEMORY_TO_GPU, alloc.handle, &[GPU]).unwrap();
        good.write_pointer_address = own + 0x38;
        assert_eq!(client.call(&mut good), Err(Errno::EPERM), "{release:?}");
        good.write_pointer_address = VA + 0x38;
        client.call(&mut good).unwrap();
    }
}

#[test]
fn trap_handlers_are_refused_as_the_kernel_refuses_them() {
    for release in Release::ALL {
        let handler = SetTrapHandler { tba_addr: VA, tma_addr: VA, gpu_id: GPU, pad: 0 };
        let client = Client::new(release);
        assert_eq!(client.call(&mut handler.clone()), Err(Errno::ESRCH));
        assert_eq!(client.call(&mut SetTrapHandler { gpu_id: 5, ..handler }), Err(Errno::EINVAL));
        assert_eq!(Client::with_vm(release).call(&mut handler.clone()), Ok(()));
    }
}
