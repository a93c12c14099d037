//! Opens KFD and the devices in the order that every kernel accepts.
//!
//! Source: `amdkfd/kfd_chardev.c` (`kfd_open`, `kfd_ioctl_acquire_vm`, `kfd_ioctl_get_process_apertures_new`,
//! `kfd_ioctl_runtime_enable`). SET_MEMORY_POLICY and SET_XNACK_MODE are left out: caching comes from allocation
//! flags, and gfx10–gfx12 cannot retry faults.

use super::connection::{Process, Version, suspends};
use super::device::{Device, Exception};
use super::events::create_events;
use super::file::OpenFile;
use crate::heap::{OutOfMemory, filled, push};
use crate::memory::{AddressSpace, AddressSpaceError, Allocations};
use crate::sys::{
    AcquireVm, Aperture, Errno, GetApertures, GetVersion, Kernel, RuntimeEnable, call, call_pointed,
};
use crate::topology::{DeviceInfo, GpuKind, Node, Topology};
use alloc::vec::Vec;
use core::fmt;
use embedded_hal::delay::DelayNs;

/// Below this minor version too much is missing (AVAILABLE_MEMORY came with it).
pub const MINIMUM_MINOR: u32 = 9;

/// A step of bring-up.
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Opening `/dev/kfd`.
    OpenKfd,
    /// GET_VERSION.
    GetVersion,
    /// GET_PROCESS_APERTURES_NEW.
    Apertures,
    /// Opening `/dev/dri/renderD<N>`.
    OpenRender(u32),
    /// ACQUIRE_VM for the device of this render minor.
    AcquireVm(u32),
    /// RUNTIME_ENABLE.
    RuntimeEnable,
    /// The event page and the exception events.
    Events,
}

/// Why the process could not be brought up. `doctor` has the remedies.
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BringUpError {
    /// A system call was refused.
    Refused(Stage, Errno),
    /// The interface is too old or of another major version.
    Version(Version),
    /// No device was named, or one that is no GPU, or more than 255.
    NotAGpu,
    /// The device has no render node (its gpu id).
    NoRenderNode(u32),
    /// The kernel assigned no aperture to the device: the device cgroup hides its render node.
    NoAperture(u32),
    /// The device does not have 64-bit doorbells (what it has).
    DoorbellType(u32),
    /// No address space.
    AddressSpace(AddressSpaceError),
    /// No host memory for tables.
    OutOfMemory,
}

impl From<OutOfMemory> for BringUpError {
    fn from(_: OutOfMemory) -> Self {
        Self::OutOfMemory
    }
}

impl From<AddressSpaceError> for BringUpError {
    fn from(error: AddressSpaceError) -> Self {
        Self::AddressSpace(error)
    }
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OpenKfd => f.write_str("open /dev/kfd"),
            Self::GetVersion => f.write_str("GET_VERSION"),
            Self::Apertures => f.write_str("GET_PROCESS_APERTURES_NEW"),
            Self::OpenRender(minor) => write!(f, "open /dev/dri/renderD{minor}"),
            Self::AcquireVm(minor) => write!(f, "ACQUIRE_VM of renderD{minor}"),
            Self::RuntimeEnable => f.write_str("RUNTIME_ENABLE"),
            Self::Events => f.write_str("creating events"),
        }
    }
}

impl fmt::Display for BringUpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(stage, errno) => write!(f, "{stage}: {errno}; `doorbell doctor` tells the remedy"),
            Self::Version(version) => {
                write!(f, "KFD interface {version}: needed is 1.{MINIMUM_MINOR} or later, a newer kernel")
            }
            Self::NotAGpu => f.write_str("between 1 and 255 GPUs must be named"),
            Self::NoRenderNode(gpu) => write!(f, "GPU {gpu:#x} has no render node"),
            Self::NoAperture(gpu) => {
                write!(f, "GPU {gpu:#x} is hidden: the device cgroup denies its render node")
            }
            Self::DoorbellType(kind) => write!(f, "the GPU has doorbells of type {kind}: type 2 is needed"),
            Self::AddressSpace(error) => write!(f, "{error}"),
            Self::OutOfMemory => write!(f, "{OutOfMemory}"),
        }
    }
}

impl core::error::Error for BringUpError {}

impl<'k> Process<'k> {
    /// Opens KFD and these GPUs of the topology.
    pub fn open(kernel: &'k dyn Kernel, gpus: &[&Node]) -> Result<Self, BringUpError> {
        if gpus.is_empty() || gpus.len() > 255 || gpus.iter().any(|node| !node.is_gpu()) {
            return Err(BringUpError::NotAGpu);
        }
        let refused = |stage| move |errno| BringUpError::Refused(stage, errno);
        let kfd = OpenFile::open(kernel, "/dev/kfd").map_err(refused(Stage::OpenKfd))?;
        let version = get_version(kernel, &kfd)?;
        let apertures = get_apertures(kernel, &kfd)?;
        let (mut base, mut limit) = (0, u64::MAX);
        let mut devices = Vec::new();
        for node in gpus {
            let device = open_device(kernel, &kfd, node, &apertures)?;
            base = base.max(device.aperture.gpuvm_base);
            limit = limit.min(device.aperture.gpuvm_limit);
            push(&mut devices, device)?;
        }
        let space = AddressSpace::reserve(kernel, base, limit)?;
        let guard = kernel.guard_span(space.span());
        let (allocations, queues) = (Allocations::default(), Vec::new());
        let suspends = suspends(kernel);
        let mut process =
            Self { kernel, kfd, version, devices, guard, space, allocations, events: None, queues, suspends };
        process.runtime_enable().map_err(refused(Stage::RuntimeEnable))?;
        process.events = Some(create_events(&mut process).map_err(refused(Stage::Events))?);
        Ok(process)
    }

