//! OpenCL C programs, compiled by clang at -O0 and -O2 for three chips, give the host's results.
//!
//! Sources and the script that compiles them: `tests/opencl/soft`. Every program also runs under all sanitizers, which
//! must stay silent.

use doorbell_isa::{Generation, Op};
use doorbell_soft::code::{CodeObject, Descriptor, Launch};
use doorbell_soft::memory::Space;
use doorbell_soft::processor::{Engine, Level, Options, Report};
use std::collections::BTreeSet;

use crate::references::{REFERENCES, expected};

/// Chip, optimization level, file.
pub(crate) static OBJECTS: [(&str, u8, &[u8]); 6] = [
    ("gfx1100", 0, include_bytes!("../goldens/soft/gfx1100-O0.co")),
    ("gfx1100", 2, include_bytes!("../goldens/soft/gfx1100-O2.co")),
    ("gfx1151", 0, include_bytes!("../goldens/soft/gfx1151-O0.co")),
    ("gfx1151", 2, include_bytes!("../goldens/soft/gfx1151-O2.co")),
    ("gfx1200", 0, include_bytes!("../goldens/soft/gfx1200-O0.co")),
    ("gfx1200", 2, include_bytes!("../goldens/soft/gfx1200-O2.co")),
];

const ITEMS: usize = 256;

/// Input words and the host's results of the item functions.
pub(crate) fn items() -> (Vec<u32>, Vec<(String, Vec<u32>)>) {
    let mut rows = include_str!("../goldens/soft/items.txt").lines().map(|line| {
        let mut fields = line.split_whitespace();
        let name = fields.next().unwrap().to_owned();
        (name, fields.map(|field| u32::from_str_radix(field, 16).unwrap()).collect::<Vec<u32>>())
    });
    let (_, input) = rows.next().unwrap();
    (input, rows.collect())
}

/// Runs one kernel of a code object: the output words, the report, the instructions it met.
pub(crate) fn run(
    object: &CodeObject,
    kernel: &str,
    input: &[u32],
    options: Options,
) -> Result<(Vec<u32>, Report, BTreeSet<Op>), String> {
    let mut space = Space::new();
    let code = space.allocate("code", object.image.len()).unwrap();
    code.write(0, &object.relocated(code.address()));
    let source = space.allocate("input", ITEMS * 4).unwrap();
    let target = space.allocate("output", ITEMS * 4).unwrap();
    let arguments = space.allocate("arguments", 4096).unwrap();
    for (index, word) in input.iter().enumerate() {
        source.store32(index * 4, *word);
    }
    // The fields of a dispatch packet that compiled code reads: group sizes and grid sizes.
    let packet = space.allocate("packet", 64).unwrap();
    packet.store32(4, 64 | 1 << 16);
    packet.store32(8, 1);
    packet.store32(12, ITEMS as u32);
    packet.store32(16, 1);
    packet.store32(20, 1);
    arguments.store64(0, source.address());
    arguments.store64(8, target.address());
    arguments.store32(16, ITEMS as u32);
    let entry = object.kernel(kernel).ok_or("no such kernel")?;
    let address = code.address() + entry.descriptor;
    let descriptor =
        Descriptor::parse(&object.image[entry.descriptor as usize..]).map_err(|e| e.to_string())?;
    let launch = Launch {
        name: kernel.into(),
        grid: [ITEMS as u32, 1, 1],
        group: [64, 1, 1],
        kernarg: arguments.address(),
        packet: packet.address(),
        ..Launch::default()
    };
    let dispatch = descriptor.dispatch(address, &launch, object.target).map_err(|e| e.to_string())?;
    let mut engine = Engine::new(object.target, options);
    let report = engine.run(&[dispatch], &mut space).map_err(|fault| fault.to_string())?;
    let out = (0..ITEMS).map(|index| target.load32(index * 4)).collect();
    Ok((out, report, engine.executed().clone()))
}

