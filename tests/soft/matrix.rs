//! The errno matrix: one row per rule of bring-up, memory and queues, one column per kernel version.
//!
//! Source of the expectations: the sources of the three kernels (`kfd_chardev.c`, `amdgpu_amdkfd_gpuvm.c`,
//! `kfd_queue.c`) and runs of them without a GPU. Not here: sequences of calls (`errno.rs`).

use doorbell_kfd::sys::{
    AcquireVm, AvailableMemory, CreateEvent, CreateQueue, DestroyEvent, DestroyQueue, Errno, FreeMemory,
    GetApertures, Kernel, Request, RuntimeEnable, SetEvent, SetXnackMode, UpdateQueue, alloc_flag,
    event_type, request,
};
use doorbell_soft::kernel::Release;

use crate::errno::{Client, GPU, GTT, VA, good};

type Outcome = Result<(), Errno>;

/// A call by a fresh client, which has its address space unless the row says otherwise, and the results of 6.1, 6.12
/// and 7.2.
struct Row {
    what: &'static str,
    has_vm: bool,
    run: fn(&Client) -> Outcome,
    answers: [Outcome; 3],
}

const OK: Outcome = Ok(());
const EINVAL: Outcome = Err(Errno::EINVAL);
const EFAULT: Outcome = Err(Errno::EFAULT);

fn row(what: &'static str, run: fn(&Client) -> Outcome, answers: [Outcome; 3]) -> Row {
    Row { what, has_vm: true, run, answers }
}

fn bare(what: &'static str, run: fn(&Client) -> Outcome, answers: [Outcome; 3]) -> Row {
    Row { what, has_vm: false, run, answers }
}

/// The same on every version.
fn all(answer: Outcome) -> [Outcome; 3] {
    [answer; 3]
}

/// Checked since 6.12.
fn later(answer: Outcome) -> [Outcome; 3] {
    [OK, answer, answer]
}

fn bring_up() -> Vec<Row> {
    vec![
        bare(
            "memory without an address space",
            |c| c.alloc(VA, 4096, GTT).map(drop),
            all(Err(Errno::ENODEV)),
        ),
        bare(
            "a queue without an address space",
            |c| c.call(&mut CreateQueue { gpu_id: GPU, queue_type: 2, ..CreateQueue::default() }),
            all(Err(Errno::ESRCH)),
        ),
        bare(
            "an address space of no file",
            |c| c.call(&mut AcquireVm { drm_fd: 999, gpu_id: GPU }),
            all(EINVAL),
        ),
        bare(
            "an address space of another GPU",
            |c| c.call(&mut AcquireVm { drm_fd: c.render(), gpu_id: 77 }),
            all(EINVAL),
        ),
        row("the same again", |c| c.call(&mut AcquireVm { drm_fd: c.render(), gpu_id: GPU }), all(OK)),
        row(
            "with another file",
            |c| {
                let second = c.kernel.open("/dev/dri/renderD128").unwrap();
                c.call(&mut AcquireVm { drm_fd: second.raw().cast_unsigned(), gpu_id: GPU })
            },
            all(Err(Errno::EBUSY)),
        ),
        bare(
            "apertures of more nodes than there are",
            |c| c.call(&mut GetApertures { num_of_nodes: 9, ..GetApertures::default() }),
            all(EINVAL),
        ),
    ]
}

fn capabilities() -> Vec<Row> {
    vec![
        row("retry faults", |c| c.call(&mut SetXnackMode { xnack_enabled: 1 }), all(Err(Errno::EPERM))),
        row("retry faults, asked", |c| c.call(&mut SetXnackMode { xnack_enabled: -1 }), all(OK)),
        row(
            "the runtime",
            |c| c.call(&mut RuntimeEnable { mode_mask: 1, ..RuntimeEnable::default() }),
            [Err(Errno::ENOTTY), OK, OK],
        ),
        row(
            "the runtime twice",
            |c| {
                let enable = RuntimeEnable { mode_mask: 1, ..RuntimeEnable::default() };
                let _ = c.call(&mut enable.clone());
                c.call(&mut enable.clone())
            },
            [Err(Errno::ENOTTY), Err(Errno::EBUSY), Err(Errno::EBUSY)],
        ),
        row(
            "the runtime after a queue",
            |c| {
                c.call(&mut good(c))?;
                c.call(&mut RuntimeEnable { mode_mask: 1, ..RuntimeEnable::default() })
            },
            [Err(Errno::ENOTTY), Err(Errno::EEXIST), Err(Errno::EEXIST)],
        ),
        row(
            "memory left on no GPU",
            |c| c.call(&mut AvailableMemory { gpu_id: 5, ..AvailableMemory::default() }),
            all(EINVAL),
        ),
        row(
            "a call that is none",
            |c| c.kernel.ioctl(&c.kfd, Request(0xC008_4B60), &mut [0; 8], &mut []),
            all(Err(Errno::ENOTTY)),
        ),
    ]
}

