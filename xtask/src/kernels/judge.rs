//! Checks our code objects with LLVM: readelf and objdump accept them, the disassembly is our text, and the descriptor is
//! the one that the assembler writes for the same resources.

use anyhow::{Context, Result, bail, ensure};
use doorbell_compiler::ir::Function;
use doorbell_compiler::object::Descriptor;
use doorbell_compiler::sample_kernels::SAMPLES;
use doorbell_compiler::{CompileError, Kernel, Options, compile};
use doorbell_isa::{Generation, Target};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Options with so few registers that samples spill.
const TIGHT: Options = Options { max_vgprs: 20, schedule: true, dual_issue: true, spill: true };

/// Checks every sample on three chips, and those that spill with too few registers once more.
pub(super) fn check(folder: &Path) -> Result<()> {
    std::fs::create_dir_all(folder)?;
    let (mut objects, mut spilling) = (0, 0);
    for target in [Target::Gfx1100, Target::Gfx1151, Target::Gfx1200] {
        let mut kernels = Vec::new();
        let before = spilling;
        for sample in SAMPLES {
            let function = (sample.build)(target);
            let kernel = compile(&function, target, &Options::default())?;
            let spilled = spilled(&function, target).with_context(|| format!("{} {target}", sample.name))?;
            spilling += usize::from(spilled.is_some());
            for kernel in spilled.iter().chain([&kernel]) {
                let file = folder.join("kernel.co");
                std::fs::write(&file, kernel.object())?;
                object(&file, kernel).with_context(|| format!("{} {target}", sample.name))?;
                descriptor(folder, kernel).with_context(|| format!("{} {target}", sample.name))?;
                objects += 1;
            }
            kernels.push(kernel);
        }
        ensure!(spilling > before, "no sample spills for {target} with {} registers", TIGHT.max_vgprs);
        joint(&folder.join("kernels.co"), &kernels).with_context(|| format!("all for {target}"))?;
        objects += 1;
    }
    println!(
        "{objects} code objects, {spilling} that spill: accepted by llvm-readelf and llvm-objdump, text and descriptors equal"
    );
    Ok(())
}

