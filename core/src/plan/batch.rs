//! The inputs of one step: token rows, the runs they form, and the KV pages of their sequences.

use super::{GroupId, KvPages, MAX_GROUPS, PAGE_TOKENS, Rows, Shape, first_page};
use crate::token::TokenId;
use core::fmt;

/// A page of a KV group's pool: [`PAGE_TOKENS`] positions of every layer of the group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct PageId(pub u32);

impl PageId {
    /// The entry of a page table for positions that lie before the window of every further row. No pool has this page.
    pub const NONE: Self = Self(u32::MAX);
}

/// A place for the recurrent state of one sequence, all layers together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct StateId(pub u32);

/// Consecutive rows of one sequence at consecutive positions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowRun {
    /// Index of the sequence in the batch and its page tables.
    pub sequence: u32,
    /// First row in the batch.
    pub first_row: u32,
    /// Number of rows.
    pub rows: u32,
    /// Position of the first row in its sequence, in tokens.
    pub position: u32,
}

/// The range `start..start + len` of the list of pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PageSpan {
    /// First element.
    pub start: u32,
    /// Number of elements.
    pub len: u32,
}

/// The page tables of a batch's sequences, one per sequence and KV group, flattened.
#[derive(Clone, Copy, Debug, Default)]
pub struct PageTables<'b> {
    /// All pages of all tables.
    pub pages: &'b [PageId],
    /// `[sequences, groups]`: the span of each table in `pages`.
    pub spans: &'b [PageSpan],
    /// Number of KV groups of the model.
    pub groups: usize,
    /// `[sequences]`: where each sequence's recurrent state is; empty for models without one. A state belongs to one
    /// sequence of a batch; a run at position 0 begins with an empty state, whatever was there.
    pub states: &'b [StateId],
}

impl<'b> PageTables<'b> {
    /// The pages of one sequence in one group, in order of position; page `i` holds positions from
    /// `i * PAGE_TOKENS`. Pages that no row of the batch sees may be [`PageId::NONE`]. Empty when the batch has no such
    /// table.
    pub fn of(&self, sequence: u32, group: GroupId) -> &'b [PageId] {
        let at = (sequence as usize).saturating_mul(self.groups).saturating_add(group.index());
        let Some(span) = self.spans.get(at) else { return &[] };
        let start = span.start as usize;
        self.pages.get(start..start.saturating_add(span.len as usize)).unwrap_or(&[])
    }
}

/// One step's input. Every row belongs to exactly one [`RowRun`].
#[derive(Clone, Copy, Debug)]
pub struct Batch<'b> {
    /// `[rows]`: the tokens.
    pub tokens: &'b [TokenId],
    /// The runs, in ascending order of `first_row`, covering all rows.
    pub runs: &'b [RowRun],
    /// `[outputs]`: rows that have an output, ascending.
    pub outputs: &'b [u32],
    /// The page tables of the sequences.
    pub tables: PageTables<'b>,
}

impl Batch<'_> {
    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.tokens.len()
    }

    /// Number of rows of tensors that have a row for each of these.
    pub fn rows_of(&self, rows: Rows) -> usize {
        match rows {
            Rows::Batch => self.rows(),
            Rows::Outputs => self.outputs.len(),
        }
    }

    /// The batch row of a tensor's row.
    ///
    /// # Panics
    /// When there is no such output.
    pub fn batch_row(&self, rows: Rows, row: usize) -> u32 {
        match rows {
            Rows::Batch => row as u32,
            Rows::Outputs => self.outputs[row],
        }
    }

    /// The sequence and position of a row; `None` beyond the batch.
    pub fn locate(&self, row: u32) -> Option<(u32, u32)> {
        let after = self.runs.partition_point(|run| run.first_row <= row);
        let run = self.runs.get(after.checked_sub(1)?)?;
        let offset = row - run.first_row;
        (offset < run.rows).then(|| (run.sequence, run.position + offset))
    }
}

/// Limits of a backend, for [`Batch::check`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchLimits {
    /// The plan's shape.
    pub shape: Shape,
    /// Tokens in the vocabulary.
    pub vocabulary: u32,
    /// Number of KV groups.
    pub groups: usize,
    /// Pages in each group's pool.
    pub pages: KvPages,
    /// `[groups]`: positions visible in each group; `None` for all.
    pub windows: [Option<u32>; MAX_GROUPS],
    /// Recurrent states; `None` for models without one.
    pub states: Option<u32>,
}

