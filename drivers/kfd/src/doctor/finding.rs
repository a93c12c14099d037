//! One finding: what was seen, how bad it is, and the exact thing to do.

use super::access::Access;
use super::kernel_log::LogHint;
use crate::process::Version;
use crate::sys::Errno;
use crate::topology::{Budget, Isa, NodeIndex, PciAddress};
use core::fmt;

/// Severity of a finding.
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Good to know.
    Note,
    /// Works, but worse than it could.
    Warning,
    /// Cannot be used.
    Fatal,
}

/// A finding.
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Finding {
    /// There is no AMD GPU in this machine.
    NoGpu,
    /// An AMD GPU is on the bus and amdgpu is not loaded.
    ModuleNotLoaded,
    /// The same, because a word of the kernel's command line or a file forbids it.
    Blacklisted(heapless::String<64>),
    /// amdgpu is loaded without KFD.
    KfdNotBuilt,
    /// `/sys/class/kfd` is there and `/dev/kfd` is not.
    NodeMissing {
        /// Inside a container.
        in_container: bool,
    },
    /// A device node may not be opened.
    NotPermitted {
        /// The node.
        access: Access,
        /// Inside a container.
        in_container: bool,
    },
    /// Permission bits are right and the open is refused all the same, with SELinux enforcing.
    Selinux(Access),
    /// `EPERM`: the device cgroup or a seccomp filter, or a 32-bit program (then `true`).
    Denied {
        /// 32-bit program.
        is_32_bit: bool,
    },
    /// The kernel refuses `/dev/kfd` and there is a GPU node: a reset or suspend is going on.
    Resetting(Errno),
    /// The kernel refuses `/dev/kfd` because it has no usable GPU.
    NoUsableGpu(Errno),
    /// `/dev/kfd` cannot be opened for another reason.
    OpenFailed(Errno),
    /// An AMD GPU is on the bus and amdgpu did not bring it up.
    NotInitialized(PciAddress),
    /// amdgpu runs the GPU and KFD has no node for it.
    NoNode(PciAddress),
    /// The device cgroup hides a GPU node.
    Hidden(NodeIndex),
    /// A render node cannot be opened.
    RenderFailed(u32, Errno),
    /// The interface is older than needed at all.
    TooOld {
        /// The kernel's version.
        version: Version,
        /// The minor version that is needed.
        minor: u32,
    },
    /// The interface lacks what makes waiting cheap.
    Degraded(Version),
    /// The kernel is older than what is recommended for this chip.
    OldForChip {
        /// The chip.
        isa: Isa,
        /// The kernel's version.
        version: Version,
        /// The minor version recommended.
        minor: u32,
    },
    /// There are no kernels for this chip.
    NoKernels(Isa),
    /// The chip runs kernels made for another.
    Relative(Isa, Isa),
    /// The doorbells are not 64-bit.
    Doorbells(NodeIndex),
    /// The CPU does not reach all of the card's memory.
    SmallBar(NodeIndex),
    /// A model does not fit what may be allocated.
    TooSmall {
        /// Bytes wanted.
        wanted: u64,
        /// The memory that the device has.
        budget: Budget,
    },
    /// The scheduler firmware of this device is known to hang under load.
    BadScheduler(NodeIndex, u32),
    /// A module parameter has a value that changes how compute works.
    Parameter(&'static str, i64),
    /// Another runtime in this program has the device's address space.
    OtherRuntime,
    /// No addresses could be reserved.
    AddressSpace,
    /// A queue could not be created, with the requested sizes and those that sysfs states.
    QueueRefused {
        /// The answer.
        errno: Errno,
        /// Requested save area and control stack.
        asked: (u32, u32),
        /// The same in sysfs; 0 = not stated.
        stated: (u64, u64),
    },
    /// A system call was refused in a way that has no row of its own.
    Call(&'static str, Errno),
    /// A line of the kernel log.
    Log(LogHint),
}

impl Finding {
    /// Its severity.
    pub fn severity(&self) -> Severity {
        match self {
            Self::Relative(..) | Self::SmallBar(_) => Severity::Note,
            Self::Degraded(_)
            | Self::OldForChip { .. }
            | Self::NoKernels(_)
            | Self::Hidden(_)
            | Self::BadScheduler(..)
            | Self::Parameter(..)
            | Self::TooSmall { .. }
            | Self::Log(_) => Severity::Warning,
            _ => Severity::Fatal,
        }
    }

    /// The remedy, in one line.
    pub fn remedy(&self) -> Remedy<'_> {
        Remedy(self)
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoGpu => f.write_str("no AMD GPU in this machine"),
            Self::ModuleNotLoaded => f.write_str("the amdgpu module is not loaded"),
            Self::Blacklisted(by) => write!(f, "the amdgpu module is kept from loading by {by}"),
            Self::KfdNotBuilt => {
                f.write_str("amdgpu is loaded, but neither /dev/kfd nor /sys/class/kfd is there")
            }
            Self::NodeMissing { .. } => f.write_str("the kernel has KFD, but /dev/kfd is not there"),
            Self::NotPermitted { access, .. } => write!(f, "no permission: {access}"),
            Self::Selinux(access) => write!(f, "{access}, which allows us, and SELinux refuses"),
            Self::Denied { is_32_bit: true } => f.write_str("KFD refuses 32-bit programs"),
            Self::Denied { .. } => {
                f.write_str("a device cgroup, seccomp filter or security module denies /dev/kfd")
            }
            Self::Resetting(errno) => write!(f, "KFD is locked: {errno} while a GPU node exists"),
            Self::NoUsableGpu(errno) => write!(f, "KFD has no usable GPU: open /dev/kfd gives {errno}"),
            Self::OpenFailed(errno) => write!(f, "open /dev/kfd: {errno}"),
            Self::NotInitialized(pci) => {
                write!(f, "the GPU at {pci} is on the bus, but amdgpu did not bring it up")
            }
            Self::NoNode(pci) => write!(f, "the GPU at {pci} runs, but KFD does not offer it"),
            Self::Hidden(node) => write!(f, "{node} is hidden by the device cgroup"),
            Self::RenderFailed(minor, errno) => write!(f, "open /dev/dri/renderD{minor}: {errno}"),
            Self::TooOld { version, minor } => write!(f, "KFD interface {version}, needed is 1.{minor}"),
            Self::Degraded(version) => write!(f, "KFD interface {version}: waiting for the GPU must poll"),
            Self::OldForChip { isa, version, minor } => {
                write!(f, "KFD interface {version}; 1.{minor} or later is recommended for {isa}")
            }
            Self::NoKernels(isa) => write!(f, "there are no kernels for {isa}"),
            Self::Relative(isa, other) => write!(f, "{isa} runs kernels made for {other}"),
            Self::Doorbells(node) => write!(f, "{node} has no 64-bit doorbells"),
            Self::SmallBar(node) => write!(f, "{node}: the CPU does not reach all of the card's memory"),
            Self::TooSmall { wanted, budget } => write!(f, "{} MiB wanted: {budget}", wanted >> 20),
            Self::BadScheduler(node, version) => {
                write!(f, "{node}: MES firmware {version:#x} is known to hang under load")
            }
            Self::Parameter(name, value) => write!(f, "amdgpu.{name}={value} is not the default"),
            Self::OtherRuntime => f.write_str("another GPU runtime in this program owns the device"),
            Self::AddressSpace => f.write_str("no address space could be reserved"),
            Self::QueueRefused { errno, asked, stated } => write!(
                f,
                "CREATE_QUEUE: {errno}; save area {:#x} and control stack {:#x} asked, sysfs {:#x} and {:#x}",
                asked.0, asked.1, stated.0, stated.1
            ),
            Self::Call(what, errno) => write!(f, "{what}: {errno}"),
            Self::Log(hint) => write!(f, "the kernel's log has \"{}\"", hint.line()),
        }
    }
}

