//! The sampler of one request: its parameters, its history of tokens, and the order of the stages.

use super::candidates::Scratch;
use super::draw::{self, Adaptive, Mirostat};
use super::dry;
use super::dry_breakers::{DryBreakers, LastBreaker};
use super::error::{SampleError, SamplerError};
use super::history::History;
use super::logprobs::{self, LogProbs};
use super::mask::TokenMask;
use super::params::{LogitBias, MirostatVersion, SamplerParams};
use super::source::Source;
use super::{entropy, penalties, truncate};
use crate::heap::{self, Heap, Vec};
use crate::token::TokenId;

/// Facts that a sampler needs beside the request's parameters.
#[derive(Clone, Copy, Debug)]
pub struct SamplerScope<'b> {
    /// Distinguishes requests that share a seed.
    pub request: u64,
    /// Tokens in the vocabulary.
    pub vocab_len: usize,
    /// Tokens that a sequence can hold at most; bounds the windows of the penalties.
    pub context_len: usize,
    /// Token sequences that end a repetition, for DRY; copied if DRY is on.
    pub breakers: Option<&'b DryBreakers<'b>>,
}

/// Picks the tokens of one request.
///
/// Everything it needs is reserved when it's made; a step allocates nothing.
pub struct Sampler<'a> {
    params: SamplerParams,
    vocab_len: usize,
    breakers: Option<DryBreakers<'a>>,
    last_breaker: LastBreaker,
    source: Source<'a>,
    bias: Vec<'a, LogitBias>,
    history: History<'a>,
    matches: Vec<'a, u32>,
    mirostat: Mirostat,
    adaptive: Adaptive,
}

/// One picked token.
#[derive(Clone, Debug, PartialEq)]
pub struct Sampled {
    /// The token.
    pub token: TokenId,
    /// Its probability among the candidates it was drawn from, after all stages.
    pub probability: f32,
    /// The report that [`SamplerParams::logprobs`] asked for.
    pub logprobs: Option<LogProbs>,
}

impl<'a> Sampler<'a> {
    /// Checks the parameters and reserves the windows.
    ///
    /// # Errors
    ///
    /// A parameter out of its range, a bias for an unknown token or of an illegal value, or the heap refused.
    pub fn new(
        params: &SamplerParams,
        bias: &[LogitBias],
        scope: SamplerScope<'_>,
        heap: Heap<'a>,
    ) -> Result<Self, SamplerError> {
        params.validate()?;
        for &LogitBias { token, bias } in bias {
            if token.0 as usize >= scope.vocab_len {
                return Err(SamplerError::BiasToken { token, vocab_len: scope.vocab_len });
            }
            if bias.is_nan() || bias == f32::INFINITY {
                return Err(SamplerError::BiasValue { token, bias });
            }
        }
        let [window, dry_window] = windows(params, scope.context_len);
        let breakers = scope.breakers.filter(|_| dry_window > 0);
        Ok(Self {
            bias: heap::copied(heap, bias)?,
            history: History::new(window, heap)?,
            matches: heap::with_capacity(heap, dry_window)?,
            breakers: breakers.map(|breakers| breakers.copied(heap)).transpose()?,
            last_breaker: LastBreaker::default(),
            source: Source::new(params, scope.request, heap)?,
            mirostat: Mirostat::new(&params.mirostat),
            adaptive: Adaptive::new(&params.adaptive),
            params: params.clone(),
            vocab_len: scope.vocab_len,
        })
    }

    /// Bytes of heap that a sampler takes, without biases and breakers.
    #[must_use]
    pub fn bytes(params: &SamplerParams, context_len: usize) -> usize {
        let [window, dry_window] = windows(params, context_len);
        let windows = window.saturating_mul(size_of::<TokenId>());
        let matches = dry_window.saturating_mul(size_of::<u32>());
        windows.saturating_add(matches).saturating_add(Source::bytes(params.generator))
    }

    /// True if every pick is the token of the largest logit, the lowest id on ties, and nothing else is reported.
    #[must_use]
    pub fn is_greedy(&self) -> bool {
        let params = &self.params;
        let plain = self.bias.is_empty() && params.logprobs.is_none() && takes_likeliest(params);
        let remembers = params.penalties.active() || params.dry.active();
        let adapts = self.mirostat_on() || params.adaptive.target >= 0.0;
        plain && !(remembers || adapts)
    }

    /// Adds a token of the sequence, prompt or picked, to the history; an unknown id is ignored.
    pub fn accept(&mut self, token: TokenId) {
        if (token.0 as usize) < self.vocab_len {
            self.history.push(token);
        }
    }

