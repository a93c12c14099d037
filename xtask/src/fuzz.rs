//! `cargo xtask fuzz TARGET [--seconds N]`: runs a libFuzzer target of `tests/fuzz`, from seeds made here and the inputs
//! kept there. The checks of a target are in `doorbell_tests::hostile`.

use crate::process::{cargo, execute, root};
use anyhow::{Context as _, bail};
use doorbell_core::quant::Type;
use doorbell_tests::random::Random;
use doorbell_tests::tiny::{self, Family, Shape};
use std::fs;
use std::path::Path;

/// Arguments of `cargo xtask fuzz`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The kind of input.
    target: Target,
    /// Duration in seconds.
    #[arg(long, default_value_t = 60)]
    seconds: u32,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Target {
    /// Whole model files.
    Gguf,
    /// Model files with a few things wrong.
    Bind,
    /// Texts to tokens.
    Token,
    /// Tokens to texts.
    Detoken,
    /// Parameters and logits.
    Sample,
    /// Code objects for the software GPU.
    Elf,
    /// Rings for it.
    Pm4,
    /// Instructions for it.
    Inst,
    /// Conversations.
    History,
}

impl Target {
    fn name(self) -> &'static str {
        match self {
            Self::Gguf => "gguf",
            Self::Bind => "bind",
            Self::Token => "token",
            Self::Detoken => "detoken",
            Self::Sample => "sample",
            Self::Elf => "elf",
            Self::Pm4 => "pm4",
            Self::Inst => "inst",
            Self::History => "history",
        }
    }

    /// Initial inputs of the target.
    fn seeds(self) -> Result<Vec<Vec<u8>>, anyhow::Error> {
        let mut random = Random::new(1);
        Ok(match self {
            Self::Gguf => {
                let kinds = [Type::Q4_0, Type::F32, Type::Q8_0];
                let families = Family::ALL.into_iter().zip(kinds.into_iter().cycle());
                families.map(|(family, kind)| tiny::model(family, Shape::TINY, kind, 1).to_bytes()).collect()
            }
            Self::Token => {
                TEXTS.iter().zip(0..).map(|(text, which)| [&[which, 2], text.as_bytes()].concat()).collect()
            }
            Self::Elf => code_objects()?,
            // Every eighth KiB of compiled code, for every chip at both levels.
            Self::Inst => code_objects()?
                .iter()
                .flat_map(|file| file.chunks(8192).zip((0..).step_by(5)))
                .map(|(code, which)| [&[which], &code[..code.len().min(1024)]].concat())
                .collect(),
            Self::Pm4 => rings(),
            Self::Bind | Self::Detoken | Self::Sample | Self::History => (1..=24)
                .map(|size| {
                    let mut bytes = vec![0; size * 24];
                    random.fill(&mut bytes);
                    bytes
                })
                .collect(),
        })
    }
}

/// Small compiled files of every chip.
fn code_objects() -> Result<Vec<Vec<u8>>, anyhow::Error> {
    let names = ["gfx1100-driver", "gfx1151-driver", "gfx1200-driver", "gfx1100-O2", "gfx1200-O2"];
    let path = |name| root().join(format!("tests/goldens/soft/{name}.co"));
    names
        .into_iter()
        .map(path)
        .map(|path| fs::read(&path).with_context(|| path.display().to_string()))
        .collect()
}

/// One packet of every kind, with addresses in the memory of the target.
fn rings() -> Vec<Vec<u8>> {
    let data = 0x3_0000;
    let packets: [&[u32]; 10] = [
        &[0xc001_1000, 0, 0],
        &[0xc002_7600, 0x20c, 0, 0],
        &[0xc003_1500, 1, 1, 1, 1],
        &[0xc003_3700, 0x0010_0500, data, 0, 7],
        &[0xc005_3c00, 0x13, data, 0, 0, u32::MAX, 4],
        &[0xc002_3f00, data, 0, 0x80_0010],
        &[0xc006_4900, 0, 0x4000_0000, data, 0, 7, 0, 0],
        &[0x1, 4096, 0, data, 0, data + 64, 0],
        &[0x5, data, 0, 7],
        &[0x0001_0002, 1, 1, 1, 1, 1, 0, 0, data, 0, data, 0, 0, 0, data, 0],
    ];
    let each =
        packets.iter().enumerate().map(|(at, words)| (if at < 7 { 0 } else { (10 - at as u8) % 3 }, *words));
    let bytes = |words: &[u32]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
    let mut seeds: Vec<Vec<u8>> =
        each.map(|(kind, words)| [&[4, kind][..], &bytes(words)].concat()).collect();
    seeds.push([&[0, 0][..], &bytes(&packets[..7].concat())].concat());
    seeds
}

const TEXTS: [&str; 9] = [
    "<|im_start|>user\nhow many?<|im_end|>\n",
    "It's they've I'LL don't 'tis",
    "    indented\n\n\n\tcode 123456789\r\n",
    "na\u{ef}ve \u{4e16}\u{754c} \u{1f980}\u{200d}\u{1f3fb} \u{301}",
    "<|endoftext|><s></s><unk>",
    "3.14159, 1,000,000 and 2^32!",
    "\u{a0}\u{2003}\u{3000} white",
    "CamelCaseWords snake_case_words",
    "\u{2581}the\u{2581}people <0x0A><0xFF>",
];

/// Flags of rustc for libFuzzer, as cargo-fuzz sets them.
const FLAGS: &str = "-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares -Ccodegen-units=1 --cfg fuzzing";

/// The target triple is named, so that build scripts are not instrumented.
const TRIPLE: &str = "x86_64-unknown-linux-gnu";

pub(crate) fn run(arguments: &Arguments) -> Result<(), anyhow::Error> {
    let name = arguments.target.name();
    let folder = root().join("tests/fuzz");
    let target = root().join("target/fuzz");
    let mut build = cargo(["build", "--release", "--quiet", "--target", TRIPLE, "--bin", name]);
    build.arg("--manifest-path").arg(folder.join("Cargo.toml")).arg("--target-dir").arg(&target);
    // The passes need no nightly, only the permission.
    execute(build.env("RUSTC_BOOTSTRAP", "1").env("RUSTFLAGS", FLAGS))?;
    let corpus = target.join("corpus").join(name);
    fs::create_dir_all(&corpus).with_context(|| format!("create {}", corpus.display()))?;
    for (index, seed) in arguments.target.seeds()?.iter().enumerate() {
        write(&corpus.join(format!("seed-{index}")), seed)?;
    }
    let kept = folder.join("kept").join(name);
    fs::create_dir_all(&kept)?;
    let found = target.join("found").join(name);
    fs::create_dir_all(&found)?;
    let program = target.join(TRIPLE).join("release").join(name);
    let mut fuzz = crate::process::command(
        program,
        [
            format!("-max_total_time={}", arguments.seconds),
            format!("-artifact_prefix={}/", found.display()),
            // No hang over 5 s, no allocation over 64 MiB and the file; libFuzzer counts MiB.
            "-timeout=5".into(),
            "-malloc_limit_mb=80".into(),
            "-max_len=65536".into(),
            "-print_final_stats=1".into(),
        ],
    );
    // A backtrace takes longer than the limit for a hang, which would then be reported instead.
    fuzz.env("RUST_BACKTRACE", "0");
    if execute(fuzz.arg(&corpus).arg(&kept)).is_err() {
        bail!(
            "an input in {} breaks a rule: fix it, and keep the input in {}",
            found.display(),
            kept.display()
        );
    }
    Ok(())
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), anyhow::Error> {
    fs::write(path, bytes).with_context(|| format!("write {}", path.display()))
}
