//! `doorbell plan`: the operations of a step, who runs each, and what it reads.

use crate::backend::{self, Compute};
use crate::failure::{Failure, Kind};
use crate::loaded::{self, HEAP};
use crate::output::{print, print_json, size};
use core::fmt::Write as _;
use doorbell_core::backend::Backend as _;
use doorbell_core::model::Model;
use doorbell_core::plan::{HeadResult, Op, Shape};
use serde_json::json;
use std::path::PathBuf;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The model, a .gguf file
    model: PathBuf,
    #[command(flatten)]
    compute: Compute,
    /// Rows of the step
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    batch: u32,
    /// Print one JSON document: ops, bytes_per_token
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let computer = arguments.compute.resolve()?;
    let file = loaded::open(&arguments.model)?;
    let gguf = loaded::parse(&file)?;
    let model = loaded::bind(&file, &gguf)?;
    let backend = backend::open(&model, 1, computer)?;
    let shape = Shape { rows: arguments.batch, outputs: arguments.batch };
    let plan =
        model.plan(shape, HeadResult::Logits, HEAP).map_err(|error| Failure::new(Kind::Memory, error))?;
    let runner = |op: &Op| if backend.supports(op) { computer.device.to_string() } else { "cpu".into() };
    let per_token = bytes_per_token(&model, &plan.ops);
    if arguments.json {
        let op = |op: &Op| {
            let (names, bytes) = weights(&model, op);
            json!({ "op": op.name(), "runs_on": runner(op), "weight_bytes": bytes, "weights": names })
        };
        return print_json(&json!({
            "ops": plan.ops.iter().map(op).collect::<Vec<_>>(),
            "bytes_per_token": per_token,
            "activation_bytes": plan.arena as u64 * 4,
            "batch": arguments.batch,
            "device": computer.device.to_string(),
        }));
    }
    let mut out = String::new();
    for (index, op) in plan.ops.iter().enumerate() {
        let (names, bytes) = weights(&model, op);
        // writing to a String can't fail
        let _ = writeln!(
            out,
            "{index:>4} {:<9} {:<5} {:>10}  {}",
            op.name(),
            runner(op),
            size(bytes),
            names.join(" ")
        );
    }
    let _ = writeln!(
        out,
        "\n{} operations, {} of weights a token, {} of activations for {} rows",
        plan.ops.len(),
        size(per_token),
        size(plan.arena as u64 * 4),
        arguments.batch
    );
    print(out)
}

/// The names of an operation's weights, and the bytes that it reads of them for one token.
fn weights(model: &Model<'_>, op: &Op) -> (Vec<String>, u64) {
    let mut names = Vec::new();
    let mut bytes = 0;
    if let Op::Embed { table, .. } = op {
        let weight = model.weight(*table);
        return (vec![String::from_utf8_lossy(weight.name).into_owned()], weight.row_bytes() as u64);
    }
    op.each_matrix(|matrix| {
        let weight = model.weight(matrix.weight);
        let name = String::from_utf8_lossy(weight.name).into_owned();
        let matrices = if let Op::Experts(experts) = op { u64::from(experts.top_k) } else { 1 };
        bytes += matrices * u64::from(matrix.rows) * weight.row_bytes() as u64;
        if !names.contains(&name) {
            names.push(name);
        }
    });
    (names, bytes)
}

/// Bytes of weights that one token reads.
pub(crate) fn bytes_per_token(model: &Model<'_>, ops: &[Op]) -> u64 {
    ops.iter().map(|op| weights(model, op).1).sum()
}
