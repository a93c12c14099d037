//! Known lines of the kernel log. The host reads the log, which often needs privileges.
//!
//! Source: `amdkfd/kfd_module.c`, `kfd_device.c:kgd2kfd_device_init`, `amdgpu/amdgpu_device.c`,
//! `firmware_loader/main.c`.

use core::fmt;

/// Something the kernel has said about the GPU.
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogHint {
    /// KFD did not start.
    KfdDisabled,
    /// A firmware file is not there.
    FirmwareMissing,
    /// amdgpu gave up on a device.
    InitFailed,
    /// KFD does not know the chip.
    NotSupported,
    /// The slot lacks PCIe atomics, which this firmware needs.
    NoAtomics,
    /// SELinux denied something about a device node.
    SelinuxDenied,
    /// The scheduler firmware does not answer.
    SchedulerHangs,
    /// A GPU page fault.
    PageFault,
}

const LINES: &[(&str, &str, LogHint)] = &[
    ("KFD is disabled due to module initialization failure", "", LogHint::KfdDisabled),
    ("Direct firmware load for amdgpu/", "failed", LogHint::FirmwareMissing),
    ("Fatal error during GPU init", "", LogHint::InitFailed),
    ("not supported in kfd", "", LogHint::NotSupported),
    ("PCI rejects atomics", "", LogHint::NoAtomics),
    ("avc:", "denied", LogHint::SelinuxDenied),
    ("MES failed to respond", "", LogHint::SchedulerHangs),
    ("[gfxhub] page fault", "", LogHint::PageFault),
];

impl LogHint {
    /// The part of the line that it was known by.
    pub fn line(self) -> &'static str {
        LINES.iter().find(|row| row.2 == self).map_or("", |row| row.0)
    }

    /// Its meaning and the remedy.
    pub fn text(self) -> &'static str {
        match self {
            Self::KfdDisabled => "KFD failed to initialize: look above that line in dmesg for the reason",
            Self::FirmwareMissing => {
                "firmware of this chip is missing: install linux-firmware (gc_*, psp_*, sdma_*, smu_*, dcn_*, mes*) \
                 and reboot"
            }
            Self::InitFailed => {
                "amdgpu gave up on the device: reboot after mending, do not reload the module"
            }
            Self::NotSupported => "this kernel's KFD does not know the chip: use a newer kernel",
            Self::NoAtomics => {
                "the slot has no PCIe atomics and the firmware needs them: update linux-firmware or use another slot"
            }
            Self::SelinuxDenied => {
                "SELinux denies the device node: `setsebool -P container_use_devices 1`, or run the container with \
                 `--security-opt label=disable`"
            }
            Self::SchedulerHangs => {
                "the scheduler firmware hangs: update or revert linux-firmware and reboot"
            }
            Self::PageFault => "a GPU program has touched unmapped memory since boot",
        }
    }
}

impl fmt::Display for LogHint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

/// The known lines that occur in a kernel log, each once, in the table's order.
pub fn hints(log: &[u8]) -> impl Iterator<Item = LogHint> {
    let contains = |line: &[u8], text: &str| {
        text.is_empty() || line.windows(text.len()).any(|window| window == text.as_bytes())
    };
    LINES.iter().filter_map(move |&(first, second, hint)| {
        let mut lines = log.split(|&byte| byte == b'\n');
        lines.any(|line| contains(line, first) && contains(line, second)).then_some(hint)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn lines_are_found_among_others() {
        let log = b"[    1.0] amdgpu 0000:03:00.0: Direct firmware load for amdgpu/gc_11_0_0_pfp.bin failed with error -2\n\
                    [    1.1] audit: avc:  granted\n[    1.2] amdgpu 0000:03:00.0: amdgpu: Fatal error during GPU init\n";
        let found: Vec<_> = hints(log).collect();
        assert_eq!(found, [LogHint::FirmwareMissing, LogHint::InitFailed]);
        assert_eq!(hints(b"\xff\xfe").count(), 0);
    }
}
