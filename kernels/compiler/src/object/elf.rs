//! ELF64 code object: what ROCm loaders, LLVM tools and our own loader read.
//!
//! Segments: read-only (note, dynamic symbols, descriptors), code, dynamic section. Not here: the descriptor's fields.

use super::descriptor::{CODE_END, Descriptor, PADDING_WORDS, Resources};
use super::msgpack::Writer;
use crate::ir::{ArgumentKind, Function};
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use doorbell_isa::Target;

const PAGE: usize = 0x1000;
const HEADER: usize = 64;
const PROGRAM_HEADER: usize = 56;
const SECTION_HEADER: usize = 64;
const SYMBOL: usize = 24;

/// One section while the file is laid out.
struct Section {
    name: &'static str,
    kind: u32,
    flags: u64,
    link: u32,
    info: u32,
    align: usize,
    entry: u64,
    bytes: Vec<u8>,
    offset: usize,
}

fn section(name: &'static str, kind: u32, flags: u64, align: usize, bytes: Vec<u8>) -> Section {
    Section { name, kind, flags, link: 0, info: 0, align, entry: 0, bytes, offset: 0 }
}

const ALLOC: u64 = 2;
const EXEC: u64 = 4;
const WRITE: u64 = 1;

/// Little-endian bytes of a mixed list of numbers.
macro_rules! le {
    ($out:expr; $($value:expr),* $(,)?) => { $( $out.extend_from_slice(&($value).to_le_bytes()); )* };
}

/// Names with their offsets, zero-terminated.
#[derive(Default)]
struct Names(Vec<u8>);

impl Names {
    fn add(&mut self, name: &str) -> u32 {
        if self.0.is_empty() {
            self.0.push(0);
        }
        let at = self.0.len() as u32;
        self.0.extend_from_slice(name.as_bytes());
        self.0.push(0);
        at
    }
}

/// SysV hash of a symbol name.
fn hash(name: &str) -> u32 {
    name.bytes().fold(0u32, |hash, byte| {
        let hash = (hash << 4).wrapping_add(byte.into());
        let high = hash & 0xf000_0000;
        (hash ^ (high >> 24)) & !high
    })
}

/// Hash table with one bucket per symbol.
fn hash_table(names: &[String]) -> Vec<u8> {
    let count = names.len() as u32 + 1;
    let mut buckets = vec![0u32; count as usize];
    let mut chains = vec![0u32; count as usize];
    for (index, name) in (1u32..).zip(names) {
        let bucket = (hash(name) % count) as usize;
        chains[index as usize] = buckets[bucket];
        buckets[bucket] = index;
    }
    let mut bytes = Vec::new();
    le!(bytes; count, count);
    for value in buckets.into_iter().chain(chains) {
        le!(bytes; value);
    }
    bytes
}

/// One kernel's part of a code object.
#[derive(Clone, Copy, Debug)]
pub struct Part<'a> {
    /// Its name and arguments.
    pub function: &'a Function,
    /// Its code.
    pub words: &'a [u32],
    /// Registers, LDS and arguments that it needs.
    pub resources: &'a Resources,
}

/// Metadata of one kernel.
fn metadata(pack: &mut Writer, part: &Part<'_>) {
    let Part { function, resources, .. } = part;
    pack.map(14).text(".args").array(function.arguments.len() as u32);
    for argument in &function.arguments {
        let buffer = argument.kind == ArgumentKind::Buffer;
        pack.map(if buffer { 5 } else { 4 });
        if buffer {
            pack.text(".address_space").text("global");
        }
        pack.text(".name").text(&argument.name);
        pack.text(".offset").number(argument.offset);
        pack.text(".size").number(if buffer { 8 } else { 4 });
        pack.text(".value_kind").text(if buffer { "global_buffer" } else { "by_value" });
    }
    pack.text(".group_segment_fixed_size").number(resources.lds_bytes);
    pack.text(".kernarg_segment_align").number(8);
    pack.text(".kernarg_segment_size").number(resources.kernarg_bytes);
    pack.text(".max_flat_workgroup_size").number(resources.workgroup);
    pack.text(".name").text(&function.name);
    pack.text(".private_segment_fixed_size").number(resources.scratch_bytes);
    pack.text(".reqd_workgroup_size").array(3).number(resources.workgroup).number(1).number(1);
    pack.text(".sgpr_count").number(u32::from(resources.sgprs) + 2);
    pack.text(".sgpr_spill_count").number(0);
    pack.text(".symbol").text(&format!("{}.kd", function.name));
    pack.text(".vgpr_count").number(resources.vgprs.into());
    pack.text(".vgpr_spill_count").number(resources.spilled_vgprs);
    pack.text(".wavefront_size").number(32);
}

