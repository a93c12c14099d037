//! The sampler against llama.cpp's recorded results, and the properties that hold for all inputs.

use super::candidates::likelier;
use super::draw::{Adaptive, Mirostat};
use super::*;
use crate::heap::{Global, Heap};
use crate::token::TokenId;
use arbtest::arbitrary::{Result as Arbitrary, Unstructured};
use arbtest::arbtest;
extern crate alloc;
use alloc::format;
use alloc::vec::Vec;

const HEAP: Heap<'static> = &Global;

fn scope(vocab_len: usize) -> SamplerScope<'static> {
    SamplerScope { request: 1, vocab_len, context_len: 4096, breakers: None }
}

/// Checks a property on many inputs, the same ones in every run; one that is too short for it doesn't count.
/// `DOORBELL_CASES` sets how many, for long runs.
fn always(mut property: impl FnMut(&mut Unstructured<'_>) -> Arbitrary<()>) {
    let cases: u64 = std::env::var("DOORBELL_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(300);
    let mut fit = 0;
    for case in 1..=cases {
        let mut counted = |u: &mut Unstructured<'_>| {
            fit += u64::from(property(u).is_ok());
            Ok(())
        };
        // arbtest's seeds are a state of its generator above and the number of bytes below
        let length = 32 << (case % 12);
        arbtest(&mut counted).seed(case.wrapping_mul(0x9e37_79b9) << 32 | length).run();
    }
    assert!(2 * fit > cases, "{fit} of {cases} inputs were long enough");
}

fn neutral() -> SamplerParams {
    SamplerParams { temperature: 1.0, ..SamplerParams::greedy() }
}

/// One line of `tests/goldens/sample/chain.txt`.
struct Step {
    params: Vec<(&'static str, &'static str)>,
    seen: Vec<u32>,
    logits: Vec<f32>,
    picked: Option<u32>,
    left: Vec<(u32, f32)>,
}

fn golden_steps() -> Vec<Step> {
    let parse = |line: &'static str| {
        let mut parts = line.split(" |");
        let mut words = || parts.next().unwrap().split_whitespace();
        Step {
            params: words().map(|word| word.split_once('=').unwrap_or((word, ""))).collect(),
            seen: words().map(|word| word.parse().unwrap()).collect(),
            logits: words().map(|word| word.parse::<i16>().unwrap()).map(|l| f32::from(l) / 64.0).collect(),
            picked: words().next().unwrap().parse().ok(),
            left: words()
                .map(|word| word.split_once(':').unwrap())
                .map(|(token, p)| (token.parse().unwrap(), p.parse().unwrap()))
                .collect(),
        }
    };
    include_str!("../../../tests/goldens/sample/chain.txt").lines().map(parse).collect()
}

/// Sets one parameter of the golden file; the names are those of its generator.
fn set(params: &mut SamplerParams, breakers: &mut DryBreakers<'_>, name: &str, value: &str) {
    let number = || value.parse::<f32>().unwrap();
    let count = || value.parse::<u32>().unwrap();
    match name {
        "penalty_last_n" => params.penalties.last_n = count(),
        "repeat" => params.penalties.repeat = number(),
        "frequency" => params.penalties.frequency = number(),
        "presence" => params.penalties.presence = number(),
        "dry_last_n" => params.dry.last_n = count(),
        "allowed" => params.dry.allowed_length = count(),
        "multiplier" => params.dry.multiplier = number(),
        "base" => params.dry.base = number(),
        "breaker" | "breaker2" => {
            let tokens: Vec<_> = value.split(',').map(|token| TokenId(token.parse().unwrap())).collect();
            breakers.add(&tokens).unwrap();
        }
        "top_n_sigma" => params.top_n_sigma = number(),
        "top_k" => params.top_k = count(),
        "min_keep" => params.min_keep = count(),
        "typical_p" => params.typical_p = number(),
        "top_p" => params.top_p = number(),
        "min_p" => params.min_p = number(),
        "xtc_probability" => params.xtc.probability = number(),
        "xtc_threshold" => params.xtc.threshold = number(),
        "temperature" => params.temperature = number(),
        "dynatemp_range" => params.dynatemp_range = number(),
        "dynatemp_exponent" => params.dynatemp_exponent = number(),
        "mirostat" if value == "1" => params.mirostat.version = MirostatVersion::V1,
        "mirostat" => params.mirostat.version = MirostatVersion::V2,
        "tau" => params.mirostat.tau = number(),
        "eta" => params.mirostat.eta = number(),
        "adaptive_target" => params.adaptive.target = number(),
        "adaptive_decay" => params.adaptive.decay = number(),
        _ => panic!("unknown parameter {name}"),
    }
}

