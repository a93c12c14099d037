//! The stages that drop unlikely tokens: top-n-sigma, top-p, min-p, XTC. Top-k is part of collecting.

use super::candidates::Scratch;
use super::params::XtcParams;

/// The logit below which top-n-sigma drops a token: the highest minus `n` standard deviations.
///
/// Mean and deviation are over the logits above minus infinity. `n` 0 is off and gives minus infinity.
pub(super) fn sigma_floor(logits: &[f32], n: f32) -> f32 {
    if n <= 0.0 {
        return f32::NEG_INFINITY;
    }
    let possible = || logits.iter().copied().filter(|&logit| logit > f32::NEG_INFINITY);
    let (mut highest, mut sum, mut count) = (f32::NEG_INFINITY, 0.0_f64, 0_u32);
    for logit in possible() {
        highest = highest.max(logit);
        sum += f64::from(logit);
        count += 1;
    }
    let mean = sum / f64::from(count.max(1));
    let variance =
        possible().map(|logit| square(f64::from(logit) - mean)).sum::<f64>() / f64::from(count.max(1));
    highest - n * libm::sqrt(variance) as f32
}

fn square(value: f64) -> f64 {
    value * value
}

/// Keeps the fewest likeliest candidates whose probabilities reach `p`.
pub(super) fn top_p(scratch: &mut Scratch<'_>, p: f32, min_keep: usize) {
    if p >= 1.0 {
        return;
    }
    scratch.softmax();
    let len = scratch.candidates.len();
    let (mut sum, mut kept, mut ordered) = (0.0_f64, 0, 0);
    while kept < len && (sum < f64::from(p) || kept < min_keep.max(1)) {
        // sorts more and more candidates: the tail of a large vocabulary is rarely needed
        if kept == ordered {
            ordered = (ordered * 8).max(64);
            scratch.order(ordered);
        }
        sum += f64::from(scratch.candidates[kept].probability);
        kept += 1;
    }
    scratch.truncate(kept);
}

/// Keeps candidates at least `p` times as likely as the likeliest.
pub(super) fn min_p(scratch: &mut Scratch<'_>, p: f32, min_keep: usize) {
    if p <= 0.0 {
        return;
    }
    let floor = scratch.highest() + libm::logf(p);
    let above = scratch.candidates.iter().filter(|candidate| candidate.logit >= floor).count();
    if above >= min_keep.max(1) {
        scratch.keep_above(floor);
    } else {
        scratch.keep_likeliest(min_keep.max(1));
    }
}

/// Drops all candidates with at least the threshold's probability but the least likely of them.
///
/// `chance` gives this step's random number in `[0, 1)`.
pub(super) fn exclude_top_choices(
    scratch: &mut Scratch<'_>,
    xtc: &XtcParams,
    min_keep: usize,
    chance: impl FnOnce() -> f64,
) {
    let off = xtc.probability <= 0.0 || xtc.threshold > 0.5 || scratch.candidates.len() < 2;
    if off || chance() > f64::from(xtc.probability) {
        return;
    }
    scratch.softmax();
    let choices = scratch.candidates.iter().filter(|c| c.probability >= xtc.threshold).count();
    let Some(dropped) = choices.checked_sub(1).filter(|&dropped| dropped > 0) else { return };
    if scratch.candidates.len() - dropped >= min_keep {
        scratch.order(choices);
        scratch.drop_first(dropped);
    }
}
