//! The fields of generation options, which all APIs share or translate to.

use crate::app::{App, HEAP};
use crate::error::{Failure, quoted};
use crate::fields::Fields;
use crate::generation::{GenerationOptions, MAX_ANSWERS, stops};
use alloc::sync::Arc;
use doorbell_core::sample::{DryBreakers, LogitBias, MirostatVersion, SamplerParams};
use doorbell_core::token::{EncodeOptions, TokenId};
use doorbell_runtime::constrain::GrammarSpec;
use doorbell_runtime::serve::GenerationParams;
use serde_json::Value;

/// A field with a number, and the setter of its parameter.
type Number = (&'static str, fn(&mut SamplerParams, f32));
/// A field with a count, and the setter of its parameter.
type Count = (&'static str, fn(&mut SamplerParams, u32));

const NUMBERS: [Number; 18] = [
    ("temperature", |params, value| params.temperature = value),
    ("top_p", |params, value| params.top_p = value),
    ("min_p", |params, value| params.min_p = value),
    ("typical_p", |params, value| params.typical_p = value),
    ("top_n_sigma", |params, value| params.top_n_sigma = value.max(0.0)),
    ("dynatemp_range", |params, value| params.dynatemp_range = value),
    ("dynatemp_exponent", |params, value| params.dynatemp_exponent = value),
    ("repeat_penalty", |params, value| params.penalties.repeat = value),
    ("repetition_penalty", |params, value| params.penalties.repeat = value),
    ("frequency_penalty", |params, value| params.penalties.frequency = value),
    ("presence_penalty", |params, value| params.penalties.presence = value),
    ("dry_multiplier", |params, value| params.dry.multiplier = value),
    ("dry_base", |params, value| params.dry.base = value),
    ("xtc_probability", |params, value| params.xtc.probability = value),
    ("xtc_threshold", |params, value| params.xtc.threshold = value),
    ("mirostat_tau", |params, value| params.mirostat.tau = value),
    ("mirostat_eta", |params, value| params.mirostat.eta = value),
    ("adaptive_target", |params, value| params.adaptive.target = value),
];

/// A count of -1 means "all" or "off", depending on the field.
const COUNTS: [Count; 6] = [
    ("top_k", |params, value| params.top_k = if value == u32::MAX { 0 } else { value }),
    ("repeat_last_n", |params, value| params.penalties.last_n = value),
    ("penalty_last_n", |params, value| params.penalties.last_n = value),
    ("dry_allowed_length", |params, value| params.dry.allowed_length = value),
    ("dry_penalty_last_n", |params, value| params.dry.last_n = value),
    ("min_keep", |params, value| params.min_keep = value),
];

/// Breaker texts of one request: each is searched for in every token of the vocabulary.
const MAX_BREAKERS: usize = 64;

/// Bytes of all breaker texts of one request.
const MAX_BREAKER_TEXT: usize = 512;

/// Bytes that the breakers of all answers to a request may take: a text may begin at the end of most tokens.
const MAX_BREAKER_BYTES: usize = 32 << 20;

/// The options of a request. Fields that it does not set have the model's recommended value, or the default.
pub(crate) fn options(app: &App, fields: &Fields<'_>) -> Result<GenerationOptions, Failure> {
    let sampler = sampler(app, fields)?;
    let mut bias = app.model.suppressed.clone();
    logit_bias(app, fields, &mut bias)?;
    let answers = fields.count("n")?.unwrap_or(1);
    if answers == 0 || answers > MAX_ANSWERS {
        return Err(fields.wrong("n", format_args!("must be from 1 to {MAX_ANSWERS}")));
    }
    check_discard(fields)?;
    let dry_breakers = dry_breakers(app, fields, &sampler, answers)?;
    Ok(GenerationOptions {
        params: GenerationParams {
            max_tokens: max_tokens(fields)?.unwrap_or(u32::MAX),
            sampler,
            bias: bias.into(),
            dry_breakers,
            ignore_end: fields.flag("ignore_eos")?.unwrap_or(false),
            skip_prefix_cache: fields.flag("cache_prompt")? == Some(false),
        },
        // llama-server uses -1 for a random seed
        seed: match fields.integer("seed")? {
            None => app.model.seed,
            seed => seed.filter(|&seed| seed != -1).map(i64::cast_unsigned),
        },
        stops: stops(fields, "stop")?,
        answers,
        reasoning_budget: reasoning_budget(fields)?,
        slot: slot(app, fields)?,
    })
}

/// The sampling parameters of a request.
fn sampler(app: &App, fields: &Fields<'_>) -> Result<SamplerParams, Failure> {
    let mut params = app.model.defaults.clone();
    for (name, set) in NUMBERS {
        if let Some(value) = fields.number(name)? {
            set(&mut params, value);
        }
    }
    for (name, set) in COUNTS {
        if let Some(value) = fields.count_or_all(name)? {
            set(&mut params, value);
        }
    }
    params.mirostat.version = match fields.count("mirostat")? {
        None => params.mirostat.version,
        Some(0) => MirostatVersion::Off,
        Some(1) => MirostatVersion::V1,
        Some(2) => MirostatVersion::V2,
        Some(_) => return Err(fields.wrong("mirostat", "must be 0, 1 or 2")),
    };
    params.validate().map_err(|error| Failure::field(error.field, error))?;
    Ok(params)
}

/// The number of likeliest tokens to report; `None` if no log-probabilities are wanted.
pub(crate) fn top_logprobs(fields: &Fields<'_>) -> Result<Option<u8>, Failure> {
    if !fields.flag("logprobs")?.unwrap_or(false) {
        return Ok(None);
    }
    let top = u8::try_from(fields.count("top_logprobs")?.unwrap_or(0)).ok().filter(|&top| top <= 20);
    top.map(Some).ok_or_else(|| fields.wrong("top_logprobs", "must be at most 20"))
}

/// llama-server's `id_slot`; -1 means any slot.
fn slot(app: &App, fields: &Fields<'_>) -> Result<Option<u32>, Failure> {
    let slots = app.model.parallel;
    let Some(slot) = fields.integer("id_slot")?.filter(|&slot| slot != -1) else { return Ok(None) };
    let slot = u32::try_from(slot).ok().filter(|&slot| slot < slots);
    let outside = || fields.wrong("id_slot", format_args!("must be below {slots}, the number of slots"));
    slot.map(Some).ok_or_else(outside)
}

/// The limit of reasoning under llama-server's two names, tokens; -1 means no limit.
fn reasoning_budget(fields: &Fields<'_>) -> Result<Option<u32>, Failure> {
    for name in ["reasoning_budget_tokens", "thinking_budget_tokens"] {
        if let Some(limit) = fields.count_or_all(name)? {
            return Ok(Some(limit).filter(|&limit| limit != u32::MAX));
        }
    }
    Ok(None)
}

/// llama-server's `dry_sequence_breakers` if DRY is on, or the model's, or the default ones.
fn dry_breakers(
    app: &App,
    fields: &Fields<'_>,
    sampler: &SamplerParams,
    answers: u32,
) -> Result<Option<Arc<DryBreakers<'static>>>, Failure> {
    const FIELD: &str = "dry_sequence_breakers";
    let texts = fields.texts(FIELD)?;
    if texts.len() > MAX_BREAKERS {
        return Err(fields.wrong(FIELD, format_args!("must be at most {MAX_BREAKERS} texts")));
    }
    if texts.iter().map(String::len).sum::<usize>() > MAX_BREAKER_TEXT {
        return Err(fields.wrong(FIELD, format_args!("must have at most {MAX_BREAKER_TEXT} bytes together")));
    }
    if !sampler.dry.active() {
        return Ok(None);
    }
    let tokenizer = app.model.tokenizer;
    let breakers = match (fields.get(FIELD), &app.model.dry_breakers) {
        (None, Some(breakers)) => return Ok(Some(Arc::clone(breakers))),
        (None, None) => DryBreakers::of_texts(DryBreakers::DEFAULT, tokenizer, HEAP),
        (Some(_), _) => DryBreakers::of_texts(texts, tokenizer, HEAP),
    };
    let breakers = breakers.map_err(|error| fields.wrong(FIELD, error))?;
    if fields.get(FIELD).is_some() && breakers.bytes().saturating_mul(answers as usize) > MAX_BREAKER_BYTES {
        return Err(fields.wrong(FIELD, "are at the end of too many tokens"));
    }
    Ok(Some(Arc::new(breakers)))
}

/// Refuses wrong values of llama-server's `n_discard` and `n_keep`. Right ones have no effect: no tokens of a full
/// context are discarded.
fn check_discard(fields: &Fields<'_>) -> Result<(), Failure> {
    for name in ["n_discard", "n_keep"] {
        if fields.integer(name)?.is_some_and(|count| count < 0 && (name, count) != ("n_keep", -1)) {
            return Err(fields.wrong(name, "must not be negative"));
        }
    }
    Ok(())
}

/// The limit of generated tokens, under any of its names; -1 means no limit and becomes `u32::MAX`.
pub(super) fn max_tokens(fields: &Fields<'_>) -> Result<Option<u32>, Failure> {
    for name in ["max_completion_tokens", "max_tokens", "n_predict", "max_output_tokens"] {
        if let Some(limit) = fields.count_or_all(name)? {
            return Ok(Some(limit));
        }
    }
    Ok(None)
}

/// `{"id": bias}`, or llama-server's list of pairs. A text in place of an id means all its tokens, and `false` in place
/// of a bias bans them.
fn logit_bias(app: &App, fields: &Fields<'_>, out: &mut Vec<LogitBias>) -> Result<(), Failure> {
    let wrong = |what: &str| fields.wrong("logit_bias", what);
    let Some(value) = fields.get("logit_bias") else { return Ok(()) };
    let pairs: Vec<(Value, &Value)> = match value {
        Value::Object(map) => map.iter().map(|(key, bias)| (Value::from(key.as_str()), bias)).collect(),
        Value::Array(list) => {
            let pair = |pair: &Value| -> Option<Value> { pair.get(0).cloned() };
            let pairs = list.iter().map(|entry| Some((pair(entry)?, entry.get(1)?)));
            pairs.collect::<Option<_>>().ok_or_else(|| wrong("must be a list of pairs"))?
        }
        _ => return Err(wrong("must be an object of token ids and numbers")),
    };
    for (key, bias) in pairs {
        let bias = match bias {
            Value::Bool(false) => f32::NEG_INFINITY,
            bias => bias.as_f64().ok_or_else(|| wrong("each bias must be a number"))? as f32,
        };
        if bias == f32::INFINITY {
            return Err(wrong("each bias must be a number of 32 bits"));
        }
        let tokens = match &key {
            Value::Number(id) => {
                vec![TokenId(id.as_u64().and_then(|id| u32::try_from(id).ok()).unwrap_or(u32::MAX))]
            }
            Value::String(text) => match text.parse::<i64>() {
                Ok(id) => vec![TokenId(u32::try_from(id).unwrap_or(u32::MAX))],
                Err(_) => app.encode(text, EncodeOptions::default())?,
            },
            _ => return Err(wrong("each key must be a token id")),
        };
        for token in tokens {
            if token.0 as usize >= app.model.tokenizer.vocab_len() {
                return Err(wrong("names a token that the vocabulary doesn't have"));
            }
            out.push(LogitBias { token, bias });
        }
    }
    Ok(())
}

/// The format of an answer: `response_format`, or the fields of llama-server and vLLM.
pub(crate) fn answer_format(fields: &Fields<'_>) -> Result<Option<GrammarSpec>, Failure> {
    if let Some(grammar) = fields.text("grammar")?.filter(|grammar| !grammar.trim().is_empty()) {
        return Ok(Some(GrammarSpec::Gbnf(grammar.to_owned())));
    }
    if let Some(regex) = fields.text("guided_regex")? {
        return Ok(Some(GrammarSpec::Regex(regex.to_owned())));
    }
    for name in ["json_schema", "guided_json"] {
        if let Some(schema) = fields.get(name) {
            return Ok(Some(GrammarSpec::JsonSchema(schema.clone())));
        }
    }
    let Some(format) = fields.get("response_format") else { return Ok(None) };
    let format = Fields::of(format, "response_format")?;
    match format.text("type")?.unwrap_or("text") {
        "text" => Ok(None),
        "json_object" => Ok(Some(match format.get("schema") {
            Some(schema) => GrammarSpec::JsonSchema(schema.clone()),
            None => GrammarSpec::JsonObject,
        })),
        "json_schema" => {
            let inner =
                format.get("json_schema").map(|inner| Fields::of(inner, "response_format.json_schema"));
            let inner = inner.transpose()?;
            let schema = inner.and_then(|inner| inner.get("schema")).or_else(|| format.get("schema"));
            let schema = schema.ok_or_else(|| format.wrong("json_schema.schema", "is missing"))?;
            Ok(Some(GrammarSpec::JsonSchema(schema.clone())))
        }
        "regex" => {
            let pattern = format.text("pattern")?.or(format.text("regex")?);
            let pattern = pattern.ok_or_else(|| format.wrong("pattern", "is missing"))?;
            Ok(Some(GrammarSpec::Regex(pattern.to_owned())))
        }
        other => Err(format.wrong("type", format_args!("{} is not known", quoted(other)))),
    }
}