/// The kernel compiled with too few registers. `None` if it needs no scratch, or has values that can't be spilled.
fn spilled(function: &Function, target: Target) -> Result<Option<Kernel>> {
    match compile(function, target, &TIGHT) {
        Ok(kernel) => Ok(Some(kernel).filter(|kernel| kernel.resources.scratch_bytes > 0)),
        Err(CompileError::Pressure(_)) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn run(tool: &str, arguments: &[&str]) -> Result<String> {
    let output =
        Command::new(tool).args(arguments).output().with_context(|| format!("cannot start {tool}"))?;
    let complaints = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success() && complaints.trim().is_empty(), "{tool}: {complaints}");
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn object(file: &Path, kernel: &Kernel) -> Result<()> {
    let path = file.to_str().context("paths are UTF-8")?;
    let facts = run("llvm-readelf-19", &["-a", path])?;
    for expected in ["EM_AMDGPU", "NT_AMDGPU_METADATA", ".vgpr_count"] {
        ensure!(facts.contains(expected), "llvm-readelf does not show {expected}");
    }
    same(&run("llvm-objdump-19", &["-d", path])?, kernel)
}

/// Compares a listing with the kernel's text.
fn same(listing: &str, kernel: &Kernel) -> Result<()> {
    let theirs = listing.lines().filter_map(|line| line.rsplit_once("// ").map(|(text, _)| text.trim()));
    let assembly = kernel.assembly();
    let ours = assembly.lines().filter_map(|line| line.split_once("  ").map(|(_, text)| text.trim()));
    let (ours, theirs): (Vec<_>, Vec<_>) = (ours.collect(), theirs.collect());
    ensure!(theirs.len() >= ours.len(), "{} instructions, LLVM sees {}", ours.len(), theirs.len());
    for (index, (ours, theirs)) in ours.iter().zip(theirs).enumerate() {
        ensure!(*ours == theirs, "instruction {index}: ours '{ours}', LLVM's '{theirs}'");
    }
    Ok(())
}

/// Checks a code object of all kernels: the instructions of each under its name.
fn joint(file: &Path, kernels: &[Kernel]) -> Result<()> {
    std::fs::write(file, doorbell_compiler::object(kernels)?)?;
    let path = file.to_str().context("paths are UTF-8")?;
    run("llvm-readelf-19", &["-a", path])?;
    for kernel in kernels {
        let symbol = format!("--disassemble-symbols={}", kernel.function.name);
        same(&run("llvm-objdump-19", &[&symbol, path])?, kernel)
            .with_context(|| kernel.function.name.clone())?;
    }
    Ok(())
}

/// Assembles a descriptor with the kernel's resources and compares it with ours, the code offset aside.
fn descriptor(folder: &Path, kernel: &Kernel) -> Result<()> {
    let resources = &kernel.resources;
    let target = kernel.target;
    let [x, y, z] = resources.entry.workgroup_ids.map(u8::from);
    let mut source =
        format!(".amdgcn_target \"amdgcn-amd-amdhsa--{target}\"\n.text\nk:\ns_endpgm\n.rodata\n");
    source += ".amdhsa_kernel k\n";
    for (name, value) in [
        ("next_free_vgpr", u32::from(resources.vgprs)),
        ("next_free_sgpr", u32::from(resources.sgprs)),
        ("group_segment_fixed_size", resources.lds_bytes),
        ("private_segment_fixed_size", resources.scratch_bytes),
        ("enable_private_segment", u32::from(resources.scratch_bytes > 0)),
        ("kernarg_size", resources.kernarg_bytes),
        ("user_sgpr_count", resources.entry.user_sgprs.into()),
        ("user_sgpr_kernarg_segment_ptr", 1),
        ("system_sgpr_workgroup_id_x", x.into()),
        ("system_sgpr_workgroup_id_y", y.into()),
        ("system_sgpr_workgroup_id_z", z.into()),
        ("wavefront_size32", 1),
        ("float_denorm_mode_32", 3),
        ("workgroup_processor_mode", 1),
        ("memory_ordered", 1),
    ] {
        source += &format!(".amdhsa_{name} {value}\n");
    }
    source += ".end_amdhsa_kernel\n";
    let [assembly, assembled, bytes]: [PathBuf; 3] =
        ["descriptor.s", "descriptor.o", "descriptor.bin"].map(|name| folder.join(name));
    std::fs::write(&assembly, source)?;
    let text = |path: &PathBuf| path.to_str().map(str::to_owned).context("paths are UTF-8");
    let cpu = format!("-mcpu={target}");
    let (source, file, section) = (text(&assembly)?, text(&assembled)?, text(&bytes)?);
    run("llvm-mc-19", &["-triple=amdgcn-amd-amdhsa", &cpu, "-filetype=obj", &source, "-o", &file])?;
    run("llvm-objcopy-19", &["-O", "binary", "--only-section=.rodata", &file, &section])?;
    let mut theirs = std::fs::read(&bytes)?;
    if theirs.len() != 64 {
        bail!("a descriptor has 64 bytes, not {}", theirs.len());
    }
    theirs[16..24].fill(0);
    let mut ours = Descriptor::new(resources, target).bytes(0);
    // LLVM 19 has no directive for the prefetch size.
    ours[44..48].fill(0);
    // Older generations of the tool write the SGPR granule, which gfx10 and later ignore.
    ensure!(ours[..] == theirs[..], "ours {ours:02x?}\nLLVM's {theirs:02x?}");
    ensure!(target.generation() == Generation::Gfx12 || ours[50] & 0xa0 == 0xa0, "IEEE and DX10 modes");
    Ok(())
}
