//! Tensors, weights, and memory of layers that an operation of a plan reads or writes.

use alloc::vec::Vec;
use doorbell_core::plan::{
    Epilogue, HeadResult, HeadTarget, KvSlot, Op, Plan, Rotate, StateSlot, TensorId, Update, WeightId,
};

/// Calls `visit` with every weight that an operation reads.
pub(crate) fn each_weight(op: &Op, mut visit: impl FnMut(WeightId)) {
    if let Op::Embed { table, .. } = op {
        visit(*table);
    }
    op.each_matrix(|matrix| visit(matrix.weight));
}

/// Tensors that an operation writes.
pub(crate) fn outputs(op: &Op) -> Vec<TensorId> {
    match op {
        Op::Embed { out, .. } | Op::Select { out, .. } => alloc::vec![*out],
        Op::Project(project) => {
            let parts = project.parts.iter().map(|part| match part.epilogue {
                Epilogue::Store { out }
                | Epilogue::Activate { out, .. }
                | Epilogue::Gate { out, .. }
                | Epilogue::GateBy { out, .. } => [Some(out), None],
                Epilogue::Query { out, gate, .. } => [Some(out), gate],
                Epilogue::Add { to } | Epilogue::AddGated { to, .. } => [Some(to), None],
                Epilogue::Key { .. } | Epilogue::Value { .. } => [None, None],
            });
            parts.flatten().flatten().collect()
        }
        Op::Rotate(op) => rotated(op).into_iter().collect(),
        Op::Attend(attend) => alloc::vec![attend.out],
        Op::DeltaNet(op) => alloc::vec![op.out],
        Op::Route(route) => alloc::vec![route.ids, route.weights],
        Op::Experts(experts) => alloc::vec![experts.to],
        Op::NormAdd(op) => alloc::vec![op.to],
        Op::Head(_) => Vec::new(),
    }
}

/// The tensor that rotated queries are written to.
fn rotated(op: &Rotate) -> Option<TensorId> {
    match op.target {
        HeadTarget::Query { out, .. } => Some(out),
        HeadTarget::Key(_) => None,
    }
}

/// True if an operation overwrites a tensor without reading it.
pub(crate) fn overwrites(op: &Op, id: TensorId) -> bool {
    match op {
        Op::Embed { out, .. } | Op::Select { out, .. } => *out == id,
        Op::Project(op) => op.parts.iter().any(|part| match part.epilogue {
            Epilogue::Store { out }
            | Epilogue::Activate { out, .. }
            | Epilogue::Gate { out, .. }
            | Epilogue::GateBy { out, .. } => out == id,
            Epilogue::Query { out, gate, .. } => out == id || gate == Some(id),
            _ => false,
        }),
        Op::Rotate(op) => rotated(op) == Some(id),
        Op::Attend(op) => op.out == id,
        Op::DeltaNet(op) => op.out == id,
        Op::Route(op) => op.ids == id || op.weights == id,
        Op::Experts(op) => op.update == Update::Replace && op.to == id,
        Op::NormAdd(op) => op.update == Update::Replace && op.to == id,
        Op::Head(_) => false,
    }
}

/// Memory of a layer that stays from step to step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LayerMemory {
    /// Keys and values.
    Kv(KvSlot),
    /// Recurrent states.
    State(StateSlot),
}

/// Memory of layers that an operation reads or writes.
pub(crate) fn layer_memory(op: &Op) -> impl Iterator<Item = LayerMemory> {
    let state = if let Op::DeltaNet(op) = op { Some(LayerMemory::State(op.state)) } else { None };
    kv_slots(op).map(LayerMemory::Kv).chain(state)
}

/// Keys and values that an operation reads or writes.
fn kv_slots(op: &Op) -> impl Iterator<Item = KvSlot> {
    let of_part = |epilogue: Epilogue| match epilogue {
        Epilogue::Key { kv, .. } | Epilogue::Value { kv, .. } => Some(kv),
        _ => None,
    };
    let (parts, own) = match op {
        Op::Project(op) => (&op.parts[..], None),
        Op::Attend(op) => (&[][..], Some(op.kv)),
        Op::Rotate(Rotate { target: HeadTarget::Key(kv), .. }) => (&[][..], Some(*kv)),
        _ => (&[][..], None),
    };
    parts.iter().filter_map(move |part| of_part(part.epilogue)).chain(own)
}

/// 4-byte words that a head writes for `rows` output rows; 0 for other operations.
pub(crate) fn result_words(op: &Op, plan: &Plan<'_>, rows: usize) -> usize {
    let Op::Head(head) = op else { return 0 };
    let width = match head.result {
        HeadResult::Logits => head.matrix.rows,
        HeadResult::ArgMax => 1,
        HeadResult::Hidden => plan.tensor(head.input).width,
    };
    rows * width as usize
}

/// True for a head that chooses tokens.
pub(crate) fn chooses_tokens(op: &Op) -> bool {
    matches!(op, Op::Head(head) if head.result == HeadResult::ArgMax)
}
