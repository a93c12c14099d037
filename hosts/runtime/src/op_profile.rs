//! Modelled cost of the operations of a plan on a chip: each distinct operation runs once on the software GPU, which
//! counts its work and computes a time from a model of the chip.
//!
//! Not here: measured times (`AnyBackend::take_timings`).

use crate::backend::{
    BackendError, OpEstimate, PlanEstimate, Sleeper, open_gpu, software_machine, software_options,
};
use crate::device::Device;
use doorbell_core::backend::KvType;
use doorbell_core::heap::Heap;
use doorbell_core::model::Model;
use doorbell_core::plan::{PAGE_TOKENS, Plan};
use doorbell_gpu::{GpuBackend, Settings};
use doorbell_soft::kernel::Chip;
use doorbell_soft::processor::{Model as Chips, Modelled};

/// Counts and modelled time of one dispatch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DispatchProfile {
    /// Nanoseconds from the model of the chip, for each part.
    pub time: Modelled,
    /// Bytes read from and written to device memory, behind all caches.
    pub moved: u64,
    /// Wave instructions.
    pub instructions: u64,
}

/// The dispatches of every operation of a plan.
#[derive(Clone, Debug, PartialEq)]
pub struct OpProfile {
    /// For each operation its dispatches; equal operations have equal profiles.
    pub ops: Vec<Vec<DispatchProfile>>,
    /// Name of the modelled chip.
    pub chip: &'static str,
    /// Memory bandwidth of the chip that whole kernels reach, in bytes per second.
    pub bandwidth: f64,
}

/// Profiles a step with all rows of the plan, which are the last of `positions` positions. Operations with equal dispatches
/// in `estimate` run once.
///
/// # Errors
///
/// There is not enough memory, or the software GPU reports a fault.
pub fn profile_ops(
    chip: Chip,
    model: &Model<'_>,
    plan: &Plan<'_>,
    estimate: &PlanEstimate,
    kv: KvType,
    positions: u32,
    heap: Heap<'_>,
) -> Result<OpProfile, BackendError> {
    let first_equal = first_equal(estimate);
    let mut first: Vec<usize> = first_equal.iter().flatten().copied().collect();
    first.sort_unstable();
    first.dedup();
    let kernel = software_machine(chip, software_options(false, 1, true))?;
    let (process, index) = open_gpu(kernel, 0, Device::Soft { chip, strict: false, injection: None })?;
    let gpu = process.device(index).gpu_id();
    let positions = positions.max(plan.shape.rows);
    let settings = Settings::new(positions.div_ceil(PAGE_TOKENS as u32), kv, plan.shape);
    let wanted = (plan, &first[..]);
    let mut backend =
        GpuBackend::for_single_ops(process, index, model, settings, wanted, Box::new(Sleeper), heap)?;
    let chips = Chips::of(chip.name).unwrap_or_else(|| Chips::of_target(chip.target));
    let chips = chips.submitting(estimate.submit);
    let mut counted: Vec<Vec<DispatchProfile>> = vec![Vec::new(); plan.ops.len()];
    for &op in &first {
        let _ = kernel.take_profiles(gpu);
        backend.run_op(plan, positions - plan.shape.rows, op)?;
        counted[op] = kernel
            .take_profiles(gpu)
            .iter()
            .map(|profile| DispatchProfile {
                time: chips.time(profile),
                moved: profile.traffic.memory,
                instructions: profile.instructions(),
            })
            .collect();
    }
    let ops = first_equal.iter().map(|first| first.map(|op| counted[op].clone()).unwrap_or_default());
    Ok(OpProfile { ops: ops.collect(), chip: chip.name, bandwidth: chips.bandwidth * 1e9 })
}

/// For each operation the first one with equal dispatches; `None` for operations that run on the host.
fn first_equal(estimate: &PlanEstimate) -> Vec<Option<usize>> {
    let mut first: Vec<usize> = Vec::new();
    let of = |(index, op): (usize, &OpEstimate)| {
        if op.dispatches.is_empty() {
            return None;
        }
        let known = first.iter().find(|&&other| estimate.ops[other].dispatches == op.dispatches).copied();
        if known.is_none() {
            first.push(index);
        }
        Some(known.unwrap_or(index))
    };
    estimate.ops.iter().enumerate().map(of).collect()
}