#[track_caller]
fn assert_left(step: &Step, scratch: &Scratch<'_>, line: usize) {
    let mut expected = step.left.clone();
    let mut found: Vec<_> = scratch.survivors().iter().map(|c| (c.token.0, c.probability)).collect();
    expected.sort_by_key(|&(token, _)| token);
    found.sort_by_key(|&(token, _)| token);
    found.retain(|&(_, p)| p > 0.0);
    assert_eq!(found.len(), expected.len(), "line {line}: {found:?} instead of {expected:?}");
    for (found, expected) in found.iter().zip(&expected) {
        let close = (found.1 - expected.1).abs() <= 2e-6 + 2e-5 * expected.1;
        assert!(found.0 == expected.0 && close, "line {line}: {found:?} instead of {expected:?}");
    }
}

#[test]
fn stages_leave_what_llama_cpp_leaves() {
    let steps = golden_steps();
    let mut checked = 0;
    for (line, step) in (1..).zip(&steps) {
        if step.params.iter().any(|&(name, _)| ["mirostat", "adaptive_target", "same"].contains(&name)) {
            continue;
        }
        let mut params = neutral();
        let mut breakers = DryBreakers::new(HEAP);
        for (name, value) in &step.params {
            set(&mut params, &mut breakers, name, value);
        }
        let scope = SamplerScope { breakers: Some(&breakers), ..scope(step.logits.len()) };
        let mut sampler = Sampler::new(&params, &[], scope, HEAP).unwrap();
        let mut scratch = Scratch::new(step.logits.len(), HEAP).unwrap();
        for &token in &step.seen {
            sampler.accept(TokenId(token));
        }
        sampler.sample(&step.logits, 0, None, &mut scratch).unwrap();
        assert_left(step, &scratch, line);
        assert!(scratch.counts.iter().all(|&count| count == 0), "line {line}");
        checked += 1;
    }
    assert_eq!(checked, 300);
}

/// The random number that makes a draw pick `token` from the golden candidates.
fn chance_of(scratch: &Scratch<'_>, step: &Step) -> f64 {
    let token = step.picked.unwrap();
    let mut running = 0.0;
    for candidate in scratch.survivors() {
        let p = f64::from(candidate.probability);
        if candidate.token.0 == token {
            return running + p / 2.0;
        }
        running += p;
    }
    panic!("token {token} isn't left")
}

