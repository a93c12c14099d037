//! One typed ioctl with the retry policy. Which calls are made, and when, is decided above.

use super::abi::*;
use super::errno::Errno;
use super::kernel::{Fd, Kernel};
use super::request::{self, Request};
use bytemuck::Pod;

/// An argument struct that belongs to exactly one request.
pub trait Arg: Pod {
    /// The request that takes it.
    const REQUEST: Request;
}

macro_rules! args {
    ($($ty:ident => $request:ident,)*) => {
        $(
            impl Arg for $ty {
                const REQUEST: Request = request::$request;
            }
            const _: () = assert!(size_of::<$ty>() == request::$request.size());
        )*
    };
}

args! {
    GetVersion => GET_VERSION,
    CreateQueue => CREATE_QUEUE,
    DestroyQueue => DESTROY_QUEUE,
    UpdateQueue => UPDATE_QUEUE,
    GetClockCounters => GET_CLOCK_COUNTERS,
    GetApertures => GET_PROCESS_APERTURES_NEW,
    AcquireVm => ACQUIRE_VM,
    AllocMemory => ALLOC_MEMORY_OF_GPU,
    FreeMemory => FREE_MEMORY_OF_GPU,
    CreateEvent => CREATE_EVENT,
    DestroyEvent => DESTROY_EVENT,
    SetEvent => SET_EVENT,
    ResetEvent => RESET_EVENT,
    WaitEvents => WAIT_EVENTS,
    AvailableMemory => AVAILABLE_MEMORY,
    RuntimeEnable => RUNTIME_ENABLE,
    SetTrapHandler => SET_TRAP_HANDLER,
    SmiEvents => SMI_EVENTS,
    SetXnackMode => SET_XNACK_MODE,
    AmdgpuInfo => AMDGPU_INFO,
}

/// How often a call is repeated after `EINTR` or `EAGAIN` before the error is handed up. A signal storm makes
/// progress far below this; only a kernel that never answers reaches it.
const ATTEMPTS: u32 = 100_000;

/// Issues a request that has no pointer in its argument, repeating after `EINTR` and `EAGAIN`.
pub fn call<A: Arg>(kernel: &(impl Kernel + ?Sized), fd: &Fd, arg: &mut A) -> Result<(), Errno> {
    call_raw(kernel, fd, A::REQUEST, bytemuck::bytes_of_mut(arg), &mut [])
}

/// Issues a request whose argument points at `pointed`, repeating after `EINTR` and `EAGAIN`.
pub fn call_pointed<A: Arg>(
    kernel: &(impl Kernel + ?Sized),
    fd: &Fd,
    arg: &mut A,
    pointed: &mut [u8],
) -> Result<(), Errno> {
    call_raw(kernel, fd, A::REQUEST, bytemuck::bytes_of_mut(arg), pointed)
}

/// MAP_MEMORY_TO_GPU and UNMAP_MEMORY_FROM_GPU share a struct, so the request is named. `devices` are gpu ids;
/// a repeat continues behind those that are done.
pub(crate) fn call_devices(
    kernel: &(impl Kernel + ?Sized),
    fd: &Fd,
    request: Request,
    arg: &mut MapMemory,
    devices: &mut [u32],
) -> Result<(), Errno> {
    call_raw(kernel, fd, request, bytemuck::bytes_of_mut(arg), bytemuck::cast_slice_mut(devices))
}

fn call_raw(
    kernel: &(impl Kernel + ?Sized),
    fd: &Fd,
    request: Request,
    arg: &mut [u8],
    pointed: &mut [u8],
) -> Result<(), Errno> {
    const LARGEST: usize = size_of::<CreateQueue>();
    let mut sent = [0; LARGEST];
    let sent = &mut sent[..arg.len()];
    sent.copy_from_slice(arg);
    for _ in 0..ATTEMPTS {
        match kernel.ioctl(fd, request, arg, pointed) {
            Err(Errno::EINTR | Errno::EAGAIN) if request.carries_progress() => {}
            Err(Errno::EINTR | Errno::EAGAIN) => arg.copy_from_slice(sent),
            result => return result,
        }
    }
    Err(Errno::EAGAIN)
}
