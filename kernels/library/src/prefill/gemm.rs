//! `y = x * W^T` on WMMA: a workgroup makes 128 rows of 64 outputs, or 64 rows of 64 outputs of two matrices; each of
//! eight waves makes 32 rows of 32 outputs, or of 16 of both.
//!
//! Sums run over columns in order, whatever the grid: a row's result does not depend on the other rows.

use super::stage::{STEP, STRIDE, Stage};
use super::tile::Product;
use crate::glu::Bend;
use crate::idiom::Idiom;
use crate::project::{Factor, Finish, PartArguments, Share, epilogue};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Write as _;
use doorbell_compiler::ir::{Axis, Builder, Elem, Function, Value};
use doorbell_compiler::isa::{Generation, Target};

/// A product of many rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Gemm {
    /// The matrix.
    pub matrix: Factor,
    /// The second matrix where products are gated.
    pub up: Option<(Factor, Bend)>,
    /// Columns, a multiple of 32.
    pub cols: u32,
    /// Outputs.
    pub outs: u32,
    /// What becomes of the product; never [`Finish::Cap`].
    pub finish: Finish,
}

/// Most rows of a workgroup; activations are padded to a multiple.
pub(crate) const TILE_ROWS: u32 = 128;
/// Outputs of a workgroup, of each matrix.
const TILE_OUTS: u32 = 64;
const GROUP: u32 = 256;
/// Rows of a wave.
const WAVE_ROWS: u32 = 32;

/// A wave's place: all values per lane.
struct Place {
    /// Lane modulo 16.
    within: Value,
    /// Lane divided by 16.
    half: Value,
    /// First row of the wave in the tile.
    rows: Value,
    /// First output of the wave in one matrix's part of the tile.
    outs: Value,
}

impl Gemm {
    /// The kernel's name.
    pub(crate) fn name(&self) -> String {
        let mut name = format!("gemm_{}x{}_{}", self.outs, self.cols, self.matrix.name());
        if let Some((up, bend)) = self.up {
            let _ = write!(name, "_{}_{}", bend.name(), up.name());
        }
        name.push_str(match self.finish {
            Finish::Add => "_add",
            Finish::AddGated => "_gated",
            Finish::Store | Finish::Cap { .. } => "",
        });
        name
    }

    /// Rows of a workgroup.
    fn tile_rows(&self) -> u32 {
        if self.up.is_some() { TILE_ROWS / 2 } else { TILE_ROWS }
    }

    /// Outputs of a wave, of each matrix.
    fn wave_outs(&self) -> u32 {
        if self.up.is_some() { 16 } else { 32 }
    }

    /// Workgroups for so many rows.
    pub fn groups(&self, rows: u32) -> [u32; 3] {
        [self.outs.div_ceil(TILE_OUTS), rows.div_ceil(self.tile_rows()), 1]
    }

    /// Arguments: `x` (f16, rows padded to 128 and columns to 256), `out` (f32 `[rows, outs]`), `rows`, per matrix its
    /// weights, scale and bias where there are any, and the gate (f32 `[rows]`) of a gated addition.
    pub fn function(&self, target: Target) -> Function {
        let mut k = Builder::new(&self.name(), GROUP);
        let (x, out) = (k.buffer("x"), k.buffer("out"));
        let rows = k.scalar("rows", Elem::Int);
        let first = self.matrix.arguments(&mut k, "weights");
        let second = self.up.map(|(up, _)| up.arguments(&mut k, "up"));
        let gate = (self.finish == Finish::AddGated).then(|| k.buffer("gate"));
        let matrices = if self.up.is_some() { 2 } else { 1 };
        let local = [k.local(self.tile_rows() * STRIDE), k.local(matrices * TILE_OUTS * STRIDE)];
        let gfx12 = target.generation() == Generation::Gfx12;
        let place = self.place(&mut k);
        let stages = self.stages(&mut k, first.base, second.as_ref().map(|own| own.base), local[1]);
        let sums = self.multiply(&mut k, x, &place, &stages, local, gfx12);
        let part = PartArguments { matrix: first, up: second, out, gate, head: None };
        self.finish(&mut k, &place, &sums, &part, rows, gfx12);
        k.finish()
    }

