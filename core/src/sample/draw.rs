//! The end of a step: one candidate is picked, plainly or under the control of mirostat or adaptive-p.

use super::candidates::{Candidate, Scratch};
use super::params::{AdaptiveParams, MirostatParams, MirostatVersion};

/// Mirostat 1 estimates the slope from this many likeliest tokens.
const MIROSTAT_TOKENS: usize = 100;

/// Adaptive-p's transform: logit `PEAK - SHARPNESS * d^2 / (1 + d)` at the distance `d = |p - target| / WIDTH`.
const ADAPTIVE_WIDTH: f32 = 0.3;
const ADAPTIVE_PEAK: f32 = 5.0;
const ADAPTIVE_SHARPNESS: f32 = 10.0;

/// Picks by the candidates' probabilities: the first whose running sum exceeds `chance` of the whole.
pub(super) fn plain(scratch: &mut Scratch<'_>, chance: f64) -> Candidate {
    scratch.softmax();
    pick(scratch, chance)
}

/// As [`plain`], but with a single candidate no number is drawn, as in C++'s `discrete_distribution`.
fn chosen(scratch: &mut Scratch<'_>, chance: impl FnOnce() -> f64) -> Candidate {
    let chance = if scratch.candidates.len() > 1 { chance() } else { 0.0 };
    plain(scratch, chance)
}

fn pick(scratch: &Scratch<'_>, chance: f64) -> Candidate {
    let candidates = &scratch.candidates;
    let sum: f64 = candidates.iter().map(|candidate| f64::from(candidate.probability)).sum();
    let goal = chance * sum;
    let mut running = 0.0;
    for candidate in candidates {
        running += f64::from(candidate.probability);
        if running > goal {
            return *candidate;
        }
    }
    // chance is below 1, so that the sum exceeds the goal; if rounding prevents that, the last candidate is right
    candidates[candidates.len() - 1]
}

/// The feedback of mirostat: the bound on the surprise, in bits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mirostat {
    bound: f32,
}

impl Mirostat {
    pub(super) fn new(params: &MirostatParams) -> Self {
        Self { bound: 2.0 * params.tau }
    }

    /// Truncates, picks, and updates the bound by the pick's surprise.
    pub(super) fn draw(
        &mut self,
        params: &MirostatParams,
        scratch: &mut Scratch<'_>,
        vocab_len: usize,
        chance: impl FnOnce() -> f64,
    ) -> Candidate {
        scratch.softmax();
        match params.version {
            MirostatVersion::V1 => {
                let kept = self.estimated_count(scratch, vocab_len);
                scratch.keep_likeliest(kept);
            }
            MirostatVersion::V2 | MirostatVersion::Off => {
                let bound = self.bound;
                let kept = scratch.candidates.iter().filter(|c| -libm::log2f(c.probability) <= bound).count();
                scratch.keep_likeliest(kept.max(1));
            }
        }
        let picked = chosen(scratch, chance);
        let surprise = -libm::log2f(picked.probability);
        self.bound -= params.eta * (surprise - params.tau);
        picked
    }

    /// Mirostat 1's number of tokens, from a fit of Zipf's exponent to the likeliest tokens.
    fn estimated_count(self, scratch: &mut Scratch<'_>, vocab_len: usize) -> usize {
        scratch.order(MIROSTAT_TOKENS);
        let head = &scratch.candidates[..scratch.candidates.len().min(MIROSTAT_TOKENS)];
        let (mut products, mut squares) = (0.0_f32, 0.0_f32);
        for (rank, pair) in (1_u16..).zip(head.windows(2)) {
            let step = libm::logf(f32::from(rank + 1) / f32::from(rank));
            products += step * libm::logf(pair[0].probability / pair[1].probability);
            squares += step * step;
        }
        let slope = products / squares;
        let epsilon = slope - 1.0;
        let base = epsilon * libm::powf(2.0, self.bound) / (1.0 - libm::powf(vocab_len as f32, -epsilon));
        let count = libm::powf(base, 1.0 / slope);
        if count.is_nan() {
            // one candidate, or only impossible ones after the first
            return 1;
        }
        (count as usize).clamp(1, scratch.candidates.len())
    }
}

/// The feedback of adaptive-p: a decaying average of the probabilities that picked tokens had before.
#[derive(Clone, Copy, Debug)]
pub(super) struct Adaptive {
    weighted_sum: f32,
    total_weight: f32,
}

impl Adaptive {
    pub(super) fn new(params: &AdaptiveParams) -> Self {
        let total_weight = 1.0 / (1.0 - params.decay);
        Self { weighted_sum: params.target * total_weight, total_weight }
    }

    /// Reshapes the distribution around the adapted target, picks, and updates the average by the pick.
    pub(super) fn draw(
        &mut self,
        params: &AdaptiveParams,
        scratch: &mut Scratch<'_>,
        chance: impl FnOnce() -> f64,
    ) -> Candidate {
        scratch.softmax();
        let target = (2.0 * params.target - self.weighted_sum / self.total_weight).clamp(0.0, 1.0);
        let Scratch { candidates, logits, .. } = &mut *scratch;
        for candidate in candidates {
            // the adjusted logits aren't needed any more: they keep the original probabilities
            logits[candidate.token.0 as usize] = candidate.probability;
            let distance = libm::fabsf(candidate.probability - target) / ADAPTIVE_WIDTH;
            candidate.logit = ADAPTIVE_PEAK - ADAPTIVE_SHARPNESS * distance * distance / (1.0 + distance);
        }
        scratch.disorder();
        let picked = chosen(scratch, chance);
        self.weighted_sum = scratch.logits[picked.token.0 as usize] + params.decay * self.weighted_sum;
        self.total_weight = 1.0 + params.decay * self.total_weight;
        picked
    }
}
