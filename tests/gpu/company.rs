//! A row's logits have the same bits alone, in chunks, and beside rows of others, as long as steps have few rows.

use crate::bench::{CHIPS, HEAP, STATES, end, goldens, open, prompt, soft, with_model};
use doorbell_core::backend::{Backend, KvType, Output};
use doorbell_core::model::Model;
use doorbell_core::plan::{Batch, HeadResult, PageId, PageSpan, PageTables, Plan, RowRun, Shape, StateId};
use doorbell_core::quant::Type;
use doorbell_core::token::TokenId;
use doorbell_gpu::{GpuBackend, Settings};
use doorbell_soft::processor::Level;
use doorbell_tests::tiny::{self, Family};

/// Sequences, each with pages of its own.
const SEQUENCES: u32 = 8;
const EACH: u32 = 6;
/// Rows of the widest step; from 32 rows on, other kernels sum in another order.
const ROWS: u32 = 31;

/// Rows of a sequence: which, its tokens, the position of the first.
type Piece<'t> = (u32, &'t [TokenId], u32);

/// The bits of the logits behind the last row of each piece.
fn step(
    model: &Model<'_>,
    backend: &mut GpuBackend<'_, '_, '_>,
    plan: &Plan<'_>,
    pieces: &[Piece<'_>],
) -> Vec<Vec<u32>> {
    let (mut tokens, mut runs, mut outputs) = (Vec::new(), Vec::new(), Vec::new());
    for (index, &(_, piece, position)) in (0..).zip(pieces) {
        let (first_row, rows) = (tokens.len() as u32, piece.len() as u32);
        runs.push(RowRun { sequence: index, first_row, rows, position });
        tokens.extend_from_slice(piece);
        outputs.push(first_row + rows - 1);
    }
    let pages: Vec<PageId> =
        pieces.iter().flat_map(|piece| (0..EACH).map(|page| PageId(page * SEQUENCES + piece.0))).collect();
    let spans: Vec<PageSpan> = (0..pieces.len() as u32)
        .flat_map(|index| model.groups.iter().map(move |_| PageSpan { start: index * EACH, len: EACH }))
        .collect();
    let states: Vec<StateId> = pieces.iter().map(|piece| STATES[piece.0 as usize]).collect();
    let tables = PageTables { pages: &pages, spans: &spans, groups: model.groups.len(), states: &states };
    // A recurrent state can't be taken back; it is copied behind the first rows and restored.
    if pieces.iter().any(|piece| piece.0 == 0 && piece.2 == FIRST_ROWS) {
        backend.copy_state(SAVED, STATES[0]);
    }
    backend.submit(plan, &Batch { tokens: &tokens, runs: &runs, outputs: &outputs, tables }).unwrap();
    loop {
        match backend.poll().unwrap() {
            Some(Output::Logits(logits)) => {
                let rows = logits.chunks(model.vocabulary as usize);
                return rows.map(|row| row.iter().map(|logit| logit.to_bits()).collect()).collect();
            }
            Some(_) => panic!("the plan asked for logits"),
            None => {}
        }
    }
}

/// Rows of the sequence that is watched before it has company.
const FIRST_ROWS: u32 = 24;

/// Its recurrent state behind them.
const SAVED: StateId = STATES[STATES.len() - 1];

#[test]
fn bits_do_not_depend_on_company() {
    // one of each family, more or less
    for (index, (name, bytes)) in goldens().into_iter().step_by(4).enumerate() {
        with_model(&bytes, |model| {
            let chip = CHIPS[index % CHIPS.len()];
            let kernel = soft(chip, Level::Fast);
            let shape = Shape { rows: ROWS, outputs: SEQUENCES };
            let settings = Settings::new(SEQUENCES * EACH, KvType::F16, shape);
            let mut backend = open(&kernel, model, settings).unwrap();
            let plan = model.plan(shape, HeadResult::Logits, HEAP).unwrap();
            let own = prompt(model, 40);
            let others: Vec<Vec<TokenId>> =
                (1..SEQUENCES).map(|other| prompt(model, 12 + other)[other as usize..].to_vec()).collect();
            let first = step(model, &mut backend, &plan, &[(0, &own[..24], 0)]);
            assert_eq!(first.len(), 1);
            backend.copy_state(STATES[0], SAVED);
            let mut alone = |pieces: &[Piece<'_>]| step(model, &mut backend, &plan, pieces).remove(0);
            let next = alone(&[(0, &own[24..25], 24)]);
            let chunk = alone(&[(0, &own[24..32], 24)]);
            for (other, tokens) in (1..).zip(&others) {
                alone(&[(other, tokens, 0)]);
            }
            // one row after the other
            for position in 24..31 {
                alone(&[(0, &own[position..=position], position as u32)]);
            }
            assert!(alone(&[(0, &own[31..32], 31)]) == chunk, "{name} on {chip}: row by row");
            for count in [1, 3, SEQUENCES - 1] {
                let company: Vec<Piece<'_>> = (1..=count)
                    .zip(&others)
                    .map(|(other, tokens)| (other, &tokens[tokens.len() - 1..], tokens.len() as u32 - 1))
                    .collect();
                for at in [0, count as usize] {
                    for (piece, expected) in [(&own[24..25], &next), (&own[24..32], &chunk)] {
                        let mut pieces = company.clone();
                        pieces.insert(at, (0, piece, 24));
                        let found = step(model, &mut backend, &plan, &pieces).swap_remove(at);
                        let what = format!("{} rows beside {count}, at {at}", piece.len());
                        assert!(found == *expected, "{name} on {chip}: {what}");
                    }
                }
            }
            end(&kernel, backend, &name);
        });
    }
}

/// Beyond one split of attention, which few rows spread over workgroups and others take one by one.
#[test]
fn bits_do_not_depend_on_how_splits_are_spread() {
    let shape = tiny::Shape { layers: 2, ..tiny::Shape::NARROW };
    let bytes = tiny::model(Family::Qwen3, shape, Type::Q8_0, 3).to_bytes();
    with_model(&bytes, |model| {
        let kernel = soft(CHIPS[0], Level::Fast);
        let shape = Shape { rows: ROWS, outputs: SEQUENCES };
        let settings = Settings::new(SEQUENCES * EACH, KvType::F16, shape);
        let mut backend = open(&kernel, model, settings).unwrap();
        let plan = model.plan(shape, HeadResult::Logits, HEAP).unwrap();
        let (long, short) = (prompt(model, 160), prompt(model, 20));
        let mut run = |pieces: &[Piece<'_>]| step(model, &mut backend, &plan, pieces);
        for start in (0..150).step_by(30) {
            run(&[(0, &long[start..start + 30], start as u32)]);
        }
        let chunk = run(&[(0, &long[150..], 150)]);
        for position in 150..159 {
            run(&[(0, &long[position..=position], position as u32)]);
        }
        let last: Piece<'_> = (0, &long[159..], 159);
        assert!(run(&[last]) == chunk, "a row alone");
        run(&[(1, &short[..19], 0)]);
        let near: Piece<'_> = (1, &short[19..], 19);
        let alone = run(&[near]);
        assert!(run(&[near, last]) == [alone, chunk].concat(), "beside one another");
        end(&kernel, backend, "splits");
    });
}