    fn place(&self, k: &mut Builder) -> Place {
        let lane = k.lane();
        let wave = k.wave();
        let within = k.mask(lane, 15);
        let half = k.right(lane, 4);
        let across = self.tile_rows() / WAVE_ROWS;
        let rows = k.mask(wave, across - 1);
        let rows = k.times(rows, WAVE_ROWS);
        let outs = k.right(wave, across.trailing_zeros());
        let outs = k.times(outs, self.wave_outs());
        Place { within, half, rows, outs }
    }

    /// One per matrix.
    fn stages(&self, k: &mut Builder, base: Value, up: Option<Value>, lds: u32) -> Vec<Stage> {
        let tile = k.workgroup_id(Axis::X);
        let last = k.int(self.outs - 1);
        let first = k.times(tile, TILE_OUTS);
        let mut stages = alloc::vec![Stage::new(k, self.matrix.kind, self.cols, [base, first, last], lds)];
        stages.extend(self.up.zip(up).map(|((up, _), base)| {
            Stage::new(k, up.kind, self.cols, [base, first, last], lds + TILE_OUTS * STRIDE)
        }));
        stages
    }

    /// Accumulators `[row block][output block]`.
    fn multiply(
        &self,
        k: &mut Builder,
        x: Value,
        place: &Place,
        stages: &[Stage],
        local: [u32; 2],
        gfx12: bool,
    ) -> Vec<Value> {
        let tile = k.workgroup_id(Axis::Y);
        let first = k.times(tile, self.tile_rows());
        let row_bytes = 2 * self.cols.next_multiple_of(STEP);
        let copied: Vec<Value> = (0..Product::rounds(GROUP, self.tile_rows()))
            .map(|round| {
                let row = Product::copied(k, GROUP, round);
                let row = k.add(row, first);
                k.times(row, row_bytes)
            })
            .collect();
        let row = k.add(place.rows, place.within);
        let column = k.add(place.outs, place.within);
        let columns = if self.up.is_some() { [0, TILE_OUTS] } else { [0, 16] };
        let product = Product {
            cols: self.cols,
            items: GROUP,
            stages,
            x,
            copied: &copied,
            local,
            row,
            blocks: WAVE_ROWS / 16,
            column,
            columns: &columns,
            half: place.half,
            gfx12,
        };
        product.sums(k)
    }

    fn finish(
        &self,
        k: &mut Builder,
        place: &Place,
        sums: &[Value],
        part: &PartArguments,
        rows: Value,
        gfx12: bool,
    ) {
        let gated = self.up.is_some();
        let (tile_x, tile_y) = (k.workgroup_id(Axis::X), k.workgroup_id(Axis::Y));
        let first_out = k.times(tile_x, TILE_OUTS);
        let first_out = k.add(first_out, place.outs);
        let out = k.add(first_out, place.within);
        let first_row = k.times(tile_y, self.tile_rows());
        let first_row = k.add(first_row, place.rows);
        let own = if gfx12 { k.left(place.half, 3) } else { place.half };
        let first_row = k.add(first_row, own);
        let limit = k.int(self.outs);
        let share =
            Share { rows: self.outs, matrix: self.matrix, up: self.up, finish: self.finish, head: None };
        let blocks: &[(u32, u32)] = if gated { &[(0, 0), (1, 0)] } else { &[(0, 0), (0, 1), (1, 0), (1, 1)] };
        for (block, column) in blocks {
            let out = k.plus(out, 16 * column);
            let inside = k.lt_u(out, limit);
            for register in 0..8u8 {
                let later = u32::from(register) * if gfx12 { 1 } else { 2 };
                let row = k.plus(first_row, 16 * block + later);
                let here = k.lt_u(row, rows);
                let here = k.both(here, inside);
                let index = (2 * block + column) as usize;
                let value = k.accumulator(sums[index], register);
                let up = k.accumulator(sums[if gated { index + 1 } else { index }], register);
                k.when(here, |k| epilogue(k, &share, part, [value, up], [row, out]));
            }
        }
    }
}
