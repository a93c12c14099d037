//! The pipeline: IR in, checked machine code out.

use crate::check;
use crate::ir::Function;
use crate::machine::{Machine, Physical};
use crate::object::{CODE_END, Descriptor, PADDING_WORDS, Part, Resources, code_object};
use crate::pass::fit::{self, Limits};
use crate::pass::split::Split;
use crate::pass::{
    allocate, clause, delay, emit, hazards, legalize, schedule, uniformity, verify, vopd, waits,
};
use crate::report::Report;
use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::{self, Write as _};
use doorbell_isa::{Target, decode};

/// Options of a compilation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Options {
    /// Most VGPRs: fewer keep more waves resident.
    pub max_vgprs: u16,
    /// Reorder by latency.
    pub schedule: bool,
    /// Form dual-issue pairs.
    pub dual_issue: bool,
    /// Keep VGPRs in scratch memory where they run out; without, that is an error. The kernel then needs a queue with
    /// scratch.
    pub spill: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { max_vgprs: 256, schedule: true, dual_issue: true, spill: false }
    }
}

/// The reason why a function did not become a kernel.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum CompileError {
    /// The function is malformed.
    Verify(verify::VerifyError),
    /// A value is wrongly declared uniform.
    Uniformity(uniformity::UniformityError),
    /// The target lacks something.
    Legalize(legalize::LegalizeError),
    /// Too many registers.
    Pressure(allocate::PressureError),
    /// The code does not encode.
    Emit(emit::EmitError),
    /// The register allocation is wrong: a fault of the compiler.
    Allocation(check::allocation::AllocationError),
    /// A wait or hazard fix is missing: a fault of the compiler.
    Binary(check::binary::BinaryError),
}

impl fmt::Display for CompileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Verify(error) => error.fmt(f),
            Self::Uniformity(error) => error.fmt(f),
            Self::Legalize(error) => error.fmt(f),
            Self::Pressure(error) => error.fmt(f),
            Self::Emit(error) => error.fmt(f),
            Self::Allocation(error) => write!(f, "allocation check: {error}"),
            Self::Binary(error) => write!(f, "machine code check: {error}"),
        }
    }
}

impl core::error::Error for CompileError {}

/// A compiled and checked kernel.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Kernel {
    /// The function it was made from.
    pub function: Function,
    /// The chip.
    pub target: Target,
    /// Machine code without padding.
    pub words: Vec<u32>,
    /// Registers, LDS, arguments.
    pub resources: Resources,
}

impl Kernel {
    /// The code object file.
    pub fn object(&self) -> Vec<u8> {
        code_object(&[self.part()], self.target)
    }

    fn part(&self) -> Part<'_> {
        Part { function: &self.function, words: &self.words, resources: &self.resources }
    }

    /// Code as it must lie in memory: 256-byte aligned, padded so that prefetch stays inside.
    pub fn image(&self) -> Vec<u8> {
        let padding = core::iter::repeat_n(CODE_END, PADDING_WORDS);
        self.words.iter().copied().chain(padding).flat_map(u32::to_le_bytes).collect()
    }

    /// The kernel descriptor, for loading without an ELF file: `code_offset` is the distance from it to the code.
    pub fn descriptor(&self, code_offset: i64) -> [u8; 64] {
        Descriptor::new(&self.resources, self.target).bytes(code_offset)
    }

    /// Static figures.
    pub fn report(&self) -> Report {
        Report::new(&self.words, &self.resources, self.target)
    }

    /// Assembly text, one instruction a line after its byte offset.
    pub fn assembly(&self) -> String {
        let mut text = String::new();
        let mut at = 0;
        while let Some(Ok((inst, length))) = self.words.get(at..).map(|rest| decode(rest, self.target)) {
            let _ = writeln!(text, "{:04x}  {}", 4 * at, inst.text(self.target));
            at += length;
        }
        text
    }
}

/// Kernels that cannot share a code object.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ObjectError {
    /// There are none.
    Empty,
    /// Two have this name.
    Name(String),
    /// They are for different chips.
    Target {
        /// The first kernel's.
        expected: Target,
        /// Another's.
        found: Target,
    },
}

