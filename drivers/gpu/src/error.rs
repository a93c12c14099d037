//! Why a GPU can't run a model or a step, and whether it can go on.

use alloc::boxed::Box;
use alloc::string::String;
use core::fmt;
use doorbell_core::heap;
use doorbell_core::plan::{BatchError, PlanError};
use doorbell_kernels::SpecError;
use doorbell_kernels::compiler::CompileError;
use doorbell_kernels::compiler::object::ArgumentError;
use doorbell_kfd::OutOfMemory;
use doorbell_kfd::code::LoadError;
use doorbell_kfd::fault::Fault;
use doorbell_kfd::memory::{AllocError, UploadError};
use doorbell_kfd::packet::EncodeError;
use doorbell_kfd::queue::{CreateError, SubmitError};
use doorbell_kfd::sys::Errno;
use doorbell_kfd::topology::Isa;

use crate::cpu_fallback::CpuFallbackError;
use crate::memory_needs::MemoryShortage;

/// Why a GPU can't run a model or a step.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum GpuError {
    /// There are no kernels for the chip.
    Chip(Isa),
    /// The model does not fit, by figures that were there before anything was loaded.
    Fit(MemoryShortage),
    /// Device memory.
    Alloc(AllocError),
    /// The way into device memory.
    Upload(UploadError),
    /// The queue.
    Queue(CreateError),
    /// Host memory.
    Memory(heap::OutOfMemory),
    /// Host memory of the driver's tables.
    Tables,
    /// A plan could not be made.
    Plan(PlanError),
    /// The batch breaks a rule.
    Batch(BatchError),
    /// A chain of more steps than the device takes at a time, and how many those are.
    Chain(u32, u32),
    /// The host's part.
    CpuFallback(CpuFallbackError),
    /// A kernel can't be built for the chip.
    KernelSpec(String, #[cfg_attr(feature = "defmt", defmt(Debug2Format))] SpecError),
    /// A kernel does not compile: a fault of this program.
    Compile(String, #[cfg_attr(feature = "defmt", defmt(Debug2Format))] Box<CompileError>),
    /// A kernel's arguments are not those it was built with: a fault of this program.
    Arguments(String, #[cfg_attr(feature = "defmt", defmt(Debug2Format))] ArgumentError),
    /// A kernel can't be loaded.
    Load(String, Box<LoadError>),
    /// Packets can't be written.
    Encode(EncodeError),
    /// The queue takes no packets.
    Submit(SubmitError),
    /// The device failed, with the kernel that was running. The backend takes no more steps.
    Fault(Box<Fault>, Option<String>),
    /// The kernel refused to wait. The backend takes no more steps.
    Wait(Errno),
    /// The queue can't be taken off the hardware. The backend can be used all the same.
    Rest(Errno),
    /// An earlier step has failed, and why.
    Lost(Option<Box<Fault>>),
}

impl GpuError {
    /// True if the device is lost to this backend.
    pub fn is_lost(&self) -> bool {
        matches!(self, Self::Fault(..) | Self::Wait(_) | Self::Lost(_) | Self::Submit(SubmitError::Dead))
    }

    /// True if there was too little memory.
    pub fn is_memory(&self) -> bool {
        let lacks =
            |error: &AllocError| matches!(error, AllocError::NoMemory { .. } | AllocError::OutOfMemory);
        match self {
            Self::Fit(_) | Self::Memory(_) | Self::Tables | Self::Queue(CreateError::OutOfMemory) => true,
            Self::CpuFallback(error) => matches!(error, CpuFallbackError::Memory(_)),
            Self::Alloc(error)
            | Self::Upload(UploadError::Alloc(error))
            | Self::Queue(CreateError::Alloc(error)) => lacks(error),
            Self::Load(_, error) => match &**error {
                LoadError::Alloc(error) | LoadError::Upload(UploadError::Alloc(error)) => lacks(error),
                error => *error == LoadError::OutOfMemory,
            },
            _ => false,
        }
    }
}

macro_rules! from {
    ($($error:ty => $variant:ident),* $(,)?) => {
        $(impl From<$error> for GpuError {
            fn from(error: $error) -> Self {
                Self::$variant(error)
            }
        })*
    };
}

from! {
    AllocError => Alloc,
    UploadError => Upload,
    CreateError => Queue,
    heap::OutOfMemory => Memory,
    PlanError => Plan,
    BatchError => Batch,
    EncodeError => Encode,
    SubmitError => Submit,
    MemoryShortage => Fit,
    CpuFallbackError => CpuFallback,
}

impl From<OutOfMemory> for GpuError {
    fn from(_: OutOfMemory) -> Self {
        Self::Tables
    }
}

impl fmt::Display for GpuError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Chip(isa) => write!(f, "there are no kernels for {isa}; use --device cpu"),
            Self::Fit(shortage) => shortage.fmt(f),
            Self::Alloc(error) => error.fmt(f),
            Self::Upload(error) => error.fmt(f),
            Self::Queue(error) => error.fmt(f),
            Self::Memory(error) => error.fmt(f),
            Self::Tables => OutOfMemory.fmt(f),
            Self::Plan(error) => error.fmt(f),
            Self::Batch(error) => error.fmt(f),
            Self::Chain(steps, most) => {
                write!(f, "a chain of {steps} steps, and {most} can be taken at a time")
            }
            Self::CpuFallback(error) => error.fmt(f),
            Self::KernelSpec(name, error) => write!(f, "kernel {name}: {error}"),
            Self::Compile(name, error) => write!(f, "kernel {name}: {error}"),
            Self::Arguments(name, error) => write!(f, "kernel {name}: {error}"),
            Self::Load(name, error) => write!(f, "kernel {name}: {error}"),
            Self::Encode(error) => error.fmt(f),
            Self::Submit(error) => error.fmt(f),
            Self::Fault(fault, kernel) => {
                write!(f, "{fault}")?;
                if let Some(kernel) = kernel {
                    write!(f, "; at or after {kernel}")?;
                }
                f.write_str("; the model has to be loaded anew")
            }
            Self::Wait(errno) => write!(f, "waiting for the GPU: {errno}; the model has to be loaded anew"),
            Self::Rest(errno) => write!(f, "parking the queue of the GPU: {errno}"),
            Self::Lost(Some(fault)) => write!(f, "the device is lost since: {fault}"),
            Self::Lost(None) => f.write_str("the device is lost; load the model anew"),
        }
    }
}

impl core::error::Error for GpuError {}
