//! The sampling flags, over the model's own defaults, over ours.

use crate::failure::{Failure, Kind};
use core::hash::BuildHasher as _;
use doorbell_core::gguf::Gguf;
use doorbell_core::sample::{LogitBias, SamplerParams};
use doorbell_core::token::Tokenizer;

/// How tokens are picked. What isn't given comes from the file (`general.sampling.*`), else is the default.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Sampling {
    /// Temperature; 0 always takes the likeliest token [default: 0.8]
    #[arg(long, value_name = "T")]
    temp: Option<f32>,
    /// Keep the K likeliest tokens; 0 is off [default: 40]
    #[arg(long, value_name = "K")]
    top_k: Option<u32>,
    /// Keep the likeliest tokens up to this probability; 1 is off [default: 0.95]
    #[arg(long, value_name = "P")]
    top_p: Option<f32>,
    /// Keep tokens at least this fraction as likely as the likeliest; 0 is off [default: 0.05]
    #[arg(long, value_name = "M")]
    min_p: Option<f32>,
    /// Seed of the random numbers [default: random]
    #[arg(long, value_name = "S")]
    seed: Option<u64>,
}

impl Sampling {
    /// The parameters for a model, checked.
    pub(crate) fn params(&self, gguf: &Gguf<'_>) -> Result<SamplerParams, Failure> {
        let mut params = SamplerParams::of_model(gguf)
            .map_err(|error| Failure::new(Kind::Model, format_args!("metadata: {error}")))?;
        let Self { temp, top_k, top_p, min_p, seed } = self;
        params.temperature = temp.unwrap_or(params.temperature);
        params.top_k = top_k.unwrap_or(params.top_k);
        params.top_p = top_p.unwrap_or(params.top_p);
        params.min_p = min_p.unwrap_or(params.min_p);
        params.seed = seed.unwrap_or_else(random_seed);
        params.validate().map_err(|error| Failure::new(Kind::Input, error))?;
        Ok(params)
    }
}

/// A seed that differs from run to run: the standard library's hash keys come from the system.
fn random_seed() -> u64 {
    // below 2^53, so that it survives JSON readers that know only doubles
    std::hash::RandomState::new().hash_one(0) >> 11
}

/// The tokens that the file says must never be picked.
pub(crate) fn suppressed(tokenizer: &Tokenizer<'_>) -> Vec<LogitBias> {
    let ban = |&token| LogitBias { token, bias: f32::NEG_INFINITY };
    tokenizer.suppressed().iter().map(ban).collect()
}
