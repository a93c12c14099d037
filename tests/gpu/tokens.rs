//! Greedy tokens equal those of the CPU driver, whatever the chunks of the prompt.

use crate::bench::{FIRST, HEAP, PAGES, end, goldens, open, prompt, run, settings, soft, with_model};
use doorbell_core::backend::{Backend, KvType};
use doorbell_core::model::Model;
use doorbell_core::plan::{HeadResult, Shape};
use doorbell_core::token::TokenId;
use doorbell_cpu::backend::CpuBackend;
use doorbell_gpu::Settings;
use doorbell_soft::processor::Level;
use doorbell_tests::tiny;

const PROMPT: u32 = 40;
const TOKENS: usize = 16;
const CHUNKS: [u32; 3] = [1, 16, PROMPT];
/// Chips, and the size of chunk that each watches: all that is watched takes many times as long.
const CHIPS: [(&str, u32); 3] = [("gfx1100", 16), ("gfx1151", PROMPT), ("gfx1200", 16)];

/// True if everything runs under all sanitizers, and not only a part.
fn all_strict() -> bool {
    std::env::var_os("DOORBELL_STRICT").is_some()
}

/// Combinations that ran without a finding.
#[derive(Default)]
struct Runs {
    strict: usize,
    fast: usize,
    /// Those that chose another token as likely.
    ties: usize,
    /// Wave instructions under the sanitizers.
    watched: u64,
}

impl Runs {
    fn tell(&self) {
        let Self { strict, fast, ties, watched } = self;
        println!("{strict} strict runs of {watched} wave instructions, {fast} fast ones; {ties} ties");
        assert!(*watched > 0 && 4 * ties <= strict + fast);
    }
}

/// A token and the logits that it was chosen by.
type Chosen = (TokenId, Vec<f32>);

/// Greedy tokens after a prompt that is computed in chunks.
fn greedy<B: Backend>(model: &Model<'_>, backend: &mut B, chunk: u32) -> Vec<Chosen> {
    let plan = |rows| model.plan(Shape { rows, outputs: 1 }, HeadResult::Logits, HEAP).unwrap();
    let (full, single) = (plan(chunk), plan(1));
    let tokens = prompt(model, PROMPT);
    let mut logits = Vec::new();
    for (index, chunk_tokens) in tokens.chunks(chunk as usize).enumerate() {
        let last = chunk_tokens.len() as u32 - 1;
        logits = run(model, backend, &full, (chunk_tokens, index as u32 * chunk), &[last]).unwrap();
    }
    let best = |logits: &[f32]| {
        let better = |best: usize, id: usize| if logits[id] > logits[best] { id } else { best };
        TokenId((0..logits.len()).reduce(better).unwrap() as u32)
    };
    let mut found = vec![(best(&logits), logits)];
    for position in PROMPT.. {
        if found.len() == TOKENS {
            break;
        }
        let last = [found.last().unwrap().0];
        let logits = run(model, backend, &single, (&last, position), &[0]).unwrap();
        found.push((best(&logits), logits));
    }
    found
}

/// Requires equal tokens, or another one that the CPU finds as likely to within `tie`, after which texts go their own
/// ways. Whether all are equal; a difference is told with the CPU's gap between the two.
fn compare(found: &[Chosen], expected: &[Chosen], tie: f32, what: &str) -> bool {
    assert_eq!(found.len(), expected.len(), "{what}");
    for (index, ((found, _), (token, logits))) in found.iter().zip(expected).enumerate() {
        let gap = logits[token.0 as usize] - logits[found.0 as usize];
        if found != token {
            assert!(gap < tie, "{what}: token {index} is {found:?}, not {token:?}, gap {gap}");
            return false;
        }
    }
    true
}

/// Continues on all chips by every size of chunk as on the CPU, with keys and values of a type, but for ties.
fn continues(name: &str, model: &Model<'_>, (kv, tie): (KvType, f32), runs: &mut Runs) {
    let mut cpu = CpuBackend::new(model, PAGES, kv, 1, HEAP).unwrap();
    let expected = greedy(model, &mut cpu, PROMPT);
    for (chip, watched) in CHIPS {
        for chunk in CHUNKS {
            let strict = all_strict() || chunk == watched;
            let kernel = soft(chip, if strict { Level::Strict } else { Level::Fast });
            let mut backend = open(&kernel, model, Settings { kv, ..settings(chunk) }).unwrap();
            let gpu = backend.process().unwrap().device(FIRST).gpu_id();
            let what = format!("{name} on {chip} by {chunk}, {kv}");
            let equal = compare(&greedy(model, &mut backend, chunk), &expected, tie, &what);
            runs.ties += usize::from(!equal);
            end(&kernel, backend, &what);
            *(if strict { &mut runs.strict } else { &mut runs.fast }) += 1;
            runs.watched += if strict { kernel.report(gpu).unwrap().instructions } else { 0 };
        }
    }
}

/// Each has the operations of some families, all together have all.
#[test]
fn every_golden_continues_as_on_the_cpu() {
    let mut runs = Runs::default();
    for (name, bytes) in goldens() {
        with_model(&bytes, |model| continues(&name, model, (KvType::F16, 0.0), &mut runs));
    }
    runs.tell();
}

/// Whole models whose keys and values are kept in blocks on both sides, where a value between two codes may take
/// either: the tiny ones, and the goldens whose heads are large enough for blocks.
#[test]
fn caches_in_blocks_continue_as_on_the_cpu() {
    let mut runs = Runs::default();
    let tiny = tiny::Family::ALL.map(|family| (family.name().to_owned(), tiny::f32_model(family, 1)));
    let all = tiny.into_iter().chain(goldens());
    let mut families = 0;
    for (name, bytes) in all {
        with_model(&bytes, |model| {
            let mut dims = model.groups.iter().flat_map(|group| [group.key_dim, group.value_dim]);
            if dims.all(|dim| dim % KvType::Q8_0.block_len() as u32 == 0) {
                families += 1;
                continues(&name, model, (KvType::Q8_0, 0.01), &mut runs);
            }
        });
    }
    assert!(families > tiny::Family::ALL.len(), "no golden has heads of whole blocks");
    runs.tell();
}
