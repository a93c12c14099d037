//! The program on software GPUs: which device runs which operation, models that don't fit, and failing devices.

use crate::program::{json, refused, run_with, write};
use alloc::collections::BTreeSet;
use doorbell_core::quant::Type;
use doorbell_tests::tiny::{self, Family, Shape};
use serde_json::Value as Json;
use std::path::Path;

fn wide(name: &str, family: Family) -> String {
    write(name, &tiny::model(family, Shape::WIDE, Type::Q8_0, 7).to_bytes())
}

/// The text so far is kept, the reason is reported, and the exit code is that of the device or of memory.
#[test]
fn a_device_that_fails_ends_the_program_with_its_message() {
    let model = wide("failing.gguf", Family::Qwen3);
    let anew = "; the model has to be loaded anew";
    let faults: [(&str, i32, &[&str]); 4] = [
        ("reset=6", 5, &["the whole GPU was reset", anew]),
        ("page-fault=6", 5, &["page fault at 0x", anew]),
        ("hang=6", 5, &["no progress for 500 ms", "; at or after ", anew]),
        ("no-memory=20", 6, &["no memory for ", " bytes wanted"]),
    ];
    for (fault, code, words) in faults {
        let device = format!("soft:gfx1151,{fault}");
        let run = ["run", &model, "--raw", "-p", "the world is", "-n", "40", "--temp", "1", "--seed", "3"];
        let output = run_with(&[&run[..], &["-t", "1", "--ctx", "128", "--device", &device]].concat(), b"");
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{fault}: {stderr}");
        assert_eq!(output.stdout.is_empty(), fault.starts_with("no-memory"), "{fault}");
        let last = stderr.lines().next_back().unwrap();
        assert!(last.starts_with("doorbell: ") && words.iter().all(|word| last.contains(word)), "{stderr}");
    }
}

#[test]
fn what_does_not_fit_a_gpu_is_refused_with_figures() {
    let mut file = tiny::model(Family::Qwen3, Shape { context: 1 << 20, ..Shape::WIDE }, Type::Q8_0, 7);
    file.metadata.retain(|(key, _)| key != b"tokenizer.chat_template");
    let model = write("unfitting.gguf", &file.to_bytes());
    let run = ["run", &model, "--raw", "-p", "x", "-n", "1", "-t", "1", "--gpu-layers", "2"];
    let too_much = |context: &str, vram: u32, words: &[&str]| {
        let device = format!("soft:gfx1102,vram={vram}");
        refused(&[&run[..], &["--ctx", context, "--device", &device]].concat(), 6, words);
    };
    let figures = ["the model takes ", "(weights ", " MiB of VRAM ("];
    too_much("128", 256, &[&figures[..], &["use a smaller model or --device cpu"]].concat());
    too_much("200000", 300, &[&figures[..], &["a context of ", " tokens would fit"]].concat());
    let part = ["1 of the layers would fit; use --gpu-layers and --gpu-experts, or neither"];
    too_much("200000", 460, &[&figures[..], &part].concat());
}

/// A plan equals a run: with the layers that fit, or refused.
#[test]
fn plans_of_what_does_not_fit() {
    let file = tiny::model(Family::Qwen3, Shape { context: 1 << 20, ..Shape::WIDE }, Type::Q8_0, 7);
    let model = write("unplanned.gguf", &file.to_bytes());
    let plan = ["plan", &model, "--quick", "--ctx"];
    let on = |context: &'static str, vram: u32| {
        let device = format!("soft:gfx1102,vram={vram}");
        [&plan[..], &[context, "--device", &*device.leak()]].concat()
    };
    let figures = ["the model takes ", "(weights ", " MiB of VRAM ("];
    refused(&on("128", 256), 6, &[&figures[..], &["use a smaller model or --device cpu"]].concat());
    refused(
        &[&on("200000", 460)[..], &["--gpu-layers", "2"]].concat(),
        6,
        &[&figures[..], &["1 of the layers would fit"]].concat(),
    );
    let document = json(&[&on("200000", 460)[..], &["--json"]].concat());
    for op in document["ops"].as_array().unwrap() {
        let runner = if op["layer"] == 1 { "cpu" } else { "soft:gfx1102" };
        assert_eq!(op["runs_on"], runner, "{op}");
    }
    let text = run_with(&on("200000", 460), b"");
    let text = String::from_utf8(text.stdout).unwrap();
    assert!(text.contains("the GPU runs 1 of 2 layers"), "{text}");
}

/// A row does not attend to later positions, nor to those outside of its window.
#[test]
fn plans_count_what_attention_sees() {
    let products = |family, context: &str| {
        let model = wide("seen.gguf", family);
        let plan = [
            "plan",
            &model,
            "--json",
            "--quick",
            "--device",
            "soft:gfx1100",
            "--batch",
            "70",
            "--outputs",
            "70",
        ];
        let document = json(&[&plan[..], &["--ctx", context]].concat());
        let ops = document["ops"].as_array().unwrap().clone();
        ops.iter().filter(|op| op["op"] == "attend").map(|op| op["products"].as_u64().unwrap()).collect()
    };
    let of_heads = |seen: u64| (2 * Shape::WIDE.heads * Shape::WIDE.head_dim) as u64 * seen;
    let all = |first: u64| of_heads((first..first + 70).sum());
    let found: Vec<u64> = products(Family::Qwen3, "70");
    assert_eq!(found, [all(1); 2]);
    assert_eq!(products(Family::Qwen3, "200"), [all(131); 2]);
    // Both layers have windows of eight.
    let found: Vec<u64> = products(Family::Gemma3, "200");
    assert_eq!(found, [of_heads(8 * 70); 2]);
}

