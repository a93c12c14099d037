//! Hyperparameters: the shape of a model as its metadata declares it, checked against legal ranges.

use super::error::{ModelError, Name};
use super::family::{Family, LogitScale, RotatedLayers, Routing, WindowPattern, WindowRope};
use super::rope::Scaling;
use crate::gguf::{Gguf, Value};
use crate::heap::{self, Heap, Vec};
use crate::plan::{DeltaShape, ExpertGroups, Gating, NormKind, Temperature};
use core::fmt::Write;

/// Shape of one layer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LayerParams {
    /// Query heads.
    pub heads: u32,
    /// KV heads.
    pub kv_heads: u32,
    /// Width of the dense feed-forward.
    pub ffn: u32,
    /// Positions that a row sees, its own included; `None` = all.
    pub window: Option<u32>,
    /// Queries and keys are rotated.
    pub rotated: bool,
    /// It has a recurrent state instead of keys and values.
    pub recurrent: bool,
    /// Elements of one key (and query) head.
    pub key_dim: u32,
    /// Elements of one value head.
    pub value_dim: u32,
    /// The layer whose keys and values it reads: its own, or an earlier one.
    pub kv_layer: u32,
}

/// Mixture of experts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ExpertParams {
    /// Experts per layer.
    pub count: u32,
    /// Experts chosen per row.
    pub used: u32,
    /// Width of one expert's feed-forward.
    pub ffn: u32,
    /// Width of the shared expert, which every row uses; 0 = none.
    pub shared_ffn: u32,
    /// Products to probabilities.
    pub gating: Gating,
    /// Divide the chosen weights by their sum.
    pub renormalize: bool,
    /// Limits the choice to some groups.
    pub groups: Option<ExpertGroups>,
    /// Factor on the weights.
    pub scale: f32,
}

/// The hyperparameters of a model, as its metadata declares them.
#[derive(Debug)]
pub struct HyperParams<'a> {
    /// Context that the model was trained with, in tokens.
    pub context: u32,
    /// Width of the residual stream.
    pub width: u32,
    /// Rotated elements per head of layers without a window.
    pub rope_dims: u32,
    /// Rotated elements per head of layers with a window.
    pub window_rope_dims: u32,
    /// Values of each layer's own embedding of a token; 0 if layers have none.
    pub per_layer_width: u32,
    /// The epsilon of norms.
    pub eps: f32,
    /// Factor on embeddings.
    pub embedding_scale: f32,
    /// Factor on what attention and feed-forward add to the stream.
    pub residual_scale: f32,
    /// Factor on logits, before their cap.
    pub logit_scale: f32,
    /// Factor on attention scores.
    pub attention_scale: f32,
    /// `c * tanh(score / c)` on attention scores.
    pub score_cap: Option<f32>,
    /// Factor on queries by their position.
    pub temperature: Option<Temperature>,
    /// `c * tanh(y / c)` on logits.
    pub logit_cap: Option<f32>,
    /// Present in models with experts.
    pub experts: Option<ExpertParams>,
    /// Heads of recurrent layers.
    pub delta: Option<DeltaShape>,
    /// Number of leading layers with a dense feed-forward in a model with experts.
    pub dense_layers: u32,
    /// Per layer.
    pub layers: Vec<'a, LayerParams>,
    pub(super) rope_base: f32,
    pub(super) rope_scaling: Scaling,
    pub(super) window_rope_base: f32,
}

/// Limits of accepted values; they keep sizes within u32 arithmetic.
const MAX_LAYERS: u32 = 512;
const MAX_EXPERTS: u32 = 1024;
const MAX_HEADS: u32 = 1024;
const MAX_WIDTH: u32 = 1 << 20;
const MAX_HEAD_DIM: u32 = 4096;

/// A layer index and the number of layers.
#[derive(Clone, Copy)]
struct LayerIndex {
    layer: u32,
    of: u32,
}

/// The metadata of one architecture.
pub(super) struct Keys<'g, 'a> {
    gguf: &'g Gguf<'a>,
    prefix: &'static str,
}

impl<'g, 'a> Keys<'g, 'a> {
    pub(super) fn new(gguf: &'g Gguf<'a>, family: &Family) -> Self {
        Self { gguf, prefix: family.name }
    }

