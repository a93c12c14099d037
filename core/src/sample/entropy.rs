//! The stages that look at the entropy of the candidates: typical sampling and the temperature.

use super::candidates::{Candidate, Scratch, likelier};
use core::cmp::Ordering;

/// The part of the surprise that is equal for all candidates, in nats: the rest is the difference of their logit from
/// the highest.
///
/// `-ln p = ln sum - (logit - highest)`, and the likeliest candidate has `p = 1 / sum`.
fn log_sum(scratch: &Scratch<'_>, highest: f32) -> f32 {
    let likeliest = scratch.candidates.iter().find(|candidate| candidate.logit == highest);
    likeliest.map_or(0.0, |candidate| -libm::logf(candidate.probability))
}

/// Entropy in nats of the candidates' current probabilities.
fn entropy(scratch: &Scratch<'_>, highest: f32) -> f32 {
    let weighted = |c: &Candidate| f64::from(c.probability) * f64::from(highest - c.logit);
    scratch.candidates.iter().map(weighted).sum::<f64>() as f32 + log_sum(scratch, highest)
}

/// Locally typical sampling (Meister et al. 2022): keeps the candidates whose surprise is closest to the
/// entropy, until their probabilities exceed `p`.
pub(super) fn typical(scratch: &mut Scratch<'_>, p: f32, min_keep: usize) {
    if p >= 1.0 {
        return;
    }
    scratch.softmax();
    let highest = scratch.highest();
    let (entropy, log_sum) = (entropy(scratch, highest), log_sum(scratch, highest));
    let Scratch { candidates, logits, .. } = &mut *scratch;
    // the buffer of adjusted logits is free here: it holds the deviations
    for Candidate { token, logit, .. } in candidates.iter() {
        logits[token.0 as usize] = libm::fabsf(highest - logit + log_sum - entropy);
    }
    // ties keep the likelier token
    let closer = |a: &Candidate, b: &Candidate| {
        let (a_deviation, b_deviation) = (logits[a.token.0 as usize], logits[b.token.0 as usize]);
        a_deviation.partial_cmp(&b_deviation).unwrap_or(Ordering::Equal).then_with(|| likelier(a, b))
    };
    let (mut sum, mut kept, mut sorted) = (0.0_f64, 0, 0);
    while kept < candidates.len() {
        if kept == sorted {
            let rest = &mut candidates[sorted..];
            let more = (sorted * 7).max(64).min(rest.len());
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

/// Divides the logits by the temperature; with a range, by one that follows the normalized entropy.
///
/// At temperature 0 only the likeliest candidate stays, with a range too. Logits come out relative to the highest, which
/// changes no probability and keeps tiny temperatures finite.
pub(super) fn temperature(scratch: &mut Scratch<'_>, fixed: f32, range: f32, exponent: f32) {
    let len = scratch.candidates.len();
    if range <= 0.0 || fixed <= 0.0 {
        return divide(scratch, fixed);
    }
    if len < 2 {
        return;
    }
    scratch.softmax();
    let normalized = (entropy(scratch, scratch.highest()) / libm::logf(len as f32)).clamp(0.0, 1.0);
    let low = (fixed - range).max(0.0);
    divide(scratch, low + (fixed + range - low) * libm::powf(normalized, exponent));
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
