//! Delta nets of every shape, order of heads and length of runs, from empty states and from others.

use crate::TARGETS;
use crate::check::{Case, check, full};
use crate::grid::target;
use crate::oracle::HEAP;
use crate::variants::{random, vector};
use doorbell_core::gguf::Gguf;
use doorbell_core::heap;
use doorbell_core::model::{Model, StateShape};
use doorbell_core::plan::{
    DeltaGates, DeltaNet, DeltaShape, Element, HeadOrder, HeadResult, Norm, Op, Plan, Rows, Shape, Tensor,
    TensorId,
};
use doorbell_core::quant::Type;
use doorbell_kernels::supports;
use doorbell_tests::tiny::{self, Family};

/// Runs `test` with a tiny model's delta net, its model and its plan.
fn with_delta_net(family: Family, case: &Case, mut test: impl FnMut(&DeltaNet, &Model<'_>, &Plan<'_>)) {
    let shape = tiny::Shape { layers: 2, ..tiny::Shape::NARROW };
    let bytes = tiny::model(family, shape, Type::F32, case.seed).to_bytes();
    let model = Model::new(&Gguf::parse(&bytes, HEAP).unwrap(), HEAP).unwrap();
    let shape = Shape { rows: case.rows(), outputs: case.outputs.len() as u32 };
    let plan = model.plan(shape, HeadResult::Logits, HEAP).unwrap();
    test(&delta_nets(&plan)[0], &model, &plan);
}

fn delta_nets(plan: &Plan<'_>) -> Vec<DeltaNet> {
    plan.ops.iter().filter_map(|op| if let Op::DeltaNet(op) = op { Some(*op) } else { None }).collect()
}

/// Every number of rows around chunks, sequences that begin and that go on, both orders of heads.
#[test]
fn runs_of_any_length() {
    let lengths = [1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 33];
    for (number, rows) in lengths.into_iter().enumerate() {
        for (index, family) in [Family::Qwen3Next, Family::Qwen35].into_iter().enumerate() {
            for (start, position) in [0, 1, 2, 3, 4, 70_001].into_iter().enumerate() {
                if !full() && (number + start) % 2 != index {
                    continue;
                }
                let case = Case::new(target(number + index + start), &[(position, rows)]);
                with_delta_net(family, &case, |op, model, plan| {
                    let nmse = check(&Op::DeltaNet(*op), model, plan, &case).nmse();
                    assert!(
                        nmse < 1e-11,
                        "{family:?} {rows} rows at {position} on {}: {nmse:e}",
                        case.target
                    );
                });
            }
        }
    }
}

/// Sequences beside one another: alone, in chunks, and more than there are workgroups for.
#[test]
fn many_sequences() {
    let many: Vec<(u32, u32)> = (0..70).map(|number| (number % 5, 1 + number % 3)).collect();
    let batches: [&[(u32, u32)]; 4] =
        [&[(5, 1), (0, 1), (9, 1)], &[(0, 2), (3, 1)], &[(4, 20), (0, 1), (0, 9)], &many];
    for (number, runs) in batches.into_iter().enumerate() {
        for (index, family) in [Family::Qwen3Next, Family::Qwen35Moe].into_iter().enumerate() {
            let case = Case::new(target(number + index), runs);
            let case = if runs.len() > 9 { case.fast() } else { case };
            with_delta_net(family, &case, |op, model, plan| {
                let nmse = check(&Op::DeltaNet(*op), model, plan, &case).nmse();
                assert!(nmse < 1e-11, "{family:?} {runs:?} on {}: {nmse:e}", case.target);
            });
        }
    }
}