fn events() -> Vec<Row> {
    vec![
        row(
            "an event page of no buffer",
            |c| {
                c.call(&mut CreateEvent {
                    event_page_offset: 99,
                    event_type: event_type::SIGNAL,
                    ..CreateEvent::default()
                })
            },
            all(EINVAL),
        ),
        row("setting no event", |c| c.call(&mut SetEvent { event_id: 9, pad: 0 }), all(EINVAL)),
        row("destroying no event", |c| c.call(&mut DestroyEvent { event_id: 9, pad: 0 }), all(EINVAL)),
    ]
}

fn memory() -> Vec<Row> {
    vec![
        row("no bytes", |c| c.alloc(VA, 0, GTT).map(drop), all(EINVAL)),
        row("no kind", |c| c.alloc(VA, 4096, alloc_flag::WRITABLE).map(drop), all(EINVAL)),
        row("doorbells of one page", |c| c.alloc(VA, 4096, alloc_flag::DOORBELL).map(drop), all(EINVAL)),
        row("doorbells", |c| c.alloc(VA, 8192, alloc_flag::DOORBELL).map(drop), all(OK)),
        row("registers of two pages", |c| c.alloc(VA, 8192, alloc_flag::MMIO_REMAP).map(drop), all(EINVAL)),
        row("registers", |c| c.alloc(VA, 4096, alloc_flag::MMIO_REMAP).map(drop), all(OK)),
        row("the caller's pages at 0", |c| c.alloc(VA, 4096, alloc_flag::USERPTR).map(drop), all(EINVAL)),
        row(
            "more VRAM than there is",
            |c| c.alloc(VA, 25 << 30, alloc_flag::VRAM).map(drop),
            all(Err(Errno::ENOMEM)),
        ),
        row("more GTT than there is", |c| c.alloc(VA, 33 << 30, GTT).map(drop), all(Err(Errno::ENOMEM))),
    ]
}

fn mapping() -> Vec<Row> {
    vec![
        // The address is looked at when it is mapped.
        row("a crooked address", |c| c.alloc(VA + 1, 4096, GTT).map(drop), all(OK)),
        row("mapping at a crooked address", |c| map(c, VA + 1, 4096), all(EINVAL)),
        row("mapping at 0", |c| map(c, 0, 4096), all(EINVAL)),
        row("mapping beyond the user's half", |c| map(c, 1 << 47, 4096), all(EINVAL)),
        row("mapping across its end", |c| map(c, (1 << 47) - 4096, 8192), all(EINVAL)),
        row("mapping", |c| map(c, VA, 4096), all(OK)),
        row(
            "mapping over another",
            |c| {
                c.mapped(VA, 8192, GTT);
                map(c, VA + 4096, 4096)
            },
            all(EINVAL),
        ),
        row("mapping on no device", |c| on(c, &[]), all(EINVAL)),
        row("mapping on a device that is none", |c| on(c, &[99]), all(EINVAL)),
        row(
            "mapping no buffer",
            |c| c.change(request::MAP_MEMORY_TO_GPU, 5, &[GPU]).map(drop),
            all(Err(Errno::ENOMEM)),
        ),
        row(
            "mapping twice",
            |c| {
                let handle = c.mapped(VA, 4096, GTT);
                c.change(request::MAP_MEMORY_TO_GPU, handle, &[GPU]).map(drop)
            },
            all(OK),
        ),
        row(
            "unmapping what is not mapped",
            |c| {
                let handle = c.alloc(VA, 4096, GTT)?.handle;
                c.change(request::UNMAP_MEMORY_FROM_GPU, handle, &[GPU]).map(drop)
            },
            all(OK),
        ),
    ]
}