#[test]
fn feedback_follows_llama_cpp() {
    let mut params = neutral();
    let mut mirostat = Mirostat::new(&params.mirostat);
    let mut adaptive = Adaptive::new(&params.adaptive);
    let mut checked = 0;
    for (line, step) in (1..).zip(&golden_steps()) {
        let first = step.params[0].0;
        if !["mirostat", "adaptive_target", "same"].contains(&first) {
            continue;
        }
        if first != "same" {
            params = neutral();
            for (name, value) in &step.params {
                set(&mut params, &mut DryBreakers::new(HEAP), name, value);
            }
            mirostat = Mirostat::new(&params.mirostat);
            adaptive = Adaptive::new(&params.adaptive);
        }
        let mut scratch = Scratch::new(step.logits.len(), HEAP).unwrap();
        let mut draw = |mirostat: &mut Mirostat, adaptive: &mut Adaptive, chance: f64| {
            scratch.load(&step.logits).unwrap();
            scratch.collect(f32::NEG_INFINITY, 0).unwrap();
            if params.mirostat.version == MirostatVersion::Off {
                adaptive.draw(&params.adaptive, &mut scratch, || chance);
            } else {
                mirostat.draw(&params.mirostat, &mut scratch, step.logits.len(), || chance);
            }
            assert_left(step, &scratch, line);
            chance_of(&scratch, step)
        };
        // the first draw finds the number that picks llama.cpp's token, the second learns from that token
        let chance = draw(&mut mirostat.clone(), &mut adaptive.clone(), 0.0);
        draw(&mut mirostat, &mut adaptive, chance);
        checked += 1;
    }
    assert_eq!(checked, 48);
}

fn arbitrary_logits(u: &mut Unstructured<'_>) -> Arbitrary<Vec<f32>> {
    let len = u.int_in_range(1..=200)?;
    let mut logits = Vec::new();
    for _ in 0..len {
        logits.push(match u.int_in_range(0..=9)? {
            0 => f32::NEG_INFINITY,
            1 => f32::from_bits(u.arbitrary()?),
            2 => 3.0,
            3 => -0.0,
            _ => f32::from(u.arbitrary::<i16>()?) / 1000.0,
        });
    }
    Ok(logits)
}

fn unit(u: &mut Unstructured<'_>) -> Arbitrary<f32> {
    Ok(f32::from(u.int_in_range(0_u8..=100)?) / 100.0)
}

fn arbitrary_params(u: &mut Unstructured<'_>) -> Arbitrary<SamplerParams> {
    let mut params = neutral();
    params.seed = u.arbitrary()?;
    params.generator = [Generator::Counter, Generator::Mt19937][u.choose_index(2)?];
    params.temperature = [0.0, 1e-30, 0.3, 1.0, 1000.0][u.choose_index(5)?];
    params.dynatemp_range = [0.0, 0.5, 1000.0][u.choose_index(3)?];
    params.dynatemp_exponent = unit(u)? * 3.0;
    params.top_k = u.int_in_range(0..=20)?;
    params.top_p = unit(u)?;
    params.min_p = unit(u)?;
    params.typical_p = unit(u)?;
    params.top_n_sigma = unit(u)? * 3.0;
    params.min_keep = u.int_in_range(0..=5)?;
    params.penalties.last_n = u.int_in_range(0..=30)?;
    params.penalties.repeat = 0.01 + unit(u)? * 50.0;
    params.penalties.frequency = unit(u)? * 100.0;
    params.penalties.presence = -unit(u)?;
    params.dry.multiplier = unit(u)? * 1000.0;
    params.dry.base = unit(u)? * 900.0;
    params.dry.allowed_length = u.int_in_range(0..=3)?;
    params.xtc.probability = unit(u)?;
    params.xtc.threshold = unit(u)?;
    params.mirostat.version =
        [MirostatVersion::Off, MirostatVersion::V1, MirostatVersion::V2][u.choose_index(3)?];
    params.mirostat.tau = unit(u)? * 100.0;
    params.adaptive.target = unit(u)? * 2.0 - 1.0;
    params.logprobs = u.ratio(1, 3)?.then_some(20);
    Ok(params)
}