    fn name(&self, key: &str) -> Name {
        let mut name = Name::new();
        // The longest prefix and key of the tables fit; a truncated name would not be found.
        let _ = write!(name, "{}.{key}", self.prefix);
        name
    }

    fn required(&self, key: &str, max: u32) -> Result<u32, ModelError> {
        let value = self.gguf.require(&self.name(key))?;
        self.checked(key, value, max)
    }

    fn refused(&self, key: &str, found: f64, expected: &'static str) -> ModelError {
        ModelError::Value { key: self.name(key), found, expected }
    }

    /// An integer in `1..=max`.
    fn count(&self, key: &str, max: u32) -> Result<Option<u32>, ModelError> {
        self.gguf.find(&self.name(key))?.map(|value| self.checked(key, value, max)).transpose()
    }

    /// As [`Self::count`], but 0 stands for absent.
    fn some_count(&self, key: &str, max: u32) -> Result<Option<u32>, ModelError> {
        let value = self.gguf.find(&self.name(key))?.filter(|&value| value != 0);
        value.map(|value| self.checked(key, value, max)).transpose()
    }

    fn checked(&self, key: &str, value: u64, max: u32) -> Result<u32, ModelError> {
        match u32::try_from(value) {
            Ok(value) if value >= 1 && value <= max => Ok(value),
            _ => Err(self.refused(key, value as f64, "a positive number within the supported range")),
        }
    }

    /// An integer, one for all layers or one per layer; 0 stands for absent.
    fn per_layer(&self, key: &str, index: LayerIndex, max: u32) -> Result<Option<u32>, ModelError> {
        let Some(element) = self.element(key, index)? else { return self.some_count(key, max) };
        match element.as_u64() {
            Some(0) => Ok(None),
            Some(value) => self.checked(key, value, max).map(Some),
            None => Err(self.refused(key, f64::NAN, "a number for each layer")),
        }
    }

    /// A layer's element if the key has one per layer; `None` if it has one value for all layers, or none.
    fn element(&self, key: &str, index: LayerIndex) -> Result<Option<Value<'a>>, ModelError> {
        let Some(array) = self.gguf.get(&self.name(key)).and_then(Value::as_array) else { return Ok(None) };
        match array.get(index.layer as usize) {
            Some(element) if array.len() == index.of as usize => Ok(Some(element)),
            _ => Err(self.refused(key, array.len() as f64, "as many values as there are layers")),
        }
    }

    /// A finite float; 0 stands for absent.
    fn float(&self, key: &str) -> Result<Option<f32>, ModelError> {
        match self.gguf.find::<f32>(&self.name(key))? {
            None => Ok(None),
            Some(value) if value.is_finite() => Ok(Some(value).filter(|&value| value != 0.0)),
            Some(value) => Err(self.refused(key, f64::from(value), "a finite number")),
        }
    }

    fn positive(&self, key: &str) -> Result<Option<f32>, ModelError> {
        match self.float(key)? {
            Some(value) if value < 0.0 => Err(self.refused(key, f64::from(value), "a positive number")),
            value => Ok(value),
        }
    }

    /// The epsilon of norms; 0 is legal, absence is not.
    fn epsilon(&self, kind: NormKind) -> Result<f32, ModelError> {
        let key = match kind {
            NormKind::Rms => "attention.layer_norm_rms_epsilon",
            NormKind::Layer => "attention.layer_norm_epsilon",
        };
        match self.gguf.require(&self.name(key))? {
            value if (0.0..f32::INFINITY).contains(&value) => Ok(value),
            value => Err(self.refused(key, f64::from(value), "a finite number that is not negative")),
        }
    }

    /// The vocabulary size if the tokenizer does not declare it.
    pub(super) fn vocabulary(&self) -> Result<Option<u32>, ModelError> {
        self.count("vocab_size", 1 << 24)
    }
}

