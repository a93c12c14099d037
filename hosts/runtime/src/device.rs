//! Which device runs the model: the words of `--device`, and what `auto` makes of the machine.

use core::fmt;
use core::str::FromStr;
use doorbell_kfd::doctor::{ExamineInputs, examine};
use doorbell_kfd::sys::{Kernel, Linux};
use doorbell_kfd::topology::choose;
use doorbell_soft::kernel::{Chip, Injection};

/// What the user asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum DeviceRequest {
    /// The best that's there.
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

/// What a software GPU does wrong, to see what comes of it: after so many doorbells, or calls for memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drill {
    /// What.
    pub fault: DrilledFault,
    /// After how many.
    pub after: u32,
}

/// Faults that can be had on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DrilledFault {
    /// Device memory is refused.
    NoMemory,
    /// The GPU is reset.
    Reset,
    /// The GPU stops. Such a one counts as hanging after half a second, not after ten.
    Hang,
    /// The GPU meets an address that nothing is mapped at.
    PageFault,
}

/// The words for them.
const DRILLS: [(&str, DrilledFault); 4] = [
    ("no-memory", DrilledFault::NoMemory),
    ("reset", DrilledFault::Reset),
    ("hang", DrilledFault::Hang),
    ("page-fault", DrilledFault::PageFault),
];

impl Drill {
    fn parse(word: &str, after: &str) -> Option<Self> {
        let (_, fault) = DRILLS.into_iter().find(|(name, _)| *name == word)?;
        Some(Self { fault, after: after.parse().ok()? })
    }

    /// What the software kernel has to be told.
    pub(crate) fn inject(self, injection: &mut Injection) {
        let place = match self.fault {
            DrilledFault::NoMemory => &mut injection.allocations_left,
            DrilledFault::Reset => &mut injection.reset_after,
            DrilledFault::Hang => &mut injection.hang_after,
            DrilledFault::PageFault => &mut injection.fault_after,
        };
        *place = Some(self.after);
    }
}

impl fmt::Display for Drill {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = DRILLS.iter().find(|(_, fault)| *fault == self.fault).map_or("", |(name, _)| name);
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
    /// A software GPU; `strict` watches every access and is many times slower.
    Soft {
        /// The chip that it pretends to be.
        chip: Chip,
        /// Sanitizers on.
        strict: bool,
        /// What goes wrong.
        drill: Option<Drill>,
    },
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cpu => f.write_str("cpu"),
            Self::Kfd(number) => write!(f, "kfd:{number}"),
            Self::Soft { chip, strict, drill } => {
                write!(f, "soft:{}{}", chip.target.name(), if *strict { ",strict" } else { "" })?;
                drill.map_or(Ok(()), |drill| write!(f, ",{drill}"))
            }
        }
    }
}

/// A device and, if it wasn't named, why it was taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The device.
    pub device: Device,
    /// One line for the user; `None` if the device was named.
    pub reason: Option<String>,
}

/// Why a device can't be used.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DeviceError {
    /// The words name no kind of device.
    Unknown {
        /// What was given.
        text: String,
    },
    /// No software GPU pretends to be this chip.
    Chip {
        /// What was asked for.
        name: String,
    },
    /// A word behind the name of a software GPU means nothing.
    Word {
        /// The word.
        word: String,
    },
    /// The GPU can't be used.
    Kfd {
        /// What was asked for.
        request: DeviceRequest,
        /// What keeps it from being used.
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
            Self::Word { word } => {
                write!(f, "\"{word}\" says nothing about a software GPU; use strict, vram=MIB")?;
                DRILLS.iter().try_for_each(|(name, _)| write!(f, ", {name}=N"))
            }
            Self::Kfd { request, reason } => write!(f, "device {request} can't be used: {reason}"),
        }
    }
}

impl core::error::Error for DeviceError {}

