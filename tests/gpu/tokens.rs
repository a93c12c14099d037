//! Greedy tokens equal those of the CPU driver, whatever the chunks of the prompt.

use crate::bench::{CHIPS, HEAP, PAGES, end, goldens, open, prompt, run, settings, soft, with_model};
use doorbell_core::backend::{Backend, KvType};
use doorbell_core::model::Model;
use doorbell_core::plan::{HeadResult, Shape};
use doorbell_core::token::TokenId;
use doorbell_cpu::backend::CpuBackend;
use doorbell_soft::processor::Level;

const PROMPT: u32 = 40;
const TOKENS: usize = 16;

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

/// Requires equal tokens; a difference is told with the CPU's gap between the two.
fn compare(found: &[Chosen], expected: &[Chosen], what: &str) {
    for (index, ((found, _), (token, logits))) in found.iter().zip(expected).enumerate() {
        let gap = logits[token.0 as usize] - logits[found.0 as usize];
        assert_eq!(found, token, "{what}: token {index}, gap {gap}");
    }
    assert_eq!(found.len(), expected.len(), "{what}");
}

#[test]
fn every_family_continues_as_on_the_cpu() {
    for (name, bytes) in goldens() {
        with_model(&bytes, |model| {
            let mut cpu = CpuBackend::new(model, PAGES, KvType::F16, 1, HEAP).unwrap();
            let expected = greedy(model, &mut cpu, PROMPT);
            for chip in CHIPS {
                for chunk in [1, 16, PROMPT] {
                    // Each chip watches another size of chunk: all that is watched takes many times as long.
                    let watched = if chip == CHIPS[0] { 16 } else { PROMPT };
                    let kernel = soft(chip, if chunk == watched { Level::Strict } else { Level::Fast });
                    let mut backend = open(&kernel, model, settings(chunk)).unwrap();
                    let what = format!("{name} on {chip} by {chunk}");
                    compare(&greedy(model, &mut backend, chunk), &expected, &what);
                    end(&kernel, backend, &what);
                }
            }
        });
    }
}
