//! `doorbell info`: the contents of a model file, and the memory that it needs.

use crate::failure::Failure;
use crate::generate;
use crate::habits;
use crate::loaded::{self, HEAP};
use crate::output::{print, print_json, size};
use alloc::collections::BTreeMap;
use core::fmt::{self, Write as _};
use core::num::NonZeroUsize;
use doorbell_core::backend::KvType;
use doorbell_core::engine::{Config, Memory};
use doorbell_core::gguf::{Array, Gguf, Tensor, Value};
use doorbell_core::model::Model;
use doorbell_core::plan::{GroupId, PAGE_TOKENS};
use doorbell_core::sample::SamplerParams;
use doorbell_core::token::Tokenizer;
use doorbell_runtime::backend;
use doorbell_runtime::device::Device;
use doorbell_runtime::file::ModelFile;
use serde_json::{Map, Value as Json, json};
use std::path::PathBuf;

/// Longer arrays are shown only by type and length.
const ARRAY_MAX: usize = 32;

/// Limit of strings in the text output, in characters.
const STRING_MAX: usize = 100;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The model, a .gguf file
    model: PathBuf,
    /// The context for the memory estimate [default: the model's, at most 4096]
    #[arg(short = 'c', long = "ctx", alias = "ctx-size", value_name = "N", value_parser = habits::tokens)]
    context: Option<u32>,
    /// The type of keys and values for the memory estimate: f16, f32 or q8_0
    #[arg(long, value_name = "TYPE", default_value_t)]
    kv: KvType,
    /// Also list the tensors in the text output
    #[arg(long)]
    tensors: bool,
    /// Print one JSON document: metadata, tensors, types, bytes, memory
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let file = loaded::open(&arguments.model)?;
    let gguf = loaded::parse(&file)?;
    let summary = Summary::new(&file, &gguf, arguments.context, arguments.kv);
    if arguments.json { print_json(&summary.json()) } else { print(summary.text(arguments.tensors)) }
}

/// Tensors of one type.
#[derive(Default)]
struct Share {
    tensors: u64,
    elements: u64,
    bytes: u64,
}

struct Summary<'f> {
    file: &'f ModelFile,
    gguf: &'f Gguf<'f>,
    types: BTreeMap<&'static str, Share>,
    /// The needs of the model, or the reason why it can't run.
    memory: Result<Needs, String>,
}

/// Memory that a model needs to run.
struct Needs {
    context: u32,
    kv: KvType,
    memory: Memory,
    /// Bytes of a KV page over all layers for each type; `None` if the model's heads don't fit the type.
    pages: [(KvType, Option<u64>); KvType::ALL.len()],
    groups: Vec<Group>,
}

/// Layers whose keys and values have the same form and live equally long.
struct Group {
    layers: u16,
    /// Positions visible; `None` for all.
    window: Option<u32>,
    /// Pages that are kept.
    pages: u32,
    bytes: u64,
}

impl Group {
    /// The groups of a model under the limits of `config`.
    fn all(model: &Model<'_>, config: &Config, kv: KvType) -> Vec<Self> {
        let pages = config.kv_pages(model);
        let groups = (0..).map(GroupId).zip(&model.groups).map(|(id, group)| {
            let tokens = u64::from(pages.of(id)) * PAGE_TOKENS as u64;
            let bytes = group.bytes_per_token(kv).unwrap_or(0) as u64 * tokens;
            Self { layers: group.layers, window: group.window, pages: pages.of(id), bytes }
        });
        groups.collect()
    }

    fn json(&self) -> Json {
        let Self { layers, window, pages, bytes } = self;
        json!({ "layers": layers, "window": window, "tokens": u64::from(*pages) * PAGE_TOKENS as u64, "bytes": bytes })
    }
}

