//! Launches of experts over many rows: activations, rows by expert, gate and up, down, the weighted sum.

use crate::gemm::activations_f16::ActivationsF16;
use crate::gemm::launch::{Conversion, LEAST_ROWS, activations, scratch_bytes};
use crate::gemm::path::{MatrixPath, PathChoice};
use crate::gemv::launch::matrix_values;
use crate::kernel_spec::KernelSpec;
use crate::launch::{Cost, Launch};
use crate::moe::combine::CombineExperts;
use crate::moe::experts::ExpertMatrix;
use crate::moe::group_rows::GroupRows;
use crate::moe::grouped_spec::GroupedGemm;
use crate::step::Step;
use alloc::vec::Vec;
use doorbell_compiler::object::ArgumentValue;
use doorbell_core::model::Model;
use doorbell_core::plan::{Experts, Matrix, Update};

/// Offsets of the parts of grouped experts in scratch, in bytes, and their total.
struct GroupedScratch {
    input: u64,
    rows: u64,
    sorted: u64,
    tiles: u64,
    hidden: u64,
    hidden_input: u64,
    products: u64,
    total: u64,
}

impl GroupedScratch {
    fn new(rows: u32, op: &Experts, cols: u32, group: GroupRows) -> Self {
        let slots = rows * op.top_k;
        let mut total = 0u64;
        let mut take = |bytes: u64| {
            let start = total;
            total = (start + bytes).next_multiple_of(256);
            start
        };
        let input = take(scratch_bytes(rows, cols));
        let numbers = 4 * u64::from(slots);
        let (rows, sorted) = (take(numbers), take(numbers));
        // As for the smallest tiles: the scratch of many rows then suffices for any fewer.
        let tiles = take(16 * u64::from(GroupRows { tile: 16, ..group }.tiles(slots)));
        let rows_of = |bytes: u32| u64::from(slots) * u64::from(bytes);
        let hidden = take(rows_of((4 * op.gate.rows).max(ActivationsF16::row_bytes(op.gate.rows))));
        let hidden_input = take(scratch_bytes(slots, op.gate.rows));
        let products = take(rows_of(ActivationsF16::row_bytes(op.down.rows)));
        Self { input, rows, sorted, tiles, hidden, hidden_input, products, total }
    }
}

/// Most rows of a tile for a number of slots: twice an even spread over the experts. Rows that do not fit unpack the
/// weights again; empty blocks of sixteen rows cost no matrix instructions.
fn tile_rows(slots: u32, experts: u32) -> u32 {
    match slots / experts.max(1) {
        0..9 => 16,
        9..20 => 32,
        20..48 => 64,
        _ => 128,
    }
}

/// Columns and grouping of experts of `rows` rows, if the grouped kernels can take them.
fn groups(model: &Model<'_>, op: &Experts, rows: u32) -> Option<(u32, GroupRows)> {
    let gate = model.weight(op.gate.weight);
    let (cols, experts) = (gate.cols as u32, gate.stack as u32);
    let whole = cols.is_multiple_of(32) && op.gate.rows.is_multiple_of(32) && op.down.rows.is_multiple_of(2);
    let mut tile = tile_rows(rows * op.top_k, experts);
    if gate.ty != model.weight(op.up.weight).ty {
        // The widest tile takes both matrices in one piece.
        tile = tile.min(64);
    }
    let fits = whole && rows >= LEAST_ROWS;
    fits.then_some((cols, GroupRows { experts, top_k: op.top_k, tile }))
}

/// Bytes of scratch of [`experts`], 0 if it needs none.
pub(crate) fn experts_bytes(model: &Model<'_>, op: &Experts, rows: u32) -> u64 {
    groups(model, op, rows).map_or(0, |(cols, group)| GroupedScratch::new(rows, op, cols, group).total)
}

/// The launches of experts over many rows, grouped by expert; `None` if the kernels of few rows are better.
pub(crate) fn experts(
    step: &Step<'_, '_>,
    choice: PathChoice,
    op: &Experts,
    scratch: u64,
) -> Option<Vec<Launch>> {
    let (rows, model) = (step.rows_of(op.input), step.model);
    let (cols, group) = groups(model, op, rows).filter(|_| rows >= choice.least_rows())?;
    let layout = GroupedScratch::new(rows, op, cols, group);
    let slots = rows * op.top_k;
    let tiles = group.tiles(slots);
    let buffer = |offset: u64| ArgumentValue::Buffer(scratch + offset);
    let launch =
        |spec: KernelSpec, groups, arguments, cost| Launch { spec, groups, arguments, waits: true, cost };
    let none = Cost::default();
    let types = [&op.gate, &op.up, &op.down].map(|matrix| model.weight(matrix.weight).ty);
    let path = choice.path(&types);
    let (from, to) = (step.tensor(op.input), scratch + layout.input);
    let input = Conversion { from, to, rows, cols, norm: op.norm };
    let sort = alloc::vec![
        ArgumentValue::Buffer(step.tensor(op.ids)),
        ArgumentValue::Scalar(slots),
        buffer(layout.rows),
        buffer(layout.sorted),
        buffer(layout.tiles),
    ];
    let [gate, up, down] = [&op.gate, &op.up, &op.down].map(|matrix| ExpertMatrix::new(model, matrix));
    let tile = group.tile;
    let gated = GroupedGemm { path, matrix: gate, up: Some((up, op.glu.into())), cols, tile };
    let mut first = [layout.input, layout.hidden, layout.tiles, layout.rows].map(buffer).to_vec();
    matrix_values(step, &op.gate, &mut first);
    matrix_values(step, &op.up, &mut first);
    let last = GroupedGemm { path, matrix: down, up: None, cols: op.gate.rows, tile };
    let hidden = if path == MatrixPath::F16 { layout.hidden } else { layout.hidden_input };
    let mut second = [hidden, layout.products, layout.tiles, layout.sorted].map(buffer).to_vec();
    second.push(ArgumentValue::Buffer(step.tensor(op.weights)));
    matrix_values(step, &op.down, &mut second);
    let adds = op.update == Update::Add;
    let combine = CombineExperts { width: op.down.rows, top_k: op.top_k, adds };
    let sums = [scratch + layout.products, step.tensor(op.to)].map(ArgumentValue::Buffer).to_vec();
    let bytes = |matrix: &Matrix| model.weight(matrix.weight).data.len() as u64;
    let products = u64::from(slots) * u64::from(cols) * u64::from(op.gate.rows);
    let gated_cost = Cost { read: bytes(&op.gate) + bytes(&op.up), products: 2 * products, ..none };
    let down_cost = Cost { read: bytes(&op.down), products, ..none };
    let written = 4 * u64::from(rows) * u64::from(op.down.rows);
    let mut launches = alloc::vec![
        Launch { cost: none, ..activations(step, path, input) },
        launch(group.into(), [group.experts, 1, 1], sort, none),
        launch(gated.into(), gated.groups(tiles), first, gated_cost),
    ];
    if path == MatrixPath::I8 {
        let (from, to) = (scratch + layout.hidden, scratch + layout.hidden_input);
        let hidden = Conversion { from, to, rows: slots, cols: op.gate.rows, norm: None };
        let quantize = activations(step, path, hidden);
        launches.push(Launch { cost: none, ..quantize });
    }
    launches.push(launch(last.into(), last.groups(tiles), second, down_cost));
    let cost = Cost { written, ..none };
    launches.push(launch(combine.into(), combine.groups(rows), sums, cost));
    Some(launches)
}
