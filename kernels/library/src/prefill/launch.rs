//! Which projections and experts take the matrix kernels, and their launches.

use super::combine::Combine;
use super::gemm::{Gemm, TILE_ROWS};
use super::group::Group;
use super::grouped::Grouped;
use super::halve::Halve;
use super::path::{Choice, Path};
use super::quantize::Quantize;
use crate::experts::Stack;
use crate::project::{Factor, Finish, PartLaunch, matrix_values};
use crate::{Cost, Launch, Recipe, Step};
use alloc::vec::Vec;
use doorbell_compiler::object::ArgumentValue;
use doorbell_core::model::Model;
use doorbell_core::plan::{Experts, Matrix, Norm};
use doorbell_core::quant::Type;

/// Rows that fill half of a tile's waves; fewer are not worth its padding.
const LEAST_ROWS: u32 = 32;

/// Bytes of activations for so many rows of `cols`, of either path.
pub(crate) fn scratch_bytes(rows: u32, cols: u32) -> u64 {
    if rows < LEAST_ROWS {
        return 0;
    }
    let row = Halve::row_bytes(cols).max(Quantize::row_bytes(cols));
    u64::from(rows.next_multiple_of(TILE_ROWS)) * u64::from(row)
}

/// The launch that makes activations of f32 rows: `[from, to]`.
fn activations(
    step: &Step<'_, '_>,
    path: Path,
    [from, to]: [u64; 2],
    [rows, cols]: [u32; 2],
    norm: Option<Norm>,
) -> Launch {
    let eps = norm.map(|norm| norm.eps.to_bits());
    let (recipe, row) = match path {
        Path::Half => (Recipe::Halve(Halve { cols, norm: eps }), 2 * cols),
        Path::Byte => (Recipe::Quantize(Quantize { cols, norm: eps }), Quantize::row_bytes(cols)),
    };
    let mut arguments = alloc::vec![ArgumentValue::Buffer(from)];
    arguments.extend(norm.map(|norm| ArgumentValue::Buffer(step.vector(norm.weight))));
    arguments.push(ArgumentValue::Buffer(to));
    let rows_of = |bytes: u32| u64::from(rows) * u64::from(bytes);
    let cost = Cost { read: rows_of(4 * cols), written: rows_of(row), products: 0 };
    Launch { recipe, groups: [rows, 1, 1], arguments, waits: true, cost }
}

/// The launches of parts over `rows` rows at `input`, with [`scratch_bytes`] at `scratch`; `None` where the kernels of
/// few rows are to be taken.
pub(crate) fn project(
    step: &Step<'_, '_>,
    choice: Choice,
    [input, scratch]: [u64; 2],
    rows: u32,
    norm: Option<Norm>,
    parts: &[PartLaunch],
) -> Option<Vec<Launch>> {
    let cols = step.model.weight(parts.first()?.matrix.weight).cols as u32;
    let known = |part: &PartLaunch| !matches!(part.finish, Finish::Cap { .. });
    if rows < choice.least_rows() || !cols.is_multiple_of(32) || !parts.iter().all(known) {
        return None;
    }
    let matrices = parts.iter().flat_map(|part| [Some(part.matrix), part.up.map(|(up, _)| up)]);
    let kinds: Vec<Type> = matrices.flatten().map(|matrix| step.model.weight(matrix.weight).ty).collect();
    let path = choice.path(&kinds);
    let first = activations(step, path, [input, scratch], [rows, cols], norm);
    let read = first.cost.written;
    let products = parts.iter().enumerate().map(|(index, part)| {
        let recipe = Gemm {
            path,
            matrix: Factor::new(step.model, &part.matrix),
            up: part.up.map(|(up, bend)| (Factor::new(step.model, &up), bend)),
            cols,
            outs: part.matrix.rows,
            finish: part.finish,
            blocks: Gemm::blocks(part.up.is_some(), rows),
        };
        let buffers = [scratch, part.out].map(ArgumentValue::Buffer);
        let mut arguments = buffers.to_vec();
        arguments.push(ArgumentValue::Scalar(rows));
        matrix_values(step, &part.matrix, &mut arguments);
        let mut cost = Cost { read, ..Cost::default() };
        for matrix in [Some(part.matrix), part.up.map(|(up, _)| up)].into_iter().flatten() {
            cost.read += step.model.weight(matrix.weight).row_bytes() as u64 * u64::from(matrix.rows);
            cost.products += u64::from(matrix.rows) * u64::from(cols) * u64::from(rows);
        }
        if let Some((up, _)) = &part.up {
            matrix_values(step, up, &mut arguments);
        }
        arguments.extend(part.gate.map(ArgumentValue::Buffer));
        cost.written = 4 * u64::from(part.matrix.rows) * u64::from(rows);
        Launch {
            recipe: Recipe::Gemm(recipe),
            groups: recipe.groups(rows),
            arguments,
            waits: index == 0,
            cost,
        }
    });
    Some(core::iter::once(first).chain(products).collect())
}

/// Where the parts of grouped experts lie in scratch, in bytes from its start, and their total.
struct Room {
    input: u64,
    rows: u64,
    places: u64,
    tiles: u64,
    hidden: u64,
    hidden_input: u64,
    products: u64,
    total: u64,
}

