//! The choice of the device that runs the model: the values of `--device`, and the resolution of `auto`.
//!
//! Not here: the backend on the device (`crate::backend`), and the list of all devices (`crate::machine`).

use core::fmt;
use core::str::FromStr;
use doorbell_gpu::chip::kernel_support;
use doorbell_kfd::doctor::{ExamineInputs, examine};
use doorbell_kfd::sys::{Kernel, Linux};
use doorbell_kfd::topology::{KernelSupport, choose};
use doorbell_soft::kernel::{Chip, Injection};

/// A device as the user names it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum DeviceRequest {
    /// The best usable device.
    #[default]
    Auto,
    /// The host's processor.
    Cpu,
    /// An AMD GPU through `/dev/kfd`, the first or the one with this number.
    Kfd(Option<u32>),
    /// The software GPU, of the default or the named architecture.
    Soft(Option<String>),
}

impl fmt::Display for DeviceRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Cpu => f.write_str("cpu"),
            Self::Kfd(None) => f.write_str("kfd"),
            Self::Kfd(Some(number)) => write!(f, "kfd:{number}"),
            Self::Soft(None) => f.write_str("soft"),
            Self::Soft(Some(architecture)) => write!(f, "soft:{architecture}"),
        }
    }
}

impl FromStr for DeviceRequest {
    type Err = DeviceError;

    fn from_str(text: &str) -> Result<Self, DeviceError> {
        let unknown = || DeviceError::Unknown { text: text.to_owned() };
        let (kind, which) = text.split_once(':').map_or((text, None), |(kind, which)| (kind, Some(which)));
        match (kind, which) {
            ("auto", None) => Ok(Self::Auto),
            ("cpu", None) => Ok(Self::Cpu),
            ("kfd", None) => Ok(Self::Kfd(None)),
            ("kfd", Some(number)) => Ok(Self::Kfd(Some(number.parse().map_err(|_| unknown())?))),
            ("soft", None) => Ok(Self::Soft(None)),
            ("soft", Some(name)) if !name.is_empty() => Ok(Self::Soft(Some(name.to_owned()))),
            _ => Err(unknown()),
        }
    }
}

/// A fault that a software GPU injects after a number of doorbells, or of allocations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FaultInjection {
    /// The fault.
    pub fault: InjectedFault,
    /// Doorbells or allocations before it.
    pub after: u32,
}

/// Faults that a software GPU can inject.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InjectedFault {
    /// Device memory is refused.
    NoMemory,
    /// The GPU is reset.
    Reset,
    /// The GPU stops. A hang is then detected after half a second instead of ten.
    Hang,
    /// The GPU accesses an address that is not mapped.
    PageFault,
}

/// Their names on the command line.
const FAULT_NAMES: [(&str, InjectedFault); 4] = [
    ("no-memory", InjectedFault::NoMemory),
    ("reset", InjectedFault::Reset),
    ("hang", InjectedFault::Hang),
    ("page-fault", InjectedFault::PageFault),
];

impl FaultInjection {
    fn parse(word: &str, after: &str) -> Option<Self> {
        let (_, fault) = FAULT_NAMES.into_iter().find(|(name, _)| *name == word)?;
        Some(Self { fault, after: after.parse().ok()? })
    }

    /// Sets the fault in the software kernel's injection.
    pub(crate) fn inject(self, state: &mut Injection) {
        let counter = match self.fault {
            InjectedFault::NoMemory => &mut state.allocations_left,
            InjectedFault::Reset => &mut state.reset_after,
            InjectedFault::Hang => &mut state.hang_after,
            InjectedFault::PageFault => &mut state.fault_after,
        };
        *counter = Some(self.after);
    }
}

impl fmt::Display for FaultInjection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = FAULT_NAMES.iter().find(|(_, fault)| *fault == self.fault).map_or("", |(name, _)| name);
        write!(f, "{name}={}", self.after)
    }
}

/// A device that can run a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Device {
    /// The host's processor.
    Cpu,
    /// The GPU with this number among those that can be opened.
    Kfd(u32),
    /// A software GPU; with `strict` it checks every access and is many times slower.
    Soft {
        /// The emulated chip.
        chip: Chip,
        /// True if the sanitizers are on.
        strict: bool,
        /// A fault that it injects.
        injection: Option<FaultInjection>,
    },
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cpu => f.write_str("cpu"),
            Self::Kfd(number) => write!(f, "kfd:{number}"),
            Self::Soft { chip, strict, injection } => {
                write!(f, "soft:{}{}", chip.target.name(), if *strict { ",strict" } else { "" })?;
                injection.map_or(Ok(()), |injection| write!(f, ",{injection}"))
            }
        }
    }
}

/// A device and, if it wasn't named, the reason for the choice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceChoice {
    /// The device.
    pub device: Device,
    /// One line for the user; `None` if the device was named.
    pub reason: Option<String>,
}

/// Reason why a device can't be used.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DeviceError {
    /// The name is not that of a device.
    Unknown {
        /// The given name.
        text: String,
    },
    /// There is no software GPU of this chip.
    Chip {
        /// The requested chip.
        name: String,
    },
    /// An unknown option after the name of a software GPU.
    Option {
        /// The option.
        option: String,
    },
    /// The GPU can't be used.
    Kfd {
        /// The requested device.
        request: DeviceRequest,
        /// The reason.
        reason: String,
    },
}

