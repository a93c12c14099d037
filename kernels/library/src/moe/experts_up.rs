//! `hidden = glu(gate x, up x)` of every chosen expert of a row: grid X outputs, Y chosen experts, Z rows.

use super::experts::{ExpertMatrix, OUTPUTS, first_output, products};
use crate::builder_ext::BuilderExt;
use crate::gemv::activations::{ActivationSource, Activations, WORKGROUP};
use crate::gemv::spec::forms;
use crate::glu::GluSpec;
use crate::kernel::{Kernel, SpecError};
use alloc::format;
use alloc::string::String;
use doorbell_compiler::ir::{Axis, Builder, Elem, Function};
use doorbell_compiler::isa::Target;

/// `hidden = glu(gate x, up x)` of every chosen expert.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ExpertsUp {
    /// Elements of an input row.
    pub cols: u32,
    /// Chosen experts of a row.
    pub top_k: u32,
    /// True if rows are normalized.
    pub norm: bool,
    /// The first matrix.
    pub gate: ExpertMatrix,
    /// The second.
    pub up: ExpertMatrix,
    /// The non-linearity.
    pub glu: GluSpec,
}

impl Kernel for ExpertsUp {
    fn name(&self) -> String {
        let norm = if self.norm { "_norm" } else { "" };
        let (gate, up) = (self.gate.name(), self.up.name());
        format!("experts_{}_{}{norm}_{gate}_{}_{up}", self.top_k, self.cols, self.glu.name())
    }

    fn function(&self, _target: Target) -> Result<Function, SpecError> {
        let mut k = Builder::new(&self.name(), WORKGROUP);
        let (input, ids) = (k.buffer("input"), k.buffer("ids"));
        let norm = self.norm.then(|| (k.buffer("norm"), k.scalar("eps", Elem::Float)));
        let (gate, up) = (self.gate.arguments(&mut k, "gate"), self.up.arguments(&mut k, "up"));
        let out = k.buffer("hidden");
        let from = Activations::new(&mut k, self.cols, 1, forms(&[self.gate.factor, self.up.factor]))?;
        if from.pieces() != 1 {
            return Err(SpecError::Shape);
        }
        let (number, row) = (k.workgroup_id(Axis::Y), k.workgroup_id(Axis::Z));
        let slot = k.eval(row * self.top_k + number);
        let expert = k.read_same(ids, slot << 2);
        let start = k.eval(row * (4 * self.cols));
        let mut source = ActivationSource { base: input, rows: alloc::vec![start], norm: None };
        if let Some((weight, eps)) = norm {
            source.norm = Some((weight, from.norm_factors(&mut k, input, &source.rows, eps)));
        }
        let zero = k.int(0);
        from.fill(&mut k, &source, zero);
        k.barrier(false);
        let output = first_output(&mut k);
        let matrices = [(self.gate, &gate), (self.up, &up)]
            .map(|(matrix, own)| matrix.wave_rows(&mut k, own.base, self.cols, expert, output));
        let sums = products(&mut k, &matrices, &from);
        let lane = k.lane();
        let (gates, ups) = sums.split_at(OUTPUTS as usize);
        let (own_gate, own_up) = (k.by_lane(lane, gates), k.by_lane(lane, ups));
        let column = k.eval(output + lane);
        let (all, width) = (k.int(OUTPUTS), k.int(self.gate.rows));
        k.when(lane.lt(all) & column.lt(width), |k| {
            let gated = self.gate.weighted(k, own_gate, &gate, expert, column);
            let linear = self.up.weighted(k, own_up, &up, expert, column);
            let y = self.glu.apply(k, gated, linear);
            k.write(out, (slot * self.gate.rows + column) << 2, y);
        });
        Ok(k.finish())
    }
}
