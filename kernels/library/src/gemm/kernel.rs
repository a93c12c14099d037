//! `y = x * W^T` on WMMA: a workgroup makes 128 rows of 64 outputs, or 64 rows of 64 outputs of two matrices, or half
//! as many rows; each of eight waves makes two blocks of sixteen rows, or one, of 32 outputs, or of 16 of both.
//!
//! Sums run over columns in order, whatever the grid: a row's result does not depend on the other rows.

use crate::builder_ext::BuilderExt;
use crate::gemm::path::MatrixPath;
use crate::gemm::stage::{StagedRows, WeightStage, stride};
use crate::gemm::tile::{OutputBlock, TileLds, TileProduct};
use crate::gemv::epilogue::epilogue;
use crate::gemv::spec::{MatrixSpec, OutputMode, PartArguments, PartSpec};
use crate::glu::GluSpec;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Write as _;
use doorbell_compiler::ir::{Axis, Builder, Elem, Function, Value};
use doorbell_compiler::isa::{Generation, Target};

/// A product of many rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Gemm {
    /// The matrix instructions.
    pub path: MatrixPath,
    /// The matrix.
    pub matrix: MatrixSpec,
    /// The second matrix where products are gated.
    pub up: Option<(MatrixSpec, GluSpec)>,
    /// Columns, a multiple of 32.
    pub cols: u32,
    /// Outputs.
    pub outs: u32,
    /// What becomes of the product; never [`OutputMode::Cap`].
    pub finish: OutputMode,
    /// Blocks of sixteen rows of a wave: 1 or 2.
    pub blocks: u32,
}

/// Most rows of a workgroup; activations are padded to a multiple.
pub(crate) const TILE_ROWS: u32 = 128;
/// Outputs of a workgroup, of each matrix.
const TILE_OUTS: u32 = 64;
const WORKGROUP: u32 = 256;

/// A wave's place.
struct WaveOffsets {
    /// Lane modulo 16.
    within: Value,
    /// Lane divided by 16.
    half: Value,
    /// First row of the wave in the tile, uniform.
    rows: Value,
    /// First output of the wave in one matrix's part of the tile.
    outs: Value,
}

impl Gemm {
    /// The kernel's name.
    pub(crate) fn name(&self) -> String {
        let path = self.path.name();
        let rows = self.tile_rows();
        let mut name = format!("gemm{path}_{rows}_{}x{}_{}", self.outs, self.cols, self.matrix.name());
        if let Some((up, glu)) = self.up {
            let _ = write!(name, "_{}_{}", glu.name(), up.name());
        }
        name.push_str(match self.finish {
            OutputMode::Add => "_add",
            OutputMode::AddGated => "_gated",
            OutputMode::Store | OutputMode::Cap { .. } => "",
        });
        name
    }

    /// Rows of a workgroup.
    fn tile_rows(&self) -> u32 {
        self.blocks * self.apart()
    }

    /// Rows between a wave's blocks, which other waves make.
    fn apart(&self) -> u32 {
        if self.up.is_some() { 32 } else { 64 }
    }

    /// Blocks of a wave for so many rows.
    pub(crate) fn blocks(gated: bool, rows: u32) -> u32 {
        if rows <= if gated { 32 } else { 64 } { 1 } else { 2 }
    }

    /// Workgroups for so many rows.
    pub fn groups(&self, rows: u32) -> [u32; 3] {
        [self.outs.div_ceil(TILE_OUTS), rows.div_ceil(self.tile_rows()), 1]
    }

    /// Arguments: `x` (of `ActivationsF16` or `ActivationsI8`, rows padded to 128), `out` (f32 `[rows, outs]`), `rows`, per matrix its
    /// weights, scale and bias where there are any, and the gate (f32 `[rows]`) of a gated addition.
    pub fn function(&self, target: Target) -> Function {
        let mut k = Builder::new(&self.name(), WORKGROUP);
        let (x, out) = (k.buffer("x"), k.buffer("out"));
        let rows = k.scalar("rows", Elem::Int);
        let first = self.matrix.arguments(&mut k, "weights");
        let second = self.up.map(|(up, _)| up.arguments(&mut k, "up"));
        let gate = (self.finish == OutputMode::AddGated).then(|| k.buffer("gate"));
        let matrices = if self.up.is_some() { 2 } else { 1 };
        let room = TileLds::new(&mut k, self.path, self.tile_rows(), matrices * TILE_OUTS);
        let gfx12 = target.generation() == Generation::Gfx12;
        let place = self.place(&mut k);
        let stages = self.stages(&mut k, first.base, second.as_ref().map(|own| own.base), room);
        let sums = self.multiply(&mut k, x, &place, &stages, room, gfx12);
        let part = PartArguments { matrix: first, up: second, out, gate, head: None };
        self.finish(&mut k, &place, &sums, &part, rows, gfx12);
        k.finish()
    }

