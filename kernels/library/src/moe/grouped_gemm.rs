//! Products of the rows that chose an expert: a workgroup makes a tile of them, with 128 rows of weights: 64 outputs of
//! gate and up, or 128 of down. Tiles of 128 rows take half of the outputs, so that both fit into LDS.
//!
//! Which rows belong together is found by `group`; products of down are added up by `combine`. Not here: what becomes
//! of products (`output`).

use crate::builder_ext::BuilderExt;
use crate::gemm::stage::{StagedRows, WeightStage, stride};
use crate::gemm::tile::{OutputBlock, TileLds, TileProduct, used};
use crate::gemv::spec::{MatrixArguments, PartArguments};
use crate::moe::experts::ExpertMatrix;
use crate::moe::grouped_output::GroupedOutput;
use crate::moe::grouped_spec::{GroupedBuffers, GroupedGemm, TileJob};
use alloc::vec::Vec;
use doorbell_compiler::ir::{Alu, Axis, Builder, Elem, Function, Value, Width};
use doorbell_compiler::isa::{Generation, Target};

impl GroupedGemm {
    /// Arguments: `x` (of `ActivationsF16` or `ActivationsI8`), `out` (f16 `[slots, outs]`; of gate and up for bytes f32), the tiles
    /// and the map of [`GroupRows`](super::group_rows::GroupRows), for down the routing weights (f32 `[slots]`), per matrix its weights, scale and
    /// bias where there are any.
    pub fn function(&self, target: Target) -> Function {
        let mut k = Builder::new(&self.name(), self.items());
        let (x, out, tiles, map) = (k.buffer("x"), k.buffer("out"), k.buffer("tiles"), k.buffer("map"));
        let weights = self.up.is_none().then(|| k.buffer("weights"));
        let buffers = GroupedBuffers { x, map, weights };
        let first = self.matrix.factor.arguments(&mut k, "matrix");
        let second = self.up.map(|(up, _)| up.factor.arguments(&mut k, "up"));
        let room = TileLds::new(&mut k, self.path, self.tile, 2 * self.half());
        let gfx12 = target.generation() == Generation::Gfx12;
        let tile = k.workgroup_id(Axis::Y);
        let place = k.left(tile, 4);
        let entry = k.load_uniform(k.global(tiles, place), Width::Dwords(4), Elem::Int);
        let [expert, start, count, number] = [0, 1, 2, 3].map(|index| k.extract(entry, index));
        let tiles = k.plus(count, self.tile - 1);
        let tiles = k.over(tiles, self.tile);
        let busy = k.lt_u(number, tiles);
        k.when(busy, |k| {
            let job = self.job(k, [start, count], [number, tiles]);
            let matrix = self.of_expert(k, self.matrix, &first, expert);
            let up = self.up.zip(second.as_ref()).map(|((up, _), own)| self.of_expert(k, up, own, expert));
            let part = PartArguments { matrix, up, out, gate: None, head: None };
            self.tile(k, buffers, &job, &part, room, gfx12);
        });
        k.finish()
    }

    /// The job of a workgroup: `[start, count]` of its expert's rows, `[number, tiles]` of the tile that it has by its
    /// place in the grid. Neighbors in the grid take the same outputs of all tiles of an expert, so that its weights
    /// come from memory once.
    fn job(&self, k: &mut Builder, [start, count]: [Value; 2], [number, tiles]: [Value; 2]) -> TileJob {
        let [across, _, _] = self.groups(1);
        let group = k.workgroup_id(Axis::X);
        let number = k.times(number, across);
        let number = k.add(number, group);
        // Exact below 2^20 workgroups of an expert.
        let half = k.float(0.5);
        let dividend = k.cvt_f_u(number);
        let dividend = k.fadd(dividend, half);
        let divisor = k.cvt_f_u(tiles);
        let inverse = k.rcp(divisor);
        let quotient = k.fmul(dividend, inverse);
        let quotient = k.alu(Alu::cvt_u_f, &[quotient]);
        let quotient = k.first_lane(quotient);
        let before = k.mul(quotient, tiles);
        let tile = k.sub(number, before);
        let ahead = k.times(tile, self.tile);
        let (left, most) = (k.sub(count, ahead), k.int(self.tile));
        TileJob {
            first: k.add(start, ahead),
            count: k.min_u(left, most),
            out: k.times(quotient, self.outs()),
        }
    }

