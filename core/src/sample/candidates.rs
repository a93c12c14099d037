//! The buffers of one sampling step: the adjusted logits and the remaining candidates.
//!
//! Reserved once for a vocabulary and shared by all requests, since tokens are picked one after another.

use super::error::SampleError;
use super::exp::exp;
use crate::heap::{self, Heap, OutOfMemory, Vec};
use crate::token::TokenId;
use core::cmp::Ordering;

/// A token that can still be picked.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Candidate {
    /// The token.
    pub token: TokenId,
    /// Its logit after the stages that have run; always finite.
    pub logit: f32,
    /// Its probability among the candidates, as of the last stage that needed probabilities.
    pub probability: f32,
}

/// Higher logit first, then lower id: a total order, since candidates are finite.
pub(super) fn likelier(a: &Candidate, b: &Candidate) -> Ordering {
    b.logit.partial_cmp(&a.logit).unwrap_or(Ordering::Equal).then(a.token.cmp(&b.token))
}

/// The highest of the logits, none of which is NaN.
fn highest(logits: &[f32]) -> f32 {
    // eight at a time, independent of each other
    let (blocks, rest) = logits.as_chunks::<8>();
    let mut lanes = [f32::NEG_INFINITY; 8];
    for block in blocks {
        for (lane, &logit) in lanes.iter_mut().zip(block) {
            *lane = if logit > *lane { logit } else { *lane };
        }
    }
    lanes.iter().chain(rest).fold(f32::NEG_INFINITY, |highest, &logit| highest.max(logit))
}

/// The buffers of one step, for one vocabulary.
pub struct Scratch<'a> {
    /// The logits after bias, mask and penalties, by token id.
    pub(super) logits: Vec<'a, f32>,
    /// `[vocabulary]`; all zero between uses.
    pub(super) counts: Vec<'a, u32>,
    /// The remaining candidates.
    pub(super) candidates: Vec<'a, Candidate>,
    /// This many leading candidates are in order, and none of the rest is likelier than they are.
    ordered: usize,
}

impl<'a> Scratch<'a> {
    /// Buffers for a vocabulary of `vocab_len` tokens: 20 bytes a token.
    ///
    /// # Errors
    ///
    /// The heap refused.
    pub fn new(vocab_len: usize, heap: Heap<'a>) -> Result<Self, OutOfMemory> {
        Ok(Self {
            logits: heap::filled(heap, vocab_len, 0.0)?,
            counts: heap::filled(heap, vocab_len, 0)?,
            candidates: heap::with_capacity(heap, vocab_len)?,
            ordered: 0,
        })
    }

    /// Bytes that the buffers for a vocabulary take.
    #[must_use]
    pub fn bytes(vocab_len: usize) -> usize {
        vocab_len.saturating_mul(size_of::<f32>() + size_of::<u32>() + size_of::<Candidate>())
    }

    /// The candidates that the last draw chose among, with their final probabilities.
    #[must_use]
    pub fn survivors(&self) -> &[Candidate] {
        &self.candidates
    }

    /// Copies the model's logits.
    pub(super) fn load(&mut self, logits: &[f32]) -> Result<(), SampleError> {
        if logits.len() != self.logits.len() {
            return Err(SampleError::VocabMismatch { expected: self.logits.len(), found: logits.len() });
        }
        self.candidates.clear();
        self.ordered = 0;
        self.logits.copy_from_slice(logits);
        let finite = logits.iter().fold(true, |finite, &logit| finite & (logit < f32::INFINITY));
        if !finite {
            let found = (0_u32..).zip(logits).find(|(_, logit)| logit.is_nan() || **logit == f32::INFINITY);
            if let Some((token, &logit)) = found {
                return Err(SampleError::NotFinite { token: TokenId(token), logit });
            }
        }
        if highest(logits) == f32::NEG_INFINITY { Err(SampleError::AllImpossible) } else { Ok(()) }
    }

