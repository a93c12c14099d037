//! `doorbell plan`: the operations of a step, who runs each, and what it reads.

use crate::backend::{self, Compute};
use crate::failure::{Failure, Kind};
use crate::loaded::{self, HEAP};
use crate::output::{print, print_json, size};
use core::fmt;
use doorbell_core::model::Model;
use doorbell_core::plan::{HeadResult, Op, Plan, Shape};
use doorbell_runtime::compute::{self, Dispatched, Survey};
use serde_json::{Value, json};
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
    /// Tokens of context that attention looks at
    #[arg(long = "ctx", value_name = "N", default_value_t = 512, value_parser = clap::value_parser!(u32).range(1..))]
    context: u32,
    /// Print one JSON document: ops, bytes_per_token; of a GPU also dispatches_per_token, modelled_us, roofline_share
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let computer = arguments.compute.resolve()?;
    let file = loaded::open(&arguments.model)?;
    let gguf = loaded::parse(&file)?;
    let model = loaded::bind(&file, &gguf)?;
    let shape = Shape { rows: arguments.batch, outputs: arguments.batch };
    let plan =
        model.plan(shape, HeadResult::Logits, HEAP).map_err(|error| Failure::new(Kind::Memory, error))?;
    let survey = compute::survey(computer.device, &model, &plan, computer.kv, arguments.context, HEAP);
    let survey = survey.map_err(backend::failure)?;
    let device = computer.device.to_string();
    let sheet = Sheet { model: &model, plan: &plan, survey: survey.as_ref(), device: &device };
    if arguments.json {
        return print_json(&sheet.json(arguments.batch));
    }
    print(sheet.to_string())
}

/// A plan as it's printed.
struct Sheet<'s> {
    model: &'s Model<'s>,
    plan: &'s Plan<'s>,
    /// Of a GPU.
    survey: Option<&'s Survey>,
    device: &'s str,
}

impl Sheet<'_> {
    fn runner(&self, index: usize) -> &str {
        let on_device = self.survey.is_none_or(|survey| survey.ops[index].on_device);
        if on_device { self.device } else { "cpu" }
    }

    fn dispatches(&self, index: usize) -> &[Dispatched] {
        self.survey.map_or(&[], |survey| &survey.ops[index].dispatches)
    }

    fn json(&self, batch: u32) -> Value {
        let op = |(index, op): (usize, &Op)| {
            let (names, bytes) = weights(self.model, op);
            let dispatches: Vec<_> = self.dispatches(index).iter().map(dispatch).collect();
            let mut entry = json!({
                "op": op.name(),
                "runs_on": self.runner(index),
                "weight_bytes": bytes,
                "weights": names,
            });
            if self.survey.is_some() {
                entry["dispatches"] = json!(dispatches);
            }
            entry
        };
        let mut document = json!({
            "ops": self.plan.ops.iter().enumerate().map(op).collect::<Vec<_>>(),
            "bytes_per_token": bytes_per_token(self.model, &self.plan.ops),
            "activation_bytes": self.plan.arena as u64 * 4,
            "batch": batch,
            "device": self.device,
        });
        if let Some(survey) = self.survey {
            document["dispatches_per_token"] = json!(survey.count());
            document["bytes_per_step"] = json!(survey.bytes());
            document["modelled_us"] = json!(survey.modelled_us());
            document["roofline_share"] = json!(survey.roofline_share());
            document["converted_weights"] = json!(survey.conversions.list.len());
        }
        document
    }
}

fn dispatch(dispatch: &Dispatched) -> Value {
    json!({
        "kernel": dispatch.kernel,
        "groups": dispatch.groups,
        "workgroup": dispatch.workgroup,
        "vgprs": dispatch.report.vgprs,
        "lds_bytes": dispatch.report.lds_bytes,
        "waves_per_simd": dispatch.report.waves,
        "bytes_read": dispatch.cost.read,
        "bytes_written": dispatch.cost.written,
        "products": dispatch.cost.products,
        "waits": dispatch.waits,
        "modelled_us": dispatch.modelled_us,
    })
}

impl fmt::Display for Sheet<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, op) in self.plan.ops.iter().enumerate() {
            let (names, bytes) = weights(self.model, op);
            let (runner, bytes) = (self.runner(index), size(bytes));
            writeln!(f, "{index:>4} {:<9} {runner:<5} {bytes:>10}  {}", op.name(), names.join(" "))?;
            for Dispatched { kernel, groups: [x, y, z], workgroup, report, cost, modelled_us, .. } in
                self.dispatches(index)
            {
                let moved = size(cost.read + cost.written);
                writeln!(
                    f,
                    "     {kernel}: {x}x{y}x{z} groups of {workgroup}, {} VGPRs, {} B of LDS, {} waves, {moved}, \
                     modelled {modelled_us:.2} us",
                    report.vgprs, report.lds_bytes, report.waves
                )?;
            }
        }
        writeln!(
            f,
            "\n{} operations, {} of weights a token, {} of activations for {} rows",
            self.plan.ops.len(),
            size(bytes_per_token(self.model, &self.plan.ops)),
            size(self.plan.arena as u64 * 4),
            self.plan.shape.rows
        )?;
        let Some(survey) = self.survey else { return Ok(()) };
        let on_host = survey.ops.iter().filter(|op| !op.on_device).count();
        writeln!(
            f,
            "{} dispatches a step, modelled {:.1} us, {:.0} % of them at the chip's peak; {on_host} operations on \
             the CPU",
            survey.count(),
            survey.modelled_us(),
            survey.roofline_share() * 100.0
        )?;
        if !survey.conversions.list.is_empty() {
            writeln!(f, "{}", survey.conversions)?;
        }
        Ok(())
    }
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
