//! `y = x * W^T` on WMMA: a workgroup makes 128 rows of 64 outputs, eight waves of 32 by 32 each.
//!
//! Sums run over columns in order, whatever the grid: a row's result does not depend on the other rows.

use super::stage::{ROWS, STRIDE, Stage};
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

/// Rows of a workgroup.
pub(crate) const TILE_ROWS: u32 = 128;
/// Outputs of a workgroup; of each matrix half of them where there are two.
const TILE_OUTS: u32 = 64;
const GROUP: u32 = 256;

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

    /// Workgroups for so many rows.
    pub fn groups(&self, rows: u32) -> [u32; 3] {
        let outs = if self.up.is_some() { TILE_OUTS / 2 } else { TILE_OUTS };
        [self.outs.div_ceil(outs), rows.div_ceil(TILE_ROWS), 1]
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
        let lds = k.local(2 * ROWS * STRIDE);
        let place = self.place(&mut k);
        let stages = self.stages(&mut k, [first.base, second.as_ref().unwrap_or(&first).base], lds);
        let sums = self.multiply(&mut k, x, &place, &stages, lds, target);
        let part = PartArguments { matrix: first, up: second, out, gate, head: None };
        self.finish(&mut k, &place, &sums, &part, rows, target);
        k.finish()
    }

    fn place(&self, k: &mut Builder) -> Place {
        let lane = k.lane();
        let wave = k.wave();
        let within = k.mask(lane, 15);
        let half = k.right(lane, 4);
        // Waves 0 to 3 share outputs, and so do 4 to 7.
        let rows = k.mask(wave, 3);
        let rows = k.left(rows, 5);
        let outs = k.right(wave, 2);
        let outs = k.left(outs, if self.up.is_some() { 4 } else { 5 });
        Place { within, half, rows, outs }
    }

    /// Both halves of the tile: gate and up, or the matrix's next rows.
    fn stages(&self, k: &mut Builder, bases: [Value; 2], lds: u32) -> [Stage; 2] {
        let tile = k.workgroup_id(Axis::X);
        let last = k.int(self.outs - 1);
        let first = k.left(tile, if self.up.is_some() { 5 } else { 6 });
        let (second, kind) = match self.up {
            Some((up, _)) => (first, up.kind),
            None => (k.plus(first, ROWS), self.matrix.kind),
        };
        let upper = lds + ROWS * STRIDE;
        [
            Stage::new(k, self.matrix.kind, self.cols, [bases[0], first, last], lds),
            Stage::new(k, kind, self.cols, [bases[1], second, last], upper),
        ]
    }

    /// Accumulators `[row block][output block]`.
    fn multiply(
        &self,
        k: &mut Builder,
        x: Value,
        place: &Place,
        stages: &[Stage],
        lds: u32,
        target: Target,
    ) -> Vec<Value> {
        let tile = k.workgroup_id(Axis::Y);
        let first = k.times(tile, TILE_ROWS);
        let first = k.add(first, place.rows);
        let first = k.add(first, place.within);
        let rows = [0, 16].map(|block| k.plus(first, block));
        let column = k.add(place.outs, place.within);
        let columns = if self.up.is_some() { [0, ROWS] } else { [0, 16] };
        let product =
            Product { cols: self.cols, x, rows: &rows, half: place.half, column, columns: &columns };
        product.sums(k, stages, lds, target)
    }

    fn finish(
        &self,
        k: &mut Builder,
        place: &Place,
        sums: &[Value],
        part: &PartArguments,
        rows: Value,
        target: Target,
    ) {
        let gfx12 = target.generation() == Generation::Gfx12;
        let gated = self.up.is_some();
        let (tile_x, tile_y) = (k.workgroup_id(Axis::X), k.workgroup_id(Axis::Y));
        let first_out = k.left(tile_x, if gated { 5 } else { 6 });
        let first_out = k.add(first_out, place.outs);
        let out = k.add(first_out, place.within);
        let first_row = k.times(tile_y, TILE_ROWS);
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