/// Every program: kernel name and expectation on a chip.
fn programs(object: &CodeObject, input: &[u32]) -> Vec<(String, Vec<u32>)> {
    let gfx12 = object.target.generation() == Generation::Gfx12;
    let (_, rows) = items();
    let mut programs: Vec<(String, Vec<u32>)> =
        rows.into_iter().map(|(name, row)| (format!("k_{name}"), row)).collect();
    for (name, _) in REFERENCES {
        programs.push(((*name).into(), expected(name, input, gfx12).unwrap()));
    }
    programs
}

fn check(level: Level, seeds: &[u64]) {
    let (input, _) = items();
    let (mut wrong, mut count) = (Vec::new(), 0);
    for (chip, optimization, file) in OBJECTS {
        let object = CodeObject::parse(file).unwrap();
        assert_eq!(object.target.name(), chip);
        for (name, expected) in programs(&object, &input) {
            for seed in seeds {
                let options = Options { level, seed: *seed, budget: 50_000_000, ..Options::default() };
                // LLVM 19 does not follow the rule of gfx12.
                let options = Options { scalar_reads: false, ..options };
                count += 1;
                let label = format!("{name} {chip} -O{optimization} seed {seed}");
                match run(&object, &name, &input, options) {
                    Err(why) => wrong.push(format!("{label}: {why}")),
                    Ok((found, report, _)) => {
                        let differ = (0..ITEMS).find(|at| found[*at] != expected[*at]);
                        if let Some(at) = differ {
                            let (want, have) = (expected[at], found[at]);
                            wrong.push(format!("{label}: word {at}: {want:#x} expected, {have:#x} found"));
                        }
                        if let Some(finding) = report.findings.first() {
                            wrong.push(format!("{label}: {finding}"));
                        }
                    }
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {count} differ\n{}", wrong.len(), wrong.join("\n"));
    assert!(count >= 30 * 6);
}

#[test]
fn compiled_programs_give_the_results_of_the_host() {
    check(Level::Fast, &[0]);
}

#[test]
fn compiled_programs_pass_every_sanitizer_in_any_order() {
    check(Level::Strict, &[1, 2]);
}

/// Classes of code that the programs must cover.
static CLASSES: &[(&str, &[&str])] = &[
    (
        "integers",
        &["k_integer_mix", "k_integer_divide", "k_integer_wide", "k_wide_divide", "k_narrow", "k_bits"],
    ),
    (
        "floats",
        &["k_float_sums", "k_float_fused", "k_float_divide", "k_float_root", "k_double_sums", "half_dot"],
    ),
    ("LDS sorts and scans", &["lds_sort", "lds_scan", "lds_reduce", "lds_transpose"]),
    ("atomics", &["global_atomics", "compare_exchange", "lds_histogram"]),
    ("divergent control flow", &["k_diverge", "k_choose", "k_mandelbrot"]),
    ("private arrays", &["k_array_sort", "k_array_bytes", "k_table"]),
    ("calls", &["k_calls", "k_structs", "k_pointers"]),
    ("dot4", &["dot_bytes"]),
    ("WMMA", &["matrix_half", "matrix_bytes"]),
    ("lanes", &["wave_ballot", "wave_swizzle"]),
];

#[test]
fn the_programs_cover_every_class_of_code() {
    let (input, _) = items();
    for (chip, optimization, file) in OBJECTS {
        let object = CodeObject::parse(file).unwrap();
        let names: Vec<String> = programs(&object, &input).into_iter().map(|(name, _)| name).collect();
        for (class, members) in CLASSES {
            for member in *members {
                assert!(names.iter().any(|name| name == member), "{class}: {member} on {chip}");
                assert!(object.kernel(member).is_some(), "{member} on {chip} -O{optimization}");
            }
        }
        println!("{} programs on {chip} at -O{optimization}", names.len());
        assert!(names.len() >= 30);
    }
}
