//! Code objects: one made here byte by byte, the same changed in every way that must be refused, and ones made by
//! LLVM where it is installed.

use crate::fake::Fake;
use crate::machines::{GIB, Machine, Release};
use crate::queue::{Clock, open};
use doorbell_kfd::code::{CodeError, Object, Program};
use doorbell_kfd::memory::Uploader;
use doorbell_kfd::process::DeviceIndex;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Processor numbers of code objects (LLVM's `EF_AMDGPU_MACH`).
const GFX1100: u8 = 0x41;
const GFX1151: u8 = 0x4A;

const DESCRIPTOR: usize = 0x400;
const TEXT: usize = 0x1000;
const HEADERS: usize = 64;

/// Writes little-endian bytes.
fn put(file: &mut [u8], at: usize, bytes: &[u8]) {
    file[at..at + bytes.len()].copy_from_slice(bytes);
}

fn header(file: &mut [u8], index: usize, kind: u32, flags: u32, range: [u64; 4]) {
    let at = HEADERS + index * 56;
    put(file, at, &kind.to_le_bytes());
    put(file, at + 4, &flags.to_le_bytes());
    let [offset, address, file_bytes, memory_bytes] = range;
    for (field, value) in [(8, offset), (16, address), (24, address), (32, file_bytes), (40, memory_bytes)] {
        put(file, at + field, &value.to_le_bytes());
    }
}

/// A gfx1100 code object of one kernel `k`: four segments, a SysV hash, one relocation of each kind.
fn object() -> Vec<u8> {
    let mut file = vec![0; TEXT + 256];
    put(&mut file, 0, b"\x7fELF\x02\x01\x01\x40\x03");
    put(&mut file, 16, &[3, 0, 224, 0, 1, 0, 0, 0]);
    put(&mut file, 32, &(HEADERS as u64).to_le_bytes());
    put(&mut file, 48, &0x41u32.to_le_bytes());
    put(&mut file, 52, &[64, 0, 56, 0, 4, 0, 64, 0, 0, 0, 0, 0]);
    header(&mut file, 0, 1, 4, [0, 0, 0x800, 0x800]);
    header(&mut file, 1, 1, 5, [TEXT as u64, 0x2000, 256, 0x300]);
    header(&mut file, 2, 2, 6, [0x600, 0x600, 0x80, 0x80]);
    header(&mut file, 3, 4, 4, [0x700, 0x700, 40, 40]);
    // The descriptor: LDS 2048, kernarg 24, entry at 0x2000, wave32 with an argument pointer.
    put(&mut file, DESCRIPTOR, &2048u32.to_le_bytes());
    put(&mut file, DESCRIPTOR + 8, &24u32.to_le_bytes());
    put(&mut file, DESCRIPTOR + 16, &(0x2000i64 - DESCRIPTOR as i64).to_le_bytes());
    put(&mut file, DESCRIPTOR + 44, &0x10u32.to_le_bytes());
    put(&mut file, DESCRIPTOR + 48, &0x60AF_0003u32.to_le_bytes());
    put(&mut file, DESCRIPTOR + 52, &0x0000_009Au32.to_le_bytes());
    put(&mut file, DESCRIPTOR + 56, &0x0408u16.to_le_bytes());
    // Names, symbols (none, k.kd, undefined u), hash.
    put(&mut file, 0x4c0, b"\0k.kd\0u\0");
    put(&mut file, 0x500 + 24, &1u32.to_le_bytes());
    put(&mut file, 0x500 + 28, &[0x11, 0, 7, 0]);
    put(&mut file, 0x500 + 32, &(DESCRIPTOR as u64).to_le_bytes());
    put(&mut file, 0x500 + 48, &6u32.to_le_bytes());
    put(&mut file, 0x580, &[1, 0, 0, 0, 3, 0, 0, 0]);
    // Relocations: RELATIVE64, ABS64 and REL64 against k.kd.
    for (index, kind, target, symbol, addend) in
        [(0u64, 13u32, 0x780u64, 0u32, 0x1234u64), (1, 3, 0x788, 1, 8), (2, 5, 0x790, 1, 0)]
    {
        let at = 0x5a0 + index as usize * 24;
        put(&mut file, at, &target.to_le_bytes());
        put(&mut file, at + 8, &kind.to_le_bytes());
        put(&mut file, at + 12, &symbol.to_le_bytes());
        put(&mut file, at + 16, &addend.to_le_bytes());
    }
    let tags = [(4u64, 0x580u64), (5, 0x4c0), (10, 8), (6, 0x500), (7, 0x5a0), (8, 72)];
    for (index, (tag, value)) in tags.into_iter().enumerate() {
        put(&mut file, 0x600 + index * 16, &tag.to_le_bytes());
        put(&mut file, 0x608 + index * 16, &value.to_le_bytes());
    }
    // The note: no hidden argument.
    put(&mut file, 0x700, &[7, 0, 0, 0, 13, 0, 0, 0, 32, 0, 0, 0]);
    put(&mut file, 0x70c, b"AMDGPU\0\0\xabx.value_kin");
    put(&mut file, TEXT, &0xBFB0_0000u32.to_le_bytes());
    file
}

fn changed(at: usize, bytes: &[u8]) -> Result<(), CodeError> {
    let mut file = object();
    put(&mut file, at, bytes);
    Object::parse(&file, GFX1100).map(drop)
}

#[test]
fn an_image_is_placed_zeroed_and_relocated() {
    let file = object();
    let object = Object::parse(&file, GFX1100).expect("valid");
    assert_eq!(object.image_bytes(), 0x3000);
    let base = 0x7f00_0000_0000;
    let kernels: Vec<_> = object.kernels(base).map(|kernel| kernel.expect("valid")).collect();
    assert_eq!(kernels.len(), 1);
    let (name, kernel) = kernels[0];
    assert_eq!(name, b"k");
    assert_eq!((kernel.descriptor, kernel.entry), (base + 0x400, base + 0x2000));
    assert_eq!((kernel.kernarg_bytes, kernel.group_bytes, kernel.is_wave32), (24, 2048, true));
    assert_eq!((kernel.rsrc1, kernel.rsrc2, kernel.rsrc3), (0x60AF_0003, 0x9A, 0x10));
    let mut image = vec![0xEE; 0x3000];
    object.image(base, &mut image).expect("room");
    let word = |at: usize| u64::from_le_bytes(image[at..at + 8].try_into().expect("8 bytes"));
    assert_eq!(word(0x780), base + 0x1234);
    assert_eq!(word(0x788), base + 0x408);
    assert_eq!(word(0x790), 0x400u64.wrapping_sub(0x790));
    assert_eq!(word(0x2000), 0xBFB0_0000);
    assert!(image[0x2100..].iter().all(|&byte| byte == 0), "zeroed tail");
    assert!(object.image(base, &mut image[..0x2000]).is_err());
}

#[test]
fn what_does_not_fit_the_device_or_this_driver_is_refused() {
    assert_eq!(changed(0, b"\x7fELG"), Err(CodeError::NotACodeObject));
    assert_eq!(changed(4, &[1]), Err(CodeError::NotACodeObject));
    assert_eq!(changed(8, &[2]), Err(CodeError::NotACodeObject));
    assert_eq!(changed(18, &[62]), Err(CodeError::NotACodeObject));
    assert!(changed(8, &[4]).is_ok(), "version 6");
    let wrong = |flags| Err(CodeError::WrongMachine { flags, expected: GFX1100 });
    assert_eq!(changed(48, &[0x4A]), wrong(0x4A));
    assert_eq!(changed(51, &[1]), wrong(0x0100_0041));
    assert_eq!(changed(49, &[3]), wrong(0x341));
    assert_eq!(
        Object::parse(&object(), GFX1151).map(drop),
        Err(CodeError::WrongMachine { flags: 0x41, expected: GFX1151 })
    );
    assert_eq!(changed(DESCRIPTOR + 4, &[16]), Err(CodeError::Scratch(16)));
    assert_eq!(changed(DESCRIPTOR + 52, &[0x9B]), Err(CodeError::Scratch(0)));
    assert_eq!(changed(DESCRIPTOR + 57, &[0x0C]), Err(CodeError::DynamicStack));
    for bit in [0u16, 1, 2, 4, 5, 6] {
        let properties: u16 = 0x408 | 1 << bit;
        let result = changed(DESCRIPTOR + 56, &properties.to_le_bytes());
        assert_eq!(result, Err(CodeError::Properties(properties)));
    }
    assert_eq!(changed(DESCRIPTOR + 58, &[4]), Err(CodeError::Preload(4)));
    assert_eq!(changed(DESCRIPTOR + 2, &[2]), Err(CodeError::GroupSegment(0x2_0800)));
    assert_eq!(changed(DESCRIPTOR + 16, &[0x04]), Err(CodeError::Entry(0x2004)));
    assert_eq!(changed(DESCRIPTOR + 17, &[0xEC]), Err(CodeError::Entry(0xF000)), "outside");
    assert_eq!(changed(HEADERS + 56 + 4, &[4]), Err(CodeError::Entry(0x2000)), "not executable");
    assert_eq!(changed(0x5a0 + 8, &[9]), Err(CodeError::Relocation(9)));
    assert_eq!(changed(0x5a0 + 24 + 12, &[2]), Err(CodeError::Undefined(2)));
    assert!(matches!(changed(0x5a0 + 24 + 12, &[3]), Err(CodeError::Truncated(..))));
    assert!(matches!(changed(0x5a2, &[1]), Err(CodeError::Truncated(..))), "target outside");
    assert_eq!(changed(HEADERS + 56 + 43, &[0x7F]), Err(CodeError::TooLarge(256 << 20)));
    assert_eq!(changed(0x608 + 16, &[0xff, 0xff]), Err(CodeError::NoSymbols));
    let mut hidden = object();
    put(&mut hidden, HEADERS + 3 * 56 + 32, &64u64.to_le_bytes());
    put(&mut hidden, 0x704, &[0x20]);
    put(&mut hidden, 0x714, b"\xab.value_kind\xabhidden_none");
    assert_eq!(Object::parse(&hidden, GFX1100).map(drop), Err(CodeError::HiddenArgument));
    let mut long = object();
    put(&mut long, 0x608 + 32, &0x340u64.to_le_bytes());
    put(&mut long, 0x500 + 24, &0x2e0u32.to_le_bytes());
    put(&mut long, 0x7a0, &[b'n'; 64]);
    put(&mut long, 0x7e0, b".kd");
    assert_eq!(Object::parse(&long, GFX1100).map(drop), Err(CodeError::LongName(64)));
    assert_eq!(Object::parse(&[], GFX1100).map(drop), Err(CodeError::NotACodeObject));
}

#[test]
fn no_damaged_file_does_harm() {
    let whole = object();
    let try_all = |file: &[u8]| {
        if let Ok(object) = Object::parse(file, GFX1100) {
            assert!(object.image_bytes() <= 256 << 20);
            let mut image = vec![0; object.image_bytes().min(1 << 20) as usize];
            let _ = object.image(0x1000, &mut image);
            assert!(object.kernels(0).all(|kernel| kernel.is_ok()));
        }
    };
    for end in 0..whole.len() {
        try_all(&whole[..end]);
    }
    // Every byte of the structures set to the values that break arithmetic.
    for at in 0..0x780 {
        for value in [0, 1, 0x7f, 0x80, 0xff] {
            let mut file = whole.clone();
            file[at] = value;
            try_all(&file);
        }
    }
    // Every aligned 8 bytes set to extremes at once.
    for at in (0..0x780).step_by(4) {
        for value in [u64::MAX, u64::MAX - 7, 1 << 63, 0x7FFF_FFFF_FFFF_FFFF] {
            let mut file = whole.clone();
            put(&mut file, at, &value.to_le_bytes());
            try_all(&file);
        }
    }
}

#[test]
fn a_program_is_loaded_and_found_by_name() {
    for name in ["RX 7900 XTX", "8060S"] {
        let fake = Fake::new(Machine::new(Release::V6_12, 64 * GIB, &[name]));
        let mut process = open(&fake);
        let first = DeviceIndex(0);
        let mut uploader = Uploader::new(&mut process, first).expect("uploader");
        let mut file = object();
        let mut clock = Clock::default();
        let machine = if name == "8060S" { GFX1151 } else { GFX1100 };
        if machine == GFX1151 {
            let wrong = Program::load(&mut process, &mut uploader, first, &file, machine, &mut clock);
            wrong.expect_err("made for gfx1100");
            file[48] = machine;
        }
        let program =
            Program::load(&mut process, &mut uploader, first, &file, machine, &mut clock).expect("valid");
        let kernel = *program.kernel("k").expect("there");
        assert!(program.kernel("K").is_none());
        let near = process.allocations().nearest(kernel.entry).to_string();
        assert_eq!(near, "k+0x0");
        program.unload(&mut process).expect("free");
        uploader.destroy(&mut process).expect("destroy");
        process.reopen();
        process.shutdown().expect("nothing left");
    }
}

/// The linker that comes with the Rust toolchain.
fn linker() -> Option<PathBuf> {
    let output = Command::new("rustc").args(["--print", "sysroot"]).output().ok()?;
    let root = PathBuf::from(String::from_utf8(output.stdout).ok()?.trim());
    let rustlib = std::fs::read_dir(root.join("lib/rustlib")).ok()?;
    rustlib.flatten().map(|target| target.path().join("bin/rust-lld")).find(|path| path.exists())
}

/// Assembles and links for a processor; `None` where the tools are not installed.
fn assemble(source: &str, processor: &str) -> Option<Vec<u8>> {
    let linker = linker()?;
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let path = |extension: &str| directory.join(format!("code-{processor}.{extension}"));
    std::fs::write(path("s"), source).expect("write");
    let assembler = ["llvm-mc-19", "llvm-mc-20", "llvm-mc-21", "llvm-mc"].into_iter().find_map(|tool| {
        let mut command = Command::new(tool);
        command.arg("-triple=amdgcn-amd-amdhsa").arg(format!("-mcpu={processor}")).arg("-filetype=obj");
        command.arg("-o").arg(path("o")).arg(path("s"));
        command.output().ok().filter(|output| output.status.success())
    });
    assembler?;
    let mut command = Command::new(linker);
    command.args(["-flavor", "gnu", "-shared", "-o"]).arg(path("so")).arg(path("o"));
    let linked = command.output().ok()?;
    assert!(linked.status.success(), "{}", String::from_utf8_lossy(&linked.stderr));
    std::fs::read(path("so")).ok()
}

fn kernel_source(name: &str, more: &str) -> String {
    format!(
        ".amdgcn_target \"amdgcn-amd-amdhsa--PROCESSOR\"\n.amdhsa_code_object_version 5\n.text\n.globl {name}\n\
         .p2align 8\n.type {name},@function\n{name}:\n s_endpgm\n.rodata\n.p2align 6\n.amdhsa_kernel {name}\n\
         .amdhsa_next_free_vgpr 24\n.amdhsa_next_free_sgpr 16\n.amdhsa_kernarg_size 40\n\
         .amdhsa_group_segment_fixed_size 4096\n.amdhsa_user_sgpr_kernarg_segment_ptr 1\n{more}\
         .end_amdhsa_kernel\n"
    )
}

#[test]
fn objects_made_by_llvm_are_read_the_same() {
    let targets =
        [("gfx1100", GFX1100), ("gfx1103", 0x44), ("gfx1150", 0x43), ("gfx1151", GFX1151), ("gfx1201", 0x4E)];
    for (processor, machine) in targets {
        let source = kernel_source("first", "").replace("PROCESSOR", processor)
            + &kernel_source("second", ".amdhsa_wavefront_size32 0\n").replace("PROCESSOR", processor);
        let Some(file) = assemble(&source, processor) else {
            println!("skipped: no llvm-mc that knows {processor}, or no rust-lld");
            continue;
        };
        let object = Object::parse(&file, machine).expect("valid");
        let mut kernels: Vec<_> = object.kernels(0x10000).map(|kernel| kernel.expect("valid")).collect();
        kernels.sort_by_key(|kernel| kernel.0);
        assert_eq!(
            kernels.iter().map(|kernel| kernel.0).collect::<Vec<_>>(),
            [b"first".as_slice(), b"second"]
        );
        for (name, kernel) in &kernels {
            assert_eq!((kernel.kernarg_bytes, kernel.group_bytes), (40, 4096), "{processor}");
            assert_eq!(kernel.is_wave32, *name == b"first");
            let granule = if kernel.is_wave32 { 8 } else { 4 };
            assert_eq!(kernel.rsrc1 & 63, 24 / granule - 1, "VGPR blocks");
            let mut image = vec![0; object.image_bytes() as usize];
            object.image(0x10000, &mut image).expect("room");
            let at = (kernel.entry - 0x10000) as usize;
            assert_eq!(image[at..at + 4], 0xBFB0_0000u32.to_le_bytes(), "s_endpgm");
        }
        assert!(matches!(Object::parse(&file, 0x47), Err(CodeError::WrongMachine { .. })));
        for (directive, error) in [
            (".amdhsa_private_segment_fixed_size 16\n", CodeError::Scratch(16)),
            (".amdhsa_user_sgpr_dispatch_ptr 1\n", CodeError::Properties(0x40A)),
            (".amdhsa_uses_dynamic_stack 1\n", CodeError::DynamicStack),
        ] {
            let source = kernel_source("k", directive).replace("PROCESSOR", processor);
            let file = assemble(&source, processor).expect("assembled before");
            assert_eq!(Object::parse(&file, machine).map(drop), Err(error), "{processor}");
        }
    }
}
