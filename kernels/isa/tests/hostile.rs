//! Arbitrary words: the decoder returns an instruction that encodes to the same words, or a typed error.

use doorbell_isa::{Counters, DecodeError, Effects, TARGETS, Target, decode, encode};

/// Number of arbitrary inputs; they are the same in every run.
const CASES: u64 = 50_000;

#[test]
fn arbitrary_words_decode_or_fail() {
    let mut property = |u: &mut arbtest::arbitrary::Unstructured<'_>| {
        let words: [u32; 4] = u.arbitrary()?;
        let length = u.int_in_range(0..=4)?;
        let words = &words[..length];
        for target in TARGETS {
            match decode(words, target) {
                Ok((inst, used)) => {
                    assert_eq!(encode(&inst, target).unwrap().words(), &words[..used]);
                    assert!(!inst.text(target).to_string().is_empty());
                    assert!(Effects::of(&inst).iter().count() < 16);
                    let _: Counters = inst.counters(target);
                }
                Err(DecodeError::Truncated { needed, found, .. }) => {
                    assert!(found < needed && found == length)
                }
                Err(error) => assert!(!error.to_string().is_empty()),
            }
        }
        Ok(())
    };
    for case in 1..=CASES {
        // arbtest's seeds are a state of its generator above and the number of bytes below
        arbtest::arbtest(&mut property).seed(case.wrapping_mul(0x9e37_79b9) << 32 | 32).run();
    }
}

#[test]
fn single_bit_changes_of_real_instructions_decode_or_fail() {
    for line in include_str!("sample/gfx1200.txt").lines().step_by(7) {
        let words = line.split('|').next().unwrap().split(' ');
        let words: Vec<u32> = words.map(|word| u32::from_str_radix(word, 16).unwrap()).collect();
        for bit in 0..words.len() * 32 {
            let mut changed = words.clone();
            changed[bit / 32] ^= 1 << (bit % 32);
            for target in TARGETS {
                if let Ok((inst, used)) = decode(&changed, target) {
                    assert_eq!(encode(&inst, target).unwrap().words(), &changed[..used]);
                }
            }
        }
    }
}

/// The error for an instruction that is cut off names it, unless no dword is left.
#[test]
fn errors_name_instructions_that_are_cut_off() {
    let mut cut = 0;
    for (target, sample) in TARGETS.into_iter().filter_map(|target| match target {
        Target::Gfx1100 => Some((target, include_str!("sample/gfx1100.txt"))),
        Target::Gfx1200 => Some((target, include_str!("sample/gfx1200.txt"))),
        _ => None,
    }) {
        for line in sample.lines() {
            let words = line.split('|').next().unwrap().split(' ');
            let words: Vec<u32> = words.map(|word| u32::from_str_radix(word, 16).unwrap()).collect();
            let (inst, _) = decode(&words, target).unwrap();
            for length in 1..words.len() {
                let error = decode(&words[..length], target).unwrap_err();
                assert!(matches!(error, DecodeError::Truncated { .. }), "{line}: {error}");
                assert!(error.to_string().starts_with(inst.op.name()), "{line}: {error}");
                cut += 1;
            }
        }
    }
    assert!(cut > 1000, "only {cut}");
    let empty = decode(&[], Target::Gfx1100).unwrap_err();
    assert_eq!(empty, DecodeError::Truncated { op: None, needed: 1, found: 0 });
}
