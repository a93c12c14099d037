//! Which device runs the model: the words of `--device`, and what `auto` makes of the machine.

use core::fmt;
use core::str::FromStr;
use doorbell_kfd::doctor::{Seen, examine};
use doorbell_kfd::sys::Linux;
use doorbell_kfd::topology::choose;
use doorbell_soft::kernel::Chip;

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
    },
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cpu => f.write_str("cpu"),
            Self::Kfd(number) => write!(f, "kfd:{number}"),
            Self::Soft { chip, strict } => {
                write!(f, "soft:{}{}", chip.target.name(), if *strict { ",strict" } else { "" })
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
        let named = |device| Ok(Choice { device, reason: None });
        match self {
            Self::Cpu => named(Device::Cpu),
            Self::Auto => Ok(automatic()),
            Self::Soft(name) => named(software(name.as_deref().unwrap_or(SOFT))?),
            Self::Kfd(number) => match gpu(*number) {
                Ok((number, _)) => named(Device::Kfd(number)),
                Err(reason) => Err(DeviceError::Kfd { request: self.clone(), reason }),
            },
        }
    }
}

/// The software GPU that is taken when none is named.
const SOFT: &str = "gfx1100";

fn software(name: &str) -> Result<Device, DeviceError> {
    let (chip, strict) = match name.split_once(',') {
        Some((chip, "strict")) => (chip, true),
        _ => (name, false),
    };
    let found =
        doorbell_soft::kernel::chip(chip).ok_or_else(|| DeviceError::Chip { name: name.to_owned() })?;
    Ok(Device::Soft { chip: found, strict })
}

/// A GPU if there is a usable one, or else the processor.
fn automatic() -> Choice {
    let cpu = |reason: String| Choice { device: Device::Cpu, reason: Some(reason) };
    if !std::path::Path::new("/dev/kfd").exists() {
        return cpu("no /dev/kfd, so the CPU runs the model".into());
    }
    match gpu(None) {
        Ok((number, reason)) => Choice { device: Device::Kfd(number), reason: Some(reason) },
        Err(reason) => cpu(format!("{reason}; so the CPU runs the model")),
    }
}

/// The number of a GPU that can be used and what it is, or why it can't.
fn gpu(number: Option<u32>) -> Result<(u32, String), String> {
    let seen = examine(&Linux, Seen { log: &[], model_bytes: None }).map_err(|error| error.to_string())?;
    let first = seen.findings.first().map_or_else(|| "no GPU can be used".into(), ToString::to_string);
    let told = || format!("{first}; `doorbell doctor` tells more");
    let mut nodes = seen.topology.iter().flat_map(|topology| topology.devices());
    match number {
        None => {
            let choice = choose(&seen.devices).ok_or_else(told)?;
            let place = nodes.position(|node| node.gpu_id == choice.device.gpu_id);
            let place = place.and_then(|place| u32::try_from(place).ok());
            Ok((place.ok_or_else(told)?, choice.to_string()))
        }
        Some(number) => {
            let node = nodes.nth(number as usize).ok_or_else(told)?;
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
        for (name, device) in [("soft", "soft:gfx1100"), ("soft:gfx1151,strict", "soft:gfx1151,strict")] {
            let choice = name.parse::<DeviceRequest>().unwrap().resolve().unwrap();
            assert_eq!((choice.device.to_string().as_str(), choice.reason), (device, None));
        }
        for name in ["soft:gfx900", "soft:gfx1100,lax", "soft:,strict"] {
            assert!(matches!(
                name.parse::<DeviceRequest>().unwrap().resolve(),
                Err(DeviceError::Chip { .. })
            ));
        }
    }
}
