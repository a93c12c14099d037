//! DRY: a penalty that grows with the length of the repetition which a token would continue.
//!
//! A step is linear in the window (Z-algorithm on the reversed window). Breakers end a repetition: a match
//! never reaches back over one, and a token that is a breaker on its own is never penalized.

use super::dry_breakers::{DryBreakers, LastBreaker};
use super::history::History;
use super::params::DryParams;
use super::penalties::lowered;
use crate::heap::Vec;

/// Natural logarithm of the largest f32: bounds the exponent so that the penalty stays finite.
const LN_F32_MAX: f32 = 88.722_84;

/// Applies the penalty to every token that would continue a repetition of the window's end.
///
/// `matches` has room for the window; `longest` has one entry a token, all zero before and after.
pub(super) fn apply(
    params: &DryParams,
    breakers: Option<(&DryBreakers<'_>, &mut LastBreaker)>,
    history: &History<'_>,
    logits: &mut [f32],
    matches: &mut Vec<'_, u32>,
    longest: &mut [u32],
) {
    if !params.active() {
        return;
    }
    let window = history.len().min(params.last_n as usize);
    if window <= params.allowed_length as usize {
        return;
    }
    let (breakers, last) = breakers.unzip();
    let limit = match (breakers, last) {
        (Some(breakers), Some(last)) => breakers.distance(history, window, last),
        _ => window,
    };
    if limit < params.allowed_length as usize {
        return;
    }
    suffix_matches(history, window, matches);

    // matches[k] tokens before index k equal the window's end; the token after them would continue it
    for back in 1..window {
        let len = matches[back].min(u32::try_from(limit).unwrap_or(u32::MAX));
        let token = history.latest(back - 1);
        let entry = &mut longest[token.0 as usize];
        // stored one higher, so that zero means untouched
        if len >= params.allowed_length {
            *entry = (*entry).max(len.saturating_add(1));
        }
    }
    for back in 1..window {
        let token = history.latest(back - 1);
        let len = core::mem::take(&mut longest[token.0 as usize]);
        if len == 0 || breakers.is_some_and(|breakers| breakers.is_breaker(token)) {
            continue;
        }
        let logit = &mut logits[token.0 as usize];
        *logit = lowered(*logit, penalty(params, len - 1));
    }
}

fn penalty(params: &DryParams, len: u32) -> f32 {
    let exponent = len - params.allowed_length;
    let bound =
        if params.base > 1.000_001 { (LN_F32_MAX / libm::logf(params.base)) as u32 } else { u32::MAX };
    params.multiplier * libm::powf(params.base, exponent.min(bound) as f32)
}

/// For each index `k` of the reversed window, the number of tokens from there on that equal the window's latest ones.
fn suffix_matches(history: &History<'_>, window: usize, matches: &mut Vec<'_, u32>) {
    let at = |index: usize| history.latest(index);
    matches.clear();
    matches.resize(window, 0);
    // [left, right) is the match with the greatest end
    let (mut left, mut right) = (0, 0);
    for k in 1..window {
        let mut len = 0;
        if k < right {
            len = (matches[k - left] as usize).min(right - k);
        }
        while k + len < window && at(len) == at(k + len) {
            len += 1;
        }
        if k + len > right {
            (left, right) = (k, k + len);
        }
        // a window is at most the context length, which is a u32
        matches[k] = u32::try_from(len).unwrap_or(u32::MAX);
    }
}
