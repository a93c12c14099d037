//! Why a code object is refused.

use crate::memory::Name;
use core::fmt;

/// A part of the file.
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "each names itself")]
pub enum Part {
    Header,
    ProgramHeader,
    SectionHeader,
    Dynamic,
    Symbol,
    Relocation,
    Note,
    Descriptor,
    Code,
}

/// Why a code object is refused. Offsets are into the file unless said otherwise.
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CodeError {
    /// Not an ELF64 little-endian shared object for AMD GPUs under HSA, version 5 or 6.
    NotACodeObject,
    /// The file ends inside this part, at this offset.
    Truncated(Part, u64),
    /// Made for another processor.
    WrongMachine {
        /// `e_flags` of the file.
        flags: u32,
        /// The processor number that the device needs, the low byte of `e_flags`.
        expected: u8,
    },
    /// The image would be larger than this many bytes, the most a program may take.
    TooLarge(u64),
    /// Nothing to load.
    Empty,
    /// There is no symbol table.
    NoSymbols,
    /// A relocation of a type that minimal kernels do not need.
    Relocation(u32),
    /// A relocation against a symbol that is defined nowhere.
    Undefined(u32),
    /// The kernel wants scratch memory (bytes per work-item), which is slow and not set up.
    Scratch(u32),
    /// The kernel's stack grows at run time.
    DynamicStack,
    /// The kernel wants registers beyond the argument pointer: `kernel_code_properties`.
    Properties(u16),
    /// The kernel wants arguments preloaded, which this generation cannot.
    Preload(u16),
    /// The kernel wants hidden arguments.
    HiddenArgument,
    /// The kernel's code is not 256-byte aligned inside an executable segment (address in the image).
    Entry(u64),
    /// A kernel's name is longer than names may be (bytes).
    LongName(usize),
    /// The kernel wants more LDS than a workgroup has (bytes).
    GroupSegment(u32),
}

impl fmt::Display for CodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotACodeObject => f.write_str("not an AMD GPU code object (ELF64, HSA, version 5 or 6)"),
            Self::Truncated(part, at) => write!(f, "the file ends inside {part:?} at {at:#x}"),
            Self::WrongMachine { flags, expected } => {
                write!(f, "made for e_flags {flags:#x}, the device needs processor {expected:#x}")
            }
            Self::TooLarge(most) => write!(f, "the image is larger than {most} bytes"),
            Self::Empty => f.write_str("there is no loadable segment"),
            Self::NoSymbols => f.write_str("there is no symbol table"),
            Self::Relocation(kind) => write!(f, "relocation of type {kind} is not supported"),
            Self::Undefined(symbol) => write!(f, "relocation against undefined symbol {symbol}"),
            Self::Scratch(bytes) => write!(f, "the kernel spills: {bytes} bytes of scratch per work-item"),
            Self::DynamicStack => f.write_str("the kernel's stack grows at run time"),
            Self::Properties(bits) => write!(f, "the kernel wants more than arguments: {bits:#06x}"),
            Self::Preload(bits) => write!(f, "the kernel wants preloaded arguments: {bits:#06x}"),
            Self::HiddenArgument => f.write_str("the kernel has hidden arguments"),
            Self::Entry(at) => write!(f, "the kernel's code at {at:#x} is misplaced"),
            Self::LongName(bytes) => {
                write!(f, "a kernel's name has {bytes} bytes: {} at most", Name::CAPACITY)
            }
            Self::GroupSegment(bytes) => write!(f, "the kernel wants {bytes} bytes of LDS"),
        }
    }
}

impl core::error::Error for CodeError {}
