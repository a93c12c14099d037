//! The few functions of libdrm that ROCm's libraries call, over the render nodes of the software GPU.
//!
//! The real ones query much of the kernel that KFD clients do not need. Not here: ioctls on render nodes
//! (`calls.rs`).

use super::devices::{close, open_render};
use crate::files;
use crate::soft_gpu::soft_gpu;
use alloc::ffi::CString;
use doorbell_kfd::sys::Errno;
use doorbell_soft::kernel::Gpu;
use libc::{c_char, c_int, c_void};

/// Target of a handle of libdrm_amdgpu.
struct Device {
    fd: c_int,
    name: CString,
    chip: Option<Gpu>,
}

/// Start of `struct amdgpu_gpu_info`, as far as it is filled.
#[repr(C)]
struct GpuInfo {
    asic_id: u32,
    chip_rev: u32,
    chip_external_rev: u32,
    family_id: u32,
    ids_flags: u64,
    max_engine_clk: u64,
    max_memory_clk: u64,
}

/// Version of amdgpu's DRM interface, kernels 6.1 to 6.12.
const VERSION: (u32, u32) = (3, 57);
/// `AMDGPU_FAMILY_GC_11_0_0`.
const FAMILY: u32 = 145;

/// Minor of a render node by its descriptor: the name that the anonymous file has.
fn minor(fd: c_int) -> Option<u32> {
    let link = std::fs::read_link(format!("/proc/self/fd/{fd}")).ok()?;
    let name = link.to_str()?.split("renderD").nth(1)?.to_owned();
    name.split(' ').next()?.parse().ok()
}

#[unsafe(no_mangle)]
extern "C" fn drmOpenRender(minor: c_int) -> c_int {
    open_render(minor).unwrap_or_else(|errno| -errno.0)
}

#[unsafe(no_mangle)]
extern "C" fn drmClose(fd: c_int) -> c_int {
    close(fd)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn amdgpu_device_initialize(
    fd: c_int,
    major: *mut u32,
    minor_version: *mut u32,
    handle: *mut *mut Device,
) -> c_int {
    if files::device(fd).is_none() || handle.is_null() {
        return -Errno::ENODEV.0;
    }
    let render = minor(fd);
    let chip = soft_gpu().settings.machine.gpus.iter().find(|gpu| Some(gpu.render) == render).cloned();
    let name = chip.as_ref().map_or("", |gpu| gpu.chip.name);
    let name = CString::new(format!("AMD Radeon {name}")).unwrap_or_default();
    // SAFETY: the caller's descriptor; the caller may close its own as soon as this returns.
    let fd = unsafe { libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, 0) };
    let device = Box::into_raw(Box::new(Device { fd, name, chip }));
    // SAFETY: the caller passes pointers for the three results, and the handle's was checked.
    unsafe {
        if !major.is_null() {
            *major = VERSION.0;
        }
        if !minor_version.is_null() {
            *minor_version = VERSION.1;
        }
        *handle = device;
    }
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn amdgpu_device_deinitialize(handle: *mut Device) -> c_int {
    if handle.is_null() {
        return -Errno::EINVAL.0;
    }
    // SAFETY: handles come from `amdgpu_device_initialize` and are given back once.
    close(unsafe { Box::from_raw(handle) }.fd)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn amdgpu_device_get_fd(handle: *const Device) -> c_int {
    // SAFETY: handles come from `amdgpu_device_initialize` and are not given back yet.
    unsafe { handle.as_ref() }.map_or(-1, |device| device.fd)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn amdgpu_get_marketing_name(handle: *const Device) -> *const c_char {
    // SAFETY: as above.
    unsafe { handle.as_ref() }.map_or(core::ptr::null(), |device| device.name.as_ptr())
}

#[unsafe(no_mangle)]
unsafe extern "C" fn amdgpu_query_gpu_info(handle: *const Device, out: *mut GpuInfo) -> c_int {
    // SAFETY: as above.
    let device = unsafe { handle.as_ref() };
    let Some(gpu) = device.and_then(|device| device.chip.as_ref()).filter(|_| !out.is_null()) else {
        return -Errno::EINVAL.0;
    };
    let info = GpuInfo {
        asic_id: gpu.chip.device,
        chip_rev: 0,
        chip_external_rev: 1,
        family_id: FAMILY,
        ids_flags: gpu.chip.is_apu.into(),
        max_engine_clk: 2_500_000,
        max_memory_clk: 1_250_000,
    };
    // SAFETY: the caller passes a struct that starts with these fields; the rest stays as the caller left it.
    unsafe { out.write(info) };
    0
}

/// Only memory of other devices is imported, and there is none.
#[unsafe(no_mangle)]
extern "C" fn amdgpu_bo_import(_: *mut Device, _: u32, _: u32, _: *mut c_void) -> c_int {
    -Errno::EINVAL.0
}