impl<'a> HyperParams<'a> {
    pub(super) fn new(keys: &Keys<'_, 'a>, family: &Family, heap: Heap<'a>) -> Result<Self, ModelError> {
        let layer_count = trunk_layers(keys)?;
        let width = keys.required("embedding_length", MAX_WIDTH)?;
        let layers = layers(keys, family, layer_count, width, heap)?;
        let heads = layers[0].heads;
        let key_dim = keys.count("attention.key_length", MAX_HEAD_DIM)?.unwrap_or(width / heads).max(1);
        let window_dim =
            layers.iter().find(|layer| layer.window.is_some()).map_or(key_dim, |layer| layer.key_dim);
        let rope_dims = rotated(keys, "rope.dimension_count", key_dim, key_dim)?;
        let window_rope_dims =
            rotated(keys, "rope.dimension_count_swa", rope_dims.min(window_dim), window_dim)?;
        let rope_base = keys.positive("rope.freq_base")?.unwrap_or(10_000.0);
        let own_base = match family.window_rope {
            WindowRope::Base(base) => base,
            WindowRope::Same | WindowRope::Unscaled => rope_base,
        };
        let window_rope_base = keys.positive("rope.freq_base_swa")?.unwrap_or(own_base);
        let own_scale = if family.width_scaled_layers == Some(layer_count) { width / heads } else { key_dim };
        let context = keys.required("context_length", u32::MAX)?;
        Ok(Self {
            context,
            width,
            rope_dims,
            window_rope_dims,
            per_layer_width: per_layer_width(keys, family)?,
            eps: keys.epsilon(family.norm)?,
            embedding_scale: match scale_key(keys, family, "embedding_scale")? {
                Some(scale) => scale,
                None if family.scaled_embedding => libm::sqrtf(width as f32),
                None => 1.0,
            },
            residual_scale: scale_key(keys, family, "residual_scale")?.unwrap_or(1.0),
            logit_scale: logit_scale(keys, family)?,
            score_cap: keys.positive("attn_logit_softcapping")?.filter(|_| family.score_cap),
            temperature: temperature(keys, family, context)?,
            attention_scale: match scale_key(keys, family, "attention.scale")? {
                Some(scale) => scale,
                None if family.gemma4 => 1.0,
                None => 1.0 / libm::sqrtf(own_scale as f32),
            },
            logit_cap: keys.positive("final_logit_softcapping")?.filter(|_| family.logit_cap),
            experts: experts(keys, family, layers[0].ffn)?,
            delta: delta(keys, family)?.filter(|_| layers.iter().any(|layer| layer.recurrent)),
            dense_layers: keys.some_count("leading_dense_block_count", MAX_LAYERS)?.unwrap_or(0),
            layers,
            rope_base,
            rope_scaling: scaling(keys, context)?,
            window_rope_base,
        })
    }
}

fn layers<'a>(
    keys: &Keys<'_, 'a>,
    family: &Family,
    count: u32,
    width: u32,
    heap: Heap<'a>,
) -> Result<Vec<'a, LayerParams>, ModelError> {
    let sharing = sharing_layers(keys, family, count)?;
    let window = window(keys, family, count)?;
    let mut layers = heap::with_capacity(heap, count as usize)?;
    for layer in 0..count {
        let index = LayerIndex { layer, of: count };
        let heads = match keys.per_layer("attention.head_count", index, MAX_HEADS)? {
            Some(heads) => heads,
            None => keys.required("attention.head_count", MAX_HEADS)?,
        };
        let recurrent = is_recurrent(keys, family, index)?;
        let kv_heads = match keys.per_layer(KV_HEADS, index, MAX_HEADS)? {
            Some(kv_heads) => kv_heads,
            None if !recurrent && keys.gguf.get(&keys.name(KV_HEADS)).is_some() => {
                return Err(keys.refused(KV_HEADS, 0.0, "a divisor of the head count"));
            }
            None => heads,
        };
        if heads % kv_heads != 0 {
            return Err(keys.refused(KV_HEADS, f64::from(kv_heads), "a divisor of the head count"));
        }
        let ffn = keys.per_layer("feed_forward_length", index, MAX_WIDTH)?.unwrap_or(0);
        let windowed = is_windowed(keys, family, index)?;
        let (any_window, window) = (window, window.filter(|_| windowed));
        let dim = |key: &str, window_key: &str| -> Result<u32, ModelError> {
            let plain = keys.count(key, MAX_HEAD_DIM)?;
            let own =
                if window.is_some() { keys.some_count(window_key, MAX_HEAD_DIM)?.or(plain) } else { plain };
            Ok(own.unwrap_or(width / heads).max(1))
        };
        layers.push(LayerParams {
            heads,
            kv_heads,
            ffn,
            window,
            rotated: match family.rotated {
                RotatedLayers::All => true,
                RotatedLayers::AllButEvery(period) => !(layer + 1).is_multiple_of(period),
                RotatedLayers::Windowed => any_window.is_none() || window.is_some(),
            },
            recurrent,
            key_dim: dim("attention.key_length", "attention.key_length_swa")?,
            value_dim: dim("attention.value_length", "attention.value_length_swa")?,
            // the last windowed and the last full layer that have their own
            kv_layer: if layer < count - sharing {
                layer
            } else {
                count - sharing - if windowed { 2 } else { 1 }
            },
        });
    }
    // What a layer reads must be there: keys and values of its shape, as far back as it looks.
    let kind = |layer: &LayerParams| (layer.window, layer.kv_heads, layer.key_dim, layer.value_dim);
    let source = |layer: &LayerParams| layers.get(layer.kv_layer as usize).map(kind);
    if layers.iter().any(|layer| source(layer) != Some(kind(layer))) {
        let expected = "layers of the same heads and window as the last two before them";
        return Err(keys.refused(SHARED_LAYERS, f64::from(sharing), expected));
    }
    Ok(layers)
}

