//! Damaged model files: truncated, bits flipped, tensors missing or misshapen, metadata missing or absurd.
//!
//! Every fault is a typed error, never a panic; a file that is still a model computes.

use doorbell_core::backend::KvType;
use doorbell_core::engine::score;
use doorbell_core::gguf::Gguf;
use doorbell_core::heap::{Global, Heap};
use doorbell_core::model::{Model, ModelError, TensorFault};
use doorbell_core::quant::Type;
use doorbell_core::reference::{Products, Reference};
use doorbell_core::token::{TokenId, Tokenizer};
use doorbell_tests::gguf_writer::{GgufFile, Value};
use doorbell_tests::random::Random;
use doorbell_tests::tiny::{self, Family, Shape};

const HEAP: Heap<'static> = &Global;

/// Small, since each is loaded thousands of times.
const SHAPE: Shape = Shape {
    layers: 1,
    hidden: 32,
    head_dim: 8,
    ff: 32,
    experts: 4,
    experts_used: 2,
    vocab: 384,
    context: 64,
    ..Shape::NARROW
};

fn file(family: Family) -> GgufFile {
    tiny::model(family, SHAPE, Type::F32, 3)
}

/// Loads the file and computes with it as far as possible. The error is the model's.
fn load(bytes: &[u8]) -> Result<(), Option<ModelError>> {
    let gguf = Gguf::parse(bytes, HEAP).map_err(|error| {
        assert!(!error.to_string().is_empty());
        None
    })?;
    if let Err(error) = Tokenizer::new(&gguf, HEAP) {
        assert!(!error.to_string().contains('\n'));
    }
    let model = Model::new(&gguf, HEAP)?;
    // A hostile vocabulary size is bounded by its tensor, so that this is small.
    let tokens = [0, 1, 2].map(|id| TokenId(id % model.vocabulary.max(1)));
    if let Ok(mut backend) = Reference::new(&model, 2, KvType::F16, Products::Exact, HEAP) {
        _ = score(&model, &mut backend, &tokens, HEAP, &mut || (), &mut |_, _| ());
    }
    Ok(())
}

#[test]
fn whole_files_load() {
    for family in Family::ALL {
        load(&file(family).to_bytes()).unwrap();
    }
}

#[test]
fn truncated_files_are_refused() {
    for family in Family::ALL {
        let bytes = file(family).to_bytes();
        let data: usize = file(family).tensors.iter().map(|(_, data)| data.len()).sum();
        let header = bytes.len() - data;
        let within_header = (0..header).step_by(97);
        let within_data = (header..bytes.len() - 32).step_by(data / 50);
        for len in within_header.chain(within_data) {
            assert_eq!(load(&bytes[..len]), Err(None), "{family:?} cut at {len}");
        }
    }
}

#[test]
fn flipped_bits_never_panic() {
    let mut random = Random::new(17);
    for family in Family::ALL {
        let bytes = file(family).to_bytes();
        let data: usize = file(family).tensors.iter().map(|(_, data)| data.len()).sum();
        // The vocabulary is most of the header; the bytes before and after it matter most.
        let header = bytes.len() - data;
        for _ in 0..400 {
            let mut damaged = bytes.clone();
            for _ in 0..=random.below(3) {
                let from = if random.below(2) == 0 { 0 } else { header.saturating_sub(1500) };
                let to = if from == 0 { 900.min(header) } else { header };
                damaged[from + random.below(to - from)] ^= 1 << random.below(8);
            }
            _ = load(&damaged);
        }
        for _ in 0..100 {
            let mut damaged = bytes.clone();
            damaged[random.below(header)] ^= 1 << random.below(8);
            damaged[header + random.below(data)] ^= 1 << random.below(8);
            _ = load(&damaged);
        }
    }
}