impl<'f> Summary<'f> {
    fn new(file: &'f ModelFile, gguf: &'f Gguf<'f>, context: Option<u32>, kv: KvType) -> Self {
        let mut types = BTreeMap::<_, Share>::new();
        for tensor in gguf.tensors() {
            let share = types.entry(tensor.ty.name()).or_default();
            share.tensors += 1;
            share.elements += tensor.elements();
            share.bytes += tensor.data.len() as u64;
        }
        let memory = Model::new(gguf, HEAP).map_err(|error| error.to_string()).and_then(|model| {
            let config = generate::config(&model, context);
            let memory = config.memory(&model, kv, HEAP).map_err(|error| error.to_string())?;
            let tokenizer = Tokenizer::new(gguf, HEAP).map_or(0, |tokenizer| tokenizer.heap_bytes() as u64);
            let threads = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
            let scratch = backend::scratch_bytes(Device::Cpu, &model, &config, kv, threads, HEAP)
                .map_err(|error| error.to_string())? as u64;
            let file = gguf.heap_bytes() as u64;
            let params = SamplerParams::of_model(gguf).unwrap_or_default();
            let sampling = config.sampling_bytes(&params);
            let page = |kv| model.kv_bytes_per_token(kv).ok().map(|bytes| bytes * PAGE_TOKENS as u64);
            let pages = KvType::ALL.map(|kv| (kv, page(kv)));
            let memory = Memory { file, tokenizer, sampling, scratch, ..memory };
            let groups = Group::all(&model, &config, kv);
            Ok(Needs { context: config.context, kv, memory, pages, groups })
        });
        Self { file, gguf, types, memory }
    }

    fn parameters(&self) -> u64 {
        self.types.values().map(|share| share.elements).sum()
    }

    fn json(&self) -> Json {
        let metadata: Map<_, _> =
            self.gguf.metadata().iter().map(|entry| (lossy(entry.key), json_value(entry.value))).collect();
        let types: Map<_, _> =
            self.types.iter().map(|(name, share)| ((*name).into(), json_share(share))).collect();
        let paths: Vec<_> = self.file.paths().iter().map(|path| path.display().to_string()).collect();
        json!({
            "files": paths,
            "bytes": self.file.len(),
            "version": self.gguf.version(),
            "alignment": self.gguf.alignment(),
            "parameters": self.parameters(),
            "metadata": metadata,
            "tensors": self.gguf.tensors().iter().map(json_tensor).collect::<Vec<_>>(),
            "types": types,
            "memory": match &self.memory {
                Ok(Needs { context, kv, memory, pages, groups }) => json!({
                    "context": context,
                    "kv_type": kv.name(),
                    "kv_groups": groups.iter().map(Group::json).collect::<Vec<_>>(),
                    "kv_page_bytes": pages.map(|(kv, bytes)| (kv.name(), bytes)).into_iter().collect::<BTreeMap<_, _>>(),
                    "weights": memory.weights,
                    "file": memory.file,
                    "tokenizer": memory.tokenizer,
                    "model": memory.model,
                    "kv": memory.kv,
                    "states": memory.states,
                    "activations": memory.activations,
                    "outputs": memory.outputs,
                    "scheduling": memory.scheduling,
                    "sampling": memory.sampling,
                    "scratch": memory.scratch,
                    "total": memory.total(),
                }),
                Err(_) => Json::Null,
            },
            "cannot_run": self.memory.as_ref().err(),
        })
    }

    /// The text output. Writing to a String can't fail.
    fn text(&self, tensors: bool) -> String {
        let mut out = String::new();
        for path in self.file.paths() {
            let _ = writeln!(out, "{}", path.display());
        }
        let _ = writeln!(
            out,
            "GGUF {}, {}, {} tensors, {} parameters\n",
            self.gguf.version(),
            size(self.file.len()),
            self.gguf.tensors().len(),
            self.parameters()
        );
        for entry in self.gguf.metadata() {
            let _ = writeln!(out, "{} = {}", printable(&lossy(entry.key)), text_value(entry.value));
        }
        let _ = writeln!(out, "\n{:<8} {:>8} {:>16} {:>12}", "type", "tensors", "elements", "bytes");
        for (name, share) in &self.types {
            let bytes = size(share.bytes);
            let _ = writeln!(out, "{name:<8} {:>8} {:>16} {bytes:>12}", share.tensors, share.elements);
        }
        if tensors {
            out.push('\n');
            for tensor in self.gguf.tensors() {
                let name = printable(&lossy(tensor.name));
                let dims = &tensor.dims[..usize::from(tensor.rank)];
                let _ = writeln!(
                    out,
                    "{:<8} {:>12} {dims:?} {name}",
                    tensor.ty.name(),
                    size(tensor.data.len() as u64)
                );
            }
        }
        out.push('\n');
        let _ = match &self.memory {
            Ok(needs) => writeln!(out, "{needs}"),
            Err(reason) => writeln!(out, "cannot be run: {reason}"),
        };
        out
    }
}