/// A batch that can't be run. These are faults of the caller, not of the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum BatchError {
    /// More rows or outputs than the plan was made for.
    TooLarge {
        /// Rows and outputs of the batch.
        found: Shape,
        /// Limits of the plan.
        limit: Shape,
    },
    /// A token that is not in the vocabulary.
    Token {
        /// The token.
        token: TokenId,
        /// Tokens in the vocabulary.
        vocabulary: u32,
    },
    /// The runs do not cover the rows in order.
    Runs {
        /// First row that is out of order.
        row: u32,
    },
    /// Output rows are not ascending or not in the batch.
    Output {
        /// The row.
        row: u32,
    },
    /// A position without a KV page, or a page that is not in the pool.
    Page {
        /// The sequence.
        sequence: u32,
        /// The position, in tokens.
        position: u32,
    },
    /// A sequence without a recurrent state, or a state that is not there.
    State {
        /// The sequence.
        sequence: u32,
    },
}

impl fmt::Display for BatchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLarge { found, limit } => write!(
                f,
                "the batch has {} rows and {} outputs, the plan takes {} and {}",
                found.rows, found.outputs, limit.rows, limit.outputs
            ),
            Self::Token { token, vocabulary } => {
                write!(f, "token {} is not in the vocabulary of {vocabulary}", token.0)
            }
            Self::Runs { row } => write!(f, "batch row {row} is in no run"),
            Self::Output { row } => write!(f, "output row {row} is out of order or not in the batch"),
            Self::Page { sequence, position } => {
                write!(f, "sequence {sequence} has no KV page at position {position}")
            }
            Self::State { sequence } => write!(f, "sequence {sequence} has no recurrent state"),
        }
    }
}

impl core::error::Error for BatchError {}

impl Batch<'_> {
    /// Checks everything that a backend relies on; afterwards rows, tokens and pages are valid indexes.
    ///
    /// # Errors
    /// The first rule that does not hold.
    pub fn check(&self, limits: &BatchLimits) -> Result<(), BatchError> {
        let count = |len: usize| u32::try_from(len).unwrap_or(u32::MAX);
        let found = Shape { rows: count(self.rows()), outputs: count(self.outputs.len()) };
        let limit = limits.shape;
        if found.rows > limit.rows || found.outputs > limit.outputs {
            return Err(BatchError::TooLarge { found, limit });
        }
        if let Some(&token) = self.tokens.iter().find(|token| token.0 >= limits.vocabulary) {
            return Err(BatchError::Token { token, vocabulary: limits.vocabulary });
        }
        let mut next = 0u32;
        for run in self.runs {
            if run.first_row != next || run.rows == 0 {
                return Err(BatchError::Runs { row: next });
            }
            next = next.saturating_add(run.rows);
            self.check_pages(run, limits)?;
            self.check_state(run, limits)?;
        }
        if next != found.rows {
            return Err(BatchError::Runs { row: next.min(found.rows) });
        }
        let mut free = 0;
        for &row in self.outputs {
            if row < free || row >= found.rows {
                return Err(BatchError::Output { row });
            }
            free = row + 1;
        }
        Ok(())
    }

    /// As [`Batch::check`], for `steps` steps of one row per run that feed each other.
    ///
    /// # Errors
    /// The first rule that does not hold.
    pub fn check_multi_step(&self, limits: &BatchLimits, steps: u32) -> Result<(), BatchError> {
        self.check(limits)?;
        if self.outputs.len() != self.rows() {
            return Err(BatchError::Output { row: u32::try_from(self.outputs.len()).unwrap_or(u32::MAX) });
        }
        for run in self.runs {
            if run.rows != 1 {
                return Err(BatchError::Runs { row: run.first_row });
            }
            self.check_pages(&RowRun { rows: steps, ..*run }, limits)?;
        }
        Ok(())
    }

    fn check_state(&self, run: &RowRun, limits: &BatchLimits) -> Result<(), BatchError> {
        let Some(states) = limits.states else { return Ok(()) };
        let sequence = run.sequence;
        let state = self.tables.states.get(sequence as usize).filter(|state| state.0 < states);
        state.map(|_| ()).ok_or(BatchError::State { sequence })
    }

    fn check_pages(&self, run: &RowRun, limits: &BatchLimits) -> Result<(), BatchError> {
        let sequence = run.sequence;
        let end =
            run.position.checked_add(run.rows).ok_or(BatchError::Page { sequence, position: u32::MAX })?;
        for (group, window) in (0..).map(GroupId).zip(limits.windows).take(limits.groups) {
            let pages = self.tables.of(sequence, group);
            let needed = (end as usize).div_ceil(PAGE_TOKENS);
            let unseen = first_page(window, run.position) as usize;
            let seen = pages.iter().take(needed).skip(unseen);
            let good = unseen + seen.take_while(|page| page.0 < limits.pages.of(group)).count();
            if good < needed {
                let position = u32::try_from(good * PAGE_TOKENS).unwrap_or(u32::MAX);
                return Err(BatchError::Page { sequence, position });
            }
        }
        Ok(())
    }
}
