//! Log-probabilities of the model's logits, before bias, mask, penalties and temperature; or, on request, of the
//! candidates that were left to draw from.

use super::candidates::{Candidate, likelier};
use super::exp::exp;
use crate::token::TokenId;
use core::cmp::Ordering;

/// The most alternatives that one step reports, as in the `OpenAI` API.
pub const TOP_MAX: usize = 20;

/// A token and its log-probability in nats; minus infinity if it is impossible.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct TokenLogProb {
    /// The token.
    pub token: TokenId,
    /// Natural logarithm of its probability.
    pub log_prob: f32,
}

/// The report of a step.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct LogProbs {
    /// The picked token.
    pub chosen: TokenLogProb,
    /// The likeliest tokens, likeliest first, lower id first among equals.
    pub top: heapless::Vec<TokenLogProb, TOP_MAX>,
}

/// The natural logarithm of the sum of the exponentials.
fn log_sum_exp(logits: &[f32]) -> f64 {
    let highest = logits.iter().fold(f32::NEG_INFINITY, |highest, &logit| highest.max(logit));
    let sum: f64 = logits.iter().map(|&logit| f64::from(exp(logit - highest))).sum();
    f64::from(highest) + libm::log(sum)
}

/// The log-probability of `token` in one row of logits, in nats; `None` if the row doesn't have the token.
///
/// NaN if a logit is NaN or plus infinity, or if all are minus infinity.
#[must_use]
pub fn log_prob(logits: &[f32], token: TokenId) -> Option<f64> {
    let logit = *logits.get(token.0 as usize)?;
    Some(f64::from(logit) - log_sum_exp(logits))
}

/// The report on `chosen` and the `count` likeliest tokens, at most [`TOP_MAX`]. Bounded by vocabulary times `count`.
///
/// # Panics
/// When the row doesn't have the chosen token.
#[must_use]
pub fn log_probs(logits: &[f32], chosen: TokenId, count: usize) -> LogProbs {
    let total = log_sum_exp(logits);
    let relative = |logit: f32| (f64::from(logit) - total) as f32;
    let row = (0_u32..).zip(logits);
    let candidates = row.map(|(token, &logit)| Candidate { token: TokenId(token), logit, probability: 0.0 });
    let best = first(candidates, count, likelier);
    let chosen = TokenLogProb { token: chosen, log_prob: relative(logits[chosen.0 as usize]) };
    let top = best
        .iter()
        .map(|candidate| TokenLogProb { token: candidate.token, log_prob: relative(candidate.logit) })
        .collect();
    LogProbs { chosen, top }
}

/// The first `count` candidates, at most [`TOP_MAX`], in a total order.
#[inline]
fn first(
    candidates: impl Iterator<Item = Candidate>,
    count: usize,
    order: impl Fn(&Candidate, &Candidate) -> Ordering,
) -> heapless::Vec<Candidate, TOP_MAX> {
    let count = count.min(TOP_MAX);
    let mut best: heapless::Vec<Candidate, TOP_MAX> = heapless::Vec::new();
    for candidate in candidates {
        let late = best.last().is_some_and(|last| order(last, &candidate).is_lt());
        if count == 0 || (best.len() == count && late) {
            continue;
        }
        if best.len() == count {
            best.pop();
        }
        let index = best.partition_point(|other| order(other, &candidate).is_lt());
        // there is room: the last element of a full list has just been removed
        let _ = best.insert(index, candidate);
    }
    best
}

/// The report on `picked` and the `count` likeliest of the candidates that it was drawn from; those that could not be
/// drawn are left out.
pub(super) fn of_candidates(candidates: &[Candidate], picked: &Candidate, count: usize) -> LogProbs {
    let likelier =
        |a: &Candidate, b: &Candidate| b.probability.total_cmp(&a.probability).then(a.token.cmp(&b.token));
    let drawable = candidates.iter().copied().filter(|candidate| candidate.probability > 0.0);
    let best = first(drawable, count, likelier);
    let report = |candidate: &Candidate| TokenLogProb {
        token: candidate.token,
        log_prob: libm::logf(candidate.probability),
    };
    LogProbs { chosen: report(picked), top: best.iter().map(report).collect() }
}
