//! `doorbell doctor`: why a GPU can't be used, or not at full speed, and how to fix it.

use crate::failure::{Failure, Kind};
use crate::generate;
use crate::habits;
use crate::loaded::{self, HEAP};
use crate::output::{print, print_json};
use doorbell_core::backend::KvType;
use doorbell_runtime::machine::{Machine, ModelFootprint, Verdict};
use std::path::{Path, PathBuf};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// A model whose memory is checked, too; a .gguf file
    model: Option<PathBuf>,
    /// Its context [default: the model's, at most 4096]
    #[arg(short = 'c', long = "ctx", alias = "ctx-size", value_name = "N", requires = "model", value_parser = habits::tokens)]
    context: Option<u32>,
    /// Print one JSON document: verdict, kernel, interface, gpus, model, findings
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let footprint =
        arguments.model.as_deref().map(|model| footprint(model, arguments.context)).transpose()?;
    let machine = Machine::read(footprint).map_err(|error| Failure::new(Kind::Memory, error))?;
    let diagnosis = machine.diagnosis();
    if arguments.json {
        print_json(&diagnosis.json())?;
    } else {
        print(diagnosis.to_string())?;
    }
    match diagnosis.verdict() {
        Verdict::Usable => Ok(()),
        Verdict::Warned => Err(Failure::silent(Kind::Warned)),
        Verdict::Unusable => Err(Failure::silent(Kind::Device)),
    }
}

/// The memory that the model needs on a device.
fn footprint(path: &Path, context: Option<u32>) -> Result<ModelFootprint, Failure> {
    let file = loaded::open(path)?;
    let gguf = loaded::parse(&file)?;
    let model = loaded::bind(&file, &gguf)?;
    let config = generate::config(&model, context);
    let memory =
        config.memory(&model, KvType::default(), HEAP).map_err(|error| Failure::new(Kind::Memory, error))?;
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let bytes = memory.weights + memory.kv + memory.activations + memory.outputs;
    Ok(ModelFootprint { name, bytes })
}