/// Any legal parameters on any logits: a possible token with a sound probability, or the right error.
#[test]
fn never_empty_never_nan() {
    always(|u| {
        let params = arbitrary_params(u)?;
        let logits = arbitrary_logits(u)?;
        let mut sampler = Sampler::new(&params, &[], scope(logits.len()), HEAP).unwrap();
        let mut scratch = Scratch::new(logits.len(), HEAP).unwrap();
        for _ in 0..u.int_in_range(0..=40)? {
            sampler.accept(TokenId(u.int_in_range(0..=40)?));
        }
        let bad = logits.iter().any(|logit| logit.is_nan() || *logit == f32::INFINITY);
        let dead = logits.iter().all(|&logit| logit == f32::NEG_INFINITY);
        for position in 0..3 {
            match sampler.sample(&logits, position, None, &mut scratch) {
                Ok(sampled) => {
                    assert!(!bad && !dead);
                    assert!(logits[sampled.token.0 as usize] > f32::NEG_INFINITY);
                    assert!(
                        sampled.probability > 0.0 && sampled.probability <= 1.0,
                        "{params:?} {sampled:?}"
                    );
                    assert!(scratch.survivors().iter().all(|c| c.probability.is_finite()));
                    sampler.accept(sampled.token);
                }
                Err(SampleError::NotFinite { .. }) => assert!(bad),
                Err(SampleError::AllImpossible) => assert!(dead),
                Err(error) => panic!("{error}"),
            }
        }
        Ok(())
    });
}

/// The same seed, request, position and past give the same token, whatever the buffers did in between.
#[test]
fn draws_depend_on_their_key_only() {
    always(|u| {
        let params = arbitrary_params(u)?;
        let mut logits = arbitrary_logits(u)?;
        logits.iter_mut().for_each(|logit| *logit = if logit.is_finite() { *logit } else { -1.0 });
        let other: Vec<f32> = logits.iter().rev().copied().collect();
        let mut scratch = Scratch::new(logits.len(), HEAP).unwrap();
        let run = |scratch: &mut Scratch<'_>, disturb: bool| {
            let mut sampler = Sampler::new(&params, &[], scope(logits.len()), HEAP).unwrap();
            let mut disturber = Sampler::new(&neutral(), &[], scope(logits.len()), HEAP).unwrap();
            (0..5)
                .map(|position| {
                    if disturb {
                        disturber.sample(&other, position, None, scratch).unwrap();
                    }
                    let token = sampler.sample(&logits, position, None, scratch).unwrap().token;
                    sampler.accept(token);
                    token
                })
                .collect::<Vec<_>>()
        };
        let alone = run(&mut scratch, false);
        assert_eq!(alone, run(&mut scratch, true));
        Ok(())
    });
}

/// llama.cpp's generator draws with C++'s distributions: the picks of `discrete_distribution` from eight weights.
#[test]
fn mt19937_picks_what_libstdcxx_picks() {
    let weights = [0.30_f32, 0.25, 0.15, 0.10, 0.08, 0.06, 0.04, 0.02];
    let logits = weights.map(libm::logf);
    let mut scratch = Scratch::new(8, HEAP).unwrap();
    for line in include_str!("../../../tests/goldens/sample/mt19937.txt").lines() {
        let seed = line.split('|').next().unwrap().trim().parse().unwrap();
        let expected = line.rsplit('|').next().unwrap().split_ascii_whitespace();
        let params = SamplerParams { seed, generator: Generator::Mt19937, ..neutral() };
        let mut sampler = Sampler::new(&params, &[], scope(8), HEAP).unwrap();
        for (count, picked) in expected.enumerate() {
            // the position plays no part
            let sampled = sampler.sample(&logits, 7, None, &mut scratch).unwrap();
            assert_eq!(sampled.token.0, picked.parse().unwrap(), "seed {seed}, draw {count}");
        }
    }
}

/// The tokens left by the truncation stages, without probabilities.
fn left(params: &SamplerParams, logits: &[f32]) -> Vec<TokenId> {
    let mut scratch = Scratch::new(logits.len(), HEAP).unwrap();
    let mut sampler = Sampler::new(params, &[], scope(logits.len()), HEAP).unwrap();
    sampler.sample(logits, 0, None, &mut scratch).unwrap();
    let mut tokens: Vec<_> = scratch.survivors().iter().map(|candidate| candidate.token).collect();
    tokens.sort();
    tokens
}