impl fmt::Display for DeviceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown { text } => {
                write!(
                    f,
                    "no device is called \"{text}\"; use auto, cpu, kfd, kfd:N, soft or soft:GFX[,strict]"
                )
            }
            Self::Chip { name } => {
                write!(f, "no software GPU is called \"{name}\"; `doorbell devices` lists them")
            }
            Self::Option { option } => {
                write!(f, "a software GPU has no option \"{option}\"; use strict, vram=MIB")?;
                FAULT_NAMES.iter().try_for_each(|(name, _)| write!(f, ", {name}=N"))
            }
            Self::Kfd { request, reason } => write!(f, "device {request} can't be used: {reason}"),
        }
    }
}

impl core::error::Error for DeviceError {}

impl DeviceRequest {
    /// The device to use. If a named device can't be used, that is an error; it is never replaced by another one.
    ///
    /// # Errors
    ///
    /// The device isn't there or can't be used.
    pub fn resolve(&self) -> Result<DeviceChoice, DeviceError> {
        self.resolve_on(&Linux)
    }

    /// As [`Self::resolve`], on the machine of the given kernel.
    fn resolve_on(&self, kernel: &dyn Kernel) -> Result<DeviceChoice, DeviceError> {
        let named = |device| Ok(DeviceChoice { device, reason: None });
        match self {
            Self::Cpu => named(Device::Cpu),
            Self::Auto => Ok(automatic(kernel)),
            Self::Soft(name) => named(software(name.as_deref().unwrap_or(SOFT))?),
            Self::Kfd(number) => match gpu(kernel, *number) {
                Ok((number, _)) => named(Device::Kfd(number)),
                Err(reason) => Err(DeviceError::Kfd { request: self.clone(), reason }),
            },
        }
    }
}

/// The software GPU that is used if no chip is named.
const SOFT: &str = "gfx1100";

/// The software GPU of a chip name and comma-separated options.
fn software(name: &str) -> Result<Device, DeviceError> {
    let mut options = name.split(',');
    let chip = options.next().and_then(doorbell_soft::kernel::chip);
    let mut chip = chip.ok_or_else(|| DeviceError::Chip { name: name.to_owned() })?;
    let (mut strict, mut injection) = (false, None);
    for option in options {
        let unknown = || DeviceError::Option { option: option.to_owned() };
        match option.split_once('=') {
            None if option == "strict" => strict = true,
            Some(("vram", mib)) => {
                let mib: u32 = mib.parse().map_err(|_| unknown())?;
                chip.vram = u64::from(mib) << 20;
            }
            Some((fault, after)) => {
                injection = Some(FaultInjection::parse(fault, after).ok_or_else(unknown)?)
            }
            None => return Err(unknown()),
        }
    }
    Ok(Device::Soft { chip, strict, injection })
}

/// A GPU if one can be used, otherwise the host's processor.
fn automatic(kernel: &dyn Kernel) -> DeviceChoice {
    let cpu = |reason: String| DeviceChoice { device: Device::Cpu, reason: Some(reason) };
    if kernel.stat("/dev/kfd").is_err() {
        return cpu("no /dev/kfd, so the CPU runs the model".into());
    }
    match gpu(kernel, None) {
        Ok((number, reason)) => DeviceChoice { device: Device::Kfd(number), reason: Some(reason) },
        Err(reason) => cpu(format!("{reason}; so the CPU runs the model")),
    }
}

