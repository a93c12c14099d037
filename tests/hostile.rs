//! Hostile input, as much as fits a test run: every truncation, many mutations, random bytes for every driver of
//! `doorbell_tests::hostile`. `DOORBELL_MUTATIONS=100000` and `cargo xtask fuzz` try more.

use doorbell_core::quant::Type;
use doorbell_tests::hostile::{Reached, bind, detoken, edited, gguf, open, sample, token};
use doorbell_tests::random::Random;
use doorbell_tests::tiny::{self, Family, Shape};
use std::path::Path;

/// Models with both kinds of vocabulary, and with quantized experts.
fn three() -> [Vec<u8>; 3] {
    [(Family::Llama, Type::F32), (Family::Gemma3, Type::Q8_0), (Family::Qwen3Moe, Type::Q4_0)]
        .map(|(family, kind)| tiny::model(family, Shape::TINY, kind, 9).to_bytes())
}

#[test]
fn every_truncation_is_survived() {
    for file in three() {
        assert_eq!(open(&file), Reached::Logits);
        // The padding after the last tensor may be missing.
        let whole = (0..file.len()).filter(|&len| open(&file[..len]) != Reached::Nothing).count();
        assert!(whole < 32, "{whole} truncations were read");
    }
}

/// Number of mutations.
fn count() -> u64 {
    std::env::var("DOORBELL_MUTATIONS").map_or(3000, |count| count.parse().expect("a number"))
}

/// Overwrites, inserts or removes a few bytes anywhere, mostly before the data.
fn mutate(file: &mut Vec<u8>, random: &mut Random) {
    for _ in 0..=random.below(4) {
        let front = if random.below(4) == 0 { file.len() } else { file.len().min(14 << 10) };
        let position = random.below(front);
        let end = (position + [1, 1, 4, 8][random.below(4)]).min(file.len());
        match random.below(6) {
            0 => file[position..end].fill(0xff),
            1 => file[position..end].fill(0),
            2 => file[position] ^= 1 << random.below(8),
            3 => drop(file.drain(position..end)),
            4 => drop(file.splice(position..position, (0..end - position).map(|_| random.below(256) as u8))),
            _ => file[position] = random.below(256) as u8,
        }
        if file.is_empty() {
            return;
        }
    }
}

#[test]
fn random_mutations_are_survived() {
    let files = three();
    let mut reached = [0_u64; 4];
    for seed in 0..count() {
        let mut random = Random::new(seed);
        let mut file = files[random.below(files.len())].clone();
        mutate(&mut file, &mut random);
        reached[open(&file) as usize] += 1;
    }
    println!("not read, read, bound, computed: {reached:?}");
    assert!(reached[Reached::File as usize] > 0 && reached[Reached::Logits as usize] > 0);
}

#[test]
fn random_edits_are_survived() {
    let mut reached = [0_u64; 4];
    for seed in 0..count() {
        let mut random = Random::new(seed);
        let mut bytes = vec![0; 1 + random.below(200)];
        random.fill(&mut bytes);
        reached[open(&edited(&bytes)) as usize] += 1;
    }
    println!("not read, read, bound, computed: {reached:?}");
    assert!(reached[Reached::File as usize] > 0 && reached[Reached::Logits as usize] > 0);
}

/// Uses the bytes as a host would.
type Driver = fn(&[u8]);

fn with_random_bytes(most: usize, driver: Driver) {
    for seed in 0..count() {
        let mut random = Random::new(seed);
        let mut bytes = vec![0; random.below(most)];
        random.fill(&mut bytes);
        driver(&bytes);
    }
}

#[test]
fn any_text_is_encoded() {
    with_random_bytes(200, token);
}

#[test]
fn any_tokens_are_decoded() {
    with_random_bytes(200, detoken);
}

#[test]
fn any_logits_are_sampled_or_refused() {
    with_random_bytes(600, sample);
}

/// Inputs that broke a rule before, and the seeds of the fuzz targets, each with its driver.
#[test]
fn kept_inputs_are_survived() {
    let drivers: [(&str, Driver); 5] =
        [("gguf", gguf), ("bind", bind), ("token", token), ("detoken", detoken), ("sample", sample)];
    for (name, driver) in drivers {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/kept").join(name);
        let Ok(entries) = std::fs::read_dir(folder) else { continue };
        for entry in entries {
            let path = entry.expect("a folder that can be read").path();
            println!("{}", path.display());
            driver(&std::fs::read(path).expect("a file that can be read"));
        }
    }
}
