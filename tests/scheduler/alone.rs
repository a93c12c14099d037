//! The expected answer of a request: token after token from the same scores, without an engine or other requests.

use crate::Job;
use crate::fake::{END, Grammars, after, scores};
use doorbell_core::engine::{FinishReason, RequestId, TokenConstraints as _};
use doorbell_core::heap::{Global, Heap};
use doorbell_core::sample::{LogProbs, Sampler, SamplerScope, Scratch};
use doorbell_core::token::TokenId;

const HEAP: Heap<'static> = &Global;

/// A token, and the bits of the log probabilities that came with it.
pub(crate) type OutputToken = (TokenId, Vec<(TokenId, u32)>);

pub(crate) fn output_token(token: TokenId, log_probs: Option<&LogProbs>) -> OutputToken {
    let reports = log_probs.into_iter().flat_map(|all| core::iter::once(&all.chosen).chain(&all.top));
    (token, reports.map(|report| (report.token, report.log_prob.to_bits())).collect())
}

/// The output of a job and the reason of its end, for sequences of at most `context` tokens.
pub(crate) fn alone(vocabulary: u32, context: u32, nan: bool, job: &Job) -> (Vec<OutputToken>, FinishReason) {
    let wanted = job.prompt.len() as u32 + job.max_tokens;
    let limit = context.min(wanted);
    let vocab_len = vocabulary as usize;
    let scope = SamplerScope { request: 0, vocab_len, context_len: limit as usize, breakers: None };
    let mut sampler = Sampler::new(&job.params, &[], scope, HEAP).unwrap();
    let mut scratch = Scratch::new(vocab_len, HEAP).unwrap();
    let (mut grammars, id) = (Grammars::default(), RequestId(0));
    if job.grammar {
        grammars.add(id);
    }
    let (mut hash, mut position) = (0, 0);
    for &token in &job.prompt {
        hash = after(hash, token, position);
        sampler.accept(token);
        position += 1;
    }
    let (mut output, mut row) = (Vec::new(), vec![0.0; vocab_len]);
    loop {
        scores(hash, nan, &mut row);
        let sampled = match sampler.sample(&row, position, grammars.mask(id), &mut scratch) {
            Ok(sampled) => sampled,
            Err(error) => return (output, FinishReason::Sampling(error)),
        };
        let token = sampled.token;
        grammars.accept(id, token);
        if token == END && !job.ignore_end {
            return (output, FinishReason::EndOfGeneration(token));
        }
        sampler.accept(token);
        output.push(output_token(token, sampled.logprobs.as_ref()));
        hash = after(hash, token, position);
        position += 1;
        if position == limit {
            let full = wanted > context;
            return (output, if full { FinishReason::ContextFull } else { FinishReason::MaxTokens });
        }
    }
}
