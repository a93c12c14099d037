//! Errors of bring-up as findings, and what error numbers mean for a given call.
//!
//! Source: `amdkfd/kfd_chardev.c`, `kfd_process.c`, `kfd_process_queue_manager.c`, `kfd_device_queue_manager.c`.

use super::finding::Finding;
use crate::process::{BringUpError, MINIMUM_MINOR, Stage};
use crate::queue::CreateError;
use crate::sys::{Errno, Request, request};

const SENTENCES: &[(Request, Errno, &str)] = &[
    (
        request::ACQUIRE_VM,
        Errno::EINVAL,
        "this render file already belongs to a compute process, or the GPU is unknown",
    ),
    (request::ACQUIRE_VM, Errno::EBUSY, "this program already uses the GPU through another file"),
    (request::GET_PROCESS_APERTURES_NEW, Errno::EINVAL, "room for more nodes than there are"),
    (
        request::ALLOC_MEMORY_OF_GPU,
        Errno::ENOMEM,
        "a memory limit is reached: VRAM, TTM or KFD's share of memory",
    ),
    (request::ALLOC_MEMORY_OF_GPU, Errno::ENODEV, "ACQUIRE_VM has not been done for this GPU"),
    (request::ALLOC_MEMORY_OF_GPU, Errno::EADDRINUSE, "the address belongs to a shared-virtual-memory range"),
    (
        request::ALLOC_MEMORY_OF_GPU,
        Errno::EINVAL,
        "size, kind or gpu id is not acceptable, or a small BAR was to be mapped",
    ),
    (
        request::MAP_MEMORY_TO_GPU,
        Errno::EINVAL,
        "the address is taken, misaligned or out of range, or the peer cannot reach it",
    ),
    (
        request::MAP_MEMORY_TO_GPU,
        Errno::ENOMEM,
        "the buffer is unknown, or there is no memory for page tables",
    ),
    (request::UNMAP_MEMORY_FROM_GPU, Errno::EBUSY, "a live queue uses the buffer"),
    (request::FREE_MEMORY_OF_GPU, Errno::EBUSY, "the buffer is still mapped"),
    (request::FREE_MEMORY_OF_GPU, Errno::EPERM, "the event page stays until the program ends"),
    (request::CREATE_EVENT, Errno::ENOSPC, "all event slots are taken"),
    (request::CREATE_EVENT, Errno::EINVAL, "the program has an event page already, or it is not 32768 bytes"),
    (
        request::CREATE_QUEUE,
        Errno::EINVAL,
        "a buffer of the queue is not mapped, not at its start or not of the exact size",
    ),
    (
        request::CREATE_QUEUE,
        Errno::EPERM,
        "the pointer page is not system memory of this GPU, or too many queues exist",
    ),
    (request::CREATE_QUEUE, Errno::ESRCH, "ACQUIRE_VM has not been done for this GPU"),
    (request::CREATE_QUEUE, Errno::EFAULT, "a pointer is not a user address"),
    (request::CREATE_QUEUE, Errno::ENOMEM, "no SDMA queue or no doorbell is free"),
    (request::CREATE_QUEUE, Errno::ENOSPC, "the program has too many queues on this GPU"),
    (request::CREATE_QUEUE, Errno::EIO, "the GPU is being reset"),
    (
        request::CREATE_QUEUE,
        Errno::ETIMEDOUT,
        "the scheduler firmware does not answer; the GPU will be reset",
    ),
    (request::CREATE_QUEUE, Errno::ENOTSUPP, "the queue type is unknown to this kernel"),
    (
        request::DESTROY_QUEUE,
        Errno::ETIMEDOUT,
        "the scheduler firmware does not answer; the GPU will be reset",
    ),
    (request::DESTROY_QUEUE, Errno::ETIME, "the queue could not be pre-empted; the GPU will be reset"),
    (request::DESTROY_QUEUE, Errno::EIO, "the GPU is being reset; the queue is gone"),
    (request::UPDATE_QUEUE, Errno::EFAULT, "the queue or its new ring is not known"),
    (request::RUNTIME_ENABLE, Errno::EBUSY, "it is enabled already"),
    (request::RUNTIME_ENABLE, Errno::EEXIST, "a queue exists already"),
    (request::WAIT_EVENTS, Errno::EIO, "an event was destroyed while waiting"),
    (request::SET_XNACK_MODE, Errno::EPERM, "this GPU cannot retry page faults"),
];

/// Meaning of an error number as the answer to a request; `None` if it has its plain meaning.
pub fn sentence(request: Request, errno: Errno) -> Option<&'static str> {
    let any = match errno {
        Errno::EBADF => "the file was opened by another process: after a fork it must be opened again",
        Errno::ENOTTY => "this kernel does not have the request",
        _ => "",
    };
    let row = SENTENCES.iter().find(|row| row.0 == request && row.1 == errno).map(|row| row.2);
    row.or(Some(any)).filter(|text| !text.is_empty())
}

/// A bring-up error as a finding. [`super::examine()`] explains failures to open `/dev/kfd` better.
pub fn bring_up(error: &BringUpError) -> Finding {
    match *error {
        BringUpError::Refused(stage, errno) => match stage {
            Stage::OpenKfd => Finding::OpenFailed(errno),
            Stage::OpenRender(minor) => Finding::RenderFailed(minor, errno),
            Stage::AcquireVm(_) if matches!(errno, Errno::EINVAL | Errno::EBUSY) => Finding::OtherRuntime,
            Stage::AcquireVm(_) => Finding::Call("ACQUIRE_VM", errno),
            Stage::GetVersion => Finding::Call("GET_VERSION", errno),
            Stage::Apertures => Finding::Call("GET_PROCESS_APERTURES_NEW", errno),
            Stage::RuntimeEnable => Finding::Call("RUNTIME_ENABLE", errno),
            Stage::Events => Finding::Call("CREATE_EVENT", errno),
        },
        BringUpError::Version(version) => Finding::TooOld { version, minor: MINIMUM_MINOR },
        BringUpError::AddressSpace(_) => Finding::AddressSpace,
        BringUpError::NoAperture(_) => Finding::Denied { is_32_bit: false },
        BringUpError::NotAGpu | BringUpError::NoRenderNode(_) => Finding::NoUsableGpu(Errno::ENODEV),
        BringUpError::DoorbellType(_) => Finding::NoUsableGpu(Errno::EOPNOTSUPP),
        BringUpError::OutOfMemory => Finding::Call("host memory", Errno::ENOMEM),
    }
}

/// A queue error as a finding.
pub fn create_queue(error: &CreateError) -> Finding {
    match error {
        CreateError::Queue { errno, sizes, stated } => {
            Finding::QueueRefused { errno: *errno, asked: (sizes.save, sizes.ctl_stack), stated: *stated }
        }
        CreateError::Refused(what, errno) => Finding::Call(what, *errno),
        CreateError::Alloc(error) => {
            Finding::Call("ALLOC_MEMORY_OF_GPU", error.errno().unwrap_or(Errno::ENOMEM))
        }
        CreateError::UnknownSaveArea | CreateError::Packets(_) => {
            Finding::Call("CREATE_QUEUE", Errno::EINVAL)
        }
        CreateError::OutOfMemory => Finding::Call("host memory", Errno::ENOMEM),
    }
}