fn finite_logits(u: &mut Unstructured<'_>) -> Arbitrary<Vec<f32>> {
    let len = u.int_in_range(1..=120)?;
    (0..len).map(|_| Ok(f32::from(u.int_in_range(-400_i16..=400)?) / 40.0)).collect()
}

#[test]
fn looser_parameters_keep_more() {
    always(|u| {
        let logits = finite_logits(u)?;
        let (a, b) = (unit(u)?, unit(u)?);
        let (tight, loose) = (a.min(b), a.max(b));
        let (few, many) = ((tight * 50.0) as u32 + 1, (loose * 50.0) as u32 + 1);
        let pairs = [
            (SamplerParams { top_p: tight, ..neutral() }, SamplerParams { top_p: loose, ..neutral() }),
            (SamplerParams { min_p: loose, ..neutral() }, SamplerParams { min_p: tight, ..neutral() }),
            (
                SamplerParams { typical_p: tight, ..neutral() },
                SamplerParams { typical_p: loose, ..neutral() },
            ),
            (SamplerParams { top_k: few, ..neutral() }, SamplerParams { top_k: many, ..neutral() }),
            (
                SamplerParams { top_n_sigma: tight + 0.01, ..neutral() },
                SamplerParams { top_n_sigma: loose + 0.01, ..neutral() },
            ),
        ];
        for (tight, loose) in &pairs {
            let (kept, more) = (left(tight, &logits), left(loose, &logits));
            assert!(!kept.is_empty() && kept.iter().all(|token| more.contains(token)), "{tight:?}");
        }
        Ok(())
    });
}

/// Top-k and min-p applied to what they left change nothing; top-p does, since it renormalizes.
#[test]
fn top_k_and_min_p_are_idempotent() {
    always(|u| {
        let logits = finite_logits(u)?;
        for params in [
            SamplerParams { top_k: u.int_in_range(1..=50)?, ..neutral() },
            SamplerParams { min_p: unit(u)?, ..neutral() },
        ] {
            let once = left(&params, &logits);
            let masked: Vec<_> = (0..)
                .zip(&logits)
                .map(|(token, &logit)| if once.contains(&TokenId(token)) { logit } else { f32::NEG_INFINITY })
                .collect();
            assert_eq!(left(&params, &masked), once);
        }
        Ok(())
    });
}

/// One candidate is the likeliest token, the lowest of equals: greedy choice by another name.
#[test]
fn one_candidate_is_the_greedy_choice() {
    always(|u| {
        let logits = finite_logits(u)?;
        let mut scratch = Scratch::new(logits.len(), HEAP).unwrap();
        let mut pick = |params: &SamplerParams| {
            let mut sampler = Sampler::new(params, &[], scope(logits.len()), HEAP).unwrap();
            sampler.sample(&logits, 3, None, &mut scratch).unwrap().token
        };
        let one = SamplerParams { top_k: 1, ..neutral() };
        let most = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let first = (0..).zip(&logits).find(|(_, logit)| **logit == most).map(|(token, _)| TokenId(token));
        assert_eq!((Some(pick(&one)), Some(pick(&SamplerParams::greedy()))), (first, first));
        assert_eq!(Some(left(&one, &logits)), first.map(|token| Vec::from([token])));
        Ok(())
    });
}

/// Renaming the tokens renames what is left, as long as no two logits are equal.
#[test]
fn truncation_ignores_token_order() {
    always(|u| {
        let mut params = arbitrary_params(u)?;
        (params.mirostat.version, params.xtc.probability) = (MirostatVersion::Off, 0.0);
        let mut logits: Vec<f32> = (0_i16..100).map(|i| f32::from(i) * 0.11 - 5.0).collect();
        for i in (1..logits.len()).rev() {
            logits.swap(i, u.int_in_range(0..=i)?);
        }
        let reversed: Vec<f32> = logits.iter().rev().copied().collect();
        let last = u32::try_from(logits.len()).unwrap() - 1;
        let mut renamed: Vec<_> = left(&params, &reversed).iter().map(|t| TokenId(last - t.0)).collect();
        renamed.sort();
        assert_eq!(left(&params, &logits), renamed);
        Ok(())
    });
}

