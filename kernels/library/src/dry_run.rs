//! Steps that are lowered only for their list of launches, and the kernels of such a step. Nothing of it is run.

use crate::kernel_spec::KernelSpec;
use crate::lower;
use crate::step::{Inputs, KvPool, Step};
use alloc::collections::BTreeSet;
use alloc::vec;
use alloc::vec::Vec;
use doorbell_compiler::isa::Target;
use doorbell_core::backend::KvType;
use doorbell_core::model::Model;
use doorbell_core::plan::Plan;

/// An address without memory.
const ADDRESS: u64 = 1 << 40;

/// Inputs that no kernel reads.
const INPUTS: Inputs = Inputs {
    tokens: ADDRESS,
    positions: ADDRESS,
    tables: ADDRESS,
    pages: ADDRESS,
    outputs: ADDRESS,
    output_positions: ADDRESS,
    output_tables: ADDRESS,
    runs: ADDRESS,
    result: ADDRESS,
    ring: None,
};

/// Addresses of a model that is not in memory.
#[derive(Clone, Debug)]
pub struct DryRun {
    addresses: Vec<u64>,
    pools: Vec<KvPool>,
}

impl DryRun {
    /// As many addresses as the model has weights, vectors, tables and groups.
    pub fn new(model: &Model<'_>) -> Self {
        let most = model.weights.len().max(model.vectors.len()).max(model.ropes.len());
        let pools = vec![KvPool { keys: ADDRESS, values: ADDRESS }; model.groups.len()];
        Self { addresses: vec![ADDRESS; most], pools }
    }

    /// A step of all rows of `plan`, sequences of their own if all are outputs, whose longest sequence has `positions` positions after it.
    pub fn step<'s, 'a>(
        &'s self,
        model: &'s Model<'a>,
        plan: &'s Plan<'s>,
        kv: KvType,
        positions: u32,
    ) -> Step<'s, 'a> {
        Step {
            model,
            plan,
            rows: plan.shape.rows,
            outputs: plan.shape.outputs,
            single: plan.shape.rows == plan.shape.outputs,
            positions,
            arena: ADDRESS,
            scratch: ADDRESS,
            weights: &self.addresses,
            vectors: &self.addresses,
            ropes: &self.addresses,
            pools: &self.pools,
            states: ADDRESS,
            kv,
            inputs: INPUTS,
        }
    }
}

/// The kernels of a step, and the names of the operations that have none, in order.
pub fn kernel_specs(step: &Step<'_, '_>, target: Target) -> (BTreeSet<KernelSpec>, Vec<&'static str>) {
    let (mut kernel_specs, mut missing) = (BTreeSet::new(), Vec::new());
    for op in &step.plan.ops {
        if lower(op, step, target, &mut |launch| _ = kernel_specs.insert(launch.spec)).is_err() {
            missing.push(op.name());
        }
    }
    (kernel_specs, missing)
}
