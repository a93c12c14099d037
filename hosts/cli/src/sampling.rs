//! The sampling flags. They override the defaults in the model file, which override the program's.

use crate::failure::{Failure, Kind};
use crate::generate::Params;
use crate::habits::Seed;
use crate::loaded::HEAP;
use core::hash::BuildHasher as _;
use doorbell_core::gguf::Gguf;
use doorbell_core::sample::{DryBreakers, Generator, LogitBias, MirostatVersion, SamplerParams};
use doorbell_core::token::Tokenizer;

/// How tokens are sampled. A flag that is not given has its value from the file (`general.sampling.*`), or the default.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Sampling {
    /// Temperature; 0 always takes the most likely token [default: 0.8]
    #[arg(long, alias = "temperature", value_name = "T")]
    temp: Option<f32>,
    /// Keep the K most likely tokens; 0 is off [default: 40]
    #[arg(long, value_name = "K")]
    top_k: Option<u32>,
    /// Keep the most likely tokens up to this total probability; 1 is off [default: 0.95]
    #[arg(long, value_name = "P")]
    top_p: Option<f32>,
    /// Keep tokens at least this fraction as likely as the most likely one; 0 is off [default: 0.05]
    #[arg(long, value_name = "M")]
    min_p: Option<f32>,
    /// Seed of the random numbers; -1 is a random one [default: random]
    #[arg(long, value_name = "S")]
    seed: Option<Seed>,
    #[command(flatten)]
    more: More,
}

/// Flags that only the long help lists, named as in llama.cpp.
#[derive(Clone, Debug, clap::Args)]
struct More {
    /// Keep tokens of typical information content up to this total probability; 1 is off [default: 1]
    #[arg(long, value_name = "P", hide_short_help = true)]
    typical: Option<f32>,
    /// Keep tokens within N standard deviations of the highest logit; 0 is off [default: 0]
    #[arg(long, value_name = "N", hide_short_help = true)]
    top_nsigma: Option<f32>,
    /// Probability of removing all tokens above the XTC threshold but the least likely of them; 0 is off [default: 0]
    #[arg(long, value_name = "P", hide_short_help = true)]
    xtc_probability: Option<f32>,
    /// Probability from which XTC removes a token; above 0.5 is off [default: 0.1]
    #[arg(long, value_name = "P", hide_short_help = true)]
    xtc_threshold: Option<f32>,
    /// Half the width of a temperature range that follows the entropy; 0 is off [default: 0]
    #[arg(long, value_name = "R", hide_short_help = true)]
    dynatemp_range: Option<f32>,
    /// Exponent of the entropy in that range [default: 1]
    #[arg(long, value_name = "E", hide_short_help = true)]
    dynatemp_exp: Option<f32>,
    /// Number of last tokens that penalties apply to; 0 is off [default: 64]
    #[arg(long, value_name = "N", hide_short_help = true)]
    repeat_last_n: Option<u32>,
    /// Divide the logits of tokens seen before; 1 is off [default: 1]
    #[arg(long, value_name = "F", hide_short_help = true)]
    repeat_penalty: Option<f32>,
    /// Subtract this once from the logits of tokens seen before; 0 is off [default: 0]
    #[arg(long, value_name = "A", hide_short_help = true)]
    presence_penalty: Option<f32>,
    /// Subtract this for each time that a token was seen before; 0 is off [default: 0]
    #[arg(long, value_name = "A", hide_short_help = true)]
    frequency_penalty: Option<f32>,
    /// Factor of the penalty on continuing a repeated sequence (DRY); 0 is off [default: 0]
    #[arg(long, value_name = "F", hide_short_help = true)]
    dry_multiplier: Option<f32>,
    /// Base of that penalty, which grows with the sequence's length [default: 1.75]
    #[arg(long, value_name = "B", hide_short_help = true)]
    dry_base: Option<f32>,
    /// Length from which a repeated sequence is penalized [default: 2]
    #[arg(long, value_name = "N", hide_short_help = true)]
    dry_allowed_length: Option<u32>,
    /// Number of last tokens that DRY searches [default: the whole context]
    #[arg(long, value_name = "N", hide_short_help = true)]
    dry_penalty_last_n: Option<u32>,
    /// A text that ends a sequence for DRY, instead of line break, colon, quotation mark and asterisk; can be
    /// given several times; "none" disables them
    #[arg(long, value_name = "TEXT", hide_short_help = true, allow_hyphen_values = true)]
    dry_sequence_breaker: Vec<String>,
    /// Version of mirostat: 1, 2, or 0 for none [default: 0]
    #[arg(long, value_name = "V", hide_short_help = true, value_parser = clap::value_parser!(u8).range(0..=2))]
    mirostat: Option<u8>,
    /// Target entropy of mirostat, in bits [default: 5]
    #[arg(long, value_name = "TAU", hide_short_help = true)]
    mirostat_ent: Option<f32>,
    /// Learning rate of mirostat [default: 0.1]
    #[arg(long, value_name = "ETA", hide_short_help = true)]
    mirostat_lr: Option<f32>,
    /// Target probability of adaptive-p; below 0 is off [default: -1]
    #[arg(long, value_name = "P", hide_short_help = true)]
    adaptive_target: Option<f32>,
    /// Decay of adaptive-p's average over past picks [default: 0.9]
    #[arg(long, value_name = "D", hide_short_help = true)]
    adaptive_decay: Option<f32>,
    /// Random numbers: by seed and position, or in sequence as llama.cpp draws them [default: counter]
    #[arg(long, value_name = "RNG", hide_short_help = true)]
    rng: Option<Rng>,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Rng {
    Counter,
    Mt19937,
}

impl Sampling {
    /// The parameters of a generation for a model, checked.
    pub(crate) fn generation_params(
        &self,
        gguf: &Gguf<'_>,
        tokenizer: &Tokenizer<'_>,
        max_tokens: Option<u32>,
    ) -> Result<Params, Failure> {
        let sampler = self.params(gguf)?;
        Ok(Params {
            max_tokens: max_tokens.unwrap_or(u32::MAX),
            bias: suppressed(tokenizer),
            dry_breakers: self.breakers(&sampler, tokenizer)?,
            sampler,
            ..Params::default()
        })
    }

