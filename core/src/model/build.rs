//! From a bound model to the plan of one batch shape.

use super::family::{FfnNorm, HeadNorms};
use super::weights::{
    Attention, Delta, DeltaGateWeights, Ffn, Layer, Mixer, Model, ParallelExperts, Shared, TokenInputs,
};
use crate::heap::Heap;
use crate::plan::{
    Attend, Builder, DeltaGates, DeltaNet, Element, Epilogue, Experts, Head, HeadResult, HeadTarget, Matrix,
    Norm, NormAdd, Op, Part, Plan, PlanError, Project, Rotate, Route, Rows, Shape, TensorId, Update,
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
        builder.op(Op::Embed { table: self.embedding, scale: self.hparams.embedding_scale, out: stream })?;
        let mut inputs = None;
        if let Some(token_inputs) = self.token_inputs {
            inputs = Some(Graph { model: self, builder: &mut builder }.token_inputs(&token_inputs, stream)?);
        }
        let last = self.layers.len() - 1;
        for (index, layer) in self.layers.iter().enumerate() {
            let mut graph = Graph { model: self, builder: &mut builder };
            stream = graph.layer(layer, stream, inputs.map(|inputs| (inputs, index)), index == last)?;
        }
        builder.op(Op::Head(Head {
            input: stream,
            norm: self.output_norm,
            matrix: self.head,
            scale: self.hparams.logit_scale,
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
    fn layer(
        &mut self,
        layer: &Layer,
        stream: TensorId,
        inputs: Option<(TensorId, usize)>,
        last: bool,
    ) -> Result<TensorId, PlanError> {
        let rows = if last { Rows::Outputs } else { Rows::Batch };
        let (output, mixed) = match &layer.mixer {
            Mixer::Attention(attention) => {
                (attention.output, self.attention(attention, layer.attention_norm, stream, rows)?)
            }
            Mixer::Delta(delta) => {
                let out = self.delta(delta, layer.attention_norm, stream)?;
                (delta.output, self.select_if(last, out, delta.output_width())?)
            }
        };
        let stream = self.select_if(last, stream, self.model.hparams.width)?;
        if self.model.family.ffn_norm == FfnNorm::Parallel {
            self.parallel(layer, output, mixed, stream, rows)?;
            return Ok(stream);
        }
        self.branch(output, mixed, layer.post_attention_norm, stream, rows, 1.0)?;
        let Some((token_input, (inputs, index))) = layer.token_input.zip(inputs) else {
            self.ffn(layer, stream, rows, layer.output_scale)?;
            return Ok(stream);
        };
        self.ffn(layer, stream, rows, 1.0)?;
        let width = token_input.gate.rows;
        let inputs = self.select_if(last, inputs, width * self.model.layers.len() as u32)?;
        let hidden = self.builder.tensor(rows, width, Element::F32)?;
        let glu = self.model.family.glu;
        let epilogue = Epilogue::GateBy { by: inputs, column: index as u32 * width, glu, out: hidden };
        self.project(stream, None, &[Part { matrix: token_input.gate, epilogue }])?;
        let scale = layer.output_scale;
        self.branch(token_input.projection, hidden, Some(token_input.norm), stream, rows, scale)?;
        Ok(stream)
    }

    /// The inputs of all layers beside the stream, `[rows, layers * per_layer_width]`.
    fn token_inputs(&mut self, inputs: &TokenInputs, embedding: TensorId) -> Result<TensorId, PlanError> {
        let width = inputs.projection.rows;
        let out = self.builder.tensor(Rows::Batch, width, Element::F32)?;
        let projected = self.builder.tensor(Rows::Batch, width, Element::F32)?;
        self.builder.op(Op::Embed { table: inputs.table, scale: inputs.scale, out })?;
        let epilogue = Epilogue::Store { out: projected };
        self.project(embedding, None, &[Part { matrix: inputs.projection, epilogue }])?;
        self.norm_add(projected, inputs.norm, out, Update::Add, 1.0)?;
        Ok(out)
    }

    fn norm_add(
        &mut self,
        input: TensorId,
        norm: Norm,
        to: TensorId,
        update: Update,
        scale: f32,
    ) -> Result<(), PlanError> {
        self.builder.op(Op::NormAdd(NormAdd { input, norm, to, update, scale }))
    }

    /// The rows whose result is wanted, if only they are.
    fn select_if(&mut self, last: bool, input: TensorId, width: u32) -> Result<TensorId, PlanError> {
        if last { self.select(input, width) } else { Ok(input) }
    }

    fn select(&mut self, input: TensorId, width: u32) -> Result<TensorId, PlanError> {
        let out = self.builder.tensor(Rows::Outputs, width, Element::F32)?;
        self.builder.op(Op::Select { input, out })?;
        Ok(out)
    }

    /// Softmax attention of the wanted rows; keys and values are those of all rows.
    fn attention(
        &mut self,
        layer: &Attention,
        norm: Option<Norm>,
        stream: TensorId,
        rows: Rows,
    ) -> Result<TensorId, PlanError> {
        let width = layer.heads * layer.key_dim;
        let mut query = self.builder.tensor(Rows::Batch, width, Element::F32)?;
        let mut gate = None;
        if layer.gated {
            gate = Some(self.builder.tensor(Rows::Batch, width, Element::F32)?);
        }
        let kv = layer.kv;
        let mut parts: Fixed<Part, 4> = Fixed::new();
        if layer.has_plain_heads() {
            let (rope, norm, head_dim) = (layer.rope, layer.query_norm, layer.key_dim);
            let epilogue = Epilogue::Query { norm, rope, head_dim, out: query, gate };
            parts.extend([Part { matrix: layer.query, epilogue }]);
            let key = Epilogue::Key { norm: layer.key_norm, rope, kv };
            parts.extend(layer.key.map(|matrix| Part { matrix, epilogue: key }));
        } else {
            self.rotated_heads(layer, stream, norm, query)?;
        }
        let value = Epilogue::Value { norm: layer.value_norm, kv };
        parts.extend(layer.value.map(|matrix| Part { matrix, epilogue: value }));
        if let Some(matrix) = layer.gate {
            let out = self.builder.tensor(Rows::Batch, matrix.rows, Element::F32)?;
            parts.extend([Part { matrix, epilogue: Epilogue::Store { out } }]);
            gate = Some(out);
        }
        self.project(stream, norm, &parts)?;
        if rows == Rows::Outputs {
            query = self.select(query, width)?;
            gate = gate.map(|gate| self.select(gate, width)).transpose()?;
        }
        let out = self.builder.tensor(rows, layer.heads * layer.value_dim, Element::F32)?;
        self.builder.op(Op::Attend(Attend {
            query,
            kv,
            heads: layer.heads,
            scale: self.model.hparams.attention_scale,
            window: layer.window,
            soft_cap: layer.soft_cap,
            sinks: layer.sinks,
            gate,
            out,
        }))?;
        Ok(out)
    }

    /// Queries, to `out`, and keys, whose norms or factors no epilogue of a projection has.
    fn rotated_heads(
        &mut self,
        layer: &Attention,
        stream: TensorId,
        norm: Option<Norm>,
        out: TensorId,
    ) -> Result<(), PlanError> {
        let query = (layer.query, layer.query_norm, HeadTarget::Query { head_dim: layer.key_dim, out });
        let key = layer.key.map(|key| (key, layer.key_norm, HeadTarget::Key(layer.kv)));
        for (matrix, head_norm, target) in [Some(query), key].into_iter().flatten() {
            let mut input = self.builder.tensor(Rows::Batch, matrix.rows, Element::F32)?;
            self.project(stream, norm, &[Part { matrix, epilogue: Epilogue::Store { out: input } }])?;
            let after = layer.head_norms == HeadNorms::AfterRotation;
            if let Some(head_norm) = head_norm.filter(|_| !after) {
                let normalized = self.builder.tensor(Rows::Batch, matrix.rows, Element::F32)?;
                self.norm_add(input, head_norm, normalized, Update::Replace, 1.0)?;
                input = normalized;
            }
            self.builder.op(Op::Rotate(Rotate {
                input,
                rope: layer.rope,
                norm: head_norm.filter(|_| after),
                temperature: layer.temperature.filter(|_| matches!(target, HeadTarget::Query { .. })),
                target,
            }))?;
        }
        Ok(())
    }

    /// Attention and a feed-forward without experts that read the same stream, normalized once.
    fn parallel(
        &mut self,
        layer: &Layer,
        output: Matrix,
        mixed: TensorId,
        stream: TensorId,
        rows: Rows,
    ) -> Result<(), PlanError> {
        let hidden = self.dense_hidden(layer, layer.attention_norm, stream, rows)?;
        self.branch(output, mixed, None, stream, rows, 1.0)?;
        match hidden {
            Some((down, hidden)) => self.branch(down, hidden, None, stream, rows, 1.0),
            None => Ok(()),
        }
    }

    /// The hidden values of a feed-forward without experts, and its last matrix.
    fn dense_hidden(
        &mut self,
        layer: &Layer,
        norm: Option<Norm>,
        stream: TensorId,
        rows: Rows,
    ) -> Result<Option<(Matrix, TensorId)>, PlanError> {
        let (matrix, down) = match layer.ffn {
            Ffn::Plain { up, down, .. } => (up, down),
            Ffn::Dense { gate, down, .. } => (gate, down),
            Ffn::Mixture { .. } => return Ok(None),
        };
        let out = self.builder.tensor(rows, matrix.rows, Element::F32)?;
        let epilogue = match layer.ffn {
            Ffn::Plain { activation, .. } => Epilogue::Activate { activation, out },
            Ffn::Dense { up, .. } => Epilogue::Gate { up, glu: self.model.family.glu, out },
            Ffn::Mixture { .. } => return Ok(None),
        };
        self.project(stream, norm, &[Part { matrix, epilogue }])?;
        Ok(Some((down, out)))
    }

    /// Linear attention; every row changes the state.
    fn delta(&mut self, layer: &Delta, norm: Option<Norm>, stream: TensorId) -> Result<TensorId, PlanError> {
        let shape = layer.shape;
        let mixed = self.builder.tensor(Rows::Batch, layer.mixed.rows, Element::F32)?;
        let gate = self.builder.tensor(Rows::Batch, layer.gate.rows, Element::F32)?;
        let store = |matrix, out| Part { matrix, epilogue: Epilogue::Store { out } };
        let mut parts: Fixed<Part, 4> = Fixed::new();
        parts.extend([store(layer.mixed, mixed), store(layer.gate, gate)]);
        let gates = match layer.gates {
            DeltaGateWeights::ByKeyHead(matrix) => {
                let both = self.builder.tensor(Rows::Batch, matrix.rows, Element::F32)?;
                parts.extend([store(matrix, both)]);
                DeltaGates::ByKeyHead(both)
            }
            DeltaGateWeights::Apart { beta, alpha } => {
                let tensors =
                    [beta, alpha].map(|matrix| self.builder.tensor(Rows::Batch, matrix.rows, Element::F32));
                let [beta_out, alpha_out] = tensors;
                let (beta_out, alpha_out) = (beta_out?, alpha_out?);
                parts.extend([store(beta, beta_out), store(alpha, alpha_out)]);
                DeltaGates::Apart { beta: beta_out, alpha: alpha_out }
            }
        };
        self.project(stream, norm, &parts)?;
        let out = self.builder.tensor(Rows::Batch, layer.output_width(), Element::F32)?;
        self.builder.op(Op::DeltaNet(DeltaNet {
            mixed,
            gate,
            gates,
            convolution: layer.convolution,
            decay: layer.decay,
            step_bias: layer.step_bias,
            norm: layer.norm,
            shape,
            state: layer.state,
            out,
        }))?;
        Ok(out)
    }

    fn project(&mut self, input: TensorId, norm: Option<Norm>, parts: &[Part]) -> Result<(), PlanError> {
        // A projection never has more parts than the four of a delta net.
        let parts = Fixed::from_slice(parts).unwrap_or_default();
        self.builder.op(Op::Project(Project { input, norm, parts }))
    }

    /// `stream += [norm](matrix * input)`, then times the scale, which only a norm allows.
    fn branch(
        &mut self,
        matrix: Matrix,
        input: TensorId,
        norm: Option<Norm>,
        stream: TensorId,
        rows: Rows,
        scale: f32,
    ) -> Result<(), PlanError> {
        let Some(norm) = norm else {
            return self.project(input, None, &[Part { matrix, epilogue: Epilogue::Add { to: stream } }]);
        };
        let out = self.builder.tensor(rows, matrix.rows, Element::F32)?;
        self.project(input, None, &[Part { matrix, epilogue: Epilogue::Store { out } }])?;
        self.norm_add(out, norm, stream, Update::Add, scale)
    }

    /// The normalized results of a dense feed-forward and of the experts beside it, added.
    fn dense_and_experts(
        &mut self,
        down: Matrix,
        hidden: TensorId,
        layer: &ParallelExperts,
        stream: TensorId,
        rows: Rows,
    ) -> Result<TensorId, PlanError> {
        let width = down.rows;
        let dense = self.builder.tensor(rows, width, Element::F32)?;
        self.project(hidden, None, &[Part { matrix: down, epilogue: Epilogue::Store { out: dense } }])?;
        let both = self.builder.tensor(rows, width, Element::F32)?;
        self.norm_add(dense, layer.dense_post_norm, both, Update::Replace, 1.0)?;
        let Some(experts) = self.model.hparams.experts else { return Ok(both) };
        let ids = self.builder.tensor(rows, experts.used, Element::U32)?;
        let weights = self.builder.tensor(rows, experts.used, Element::F32)?;
        self.builder.op(Op::Route(Route {
            input: stream,
            norm: Some(layer.router_norm),
            router: layer.router,
            gating: experts.gating,
            selection_bias: None,
            groups: None,
            top_k: experts.used,
            renormalize: experts.renormalize,
            scale: experts.scale,
            ids,
            weights,
        }))?;
        let routed = self.builder.tensor(rows, width, Element::F32)?;
        self.builder.op(Op::Experts(Experts {
            input: stream,
            norm: Some(layer.norm),
            ids,
            weights,
            top_k: experts.used,
            gate: layer.gate,
            up: layer.up,
            down: layer.down,
            glu: self.model.family.glu,
            to: routed,
            update: Update::Replace,
        }))?;
        self.norm_add(routed, layer.post_norm, both, Update::Add, 1.0)?;
        Ok(both)
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
            self.project(stream, layer.ffn_norm, &[gate])?;
            return Ok((hidden, None));
        };
        let out = self.builder.tensor(rows, 1, Element::F32)?;
        let weight = Part { matrix, epilogue: Epilogue::Store { out } };
        self.project(stream, layer.ffn_norm, &[gate, weight])?;
        Ok((hidden, Some(out)))
    }

    /// The feed-forward of the stream, which is then multiplied by the scale.
    fn ffn(&mut self, layer: &Layer, stream: TensorId, rows: Rows, scale: f32) -> Result<(), PlanError> {
        let glu = self.model.family.glu;
        match layer.ffn {
            Ffn::Plain { .. } | Ffn::Dense { .. } => {
                let hidden = self.dense_hidden(layer, layer.ffn_norm, stream, rows)?;
                let Some((down, hidden)) = hidden else { return Ok(()) };
                match (layer.parallel_experts, layer.post_ffn_norm) {
                    (Some(experts), Some(norm)) => {
                        let both = self.dense_and_experts(down, hidden, &experts, stream, rows)?;
                        self.norm_add(both, norm, stream, Update::Add, scale)
                    }
                    (_, norm) => self.branch(down, hidden, norm, stream, rows, scale),
                }
            }
            Ffn::Mixture { router, gate, up, down, shared } => {
                let Some(experts) = self.model.hparams.experts else { return Ok(()) };
                let ids = self.builder.tensor(rows, experts.used, Element::U32)?;
                let weights = self.builder.tensor(rows, experts.used, Element::F32)?;
                let norm = layer.ffn_norm;
                self.builder.op(Op::Route(Route {
                    input: stream,
                    norm,
                    router: router.matrix,
                    gating: experts.gating,
                    selection_bias: router.selection_bias,
                    groups: experts.groups,
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
                let top_k = experts.used;
                // A norm behind the experts takes the sum of them and the shared one.
                let (to, update) = match layer.post_ffn_norm {
                    Some(_) => (self.builder.tensor(rows, down.rows, Element::F32)?, Update::Replace),
                    None => (stream, Update::Add),
                };
                let op =
                    Experts { input: stream, norm, ids, weights, top_k, gate, up, down, glu, to, update };
                self.builder.op(Op::Experts(op))?;
                if let Some((shared, (hidden, weight))) = shared {
                    let epilogue = match weight {
                        Some(gate) => Epilogue::AddGated { to, gate },
                        None => Epilogue::Add { to },
                    };
                    self.project(hidden, None, &[Part { matrix: shared.down, epilogue }])?;
                }
                match layer.post_ffn_norm {
                    Some(norm) => self.norm_add(to, norm, stream, Update::Add, scale),
                    None => Ok(()),
                }
            }
        }
    }
}
