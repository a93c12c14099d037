//! `cargo xtask kernels`: lists the compiler's sample kernels, prints IR, assembly or report, writes code objects, checks
//! them with LLVM, measures compile times, and computes digests of all kernels' code.

mod digest;
mod judge;
mod newer;
mod rival;
mod time;

use crate::{opencl, process};
use anyhow::{Context, Result, bail};
use doorbell_compiler::sample_kernels::SAMPLES;
use doorbell_compiler::{Kernel, Options, compile};
use doorbell_isa::Target;
use std::path::{Path, PathBuf};

/// Verbs of `cargo xtask kernels`.
#[derive(clap::Subcommand)]
pub(crate) enum Arguments {
    /// Names, one a line.
    List(Chip),
    /// IR of a kernel.
    Ir(Chosen),
    /// Machine code of a kernel as text.
    Asm(Chosen),
    /// Registers, instruction mix, issue clocks.
    Report(Chosen),
    /// Check all code objects and descriptors with LLVM, if it is installed, and hazards with a newer one.
    Check,
    /// Compare registers and instructions with clang's for the same kernels.
    Compare(Chip),
    /// CPU time that compiling takes: of the samples, and of all kernels of a model.
    Time {
        /// The chip.
        #[command(flatten)]
        chip: Chip,
        /// GGUF file of the model; it is read whole.
        #[arg(long)]
        model: Option<PathBuf>,
    },
    /// A digest of the code of every kernel on a chip of each generation: equal before and after a refactoring.
    Digest {
        /// Of the IR alone, without compiling.
        #[arg(long)]
        ir: bool,
    },
    /// Code object of a kernel.
    Object {
        /// The kernel.
        #[command(flatten)]
        chosen: Chosen,
        /// File to write.
        #[arg(short)]
        output: PathBuf,
    },
}

/// A chip.
#[derive(clap::Args)]
pub(crate) struct Chip {
    /// Chip, for example gfx1100.
    #[arg(long, default_value = "gfx1100")]
    chip: String,
}

/// A kernel and a chip.
#[derive(clap::Args)]
pub(crate) struct Chosen {
    /// Name of the kernel.
    name: String,
    /// Chip.
    #[command(flatten)]
    chip: Chip,
}

impl Chip {
    fn target(&self) -> Result<Target> {
        Target::from_name(&self.chip).with_context(|| format!("unknown chip {:?}", self.chip))
    }
}

impl Chosen {
    fn compile(&self) -> Result<Kernel> {
        let target = self.chip.target()?;
        let Some(sample) = SAMPLES.iter().find(|sample| sample.name == self.name) else {
            bail!("no kernel {:?}: see `cargo xtask kernels list`", self.name);
        };
        Ok(compile(&(sample.build)(target), target, &Options::default())?)
    }
}

/// Runs the verb.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    match arguments {
        Arguments::List(chip) => {
            chip.target()?;
            for sample in SAMPLES {
                println!("{}", sample.name);
            }
        }
        Arguments::Check => return check(),
        Arguments::Compare(chip) => {
            return rival::compare(&opencl::folder().join("samples.cl"), &folder(), chip.target()?);
        }
        Arguments::Time { chip, model } => return time::time(chip.target()?, model.as_deref()),
        Arguments::Digest { ir } => return digest::digest(*ir),
        Arguments::Ir(chosen) => print!("{}", chosen.compile()?.function),
        Arguments::Asm(chosen) => print!("{}", chosen.compile()?.assembly()),
        Arguments::Report(chosen) => print!("{}", chosen.compile()?.report()),
        Arguments::Object { chosen, output } => {
            std::fs::write(output, chosen.compile()?.object())
                .with_context(|| format!("cannot write {}", output.display()))?;
        }
    }
    Ok(())
}

/// Writes the code object of a sample kernel.
pub(crate) fn write_object(name: &str, chip: &str, output: &Path) -> Result<()> {
    let chosen = Chosen { name: name.to_owned(), chip: Chip { chip: chip.to_owned() } };
    run(&Arguments::Object { chosen, output: output.to_owned() })
}

/// Checks all code objects with LLVM.
pub(crate) fn check() -> Result<()> {
    if !process::works("llvm-readelf-19", &["--version"]) {
        eprintln!("kernels: LLVM 19 is not installed, nothing compared");
        return Ok(());
    }
    judge::check(&folder())?;
    newer::check(&folder())
}

/// Folder of the files for LLVM.
fn folder() -> PathBuf {
    process::root().join("target/kernels")
}