    /// The sampler's parameters for a model, checked.
    pub(crate) fn params(&self, gguf: &Gguf<'_>) -> Result<SamplerParams, Failure> {
        let mut params = SamplerParams::of_model(gguf)
            .map_err(|error| Failure::new(Kind::Model, format_args!("metadata: {error}")))?;
        let Self { temp, top_k, top_p, min_p, seed, more } = self;
        set(&mut params.temperature, *temp);
        set(&mut params.top_k, *top_k);
        set(&mut params.top_p, *top_p);
        set(&mut params.min_p, *min_p);
        params.seed = seed.and_then(|Seed(seed)| seed).unwrap_or_else(random_seed);
        more.apply(&mut params);
        params.validate().map_err(|error| Failure::new(Kind::Input, error))?;
        Ok(params)
    }

    /// The seed, if one was given.
    pub(crate) fn seed(&self) -> Option<u64> {
        self.seed.and_then(|Seed(seed)| seed)
    }

    /// The DRY sequence breakers; `None` if DRY is off.
    pub(crate) fn breakers(
        &self,
        params: &SamplerParams,
        tokenizer: &Tokenizer<'_>,
    ) -> Result<Option<DryBreakers<'static>>, Failure> {
        if !params.dry.active() {
            return Ok(None);
        }
        let given = &self.more.dry_sequence_breaker;
        let breakers = if given.is_empty() {
            DryBreakers::of_texts(DryBreakers::DEFAULT, tokenizer, HEAP)
        } else {
            DryBreakers::of_texts(given.iter().filter(|text| *text != "none"), tokenizer, HEAP)
        };
        breakers.map(Some).map_err(|error| Failure::new(Kind::Input, error))
    }
}

impl More {
    fn apply(&self, params: &mut SamplerParams) {
        set(&mut params.typical_p, self.typical);
        set(&mut params.top_n_sigma, self.top_nsigma);
        set(&mut params.xtc.probability, self.xtc_probability);
        set(&mut params.xtc.threshold, self.xtc_threshold);
        set(&mut params.dynatemp_range, self.dynatemp_range);
        set(&mut params.dynatemp_exponent, self.dynatemp_exp);
        set(&mut params.penalties.last_n, self.repeat_last_n);
        set(&mut params.penalties.repeat, self.repeat_penalty);
        set(&mut params.penalties.presence, self.presence_penalty);
        set(&mut params.penalties.frequency, self.frequency_penalty);
        set(&mut params.dry.multiplier, self.dry_multiplier);
        set(&mut params.dry.base, self.dry_base);
        set(&mut params.dry.allowed_length, self.dry_allowed_length);
        set(&mut params.dry.last_n, self.dry_penalty_last_n);
        set(&mut params.mirostat.tau, self.mirostat_ent);
        set(&mut params.mirostat.eta, self.mirostat_lr);
        set(&mut params.adaptive.target, self.adaptive_target);
        set(&mut params.adaptive.decay, self.adaptive_decay);
        let version = self.mirostat.map(|version| match version {
            1 => MirostatVersion::V1,
            2 => MirostatVersion::V2,
            _ => MirostatVersion::Off,
        });
        set(&mut params.mirostat.version, version);
        params.generator = match self.rng {
            None | Some(Rng::Counter) => Generator::Counter,
            Some(Rng::Mt19937) => Generator::Mt19937,
        };
    }
}

fn set<T>(param: &mut T, value: Option<T>) {
    if let Some(value) = value {
        *param = value;
    }
}

/// A seed that differs from run to run: the standard library's hash keys come from the system.
fn random_seed() -> u64 {
    // below 2^53, so that JSON readers with only doubles keep it exact
    std::hash::RandomState::new().hash_one(0) >> 11
}

/// Biases for the tokens that the file forbids.
fn suppressed(tokenizer: &Tokenizer<'_>) -> Vec<LogitBias> {
    let ban = |&token| LogitBias { token, bias: f32::NEG_INFINITY };
    tokenizer.suppressed().iter().map(ban).collect()
}