#[test]
fn a_missing_tensor_is_named_unless_it_is_optional() {
    // An output matrix may be missing: the embedding is used instead. Biases and head norms are optional.
    let optional =
        |name: &str| name.starts_with("output.") || name.contains(".bias") || name.contains("_norm.");
    for family in Family::ALL {
        let whole = file(family);
        for index in 0..whole.tensors.len() {
            let mut damaged = whole.clone();
            let (info, _) = damaged.tensors.remove(index);
            let missing = String::from_utf8(info.name).unwrap();
            match load(&damaged.to_bytes()) {
                Ok(()) => assert!(optional(&missing), "{family:?} loads without {missing}"),
                Err(Some(ModelError::Tensor { name, fault: TensorFault::Missing })) => {
                    // Without a gate the file could have gate and up in one, so the fused tensor is the missing one.
                    let fused = missing.replace("_gate_exps.", "_gate_up_exps.");
                    assert!([&missing, &fused].contains(&&name.to_string()), "{name} for {missing}");
                }
                Err(Some(ModelError::Tensor { name, .. })) => {
                    let fused = missing.replace("_gate.", "_up.").replace("_gate_shexp.", "_up_shexp.");
                    assert_eq!(name.as_str(), fused);
                }
                Err(other) => panic!("{family:?} without {missing}: {other:?}"),
            }
        }
    }
}

#[test]
fn a_misshapen_tensor_is_named() {
    for family in Family::ALL {
        let whole = file(family);
        for index in 0..whole.tensors.len() {
            let mut damaged = whole.clone();
            let (info, data) = &mut damaged.tensors[index];
            // One column or element less: no dimension agrees, and the data still fits.
            info.dims[0] -= 1;
            data.truncate(info.bytes());
            let damaged_name = String::from_utf8(info.name.clone()).unwrap();
            // The vocabulary's size is that of its tensor, whatever that is.
            match load(&damaged.to_bytes()) {
                Err(Some(ModelError::Tensor { name, fault: TensorFault::Shape { .. } })) => {
                    assert_eq!(name.as_str(), damaged_name, "{family:?}");
                }
                other => panic!("{family:?} with a misshapen {damaged_name}: {other:?}"),
            }
        }
    }
}

#[test]
fn missing_and_absurd_metadata_never_panic() {
    let absurd = [
        Value::U32(0),
        Value::U32(1),
        Value::U32(3),
        Value::U32(u32::MAX),
        Value::I32(-1),
        Value::U64(u64::MAX),
        Value::F32(f32::NAN),
        Value::F32(f32::INFINITY),
        Value::F32(-0.0),
        Value::F32(1e-45),
        Value::Bool(true),
        Value::from(""),
        Value::from("nonsense"),
        Value::i32s([]),
        Value::i32s([1, 2, 3]),
        Value::strings(["a"]),
    ];
    for family in Family::ALL {
        let whole = file(family);
        for index in 0..whole.metadata.len() {
            let mut damaged = whole.clone();
            damaged.metadata.remove(index);
            _ = load(&damaged.to_bytes());
            for value in &absurd {
                let mut damaged = whole.clone();
                damaged.metadata[index].1 = value.clone();
                _ = load(&damaged.to_bytes());
            }
        }
    }
}

#[test]
fn an_array_has_a_value_for_each_layer() {
    let layers = SHAPE.layers as i32;
    for (key, good) in [
        ("attention.head_count", SHAPE.heads as i32),
        ("attention.head_count_kv", SHAPE.kv_heads as i32),
        ("feed_forward_length", SHAPE.ff as i32),
        ("attention.sliding_window_pattern", 1),
    ] {
        let with = |value: Value| {
            let mut file = file(Family::Gemma3);
            let key = format!("gemma3.{key}").into_bytes();
            file.metadata.retain(|(known, _)| *known != key);
            file.metadata.push((key, value));
            load(&file.to_bytes())
        };
        with(Value::i32s((0..layers).map(|_| good))).unwrap();
        let more = Value::i32s((0..=layers).map(|_| good));
        let words = Value::strings((0..layers).map(|_| "one"));
        for bad in [Value::i32s([]), more, words, Value::i32s((0..layers).map(|_| -1))] {
            let Err(Some(ModelError::Value { key: name, .. })) = with(bad.clone()) else {
                panic!("{key} is {bad:?}");
            };
            assert!(name.ends_with(key), "{name}");
        }
    }
}

