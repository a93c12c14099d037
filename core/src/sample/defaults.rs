//! The sampling parameters that a model file recommends: its keys `general.sampling.*`.

use super::params::{MirostatVersion, SamplerParams};
use crate::gguf::{Gguf, KeyError};

/// Sets a field to a file's value.
enum Setter {
    Fraction(fn(&mut SamplerParams, f32)),
    Count(fn(&mut SamplerParams, u32)),
}

/// The keys of llama.cpp's converter (2026) that name a parameter; `sequence`, an order of stages, is not followed.
const KEYS: [(&str, Setter); 11] = [
    ("general.sampling.top_k", Setter::Count(|params, value| params.top_k = off_if_all(value))),
    ("general.sampling.top_p", Setter::Fraction(|params, value| params.top_p = value)),
    ("general.sampling.min_p", Setter::Fraction(|params, value| params.min_p = value)),
    ("general.sampling.temp", Setter::Fraction(|params, value| params.temperature = value)),
    ("general.sampling.xtc_probability", Setter::Fraction(|params, value| params.xtc.probability = value)),
    ("general.sampling.xtc_threshold", Setter::Fraction(|params, value| params.xtc.threshold = value)),
    ("general.sampling.penalty_last_n", Setter::Count(|params, value| params.penalties.last_n = value)),
    ("general.sampling.penalty_repeat", Setter::Fraction(|params, value| params.penalties.repeat = value)),
    ("general.sampling.mirostat", Setter::Count(|params, value| params.mirostat.version = version(value))),
    ("general.sampling.mirostat_tau", Setter::Fraction(|params, value| params.mirostat.tau = value)),
    ("general.sampling.mirostat_eta", Setter::Fraction(|params, value| params.mirostat.eta = value)),
];

/// A stage that keeps all tokens is switched off, which saves a sort.
fn off_if_all(count: u32) -> u32 {
    if count == u32::MAX { 0 } else { count }
}

fn version(number: u32) -> MirostatVersion {
    match number {
        1 => MirostatVersion::V1,
        2 => MirostatVersion::V2,
        _ => MirostatVersion::Off,
    }
}

impl SamplerParams {
    /// The defaults, overridden by the recommendations of the file. Not yet checked against the legal ranges.
    ///
    /// # Errors
    ///
    /// A key of the wrong type.
    pub fn of_model(gguf: &Gguf<'_>) -> Result<Self, KeyError> {
        let mut params = Self::default();
        for (key, setter) in &KEYS {
            match setter {
                Setter::Fraction(set) => {
                    if let Some(value) = gguf.find::<f32>(key)? {
                        set(&mut params, value);
                    }
                }
                // -1, "the whole context" or "off", has no unsigned form
                Setter::Count(set) => {
                    if let Some(value) = gguf.find::<i64>(key)? {
                        set(&mut params, u32::try_from(value).unwrap_or(u32::MAX));
                    }
                }
            }
        }
        Ok(params)
    }
}
