//! Products of the rows that chose an expert: a workgroup makes 32 of them, 64 outputs each, four waves.
//!
//! Which rows belong together is found by `group`; products of down are added up by `combine`.

use super::stage::{STRIDE, Stage};
use super::tile::Product;
use crate::experts::Stack;
use crate::glu::Bend;
use crate::idiom::Idiom;
use crate::project::{Finish, MatrixArguments, PartArguments, Share, epilogue};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use doorbell_compiler::ir::{Axis, Builder, Elem, Function, Value, Width};
use doorbell_compiler::isa::{Generation, Target};

/// A product of grouped rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Grouped {
    /// The matrices.
    pub matrix: Stack,
    /// The second matrices, of gate and up: rows are then taken from their tokens' and written in order; else taken in
    /// order and written where their slots are.
    pub up: Option<(Stack, Bend)>,
    /// Columns, a multiple of 32.
    pub cols: u32,
}

/// Outputs of a workgroup; of each matrix half of them where there are two.
const TILE_OUTS: u32 = 64;
const GROUP: u32 = 128;
/// Rows that the workgroup unpacks at a time.
const STAGED: u32 = GROUP / 8;

/// What a workgroup works on: all uniform.
struct Job {
    first: Value,
    count: Value,
}

/// Where a wave's results go.
struct Sink<'s> {
    map: Value,
    /// First row of the wave in the tile.
    own_row: Value,
    /// The lane's output in the tile.
    column: Value,
    half: Value,
    blocks: &'s [u32],
    columns: usize,
}

impl Grouped {
    /// The kernel's name.
    pub(crate) fn name(&self) -> String {
        let up = self.up.map_or(String::new(), |(up, bend)| format!("_{}_{}", bend.name(), up.name()));
        format!("grouped_{}_{}{up}", self.cols, self.matrix.name())
    }

    /// Workgroups for so many tiles.
    pub fn groups(&self, tiles: u32) -> [u32; 3] {
        let outs = if self.up.is_some() { TILE_OUTS / 2 } else { TILE_OUTS };
        [self.matrix.rows.div_ceil(outs), tiles, 1]
    }

    /// Arguments: `x` (f16, padded columns), `out` (f32 `[slots, outs]`), the tiles and the map of [`super::Group`],
    /// per matrix its weights, scale and bias where there are any.
    pub fn function(&self, target: Target) -> Function {
        let mut k = Builder::new(&self.name(), GROUP);
        let (x, out, tiles, map) = (k.buffer("x"), k.buffer("out"), k.buffer("tiles"), k.buffer("map"));
        let first = self.matrix.factor.arguments(&mut k, "weights");
        let second = self.up.map(|(up, _)| up.factor.arguments(&mut k, "up"));
        let lds = k.local(TILE_OUTS * STRIDE);
        let tile = k.workgroup_id(Axis::Y);
        let place = k.left(tile, 4);
        let job = k.load_uniform(k.global(tiles, place), Width::Dwords(4), Elem::Int);
        let [expert, first_slot, count] = [0, 1, 2].map(|index| k.extract(job, index));
        let job = Job { first: first_slot, count };
        let none = k.int(0);
        let busy = k.ne(count, none);
        k.when(busy, |k| {
            let matrix = self.of_expert(k, self.matrix, &first, expert);
            let up = self.up.zip(second.as_ref()).map(|((up, _), own)| self.of_expert(k, up, own, expert));
            let part = PartArguments { matrix, up, out, gate: None, head: None };
            self.tile(k, x, map, &job, &part, lds, target);
        });
        k.finish()
    }

    /// The arguments of one expert's matrix.
    fn of_expert(
        &self,
        k: &mut Builder,
        stack: Stack,
        own: &MatrixArguments,
        expert: Value,
    ) -> MatrixArguments {
        let bytes = stack.factor.kind.row_bytes(self.cols as usize).unwrap_or(0) as u32;
        let bytes = k.int(bytes * stack.stride);
        let ahead = k.wide_mul(expert, bytes);
        let base = k.wide_add(own.base, ahead);
        let scale = own.scale.map(|scale| {
            let ahead = if stack.own_scale { k.left(expert, 2) } else { k.int(0) };
            k.wide_add(scale, ahead)
        });
        let bias = own.bias.map(|bias| {
            let ahead = k.times(expert, 4 * stack.rows);
            k.wide_add(bias, ahead)
        });
        MatrixArguments { base, scale, bias }
    }

