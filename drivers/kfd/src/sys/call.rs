//! Typed ioctls: one argument struct per request. Which calls are made, and when, is decided by the callers.

use super::abi::*;
use super::errno::Errno;
use super::kernel::{Fd, Kernel};
use super::request::{self, Request};
use super::retry::retry;
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

/// Issues a request that has no pointer in its argument, repeating after `EINTR` and `EAGAIN`.
pub fn call<A: Arg>(kernel: &(impl Kernel + ?Sized), fd: &Fd, arg: &mut A) -> Result<(), Errno> {
    retry(A::REQUEST, bytemuck::bytes_of_mut(arg), |arg| kernel.ioctl(fd, A::REQUEST, arg, &mut []))
}

/// Issues a request whose argument points at `pointed`, repeating after `EINTR` and `EAGAIN`.
pub fn call_pointed<A: Arg>(
    kernel: &(impl Kernel + ?Sized),
    fd: &Fd,
    arg: &mut A,
    pointed: &mut [u8],
) -> Result<(), Errno> {
    retry(A::REQUEST, bytemuck::bytes_of_mut(arg), |arg| kernel.ioctl(fd, A::REQUEST, arg, pointed))
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
    retry(request, bytemuck::bytes_of_mut(arg), |arg| {
        kernel.ioctl(fd, request, arg, bytemuck::cast_slice_mut(devices))
    })
}
