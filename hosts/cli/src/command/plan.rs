//! `doorbell plan`: the operations of a step, the device of each, and the bytes that it reads.

use crate::device_args::{self, DeviceArgs};
use crate::failure::{Failure, Kind};
use crate::habits;
use crate::loaded::{self, HEAP};
use crate::output::{print, print_json, size};
use core::fmt;
use doorbell_core::model::Model;
use doorbell_core::plan::{HeadResult, Op, Plan, Shape};
use doorbell_runtime::backend::{self, DispatchEstimate, PlanEstimate, layers};
use doorbell_runtime::device::Device;
use doorbell_runtime::op_profile::{DispatchProfile, OpProfile, profile_ops};
use serde_json::{Map, Value, json};
use std::path::PathBuf;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The model, a .gguf file
    model: PathBuf,
    #[command(flatten)]
    device: DeviceArgs,
    /// Rows of the step
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    batch: u32,
    /// Rows of the step with logits
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    outputs: u32,
    /// Tokens of context that attention reads
    #[arg(short = 'c', long = "ctx", alias = "ctx-size", value_name = "N", default_value_t = 512, value_parser = habits::tokens)]
    context: u32,
    /// Don't run the kernels on the software GPU for modelled times; times are then lower bounds
    #[arg(long)]
    quick: bool,
    /// List every operation, and every kernel of a GPU, behind the summary
    #[arg(short, long)]
    verbose: bool,
    /// Print one JSON document: ops, bytes_per_token; of a GPU also layers, dispatches_per_token, modelled_us,
    /// roofline_share, matrix_share and more: see docs/plan.md for their meaning
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let resolved = arguments.device.resolve()?;
    let file = loaded::open(&arguments.model)?;
    let gguf = loaded::parse(&file)?;
    let model = loaded::bind(&file, &gguf)?;
    let (rows, outputs) = (arguments.batch, arguments.outputs.min(arguments.batch));
    let plan = model.plan(Shape { rows, outputs }, HeadResult::Logits, HEAP);
    let plan = plan.map_err(|error| Failure::new(Kind::Memory, error))?;
    let setup = resolved.backend_config();
    let estimate = backend::estimate(resolved.device, &model, &plan, &setup, arguments.context, HEAP);
    let estimate = estimate.map_err(device_args::failure)?;
    let chip = match resolved.device {
        Device::Soft { chip, .. } if !arguments.quick => Some(chip),
        _ => None,
    };
    let profile = estimate.as_ref().zip(chip).map(|(estimate, chip)| {
        profile_ops(chip, &model, &plan, estimate, resolved.kv, arguments.context, HEAP)
    });
    let profile = profile.transpose().map_err(device_args::failure)?;
    let device = resolved.device.to_string();
    let layers = layers(&plan, &model);
    let report = PlanReport {
        model: &model,
        plan: &plan,
        estimate: estimate.as_ref(),
        profile: profile.as_ref(),
        layers,
        device: &device,
        verbose: arguments.verbose,
    };
    if arguments.json {
        return print_json(&report.json());
    }
    print(report.to_string())
}

/// The printed form of a plan.
struct PlanReport<'s> {
    model: &'s Model<'s>,
    plan: &'s Plan<'s>,
    /// Estimate for a GPU.
    estimate: Option<&'s PlanEstimate>,
    /// Profile from the software GPU.
    profile: Option<&'s OpProfile>,
    /// The layer of each operation.
    layers: Vec<Option<u32>>,
    device: &'s str,
    /// True to list the operations.
    verbose: bool,
}

/// Cost of some operations of a step on a GPU.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Sum {
    dispatches: usize,
    /// Bytes that must be moved, and bytes that were moved on the software GPU.
    ideal: u64,
    moved: Option<u64>,
    /// Multiply-adds.
    products: u64,
    /// Microseconds at the rates that whole kernels reach, and those of the multiply-adds alone.
    ideal_us: f64,
    matrix_us: f64,
    /// Microseconds; modelled if the kernels ran on the software GPU.
    us: f64,
}

/// Smallest share of the matrix peak that is printed.
const MIN_PRINTED_SHARE: f64 = 0.05;

impl Sum {
    fn share(&self) -> f64 {
        if self.us > 0.0 { self.ideal_us / self.us } else { 0.0 }
    }

    /// Share of the peak of the matrix units.
    fn matrix_share(&self) -> f64 {
        if self.us > 0.0 { self.matrix_us / self.us } else { 0.0 }
    }

    /// The common fields of layers and operations.
    fn json(&self) -> Map<String, Value> {
        let fields: [(&str, Value); 6] = [
            ("bytes_ideal", self.ideal.into()),
            ("bytes_moved", self.moved.into()),
            ("products", self.products.into()),
            ("modelled_us", self.us.into()),
            ("roofline_share", self.share().into()),
            ("matrix_share", self.matrix_share().into()),
        ];
        fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    }
}

