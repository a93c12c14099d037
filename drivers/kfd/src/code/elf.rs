//! Reads a code object: segments, symbols, relocations; nothing of the file is trusted.
//!
//! Source: the ELF specification and LLVM `AMDGPUUsage.rst` (header, `e_flags`, relocations, descriptors).

use super::descriptor::{self, DESCRIPTOR_BYTES, Kernel};
use super::error::{CodeError, Part};
use super::metadata::has_hidden_arguments;
use crate::memory::Name;

/// Most bytes of an image: kernels are small, and a size that comes from a file has to end somewhere.
const IMAGE_BYTES: u64 = 256 << 20;

/// Most program headers; linkers make fewer than ten.
const HEADERS: u16 = 64;

const SYMBOL_BYTES: u64 = 24;
const RELA_BYTES: u64 = 24;

/// A code object that fits a device, still in its file.
#[derive(Clone, Copy, Debug)]
pub struct Object<'a> {
    file: &'a [u8],
    program_headers: Table,
    symbols: Table,
    names: Range,
    relocations: Table,
    image_bytes: u64,
}

/// Entries of one size in the file.
#[derive(Clone, Copy, Debug, Default)]
struct Table {
    offset: u64,
    count: u64,
    entry: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Range {
    offset: u64,
    bytes: u64,
}

#[derive(Clone, Copy, Debug)]
struct Segment {
    kind: u32,
    flags: u32,
    offset: u64,
    address: u64,
    file_bytes: u64,
    memory_bytes: u64,
}

mod constant {
    pub(super) const LOAD: u32 = 1;
    pub(super) const DYNAMIC: u32 = 2;
    pub(super) const NOTE: u32 = 4;
    pub(super) const EXECUTABLE: u32 = 1;
    pub(super) const SECTION_DYNSYM: u32 = 11;
    pub(super) const METADATA: u32 = 32;
    pub(super) const ABS64: u32 = 3;
    pub(super) const REL64: u32 = 5;
    pub(super) const RELATIVE64: u32 = 13;
}

/// Dynamic tags used.
#[derive(Clone, Copy, Default)]
struct Dynamic {
    hash: Option<u64>,
    strings: Option<u64>,
    symbols: Option<u64>,
    rela: Option<u64>,
    rela_bytes: u64,
    string_bytes: u64,
}

fn slice(file: &[u8], offset: u64, bytes: u64, part: Part) -> Result<&[u8], CodeError> {
    let cut = || CodeError::Truncated(part, offset);
    let start = usize::try_from(offset).map_err(|_| cut())?;
    let end = offset.checked_add(bytes).and_then(|end| usize::try_from(end).ok()).ok_or_else(cut)?;
    file.get(start..end).ok_or_else(cut)
}

fn half(file: &[u8], offset: u64, part: Part) -> Result<u16, CodeError> {
    let bytes = slice(file, offset, 2, part)?;
    Ok(bytes.first_chunk().map_or(0, |&chunk| u16::from_le_bytes(chunk)))
}

fn word(file: &[u8], offset: u64, part: Part) -> Result<u32, CodeError> {
    let bytes = slice(file, offset, 4, part)?;
    Ok(bytes.first_chunk().map_or(0, |&chunk| u32::from_le_bytes(chunk)))
}

fn long(file: &[u8], offset: u64, part: Part) -> Result<u64, CodeError> {
    let bytes = slice(file, offset, 8, part)?;
    Ok(bytes.first_chunk().map_or(0, |&chunk| u64::from_le_bytes(chunk)))
}

impl Table {
    fn at(self, index: u64) -> u64 {
        self.offset.saturating_add(index.saturating_mul(self.entry))
    }
}

/// ELF64, little-endian, version 1, HSA, code object version 5 or 6, shared object, AMD GPU.
fn check_header(file: &[u8], machine: u8) -> Result<(), CodeError> {
    let ident = slice(file, 0, 64, Part::Header).map_err(|_| CodeError::NotACodeObject)?;
    let is_elf = ident[..4] == *b"\x7fELF" && ident[4..7] == [2, 1, 1];
    let is_hsa = ident[7] == 64 && matches!(ident[8], 3 | 4);
    let is_amdgpu = ident[16..20] == [3, 0, 224, 0];
    if !(is_elf && is_hsa && is_amdgpu) {
        return Err(CodeError::NotACodeObject);
    }
    let flags = word(file, 48, Part::Header)?;
    let generic = flags >> 24;
    let [mach, features, ..] = flags.to_le_bytes();
    // XNACK and SRAMECC: "unsupported" or "any"; a fixed setting needs a device setting that is not read here.
    let plain = features & 0b11 <= 1 && features >> 2 & 0b11 <= 1;
    if mach != machine || generic != 0 || !plain {
        return Err(CodeError::WrongMachine { flags, expected: machine });
    }
    Ok(())
}

impl<'a> Object<'a> {
    /// Reads a file for the processor `machine`, the low byte of `e_flags`; every kernel in it must be acceptable.
    pub fn parse(file: &'a [u8], machine: u8) -> Result<Self, CodeError> {
        check_header(file, machine)?;
        let headers = half(file, 56, Part::Header)?;
        if headers > HEADERS {
            return Err(CodeError::NotACodeObject);
        }
        let program_headers = Table {
            offset: long(file, 32, Part::Header)?,
            count: headers.into(),
            entry: half(file, 54, Part::Header)?.max(56).into(),
        };
        let empty = Range::default();
        let (symbols, relocations) = (Table::default(), Table::default());
        let mut this = Self { file, program_headers, symbols, names: empty, relocations, image_bytes: 0 };
        this.measure()?;
        this.find_symbols()?;
        if this.has_hidden_arguments()? {
            return Err(CodeError::HiddenArgument);
        }
        this.check_relocations()?;
        for kernel in this.kernels(0) {
            kernel?;
        }
        Ok(this)
    }