impl Room {
    fn new(rows: u32, op: &Experts, cols: u32, group: Group) -> Self {
        let slots = rows * op.top_k;
        let mut total = 0u64;
        let mut take = |bytes: u64| {
            let start = total;
            total = (start + bytes).next_multiple_of(256);
            start
        };
        let input = take(scratch_bytes(rows, cols));
        let numbers = 4 * u64::from(slots);
        let (rows, places) = (take(numbers), take(numbers));
        // As for the smallest tiles: the room for many rows then does for any fewer.
        let tiles = take(16 * u64::from(Group { tile: 16, ..group }.tiles(slots)));
        let rows_of = |bytes: u32| u64::from(slots) * u64::from(bytes);
        let hidden = take(rows_of((4 * op.gate.rows).max(Halve::row_bytes(op.gate.rows))));
        let hidden_input = take(scratch_bytes(slots, op.gate.rows));
        let products = take(rows_of(Halve::row_bytes(op.down.rows)));
        Self { input, rows, places, tiles, hidden, hidden_input, products, total }
    }
}

/// Most rows of a tile for so many slots: room for twice an even spread over the experts. What does not fit unpacks the
/// weights again, what is left empty costs no matrix instructions, in blocks of sixteen rows.
fn tile_rows(slots: u32, experts: u32) -> u32 {
    match slots / experts.max(1) {
        0..9 => 16,
        9..20 => 32,
        20..48 => 64,
        _ => 128,
    }
}

/// What the grouped kernels take of experts of so many rows, if they can.
fn groups(model: &Model<'_>, op: &Experts, rows: u32) -> Option<(u32, Group)> {
    let gate = model.weight(op.gate.weight);
    let (cols, experts) = (gate.cols as u32, gate.stack as u32);
    let whole = cols.is_multiple_of(32) && op.gate.rows.is_multiple_of(32) && op.down.rows.is_multiple_of(2);
    let mut tile = tile_rows(rows * op.top_k, experts);
    if gate.ty != model.weight(op.up.weight).ty {
        // The widest tile takes both matrices in one piece.
        tile = tile.min(64);
    }
    let fits = whole && rows >= LEAST_ROWS;
    fits.then_some((cols, Group { experts, top_k: op.top_k, tile }))
}

/// Bytes of scratch of [`experts`], 0 where it takes none.
pub(crate) fn experts_bytes(model: &Model<'_>, op: &Experts, rows: u32) -> u64 {
    groups(model, op, rows).map_or(0, |(cols, group)| Room::new(rows, op, cols, group).total)
}

/// The launches of experts over many rows, grouped by expert; `None` where the kernels of few rows are to be taken.
pub(crate) fn experts(
    step: &Step<'_, '_>,
    choice: Choice,
    op: &Experts,
    scratch: u64,
) -> Option<Vec<Launch>> {
    let (rows, model) = (step.rows_of(op.input), step.model);
    let (cols, group) = groups(model, op, rows).filter(|_| rows >= choice.least_rows())?;
    let room = Room::new(rows, op, cols, group);
    let slots = rows * op.top_k;
    let tiles = group.tiles(slots);
    let buffer = |offset: u64| ArgumentValue::Buffer(scratch + offset);
    let launch = |recipe, groups, arguments, cost| Launch { recipe, groups, arguments, waits: true, cost };
    let none = Cost::default();
    let kinds = [&op.gate, &op.up, &op.down].map(|matrix| model.weight(matrix.weight).ty);
    let path = choice.path(&kinds);
    let input = [step.tensor(op.input), scratch + room.input];
    let sort = alloc::vec![
        ArgumentValue::Buffer(step.tensor(op.ids)),
        ArgumentValue::Scalar(slots),
        buffer(room.rows),
        buffer(room.places),
        buffer(room.tiles),
    ];
    let [gate, up, down] = [&op.gate, &op.up, &op.down].map(|matrix| Stack::new(model, matrix));
    let tile = group.tile;
    let gated = Grouped { path, matrix: gate, up: Some((up, op.glu.into())), cols, tile };
    let mut first = [room.input, room.hidden, room.tiles, room.rows].map(buffer).to_vec();
    matrix_values(step, &op.gate, &mut first);
    matrix_values(step, &op.up, &mut first);
    let last = Grouped { path, matrix: down, up: None, cols: op.gate.rows, tile };
    let hidden = if path == Path::Half { room.hidden } else { room.hidden_input };
    let mut second = [hidden, room.products, room.tiles, room.places].map(buffer).to_vec();
    second.push(ArgumentValue::Buffer(step.tensor(op.weights)));
    matrix_values(step, &op.down, &mut second);
    let combine = Combine { width: op.down.rows, top_k: op.top_k };
    let sums = [scratch + room.products, step.tensor(op.to)].map(ArgumentValue::Buffer).to_vec();
    let bytes = |matrix: &Matrix| model.weight(matrix.weight).data.len() as u64;
    let products = u64::from(slots) * u64::from(cols) * u64::from(op.gate.rows);
    let gated_cost = Cost { read: bytes(&op.gate) + bytes(&op.up), products: 2 * products, ..none };
    let down_cost = Cost { read: bytes(&op.down), products, ..none };
    let written = 4 * u64::from(rows) * u64::from(op.down.rows);
    let mut launches = alloc::vec![
        Launch { cost: none, ..activations(step, path, input, [rows, cols], op.norm) },
        launch(Recipe::Group(group), [group.experts, 1, 1], sort, none),
        launch(Recipe::Grouped(gated), gated.groups(tiles), first, gated_cost),
    ];
    if path == Path::Byte {
        let hidden = [scratch + room.hidden, scratch + room.hidden_input];
        let quantize = activations(step, path, hidden, [slots, op.gate.rows], None);
        launches.push(Launch { cost: none, ..quantize });
    }
    launches.push(launch(Recipe::Grouped(last), last.groups(tiles), second, down_cost));
    let cost = Cost { written, ..none };
    launches.push(launch(Recipe::Combine(combine), combine.groups(rows), sums, cost));
    Some(launches)
}
