//! What the operations of a plan cost on a chip: each different one is run once, by itself, on the software GPU, which
//! counts it and gives it a time by its model of the chip. Nothing here was ever measured.

use crate::compute::{ComputeError, PlanEstimate, Sleeper, open, options, software};
use crate::device::Device;
use doorbell_core::backend::KvType;
use doorbell_core::heap::Heap;
use doorbell_core::model::Model;
use doorbell_core::plan::{PAGE_TOKENS, Plan};
use doorbell_gpu::{GpuBackend, Settings};
use doorbell_soft::kernel::Chip;
use doorbell_soft::processor::{Model as Chips, Modelled};

/// One dispatch that was counted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Counted {
    /// Nanoseconds by the model of the chip, part by part.
    pub time: Modelled,
    /// Bytes that came from memory or went there, beyond all caches.
    pub moved: u64,
    /// Wave instructions.
    pub instructions: u64,
}

/// The dispatches of every operation of a plan.
#[derive(Clone, Debug, PartialEq)]
pub struct Rehearsal {
    /// By operation, then dispatch; those of alike operations are alike.
    pub ops: Vec<Vec<Counted>>,
    /// The chip of the model.
    pub chip: &'static str,
    /// Bytes a second from memory that whole kernels reached on it.
    pub bandwidth: f64,
}

/// Rehearses a step of all the plan's rows, the last ones of `positions`; only what differs in `estimate` is run.
///
/// # Errors
///
/// Memory, or a fault of the software GPU.
pub fn rehearse(
    chip: Chip,
    model: &Model<'_>,
    (plan, estimate): (&Plan<'_>, &PlanEstimate),
    kv: KvType,
    positions: u32,
    heap: Heap<'_>,
) -> Result<Rehearsal, ComputeError> {
    let alike = alike(estimate);
    let mut first: Vec<usize> = alike.iter().flatten().copied().collect();
    first.sort_unstable();
    first.dedup();
    let kernel = software(chip, options(false, 1, true))?;
    let (process, index) = open(kernel, 0, Device::Soft { chip, strict: false, drill: None })?;
    let gpu = process.device(index).gpu_id();
    let positions = positions.max(plan.shape.rows);
    let settings = Settings::new(positions.div_ceil(PAGE_TOKENS as u32), kv, plan.shape);
    let wanted = (plan, &first[..]);
    let mut backend =
        GpuBackend::for_single_ops(process, index, model, settings, wanted, Box::new(Sleeper), heap)?;
    let chips = Chips::of(chip.name).unwrap_or_else(|| Chips::of_target(chip.target));
    let chips = chips.submitting(estimate.submit);
    let mut counted: Vec<Vec<Counted>> = vec![Vec::new(); plan.ops.len()];
    for &op in &first {
        let _ = kernel.take_profiles(gpu);
        backend.run_op(plan, positions - plan.shape.rows, op)?;
        counted[op] = kernel
            .take_profiles(gpu)
            .iter()
            .map(|profile| Counted {
                time: chips.time(profile),
                moved: profile.traffic.memory,
                instructions: profile.instructions(),
            })
            .collect();
    }
    let ops = alike.iter().map(|first| first.map(|op| counted[op].clone()).unwrap_or_default());
    Ok(Rehearsal { ops: ops.collect(), chip: chip.name, bandwidth: chips.bandwidth * 1e9 })
}

/// The first operation with the same dispatches as each; `None` for those of the host.
fn alike(estimate: &PlanEstimate) -> Vec<Option<usize>> {
    let mut first: Vec<usize> = Vec::new();
    let of = |(index, op): (usize, &crate::compute::OpEstimate)| {
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
