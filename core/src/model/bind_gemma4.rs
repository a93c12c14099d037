//! The parts that only Gemma 4 has: experts beside a dense feed-forward, each layer's own embedding of a token, and a factor
//! on a layer's output.

use super::bind::{Binder, Dims, named};
use super::error::ModelError;
use super::hparams::{ExpertParams, HyperParams};
use super::weights::{ParallelExperts, TokenInput, TokenInputs};
use crate::plan::{Matrix, Norm};

impl Binder<'_, '_> {
    pub(super) fn parallel_experts(
        &mut self,
        layer: usize,
        hparams: &HyperParams<'_>,
        experts: ExpertParams,
    ) -> Result<ParallelExperts, ModelError> {
        let (width, eps) = (hparams.width, hparams.eps);
        let name = |part: &str| named(Some(layer), part, "weight");
        // the router's input is normalized, divided by the root of the width, and multiplied by channel
        let factor = 1.0 / libm::sqrtf(width as f32);
        let router_weight = self.scaled(&named(Some(layer), "ffn_gate_inp", "scale"), width, factor)?;
        let router = self.weight(&name("ffn_gate_inp"), [u64::from(width), u64::from(experts.count), 1])?;
        let (gate, up, down) = self.expert_stacks(layer, width, experts)?;
        Ok(ParallelExperts {
            router_norm: Norm::rms(router_weight, eps),
            norm: self.norm(&name("pre_ffw_norm_2"), width, eps)?,
            post_norm: self.norm(&name("post_ffw_norm_2"), width, eps)?,
            dense_post_norm: self.norm(&name("post_ffw_norm_1"), width, eps)?,
            router: Matrix { weight: router, first_row: 0, rows: experts.count, scale: None, bias: None },
            gate,
            up,
            down,
        })
    }

    pub(super) fn token_inputs(
        &mut self,
        hparams: &HyperParams<'_>,
        vocabulary: u32,
    ) -> Result<Option<TokenInputs>, ModelError> {
        let part = hparams.per_layer_width;
        if part == 0 {
            return Ok(None);
        }
        let all = u64::from(part) * hparams.layers.len() as u64;
        let table = self.weight("per_layer_token_embd.weight", [all, u64::from(vocabulary), 1])?;
        let width = u64::from(hparams.width);
        let projection = self.weight("per_layer_model_proj.weight", [width, all, 1])?;
        let rows = u32::try_from(all).unwrap_or(u32::MAX);
        // the sum of both is divided by the root of two, and the embedding by that of its width
        let half = core::f32::consts::FRAC_1_SQRT_2;
        let weight = self.scaled("per_layer_proj_norm.weight", part, half)?;
        Ok(Some(TokenInputs {
            table,
            scale: half * libm::sqrtf(part as f32),
            projection: Matrix { weight: projection, first_row: 0, rows, scale: None, bias: None },
            norm: Norm::rms(weight, hparams.eps * hparams.width as f32),
        }))
    }

    pub(super) fn token_input(
        &mut self,
        layer: usize,
        hparams: &HyperParams<'_>,
    ) -> Result<Option<TokenInput>, ModelError> {
        let (width, part) = (hparams.width, hparams.per_layer_width);
        if part == 0 {
            return Ok(None);
        }
        Ok(Some(TokenInput {
            gate: self.required("inp_gate", layer, Dims { cols: width, rows: part, stack: 1 })?,
            projection: self.required("proj", layer, Dims { cols: part, rows: width, stack: 1 })?,
            norm: self.norm(&named(Some(layer), "post_norm", "weight"), width, hparams.eps)?,
        }))
    }

    /// The factor on a layer's output, 1 where the file has none.
    pub(super) fn output_scale(&mut self, layer: usize) -> Result<f32, ModelError> {
        let id = self.vector(&named(Some(layer), "layer_output_scale", "weight"), 1)?;
        Ok(id.map_or(1.0, |id| self.vectors[id.index()][0]))
    }
}