    /// Bytes of the image, whole pages.
    pub fn image_bytes(&self) -> u64 {
        self.image_bytes
    }

    fn segment(&self, index: u64) -> Result<Segment, CodeError> {
        let at = self.program_headers.at(index);
        let part = Part::ProgramHeader;
        slice(self.file, at, 56, part)?;
        Ok(Segment {
            kind: word(self.file, at, part)?,
            flags: word(self.file, at + 4, part)?,
            offset: long(self.file, at + 8, part)?,
            address: long(self.file, at + 16, part)?,
            file_bytes: long(self.file, at + 32, part)?,
            memory_bytes: long(self.file, at + 40, part)?,
        })
    }

    fn segments(&self, kind: u32) -> impl Iterator<Item = Segment> {
        let all = (0..self.program_headers.count).filter_map(|index| self.segment(index).ok());
        all.filter(move |segment| segment.kind == kind)
    }

    fn measure(&mut self) -> Result<(), CodeError> {
        let mut end = 0;
        for index in 0..self.program_headers.count {
            let segment = self.segment(index)?;
            if segment.kind != constant::LOAD {
                continue;
            }
            slice(self.file, segment.offset, segment.file_bytes, Part::ProgramHeader)?;
            let last = segment.address.checked_add(segment.memory_bytes.max(segment.file_bytes));
            end = last.filter(|&last| last <= IMAGE_BYTES).ok_or(CodeError::TooLarge(IMAGE_BYTES))?.max(end);
        }
        self.image_bytes = end.next_multiple_of(4096);
        if end == 0 { Err(CodeError::Empty) } else { Ok(()) }
    }

    /// The file's bytes for `bytes` at `address` of the image, inside one segment.
    fn at_address(&self, address: u64, bytes: u64) -> Option<&'a [u8]> {
        self.segments(constant::LOAD).find_map(|segment| {
            let skip = address.checked_sub(segment.address)?;
            let end = skip.checked_add(bytes)?;
            let offset = segment.offset.checked_add(skip)?;
            (end <= segment.file_bytes).then(|| slice(self.file, offset, bytes, Part::ProgramHeader).ok())?
        })
    }

    /// File offset of an address of the image.
    fn offset_of(&self, address: u64) -> Option<u64> {
        self.segments(constant::LOAD).find_map(|segment| {
            let skip = address.checked_sub(segment.address)?;
            (skip < segment.file_bytes).then(|| segment.offset.checked_add(skip))?
        })
    }

    fn dynamic(&self) -> Result<Dynamic, CodeError> {
        let mut dynamic = Dynamic::default();
        let Some(segment) = self.segments(constant::DYNAMIC).next() else { return Ok(dynamic) };
        let bytes = slice(self.file, segment.offset, segment.file_bytes, Part::Dynamic)?;
        for entry in bytes.chunks_exact(16) {
            let value = long(entry, 8, Part::Dynamic)?;
            match long(entry, 0, Part::Dynamic)? {
                0 => break,
                4 => dynamic.hash = Some(value),
                5 => dynamic.strings = Some(value),
                6 => dynamic.symbols = Some(value),
                7 => dynamic.rela = Some(value),
                8 => dynamic.rela_bytes = value,
                10 => dynamic.string_bytes = value,
                _ => {}
            }
        }
        Ok(dynamic)
    }

