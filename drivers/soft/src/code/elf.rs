//! The ELF code objects that clang makes for AMDGPU: segments, kernels by symbol, relocations of data.
//!
//! Source: the ELF specification and the AMDHSA code-object chapter of LLVM's AMDGPU usage guide. The file is
//! untrusted: every offset is checked. Not here: loading the image.

use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::fmt;

use doorbell_isa::{TARGETS, Target};

/// The reason why a file is refused.
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ElfError {
    /// Not a little-endian 64-bit ELF for AMDGPU.
    NotAmdgpu,
    /// A chip that is not modelled; the low byte of `e_flags`.
    Chip(u8),
    /// Something reaches beyond the end of the file or of the image.
    Bounds(&'static str),
    /// The segments span more bytes than allowed.
    Size(u64),
    /// A relocation that is not modelled.
    Relocation(u32),
}

impl fmt::Display for ElfError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotAmdgpu => f.write_str("not a 64-bit AMDGPU code object"),
            Self::Chip(machine) => write!(f, "code for chip number {machine:#x}, which is not modelled"),
            Self::Bounds(what) => write!(f, "{what} reaches beyond its end"),
            Self::Size(bytes) => write!(f, "segments span {bytes} bytes"),
            Self::Relocation(kind) => write!(f, "relocation type {kind} is not modelled"),
        }
    }
}

impl core::error::Error for ElfError {}

/// A kernel of a code object.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Kernel {
    /// Name without `.kd`.
    pub name: String,
    /// Offset of its descriptor in the image.
    pub descriptor: u64,
}

/// A code object as an image of its segments.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CodeObject {
    /// Chip.
    pub target: Target,
    /// Memory image from address 0.
    pub image: Vec<u8>,
    /// Kernels in symbol order.
    pub kernels: Vec<Kernel>,
    /// Relocations: offset of a quadword, and the addend to which the load address is added.
    relative: Vec<(u64, u64)>,
}

/// Most bytes of an image, whose size the file declares.
const IMAGE_MOST: u64 = 64 << 20;
const EM_AMDGPU: u64 = 224;
const PT_LOAD: u64 = 1;
const SHT_SYMTAB: u64 = 2;
const SHT_RELA: u64 = 4;
const SHT_DYNSYM: u64 = 11;
const R_AMDGPU_ABS64: u32 = 3;
const R_AMDGPU_RELATIVE64: u32 = 13;

/// Bytes with checked little-endian reads.
#[derive(Clone, Copy)]
struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn slice(self, at: u64, len: u64, what: &'static str) -> Result<&'a [u8], ElfError> {
        let end = at.checked_add(len).ok_or(ElfError::Bounds(what))?;
        let range = usize::try_from(at).ok().zip(usize::try_from(end).ok());
        range.and_then(|(at, end)| self.0.get(at..end)).ok_or(ElfError::Bounds(what))
    }

    fn number(self, at: u64, len: u64) -> Result<u64, ElfError> {
        let bytes = self.slice(at, len, "a header")?;
        Ok(bytes.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte)))
    }
}

/// One section header.
#[derive(Clone, Copy)]
struct Section {
    kind: u64,
    offset: u64,
    size: u64,
    link: u64,
}

impl CodeObject {
    /// Reads a file.
    ///
    /// # Errors
    ///
    /// If it is not a code object for one of the modelled chips, or not a well-formed one.
    pub fn parse(file: &[u8]) -> Result<Self, ElfError> {
        let bytes = Bytes(file);
        let magic = file.starts_with(b"\x7fELF\x02\x01");
        if !magic || bytes.number(18, 2)? != EM_AMDGPU {
            return Err(ElfError::NotAmdgpu);
        }
        let machine = (bytes.number(48, 4)? & 0xff) as u8;
        let target = TARGETS
            .into_iter()
            .find(|target| target.elf_machine() == machine)
            .ok_or(ElfError::Chip(machine))?;
        let image = image(bytes)?;
        let sections = sections(bytes)?;
        let mut object = Self { target, image, kernels: Vec::new(), relative: Vec::new() };
        for section in &sections {
            match section.kind {
                SHT_SYMTAB | SHT_DYNSYM => object.symbols(bytes, *section, &sections)?,
                SHT_RELA => object.relocations(bytes, *section, &sections)?,
                _ => {}
            }
        }
        Ok(object)
    }

    /// The image for load address `base`.
    pub fn relocated(&self, base: u64) -> Vec<u8> {
        let mut image = self.image.clone();
        for (at, addend) in &self.relative {
            let value = base.wrapping_add(*addend).to_le_bytes();
            if let Some(slot) = usize::try_from(*at).ok().and_then(|at| image.get_mut(at..at.checked_add(8)?))
            {
                slot.copy_from_slice(&value);
            }
        }
        image
    }