impl DeviceRequest {
    /// The device to use. One that was named and can't be used is an error, never silently another one.
    ///
    /// # Errors
    ///
    /// The device isn't there or can't be used.
    pub fn resolve(&self) -> Result<Choice, DeviceError> {
        self.resolve_on(&Linux)
    }

    /// As [`Self::resolve`], on the machine that a kernel shows.
    fn resolve_on(&self, kernel: &dyn Kernel) -> Result<Choice, DeviceError> {
        let named = |device| Ok(Choice { device, reason: None });
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

/// The software GPU that is taken when none is named.
const SOFT: &str = "gfx1100";

/// A software GPU by its chip, and what is said of it between commas.
fn software(name: &str) -> Result<Device, DeviceError> {
    let mut words = name.split(',');
    let chip = words.next().and_then(doorbell_soft::kernel::chip);
    let mut chip = chip.ok_or_else(|| DeviceError::Chip { name: name.to_owned() })?;
    let (mut strict, mut drill) = (false, None);
    for word in words {
        let unknown = || DeviceError::Word { word: word.to_owned() };
        match word.split_once('=') {
            None if word == "strict" => strict = true,
            Some(("vram", mib)) => {
                let mib: u32 = mib.parse().map_err(|_| unknown())?;
                chip.vram = u64::from(mib) << 20;
            }
            Some((fault, after)) => drill = Some(Drill::parse(fault, after).ok_or_else(unknown)?),
            None => return Err(unknown()),
        }
    }
    Ok(Device::Soft { chip, strict, drill })
}

/// A GPU if there is a usable one, or else the processor.
fn automatic(kernel: &dyn Kernel) -> Choice {
    let cpu = |reason: String| Choice { device: Device::Cpu, reason: Some(reason) };
    if kernel.stat("/dev/kfd").is_err() {
        return cpu("no /dev/kfd, so the CPU runs the model".into());
    }
    match gpu(kernel, None) {
        Ok((number, reason)) => Choice { device: Device::Kfd(number), reason: Some(reason) },
        Err(reason) => cpu(format!("{reason}; so the CPU runs the model")),
    }
}

/// The number of a GPU that can be used and what it is, or why it can't.
fn gpu(kernel: &dyn Kernel, number: Option<u32>) -> Result<(u32, String), String> {
    let seen =
        examine(kernel, ExamineInputs { log: &[], model_bytes: None }).map_err(|error| error.to_string())?;
    let worst = seen.findings.iter().find(|finding| Some(finding.severity()) == seen.worst());
    let worst = worst.map_or_else(|| "no GPU can be used".into(), ToString::to_string);
    let told = || format!("{worst}; `doorbell doctor` tells more");
    let nodes = || seen.topology.iter().flat_map(|topology| topology.devices());
    match number {
        None => {
            let choice = choose(&seen.devices).ok_or_else(told)?;
            let place = nodes().position(|node| node.gpu_id == choice.device.gpu_id);
            let place = place.and_then(|place| u32::try_from(place).ok());
            Ok((place.ok_or_else(told)?, choice.to_string()))
        }
        Some(number) => {
            let absent = || match nodes().count() {
                0 => told(),
                count => format!("the last one is kfd:{}; `doorbell devices` lists them", count - 1),
            };
            let node = nodes().nth(number as usize).ok_or_else(absent)?;
            let isa = node.isa();
            if isa.kernels().is_none() {
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
    fn words_and_devices_agree() {
        for text in ["auto", "cpu", "kfd", "kfd:3", "soft", "soft:gfx1151"] {
            assert_eq!(text.parse::<DeviceRequest>().unwrap().to_string(), text);
        }
        for text in ["", "gpu", "cpu:1", "kfd:", "kfd:x", "kfd:-1", "soft:", "auto:", "CPU"] {
            assert_eq!(text.parse::<DeviceRequest>(), Err(DeviceError::Unknown { text: text.into() }));
        }
    }

    #[test]
    fn a_named_device_is_never_replaced() {
        assert_eq!(DeviceRequest::Cpu.resolve(), Ok(Choice { device: Device::Cpu, reason: None }));
        assert!(DeviceRequest::Auto.resolve().unwrap().reason.is_some());
        let error = DeviceRequest::Kfd(Some(99)).resolve().unwrap_err();
        assert!(error.to_string().starts_with("device kfd:99 can't be used: "), "{error}");
        let words = "soft:gfx1151,strict,reset=20";
        for (name, device) in [("soft", "soft:gfx1100"), ("soft:8060S,vram=9,reset=20,strict", words)] {
            let choice = name.parse::<DeviceRequest>().unwrap().resolve().unwrap();
            assert_eq!((choice.device.to_string().as_str(), choice.reason), (device, None));
        }
        let refusal = |name: &str| name.parse::<DeviceRequest>().unwrap().resolve().unwrap_err();
        for name in ["soft:gfx900", "soft:,strict"] {
            assert!(matches!(refusal(name), DeviceError::Chip { .. }), "{name}");
        }
        for word in ["lax", "", "vram=-1", "vram", "reset", "reset=", "hang=x", "fire=1"] {
            let refusal = refusal(&format!("soft:gfx1100,{word}"));
            assert_eq!(refusal, DeviceError::Word { word: word.into() });
            assert!(refusal.to_string().contains("use strict, vram=MIB, no-memory=N, reset=N"), "{refusal}");
        }
    }

    /// A chip of the name in `CHIPS` that says it is another one.
    fn posing(version: u32) -> Chip {
        Chip { version, ..doorbell_soft::kernel::chip("gfx1100").unwrap() }
    }

    fn kernel(chips: &[Chip]) -> SoftKernel {
        let machine = Machine::new(Release::V6_12, 64 << 30, chips);
        SoftKernel::new(machine, &Options::default()).unwrap()
    }

    fn resolved(chips: &[Chip], request: &str) -> Result<Choice, DeviceError> {
        let kernel = kernel(chips);
        let choice = request.parse::<DeviceRequest>().unwrap().resolve_on(&kernel);
        assert_eq!(kernel.held(), (0, 0, 0), "looking takes nothing");
        choice
    }

    #[test]
    fn without_a_gpu_the_cpu_is_taken_and_it_is_said_why() {
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
            let told = format!("there are no kernels for {name}");
            let choice = resolved(&[posing(version)], "auto").unwrap();
            assert_eq!(choice.device, Device::Cpu);
            let reason = choice.reason.unwrap();
            assert_eq!(reason, format!("{told}; `doorbell doctor` tells more; so the CPU runs the model"));
            for request in ["kfd", "kfd:0"] {
                let error = resolved(&[posing(version)], request).unwrap_err().to_string();
                assert!(error.starts_with(&format!("device {request} can't be used: {told}; ")), "{error}");
            }
            let kernel = kernel(&[posing(version)]);
            let host = Host { threads: 1, extensions: "", memory: None };
            let machine = crate::machine::Machine::read_from(&kernel, host, &[], None).unwrap();
            assert_eq!(machine.diagnosis().verdict(), Verdict::Unusable);
            assert!(machine.diagnosis().to_string().contains(&told));
            // One that has kernels is taken, whatever stands before it.
            let choice = resolved(&[posing(version), posing(110_000)], "auto").unwrap();
            assert_eq!(choice.device, Device::Kfd(1));
            assert_eq!(
                resolved(&[posing(version), posing(110_000)], "kfd:1").unwrap().device,
                Device::Kfd(1)
            );
            assert!(resolved(&[posing(version), posing(110_000)], "kfd:0").is_err());
            let error = resolved(&[posing(version), posing(110_000)], "kfd:2").unwrap_err().to_string();
            assert!(error.contains("the last one is kfd:1"), "{error}");
        }
    }
}
