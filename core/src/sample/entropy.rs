//! The stages that look at the entropy of the candidates: typical sampling and the temperature.

use super::candidates::Scratch;
use core::cmp::Ordering;

/// Entropy in nats of the candidates' current probabilities.
fn entropy(scratch: &Scratch<'_>) -> f32 {
    let sum: f64 = scratch
        .candidates
        .iter()
        .filter(|candidate| candidate.probability > 0.0)
        .map(|candidate| f64::from(candidate.probability) * f64::from(libm::logf(candidate.probability)))
        .sum();
    -sum as f32
}

/// Locally typical sampling (Meister et al. 2022): keeps the candidates whose surprise is closest to the
/// entropy, until their probabilities exceed `p`.
pub(super) fn typical(scratch: &mut Scratch<'_>, p: f32, min_keep: usize) {
    if p >= 1.0 {
        return;
    }
    scratch.softmax();
    let entropy = entropy(scratch);
    // deviation with the place it had, smallest first; ties keep the likelier token
    let deviation = |probability: f32| libm::fabsf(-libm::logf(probability) - entropy);
    let closer = |a: &super::Candidate, b: &super::Candidate| {
        let (a_deviation, b_deviation) = (deviation(a.probability), deviation(b.probability));
        a_deviation
            .partial_cmp(&b_deviation)
            .unwrap_or(Ordering::Equal)
            .then_with(|| super::candidates::likelier(a, b))
    };
    let candidates = &mut scratch.candidates;
    let (mut sum, mut kept, mut sorted) = (0.0_f64, 0, 0);
    while kept < candidates.len() {
        if kept == sorted {
            let rest = &mut candidates[sorted..];
            let more = sorted.max(64).min(rest.len());
            if more < rest.len() {
                rest.select_nth_unstable_by(more - 1, closer);
            }
            rest[..more].sort_unstable_by(closer);
            sorted += more;
        }
        sum += f64::from(candidates[kept].probability);
        kept += 1;
        if sum > f64::from(p) && kept >= min_keep {
            break;
        }
    }
    scratch.disorder();
    scratch.truncate(kept);
}

/// Divides the logits by the temperature; with a range, by one that follows the normalised entropy.
///
/// At temperature 0 only the likeliest candidate stays. Logits come out relative to the highest, which
/// changes no probability and keeps tiny temperatures finite.
pub(super) fn temperature(scratch: &mut Scratch<'_>, fixed: f32, range: f32, exponent: f32) {
    let len = scratch.candidates.len();
    if range <= 0.0 {
        return divide(scratch, fixed);
    }
    if len < 2 {
        return;
    }
    scratch.softmax();
    let normalised = (entropy(scratch) / libm::logf(len as f32)).clamp(0.0, 1.0);
    let low = (fixed - range).max(0.0);
    divide(scratch, low + (fixed + range - low) * libm::powf(normalised, exponent));
}

fn divide(scratch: &mut Scratch<'_>, temperature: f32) {
    if temperature <= 0.0 {
        return scratch.keep_likeliest(1);
    }
    let highest = scratch.highest();
    for candidate in &mut scratch.candidates {
        candidate.logit = ((candidate.logit - highest) / temperature).max(f32::MIN);
    }
}