impl fmt::Display for Sum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:>4} dispatches, {:>10} at least", self.dispatches, size(self.ideal))?;
        if let Some(moved) = self.moved {
            write!(f, ", {:.3} of that moved", moved as f64 / self.ideal.max(1) as f64)?;
        }
        write!(f, ", modelled {:.1} us, {:.0} % of the roofline", self.us, self.share() * 100.0)?;
        match self.matrix_share() {
            share if share >= MIN_PRINTED_SHARE => write!(f, ", {:.0} % of the matrix peak", share * 100.0),
            _ => Ok(()),
        }
    }
}

impl PlanReport<'_> {
    fn runner(&self, index: usize) -> &str {
        let on_device = self.estimate.is_none_or(|estimate| estimate.ops[index].on_device);
        if on_device { self.device } else { "cpu" }
    }

    fn dispatches(&self, index: usize) -> &[DispatchEstimate] {
        self.estimate.map_or(&[], |estimate| &estimate.ops[index].dispatches)
    }

    fn profile_of(&self, index: usize, dispatch: usize) -> Option<&DispatchProfile> {
        self.profile?.ops[index].get(dispatch)
    }

    /// Modelled microseconds of a dispatch, or its lower bound without a profile. A dispatch that doesn't wait has no launch
    /// time: it is launched during the one before it.
    fn us(&self, index: usize, at: usize) -> f64 {
        let dispatch = &self.dispatches(index)[at];
        let launched = |counted: &DispatchProfile| if dispatch.waits { 0.0 } else { counted.time.launch };
        let counted =
            self.profile_of(index, at).map(|counted| (counted.time.total() - launched(counted)) / 1e3);
        counted.unwrap_or(dispatch.modelled_us)
    }

    /// The total cost of operations.
    fn sum(&self, ops: impl Iterator<Item = usize>) -> Sum {
        let mut sum = Sum::default();
        let Some(estimate) = self.estimate else { return sum };
        let bandwidth = self.profile.map_or(estimate.peak.bytes as f64, |profile| profile.bandwidth);
        let mut moved = 0;
        for index in ops {
            for (dispatch, DispatchEstimate { cost, .. }) in self.dispatches(index).iter().enumerate() {
                let bytes = cost.read + cost.written;
                let arithmetic = cost.products as f64 / estimate.peak.products as f64;
                sum.dispatches += 1;
                sum.ideal += bytes;
                sum.products += cost.products;
                sum.matrix_us += arithmetic * 1e6;
                sum.ideal_us += (bytes as f64 / bandwidth).max(arithmetic) * 1e6;
                sum.us += self.us(index, dispatch);
                moved += self.profile_of(index, dispatch).map_or(0, |counted| counted.moved);
            }
        }
        sum.moved = self.profile.map(|_| moved);
        sum
    }

    /// The layers in order, with their costs.
    fn by_layer(&self) -> Vec<(u32, Sum)> {
        let last = self.layers.iter().flatten().max().map_or(0, |last| last + 1);
        let of = |layer| (0..self.layers.len()).filter(move |&index| self.layers[index] == Some(layer));
        (0..last).map(|layer| (layer, self.sum(of(layer)))).collect()
    }

    fn all(&self) -> Sum {
        self.sum(0..self.plan.ops.len())
    }

    fn json(&self) -> Value {
        let op = |(index, op): (usize, &Op)| {
            let (names, bytes) = weights(self.model, op);
            let mut entry = json!({
                "op": op.name(),
                "layer": self.layers[index],
                "runs_on": self.runner(index),
                "weight_bytes": bytes,
                "weights": names,
            });
            if self.estimate.is_some()
                && let Some(fields) = entry.as_object_mut()
            {
                let dispatches = (0..self.dispatches(index).len()).map(|at| self.dispatch(index, at));
                fields.insert("dispatches".into(), dispatches.collect());
                fields.extend(self.sum([index].into_iter()).json());
            }
            entry
        };
        let mut document = json!({
            "ops": self.plan.ops.iter().enumerate().map(op).collect::<Vec<_>>(),
            "bytes_per_token": bytes_per_token(self.model, &self.plan.ops),
            "activation_bytes": self.plan.arena as u64 * 4,
            "batch": self.plan.shape.rows,
            "device": self.device,
        });
        let Some(estimate) = self.estimate else { return document };
        let all = self.all();
        let layers = self.by_layer();
        let layer = |(layer, sum): (u32, Sum)| {
            let mut fields = sum.json();
            fields.insert("layer".into(), layer.into());
            fields.insert("dispatches".into(), sum.dispatches.into());
            Value::Object(fields)
        };
        document["layers"] = layers.into_iter().map(layer).collect();
        document["dispatches_per_token"] = json!(all.dispatches);
        document["least_us"] = json!(estimate.modelled_us());
        document["submit"] = json!(estimate.submit.to_string());
        document["launch_us"] = json!(estimate.launch.nanoseconds / 1e3);
        document["launch_source"] = json!(estimate.launch.to_string());
        document["converted_weights"] = json!(estimate.conversions.list.len());
        document["chip"] = json!(self.profile.map(|profile| profile.chip));
        if let Some(fields) = document.as_object_mut() {
            fields.extend(all.json());
        }
        document
    }

    fn dispatch(&self, index: usize, at: usize) -> Value {
        let dispatch = &self.dispatches(index)[at];
        let mut entry = json!({
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
            "least_us": dispatch.modelled_us,
            "modelled_us": self.us(index, at),
        });
        if let Some(counted) = self.profile_of(index, at) {
            entry["bytes_moved"] = json!(counted.moved);
            entry["instructions"] = json!(counted.instructions);
            entry["bound_by"] = json!(counted.time.bound());
            entry["resident_waves"] = json!(counted.time.occupancy);
        }
        entry
    }
}