    /// Like [`Self::open`], but repeats for up to three seconds while KFD is locked: during a reset and around suspend
    /// opening `/dev/kfd` fails with `EAGAIN` (6.1) or `EINVAL`.
    pub fn open_patiently(
        kernel: &'k dyn Kernel,
        gpus: &[&Node],
        delay: &mut dyn DelayNs,
    ) -> Result<Self, BringUpError> {
        const STEP_MS: u32 = 50;
        for _ in 0..3000 / STEP_MS {
            match Self::open(kernel, gpus) {
                Err(BringUpError::Refused(Stage::OpenKfd, Errno::EAGAIN | Errno::EINVAL)) => {
                    delay.delay_ms(STEP_MS);
                }
                result => return result,
            }
        }
        Self::open(kernel, gpus)
    }

    /// Opens KFD and every GPU of the topology that has 64-bit doorbells and a render node.
    pub fn open_all(kernel: &'k dyn Kernel, topology: &Topology) -> Result<Self, BringUpError> {
        let mut gpus = Vec::new();
        for node in topology.devices() {
            push(&mut gpus, node)?;
        }
        Self::open(kernel, &gpus)
    }

    /// Lets the kernel forward queue exceptions to this process. Before the first queue; a second time in one
    /// address space is `EBUSY`, after a queue `EEXIST`: both mean that it is on already. TTMP saving stays off
    /// because it would turn GFXOFF off.
    fn runtime_enable(&self) -> Result<(), Errno> {
        const ENABLE: u32 = 1;
        if !self.version().has_event_age() {
            return Ok(());
        }
        let mut arg = RuntimeEnable { mode_mask: ENABLE, ..RuntimeEnable::default() };
        match call(self.kernel, self.kfd.fd(), &mut arg) {
            Err(Errno::EBUSY | Errno::EEXIST | Errno::ENOTTY) => Ok(()),
            result => result,
        }
    }
}

fn get_version(kernel: &dyn Kernel, kfd: &OpenFile<'_>) -> Result<Version, BringUpError> {
    let mut arg = GetVersion::default();
    call(kernel, kfd.fd(), &mut arg).map_err(|errno| BringUpError::Refused(Stage::GetVersion, errno))?;
    let version = Version { major: arg.major_version, minor: arg.minor_version };
    if version.major != 1 || version.minor < MINIMUM_MINOR {
        return Err(BringUpError::Version(version));
    }
    Ok(version)
}

/// Asks for the count first: more room than there are nodes is `EINVAL`.
fn get_apertures(kernel: &dyn Kernel, kfd: &OpenFile<'_>) -> Result<Vec<Aperture>, BringUpError> {
    let refused = |errno| BringUpError::Refused(Stage::Apertures, errno);
    let mut arg = GetApertures::default();
    call_pointed(kernel, kfd.fd(), &mut arg, &mut []).map_err(refused)?;
    let count = usize::try_from(arg.num_of_nodes).map_err(|_| BringUpError::OutOfMemory)?;
    let mut apertures = filled(count.min(1024), Aperture::default())?;
    if !apertures.is_empty() {
        arg.num_of_nodes = arg.num_of_nodes.min(1024);
        let bytes = bytemuck::cast_slice_mut(&mut apertures);
        call_pointed(kernel, kfd.fd(), &mut arg, bytes).map_err(refused)?;
    }
    Ok(apertures)
}

fn open_device<'k>(
    kernel: &'k dyn Kernel,
    kfd: &OpenFile<'k>,
    node: &Node,
    apertures: &[Aperture],
) -> Result<Device<'k>, BringUpError> {
    use fmt::Write;
    let gpu_id = node.gpu_id;
    if node.doorbell_type() != 2 {
        return Err(BringUpError::DoorbellType(node.doorbell_type()));
    }
    let minor = node.render_minor().ok_or(BringUpError::NoRenderNode(gpu_id))?;
    let aperture = apertures.iter().find(|aperture| aperture.gpu_id == gpu_id);
    let aperture = *aperture.ok_or(BringUpError::NoAperture(gpu_id))?;
    let mut path = heapless::String::<40>::new();
    write!(path, "/dev/dri/renderD{minor}").map_err(|_| BringUpError::NoRenderNode(gpu_id))?;
    let render = OpenFile::open(kernel, &path)
        .map_err(|errno| BringUpError::Refused(Stage::OpenRender(minor), errno))?;
    let drm_fd = render.fd().raw().cast_unsigned();
    call(kernel, kfd.fd(), &mut AcquireVm { drm_fd, gpu_id })
        .map_err(|errno| BringUpError::Refused(Stage::AcquireVm(minor), errno))?;
    let info = DeviceInfo::query(kernel, render.fd()).ok();
    let kind = GpuKind::of(node.isa(), info.as_ref());
    let node = node.clone();
    Ok(Device {
        node,
        kind,
        info,
        render,
        aperture,
        doorbells: None,
        guard: None,
        mmio: None,
        trap: None,
        lost: false,
        exception: Exception::default(),
    })
}
