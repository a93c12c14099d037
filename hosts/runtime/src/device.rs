//! Which device runs the model: the words of `--device`, and what `auto` makes of the machine.

use core::fmt;
use core::str::FromStr;

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
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Cpu => "cpu",
        })
    }
}

/// A device and, if it wasn't named, why it was taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The device.
    pub device: Device,
    /// One line for the user; `None` if the device was named.
    pub reason: Option<&'static str>,
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
    /// The device is known but this program can't drive it.
    NotBuiltIn {
        /// What was asked for.
        request: DeviceRequest,
    },
}

impl fmt::Display for DeviceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown { text } => {
                write!(f, "no device is called \"{text}\"; use auto, cpu, kfd, kfd:N, soft or soft:GFX")
            }
            Self::NotBuiltIn { request } => {
                write!(f, "device {request} is not built in yet; use --device cpu")
            }
        }
    }
}

impl core::error::Error for DeviceError {}

impl DeviceRequest {
    /// The device to use. One that was named and can't be used is an error, never silently another one.
    ///
    /// # Errors
    ///
    /// The device isn't built in.
    pub fn resolve(&self) -> Result<Choice, DeviceError> {
        match self {
            Self::Cpu => Ok(Choice { device: Device::Cpu, reason: None }),
            Self::Auto => {
                let reason = if std::path::Path::new("/dev/kfd").exists() {
                    "GPUs are not built in yet, so the CPU runs the model"
                } else {
                    "no /dev/kfd, so the CPU runs the model"
                };
                Ok(Choice { device: Device::Cpu, reason: Some(reason) })
            }
            Self::Kfd(_) | Self::Soft(_) => Err(DeviceError::NotBuiltIn { request: self.clone() }),
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
        let error = DeviceRequest::Kfd(Some(1)).resolve().unwrap_err();
        assert_eq!(error.to_string(), "device kfd:1 is not built in yet; use --device cpu");
        assert!(DeviceRequest::Soft(None).resolve().is_err());
    }
}