impl fmt::Display for PlanReport<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} operations, {} of weights a token, {} of activations for {} rows",
            self.plan.ops.len(),
            size(bytes_per_token(self.model, &self.plan.ops)),
            size(self.plan.arena as u64 * 4),
            self.plan.shape.rows
        )?;
        self.totals(f)?;
        if self.verbose {
            writeln!(f)?;
            return self.operations(f);
        }
        writeln!(f, "--verbose lists the operations")
    }
}

impl PlanReport<'_> {
    fn operations(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, op) in self.plan.ops.iter().enumerate() {
            let (names, bytes) = weights(self.model, op);
            let (runner, bytes) = (self.runner(index), size(bytes));
            writeln!(f, "{index:>4} {:<9} {runner:<5} {bytes:>10}  {}", op.name(), names.join(" "))?;
            for (at, DispatchEstimate { kernel, groups: [x, y, z], workgroup, report, cost, .. }) in
                self.dispatches(index).iter().enumerate()
            {
                let moved = size(cost.read + cost.written);
                write!(
                    f,
                    "     {kernel}: {x}x{y}x{z} groups of {workgroup}, {} VGPRs, {} B of LDS, {} waves, {moved}, \
                     modelled {:.2} us",
                    report.vgprs,
                    report.lds_bytes,
                    report.waves,
                    self.us(index, at)
                )?;
                match self.profile_of(index, at) {
                    Some(counted) => writeln!(f, ", by {}", counted.time.bound())?,
                    None => writeln!(f)?,
                }
            }
            let share = self.sum([index].into_iter()).matrix_share();
            if share >= MIN_PRINTED_SHARE {
                writeln!(f, "     {:.0} % of the matrix peak", share * 100.0)?;
            }
        }
        Ok(())
    }
}

impl PlanReport<'_> {
    /// The costs of layers and of the whole step on a GPU.
    fn totals(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(estimate) = self.estimate else { return Ok(()) };
        let layers = self.by_layer();
        for equal in layers.chunk_by(|(_, one), (_, other)| one == other) {
            let [(first, sum), ..] = equal else { continue };
            match equal.len() {
                1 => writeln!(f, "layer {first}: {sum}")?,
                more => writeln!(f, "layers {first} to {}, each: {sum}", first + more as u32 - 1)?,
            }
        }
        let on_host = estimate.ops.iter().filter(|op| !op.on_device).count();
        writeln!(f, "a step: {}; {on_host} operations on the CPU", self.all())?;
        writeln!(
            f,
            "a dispatch that waits for the one before it, as {}: {}",
            estimate.submit, estimate.launch
        )?;
        if let Some(profile) = self.profile {
            let bandwidth = profile.bandwidth / 1e9;
            writeln!(
                f,
                "times are from a model of {}, which reaches {bandwidth:.0} GB/s; none was measured",
                profile.chip
            )?;
        }
        if let Some(division) = estimate.split_report {
            writeln!(f, "{division}")?;
        }
        if !estimate.conversions.list.is_empty() {
            writeln!(f, "{}", estimate.conversions)?;
        }
        Ok(())
    }
}

/// The names of an operation's weights, and the bytes of them that it reads for one token.
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

/// Bytes of weights that are read for one token.
pub(crate) fn bytes_per_token(model: &Model<'_>, ops: &[Op]) -> u64 {
    ops.iter().map(|op| weights(model, op).1).sum()
}