impl fmt::Display for ObjectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => write!(f, "a code object needs a kernel"),
            Self::Name(name) => write!(f, "two kernels are called {name}"),
            Self::Target { expected, found } => {
                write!(f, "kernels for {expected} and {found}: make one code object per chip")
            }
        }
    }
}

impl core::error::Error for ObjectError {}

/// The code object file of several kernels.
///
/// # Errors
///
/// If there are none, two share a name, or they are for different chips.
pub fn object(kernels: &[Kernel]) -> Result<Vec<u8>, ObjectError> {
    let target = kernels.first().ok_or(ObjectError::Empty)?.target;
    let mut names = BTreeSet::new();
    for kernel in kernels {
        if kernel.target != target {
            return Err(ObjectError::Target { expected: target, found: kernel.target });
        }
        if !names.insert(kernel.function.name.as_str()) {
            return Err(ObjectError::Name(kernel.function.name.clone()));
        }
    }
    let parts: Vec<Part<'_>> = kernels.iter().map(Kernel::part).collect();
    Ok(code_object(&parts, target))
}

/// Compiles a function for a target.
///
/// # Errors
///
/// The first pass or check that refuses.
pub fn compile(function: &Function, target: Target, options: &Options) -> Result<Kernel, CompileError> {
    verify::verify(function).map_err(CompileError::Verify)?;
    uniformity::uniformity(function).map_err(CompileError::Uniformity)?;
    let lowered = legalize::legalize(function, target).map_err(CompileError::Legalize)?;
    let Placed { before, split, allocation } =
        assign_registers(lowered, options).map_err(CompileError::Pressure)?;
    let machine = &split.machine;
    let mut code: Physical = allocate::rewrite(machine, &allocation);
    emit::widen(&mut code);
    if options.dual_issue {
        vopd::pair(&mut code);
    }
    if let Some(before) = &before {
        check::split::check(before, &split).map_err(CompileError::Allocation)?;
    }
    check::allocation::check(machine, &code).map_err(CompileError::Allocation)?;
    waits::insert(&mut code);
    hazards::insert(&mut code);
    delay::hint(&mut code);
    clause::mark(&mut code);
    let words = emit::emit(&code).map_err(CompileError::Emit)?;
    check::binary::check(&words, target).map_err(CompileError::Binary)?;
    let resources = Resources {
        vgprs: allocation.vgprs,
        sgprs: allocation.sgprs,
        lds_bytes: function.lds_bytes,
        kernarg_bytes: function.kernarg_bytes(),
        workgroup: function.workgroup,
        entry: machine.entry,
        scratch_bytes: split.scratch_bytes,
        spilled_vgprs: split.spilled,
        code_bytes: 4 * words.len() as u32,
    };
    Ok(Kernel { function: function.clone(), target, words, resources })
}

/// A function in registers.
struct Placed {
    /// As it was before live ranges were split, if any was.
    before: Option<Machine>,
    split: Split,
    allocation: allocate::Allocation,
}

/// Schedules and allocates; without scheduling if that needs too many registers, with spilling only if that does too.
fn assign_registers(lowered: Machine, options: &Options) -> Result<Placed, allocate::PressureError> {
    let placed = |machine: Machine, spill: bool| {
        let limits = Limits { max_vgprs: options.max_vgprs, spill };
        let (split, allocation) = fit::fit(&machine, limits)?;
        let before = split.is_changed().then_some(machine);
        Ok(Placed { before, split, allocation })
    };
    if options.schedule {
        let mut machine = lowered.clone();
        schedule::schedule(&mut machine);
        let limits = Limits { max_vgprs: options.max_vgprs, spill: false };
        if let Ok((machine, split, allocation)) = fit::fit_scheduled(machine, &lowered, limits) {
            let before = split.is_changed().then_some(machine);
            return Ok(Placed { before, split, allocation });
        }
    }
    if !options.spill {
        return placed(lowered, false);
    }
    placed(lowered.clone(), false).or_else(|_| placed(lowered, true))
}
