//! From a bound model to the plan of one batch shape.

use super::weights::{Ffn, Layer, Model, Shared};
use crate::heap::Heap;
use crate::plan::{
    Attend, Builder, Element, Epilogue, Experts, Head, HeadResult, Matrix, Op, Part, Plan, PlanError,
    Project, Route, Rows, Shape, TensorId,
};
use heapless::Vec as Fixed;

impl<'a> Model<'a> {
    /// The plan for batches of up to `shape` rows.
    ///
    /// # Errors
    /// [`PlanError`] when memory or the address space is too small.
    pub fn plan<'p>(&self, shape: Shape, result: HeadResult, heap: Heap<'p>) -> Result<Plan<'p>, PlanError> {
        let mut builder = Builder::new(shape, heap);
        let width = self.hparams.width;
        let mut stream = builder.tensor(Rows::Batch, width, Element::F32)?;
        let scale = if self.family.scaled_embedding { libm::sqrtf(width as f32) } else { 1.0 };
        builder.op(Op::Embed { table: self.embedding, scale, out: stream })?;
        let last = self.layers.len() - 1;
        for (index, layer) in self.layers.iter().enumerate() {
            stream = Graph { model: self, builder: &mut builder }.layer(layer, stream, index == last)?;
        }
        builder.op(Op::Head(Head {
            input: stream,
            norm: self.output_norm,
            matrix: self.head,
            scale: 1.0,
            soft_cap: self.hparams.logit_cap,
            result,
        }))?;
        builder.finish()
    }
}

struct Graph<'g, 'm, 'a, 'p> {
    model: &'m Model<'a>,
    builder: &'g mut Builder<'p>,
}

impl Graph<'_, '_, '_, '_> {
    /// Adds a layer; in the last layer, everything after keys and values works on the output rows only.
    fn layer(&mut self, layer: &Layer, stream: TensorId, last: bool) -> Result<TensorId, PlanError> {
        let mut rows = Rows::Batch;
        let mut query = self.qkv(layer, stream)?;
        let mut stream = stream;
        if last {
            rows = Rows::Outputs;
            query = self.select(query, layer.query.rows)?;
            stream = self.select(stream, self.model.hparams.width)?;
        }
        let attended = self.attend(layer, query, rows)?;
        self.branch(layer.output, attended, layer.post_attention_norm, stream, rows)?;
        self.ffn(layer, stream, rows)?;
        Ok(stream)
    }

    fn select(&mut self, input: TensorId, width: u32) -> Result<TensorId, PlanError> {
        let out = self.builder.tensor(Rows::Outputs, width, Element::F32)?;
        self.builder.op(Op::Select { input, out })?;
        Ok(out)
    }

    fn qkv(&mut self, layer: &Layer, stream: TensorId) -> Result<TensorId, PlanError> {
        let out = self.builder.tensor(Rows::Batch, layer.query.rows, Element::F32)?;
        let (rope, kv) = (Some(layer.rope), layer.kv);
        let query =
            Epilogue::Query { norm: layer.query_norm, rope, head_dim: self.model.hparams.key_dim, out };
        let parts = [
            Part { matrix: layer.query, epilogue: query },
            Part { matrix: layer.key, epilogue: Epilogue::Key { norm: layer.key_norm, rope, kv } },
            Part { matrix: layer.value, epilogue: Epilogue::Value { kv } },
        ];
        self.project(stream, Some(layer.attention_norm), &parts)?;
        Ok(out)
    }

    fn project(
        &mut self,
        input: TensorId,
        norm: Option<crate::plan::Norm>,
        parts: &[Part],
    ) -> Result<(), PlanError> {
        // A projection never has more parts than the three of attention.
        let parts = Fixed::from_slice(parts).unwrap_or_default();
        self.builder.op(Op::Project(Project { input, norm, parts }))
    }