    /// From the dynamic table where it has a SysV hash (which counts the symbols), else from the sections.
    fn find_symbols(&mut self) -> Result<(), CodeError> {
        let dynamic = self.dynamic()?;
        let located = |address: Option<u64>| address.and_then(|address| self.offset_of(address));
        let rela = located(dynamic.rela);
        let relocations = rela.map_or(Table::default(), |offset| Table {
            offset,
            count: dynamic.rela_bytes / RELA_BYTES,
            entry: RELA_BYTES,
        });
        let (hash, symbols, strings) =
            (located(dynamic.hash), located(dynamic.symbols), located(dynamic.strings));
        let (symbols, names) = match (hash, symbols, strings) {
            (Some(hash), Some(offset), Some(strings)) => {
                let count = word(self.file, hash.saturating_add(4), Part::Dynamic)?.into();
                let names = Range { offset: strings, bytes: dynamic.string_bytes };
                (Table { offset, count, entry: SYMBOL_BYTES }, names)
            }
            _ => self.symbols_by_sections()?,
        };
        slice(self.file, symbols.offset, symbols.count.saturating_mul(SYMBOL_BYTES), Part::Symbol)?;
        slice(self.file, names.offset, names.bytes, Part::Symbol)?;
        (self.symbols, self.names, self.relocations) = (symbols, names, relocations);
        Ok(())
    }

    fn symbols_by_sections(&self) -> Result<(Table, Range), CodeError> {
        let part = Part::SectionHeader;
        let sections = Table {
            offset: long(self.file, 40, Part::Header)?,
            count: half(self.file, 60, Part::Header)?.into(),
            entry: half(self.file, 58, Part::Header)?.max(64).into(),
        };
        for index in 0..sections.count {
            let at = sections.at(index);
            slice(self.file, at, 64, part)?;
            if word(self.file, at + 4, part)? != constant::SECTION_DYNSYM {
                continue;
            }
            let strings = sections.at(word(self.file, at + 40, part)?.into());
            slice(self.file, strings, 64, part)?;
            let (offset, bytes) = (long(self.file, at + 24, part)?, long(self.file, at + 32, part)?);
            let symbols = Table { offset, count: bytes / SYMBOL_BYTES, entry: SYMBOL_BYTES };
            let (offset, bytes) =
                (long(self.file, strings + 24, part)?, long(self.file, strings + 32, part)?);
            return Ok((symbols, Range { offset, bytes }));
        }
        Err(CodeError::NoSymbols)
    }

    fn has_hidden_arguments(&self) -> Result<bool, CodeError> {
        for segment in self.segments(constant::NOTE) {
            let mut rest = slice(self.file, segment.offset, segment.file_bytes, Part::Note)?;
            while rest.len() >= 12 {
                let name_bytes = u64::from(word(rest, 0, Part::Note)?);
                let text_bytes = u64::from(word(rest, 4, Part::Note)?);
                let kind = word(rest, 8, Part::Note)?;
                let text_at = 12 + name_bytes.next_multiple_of(4);
                let name = slice(rest, 12, name_bytes, Part::Note)?;
                let text = slice(rest, text_at, text_bytes, Part::Note)?;
                if kind == constant::METADATA && name == b"AMDGPU\0" && has_hidden_arguments(text) {
                    return Ok(true);
                }
                let next = usize::try_from(text_at + text_bytes.next_multiple_of(4)).unwrap_or(usize::MAX);
                rest = rest.get(next..).unwrap_or(&[]);
            }
        }
        Ok(false)
    }

    /// Name and value of a symbol; the value is `None` where it is undefined.
    fn symbol(&self, index: u64) -> Result<(&'a [u8], Option<u64>), CodeError> {
        if index >= self.symbols.count {
            return Err(CodeError::Truncated(Part::Symbol, index));
        }
        let at = self.symbols.at(index);
        let name = u64::from(word(self.file, at, Part::Symbol)?);
        let names = slice(self.file, self.names.offset, self.names.bytes, Part::Symbol)?;
        let cut = CodeError::Truncated(Part::Symbol, at);
        let from = names.get(usize::try_from(name).unwrap_or(usize::MAX)..).ok_or(cut)?;
        let len = from.iter().position(|&byte| byte == 0).ok_or(cut)?;
        let is_defined = half(self.file, at.saturating_add(6), Part::Symbol)? != 0;
        let value = long(self.file, at.saturating_add(8), Part::Symbol)?;
        Ok((&from[..len], is_defined.then_some(value)))
    }

