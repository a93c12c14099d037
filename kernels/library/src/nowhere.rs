//! Steps that are lowered only to see their launches, and the kernels of such a step. Nothing of it is run.

use super::{Inputs, KvPool, Recipe, Step, lower};
use alloc::collections::BTreeSet;
use alloc::vec;
use alloc::vec::Vec;
use doorbell_compiler::isa::Target;
use doorbell_core::backend::KvType;
use doorbell_core::model::Model;
use doorbell_core::plan::Plan;

/// An address that no memory has.
const NOWHERE: u64 = 1 << 40;

/// Inputs that no kernel reads.
const INPUTS: Inputs = Inputs {
    tokens: NOWHERE,
    positions: NOWHERE,
    tables: NOWHERE,
    pages: NOWHERE,
    outputs: NOWHERE,
    output_positions: NOWHERE,
    output_tables: NOWHERE,
    result: NOWHERE,
    ring: None,
};

/// The places of a model that has none.
#[derive(Clone, Debug)]
pub struct Nowhere {
    addresses: Vec<u64>,
    pools: Vec<KvPool>,
}

impl Nowhere {
    /// As many places as the model has weights, vectors, tables and groups.
    pub fn new(model: &Model<'_>) -> Self {
        let most = model.weights.len().max(model.vectors.len()).max(model.ropes.len());
        let pools = vec![KvPool { keys: NOWHERE, values: NOWHERE }; model.groups.len()];
        Self { addresses: vec![NOWHERE; most], pools }
    }

    /// A step of all rows of `plan` whose longest sequence has so many `positions` after it.
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
            positions,
            arena: NOWHERE,
            scratch: NOWHERE,
            weights: &self.addresses,
            vectors: &self.addresses,
            ropes: &self.addresses,
            pools: &self.pools,
            kv,
            inputs: INPUTS,
        }
    }
}

/// The kernels of a step, and the names of the operations that have none, in order.
pub fn recipes(step: &Step<'_, '_>, target: Target) -> (BTreeSet<Recipe>, Vec<&'static str>) {
    let (mut recipes, mut missing) = (BTreeSet::new(), Vec::new());
    for op in &step.plan.ops {
        if lower(op, step, target, &mut |launch| _ = recipes.insert(launch.recipe)).is_err() {
            missing.push(op.name());
        }
    }
    (recipes, missing)
}