    fn attend(&mut self, layer: &Layer, query: TensorId, rows: Rows) -> Result<TensorId, PlanError> {
        let hparams = &self.model.hparams;
        let out = self.builder.tensor(rows, layer.heads * hparams.value_dim, Element::F32)?;
        self.builder.op(Op::Attend(Attend {
            query,
            kv: layer.kv,
            heads: layer.heads,
            scale: hparams.attention_scale,
            window: layer.window,
            soft_cap: None,
            sinks: layer.sinks,
            out,
        }))?;
        Ok(out)
    }

    /// `stream += [norm](matrix * input)`
    fn branch(
        &mut self,
        matrix: Matrix,
        input: TensorId,
        norm: Option<crate::plan::Norm>,
        stream: TensorId,
        rows: Rows,
    ) -> Result<(), PlanError> {
        let Some(norm) = norm else {
            return self.project(input, None, &[Part { matrix, epilogue: Epilogue::Add { to: stream } }]);
        };
        let out = self.builder.tensor(rows, matrix.rows, Element::F32)?;
        self.project(input, None, &[Part { matrix, epilogue: Epilogue::Store { out } }])?;
        self.builder.op(Op::NormAdd { input: out, norm, to: stream })
    }

    /// Hidden values of the shared expert and its weight before the sigmoid.
    fn shared_hidden(
        &mut self,
        layer: &Layer,
        shared: &Shared,
        stream: TensorId,
        rows: Rows,
    ) -> Result<(TensorId, Option<TensorId>), PlanError> {
        let hidden = self.builder.tensor(rows, shared.gate.rows, Element::F32)?;
        let gate = Epilogue::Gate { up: shared.up, glu: self.model.family.glu, out: hidden };
        let gate = Part { matrix: shared.gate, epilogue: gate };
        let Some(matrix) = shared.weight else {
            self.project(stream, Some(layer.ffn_norm), &[gate])?;
            return Ok((hidden, None));
        };
        let out = self.builder.tensor(rows, 1, Element::F32)?;
        let weight = Part { matrix, epilogue: Epilogue::Store { out } };
        self.project(stream, Some(layer.ffn_norm), &[gate, weight])?;
        Ok((hidden, Some(out)))
    }

    fn ffn(&mut self, layer: &Layer, stream: TensorId, rows: Rows) -> Result<(), PlanError> {
        let glu = self.model.family.glu;
        match layer.ffn {
            Ffn::Dense { gate, up, down } => {
                let hidden = self.builder.tensor(rows, gate.rows, Element::F32)?;
                let part = Part { matrix: gate, epilogue: Epilogue::Gate { up, glu, out: hidden } };
                self.project(stream, Some(layer.ffn_norm), &[part])?;
                self.branch(down, hidden, layer.post_ffn_norm, stream, rows)
            }
            Ffn::Mixture { router, gate, up, down, shared } => {
                let Some(experts) = self.model.hparams.experts else { return Ok(()) };
                let ids = self.builder.tensor(rows, experts.used, Element::U32)?;
                let weights = self.builder.tensor(rows, experts.used, Element::F32)?;
                let norm = Some(layer.ffn_norm);
                self.builder.op(Op::Route(Route {
                    input: stream,
                    norm,
                    router: router.matrix,
                    gating: experts.gating,
                    selection_bias: router.selection_bias,
                    top_k: experts.used,
                    renormalize: experts.renormalize,
                    scale: experts.scale,
                    ids,
                    weights,
                }))?;
                // The shared expert reads the stream before the routed ones add to it.
                let shared = match shared {
                    Some(shared) => Some((shared, self.shared_hidden(layer, &shared, stream, rows)?)),
                    None => None,
                };
                let (top_k, to) = (experts.used, stream);
                let op = Experts { input: stream, norm, ids, weights, top_k, gate, up, down, glu, to };
                self.builder.op(Op::Experts(op))?;
                let Some((shared, (hidden, weight))) = shared else { return Ok(()) };
                let epilogue = match weight {
                    Some(gate) => Epilogue::AddGated { to, gate },
                    None => Epilogue::Add { to },
                };
                self.project(hidden, None, &[Part { matrix: shared.down, epilogue }])
            }
        }
    }
}
