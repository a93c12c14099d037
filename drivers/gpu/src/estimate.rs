//! An estimate of a plan on a chip, made without one: the side that runs each operation, its kernels, and the time that
//! a model of the chip gives it.
//!
//! Modelled time is a lower bound: a dispatch takes what its ideal traffic or its multiply-adds take at the chip's
//! peak, whichever is longer, and what launching takes if it waits for the one before it.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use doorbell_core::heap::Heap;
use doorbell_core::model::Model;
use doorbell_core::plan::Plan;
use doorbell_kernels::compiler::Report;
use doorbell_kernels::{Cost, DryRun, Launch, lower};
use doorbell_kfd::packet::{self, Encoding};
use doorbell_kfd::topology::{Isa, MemoryPool};

use crate::chip::{self, Peak, peak};
use crate::convert::{self, Conversions};
use crate::error::GpuError;
use crate::fit::fit;
use crate::kernels::build;
use crate::placement::{SplitReport, bind, on_device};
use crate::settings::Settings;

/// One dispatch.
#[derive(Clone, Debug, PartialEq)]
pub struct DispatchEstimate {
    /// The kernel's name.
    pub kernel: String,
    /// Workgroups.
    pub groups: [u32; 3],
    /// Work items of a workgroup.
    pub workgroup: u32,
    /// Registers, LDS, waves, instructions.
    pub report: Report,
    /// Ideal traffic and multiply-adds.
    pub cost: Cost,
    /// True if it waits for the dispatch before it.
    pub waits: bool,
    /// Modelled microseconds.
    pub modelled_us: f64,
}

/// One operation.
#[derive(Clone, Debug, PartialEq)]
pub struct OpEstimate {
    /// Its dispatches; empty if the host runs it.
    pub dispatches: Vec<DispatchEstimate>,
    /// True if the device runs it.
    pub on_device: bool,
}

/// A plan on a chip.
#[derive(Clone, Debug, PartialEq)]
pub struct PlanEstimate {
    /// By operation.
    pub ops: Vec<OpEstimate>,
    /// Weights in another type than the file's.
    pub conversions: Conversions,
    /// The part on the device if it is not everything.
    pub split_report: Option<SplitReport>,
    /// The chip's limits.
    pub peak: Peak,
    /// The form in which dispatches are submitted.
    pub submit: Encoding,
    /// The cost of a dispatch that waits for the one before it.
    pub launch: packet::LaunchCost,
}

impl PlanEstimate {
    /// Modelled microseconds of one step, the host's operations not counted.
    pub fn modelled_us(&self) -> f64 {
        self.ops.iter().flat_map(|op| &op.dispatches).map(|dispatch| dispatch.modelled_us).sum()
    }
}

/// Microseconds at a chip's peak.
fn ideal_us(cost: &Cost, peak: Peak) -> f64 {
    let traffic = (cost.read + cost.written) as f64 / peak.bytes as f64;
    let arithmetic = cost.products as f64 / peak.products as f64;
    traffic.max(arithmetic) * 1e6
}

/// Surveys a step of all the plan's rows, the last ones of `positions`, on a chip with so much memory, where the host
/// can run what the device does not.
///
/// # Errors
/// A chip without kernels, a model or a context that does not fit, memory, or a kernel that does not compile.
pub fn estimate(
    model: &Model<'_>,
    plan: &Plan<'_>,
    isa: Isa,
    budget: &MemoryPool,
    settings: &Settings,
    positions: u32,
    heap: Heap<'_>,
) -> Result<PlanEstimate, GpuError> {
    let Settings { kv, submit, .. } = *settings;
    let target = chip::target(isa).ok_or(GpuError::Chip(isa))?;
    let launch_cost = packet::LaunchCost::of(isa, submit);
    let mut kept = model.copy(heap)?;
    let mut conversions = convert::choose(&mut kept, &plan.ops, target);
    let fitting = fit(budget, &mut kept, plan, settings, target, true)?;
    conversions.keep(&fitting.loaded, &kept);
    let mut chosen = on_device(plan, &kept, target, fitting.placement);
    bind(plan, &mut chosen, &mut Vec::new());
    let dry_run = DryRun::new(&kept);
    let step = dry_run.step(&kept, plan, kv, positions);
    let peak = peak(target);
    let mut compiled = BTreeMap::new();
    let mut ops = Vec::new();
    for (op, chosen) in plan.ops.iter().zip(chosen) {
        let mut launches: Vec<Launch> = Vec::new();
        let on_device = chosen && lower(op, &step, target, &mut |launch| launches.push(launch)).is_ok();
        let mut dispatches = Vec::new();
        for launch in launches.into_iter().filter(|_| on_device) {
            if !compiled.contains_key(&launch.spec) {
                let kernel = build(&launch.spec, target)?;
                let figures = (launch.spec.name(), kernel.function.workgroup, kernel.report());
                compiled.insert(launch.spec.clone(), figures);
            }
            let (kernel, workgroup, report) = compiled[&launch.spec].clone();
            let launching = if launch.waits { launch_cost.nanoseconds / 1e3 } else { 0.0 };
            dispatches.push(DispatchEstimate {
                kernel,
                groups: launch.groups,
                workgroup,
                report,
                cost: launch.cost,
                waits: launch.waits,
                modelled_us: ideal_us(&launch.cost, peak) + launching,
            });
        }
        ops.push(OpEstimate { dispatches, on_device });
    }
    let split_report = fitting.split_report;
    Ok(PlanEstimate { ops, conversions, split_report, peak, submit, launch: launch_cost })
}