fn freeing() -> Vec<Row> {
    vec![
        row(
            "freeing what is mapped",
            |c| c.call(&mut FreeMemory { handle: c.mapped(VA, 4096, GTT) }),
            all(Err(Errno::EBUSY)),
        ),
        row("freeing no buffer", |c| c.call(&mut FreeMemory { handle: 7 }), all(EINVAL)),
        row(
            "freeing the event page",
            |c| {
                let handle = c.mapped(VA, 32768, GTT);
                c.call(&mut CreateEvent {
                    event_page_offset: handle,
                    event_type: event_type::SIGNAL,
                    ..CreateEvent::default()
                })?;
                c.call(&mut FreeMemory { handle })
            },
            all(Err(Errno::EPERM)),
        ),
    ]
}

fn map(c: &Client, va: u64, size: u64) -> Outcome {
    let handle = c.alloc(va, size, GTT)?.handle;
    c.change(request::MAP_MEMORY_TO_GPU, handle, &[GPU]).map(drop)
}

fn on(c: &Client, gpus: &[u32]) -> Outcome {
    let handle = c.alloc(VA, 4096, GTT)?.handle;
    c.change(request::MAP_MEMORY_TO_GPU, handle, gpus).map(drop)
}

/// Creates the good queue after a change of it.
fn changed(c: &Client, change: impl FnOnce(&mut CreateQueue)) -> Outcome {
    let mut queue = good(c);
    change(&mut queue);
    c.call(&mut queue)
}

fn creation() -> Vec<Row> {
    vec![
        row("a queue", |c| changed(c, |_| {}), all(OK)),
        row("101 percent", |c| changed(c, |q| q.queue_percentage = 101), all(EINVAL)),
        row("no percent", |c| changed(c, |q| q.queue_percentage = 0), all(OK)),
        row("priority 16", |c| changed(c, |q| q.queue_priority = 16), all(EINVAL)),
        row("a ring of 3,000 bytes", |c| changed(c, |q| q.ring_size = 3000), all(EINVAL)),
        row("a ring of the kernel", |c| changed(c, |q| q.ring_base_address = 1 << 63), all(EFAULT)),
        row(
            "a read pointer of the kernel",
            |c| changed(c, |q| q.read_pointer_address = 1 << 63),
            all(EFAULT),
        ),
        row(
            "a write pointer of the kernel",
            |c| changed(c, |q| q.write_pointer_address = 1 << 63),
            all(EFAULT),
        ),
        row("an unknown type", |c| changed(c, |q| q.queue_type = 9), all(Err(Errno::ENOTSUPP))),
        row("no such GPU", |c| changed(c, |q| q.gpu_id = 5), all(EINVAL)),
        row("a ring inside its buffer", |c| changed(c, |q| q.ring_base_address += 4096), later(EINVAL)),
        row("a ring larger than its buffer", |c| changed(c, |q| q.ring_size *= 2), later(EINVAL)),
        row("a ring smaller than its buffer", |c| changed(c, |q| q.ring_size /= 2), later(EINVAL)),
        row(
            "a write pointer in a larger buffer",
            |c| changed(c, |q| q.write_pointer_address = q.ring_base_address + 0x38),
            // The scheduler's own mapping of the page wants it alone on every version.
            all(EINVAL),
        ),
        row(
            "a read pointer in a larger buffer",
            |c| changed(c, |q| q.read_pointer_address = q.ring_base_address + 0x80),
            later(EINVAL),
        ),
        row("an EOP buffer of half a page", |c| changed(c, |q| q.eop_buffer_size = 2048), later(EINVAL)),
        row("an EOP buffer of two pages", |c| changed(c, |q| q.eop_buffer_size = 8192), later(EINVAL)),
        row("no EOP buffer", |c| changed(c, |q| q.eop_buffer_address = 0), all(OK)),
        row("another control stack", |c| changed(c, |q| q.ctl_stack_size = 0x8000), later(EINVAL)),
        row(
            "a save area one page too small",
            |c| changed(c, |q| q.ctx_save_restore_size -= 4096),
            later(EINVAL),
        ),
        row(
            "a save area one page too large",
            |c| changed(c, |q| q.ctx_save_restore_size += 4096),
            later(EINVAL),
        ),
        row("a save area elsewhere", |c| changed(c, |q| q.ctx_save_restore_address += 4096), later(EINVAL)),
    ]
}

