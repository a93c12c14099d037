//! Expert routing of one row.

use super::elementwise::{sigmoid, softmax};
use crate::plan::{ExpertGroups, Gating, Route};

/// Makes the probabilities of experts outside the best groups NaN, which is never chosen while there are others.
pub fn close_groups(groups: ExpertGroups, selection_bias: Option<&[f32]>, probabilities: &mut [f32]) {
    let size = probabilities.len() / groups.count as usize;
    let best_two = |probabilities: &[f32], group: usize| {
        let mut best = [f32::NEG_INFINITY; 2];
        for expert in group * size..(group + 1) * size {
            let score = probabilities[expert] + selection_bias.map_or(0.0, |bias| bias[expert]);
            if score > best[0] {
                best = [score, best[0]];
            } else if score > best[1] {
                best[1] = score;
            }
        }
        best[0] + best[1]
    };
    for _ in groups.used..groups.count {
        // The last of the worst groups that are still open; a closed one has no score.
        let open = (0..groups.count as usize).filter(|group| !probabilities[group * size].is_nan());
        let worst = open.reduce(|worst, group| {
            let lower = best_two(probabilities, group) <= best_two(probabilities, worst);
            if lower { group } else { worst }
        });
        if let Some(group) = worst {
            probabilities[group * size..(group + 1) * size].fill(f32::NAN);
        }
    }
}

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
    if let Some(groups) = op.groups {
        close_groups(groups, selection_bias, products);
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