/// Key of the number of heads with keys and values.
const KV_HEADS: &str = "attention.head_count_kv";

/// Positions that windowed layers see.
fn window(keys: &Keys<'_, '_>, family: &Family, layers: u32) -> Result<Option<u32>, ModelError> {
    const KEY: &str = "attention.sliding_window";
    let has_windows = family.window != WindowPattern::Never;
    if !has_windows || family.window_layers.is_some_and(|wanted| wanted != layers) {
        return Ok(None);
    }
    if family.optional_window { keys.some_count(KEY, u32::MAX) } else { keys.count(KEY, u32::MAX) }
}

/// Key of the number of last layers that read the keys and values of earlier ones.
const SHARED_LAYERS: &str = "attention.shared_kv_layers";

/// Number of last layers that read the keys and values of earlier ones.
fn sharing_layers(keys: &Keys<'_, '_>, family: &Family, count: u32) -> Result<u32, ModelError> {
    const KEY: &str = SHARED_LAYERS;
    let sharing = if family.gemma4 { keys.some_count(KEY, MAX_LAYERS)?.unwrap_or(0) } else { 0 };
    // two remain: one of each kind
    if sharing > 0 && sharing + 2 > count {
        return Err(keys.refused(KEY, f64::from(sharing), "at most block_count - 2"));
    }
    Ok(sharing)
}

/// Values of each layer's own embedding of a token.
fn per_layer_width(keys: &Keys<'_, '_>, family: &Family) -> Result<u32, ModelError> {
    let width = keys.some_count("embedding_length_per_layer_input", MAX_WIDTH)?;
    Ok(width.filter(|_| family.gemma4).unwrap_or(0))
}

/// Rotated elements per head of `head` elements.
fn rotated(keys: &Keys<'_, '_>, key: &str, default: u32, head: u32) -> Result<u32, ModelError> {
    let dims = keys.count(key, MAX_WIDTH)?.unwrap_or(default);
    if dims > head || dims % 2 != 0 {
        return Err(keys.refused(key, f64::from(dims), "an even number up to the head size"));
    }
    Ok(dims)
}

fn is_windowed(keys: &Keys<'_, '_>, family: &Family, index: LayerIndex) -> Result<bool, ModelError> {
    const KEY: &str = "attention.sliding_window_pattern";
    let WindowPattern::AllButEvery(default) = family.window else { return Ok(false) };
    if let Some(flag) = keys.element(KEY, index)? {
        let flag = flag.as_bool().or(flag.as_u64().map(|number| number != 0));
        return flag.ok_or_else(|| keys.refused(KEY, f64::NAN, "a flag for each layer"));
    }
    let period = keys.count(KEY, MAX_LAYERS)?.unwrap_or(default);
    Ok(index.layer % period < period - 1)
}

/// Layers that compute the next token; those behind them draft the tokens after it.
fn trunk_layers(keys: &Keys<'_, '_>) -> Result<u32, ModelError> {
    const KEY: &str = "nextn_predict_layers";
    let all = keys.required("block_count", MAX_LAYERS)?;
    let drafting = keys.some_count(KEY, MAX_LAYERS)?.unwrap_or(0);
    if drafting >= all {
        return Err(keys.refused(KEY, f64::from(drafting), "fewer than block_count"));
    }
    Ok(all - drafting)
}