    /// Makes candidates of the tokens whose logit is at least `floor`: the `limit` likeliest, or all if 0.
    ///
    /// One pass; with a limit the candidates never exceed a small multiple of it, and come out in order.
    pub(super) fn collect(&mut self, floor: f32, limit: usize) -> Result<(), SampleError> {
        let Self { logits, candidates, .. } = self;
        candidates.clear();
        let bound = if limit == 0 { usize::MAX } else { limit.saturating_mul(4).max(1024) };
        let floor = floor.max(f32::MIN);
        let mut beat = f32::NEG_INFINITY;
        for (token, &logit) in (0_u32..).zip(logits.iter()) {
            // a later token of equal logit has a higher id, so that it comes after the limit-th
            if logit >= floor && logit > beat {
                candidates.push(Candidate { token: TokenId(token), logit, probability: 0.0 });
                if candidates.len() >= bound {
                    candidates.select_nth_unstable_by(limit - 1, likelier);
                    candidates.truncate(limit);
                    beat = candidates[limit - 1].logit;
                }
            }
        }
        self.ordered = 0;
        if self.candidates.is_empty() {
            return Err(SampleError::AllForbidden);
        }
        if limit != 0 {
            self.keep_likeliest(limit);
        }
        Ok(())
    }

    /// Makes the likeliest token the only candidate.
    pub(super) fn collect_likeliest(&mut self) -> Result<(), SampleError> {
        let highest = highest(&self.logits);
        let first = (0_u32..).zip(self.logits.iter()).find(|(_, logit)| **logit == highest);
        let Some((token, &logit)) = first.filter(|_| highest > f32::NEG_INFINITY) else {
            return Err(SampleError::AllForbidden);
        };
        self.candidates.push(Candidate { token: TokenId(token), logit, probability: 1.0 });
        self.ordered = 1;
        Ok(())
    }

    /// Keeps the candidates whose logit is at least `floor`, in their order.
    pub(super) fn keep_above(&mut self, floor: f32) {
        let ordered = self.candidates[..self.ordered].iter().filter(|c| c.logit >= floor).count();
        self.candidates.retain(|candidate| candidate.logit >= floor);
        self.ordered = ordered;
    }

    /// Keeps the `count` likeliest candidates, in order.
    pub(super) fn keep_likeliest(&mut self, count: usize) {
        self.order(count);
        self.truncate(count);
    }

    /// Puts the `count` likeliest candidates first and in order, without sorting the rest.
    pub(super) fn order(&mut self, count: usize) {
        let count = count.min(self.candidates.len());
        if count <= self.ordered {
            return;
        }
        let missing = count - self.ordered;
        let rest = &mut self.candidates[self.ordered..];
        if missing < rest.len() {
            rest.select_nth_unstable_by(missing - 1, likelier);
        }
        rest[..missing].sort_unstable_by(likelier);
        self.ordered = count;
    }

    /// Drops all candidates from `len` on.
    pub(super) fn truncate(&mut self, len: usize) {
        self.candidates.truncate(len);
        self.ordered = self.ordered.min(self.candidates.len());
    }

    /// Drops the first `count` candidates, which must be in order.
    pub(super) fn drop_first(&mut self, count: usize) {
        self.candidates.drain(..count);
        self.ordered = self.ordered.saturating_sub(count);
    }

    /// Marks the candidates as unordered, after their logits or their order have changed.
    pub(super) fn disorder(&mut self) {
        self.ordered = 0;
    }

    /// The highest logit of the candidates.
    pub(super) fn highest(&self) -> f32 {
        if self.ordered > 0 {
            return self.candidates[0].logit;
        }
        self.candidates.iter().fold(f32::NEG_INFINITY, |highest, c| highest.max(c.logit))
    }

    /// Computes the probabilities of the candidates from their logits.
    pub(super) fn softmax(&mut self) {
        let highest = self.highest();
        let mut sum = 0.0_f64;
        for candidate in &mut self.candidates {
            candidate.probability = exp(candidate.logit - highest);
            sum += f64::from(candidate.probability);
        }
        for candidate in &mut self.candidates {
            candidate.probability = (f64::from(candidate.probability) / sum) as f32;
        }
    }
}
