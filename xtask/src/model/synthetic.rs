//! Writes models of a true shape with random valid blocks, tensor by tensor: as fast as the disk
//! takes them, for measurements where only the shape counts.

use super::shapes::{Fill, Job, Shape};
use super::tokenizer;
use anyhow::{Context as _, bail};
use doorbell_tests::blocks;
use doorbell_tests::gguf_writer::{GgufStream, TensorInfo, Value};
use doorbell_tests::random::Random;
use doorbell_tests::tiny::{self, Family};
use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::sync::mpsc::sync_channel;
use std::time::Instant;

/// Writes the model to `target`.
pub(super) fn write(shape: &Shape, target: &Path) -> Result<(), anyhow::Error> {
    let tokenizer = tokenizer::qwen3(shape.base, shape.vocab)?;
    let mut metadata = shape.metadata();
    metadata.extend(tokenizer.metadata);
    let metadata: Vec<(Vec<u8>, Value)> =
        metadata.into_iter().map(|(key, value)| (key.into_bytes(), value)).collect();
    let jobs = shape.jobs(tokenizer.len);
    let infos: Vec<TensorInfo> = jobs.iter().map(|(info, _)| info.clone()).collect();
    let start = Instant::now();
    let file = File::create(target).with_context(|| format!("create {}", target.display()))?;
    let mut stream = GgufStream::begin(file, &metadata, &infos)?;
    // One thread makes pieces while the other writes them; two in flight keep both busy.
    let bytes = std::thread::scope(|scope| -> Result<usize, anyhow::Error> {
        let (sender, receiver) = sync_channel::<Vec<u8>>(2);
        scope.spawn(move || pieces(&jobs, |piece| sender.send(piece).is_ok()));
        let mut bytes = 0;
        for piece in receiver {
            stream.write(&piece)?;
            bytes += piece.len();
        }
        stream.finish()?.flush()?;
        Ok(bytes)
    })?;
    let seconds = start.elapsed().as_secs_f64();
    let megabytes = bytes as f64 / 1e6;
    eprintln!("wrote {megabytes:.0} MB of tensors in {seconds:.1} s, {:.0} MB/s", megabytes / seconds);
    Ok(())
}

/// Makes the data of all tensors in pieces of about 4 MB, whole blocks each, until `take` refuses one.
fn pieces(jobs: &[Job], mut take: impl FnMut(Vec<u8>) -> bool) {
    let mut random = Random::new(1);
    for (info, fill) in jobs {
        let mut left = info.bytes();
        let unit = info.ty.block_bytes();
        while left > 0 {
            let mut piece = vec![0; left.min((1 << 22) / unit * unit)];
            left -= piece.len();
            let words = |value: f32| value.to_le_bytes();
            match *fill {
                Fill::Random(std) => blocks::fill(info.ty, std, &mut random, &mut piece),
                Fill::Constant(value) => {
                    piece.as_chunks_mut().0.iter_mut().for_each(|word| *word = words(value));
                }
                Fill::Rotated(pairs) => {
                    let divisors = (0..).map(|pair| if pair < pairs { 1.0 } else { 1e30 });
                    piece
                        .as_chunks_mut()
                        .0
                        .iter_mut()
                        .zip(divisors)
                        .for_each(|(word, value)| *word = words(value));
                }
            }
            if !take(piece) {
                return;
            }
        }
    }
}

/// Writes a tiny model, `FAMILY` or `FAMILY:TYPE`.
pub(super) fn tiny(what: &str, target: &Path) -> Result<(), anyhow::Error> {
    let (family, kind) = what.split_once(':').unwrap_or((what, "F32"));
    let Some(family) = Family::ALL.into_iter().find(|known| known.name() == family) else {
        bail!("unknown family {family:?}; known: {}", Family::ALL.map(Family::name).join(", "));
    };
    let Some(kind) = blocks::TYPES.into_iter().find(|known| known.name() == kind) else {
        bail!("unknown type {kind:?}; known: {}", blocks::TYPES.map(|kind| kind.name()).join(", "));
    };
    let shape = if kind.block_len() > 32 { tiny::Shape::WIDE } else { tiny::Shape::NARROW };
    std::fs::write(target, tiny::model(family, shape, kind, 1).to_bytes())?;
    Ok(())
}
