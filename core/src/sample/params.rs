//! The parameters of sampling: a plain struct with its defaults and legal ranges.

use crate::token::TokenId;
use core::fmt;

/// Sampling parameters of a request. The defaults are those of llama.cpp's command-line programs.
#[derive(Clone, Debug, PartialEq)]
pub struct SamplerParams {
    /// Seed of the random numbers; hosts turn "random" into a number. Default 0.
    pub seed: u64,
    /// The generator of random numbers. Default [`Generator::Counter`].
    pub generator: Generator,
    /// Divides the logits; 0 picks the likeliest token (greedy). Default 0.8.
    pub temperature: f32,
    /// Half the width of the temperature range that follows the entropy; 0 is off. Default 0.
    pub dynatemp_range: f32,
    /// Exponent of the normalized entropy in that range. Default 1.
    pub dynatemp_exponent: f32,
    /// Keeps this many of the likeliest tokens; 0 is off. Default 40.
    pub top_k: u32,
    /// Keeps the likeliest tokens that together reach this probability; 1 is off. Default 0.95.
    pub top_p: f32,
    /// Keeps tokens at least this fraction as likely as the likeliest; 0 is off. Default 0.05.
    pub min_p: f32,
    /// Keeps tokens whose surprise is closest to the entropy, up to this probability; 1 is off. Default 1.
    pub typical_p: f32,
    /// Keeps tokens within this many standard deviations of the highest logit; 0 is off. Default 0.
    pub top_n_sigma: f32,
    /// Tokens that typical, top-p, min-p and XTC leave at least. Default 0.
    pub min_keep: u32,
    /// Penalties on tokens seen before.
    pub penalties: PenaltyParams,
    /// The penalty on continuing a repeated sequence.
    pub dry: DryParams,
    /// Exclusion of the likeliest tokens.
    pub xtc: XtcParams,
    /// Control of the surprise by feedback, in place of penalties and truncation.
    pub mirostat: MirostatParams,
    /// Control of the probability of the picked tokens by feedback.
    pub adaptive: AdaptiveParams,
    /// Also report the log-probability of the token and of this many likeliest ones, at most
    /// [`TOP_MAX`](super::TOP_MAX); `None` reports nothing. Default `None`.
    pub logprobs: Option<u8>,
    /// True to report about the candidates that the token was drawn from, after all stages, instead of the
    /// logits as the model made them. Default `false`.
    pub post_sampling: bool,
}

/// The generator of random numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Generator {
    /// Philox: a draw depends on seed, request and position only, not on what was drawn before.
    #[default]
    Counter,
    /// MT19937, seeded with the low half of the seed and used as in llama.cpp, to compare picks with it. A draw
    /// depends on how many there were before. Candidates have llama.cpp's order while top-k or top-p is on.
    Mt19937,
}

/// Penalties over a window of the last tokens, prompt included.
#[derive(Clone, Debug, PartialEq)]
pub struct PenaltyParams {
    /// Length of the window in tokens; `u32::MAX` is the whole context, 0 is off. Default 64.
    pub last_n: u32,
    /// Divides positive logits of seen tokens and multiplies negative ones; 1 is off. Default 1.
    pub repeat: f32,
    /// Subtracted once for each time the token was seen; 0 is off. Default 0.
    pub frequency: f32,
    /// Subtracted once if the token was seen; 0 is off. Default 0.
    pub presence: f32,
}

/// "Don't repeat yourself": penalizes a token by the length of the repetition that it would continue.
#[derive(Clone, Debug, PartialEq)]
pub struct DryParams {
    /// Factor of the penalty `multiplier * base ^ (length - allowed_length)`; 0 is off. Default 0.
    pub multiplier: f32,
    /// Base of the penalty; below 1 is off. Default 1.75.
    pub base: f32,
    /// Repetitions shorter than this many tokens cost nothing. Default 2.
    pub allowed_length: u32,
    /// Length of the window in tokens; `u32::MAX` is the whole context, 0 is off. Default `u32::MAX`.
    pub last_n: u32,
}

/// "Exclude top choices": with some probability drops all sufficiently likely tokens but the least likely.
#[derive(Clone, Debug, PartialEq)]
pub struct XtcParams {
    /// Probability that a step is affected; 0 is off. Default 0.
    pub probability: f32,
    /// Least probability of a top choice; above 0.5 is off. Default 0.1.
    pub threshold: f32,
}

/// Mirostat (Basu et al. 2020): holds the surprise of the picked tokens near a target.
#[derive(Clone, Debug, PartialEq)]
pub struct MirostatParams {
    /// The version. Default [`MirostatVersion::Off`].
    pub version: MirostatVersion,
    /// The target surprise in bits. Default 5.
    pub tau: f32,
    /// The learning rate. Default 0.1.
    pub eta: f32,
}

/// The two published versions of mirostat.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MirostatVersion {
    /// No mirostat.
    #[default]
    Off,
    /// Estimates the slope of the distribution and keeps a computed number of tokens.
    V1,
    /// Keeps the tokens whose surprise is below the controlled bound.
    V2,
}

/// Adaptive-p: favors tokens whose probability is near a target that follows the past picks.
#[derive(Clone, Debug, PartialEq)]
pub struct AdaptiveParams {
    /// The target probability; negative is off. Default -1.
    pub target: f32,
    /// Decay of the average over past picks. Default 0.9.
    pub decay: f32,
}

