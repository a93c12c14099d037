//! Scoring: the logits of every position of a given text, without sampling.

use crate::backend::{Backend, Output};
use crate::heap::{self, Heap, OutOfMemory};
use crate::model::Model;
use crate::plan::{
    Batch, HeadResult, PAGE_TOKENS, PageId, PageSpan, PageTables, PlanError, RowRun, Shape, StateId,
};
use crate::token::TokenId;
use core::fmt;

/// Rows per step: few, because every row's logits are kept until the step is done.
const CHUNK: u32 = 32;

/// A text that could not be scored.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum ScoreError<E> {
    /// More tokens than positions can name.
    TooLong(usize),
    /// The heap refused.
    Memory(OutOfMemory),
    /// A plan could not be made.
    Plan(PlanError),
    /// The device failed, or a token is not in the vocabulary.
    Backend(E),
    /// The device gave something else than the logits of every row of a step.
    Output {
        /// Position of the step's first row.
        position: u32,
        /// Logits that were asked for.
        expected: usize,
        /// Logits that came; 0 where none were given at all.
        found: usize,
    },
}

impl<E> From<OutOfMemory> for ScoreError<E> {
    fn from(error: OutOfMemory) -> Self {
        Self::Memory(error)
    }
}

impl<E: fmt::Display> fmt::Display for ScoreError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong(tokens) => write!(f, "{tokens} tokens are more than a sequence can hold"),
            Self::Memory(error) => error.fmt(f),
            Self::Plan(error) => error.fmt(f),
            Self::Backend(error) => error.fmt(f),
            Self::Output { position, expected, found } => {
                write!(f, "the device gave {found} logits and not {expected} from position {position} on")
            }
        }
    }
}

impl<E: core::error::Error> core::error::Error for ScoreError<E> {}

/// Calls `each(position, logits)` with the `[vocab]` logits after every token. The backend's first pages are used;
/// `wait` is called while a step runs.
///
/// # Errors
/// [`ScoreError`]; positions already reported stay valid.
pub fn score<B: Backend>(
    model: &Model<'_>,
    backend: &mut B,
    tokens: &[TokenId],
    heap: Heap<'_>,
    wait: &mut dyn FnMut(),
    each: &mut dyn FnMut(u32, &[f32]),
) -> Result<(), ScoreError<B::Error>> {
    let count = u32::try_from(tokens.len()).map_err(|_| ScoreError::TooLong(tokens.len()))?;
    let shape = Shape { rows: CHUNK, outputs: CHUNK };
    let plan = model.plan(shape, HeadResult::Logits, heap).map_err(ScoreError::Plan)?;
    let page_count = count.div_ceil(PAGE_TOKENS as u32);
    let mut pages = heap::with_capacity(heap, page_count as usize)?;
    pages.extend((0..page_count).map(PageId));
    let spans = heap::filled(heap, model.groups.len(), PageSpan { start: 0, len: page_count })?;
    backend.reserve_states(1).map_err(ScoreError::Backend)?;
    let mut outputs = heap::with_capacity(heap, CHUNK as usize)?;
    outputs.extend(0..CHUNK);
    for position in (0..count).step_by(CHUNK as usize) {
        let rows = CHUNK.min(count - position);
        let tables =
            PageTables { pages: &pages, spans: &spans, groups: model.groups.len(), states: &[StateId(0)] };
        let batch = Batch {
            tokens: &tokens[position as usize..(position + rows) as usize],
            runs: &[RowRun { sequence: 0, first_row: 0, rows, position }],
            outputs: &outputs[..rows as usize],
            tables,
        };
        backend.submit(&plan, &batch).map_err(ScoreError::Backend)?;
        loop {
            match backend.poll().map_err(ScoreError::Backend)? {
                None => wait(),
                Some(output) => {
                    let logits = if let Output::Logits(logits) = output { logits } else { &[] };
                    let (expected, found) = (rows as usize * model.vocabulary as usize, logits.len());
                    if found != expected {
                        return Err(ScoreError::Output { position, expected, found });
                    }
                    let rows = logits.chunks_exact(model.vocabulary as usize);
                    (position..).zip(rows).for_each(|(position, logits)| each(position, logits));
                    break;
                }
            }
        }
    }
    Ok(())
}
