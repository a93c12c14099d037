//! Products of the rows that chose an expert: a workgroup makes a tile of them, 64 outputs of each matrix. Four waves
//! take sixteen outputs each; tiles of 64 rows have eight, and each takes half of the rows.
//!
//! Which rows belong together is found by `group`; products of down are added up by `combine`.

use super::stage::{STEP, STRIDE, Stage};
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
    /// Rows of a tile: 16, 32, 48 or 64.
    pub tile: u32,
}

/// Outputs of a workgroup, of each matrix.
const TILE_OUTS: u32 = 64;
/// Rows of a tile from which eight waves share it.
const LARGE: u32 = 64;

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
    /// Blocks of rows, and of outputs.
    blocks: u32,
    columns: usize,
    gfx12: bool,
    part: &'s PartArguments,
}

impl Grouped {
    /// The kernel's name.
    pub(crate) fn name(&self) -> String {
        let up = self.up.map_or(String::new(), |(up, bend)| format!("_{}_{}", bend.name(), up.name()));
        format!("grouped{}_{}_{}{up}", self.tile, self.cols, self.matrix.name())
    }

    /// Workgroups for so many tiles.
    pub fn groups(&self, tiles: u32) -> [u32; 3] {
        [self.matrix.rows.div_ceil(TILE_OUTS), tiles, 1]
    }

    /// Work items of a workgroup.
    fn items(&self) -> u32 {
        if self.tile >= LARGE { 256 } else { 128 }
    }

    /// Arguments: `x` (f16, padded columns), `out` (f32 `[slots, outs]`), the tiles and the map of [`super::Group`],
    /// per matrix its weights, scale and bias where there are any.
    pub fn function(&self, target: Target) -> Function {
        let mut k = Builder::new(&self.name(), self.items());
        let (x, out, tiles, map) = (k.buffer("x"), k.buffer("out"), k.buffer("tiles"), k.buffer("map"));
        let first = self.matrix.factor.arguments(&mut k, "weights");
        let second = self.up.map(|(up, _)| up.factor.arguments(&mut k, "up"));
        let matrices = if self.up.is_some() { 2 } else { 1 };
        let local = [k.local(self.tile * STRIDE), k.local(matrices * TILE_OUTS * STRIDE)];
        let gfx12 = target.generation() == Generation::Gfx12;
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
            self.tile(k, [x, map], &job, &part, local, gfx12);
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
        let first = k.times(tile, TILE_OUTS);
        let mut matrices = alloc::vec![(self.matrix.factor.kind, part.matrix.base)];
        matrices.extend(self.up.zip(part.up.as_ref()).map(|((up, _), own)| (up.factor.kind, own.base)));
        let staged = Stage::rows(self.items());
        let mut stages = Vec::new();
        for (matrix, (kind, base)) in (0u32..).zip(matrices) {
            for ahead in (0..TILE_OUTS).step_by(staged as usize) {
                let first = k.plus(first, ahead);
                let lds = lds + (matrix * TILE_OUTS + ahead) * STRIDE;
                stages.push(Stage::new(k, kind, self.cols, [base, first, last], lds));
            }
        }
        stages
    }

    /// `[x, map]`: activations, and the map of rows.
    fn tile(
        &self,
        k: &mut Builder,
        [x, map]: [Value; 2],
        job: &Job,
        part: &PartArguments,
        local: [u32; 2],
        gfx12: bool,
    ) {
        let (lane, wave) = (k.lane(), k.wave());
        let (within, half) = (k.mask(lane, 15), k.right(lane, 4));
        let blocks = self.tile / 16 * 128 / self.items();
        let out = k.mask(wave, 3);
        let out = k.left(out, 4);
        let wave_row = k.right(wave, 2);
        let wave_row = k.times(wave_row, 16 * blocks);
        let one = k.int(1);
        let last = k.sub(job.count, one);
        let row_bytes = 2 * self.cols.next_multiple_of(STEP);
        let copied: Vec<Value> = (0..Product::rounds(self.items(), self.tile))
            .map(|round| {
                let row = Product::copied(k, self.items(), round);
                let row = k.min_u(row, last);
                let slot = k.add(job.first, row);
                let from = if self.up.is_none() {
                    slot
                } else {
                    let place = k.left(slot, 2);
                    k.load(k.global(map, place), Width::Dwords(1), Elem::Int)
                };
                k.times(from, row_bytes)
            })
            .collect();
        let row = k.add(wave_row, within);
        let column = k.add(out, within);
        let columns: &[u32] = if self.up.is_some() { &[0, TILE_OUTS] } else { &[0] };
        let stages = self.stages(k, part, local[1]);
        let product = Product {
            cols: self.cols,
            items: self.items(),
            stages: &stages,
            x,
            copied: &copied,
            local,
            row,
            blocks,
            column,
            columns,
            half,
            gfx12,
        };
        let sums = product.sums(k);
        let columns = columns.len();
        let sink = Sink { map, own_row: wave_row, column, half, blocks, columns, gfx12, part };
        self.write(k, &sink, job, &sums);
    }

    fn write(&self, k: &mut Builder, sink: &Sink<'_>, job: &Job, sums: &[Value]) {
        let tile = k.workgroup_id(Axis::X);
        let first_out = k.times(tile, TILE_OUTS);
        let out = k.add(first_out, sink.column);
        let limit = k.int(self.matrix.rows);
        let inside = k.lt_u(out, limit);
        let own = if sink.gfx12 { k.left(sink.half, 3) } else { sink.half };
        let own_row = k.add(sink.own_row, own);
        let up = self.up.map(|(up, bend)| (up.factor, bend));
        let share = Share {
            rows: self.matrix.rows,
            matrix: self.matrix.factor,
            up,
            finish: Finish::Store,
            head: None,
        };
        for block in 0..sink.blocks {
            let index = block as usize;
            for register in 0..8u8 {
                let later = u32::from(register) * if sink.gfx12 { 1 } else { 2 };
                let row = k.plus(own_row, 16 * block + later);
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
                    epilogue(k, &share, sink.part, [value, second], [row, out]);
                });
            }
        }
    }
}
