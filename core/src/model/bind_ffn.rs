//! Binding of feed-forwards: dense ones, routed and shared experts.

use super::bind::{Binder, Dims, bare, fault, named};
use super::error::{ModelError, TensorFault};
use super::family::Family;
use super::hparams::{ExpertParams, HyperParams};
use super::weights::{Ffn, Router, Shared};
use crate::plan::Matrix;

impl Binder<'_, '_> {
    /// A matrix whose results, biases included, are multiplied by a factor.
    pub(super) fn damped(&mut self, matrix: Matrix, factor: f32, stack: u32) -> Result<Matrix, ModelError> {
        if factor == 1.0 {
            return Ok(matrix);
        }
        for id in [matrix.scale, matrix.bias].into_iter().flatten() {
            self.vectors[id.index()].iter_mut().for_each(|value| *value *= factor);
        }
        let scale = match matrix.scale {
            Some(scale) => scale,
            None => self.filled(stack, factor)?,
        };
        Ok(Matrix { scale: Some(scale), ..matrix })
    }

    /// Gate, up and down; gate and up may be one tensor with the gate's rows first.
    pub(super) fn dense(
        &mut self,
        layer: usize,
        hparams: &HyperParams<'_>,
        family: &Family,
    ) -> Result<Ffn, ModelError> {
        let (width, ffn) = (hparams.width, hparams.layers[layer].ffn);
        if ffn == 0 {
            return Err(fault(&named(Some(layer), "ffn_up", "weight"), TensorFault::Missing));
        }
        let down = self.required("ffn_down", layer, Dims { cols: ffn, rows: width, stack: 1 })?;
        let down = self.damped(down, hparams.residual_scale, 1)?;
        let dims = Dims { cols: width, rows: ffn, stack: 1 };
        if let Some(activation) = family.ungated {
            return Ok(Ffn::Plain { up: self.required("ffn_up", layer, dims)?, activation, down });
        }
        if let Some(gate) = self.part("ffn_gate", Some(layer), dims)? {
            return Ok(Ffn::Dense { gate, up: self.required("ffn_up", layer, dims)?, down });
        }
        let fused = if self.find(&named(Some(layer), "ffn_gate_up", "weight")).is_some() {
            "ffn_gate_up"
        } else {
            "ffn_up"
        };
        let (gate, up) = self.fused_gate_up(fused, layer, dims)?;
        Ok(Ffn::Dense { gate, up, down })
    }

    pub(super) fn mixture(
        &mut self,
        layer: usize,
        hparams: &HyperParams<'_>,
        family: &Family,
        experts: ExpertParams,
    ) -> Result<Ffn, ModelError> {
        let (width, factor) = (hparams.width, hparams.residual_scale);
        let matrix =
            self.required("ffn_gate_inp", layer, Dims { cols: width, rows: experts.count, stack: 1 })?;
        let count = experts.count as usize;
        let mut selection_bias = self.vector(&named(Some(layer), "exp_probs_b", "bias"), count)?;
        if selection_bias.is_none() {
            selection_bias = self.vector(&bare(layer, "exp_probs_b"), count)?;
        }
        let (gate, up, down) = self.expert_stacks(layer, width, experts)?;
        let down = self.damped(down, factor, experts.count)?;
        let mut shared = self.shared(layer, width, experts, family.routing.gated_shared)?;
        if let Some(shared) = &mut shared {
            shared.down = self.damped(shared.down, factor, 1)?;
        }
        Ok(Ffn::Mixture { router: Router { matrix, selection_bias }, gate, up, down, shared })
    }

    /// Gate, up and down of all experts.
    pub(super) fn expert_stacks(
        &mut self,
        layer: usize,
        width: u32,
        experts: ExpertParams,
    ) -> Result<(Matrix, Matrix, Matrix), ModelError> {
        let dims = Dims { cols: width, rows: experts.ffn, stack: experts.count };
        let (gate, up) = match self.part("ffn_gate_exps", Some(layer), dims)? {
            Some(gate) => (gate, self.required("ffn_up_exps", layer, dims)?),
            None => self.fused_gate_up("ffn_gate_up_exps", layer, dims)?,
        };
        let down_dims = Dims { cols: experts.ffn, rows: width, stack: experts.count };
        Ok((gate, up, self.required("ffn_down_exps", layer, down_dims)?))
    }

    /// The shared expert, if there is one.
    fn shared(
        &mut self,
        layer: usize,
        width: u32,
        experts: ExpertParams,
        gated: bool,
    ) -> Result<Option<Shared>, ModelError> {
        let ffn = experts.shared_ffn;
        let dims = Dims { cols: width, rows: ffn, stack: 1 };
        let parts = ["ffn_gate_shexp", "ffn_up_shexp", "ffn_down_shexp"];
        if !parts.iter().any(|part| self.find(&named(Some(layer), part, "weight")).is_some()) {
            return Ok(None);
        }
        let (gate, up) = match self.part("ffn_gate_shexp", Some(layer), dims)? {
            Some(gate) => (gate, self.required("ffn_up_shexp", layer, dims)?),
            None => self.fused_gate_up("ffn_up_shexp", layer, dims)?,
        };
        let down = self.required("ffn_down_shexp", layer, Dims { cols: ffn, rows: width, stack: 1 })?;
        let weight = match gated {
            true => {
                Some(self.required("ffn_gate_inp_shexp", layer, Dims { cols: width, rows: 1, stack: 1 })?)
            }
            false => None,
        };
        Ok(Some(Shared { gate, up, down, weight }))
    }

    fn fused_gate_up(
        &mut self,
        part: &str,
        layer: usize,
        dims: Dims,
    ) -> Result<(Matrix, Matrix), ModelError> {
        let name = named(Some(layer), part, "weight");
        let weight =
            self.weight(&name, [u64::from(dims.cols), u64::from(dims.rows) * 2, u64::from(dims.stack)])?;
        let scale = self.scale(part, Some(layer), dims.stack)?;
        let (rows, stack) = (dims.rows as usize, dims.stack as usize);
        let mut bias = |half| self.slice(&named(Some(layer), part, "bias"), [2 * rows, stack], half);
        let (gate_bias, up_bias) = (bias(0..rows)?, bias(rows..2 * rows)?);
        let gate = Matrix { weight, first_row: 0, rows: dims.rows, scale, bias: gate_bias };
        Ok((gate, Matrix { first_row: dims.rows, bias: up_bias, ..gate }))
    }
}