    /// The arguments of one expert's matrix.
    fn of_expert(
        &self,
        k: &mut Builder,
        stack: ExpertMatrix,
        own: &MatrixArguments,
        expert: Value,
    ) -> MatrixArguments {
        let bytes = stack.factor.ty.row_bytes(self.cols as usize).unwrap_or(0) as u32;
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

    /// The weights of a workgroup, in pieces that its work items take at once.
    fn stages(
        &self,
        k: &mut Builder,
        job: &TileJob,
        part: &PartArguments,
        room: TileLds,
    ) -> Vec<WeightStage> {
        let last = k.int(self.matrix.rows - 1);
        let half = self.half();
        let staged = WeightStage::rows(self.items());
        let up = self.up.zip(part.up.as_ref()).map(|((up, _), own)| (up.factor.ty, own.base));
        let mut stages = Vec::new();
        for ahead in (0..2 * half).step_by(staged as usize) {
            let (mut ty, mut base, mut row) = (self.matrix.factor.ty, part.matrix.base, ahead);
            if let Some((up_kind, up_base)) = up {
                row = ahead % half;
                if staged > half {
                    // One piece holds both: the waves of its second part take the second matrix.
                    let wave = k.wave();
                    let middle = k.int(half / 8);
                    let early = k.lt_u(wave, middle);
                    base = k.choose(early, |_| alloc::vec![base], |_| alloc::vec![up_base])[0];
                } else if ahead >= half {
                    (ty, base) = (up_kind, up_base);
                }
            }
            let fold = if up.is_some() { half.min(staged) } else { staged };
            let first = k.plus(job.out, row);
            let (cols, path) = (self.cols, self.path);
            let lds = [room.weights[0] + ahead * stride(path), room.weights[1] + 4 * ahead, room.weight_line];
            stages.push(WeightStage::new(k, &StagedRows { ty, cols, path, base, first, last, fold, lds }));
        }
        stages
    }

    /// Byte offsets of the rows that a work item copies.
    fn copied(&self, k: &mut Builder, buffers: GroupedBuffers, job: &TileJob) -> Vec<Value> {
        let one = k.int(1);
        let last = k.sub(job.count, one);
        let row_bytes = TileProduct::row_bytes(self.path, self.cols);
        (0..TileProduct::rounds(self.path, self.items(), self.tile))
            .map(|round| {
                let row = TileProduct::copied(k, self.path, self.items(), round);
                let row = k.min_u(row, last);
                let slot = k.add(job.first, row);
                let from = if self.up.is_none() {
                    slot
                } else {
                    let place = k.left(slot, 2);
                    k.load(k.global(buffers.map, place), Width::Dwords(1), Elem::Int)
                };
                k.times(from, row_bytes)
            })
            .collect()
    }

    fn tile(
        &self,
        k: &mut Builder,
        buffers: GroupedBuffers,
        job: &TileJob,
        part: &PartArguments,
        room: TileLds,
        gfx12: bool,
    ) {
        let (lane, wave) = (k.lane(), k.wave());
        let (within, half) = (k.mask(lane, 15), k.right(lane, 4));
        let across = self.half() / 16;
        let out = k.mask(wave, across - 1);
        let out = k.left(out, 4);
        let first_row = k.right(wave, across.trailing_zeros());
        let first_row = k.times(first_row, 16);
        let copied = self.copied(k, buffers, job);
        let row = k.add(first_row, within);
        let column = k.add(out, within);
        let second = self.up.map_or(self.matrix, |(up, _)| up).factor.ty;
        let columns = [(0, self.matrix.factor.ty), (self.half(), second)];
        let columns = columns.map(|(first, ty)| OutputBlock { first, ty });
        let stages = self.stages(k, job, part, room);
        let product = TileProduct {
            path: self.path,
            cols: self.cols,
            items: self.items(),
            stages: &stages,
            x: buffers.x,
            copied: &copied,
            room,
            row,
            first_row,
            blocks: self.blocks(),
            apart: self.apart(),
            used: Some(used(k, job.count, first_row, self.apart())),
            column,
            columns: &columns,
            half,
            gfx12,
        };
        let sums = product.sums(k);
        let out = k.add(job.out, column);
        let own = if gfx12 { k.left(half, 3) } else { half };
        let row = k.add(first_row, own);
        let rows_apart = if gfx12 { 1 } else { 2 };
        let output = GroupedOutput { buffers, job, part, row, out, second: self.half(), rows_apart };
        self.write(k, &output, &sums);
    }
}