    fn stages(&self, k: &mut Builder, part: &PartArguments, lds: u32) -> Vec<Stage> {
        let tile = k.workgroup_id(Axis::X);
        let last = k.int(self.matrix.rows - 1);
        let first = k.left(tile, if self.up.is_some() { 5 } else { 6 });
        let count = TILE_OUTS / STAGED;
        (0..count)
            .map(|number| {
                let lds = lds + number * STAGED * STRIDE;
                let (kind, base, ahead) = match (self.up, &part.up) {
                    (Some((up, _)), Some(own)) if number >= count / 2 => {
                        (up.factor.kind, own.base, number - count / 2)
                    }
                    _ => (self.matrix.factor.kind, part.matrix.base, number),
                };
                let first = k.plus(first, ahead * STAGED);
                Stage::new(k, kind, self.cols, [base, first, last], lds)
            })
            .collect()
    }

    #[expect(clippy::too_many_arguments, reason = "what one workgroup needs, used once")]
    fn tile(
        &self,
        k: &mut Builder,
        x: Value,
        map: Value,
        job: &Job,
        part: &PartArguments,
        lds: u32,
        target: Target,
    ) {
        let (lane, wave) = (k.lane(), k.wave());
        let (within, half) = (k.mask(lane, 15), k.right(lane, 4));
        // Waves: outputs of one matrix by rows, or rows by outputs of two.
        let (wave_row, wave_out, columns): (_, _, &[u32]) = if self.up.is_some() {
            let row = k.mask(wave, 1);
            let out = k.right(wave, 1);
            (k.left(row, 4), k.left(out, 4), &[0, TILE_OUTS / 2])
        } else {
            (k.int(0), k.left(wave, 4), &[0])
        };
        let blocks: &[u32] = if self.up.is_some() { &[0] } else { &[0, 16] };
        let one = k.int(1);
        let last = k.sub(job.count, one);
        let own_row = k.add(wave_row, within);
        let rows: Vec<Value> = blocks
            .iter()
            .map(|block| {
                let row = k.plus(own_row, *block);
                let row = k.min_u(row, last);
                let slot = k.add(job.first, row);
                if self.up.is_none() {
                    return slot;
                }
                let place = k.left(slot, 2);
                k.load(k.global(map, place), Width::Dwords(1), Elem::Int)
            })
            .collect();
        let column = k.add(wave_out, within);
        let stages = self.stages(k, part, lds);
        let product = Product { cols: self.cols, x, rows: &rows, half, column, columns };
        let sums = product.sums(k, &stages, lds, target);
        let sink = Sink { map, own_row: wave_row, column, half, blocks, columns: columns.len() };
        self.write(k, &sink, job, part, &sums, target);
    }

    fn write(
        &self,
        k: &mut Builder,
        sink: &Sink<'_>,
        job: &Job,
        part: &PartArguments,
        sums: &[Value],
        target: Target,
    ) {
        let gfx12 = target.generation() == Generation::Gfx12;
        let tile = k.workgroup_id(Axis::X);
        let first_out = k.left(tile, if self.up.is_some() { 5 } else { 6 });
        let out = k.add(first_out, sink.column);
        let limit = k.int(self.matrix.rows);
        let inside = k.lt_u(out, limit);
        let own = if gfx12 { k.left(sink.half, 3) } else { sink.half };
        let own_row = k.add(sink.own_row, own);
        let up = self.up.map(|(up, bend)| (up.factor, bend));
        let share = Share {
            rows: self.matrix.rows,
            matrix: self.matrix.factor,
            up,
            finish: Finish::Store,
            head: None,
        };
        for (index, block) in sink.blocks.iter().enumerate() {
            for register in 0..8u8 {
                let later = u32::from(register) * if gfx12 { 1 } else { 2 };
                let row = k.plus(own_row, block + later);
                let here = k.lt_u(row, job.count);
                let here = k.both(here, inside);
                let value = k.accumulator(sums[index * sink.columns], register);
                let second = k.accumulator(sums[(index + 1) * sink.columns - 1], register);
                k.when(here, |k| {
                    let slot = k.add(job.first, row);
                    let row = if self.up.is_some() {
                        slot
                    } else {
                        let place = k.left(slot, 2);
                        k.load(k.global(sink.map, place), Width::Dwords(1), Elem::Int)
                    };
                    epilogue(k, &share, part, [value, second], [row, out]);
                });
            }
        }
    }
}