/// Prints what to do about a finding; empty where nothing can be done.
#[derive(Clone, Copy, Debug)]
pub struct Remedy<'a>(&'a Finding);

impl fmt::Display for Remedy<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Finding::NotPermitted { access, in_container } => permission(f, access, *in_container),
            Finding::RenderFailed(minor, _) => {
                write!(f, "the same groups as for /dev/kfd must own renderD{minor}; in a container pass --device=/dev/dri")
            }
            Finding::TooSmall { budget, .. } => match budget.first.decisive().rule {
                crate::topology::Rule::TtmLimit | crate::topology::Rule::GttSize => f.write_str(
                    "raise `ttm.pages_limit` on the kernel command line (pages of 4 KiB) and reboot, with the BIOS \
                     carve-out at its minimum",
                ),
                crate::topology::Rule::MemAvailable => f.write_str("end other programs, or take a smaller model"),
                _ => f.write_str("take a smaller model or a smaller context"),
            },
            Finding::Log(hint) => f.write_str(hint.text()),
            finding => f.write_str(fixed(finding)),
        }
    }
}

fn permission(f: &mut fmt::Formatter<'_>, access: &Access, in_container: bool) -> fmt::Result {
    if in_container {
        write!(
            f,
            "podman: --group-add keep-groups; docker: --group-add {} (names differ between images)",
            access.gid
        )
    } else if access.gid == 0 {
        f.write_str("no udev rule gave the node to a group: install your distribution's udev rules, or `chgrp render`")
    } else if access.group.is_empty() {
        write!(f, "add yourself to group {} and log in again", access.gid)
    } else {
        write!(f, "`sudo usermod -aG {} $USER` and log in again", access.group)
    }
}

