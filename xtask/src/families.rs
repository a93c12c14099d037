//! Compares the model families with logits that others computed from the same weights.
//!
//! A folder has `NAME.gguf` beside `NAME.f32`: the logits of the tokens 1, 2, 3 and so on (modulo the vocabulary), each
//! in a row, as little-endian f32. Each model runs on the CPU device with keys and values in F32.

use anyhow::{Context, Result, anyhow, bail};
use doorbell_core::backend::KvType;
use doorbell_core::engine::score;
use doorbell_core::gguf::Gguf;
use doorbell_core::heap::{Global, Heap};
use doorbell_core::model::Model;
use doorbell_core::token::TokenId;
use doorbell_cpu::backend::CpuBackend;
use std::path::{Path, PathBuf};

const HEAP: Heap<'static> = &Global;

/// Largest squared error, as a share of the logits' squares, of models that are equal. A non-linearity that a peer takes
/// from a table of halves costs up to 1e-5.
const LIMIT: f64 = 1e-5;

/// KV pages of a run: enough for 4,096 tokens.
const PAGES: u32 = 128;

/// Arguments of `families`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The folder with models and logits.
    folder: PathBuf,
}

/// How a model compares.
enum Verdict {
    Equal(f64),
    Differs(f64),
    Refused(String),
}

/// Prints a verdict for each model of the folder, then how many there are of each.
///
/// # Errors
/// A model that differs, or a folder without models.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let entries = std::fs::read_dir(&arguments.folder)
        .with_context(|| format!("{} cannot be read", arguments.folder.display()))?;
    let mut paths = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<PathBuf>>>()?;
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "gguf"));
    paths.sort();
    let (mut equal, mut differing, mut refused) = (0, 0, 0);
    for path in &paths {
        let name = path.file_stem().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        match compare(path).with_context(|| name.clone())? {
            Verdict::Equal(nmse) => {
                equal += 1;
                println!("{name:20} equal     NMSE {nmse:.1e}");
            }
            Verdict::Differs(nmse) => {
                differing += 1;
                println!("{name:20} differs   NMSE {nmse:.1e}");
            }
            Verdict::Refused(reason) => {
                refused += 1;
                println!("{name:20} refused   {reason}");
            }
        }
    }
    println!("{equal} equal, {differing} differ, {refused} refused");
    match (paths.len(), differing) {
        (0, _) => bail!("{} has no models", arguments.folder.display()),
        (_, 0) => Ok(()),
        _ => bail!("{differing} models differ from their logits"),
    }
}

fn compare(path: &Path) -> Result<Verdict> {
    let file = std::fs::read(path)?;
    let logits = std::fs::read(path.with_extension("f32"))?;
    let expected: Vec<f32> = logits.as_chunks().0.iter().map(|word| f32::from_le_bytes(*word)).collect();
    let gguf = Gguf::parse(&file, HEAP)?;
    let model = match Model::new(&gguf, HEAP) {
        Ok(model) => model,
        Err(error) => return Ok(Verdict::Refused(error.to_string())),
    };
    let tokens = expected.len() as u32 / model.vocabulary;
    let tokens: Vec<TokenId> = (1..=tokens).map(|token| TokenId(token % model.vocabulary)).collect();
    let mut backend = CpuBackend::new(&model, PAGES, KvType::F32, 1, HEAP)?;
    let mut found = Vec::new();
    score(&model, &mut backend, &tokens, HEAP, &mut || (), &mut |_, row| found.extend_from_slice(row))
        .map_err(|error| anyhow!("{error}"))?;
    if found.len() != expected.len() {
        bail!("{} logits instead of {}", found.len(), expected.len());
    }
    let pairs = || found.iter().zip(&expected).map(|(&a, &b)| (f64::from(a), f64::from(b)));
    let nmse = pairs().map(|(a, b)| (a - b).powi(2)).sum::<f64>() / pairs().map(|(_, b)| b * b).sum::<f64>();
    Ok(if nmse < LIMIT { Verdict::Equal(nmse) } else { Verdict::Differs(nmse) })
}
