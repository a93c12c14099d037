//! Expert routing of one row.

use super::elementwise::{sigmoid, softmax};
use crate::plan::{Gating, Route};

/// Chooses `ids.len()` experts from the router's products `[experts]` and computes their weights.
///
/// `products` is overwritten with the probabilities. Higher score first, lower index on ties; NaN loses.
pub fn route_row(
    op: &Route,
    selection_bias: Option<&[f32]>,
    products: &mut [f32],
    ids: &mut [u32],
    weights: &mut [f32],
) {
    match op.gating {
        Gating::Softmax => softmax(products),
        Gating::Sigmoid => products.iter_mut().for_each(|x| *x = sigmoid(*x)),
        Gating::SoftmaxOfChosen => {}
    }
    let score = |expert: usize| products[expert] + selection_bias.map_or(0.0, |bias| bias[expert]);
    for slot in 0..ids.len() {
        let taken = &ids[..slot];
        let free = (0..products.len()).filter(|&expert| !taken.iter().any(|&id| id as usize == expert));
        let best = free.reduce(|best, expert| {
            let better = score(expert) > score(best) || (score(best).is_nan() && !score(expert).is_nan());
            if better { expert } else { best }
        });
        // The binder has checked that there are at least as many experts as slots.
        ids[slot] = best.unwrap_or(0) as u32;
    }
    for (weight, &id) in weights.iter_mut().zip(ids.iter()) {
        *weight = products[id as usize];
    }
    if op.gating == Gating::SoftmaxOfChosen {
        softmax(weights);
    }
    if op.renormalize {
        let sum = weights.iter().sum::<f32>().max(Route::LEAST_SUM);
        weights.iter_mut().for_each(|weight| *weight /= sum);
    }
    weights.iter_mut().for_each(|weight| *weight *= op.scale);
}