    /// Picks the token at `position` of the sequence from the model's logits, `[vocabulary]`.
    ///
    /// The pick depends only on the logits, the mask, the accepted tokens and the key (seed, request, position).
    /// Bounded work: a few passes over the vocabulary, and a sort of the candidates kept.
    ///
    /// # Errors
    ///
    /// Logits that aren't one row of the vocabulary or hold NaN or plus infinity, or no token left.
    pub fn sample(
        &mut self,
        logits: &[f32],
        position: u32,
        mask: Option<TokenMask<'_>>,
        scratch: &mut Scratch<'_>,
    ) -> Result<Sampled, SampleError> {
        if logits.len() != self.vocab_len {
            return Err(SampleError::VocabMismatch { expected: self.vocab_len, found: logits.len() });
        }
        scratch.load(logits)?;
        self.adjust(mask, scratch);
        self.truncate(position, scratch)?;
        let picked = self.pick(position, scratch);
        let report = |count: u8| {
            if self.params.post_sampling {
                logprobs::of_candidates(scratch.survivors(), &picked, count.into())
            } else {
                logprobs::log_probs(logits, picked.token, count.into())
            }
        };
        let logprobs = self.params.logprobs.map(report);
        Ok(Sampled { token: picked.token, probability: picked.probability, logprobs })
    }

    fn mirostat_on(&self) -> bool {
        self.params.mirostat.version != MirostatVersion::Off
    }

    /// The stages that change logits in place: bias, mask, penalties.
    fn adjust(&mut self, mask: Option<TokenMask<'_>>, scratch: &mut Scratch<'_>) {
        for &LogitBias { token, bias } in &self.bias {
            let logit = &mut scratch.logits[token.0 as usize];
            *logit = (*logit + bias).min(f32::MAX);
        }
        if let Some(mask) = mask {
            mask.apply(&mut scratch.logits);
        }
        if self.mirostat_on() {
            return;
        }
        let (params, history) = (&self.params, &self.history);
        penalties::apply(&params.penalties, history, &mut scratch.logits, &mut scratch.counts);
        let breakers = self.breakers.as_ref().map(|breakers| (breakers, &mut self.last_breaker));
        let matches = &mut self.matches;
        dry::apply(&params.dry, breakers, history, &mut scratch.logits, matches, &mut scratch.counts);
    }

    /// The stages that drop tokens.
    fn truncate(&mut self, position: u32, scratch: &mut Scratch<'_>) -> Result<(), SampleError> {
        let params = &self.params;
        if self.mirostat_on() {
            return scratch.collect(f32::NEG_INFINITY, 0);
        }
        if takes_likeliest(params) {
            return scratch.collect_likeliest();
        }
        let min_keep = params.min_keep as usize;
        let floor = truncate::sigma_floor(&scratch.logits, params.top_n_sigma);
        scratch.collect(floor, params.top_k as usize)?;
        entropy::typical(scratch, params.typical_p, min_keep);
        truncate::top_p(scratch, params.top_p, min_keep);
        truncate::min_p(scratch, params.min_p, min_keep);
        if params.xtc.probability > 0.0 {
            let source = &mut self.source;
            truncate::exclude_top_choices(scratch, &params.xtc, min_keep, || source.xtc(position));
        }
        Ok(())
    }

    /// The temperature and the draw.
    fn pick(&mut self, position: u32, scratch: &mut Scratch<'_>) -> super::Candidate {
        let Self { params, source, .. } = self;
        let mut chance = || source.token(position);
        entropy::temperature(scratch, params.temperature, params.dynatemp_range, params.dynatemp_exponent);
        if params.mirostat.version != MirostatVersion::Off {
            self.mirostat.draw(&params.mirostat, scratch, self.vocab_len, chance)
        } else if params.adaptive.target >= 0.0 {
            self.adaptive.draw(&params.adaptive, scratch, chance)
        } else {
            draw::plain(scratch, chance())
        }
    }
}

/// True if the likeliest candidate is always picked, whatever stages are on.
fn takes_likeliest(params: &SamplerParams) -> bool {
    params.temperature <= 0.0
}

/// Lengths of the history, and of the part of it that DRY uses, in tokens.
fn windows(params: &SamplerParams, context_len: usize) -> [usize; 2] {
    let within = |active: bool, last_n: u32| if active { context_len.min(last_n as usize) } else { 0 };
    let dry = within(params.dry.active(), params.dry.last_n);
    [within(params.penalties.active(), params.penalties.last_n).max(dry), dry]
}