#[test]
fn a_missing_gpu_is_reported() {
    let model = wide("absent.gguf", Family::Llama);
    for verb in [&["plan", &model][..], &["run", &model, "-p", "x"], &["serve", &model]] {
        refused(&[verb, &["--device", "kfd:99"]].concat(), 5, &["device kfd:99 can't be used: "]);
        if !Path::new("/dev/kfd").exists() {
            let parts = ["device kfd can't be used: ", "; `doorbell doctor` shows details"];
            refused(&[verb, &["--device", "kfd"]].concat(), 5, &parts);
        }
    }
}

#[test]
fn plan_shows_the_device_of_each_operation() {
    let model = wide("divided.gguf", Family::Qwen3Moe);
    let plan = |more: &[&str]| {
        let plan = ["plan", &model, "--json", "--quick", "--device", "soft:gfx1100", "--ctx", "64"];
        json(&[&plan[..], more].concat())["ops"].as_array().unwrap().clone()
    };
    let on_cpu = |ops: &[Json], wanted: &dyn Fn(&Json) -> bool| {
        for op in ops {
            let runner = if wanted(op) { "cpu" } else { "soft:gfx1100" };
            assert_eq!(op["runs_on"], runner, "{op}");
            assert_eq!(op["dispatches"].as_array().unwrap().is_empty(), wanted(op), "{op}");
        }
    };
    let whole = plan(&[]);
    on_cpu(&whole, &|_| false);
    assert!(whole.iter().any(|op| op["op"] == "experts") && whole.iter().any(|op| op["layer"] == 1));
    assert_eq!(plan(&["--gpu-layers", "9"]), whole);
    on_cpu(&plan(&["--gpu-layers", "1"]), &|op| op["layer"] == 1);
    on_cpu(&plan(&["--gpu-experts", "1"]), &|op| op["layer"] == 1 && op["op"] == "experts");
    on_cpu(&plan(&["--gpu-layers", "1", "--gpu-experts", "0"]), &|op| {
        op["layer"] == 1 || op["op"] == "experts"
    });
}

/// The fields of a section of `docs/plan.md`, for the given conditions.
fn documented(section: &str, when: &[&str]) -> BTreeSet<String> {
    let page = include_str!("../../docs/plan.md");
    let section = page.split("\n## ").find(|text| text.starts_with(section)).unwrap();
    let rows = section.lines().filter_map(|line| line.strip_prefix("| `")?.split_once("` | "));
    let rows = rows.filter(|(_, rest)| when.iter().any(|when| rest.starts_with(&format!("{when} |"))));
    rows.map(|(name, _)| name.to_owned()).collect()
}

#[test]
fn plans_have_the_fields_that_are_documented() {
    let model = wide("documented.gguf", Family::Qwen3);
    let runs: [(&[&str], &[&str]); 3] = [
        (&["--device", "cpu"], &["always"]),
        (&["--device", "soft:gfx1151", "--quick"], &["always", "GPU"]),
        (&["--device", "soft:gfx1151"], &["always", "GPU", "counted"]),
    ];
    for (more, when) in runs {
        let plan = ["plan", &model, "--json", "--ctx", "64", "--batch", "70", "--outputs", "70"];
        let document = json(&[&plan[..], more].concat());
        let check = |section: &str, found: &Json| {
            let found: BTreeSet<String> = found.as_object().unwrap().keys().cloned().collect();
            assert_eq!(found, documented(section, when), "{section}, {more:?}");
        };
        check("The document", &document);
        for op in document["ops"].as_array().unwrap() {
            check("An operation", op);
            op["dispatches"].as_array().into_iter().flatten().for_each(|entry| check("A dispatch", entry));
        }
        document["layers"].as_array().into_iter().flatten().for_each(|layer| check("A layer", layer));
        if when.contains(&"counted") {
            sums_agree(&document);
        }
    }
}

/// The costs of the parts add up to that of the whole, and shares match the figures that they are computed from.
fn sums_agree(document: &Json) {
    let number = |entry: &Json, field: &str| entry[field].as_f64().unwrap();
    let entries = |entry: &Json, field: &str| entry[field].as_array().unwrap().clone();
    let near = |a: f64, b: f64| assert!((a - b).abs() <= 1e-6 * b.abs(), "{a} {b}");
    for field in ["products", "bytes_ideal", "bytes_moved", "modelled_us"] {
        near(entries(document, "ops").iter().map(|op| number(op, field)).sum(), number(document, field));
    }
    let of_layers = |layer: u64, entry: &Json| entry["layer"] == layer;
    for (index, layer) in (0..).zip(entries(document, "layers")) {
        let ops = entries(document, "ops").into_iter().filter(|op| of_layers(index, op));
        near(ops.map(|op| number(&op, "modelled_us")).sum(), number(&layer, "modelled_us"));
        assert!(number(&layer, "matrix_share") > 0.0 && number(&layer, "roofline_share") < 1.0, "{layer}");
    }
    // 70 rows through all matrices but the embedding, which is looked up; attention is little
    let shape = Shape::WIDE;
    let (heads, kv_heads) = (shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim);
    let layer = shape.hidden * (2 * heads + 2 * kv_heads + 3 * shape.ff);
    let least = (70 * (shape.layers * layer + shape.hidden * shape.vocab)) as f64;
    let found = number(document, "products");
    assert!(found >= least && found < 1.2 * least, "{found} {least}");
}
