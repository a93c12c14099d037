//! Unusual logits and parameters: the result is an allowed token, or an error with the reason.

use arbitrary::{Result, Unstructured};
use doorbell_core::heap::{Global, Heap};
use doorbell_core::sample::{
    AdaptiveParams, DryBreakers, DryParams, Generator, LogitBias, MirostatParams, MirostatVersion,
    PenaltyParams, Sampled, Sampler, SamplerParams, SamplerScope, Scratch, TokenMask, XtcParams,
};
use doorbell_core::token::TokenId;

const HEAP: Heap<'static> = &Global;

/// A target: parameters, tokens of the past, then logits.
///
/// # Panics
/// If a rule is broken.
pub fn sample(bytes: &[u8]) {
    let mut source = Unstructured::new(bytes);
    let _ = steps(&mut source);
}

/// Mostly a legal number, sometimes any number.
fn float(source: &mut Unstructured<'_>, low: f32, high: f32) -> Result<f32> {
    if source.ratio(1, 16)? {
        return Ok(f32::from_bits(source.arbitrary()?));
    }
    Ok(low + (high - low) * (f32::from(source.arbitrary::<u16>()?) / 65_535.0))
}

fn params(source: &mut Unstructured<'_>) -> Result<SamplerParams> {
    let off = SamplerParams::default();
    let mut on = || source.arbitrary::<bool>();
    let [penalties, dry, xtc, adaptive] = [on()?, on()?, on()?, on()?];
    let version = *source.choose(&[
        MirostatVersion::Off,
        MirostatVersion::Off,
        MirostatVersion::V1,
        MirostatVersion::V2,
    ])?;
    Ok(SamplerParams {
        post_sampling: source.arbitrary()?,
        seed: source.arbitrary()?,
        generator: *source.choose(&[Generator::Counter, Generator::Mt19937])?,
        temperature: float(source, 0.0, 2.0)?,
        dynatemp_range: float(source, 0.0, 1.0)?,
        dynatemp_exponent: float(source, 0.1, 2.0)?,
        top_k: source.arbitrary::<u8>()?.into(),
        top_p: float(source, 0.0, 1.0)?,
        min_p: float(source, 0.0, 1.0)?,
        typical_p: float(source, 0.0, 1.0)?,
        top_n_sigma: float(source, 0.0, 3.0)?,
        min_keep: (source.arbitrary::<u8>()? % 4).into(),
        penalties: if penalties {
            PenaltyParams {
                last_n: source.arbitrary::<u8>()?.into(),
                repeat: float(source, 0.5, 2.0)?,
                frequency: float(source, -2.0, 2.0)?,
                presence: float(source, -2.0, 2.0)?,
            }
        } else {
            off.penalties
        },
        dry: if dry {
            DryParams { multiplier: float(source, 0.0, 2.0)?, base: float(source, 1.0, 3.0)?, ..off.dry }
        } else {
            off.dry
        },
        xtc: if xtc {
            XtcParams { probability: float(source, 0.0, 1.0)?, threshold: float(source, 0.0, 0.6)? }
        } else {
            off.xtc
        },
        mirostat: MirostatParams { version, tau: float(source, 0.0, 10.0)?, eta: float(source, 0.0, 1.0)? },
        adaptive: if adaptive {
            AdaptiveParams { target: float(source, 0.0, 1.0)?, decay: float(source, 0.0, 0.99)? }
        } else {
            off.adaptive
        },
        logprobs: source.arbitrary::<Option<u8>>()?.map(|count| count % 21),
    })
}

/// Any logits: close together, far apart, equal, infinite or NaN.
fn logits(source: &mut Unstructured<'_>, count: usize) -> Result<Vec<f32>> {
    let shape = source.int_in_range(0..=3_u8)?;
    let one = |source: &mut Unstructured<'_>| {
        Ok(match shape {
            0 => f32::from(source.arbitrary::<i8>()?) / 8.0,
            1 => f32::from_bits(source.arbitrary()?),
            2 => *source.choose(&[f32::NEG_INFINITY, 0.0, 1.0, f32::MAX, f32::MIN, 1e-45, -1e30])?,
            _ => f32::from(source.arbitrary::<u8>()? % 2),
        })
    };
    (0..count).map(|_| one(source)).collect()
}

fn steps(source: &mut Unstructured<'_>) -> Result<()> {
    let vocab_len = source.int_in_range(1..=40_usize)?;
    let params = params(source)?;
    let token = |source: &mut Unstructured<'_>| Ok(TokenId(source.int_in_range(0..=vocab_len as u32)?));
    let bias: Vec<LogitBias> = (0..source.int_in_range(0..=2_u8)?)
        .map(|_| Ok(LogitBias { token: token(source)?, bias: float(source, -10.0, 10.0)? }))
        .collect::<Result<_>>()?;
    let mut breakers = DryBreakers::new(HEAP);
    breakers.add(&[token(source)?, token(source)?]).expect("memory");
    let scope = SamplerScope { request: 1, vocab_len, context_len: 64, breakers: Some(&breakers) };
    let make = || Sampler::new(&params, &bias, scope, HEAP);
    let (Ok(mut first), Ok(mut second)) = (make(), make()) else { return Ok(()) };
    let mut scratch = Scratch::new(vocab_len, HEAP).expect("memory");
    for _ in 0..source.int_in_range(0..=40_u8)? {
        let token = token(source)?;
        first.accept(token);
        second.accept(token);
    }
    for position in 0..source.int_in_range(1..=3_u32)? {
        let logits = logits(source, vocab_len)?;
        let words: [u32; 2] = source.arbitrary()?;
        let mask = source.arbitrary::<bool>()?.then(|| TokenMask::new(&words));
        let picked = first.sample(&logits, position, mask, &mut scratch);
        // Sample again: buffers must hold nothing of the first time.
        let again = second.sample(&logits, position, mask, &mut scratch);
        // Compared as text, since NaN differs from itself.
        assert_eq!(format!("{picked:?}"), format!("{again:?}"));
        match picked {
            Ok(picked) => {
                check(&picked, &logits, mask, &bias);
                first.accept(picked.token);
                second.accept(picked.token);
            }
            Err(error) => assert!(!error.to_string().contains('\n')),
        }
    }
    Ok(())
}

fn check(picked: &Sampled, logits: &[f32], mask: Option<TokenMask<'_>>, bias: &[LogitBias]) {
    let logit = logits[picked.token.0 as usize];
    assert!(logit > f32::NEG_INFINITY, "an impossible token");
    assert!(logits.iter().all(|logit| *logit < f32::INFINITY), "logits that are no numbers passed");
    assert!(mask.is_none_or(|mask| mask.allows(picked.token)), "a token that the mask forbids");
    let banned = bias.iter().any(|bias| bias.token == picked.token && bias.bias == f32::NEG_INFINITY);
    assert!(!banned, "a token that the bias forbids");
    assert!((0.0..=1.000_01).contains(&picked.probability), "probability {}", picked.probability);
}