    fn place(&self, k: &mut Builder) -> WaveOffsets {
        let lane = k.lane();
        let wave = k.wave();
        let within = k.mask(lane, 15);
        let half = k.right(lane, 4);
        let across = self.apart() / 16;
        let rows = k.mask(wave, across - 1);
        let rows = k.times(rows, 16);
        let outs = k.right(wave, across.trailing_zeros());
        let outs = k.times(outs, if self.up.is_some() { 16 } else { 32 });
        WaveOffsets { within, half, rows, outs }
    }

    /// One per matrix.
    fn stages(&self, k: &mut Builder, base: Value, up: Option<Value>, room: TileLds) -> Vec<WeightStage> {
        let tile = k.workgroup_id(Axis::X);
        let last = k.int(self.outs - 1);
        let first = k.times(tile, TILE_OUTS);
        let mut matrices = alloc::vec![(self.matrix.ty, base)];
        matrices.extend(self.up.zip(up).map(|((up, _), base)| (up.ty, base)));
        let mut stages = Vec::new();
        for (number, (ty, base)) in (0u32..).zip(matrices) {
            let rows = number * TILE_OUTS;
            let (cols, path, fold) = (self.cols, self.path, TILE_OUTS);
            let lds = [room.weights[0] + rows * stride(path), room.weights[1] + 4 * rows, room.weight_line];
            stages.push(WeightStage::new(k, &StagedRows { ty, cols, path, base, first, last, fold, lds }));
        }
        stages
    }

    /// Sums `[row block][output block]`.
    fn multiply(
        &self,
        k: &mut Builder,
        x: Value,
        place: &WaveOffsets,
        stages: &[WeightStage],
        room: TileLds,
        gfx12: bool,
    ) -> Vec<Vec<Value>> {
        let path = self.path;
        let tile = k.workgroup_id(Axis::Y);
        let first = k.times(tile, self.tile_rows());
        let row_bytes = TileProduct::row_bytes(path, self.cols);
        let copied: Vec<Value> = (0..TileProduct::rounds(path, WORKGROUP, self.tile_rows()))
            .map(|round| {
                let row = TileProduct::copied(k, path, WORKGROUP, round);
                let row = k.add(row, first);
                k.times(row, row_bytes)
            })
            .collect();
        let row = k.add(place.rows, place.within);
        let column = k.add(place.outs, place.within);
        let own = self.matrix.ty;
        let columns = match self.up {
            Some((up, _)) => [(0, own), (TILE_OUTS, up.ty)],
            None => [(0, own), (16, own)],
        };
        let columns = columns.map(|(first, ty)| OutputBlock { first, ty });
        let product = TileProduct {
            path,
            cols: self.cols,
            items: WORKGROUP,
            stages,
            x,
            copied: &copied,
            room,
            row,
            first_row: place.rows,
            blocks: self.blocks,
            apart: self.apart(),
            used: None,
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
        place: &WaveOffsets,
        sums: &[Vec<Value>],
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
            PartSpec { rows: self.outs, matrix: self.matrix, up: self.up, finish: self.finish, head: None };
        let columns: &[u32] = if gated { &[0] } else { &[0, 1] };
        for (block, column) in (0..self.blocks).flat_map(|block| columns.iter().map(move |at| (block, *at))) {
            let out = k.plus(out, 16 * column);
            let inside = k.lt_u(out, limit);
            for register in 0..8 {
                let later = register * if gfx12 { 1 } else { 2 };
                let row = k.plus(first_row, self.apart() * block + later);
                let here = k.lt_u(row, rows);
                let here = k.both(here, inside);
                let index = (2 * block + column) as usize;
                let value = sums[index][register as usize];
                let up = sums[if gated { index + 1 } else { index }][register as usize];
                k.when(here, |k| epilogue(k, &share, part, [value, up], [row, out]));
            }
        }
    }
}