fn life() -> Vec<Row> {
    vec![
        row(
            "the 128th queue",
            |c| {
                let queue = good(c);
                for _ in 0..127 {
                    c.call(&mut queue.clone())?;
                }
                c.call(&mut queue.clone())
            },
            all(Err(Errno::ENOSPC)),
        ),
        row(
            "more SDMA queues than engines hold",
            |c| {
                let queue = CreateQueue { queue_type: 1, ..good(c) };
                for _ in 0..12 {
                    c.call(&mut queue.clone())?;
                }
                c.call(&mut queue.clone())
            },
            all(Err(Errno::ENOMEM)),
        ),
        row(
            "updating no queue",
            |c| c.call(&mut UpdateQueue { queue_id: 9, ..UpdateQueue::default() }),
            all(EFAULT),
        ),
        row("parking a queue", |c| update(c, |u| (u.ring_base_address, u.ring_size) = (0, 0)), all(OK)),
        row("updating to 101 percent", |c| update(c, |u| u.queue_percentage = 101), all(EINVAL)),
        row("updating to priority 16", |c| update(c, |u| u.queue_priority = 16), all(EINVAL)),
        row("updating to 3,000 bytes", |c| update(c, |u| u.ring_size = 3000), all(EINVAL)),
        row(
            "updating to a ring of the kernel",
            |c| update(c, |u| u.ring_base_address = 1 << 63),
            all(EFAULT),
        ),
        row("updating to a ring that is none", |c| update(c, |u| u.ring_base_address += 4096), later(EFAULT)),
        row("updating to the same ring", |c| update(c, |_| {}), all(OK)),
        row("destroying no queue", |c| c.call(&mut DestroyQueue { queue_id: 9, pad: 0 }), all(EINVAL)),
        row(
            "destroying a queue twice",
            |c| {
                let mut queue = good(c);
                c.call(&mut queue)?;
                c.call(&mut DestroyQueue { queue_id: queue.queue_id, pad: 0 })?;
                c.call(&mut DestroyQueue { queue_id: queue.queue_id, pad: 0 })
            },
            all(EINVAL),
        ),
        row(
            "unmapping a queue's pointers",
            |c| {
                c.call(&mut good(c))?;
                c.change(request::UNMAP_MEMORY_FROM_GPU, u64::from(GPU) << 32 | 1, &[GPU]).map(drop)
            },
            later(Err(Errno::EBUSY)),
        ),
    ]
}

/// Creates the good queue and updates it with a change of what it has.
fn update(c: &Client, change: impl FnOnce(&mut UpdateQueue)) -> Outcome {
    let mut queue = good(c);
    c.call(&mut queue)?;
    let mut arg = UpdateQueue {
        ring_base_address: queue.ring_base_address,
        queue_id: queue.queue_id,
        ring_size: queue.ring_size,
        queue_percentage: 100,
        queue_priority: 7,
    };
    change(&mut arg);
    c.call(&mut arg)
}

#[test]
fn every_rule_has_its_errno_on_every_version() {
    let rows: Vec<Row> = [bring_up, capabilities, events, memory, mapping, freeing, creation, life]
        .into_iter()
        .flat_map(|rules| rules())
        .collect();
    let mut wrong = Vec::new();
    for row in &rows {
        for (release, expected) in Release::ALL.into_iter().zip(row.answers) {
            let client = if row.has_vm { Client::with_vm(release) } else { Client::new(release) };
            let found = (row.run)(&client);
            if found != expected {
                wrong.push(format!("{} on {release:?}: {expected:?} expected, {found:?} found", row.what));
            }
        }
    }
    println!("{} rules on {} versions", rows.len(), Release::ALL.len());
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(rows.len() >= 70);
}
