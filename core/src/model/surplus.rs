//! Tensors that nothing has read: a file that has one is of another architecture than it says, or of a variant that would be
//! computed wrongly.

use super::error::{ModelError, Name, TensorFault, excerpt};
use super::family::Family;
use super::hparams::HyperParams;
use crate::gguf::Gguf;

/// Parts of names that any file may have: scales of quantized activations, rotary factors for another context length,
/// classifiers, and images.
const OTHERS: [&str; 4] = [".input_scale", "rope_f", ".attn_rot_embd", "exp_probs_b_vl"];
const PREFIXES: [&str; 5] = ["cls.", "v.", "a.", "mm.", "nextn."];

/// Parts that layers have although they read the keys and values of another layer.
const OWN_KV: [&str; 4] = ["attn_k.", "attn_v.", "attn_k_norm.", "attn_v_norm."];

/// Checks that every tensor was read.
///
/// # Errors
/// The first tensor in the file's order that was not.
pub(super) fn check(
    gguf: &Gguf<'_>,
    read: &mut [&[u8]],
    hparams: &HyperParams<'_>,
    family: &Family,
) -> Result<(), ModelError> {
    read.sort_unstable();
    for tensor in gguf.tensors() {
        let name = core::str::from_utf8(tensor.name).unwrap_or_default();
        if read.binary_search(&tensor.name).is_err() && !is_allowed(name, hparams, family) {
            let name: Name = excerpt(tensor.name);
            return Err(ModelError::Tensor { name, fault: TensorFault::Surplus });
        }
    }
    Ok(())
}

fn is_allowed(name: &str, hparams: &HyperParams<'_>, family: &Family) -> bool {
    if OTHERS.iter().any(|part| name.contains(part)) || PREFIXES.iter().any(|prefix| name.starts_with(prefix))
    {
        return true;
    }
    let Some((layer, part)) = name.strip_prefix("blk.").and_then(|rest| rest.split_once('.')) else {
        return false;
    };
    let Ok(layer) = layer.parse::<usize>() else { return false };
    // layers behind the last draft tokens
    let Some(shape) = hparams.layers.get(layer) else { return true };
    let shares = shape.kv_layer as usize != layer;
    // another order of the rows of attn_qkv and attn_gate, which are there too
    let twice = family.recurrence.is_some() && part.starts_with("ssm_in.");
    twice || shares && OWN_KV.iter().any(|own| part.starts_with(own))
}