/// A layer is recurrent by a flag of its own, or unless it is the last of an interval.
fn is_recurrent(keys: &Keys<'_, '_>, family: &Family, index: LayerIndex) -> Result<bool, ModelError> {
    const KEY: &str = "attention.recurrent_layers";
    if family.recurrence.is_none() {
        return Ok(false);
    }
    if let Some(flag) = keys.element(KEY, index)? {
        let flag = flag.as_bool().or(flag.as_u64().map(|number| number != 0));
        return flag.ok_or_else(|| keys.refused(KEY, f64::NAN, "a flag for each layer"));
    }
    let interval = keys.count("full_attention_interval", MAX_LAYERS)?.unwrap_or(4);
    Ok(!(index.layer + 1).is_multiple_of(interval))
}

/// The heads of recurrent layers.
fn delta(keys: &Keys<'_, '_>, family: &Family) -> Result<Option<DeltaShape>, ModelError> {
    const MAX_DIM: u32 = 1024;
    let Some(recurrence) = family.recurrence else { return Ok(None) };
    let key_heads = keys.required("ssm.group_count", MAX_HEADS)?;
    let value_heads = keys.required("ssm.time_step_rank", MAX_HEADS)?;
    if !value_heads.is_multiple_of(key_heads) {
        let expected = "a multiple of ssm.group_count";
        return Err(keys.refused("ssm.time_step_rank", f64::from(value_heads), expected));
    }
    let inner = keys.required("ssm.inner_size", MAX_WIDTH)?;
    if !inner.is_multiple_of(value_heads) {
        return Err(keys.refused("ssm.inner_size", f64::from(inner), "a multiple of ssm.time_step_rank"));
    }
    Ok(Some(DeltaShape {
        key_heads,
        value_heads,
        key_dim: keys.required("ssm.state_size", MAX_DIM)?,
        value_dim: keys.checked("ssm.inner_size", u64::from(inner / value_heads), MAX_DIM)?,
        taps: keys.required("ssm.conv_kernel", 64)?,
        order: recurrence.order,
    }))
}

fn experts(keys: &Keys<'_, '_>, family: &Family, ffn: u32) -> Result<Option<ExpertParams>, ModelError> {
    let Some(count) = keys.some_count("expert_count", MAX_EXPERTS)? else { return Ok(None) };
    let used = keys.required("expert_used_count", count)?;
    let (gating, renormalize) = routing(keys, family.routing)?;
    let groups = expert_groups(keys, count, used)?;
    let ffn = keys.some_count("expert_feed_forward_length", MAX_WIDTH)?.unwrap_or(ffn);
    let scale = keys.float("expert_weights_scale")?.unwrap_or(1.0);
    let shared_count = keys.some_count("expert_shared_count", MAX_EXPERTS)?.unwrap_or(1);
    let shared_ffn = keys.some_count("expert_shared_feed_forward_length", MAX_WIDTH)?;
    let shared_ffn = shared_ffn.unwrap_or(ffn.saturating_mul(shared_count)).max(1);
    Ok(Some(ExpertParams { count, used, ffn: ffn.max(1), shared_ffn, gating, renormalize, groups, scale }))
}

/// The gating and whether weights are divided by their sum, from the file where the family allows it.
fn routing(keys: &Keys<'_, '_>, routing: Routing) -> Result<(Gating, bool), ModelError> {
    const KEY: &str = "expert_gating_func";
    let Routing { gating, renormalize, by_key, .. } = routing;
    if !by_key {
        return Ok((gating, renormalize));
    }
    let gating = match keys.gguf.find::<u64>(&keys.name(KEY))?.unwrap_or(0) {
        0 => gating,
        1 => Gating::Softmax,
        2 => Gating::Sigmoid,
        3 => Gating::SoftmaxOfChosen,
        found => {
            return Err(keys.refused(
                KEY,
                found as f64,
                "1 (softmax), 2 (sigmoid) or 3 (softmax of the chosen)",
            ));
        }
    };
    Ok((gating, keys.gguf.find::<bool>(&keys.name("expert_weights_norm"))?.unwrap_or(renormalize)))
}