    /// A kernel by name.
    pub fn kernel(&self, name: &str) -> Option<&Kernel> {
        self.kernels.iter().find(|kernel| kernel.name == name)
    }

    fn symbols(&mut self, bytes: Bytes<'_>, section: Section, sections: &[Section]) -> Result<(), ElfError> {
        let names = usize::try_from(section.link).ok().and_then(|link| sections.get(link));
        let names = names.ok_or(ElfError::Bounds("the symbol names"))?;
        let names = bytes.slice(names.offset, names.size, "the symbol names")?;
        for index in 0..section.size / 24 {
            let entry = section.offset.saturating_add(index.saturating_mul(24));
            let (name, value) = (bytes.number(entry, 4)?, bytes.number(entry.saturating_add(8), 8)?);
            let text = usize::try_from(name).ok().and_then(|start| names.get(start..)).unwrap_or(&[]);
            let end = text.iter().position(|byte| *byte == 0).unwrap_or(text.len());
            let Some(name) =
                core::str::from_utf8(&text[..end]).ok().and_then(|name| name.strip_suffix(".kd"))
            else {
                continue;
            };
            let inside = value.checked_add(64).is_some_and(|end| end <= self.image.len() as u64);
            if inside && self.kernel(name).is_none() {
                self.kernels.push(Kernel { name: name.into(), descriptor: value });
            }
        }
        Ok(())
    }

    fn relocations(
        &mut self,
        bytes: Bytes<'_>,
        section: Section,
        sections: &[Section],
    ) -> Result<(), ElfError> {
        for index in 0..section.size / 24 {
            let entry = section.offset.saturating_add(index.saturating_mul(24));
            let (at, info) = (bytes.number(entry, 8)?, bytes.number(entry.saturating_add(8), 8)?);
            let addend = bytes.number(entry.saturating_add(16), 8)?;
            let value = match info as u32 {
                0 => continue,
                R_AMDGPU_RELATIVE64 => addend,
                R_AMDGPU_ABS64 => {
                    let symbols = usize::try_from(section.link).ok().and_then(|link| sections.get(link));
                    let symbols = symbols.ok_or(ElfError::Bounds("the symbols"))?;
                    let entry = (info >> 32).checked_mul(24).and_then(|at| at.checked_add(symbols.offset));
                    let entry = entry.ok_or(ElfError::Bounds("the symbols"))?;
                    bytes.number(entry.saturating_add(8), 8)?.wrapping_add(addend)
                }
                kind => return Err(ElfError::Relocation(kind)),
            };
            if at.checked_add(8).is_none_or(|end| end > self.image.len() as u64) {
                return Err(ElfError::Bounds("a relocation"));
            }
            self.relative.push((at, value));
        }
        Ok(())
    }
}

/// Loads the segments.
fn image(bytes: Bytes<'_>) -> Result<Vec<u8>, ElfError> {
    let table = bytes.number(32, 8)?;
    let count = bytes.number(56, 2)?;
    let header = |index: u64| table.checked_add(index * 56).ok_or(ElfError::Bounds("the segments"));
    let mut end = 0;
    for index in 0..count {
        let at = header(index)?;
        if bytes.number(at, 4)? == PT_LOAD {
            let last =
                bytes.number(at.saturating_add(16), 8)?.checked_add(bytes.number(at.saturating_add(40), 8)?);
            end = last.ok_or(ElfError::Bounds("a segment"))?.max(end);
        }
    }
    if end > IMAGE_MOST {
        return Err(ElfError::Size(end));
    }
    let mut image = vec![0; end as usize];
    for index in 0..count {
        let at = header(index)?;
        if bytes.number(at, 4)? != PT_LOAD {
            continue;
        }
        let data = bytes.slice(
            bytes.number(at.saturating_add(8), 8)?,
            bytes.number(at.saturating_add(32), 8)?,
            "a segment",
        )?;
        let start = usize::try_from(bytes.number(at.saturating_add(16), 8)?)
            .map_err(|_| ElfError::Bounds("a segment"))?;
        let slot = start.checked_add(data.len()).and_then(|end| image.get_mut(start..end));
        slot.ok_or(ElfError::Bounds("a segment"))?.copy_from_slice(data);
    }
    Ok(image)
}

fn sections(bytes: Bytes<'_>) -> Result<Vec<Section>, ElfError> {
    let table = bytes.number(40, 8)?;
    let mut sections = Vec::new();
    for index in 0..bytes.number(60, 2)? {
        let at = table.checked_add(index * 64).ok_or(ElfError::Bounds("the sections"))?;
        sections.push(Section {
            kind: bytes.number(at.saturating_add(4), 4)?,
            offset: bytes.number(at.saturating_add(24), 8)?,
            size: bytes.number(at.saturating_add(32), 8)?,
            link: bytes.number(at.saturating_add(40), 4)?,
        });
    }
    Ok(sections)
}
