//! Penalties on tokens seen before: repeat, frequency, presence. Repeated sequences are in `dry`.

use super::history::History;
use super::params::PenaltyParams;

/// Applies the penalties to the logits of all tokens in the window.
///
/// `counts` has one entry a token, all zero before and after. Bounded by the window, not the vocabulary.
pub(super) fn apply(params: &PenaltyParams, history: &History<'_>, logits: &mut [f32], counts: &mut [u32]) {
    if !params.active() {
        return;
    }
    let window = history.len().min(params.last_n as usize);
    for back in 0..window {
        counts[history.latest(back).0 as usize] += 1;
    }
    for back in 0..window {
        let token = history.latest(back).0 as usize;
        let count = core::mem::take(&mut counts[token]);
        if count == 0 {
            continue;
        }
        let logit = logits[token];
        // dividing a negative logit would favor the token
        let scaled = match logit {
            f32::NEG_INFINITY => continue,
            _ if logit <= 0.0 => (logit * params.repeat).max(f32::MIN),
            _ => logit / params.repeat,
        };
        logits[token] = lowered(scaled, count as f32 * params.frequency + params.presence);
    }
}

/// `logit - amount`, kept finite unless the token was impossible before: a penalty never bans.
pub(super) fn lowered(logit: f32, amount: f32) -> f32 {
    if logit == f32::NEG_INFINITY {
        return logit;
    }
    (logit.clamp(f32::MIN, f32::MAX) - amount.clamp(f32::MIN, f32::MAX)).clamp(f32::MIN, f32::MAX)
}
