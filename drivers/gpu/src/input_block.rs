//! The input block of a step: rows, positions, page tables and output rows, at fixed addresses.
//!
//! The block is written by the host before each step; that its addresses stay is what lets a recorded step be run
//! again as it is. Page tables come last because only their size is not bounded by the plan.

use alloc::vec::Vec;
use doorbell_core::plan::{Batch, GroupId, PAGE_TOKENS, PageId, Shape};
use doorbell_kernels::Inputs;

use crate::memory_needs::LINE;

/// Layout of an input block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    shape: Shape,
    groups: usize,
}

impl Layout {
    pub(crate) fn new(shape: Shape, groups: usize) -> Self {
        Self { shape, groups }
    }

    /// Starts of: tokens, positions, tables, outputs, output positions, output tables, runs, pages.
    fn starts(&self) -> [u64; 8] {
        let (rows, outputs) = (u64::from(self.shape.rows), u64::from(self.shape.outputs));
        let groups = self.groups as u64;
        let cells = [rows, rows, rows * groups, outputs, outputs, outputs * groups, 1 + 3 * rows];
        let mut starts = [0; 8];
        for (index, cells) in cells.into_iter().enumerate() {
            starts[index + 1] = starts[index] + (4 * cells).next_multiple_of(LINE);
        }
        starts
    }

    /// Bytes without page tables.
    pub(crate) fn fixed_bytes(&self) -> u64 {
        self.starts()[7]
    }

    /// Addresses of a block at `base`.
    pub(crate) fn inputs(&self, base: u64, result: u64) -> Inputs {
        let [tokens, positions, tables, outputs, output_positions, output_tables, runs, pages] =
            self.starts().map(|start| base + start);
        let ring = None;
        Inputs {
            tokens,
            positions,
            tables,
            pages,
            outputs,
            output_positions,
            output_tables,
            runs,
            result,
            ring,
        }
    }

    /// The bytes of a block for a batch that has been checked. Page tables reach to `positions`, beyond a
    /// sequence's own pages and before its window with page 0, which is always there; its own are those that it needs
    /// when it has grown by `ahead` positions.
    pub(crate) fn write(&self, batch: &Batch<'_>, ahead: u32, positions: u32, out: &mut Vec<u8>) {
        let starts = self.starts();
        let pages = (positions as usize).div_ceil(PAGE_TOKENS);
        let tables = batch.runs.len() * self.groups * pages;
        out.clear();
        out.resize(starts[7] as usize + 4 * tables, 0);
        let rows = batch.rows();
        let mut put = |start: u64, index: usize, value: u32| {
            let at = start as usize + 4 * index;
            out[at..at + 4].copy_from_slice(&value.to_le_bytes());
        };
        put(starts[6], 0, batch.runs.len() as u32);
        for (index, run) in batch.runs.iter().enumerate() {
            let state = batch.tables.states.get(run.sequence as usize).map_or(0, |state| state.0);
            let entry = [run.first_row, run.rows, state];
            (1 + 3 * index..).zip(entry).for_each(|(at, value)| put(starts[6], at, value));
        }
        let (mut output, mut entry) = (0, 0);
        for run in batch.runs {
            for row in run.first_row..run.first_row + run.rows {
                let index = row as usize;
                let position = run.position + (row - run.first_row);
                put(starts[0], index, batch.tokens[index].0);
                put(starts[1], index, position);
                let wanted = batch.outputs.get(output) == Some(&row);
                for group in 0..self.groups {
                    let table = (entry + group * pages) as u32;
                    put(starts[2], group * rows + index, table);
                    if wanted {
                        put(starts[5], group * batch.outputs.len() + output, table);
                    }
                }
                if wanted {
                    put(starts[3], output, row);
                    put(starts[4], output, position);
                    output += 1;
                }
            }
            for group in 0..self.groups {
                // Groups are few; the binder bounds them.
                let own = batch.tables.of(run.sequence, GroupId(group as u8));
                let used = (run.position + run.rows + ahead).div_ceil(PAGE_TOKENS as u32);
                let own = &own[..own.len().min(used as usize)];
                for page in 0..pages {
                    let id = own.get(page).filter(|&&page| page != PageId::NONE);
                    put(starts[7], entry + page, id.map_or(0, |page| page.0));
                }
                entry += pages;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use doorbell_core::plan::{PageSpan, PageTables, RowRun, StateId};
    use doorbell_core::token::TokenId;

    #[test]
    fn rows_find_their_positions_and_pages() {
        let layout = Layout::new(Shape { rows: 8, outputs: 4 }, 2);
        let tokens = [5, 6, 7].map(TokenId);
        let runs = [
            RowRun { sequence: 1, first_row: 0, rows: 2, position: 31 },
            RowRun { sequence: 0, first_row: 2, rows: 1, position: 3 },
        ];
        // before the window of the second group there is no page
        let pages = [9, 8, 3, 2, PageId::NONE.0, 4].map(PageId);
        let span = |start, len| PageSpan { start, len };
        let spans = [span(0, 1), span(1, 1), span(2, 2), span(4, 2)];
        let tables =
            PageTables { pages: &pages, spans: &spans, groups: 2, states: &[StateId(4), StateId(9)] };
        let batch = Batch { tokens: &tokens, runs: &runs, outputs: &[1, 2], tables };
        let mut bytes = Vec::new();
        layout.write(&batch, 0, 64, &mut bytes);
        let inputs = layout.inputs(0, 0);
        let words = |start: u64, count: usize| -> Vec<u32> {
            let bytes = &bytes[start as usize..start as usize + 4 * count];
            bytes.as_chunks().0.iter().map(|word| u32::from_le_bytes(*word)).collect()
        };
        assert_eq!(words(inputs.tokens, 3), [5, 6, 7]);
        assert_eq!(words(inputs.positions, 3), [31, 32, 3]);
        assert_eq!(words(inputs.tables, 6), [0, 0, 4, 2, 2, 6]);
        assert_eq!(words(inputs.outputs, 2), [1, 2]);
        assert_eq!(words(inputs.output_positions, 2), [32, 3]);
        assert_eq!(words(inputs.output_tables, 4), [0, 4, 2, 6]);
        assert_eq!(words(inputs.runs, 7), [2, 0, 2, 9, 2, 1, 4]);
        assert_eq!(words(inputs.pages, 8), [3, 2, 0, 4, 9, 0, 8, 0]);
        assert_eq!(bytes.len() as u64, inputs.pages + 32);
    }
}