/// Groups of experts that limit the choice.
fn expert_groups(keys: &Keys<'_, '_>, count: u32, used: u32) -> Result<Option<ExpertGroups>, ModelError> {
    const KEY: &str = "expert_group_count";
    const USED: &str = "expert_group_used_count";
    let Some(groups) = keys.some_count(KEY, MAX_EXPERTS)?.filter(|&groups| groups > 1) else {
        return Ok(None);
    };
    if !count.is_multiple_of(groups) || count / groups < 2 {
        return Err(keys.refused(
            KEY,
            f64::from(groups),
            "a divisor of expert_count that leaves two experts a group",
        ));
    }
    let chosen = keys.required(USED, groups)?;
    if chosen * (count / groups) < used {
        return Err(keys.refused(USED, f64::from(chosen), "groups with at least expert_used_count experts"));
    }
    Ok((chosen < groups).then_some(ExpertGroups { count: groups, used: chosen }))
}

/// A factor that only some families read.
fn scale_key(keys: &Keys<'_, '_>, family: &Family, key: &str) -> Result<Option<f32>, ModelError> {
    if family.scale_keys { keys.float(key) } else { Ok(None) }
}

fn logit_scale(keys: &Keys<'_, '_>, family: &Family) -> Result<f32, ModelError> {
    let scale = keys.float("logit_scale")?.unwrap_or(1.0);
    Ok(match family.logit_scale {
        LogitScale::Ignored => 1.0,
        LogitScale::Multiplies => scale,
        LogitScale::Divides => 1.0 / scale,
    })
}

/// The factor on queries by their position.
fn temperature(
    keys: &Keys<'_, '_>,
    family: &Family,
    context: u32,
) -> Result<Option<Temperature>, ModelError> {
    if !family.temperature {
        return Ok(None);
    }
    let Some(scale) = keys.float("attention.temperature_scale")? else { return Ok(None) };
    let length = keys.count("rope.scaling.original_context_length", u32::MAX)?.unwrap_or(context);
    Ok(Some(Temperature { length, offset: 0, scale }))
}

fn scaling(keys: &Keys<'_, '_>, context: u32) -> Result<Scaling, ModelError> {
    let factor = match keys.positive("rope.scaling.factor")? {
        Some(factor) => factor,
        None => keys.positive("rope.scale_linear")?.unwrap_or(1.0),
    };
    let magnitude = keys.positive("rope.scaling.attn_factor")?.unwrap_or(1.0);
    let kind = keys.name("rope.scaling.type");
    match keys.gguf.find::<&str>(&kind)?.unwrap_or("linear") {
        // What longrope divides by is in tensors.
        "none" | "longrope" => Ok(Scaling::Linear { factor: 1.0, magnitude }),
        "linear" => Ok(Scaling::Linear { factor, magnitude }),
        "yarn" => yarn(keys, factor, context),
        _ => {
            let expected = "one of none, linear, yarn, longrope";
            Err(ModelError::Value { key: kind, found: f64::NAN, expected })
        }
    }
}

/// YaRN's numbers; the magnitude follows `llama-context.cpp`: `0.1 ln(factor) + 1` if the ramp is in use.
fn yarn(keys: &Keys<'_, '_>, factor: f32, context: u32) -> Result<Scaling, ModelError> {
    let magnitude =
        |multiplier: f32| if factor <= 1.0 { 1.0 } else { 0.1 * multiplier * libm::logf(factor) + 1.0 };
    let extrapolation = keys.gguf.find::<f32>(&keys.name("rope.scaling.yarn_ext_factor"))?;
    let extrapolation = extrapolation.filter(|&value| value >= 0.0).unwrap_or(1.0);
    let own = match keys.float("rope.scaling.yarn_log_multiplier")? {
        Some(multiplier) => magnitude(1.0) / magnitude(multiplier),
        None => magnitude(1.0),
    };
    let own = if extrapolation == 0.0 { 1.0 } else { own };
    let original = keys.count("rope.scaling.original_context_length", u32::MAX)?.unwrap_or(context);
    Ok(Scaling::Yarn {
        factor,
        original_context: original as f32,
        magnitude: own * keys.positive("rope.scaling.attn_factor")?.unwrap_or(1.0),
        beta_fast: keys.positive("rope.scaling.yarn_beta_fast")?.unwrap_or(32.0),
        beta_slow: keys.positive("rope.scaling.yarn_beta_slow")?.unwrap_or(1.0),
        extrapolation,
    })
}