/// A file with one key changed, and the key that the refusal names.
#[test]
fn shapes_that_disagree_are_refused_by_key() {
    let number = Value::U32;
    for (family, key, value) in [
        (Family::Qwen3Next, "ssm.group_count", number(0)),
        (Family::Qwen3Next, "ssm.group_count", number(3)),
        (Family::Qwen35, "ssm.time_step_rank", number(0)),
        (Family::Qwen35, "ssm.time_step_rank", number(5)),
        (Family::Qwen35Moe, "ssm.state_size", number(0)),
        (Family::Qwen35Moe, "ssm.inner_size", number(0)),
        (Family::Qwen35Moe, "ssm.inner_size", number(130)),
        (Family::Qwen35, "ssm.conv_kernel", number(0)),
        (Family::Qwen35, "full_attention_interval", number(0)),
        (Family::Qwen35, "attention.head_count", number(0)),
        (Family::Qwen35, "attention.head_count_kv", number(0)),
        (Family::Qwen35, "attention.head_count_kv", number(3)),
        (Family::Qwen35, "rope.dimension_count", number(7)),
        (Family::Llama, "attention.head_count_kv", number(0)),
        (Family::Gemma3, "attention.head_count", number(0)),
        (Family::Gemma3, "attention.sliding_window", number(0)),
    ] {
        let mut file = tiny::model(family, Shape::NARROW, Type::F32, 3);
        let key = format!("{}.{key}", family.name());
        file.metadata
            .iter_mut()
            .filter(|(known, _)| *known == key.as_bytes())
            .for_each(|(_, old)| *old = value.clone());
        let refusal = load(&file.to_bytes());
        let Err(Some(error)) = &refusal else { panic!("{key} is {value:?}: {refusal:?}") };
        let named = error.to_string();
        // the rank may be a multiple of no group count, and the groups a divisor of no rank
        let other = key.replace("group_count", "time_step_rank");
        assert!((named.contains(&key) || named.contains(&other)) && !named.contains('\n'), "{key}: {named}");
    }
}

/// A state of another size than the tensors of its layers have is refused by the first of them that differs.
#[test]
fn states_of_another_size_are_refused_by_tensor() {
    for (key, value, tensor) in [
        ("ssm.state_size", 16, "blk.0.attn_qkv.weight"),
        ("ssm.group_count", 4, "blk.0.attn_qkv.weight"),
        ("ssm.inner_size", 64, "blk.0.attn_qkv.weight"),
        ("ssm.conv_kernel", 5, "blk.0.ssm_conv1d.weight"),
        ("ssm.time_step_rank", 8, "blk.0.ssm_beta.weight"),
        ("attention.head_count_kv", 1, "blk.1.attn_k.weight"),
    ] {
        let mut file = tiny::model(Family::Qwen35, Shape::NARROW, Type::F32, 3);
        let key = format!("qwen35.{key}").into_bytes();
        file.metadata
            .iter_mut()
            .filter(|(known, _)| *known == key)
            .for_each(|(_, old)| *old = Value::U32(value));
        let Err(Some(ModelError::Tensor { name, fault: TensorFault::Shape { .. } })) = load(&file.to_bytes())
        else {
            panic!("{tensor} fits another size");
        };
        assert_eq!(name.as_str(), tensor);
    }
}

#[test]
fn a_surplus_tensor_is_named() {
    for family in Family::ALL {
        for name in ["blk.0.attn_gate_norm.weight", "blk.0.ssm_d", "altup_proj.weight", "blk.x.ffn_up.weight"]
        {
            let mut file = file(family);
            file.tensor_f32(name, &[4], &[1.0; 4]);
            let Err(Some(error)) = load(&file.to_bytes()) else { panic!("{family:?} loads with {name}") };
            assert!(matches!(error, ModelError::Tensor { fault: TensorFault::Surplus, .. }), "{error}");
            assert!(error.to_string().contains(name) && !error.to_string().contains('\n'), "{error}");
        }
        // what an image encoder, another context or a quantization with scales leaves in files
        let mut file = file(family);
        for name in [
            "v.blk.0.attn_q.weight",
            "rope_factors_long.weight",
            "blk.0.ffn_up.input_scale",
            "blk.9.nextn.enorm.weight",
        ] {
            file.tensor_f32(name, &[4], &[1.0; 4]);
        }
        load(&file.to_bytes()).unwrap();
    }
}

#[test]
fn an_unknown_architecture_is_refused_with_the_known_ones() {
    let mut file = file(Family::Llama);
    file.metadata[0].1 = "mamba".into();
    let Err(Some(error)) = load(&file.to_bytes()) else { panic!("loaded") };
    assert_eq!(error, ModelError::UnknownArchitecture("mamba".try_into().unwrap()));
    let text = error.to_string();
    assert!(
        text.contains("mamba") && Family::ALL.iter().all(|family| text.contains(family.name())),
        "{text}"
    );
}