/// Top-k without a sort of the vocabulary finds the same tokens in the same order as a sort.
#[test]
fn top_k_equals_a_full_sort() {
    always(|u| {
        let len = u.int_in_range(1..=6000)?;
        let spread = u.int_in_range(1_u16..=2000)?;
        let logits = (0..len)
            .map(|_| Ok(f32::from(u.int_in_range(0_u16..=spread)?) / 7.0))
            .collect::<Arbitrary<Vec<_>>>()?;
        let k = u.int_in_range(1..=300_usize)?;
        let mut scratch = Scratch::new(len, HEAP).unwrap();
        scratch.load(&logits).unwrap();
        scratch.collect(f32::NEG_INFINITY, k).unwrap();
        let mut all: Vec<_> = (0_u32..)
            .zip(&logits)
            .map(|(token, &logit)| Candidate { token: TokenId(token), logit, probability: 0.0 })
            .collect();
        all.sort_by(likelier);
        all.truncate(k);
        assert_eq!(scratch.survivors(), all);
        Ok(())
    });
}

#[test]
fn greedy_takes_the_lowest_of_equals() {
    let logits = [1.0, 5.0, 5.0, -0.0, 0.0, 5.0];
    let mut scratch = Scratch::new(6, HEAP).unwrap();
    for params in [SamplerParams::greedy(), SamplerParams { top_k: 1, ..SamplerParams::default() }] {
        let mut sampler = Sampler::new(&params, &[], scope(6), HEAP).unwrap();
        let sampled = sampler.sample(&logits, 9, None, &mut scratch).unwrap();
        assert_eq!((sampled.token, sampled.probability), (TokenId(1), 1.0));
    }
}

#[test]
fn frequencies_match_probabilities() {
    let logits = [0.0_f32, 1.0, 2.0, f32::NEG_INFINITY];
    let mut scratch = Scratch::new(4, HEAP).unwrap();
    let mut sampler = Sampler::new(&neutral(), &[], scope(4), HEAP).unwrap();
    let mut counts = [0_u32; 4];
    for position in 0..20_000 {
        counts[sampler.sample(&logits, position, None, &mut scratch).unwrap().token.0 as usize] += 1;
    }
    for (count, expected) in counts.iter().zip([0.090_03, 0.244_73, 0.665_24, 0.0]) {
        // four standard deviations of a count are at most 0.015 of 20,000
        assert!((f64::from(*count) / 20_000.0 - expected).abs() < 0.015, "{counts:?}");
    }
    assert_eq!(counts[3], 0);
}

#[test]
fn mask_and_bias_decide() {
    let logits: Vec<f32> = (0_u8..70).map(f32::from).collect();
    let mut scratch = Scratch::new(70, HEAP).unwrap();
    let pick = |scratch: &mut Scratch<'_>, bias: &[LogitBias], words: &[u32]| {
        let mut sampler = Sampler::new(&SamplerParams::greedy(), bias, scope(70), HEAP).unwrap();
        sampler.sample(&logits, 0, Some(TokenMask::new(words)), scratch).map(|sampled| sampled.token.0)
    };
    let all = [u32::MAX; 3];
    let bias = |token, bias| LogitBias { token: TokenId(token), bias };
    assert_eq!(pick(&mut scratch, &[], &all), Ok(69));
    assert_eq!(pick(&mut scratch, &[], &all[..2]), Ok(63));
    assert_eq!(pick(&mut scratch, &[], &[0b1011]), Ok(3));
    assert_eq!(pick(&mut scratch, &[bias(3, f32::NEG_INFINITY)], &[0b1011]), Ok(1));
    assert_eq!(pick(&mut scratch, &[bias(0, 100.0)], &all), Ok(0));
    assert_eq!(pick(&mut scratch, &[bias(0, f32::MAX), bias(0, f32::MAX)], &all), Ok(0));
    assert_eq!(pick(&mut scratch, &[], &[]), Err(SampleError::AllForbidden));
    assert_eq!(pick(&mut scratch, &[bias(2, f32::NEG_INFINITY)], &[4]), Err(SampleError::AllForbidden));
    assert!(TokenMask::new(&[4]).allows(TokenId(2)) && !TokenMask::new(&[4]).allows(TokenId(34)));
}