/// Metadata note: MessagePack under the owner `AMDGPU`.
fn note(parts: &[Part<'_>], target: Target) -> Vec<u8> {
    let mut pack = Writer::default();
    pack.map(3).text("amdhsa.kernels").array(parts.len() as u32);
    for part in parts {
        metadata(&mut pack, part);
    }
    pack.text("amdhsa.target").text(&format!("amdgcn-amd-amdhsa--{target}"));
    pack.text("amdhsa.version").array(2).number(1).number(2);
    let mut metadata = pack.finish();
    let length = metadata.len() as u32;
    metadata.resize(metadata.len().next_multiple_of(4), 0);
    let mut bytes = Vec::new();
    le!(bytes; 7u32, length, 32u32);
    bytes.extend_from_slice(b"AMDGPU\0\0");
    bytes.extend_from_slice(&metadata);
    bytes
}

/// A symbol table entry.
fn symbol(name: u32, kind: u8, section: u16, value: u64, size: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    le!(bytes; name);
    // Global binding; protected visibility, as HSA loaders expect.
    bytes.extend_from_slice(&[0x10 | kind, 3]);
    le!(bytes; section, value, size);
    bytes
}

/// Indexes of the sections below.
mod index {
    pub(super) const DYNSYM: usize = 2;
    pub(super) const HASH: usize = 3;
    pub(super) const DYNSTR: usize = 4;
    pub(super) const RODATA: usize = 5;
    pub(super) const TEXT: usize = 6;
    pub(super) const DYNAMIC: usize = 7;
    pub(super) const SYMTAB: usize = 8;
    pub(super) const SHSTRTAB: usize = 9;
}

/// Alignment of a kernel's first instruction.
const CODE_ALIGN: usize = 256;

/// Code of all kernels with the offset of each; padding that prefetch may run into follows the last.
fn code(parts: &[Part<'_>]) -> (Vec<u8>, Vec<u64>) {
    let (mut words, mut starts): (Vec<u32>, Vec<u64>) = (Vec::new(), Vec::new());
    for part in parts {
        words.resize(words.len().next_multiple_of(CODE_ALIGN / 4), CODE_END);
        starts.push(4 * words.len() as u64);
        words.extend_from_slice(part.words);
    }
    words.extend(core::iter::repeat_n(CODE_END, PADDING_WORDS));
    (words.into_iter().flat_map(u32::to_le_bytes).collect(), starts)
}

/// Writes the code object of kernels with different names.
pub fn code_object(parts: &[Part<'_>], target: Target) -> Vec<u8> {
    let names: Vec<String> = parts
        .iter()
        .flat_map(|part| [part.function.name.clone(), format!("{}.kd", part.function.name)])
        .collect();
    let mut strings = Names::default();
    let offsets: Vec<u32> = names.iter().map(|name| strings.add(name)).collect();
    let (text, starts) = code(parts);
    let mut sections = vec![
        section("", 0, 0, 1, Vec::new()),
        section(".note", 7, ALLOC, 4, note(parts, target)),
        section(".dynsym", 11, ALLOC, 8, vec![0; (1 + names.len()) * SYMBOL]),
        section(".hash", 5, ALLOC, 4, hash_table(&names)),
        section(".dynstr", 3, ALLOC, 1, strings.0),
        section(".rodata", 1, ALLOC, 64, vec![0; 64 * parts.len()]),
        section(".text", 1, ALLOC | EXEC, PAGE, text),
        section(".dynamic", 6, ALLOC | WRITE, PAGE, vec![0; 6 * 16]),
        // AMD's runtime reads this table and not the dynamic one; both hold the same.
        section(".symtab", 2, 0, 8, vec![0; (1 + names.len()) * SYMBOL]),
        section(".shstrtab", 3, 0, 1, Vec::new()),
    ];
    let mut section_names = Names::default();
    let name_offsets: Vec<u32> = sections.iter().map(|entry| section_names.add(entry.name)).collect();
    sections[index::SHSTRTAB].bytes = section_names.0;
    let mut end = HEADER + PROGRAMS * PROGRAM_HEADER;
    for entry in sections.iter_mut().skip(1) {
        entry.offset = end.next_multiple_of(entry.align);
        end = entry.offset + entry.bytes.len();
    }
    kernels(&mut sections, parts, &offsets, &starts, target);
    fill(&mut sections);
    let mut file = Vec::new();
    let section_table = end.next_multiple_of(8);
    header(&mut file, &sections, section_table, target);
    program_headers(&mut file, &sections);
    for entry in sections.iter().skip(1) {
        file.resize(entry.offset, 0);
        file.extend_from_slice(&entry.bytes);
    }
    file.resize(section_table, 0);
    for (entry, name) in sections.iter().zip(name_offsets) {
        let address = if entry.flags & ALLOC != 0 { entry.offset as u64 } else { 0 };
        let name = if entry.kind == 0 { 0 } else { name };
        let (offset, size) = (entry.offset as u64, entry.bytes.len() as u64);
        le!(file; name, entry.kind, entry.flags, address, offset, size);
        le!(file; entry.link, entry.info, entry.align as u64, entry.entry);
    }
    file
}

/// Fills symbols and descriptors, which need the layout.
fn kernels(sections: &mut [Section], parts: &[Part<'_>], names: &[u32], starts: &[u64], target: Target) {
    let [text, rodata] = [index::TEXT, index::RODATA].map(|at| sections[at].offset as u64);
    let mut symbols = vec![0; SYMBOL];
    let mut descriptors = Vec::new();
    for ((part, name), start) in parts.iter().zip(names.as_chunks::<2>().0).zip(starts) {
        let (entry, descriptor) = (text + start, rodata + descriptors.len() as u64);
        symbols.extend(symbol(name[0], 2, index::TEXT as u16, entry, 4 * part.words.len() as u64));
        symbols.extend(symbol(name[1], 1, index::RODATA as u16, descriptor, 64));
        let distance = entry.cast_signed() - descriptor.cast_signed();
        descriptors.extend(Descriptor::new(part.resources, target).bytes(distance));
    }
    sections[index::SYMTAB].bytes.clone_from(&symbols);
    sections[index::DYNSYM].bytes = symbols;
    sections[index::RODATA].bytes = descriptors;
}

/// Fills the dynamic section and the links between sections.
fn fill(sections: &mut [Section]) {
    let offset = |sections: &[Section], at: usize| sections[at].offset as u64;
    let mut dynamic = Vec::new();
    let entries = [
        (6u64, offset(sections, index::DYNSYM)),
        (11, SYMBOL as u64),
        (5, offset(sections, index::DYNSTR)),
        (10, sections[index::DYNSTR].bytes.len() as u64),
        (4, offset(sections, index::HASH)),
        (0, 0),
    ];
    for (tag, value) in entries {
        le!(dynamic; tag, value);
    }
    sections[index::DYNAMIC].bytes = dynamic;
    for (at, link, info, entry) in [
        (index::DYNSYM, index::DYNSTR, 1, SYMBOL),
        (index::SYMTAB, index::DYNSTR, 1, SYMBOL),
        (index::HASH, index::DYNSYM, 0, 4),
        (index::DYNAMIC, index::DYNSTR, 0, 16),
    ] {
        sections[at].link = link as u32;
        sections[at].info = info;
        sections[at].entry = entry as u64;
    }
}

const PROGRAMS: usize = 5;

fn header(file: &mut Vec<u8>, sections: &[Section], section_table: usize, target: Target) {
    // 64-bit, little-endian, OS ABI HSA, ABI version of code object 5.
    file.extend_from_slice(&[0x7f, b'E', b'L', b'F', 2, 1, 1, 64, 3, 0, 0, 0, 0, 0, 0, 0]);
    le!(file; 3u16, 224u16, 1u32, 0u64, HEADER as u64, section_table as u64);
    le!(file; u32::from(target.elf_machine()), HEADER as u16, PROGRAM_HEADER as u16, PROGRAMS as u16);
    le!(file; SECTION_HEADER as u16, sections.len() as u16, index::SHSTRTAB as u16);
}

fn program_headers(file: &mut Vec<u8>, sections: &[Section]) {
    let span = |first: usize, last: usize| {
        let start = sections[first].offset as u64;
        (start, sections[last].offset as u64 + sections[last].bytes.len() as u64 - start)
    };
    let (_, rodata_end) = (0, (sections[index::RODATA].offset + sections[index::RODATA].bytes.len()) as u64);
    let text = span(index::TEXT, index::TEXT);
    let dynamic = span(index::DYNAMIC, index::DYNAMIC);
    let note = span(1, 1);
    for (kind, flags, (offset, size), align) in [
        (1u32, 4u32, (0, rodata_end), PAGE as u64),
        (1, 5, text, PAGE as u64),
        (1, 6, dynamic, PAGE as u64),
        (2, 6, dynamic, 8),
        (4, 4, note, 4),
    ] {
        le!(file; kind, flags, offset, offset, offset, size, size, align);
    }
}
