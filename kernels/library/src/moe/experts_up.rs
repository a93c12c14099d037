//! `hidden = glu(gate x, up x)` of every chosen expert of a row: grid X outputs, Y chosen experts, Z rows.

use crate::builder_ext::BuilderExt;
use crate::gemv::activations::{ActivationSource, Activations, WORKGROUP};
use crate::glu::GluSpec;
use crate::moe::experts::{ExpertMatrix, OUTPUTS, first_output, forms, products};
use crate::spec_error::SpecError;
use alloc::format;
use alloc::string::String;
use doorbell_compiler::ir::{Axis, Builder, Elem, Function};

/// `hidden = glu(gate x, up x)` of every chosen expert.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ExpertsUp {
    /// Elements of an input row.
    pub cols: u32,
    /// Chosen experts of a row.
    pub top_k: u32,
    /// Whether rows are normalized.
    pub norm: bool,
    /// The first matrix.
    pub gate: ExpertMatrix,
    /// The second.
    pub up: ExpertMatrix,
    /// The non-linearity.
    pub glu: GluSpec,
}

impl ExpertsUp {
    /// Unique name.
    pub(crate) fn name(self) -> String {
        let norm = if self.norm { "_norm" } else { "" };
        let (gate, up) = (self.gate.name(), self.up.name());
        format!("experts_{}_{}{norm}_{gate}_{}_{up}", self.top_k, self.cols, self.glu.name())
    }

    /// The function.
    pub(crate) fn function(self) -> Result<Function, SpecError> {
        let mut k = Builder::new(&self.name(), WORKGROUP);
        let (input, ids) = (k.buffer("input"), k.buffer("ids"));
        let norm = self.norm.then(|| (k.buffer("norm"), k.scalar("eps", Elem::Float)));
        let (gate, up) = (self.gate.arguments(&mut k, "gate"), self.up.arguments(&mut k, "up"));
        let out = k.buffer("hidden");
        let [coded, plain] = forms(&[self.gate.factor, self.up.factor]);
        let from = Activations::new(&mut k, [self.cols, 1], coded, plain)?;
        if from.pieces() != 1 {
            return Err(SpecError::Shape);
        }
        let (number, row) = (k.workgroup_id(Axis::Y), k.workgroup_id(Axis::Z));
        let slot = k.times(row, self.top_k);
        let slot = k.add(slot, number);
        let place = k.left(slot, 2);
        let expert = k.read_same(ids, place);
        let start = k.times(row, 4 * self.cols);
        let mut source = ActivationSource { base: input, rows: alloc::vec![start], norm: None };
        if let Some((weight, eps)) = norm {
            source.norm = Some((weight, from.norm_factors(&mut k, input, &source.rows, eps)));
        }
        let zero = k.int(0);
        from.fill(&mut k, &source, zero);
        k.barrier(false);
        let output = first_output(&mut k);
        let matrices = [(self.gate, &gate), (self.up, &up)]
            .map(|(stack, own)| stack.wave_rows(&mut k, own.base, self.cols, expert, output));
        let sums = products(&mut k, &matrices, &from);
        let lane = k.lane();
        let (gates, ups) = sums.split_at(OUTPUTS as usize);
        let (y, u) = (k.by_lane(lane, gates), k.by_lane(lane, ups));
        let column = k.add(output, lane);
        let (all, width) = (k.int(OUTPUTS), k.int(self.gate.rows));
        let used = k.lt_u(lane, all);
        let inside = k.lt_u(column, width);
        let used = k.both(used, inside);
        k.when(used, |k| {
            let y = self.gate.weighted(k, y, &gate, expert, column);
            let u = self.up.weighted(k, u, &up, expert, column);
            let y = self.glu.apply(k, y, u);
            let start = k.times(slot, self.gate.rows);
            let place = k.add(start, column);
            let place = k.left(place, 2);
            k.write(out, place, y);
        });
        Ok(k.finish())
    }
}