    fn is_code(&self, address: u64) -> bool {
        let holds = |segment: &Segment| {
            segment.flags & constant::EXECUTABLE != 0
                && address.checked_sub(segment.address).is_some_and(|skip| skip < segment.file_bytes)
        };
        self.segments(constant::LOAD).any(|segment| holds(&segment))
    }

    fn kernel(&self, name: &'a [u8], address: u64, base: u64) -> Result<(&'a [u8], Kernel), CodeError> {
        if name.len() > Name::CAPACITY {
            return Err(CodeError::LongName(name.len()));
        }
        let bytes = self.at_address(address, DESCRIPTOR_BYTES as u64);
        let bytes = bytes.and_then(<[u8]>::first_chunk);
        let bytes = bytes.ok_or(CodeError::Truncated(Part::Descriptor, address))?;
        let mut kernel = descriptor::read(bytes, address)?;
        if !kernel.entry.is_multiple_of(256) || !address.is_multiple_of(64) || !self.is_code(kernel.entry) {
            return Err(CodeError::Entry(kernel.entry));
        }
        kernel.descriptor = base.wrapping_add(kernel.descriptor);
        kernel.entry = base.wrapping_add(kernel.entry);
        Ok((name, kernel))
    }

    /// The kernels, by name without `.kd`, as they are when the image lies at `base`.
    pub fn kernels(&self, base: u64) -> impl Iterator<Item = Result<(&'a [u8], Kernel), CodeError>> {
        (0..self.symbols.count).filter_map(move |index| match self.symbol(index) {
            Ok((name, Some(address))) => Some(self.kernel(name.strip_suffix(b".kd")?, address, base)),
            Ok((_, None)) => None,
            Err(error) => Some(Err(error)),
        })
    }

    /// Offset in the image, kind and value of a relocation, for an image at `base`.
    fn relocation(&self, index: u64, base: u64) -> Result<(u64, u64), CodeError> {
        let at = self.relocations.at(index);
        let part = Part::Relocation;
        slice(self.file, at, RELA_BYTES, part)?;
        let (target, addend) = (long(self.file, at, part)?, long(self.file, at + 16, part)?);
        let (kind, symbol) = (word(self.file, at + 8, part)?, word(self.file, at + 12, part)?);
        let is_inside = target.checked_add(8).is_some_and(|end| end <= self.image_bytes);
        if !is_inside {
            return Err(CodeError::Truncated(part, at));
        }
        let of_symbol = || self.symbol(symbol.into())?.1.ok_or(CodeError::Undefined(symbol));
        let value = match kind {
            constant::RELATIVE64 => base.wrapping_add(addend),
            constant::ABS64 => base.wrapping_add(of_symbol()?).wrapping_add(addend),
            constant::REL64 => of_symbol()?.wrapping_add(addend).wrapping_sub(target),
            other => return Err(CodeError::Relocation(other)),
        };
        Ok((target, value))
    }

    fn check_relocations(&self) -> Result<(), CodeError> {
        (0..self.relocations.count).try_for_each(|index| self.relocation(index, 0).map(drop))
    }

    /// Writes the image that is to lie at `base` into `out`, which must have [`Self::image_bytes`] bytes.
    pub fn image(&self, base: u64, out: &mut [u8]) -> Result<(), CodeError> {
        if out.len() as u64 != self.image_bytes {
            return Err(CodeError::TooLarge(out.len() as u64));
        }
        out.fill(0);
        let write = |out: &mut [u8], address: u64, bytes: &[u8]| {
            let start = usize::try_from(address).unwrap_or(usize::MAX);
            let room = start.checked_add(bytes.len()).and_then(|end| out.get_mut(start..end));
            room.map(|room| room.copy_from_slice(bytes)).ok_or(CodeError::Truncated(Part::Code, address))
        };
        for segment in self.segments(constant::LOAD) {
            let bytes = slice(self.file, segment.offset, segment.file_bytes, Part::ProgramHeader)?;
            write(out, segment.address, bytes)?;
        }
        for index in 0..self.relocations.count {
            let (target, value) = self.relocation(index, base)?;
            write(out, target, &value.to_le_bytes())?;
        }
        Ok(())
    }
}