impl Default for SamplerParams {
    fn default() -> Self {
        Self {
            seed: 0,
            generator: Generator::Counter,
            temperature: 0.8,
            dynatemp_range: 0.0,
            dynatemp_exponent: 1.0,
            top_k: 40,
            top_p: 0.95,
            min_p: 0.05,
            typical_p: 1.0,
            top_n_sigma: 0.0,
            min_keep: 0,
            penalties: PenaltyParams { last_n: 64, repeat: 1.0, frequency: 0.0, presence: 0.0 },
            dry: DryParams { multiplier: 0.0, base: 1.75, allowed_length: 2, last_n: u32::MAX },
            xtc: XtcParams { probability: 0.0, threshold: 0.1 },
            mirostat: MirostatParams { version: MirostatVersion::Off, tau: 5.0, eta: 0.1 },
            adaptive: AdaptiveParams { target: -1.0, decay: 0.9 },
            logprobs: None,
            post_sampling: false,
        }
    }
}

/// Added to the logit of one token; minus infinity bans it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LogitBias {
    /// The token.
    pub token: TokenId,
    /// Added to the logit.
    pub bias: f32,
}

/// A parameter is outside its legal range.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct ParamError {
    /// The parameter's name as requests spell it.
    pub field: &'static str,
    /// The value found.
    pub value: f64,
    /// The smallest legal value.
    pub low: f64,
    /// The largest legal value.
    pub high: f64,
}

impl fmt::Display for ParamError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is {}; it must be from {} to {}", self.field, self.value, self.low, self.high)
    }
}

impl core::error::Error for ParamError {}

/// One row of the table of legal ranges.
struct Range {
    field: &'static str,
    value: fn(&SamplerParams) -> f64,
    low: f64,
    high: f64,
}

/// Bounds that keep all arithmetic finite, wider than any known use.
const RANGES: [Range; 18] = [
    Range { field: "temperature", value: |p| p.temperature.into(), low: 0.0, high: 1000.0 },
    Range { field: "dynatemp_range", value: |p| p.dynatemp_range.into(), low: 0.0, high: 1000.0 },
    Range { field: "dynatemp_exponent", value: |p| p.dynatemp_exponent.into(), low: 0.0, high: 1000.0 },
    Range { field: "top_p", value: |p| p.top_p.into(), low: 0.0, high: 1.0 },
    Range { field: "min_p", value: |p| p.min_p.into(), low: 0.0, high: 1.0 },
    Range { field: "typical_p", value: |p| p.typical_p.into(), low: 0.0, high: 1.0 },
    Range { field: "top_n_sigma", value: |p| p.top_n_sigma.into(), low: 0.0, high: 1000.0 },
    Range { field: "repeat_penalty", value: |p| p.penalties.repeat.into(), low: 0.01, high: 100.0 },
    Range { field: "frequency_penalty", value: |p| p.penalties.frequency.into(), low: -100.0, high: 100.0 },
    Range { field: "presence_penalty", value: |p| p.penalties.presence.into(), low: -100.0, high: 100.0 },
    Range { field: "dry_multiplier", value: |p| p.dry.multiplier.into(), low: 0.0, high: 1000.0 },
    Range { field: "dry_base", value: |p| p.dry.base.into(), low: 0.0, high: 1000.0 },
    Range { field: "xtc_probability", value: |p| p.xtc.probability.into(), low: 0.0, high: 1.0 },
    Range { field: "xtc_threshold", value: |p| p.xtc.threshold.into(), low: 0.0, high: 1.0 },
    Range { field: "mirostat_tau", value: |p| p.mirostat.tau.into(), low: 0.0, high: 100.0 },
    Range { field: "mirostat_eta", value: |p| p.mirostat.eta.into(), low: 0.0, high: 1.0 },
    Range { field: "adaptive_target", value: |p| p.adaptive.target.into(), low: -1.0, high: 1.0 },
    Range { field: "adaptive_decay", value: |p| p.adaptive.decay.into(), low: 0.0, high: 0.99 },
];

impl SamplerParams {
    /// Parameters that always pick the likeliest token and change no logit.
    #[must_use]
    pub fn greedy() -> Self {
        Self { temperature: 0.0, top_k: 0, top_p: 1.0, min_p: 0.0, ..Self::default() }
    }

    /// Checks every field against its legal range; NaN is outside each of them.
    ///
    /// # Errors
    ///
    /// The first field outside its range.
    pub fn validate(&self) -> Result<(), ParamError> {
        let top = f64::from(self.logprobs.unwrap_or(0));
        let high = super::TOP_MAX as f64;
        if top > high {
            return Err(ParamError { field: "logprobs", value: top, low: 0.0, high });
        }
        for range in &RANGES {
            // the bounds are decimal, so the comparison happens at the field's own precision
            let value = (range.value)(self);
            if !(range.low as f32..=range.high as f32).contains(&(value as f32)) {
                return Err(ParamError { field: range.field, value, low: range.low, high: range.high });
            }
        }
        Ok(())
    }
}

impl PenaltyParams {
    /// True if the penalties can change a logit.
    #[must_use]
    pub fn active(&self) -> bool {
        self.last_n > 0 && (self.repeat != 1.0 || self.frequency != 0.0 || self.presence != 0.0)
    }
}

impl DryParams {
    /// True if the penalty can change a logit.
    #[must_use]
    pub fn active(&self) -> bool {
        self.multiplier > 0.0 && self.base >= 1.0 && self.last_n > 0
    }
}