#[test]
fn bad_logits_are_errors() {
    let mut scratch = Scratch::new(3, HEAP).unwrap();
    let mut sampler = Sampler::new(&SamplerParams::default(), &[], scope(3), HEAP).unwrap();
    let mut check = |logits: &[f32], expected: &str| {
        let error = sampler.sample(logits, 0, None, &mut scratch).unwrap_err();
        assert_eq!(format!("{error}"), expected);
    };
    check(&[1.0, f32::NAN, 2.0], "the model computed NaN as the logit of token 1; the file may be damaged");
    check(
        &[1.0, 2.0, f32::INFINITY],
        "the model computed inf as the logit of token 2; the file may be damaged",
    );
    check(&[f32::NEG_INFINITY; 3], "the model gave every token minus infinity; the file may be damaged");
    check(&[1.0; 2], "2 logits for a vocabulary of 3 tokens");
}

#[test]
fn parameters_outside_their_range_are_named() {
    let error = |params: SamplerParams| format!("{}", params.validate().unwrap_err());
    let default = SamplerParams::default;
    assert_eq!(default().validate(), Ok(()));
    assert_eq!(SamplerParams::greedy().validate(), Ok(()));
    assert_eq!(error(SamplerParams { top_p: 1.5, ..default() }), "top_p is 1.5; it must be from 0 to 1");
    assert_eq!(
        error(SamplerParams { temperature: f32::NAN, ..default() }),
        "temperature is NaN; it must be from 0 to 1000"
    );
    let mut params = default();
    params.penalties.repeat = 0.0;
    assert_eq!(error(params), "repeat_penalty is 0; it must be from 0.01 to 100");
    assert_eq!(
        error(SamplerParams { logprobs: Some(21), ..default() }),
        "logprobs is 21; it must be from 0 to 20"
    );
    let bias = [LogitBias { token: TokenId(3), bias: 1.0 }];
    let refused = Sampler::new(&default(), &bias, scope(3), HEAP).err();
    assert_eq!(refused, Some(SamplerError::BiasToken { token: TokenId(3), vocab_len: 3 }));
}

/// Whatever else is on, temperature 0 picks the likeliest token.
#[test]
fn at_temperature_0_the_likeliest_token_is_picked() {
    let heap: Heap<'_> = &Global;
    let logits = [1.0, 3.0, 2.9, 2.8];
    let zero =
        SamplerParams { temperature: 0.0, top_k: 0, top_p: 1.0, min_p: 0.0, ..SamplerParams::default() };
    let (mut xtc, mut mirostat, mut adaptive) = (zero.clone(), zero.clone(), zero.clone());
    xtc.xtc = XtcParams { probability: 1.0, threshold: 0.1 };
    mirostat.mirostat.version = MirostatVersion::V2;
    adaptive.adaptive.target = 0.1;
    let dynamic = SamplerParams { dynatemp_range: 2.0, ..zero.clone() };
    let typical = SamplerParams { typical_p: 0.1, ..zero };
    for (name, params) in [
        ("xtc", xtc),
        ("mirostat", mirostat),
        ("adaptive", adaptive),
        ("dynatemp", dynamic),
        ("typical", typical),
    ] {
        let scope = SamplerScope { request: 0, vocab_len: logits.len(), context_len: 8, breakers: None };
        let mut sampler = Sampler::new(&params, &[], scope, heap).unwrap();
        let mut scratch = Scratch::new(logits.len(), heap).unwrap();
        for position in 0..32 {
            let sampled = sampler.sample(&logits, position, None, &mut scratch).unwrap();
            assert_eq!(sampled.token, TokenId(1), "{name}");
        }
    }
}