fn fixed(finding: &Finding) -> &'static str {
    match finding {
        Finding::ModuleNotLoaded => {
            "`sudo modprobe amdgpu`; the kernel needs CONFIG_DRM_AMDGPU and CONFIG_HSA_AMD"
        }
        Finding::Blacklisted(_) => "take it out, make the initramfs anew if it is in a file, and reboot",
        Finding::KfdNotBuilt => {
            "use a kernel with CONFIG_HSA_AMD; if it has it, dmesg says why KFD was disabled"
        }
        Finding::NodeMissing { in_container: true } => {
            "run the container with --device=/dev/kfd --device=/dev/dri"
        }
        Finding::NodeMissing { .. } => "udev or devtmpfs did not make the node: is /dev complete?",
        Finding::Selinux(_) => "`sudo setsebool -P container_use_devices 1`, or --security-opt label=disable",
        Finding::Denied { is_32_bit: true } => "use the 64-bit program",
        Finding::Denied { .. } => {
            "allow the devices to the container or unit (DeviceAllow=/dev/kfd rw, --device=/dev/kfd)"
        }
        Finding::Resetting(_) => "wait some seconds and try again; if it stays, look at dmesg and reboot",
        Finding::NoUsableGpu(_) => {
            "dmesg says why amdgpu or KFD refused the GPU; without an AMD GPU use --device cpu"
        }
        Finding::NotInitialized(_) => {
            "dmesg names the missing firmware: install linux-firmware for the chip and reboot"
        }
        Finding::NoNode(_) => {
            "the kernel is too old for the chip, or the slot has no PCIe atomics and the firmware needs them: see dmesg"
        }
        Finding::Hidden(_) => "allow its render node too: --device=/dev/dri, or DeviceAllow=char-drm rw",
        Finding::TooOld { .. } | Finding::OldForChip { .. } | Finding::Degraded(_) => "use a newer kernel",
        Finding::SmallBar(_) => "enable Resizable BAR (Above 4G Decoding) in the firmware set-up",
        Finding::BadScheduler(..) => {
            "use another linux-firmware release, or put an older blob into /lib/firmware/updates"
        }
        Finding::Parameter(..) => {
            "remove it from the kernel command line and /etc/modprobe.d unless you need it"
        }
        Finding::OtherRuntime => "only one GPU runtime may be in a program: restart it",
        Finding::AddressSpace => "`ulimit -v unlimited`",
        Finding::QueueRefused { .. } => {
            "`echo 'file kfd_queue.c +p' | sudo tee /sys/kernel/debug/dynamic_debug/control`, try again, see dmesg"
        }
        _ => "",
    }
}
