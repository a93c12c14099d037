//! The sampling fields that `OpenAI`'s requests and those of llama-server share.

use crate::app::{App, HEAP};
use crate::error::Failure;
use crate::fields::Fields;
use crate::generation::{GenerationOptions, MAX_ANSWERS};
use alloc::sync::Arc;
use doorbell_core::sample::{DryBreakers, LogitBias, MirostatVersion, SamplerParams};
use doorbell_core::token::{EncodeOptions, TokenId};
use doorbell_runtime::constrain::GrammarSpec;
use serde_json::Value;

/// A field that is a number, and where it goes.
type Number = (&'static str, fn(&mut SamplerParams, f32));
/// A field that is a count, and where it goes.
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

/// -1 is "all" or "off", as the field has it.
const COUNTS: [Count; 6] = [
    ("top_k", |params, value| params.top_k = if value == u32::MAX { 0 } else { value }),
    ("repeat_last_n", |params, value| params.penalties.last_n = value),
    ("penalty_last_n", |params, value| params.penalties.last_n = value),
    ("dry_allowed_length", |params, value| params.dry.allowed_length = value),
    ("dry_penalty_last_n", |params, value| params.dry.last_n = value),
    ("min_keep", |params, value| params.min_keep = value),
];

/// Texts that end repetitions: each is looked for in every token of the vocabulary.
const MAX_BREAKERS: usize = 64;

/// The options of a request. What it doesn't say is the model's recommendation, or else the default.
pub(crate) fn options(app: &App, fields: &Fields<'_>) -> Result<GenerationOptions, Failure> {
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
    let mut bias = app.model.suppressed.clone();
    logit_bias(app, fields, &mut bias)?;
    let answers = fields.count("n")?.unwrap_or(1);
    if answers == 0 || answers > MAX_ANSWERS {
        return Err(fields.wrong("n", format_args!("must be from 1 to {MAX_ANSWERS}")));
    }
    discard(fields)?;
    let breakers = breakers(app, fields, &params)?;
    Ok(GenerationOptions {
        max_tokens: max_tokens(fields)?,
        params,
        breakers,
        // -1 is "random" to llama-server
        seed: match fields.integer("seed")? {
            None => app.model.seed,
            seed => seed.filter(|&seed| seed != -1).map(i64::cast_unsigned),
        },
        bias,
        stops: fields.texts("stop")?,
        ignore_end: fields.flag("ignore_eos")?.unwrap_or(false),
        answers,
        reasoning_budget: reasoning_budget(fields)?,
        reuse: fields.flag("cache_prompt")?.unwrap_or(true),
        slot: slot(app, fields)?,
    })
}

/// llama-server's `id_slot`; -1 is any.
fn slot(app: &App, fields: &Fields<'_>) -> Result<Option<u32>, Failure> {
    let slots = app.model.parallel;
    let Some(slot) = fields.integer("id_slot")?.filter(|&slot| slot != -1) else { return Ok(None) };
    let slot = u32::try_from(slot).ok().filter(|&slot| slot < slots);
    let outside = || fields.wrong("id_slot", format_args!("must be below {slots}, the number of slots"));
    slot.map(Some).ok_or_else(outside)
}

/// llama-server's two names for the tokens that reasoning may have; -1 is no limit.
fn reasoning_budget(fields: &Fields<'_>) -> Result<Option<u32>, Failure> {
    for name in ["reasoning_budget_tokens", "thinking_budget_tokens"] {
        if let Some(most) = fields.count_or_all(name)? {
            return Ok(Some(most).filter(|&most| most != u32::MAX));
        }
    }
    Ok(None)
}

/// llama-server's `dry_sequence_breakers`, or the usual ones, where DRY is on.
fn breakers(
    app: &App,
    fields: &Fields<'_>,
    params: &SamplerParams,
) -> Result<Option<Arc<DryBreakers<'static>>>, Failure> {
    const FIELD: &str = "dry_sequence_breakers";
    let texts = fields.texts(FIELD)?;
    if texts.len() > MAX_BREAKERS {
        return Err(fields.wrong(FIELD, format_args!("must be at most {MAX_BREAKERS} texts")));
    }
    if !params.dry.active() {
        return Ok(None);
    }
    let tokenizer = app.model.tokenizer;
    let found = if let (None, Some(breakers)) = (fields.get(FIELD), &app.model.breakers) {
        return Ok(Some(Arc::clone(breakers)));
    } else if fields.get(FIELD).is_some() {
        DryBreakers::of_texts(texts, tokenizer, HEAP)
    } else {
        DryBreakers::of_texts(DryBreakers::DEFAULT, tokenizer, HEAP)
    };
    found.map(|found| Some(Arc::new(found))).map_err(|error| fields.wrong(FIELD, error))
}

/// llama-server's `n_discard`: nothing is ever discarded here, but nonsense is refused.
fn discard(fields: &Fields<'_>) -> Result<(), Failure> {
    for name in ["n_discard", "n_keep"] {
        if fields.integer(name)?.is_some_and(|count| count < 0 && (name, count) != ("n_keep", -1)) {
            return Err(fields.wrong(name, "must not be negative"));
        }
    }
    Ok(())
}

/// The most tokens, under any of its names; -1 is no limit.
pub(super) fn max_tokens(fields: &Fields<'_>) -> Result<Option<u32>, Failure> {
    for name in ["max_completion_tokens", "max_tokens", "n_predict", "max_output_tokens"] {
        if let Some(most) = fields.count_or_all(name)? {
            return Ok(Some(most));
        }
    }
    Ok(None)
}

/// `{"id": bias}`, or llama-server's list of pairs, where a text stands for its tokens and `false` bans.
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

/// What the answer must look like: `response_format`, or llama-server's and vLLM's fields.
pub(crate) fn shape(fields: &Fields<'_>) -> Result<Option<GrammarSpec>, Failure> {
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
        other => Err(format.wrong("type", format_args!("{other:?} is not known"))),
    }
}