impl fmt::Display for Needs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { context, kv, memory, pages, groups } = self;
        let Memory { weights, kv: keys, states, activations, outputs, .. } = *memory;
        write!(
            f,
            "memory for {context} tokens: {} (weights {}, keys and values as {kv} {}, ",
            size(memory.total()),
            size(weights),
            size(keys)
        )?;
        if states > 0 {
            write!(f, "recurrent states and checkpoints {}, ", size(states))?;
        }
        writeln!(
            f,
            "activations {}, outputs {}, bookkeeping {})",
            size(activations),
            size(outputs),
            size(memory.total() - weights - keys - states - activations - outputs)
        )?;
        for Group { layers, window, pages, bytes } in groups {
            let tokens = u64::from(*pages) * PAGE_TOKENS as u64;
            let Some(window) = window else { continue };
            writeln!(f, "{layers} layers see {window} tokens and keep up to {tokens}: {}", size(*bytes))?;
        }
        write!(f, "{PAGE_TOKENS} tokens of keys and values take")?;
        let mut separator = "";
        for (kv, bytes) in pages.iter().filter_map(|(kv, bytes)| Some((kv, (*bytes)?))) {
            write!(f, "{separator} {} as {kv}", size(bytes))?;
            separator = ",";
        }
        Ok(())
    }
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Text for a terminal: control characters are escaped.
fn printable(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() { out.extend(c.escape_debug()) } else { out.push(c) }
    }
    out
}

fn json_share(share: &Share) -> Json {
    json!({ "tensors": share.tensors, "elements": share.elements, "bytes": share.bytes })
}

fn json_tensor(tensor: &Tensor<'_>) -> Json {
    json!({
        "name": lossy(tensor.name),
        "type": tensor.ty.name(),
        "dims": &tensor.dims[..usize::from(tensor.rank)],
        "bytes": tensor.data.len(),
    })
}

fn json_value(value: Value<'_>) -> Json {
    match value {
        Value::Bool(truth) => json!(truth),
        // the shortest digits of the f32, not those of the nearest f64
        Value::F32(number) => json!(number.to_string().parse::<f64>().ok()),
        Value::F64(number) => json!(number),
        Value::String(bytes) => json!(lossy(bytes)),
        Value::Array(array) if array.len() > ARRAY_MAX => {
            json!({ "array": array.kind().name(), "len": array.len() })
        }
        Value::Array(array) => array.iter().map(json_value).collect(),
        integer => {
            integer.as_u64().map(Json::from).or_else(|| integer.as_i64().map(Json::from)).unwrap_or_default()
        }
    }
}

fn text_value(value: Value<'_>) -> String {
    match value {
        Value::Array(array) if array.len() > ARRAY_MAX => long_array(array),
        Value::Array(array) => {
            let items: Vec<_> = array.iter().map(text_value).collect();
            format!("[{}]", items.join(", "))
        }
        Value::String(bytes) => {
            let text = printable(&lossy(bytes));
            let cut: String = text.chars().take(STRING_MAX).collect();
            if cut.len() < text.len() { format!("{cut}... ({} bytes)", bytes.len()) } else { cut }
        }
        other => json_value(other).to_string(),
    }
}

fn long_array(array: Array<'_>) -> String {
    format!("{} x {}", array.len(), array.kind().name())
}