/// Expected values computed with NumPy in f64.
#[test]
fn reports_can_be_about_what_was_left_to_draw_from() {
    let heap: Heap<'_> = &Global;
    let logits = [0.0, 1.0, 2.0, 3.0, f32::NEG_INFINITY];
    let params = SamplerParams {
        temperature: 1.0,
        top_k: 3,
        top_p: 1.0,
        min_p: 0.0,
        logprobs: Some(20),
        post_sampling: true,
        ..SamplerParams::default()
    };
    let scope = SamplerScope { request: 0, vocab_len: logits.len(), context_len: 8, breakers: None };
    let mut sampler = Sampler::new(&params, &[], scope, heap).unwrap();
    let mut scratch = Scratch::new(logits.len(), heap).unwrap();
    let sampled = sampler.sample(&logits, 0, None, &mut scratch).unwrap();
    let report = sampled.logprobs.unwrap();
    let close = |a: f32, b: f32| assert!((a - b).abs() < 1e-6, "{a} {b}");
    // exp(3), exp(2) and exp(1) by their sum
    let expected = [(3, 0.665_240_9), (2, 0.244_728_5), (1, 0.090_030_6)];
    assert_eq!(report.top.len(), 3);
    for (top, (token, probability)) in report.top.iter().zip(expected) {
        assert_eq!(top.token, TokenId(token));
        close(libm::expf(top.log_prob), probability);
    }
    assert_eq!(report.chosen.token, sampled.token);
    close(libm::expf(report.chosen.log_prob), sampled.probability);
}

#[test]
fn logprobs_describe_the_raw_logits() {
    let logits = [1.0, 3.0, 2.0, 3.0, f32::NEG_INFINITY];
    let mut params = SamplerParams::greedy();
    params.logprobs = Some(3);
    let bias = [LogitBias { token: TokenId(0), bias: 50.0 }];
    let mut sampler = Sampler::new(&params, &bias, scope(5), HEAP).unwrap();
    let mut scratch = Scratch::new(5, HEAP).unwrap();
    let logprobs = sampler.sample(&logits, 0, None, &mut scratch).unwrap().logprobs.unwrap();
    let close = |a: f32, b: f32| assert!((a - b).abs() < 1e-6, "{a} {b}");
    assert_eq!(logprobs.chosen.token, TokenId(0));
    close(logprobs.chosen.log_prob, -2.917_575_8);
    let tokens: Vec<_> = logprobs.top.iter().map(|top| top.token.0).collect();
    assert_eq!(tokens, [1, 3, 2]);
    close(logprobs.top[0].log_prob, -0.917_575_8);
    close(logprobs.top[2].log_prob, -1.917_575_8);
    assert_eq!(log_prob(&logits, TokenId(4)), Some(f64::NEG_INFINITY));
    assert_eq!(log_prob(&logits, TokenId(5)), None);
}

/// A long repetition under any base stays finite, and a window longer than the context is bounded by it.
#[test]
fn dry_on_a_long_repetition_is_finite() {
    let mut params = neutral();
    params.dry.multiplier = 1000.0;
    params.dry.base = 900.0;
    let mut sampler = Sampler::new(&params, &[], scope(3), HEAP).unwrap();
    for _ in 0..5000 {
        sampler.accept(TokenId(1));
    }
    let mut scratch = Scratch::new(3, HEAP).unwrap();
    let sampled = sampler.sample(&[0.0, 100.0, 0.0], 0, None, &mut scratch).unwrap();
    assert!(sampled.token != TokenId(1));
    let sampled =
        sampler.sample(&[f32::NEG_INFINITY, 100.0, f32::NEG_INFINITY], 0, None, &mut scratch).unwrap();
    assert_eq!((sampled.token, sampled.probability), (TokenId(1), 1.0));
}