/// A plan's delta net with heads of another shape, in tensors and with vectors of its own. The gates of tokens reach far.
fn reshaped(
    model: &mut Model<'_>,
    plan: &mut Plan<'_>,
    op: &DeltaNet,
    shape: DeltaShape,
    rows: usize,
) -> DeltaNet {
    let mut tensor = |width: usize| {
        let id = TensorId(plan.tensors.len() as u16);
        let tensor =
            Tensor { rows: Rows::Batch, width: width as u32, element: Element::F32, offset: plan.arena };
        heap::push(&mut plan.tensors, tensor).unwrap();
        plan.arena += rows * width;
        id
    };
    let heads = shape.value_heads as usize;
    let [mixed, gate, out] = [shape.channels(), shape.value_width(), shape.value_width()].map(&mut tensor);
    let gates = match op.gates {
        DeltaGates::ByKeyHead(_) => DeltaGates::ByKeyHead(tensor(2 * heads)),
        DeltaGates::Apart { .. } => DeltaGates::Apart { beta: tensor(heads), alpha: tensor(heads) },
    };
    let spread = |count: usize, mean: f32, by: f32| -> Vec<f32> {
        random(count).into_iter().map(|x| mean + by * x).collect()
    };
    let convolution = vector(model, &random(shape.taps as usize * shape.channels()));
    let rates: Vec<f32> = random(heads).into_iter().map(|x| -x.abs()).collect();
    let decay = vector(model, &rates);
    let step_bias = vector(model, &spread(heads, -4.0, 15.0));
    let weight = vector(model, &spread(shape.value_dim as usize, 1.0, 0.2));
    let norm = Norm { weight, ..op.norm };
    model.state = model.state.map(|state| StateShape { delta: shape, ..state });
    DeltaNet { mixed, gate, gates, convolution, decay, step_bias, norm, shape, out, ..*op }
}

/// Lanes that share rows of the state in every way, one wave and eight, heads whose elements are no whole waves.
#[test]
fn every_head_shape() {
    let order = HeadOrder::Grouped;
    let shape = DeltaShape { key_heads: 2, value_heads: 6, key_dim: 128, value_dim: 128, taps: 4, order };
    let dims = [(128, 128), (8, 16), (16, 8), (64, 32), (32, 4), (96, 48), (64, 112), (16, 128)];
    for (number, (key_dim, value_dim)) in dims.into_iter().enumerate() {
        for (index, family) in [Family::Qwen3Next, Family::Qwen35].into_iter().enumerate() {
            for (batch, rows) in [1, 3, 11].into_iter().enumerate() {
                if !full() && (number + batch) % 2 != index {
                    continue;
                }
                let taps = if number % 3 == 2 { 2 } else { 4 };
                let case = Case::new(TARGETS[(number + batch) % 3], &[(number as u32 % 4, rows), (1, 1)]);
                let bytes = tiny::model(family, tiny::Shape::NARROW, Type::F32, 1).to_bytes();
                let mut model = Model::new(&Gguf::parse(&bytes, HEAP).unwrap(), HEAP).unwrap();
                let outputs = case.outputs.len() as u32;
                let shape_of_step = Shape { rows: case.rows(), outputs };
                let mut plan = model.plan(shape_of_step, HeadResult::Logits, HEAP).unwrap();
                let op = delta_nets(&plan)[0];
                let shape = DeltaShape { key_dim, value_dim, taps, order: op.shape.order, ..shape };
                let op = reshaped(&mut model, &mut plan, &op, shape, case.rows() as usize);
                let nmse = check(&Op::DeltaNet(op), &model, &plan, &case).nmse();
                assert!(nmse < 1e-10, "{shape:?}, {rows} rows on {}: {nmse:e}", case.target);
            }
        }
    }
}

/// The CPU driver takes shapes that do not divide.
#[test]
fn shapes_without_a_kernel_are_refused() {
    let case = Case::new(TARGETS[0], &[(0, 1)]);
    with_delta_net(Family::Qwen35, &case, |op, model, _| {
        assert!(supports(&Op::DeltaNet(*op), model, case.target));
        for shape in [DeltaShape { value_dim: 12, ..op.shape }, DeltaShape { taps: 3, ..op.shape }] {
            assert!(!supports(&Op::DeltaNet(DeltaNet { shape, ..*op }), model, case.target), "{shape:?}");
        }
    });
}