/// The number and description of a usable GPU, or the reason why none can be used.
fn gpu(kernel: &dyn Kernel, number: Option<u32>) -> Result<(u32, String), String> {
    let seen = examine(kernel, ExamineInputs { kernel_support, ..ExamineInputs::default() })
        .map_err(|error| error.to_string())?;
    let worst = seen.findings.iter().find(|finding| Some(finding.severity()) == seen.worst());
    let worst = worst.map_or_else(|| "no GPU can be used".into(), ToString::to_string);
    let unusable = || format!("{worst}; `doorbell doctor` shows details");
    let nodes = || seen.topology.iter().flat_map(|topology| topology.devices());
    match number {
        None => {
            let choice = choose(&seen.devices).ok_or_else(unusable)?;
            let number = nodes().position(|node| node.gpu_id == choice.device.gpu_id);
            let number = number.and_then(|number| u32::try_from(number).ok());
            Ok((number.ok_or_else(unusable)?, choice.to_string()))
        }
        Some(number) => {
            let absent = || match nodes().count() {
                0 => unusable(),
                count => format!("the last one is kfd:{}; `doorbell devices` lists them", count - 1),
            };
            let node = nodes().nth(number as usize).ok_or_else(absent)?;
            let isa = node.isa();
            if kernel_support(isa) == KernelSupport::None {
                return Err(format!("there are no kernels for {isa}; use --device cpu"));
            }
            Ok((number, isa.to_string()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::{Host, Verdict};
    use doorbell_soft::kernel::{Machine, Release, SoftKernel};
    use doorbell_soft::processor::Options;

    #[test]
    fn names_and_devices_agree() {
        for text in ["auto", "cpu", "kfd", "kfd:3", "soft", "soft:gfx1151"] {
            assert_eq!(text.parse::<DeviceRequest>().unwrap().to_string(), text);
        }
        for text in ["", "gpu", "cpu:1", "kfd:", "kfd:x", "kfd:-1", "soft:", "auto:", "CPU"] {
            assert_eq!(text.parse::<DeviceRequest>(), Err(DeviceError::Unknown { text: text.into() }));
        }
    }

    #[test]
    fn a_named_device_is_never_replaced() {
        assert_eq!(DeviceRequest::Cpu.resolve(), Ok(DeviceChoice { device: Device::Cpu, reason: None }));
        assert!(DeviceRequest::Auto.resolve().unwrap().reason.is_some());
        let error = DeviceRequest::Kfd(Some(99)).resolve().unwrap_err();
        assert!(error.to_string().starts_with("device kfd:99 can't be used: "), "{error}");
        let canonical = "soft:gfx1151,strict,reset=20";
        for (name, device) in [("soft", "soft:gfx1100"), ("soft:8060S,vram=9,reset=20,strict", canonical)] {
            let choice = name.parse::<DeviceRequest>().unwrap().resolve().unwrap();
            assert_eq!((choice.device.to_string().as_str(), choice.reason), (device, None));
        }
        let refusal = |name: &str| name.parse::<DeviceRequest>().unwrap().resolve().unwrap_err();
        for name in ["soft:gfx900", "soft:,strict"] {
            assert!(matches!(refusal(name), DeviceError::Chip { .. }), "{name}");
        }
        for option in ["lax", "", "vram=-1", "vram", "reset", "reset=", "hang=x", "fire=1"] {
            let refusal = refusal(&format!("soft:gfx1100,{option}"));
            assert_eq!(refusal, DeviceError::Option { option: option.into() });
            assert!(refusal.to_string().contains("use strict, vram=MIB, no-memory=N, reset=N"), "{refusal}");
        }
    }

    /// A chip of `CHIPS` with another version number.
    fn with_version(version: u32) -> Chip {
        Chip { version, ..doorbell_soft::kernel::chip("gfx1100").unwrap() }
    }

    fn kernel(chips: &[Chip]) -> SoftKernel {
        let machine = Machine::new(Release::V6_12, 64 << 30, chips);
        SoftKernel::new(machine, &Options::default()).unwrap()
    }

    fn resolved(chips: &[Chip], request: &str) -> Result<DeviceChoice, DeviceError> {
        let kernel = kernel(chips);
        let choice = request.parse::<DeviceRequest>().unwrap().resolve_on(&kernel);
        assert_eq!(kernel.held(), (0, 0, 0), "resolving leaves nothing open");
        choice
    }

    #[test]
    fn without_a_gpu_the_cpu_is_used_with_a_reason() {
        let choice = resolved(&[], "auto").unwrap();
        assert_eq!(choice.device, Device::Cpu);
        assert!(choice.reason.unwrap().ends_with("so the CPU runs the model"));
        let error = resolved(&[], "kfd").unwrap_err();
        assert!(
            error.to_string().starts_with("device kfd can't be used: no AMD GPU in this machine"),
            "{error}"
        );
    }

    #[test]
    fn a_chip_without_kernels_leaves_the_model_to_the_cpu() {
        for (version, name) in [(90_010, "gfx90a"), (100_300, "gfx1030")] {
            let message = format!("there are no kernels for {name}");
            let choice = resolved(&[with_version(version)], "auto").unwrap();
            assert_eq!(choice.device, Device::Cpu);
            let reason = choice.reason.unwrap();
            assert_eq!(
                reason,
                format!("{message}; `doorbell doctor` shows details; so the CPU runs the model")
            );
            for request in ["kfd", "kfd:0"] {
                let error = resolved(&[with_version(version)], request).unwrap_err().to_string();
                assert!(
                    error.starts_with(&format!("device {request} can't be used: {message}; ")),
                    "{error}"
                );
            }
            let kernel = kernel(&[with_version(version)]);
            let host = Host { threads: 1, extensions: "", memory: None };
            let machine = crate::machine::Machine::read_from(&kernel, host, &[], None).unwrap();
            assert_eq!(machine.diagnosis().verdict(), Verdict::Unusable);
            assert!(machine.diagnosis().to_string().contains(&message));
            // A chip with kernels is used even if it is not the first one.
            let choice = resolved(&[with_version(version), with_version(110_000)], "auto").unwrap();
            assert_eq!(choice.device, Device::Kfd(1));
            assert_eq!(
                resolved(&[with_version(version), with_version(110_000)], "kfd:1").unwrap().device,
                Device::Kfd(1)
            );
            assert!(resolved(&[with_version(version), with_version(110_000)], "kfd:0").is_err());
            let error =
                resolved(&[with_version(version), with_version(110_000)], "kfd:2").unwrap_err().to_string();
            assert!(error.contains("the last one is kfd:1"), "{error}");
        }
    }
}
