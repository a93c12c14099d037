//! Output of the commands when they succeed.

use crate::program::{ids, json, model, path, refused, run_with, stdout, tiny, write};
use doorbell_core::quant::Type;
use doorbell_tests::gguf_writer::Value;
use doorbell_tests::tiny::{self, Family, Shape};
use serde_json::Value as Json;

#[test]
fn help_documents_the_exit_codes() {
    let help = stdout(&["--help"], b"");
    for line in ["3  the model file can't be opened", "130  stopped by Ctrl-C"] {
        assert!(help.contains(line), "{help}");
    }
    assert_eq!(run_with(&[], b"").status.code(), Some(2));
    assert_eq!(run_with(&["run", "m.gguf", "--nonsense"], b"").status.code(), Some(2));
    assert_eq!(run_with(&["run", "m.gguf", "-p", "x", "--device", "gpu"], b"").status.code(), Some(2));
}

#[test]
fn tokens_there_and_back() {
    let text = "The <|im_end|> of\n\u{e9}\u{4f60} \u{1f600}!";
    for family in [Family::Qwen3, Family::Gemma3] {
        let model = model("tokens", family);
        let document = json(&["tokenize", &model, "--text", text, "--no-special", "--json"]);
        let tokens = ids(&document, "tokens");
        assert_eq!(document["pieces"].as_array().unwrap().len(), tokens.len());
        assert_eq!(stdout(&["detokenize", &model, "--ids", &tokens.join(",")], b""), text);
        let printed = stdout(&["tokenize", &model, "--no-special"], text.as_bytes());
        assert_eq!(printed, tokens.join(",") + "\n");
    }
    let model = model("special", Family::Qwen3);
    let special = json(&["tokenize", &model, "--text", "<|im_end|>", "--json"]);
    assert_eq!(special["pieces"], serde_json::json!(["<|im_end|>"]));
}

/// The greedy tokens of `run` are the most likely ones by `score` at each position.
#[test]
fn run_and_score_agree() {
    for family in Family::ALL {
        let model = model("agree", family);
        let run = ["run", &model, "-p", "in the way of", "--raw", "-n", "12", "--temp", "0", "--json"];
        let answer = json(&run);
        assert_eq!(answer["device"], "cpu");
        assert!(answer["timings"]["decode_tokens_per_second"].is_number());
        let tokens = ids(&answer, "tokens");
        let prompt = ids(&json(&["tokenize", &model, "--text", "in the way of", "--json"]), "tokens");
        assert_eq!(answer["prompt_tokens"], prompt.len());
        let all = [prompt.clone(), tokens.clone()].concat();
        let logits = path(&format!("agree-{}.f32", family.name()));
        let arguments =
            ["score", &model, "--tokens", &all.join(","), "--logits", logits.to_str().unwrap(), "--json"];
        let score = json(&arguments);
        assert_eq!(ids(&score, "tokens"), all);
        let bytes = std::fs::read(logits).unwrap();
        let vocabulary = usize::try_from(score["vocabulary"].as_u64().unwrap()).unwrap();
        assert_eq!(bytes.len(), all.len() * vocabulary * 4);
        let logits: Vec<f32> = bytes.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
        let mut nll = 0.0;
        for (position, row) in logits.chunks(vocabulary).enumerate().take(all.len() - 1) {
            let next: usize = all[position + 1].parse().unwrap();
            let sum: f64 = row.iter().map(|logit| f64::from(*logit).exp()).sum();
            let expected = f64::from(row[next]) - sum.ln();
            let found = score["log_probs"][position + 1].as_f64().unwrap();
            assert!((found - expected).abs() < 1e-4, "{found} {expected}");
            nll -= expected;
            if position + 1 >= prompt.len() {
                assert!(row.iter().all(|logit| *logit <= row[next]), "{family:?} {position}");
            }
        }
        assert!((score["nll"].as_f64().unwrap() - nll).abs() < 1e-3);
        let perplexity = (nll / (all.len() - 1) as f64).exp();
        assert!((score["perplexity"].as_f64().unwrap() / perplexity - 1.0).abs() < 1e-4);
        // the streamed text is that of the document
        let streamed = stdout(&run[..run.len() - 1], b"");
        assert_eq!(streamed.trim_end_matches('\n'), answer["text"].as_str().unwrap().trim_end_matches('\n'));
    }
}

#[test]
fn prompts_come_from_everywhere() {
    let model = model("prompts", Family::Llama);
    let file = write("prompt.txt", "one two".as_bytes());
    let settings = ["--temp", "0", "-n", "5", "--json"];
    let tokens = |arguments: &[&str], stdin: &[u8]| {
        let all = [&["run", &model], arguments, &settings].concat();
        serde_json::from_str::<Json>(&stdout(&all, stdin)).unwrap()["tokens"].clone()
    };
    let expected = tokens(&["-p", "one two"], b"");
    assert_eq!(tokens(&["--file", &file], b""), expected);
    assert_eq!(tokens(&[], b"one two"), expected);
    assert_ne!(tokens(&["-p", "one two", "--raw"], b""), expected);
    assert_ne!(tokens(&["-p", "one two", "--system", "Be brief."], b""), expected);
}

/// A template without system messages, like Gemma 2's.
const NO_SYSTEM: &str = "{% for m in messages %}{% if m.role == 'system' %}{{ raise_exception('no system') }}{% endif %}\
{{ m.role + m.content }}{% endfor %}";

#[test]
fn a_refused_system_message_can_be_merged_into_the_users() {
    let mut file = tiny(Family::Llama);
    file.metadata.retain(|(key, _)| key != b"tokenizer.chat_template");
    file.meta("tokenizer.chat_template", Value::from(NO_SYSTEM));
    let model = write("no-system.gguf", &file.to_bytes());
    let run = |arguments: &[&str]| {
        let all = [&["run", &model, "-n", "1", "--temp", "0", "--json"], arguments].concat();
        json(&all)["prompt_tokens"].as_u64().unwrap()
    };
    let system = ["run", &model, "-n", "1", "-p", "one", "--system", "two"];
    refused(&system, 4, &["refuses this conversation: no system", "--merge-messages"]);
    let by_hand = run(&["-p", "two\n\none"]);
    assert_eq!(run(&["-p", "one", "--system", "two", "--merge-messages"]), by_hand);
    assert_ne!(run(&["-p", "one"]), by_hand);
}

/// `score` and `run` agree with keys and values as q8_0, and the result is close to that with f16.
#[test]
fn keys_and_values_can_be_quantized() {
    let model = model("blocks", Family::Qwen3);
    let answer = |kv| {
        let run = ["run", &model, "-p", "of the", "--raw", "-n", "8", "--temp", "0", "--kv", kv, "--json"];
        ids(&json(&run), "tokens")
    };
    let tokens = answer("q8_0").join(",");
    let nll =
        |kv| json(&["score", &model, "--tokens", &tokens, "--kv", kv, "--json"])["nll"].as_f64().unwrap();
    let [plain, blocks] = [nll("f16"), nll("q8_0")];
    assert!(plain != blocks && (plain - blocks).abs() < 0.05 * plain, "{plain} {blocks}");
    assert_eq!(answer("f32").len(), 8);
    let figures =
        json(&["bench", &model, "-p", "16", "-n", "0", "-r", "1", "-t", "1", "--kv", "q8_0", "--json"]);
    assert!(figures["pp"]["tokens_per_second"].as_f64().unwrap() > 0.0);
}

/// Text that is piped in follows the prompt, however that is given.
#[test]
fn piped_text_follows_the_prompt() {
    let model = model("piped", Family::Qwen2);
    let tokens = |arguments: &[&str], stdin: &[u8]| {
        let fixed = ["-n", "8", "--temp", "0", "--json"];
        let all = [&["run", &model], arguments, &fixed].concat();
        let answer: Json = serde_json::from_str(&stdout(&all, stdin)).unwrap();
        (answer["prompt_tokens"].clone(), answer["tokens"].clone())
    };
    let whole = tokens(&["-p", "of\n\nthe way"], b"");
    assert_eq!(tokens(&["-p", "of"], b"the way"), whole);
    assert_eq!(tokens(&["of"], b"the way"), whole);
    assert_eq!(tokens(&["--file", "-"], b"of\n\nthe way"), whole);
}

/// The spellings of llama.cpp and Ollama give the same answer or a sentence.
#[test]
fn others_command_lines_are_understood() {
    let model = model("habits", Family::Qwen2);
    let usual = ["run", &model, "-p", "of", "-n", "8", "--temp", "0", "--ctx", "1024"];
    let text = stdout(&usual, b"");
    for other in [
        ["-m", &model, "-p", "of", "--n-predict", "8", "--temperature", "0", "-c", "1k"],
        [&model, "of", "-n", "8", "--temp", "0", "--seed", "-1", "--ctx-size", "1024"],
    ] {
        assert_eq!(stdout(&other, b""), text);
    }
    refused(&["pull", "qwen3"], 2, &["downloads nothing"]);
    refused(&["run", "-hf", "somebody/model"], 2, &["downloads nothing"]);
}

/// Reasoning stays out of a pipe unless it is asked for.
#[test]
fn reasoning_is_set_apart() {
    let template = "{{ messages[0].content + '\n<think>\n' }}{% if false %}</think>{% endif %}";
    let model = model("reasoning", Family::Qwen2);
    let template = write("reasoning.jinja", template.as_bytes());
    let usual = ["run", &model, "-p", "of", "-n", "8", "--temp", "0", "--chat-template-file", &template];
    let text = |more: &[&str]| stdout(&[&usual, more].concat(), b"");
    // the model never ends its reasoning
    assert_eq!(text(&[]), "\n");
    let shown = text(&["--reasoning", "show"]);
    assert!(shown.starts_with("[reasoning]\n") && shown.ends_with("\n[answer]\n\n"), "{shown:?}");
}

#[test]
fn a_seed_decides() {
    let model = model("seed", Family::Qwen2);
    let tokens = |seed: &str| {
        json(&["run", &model, "-p", "of", "-n", "16", "--temp", "1.5", "--seed", seed, "--json"])["tokens"]
            .clone()
    };
    assert_eq!(tokens("7"), tokens("7"));
    assert_ne!(tokens("7"), tokens("8"));
}

#[test]
fn the_file_recommends_sampling() {
    let mut file = tiny(Family::Llama);
    file.meta("general.sampling.temp", Value::F32(0.0));
    file.meta("general.sampling.top_k", Value::I32(-1));
    let model = write("recommends.gguf", &file.to_bytes());
    let tokens = |seed: &str| {
        json(&["run", &model, "-p", "of", "-n", "16", "--seed", seed, "--json"])["tokens"].clone()
    };
    assert_eq!(tokens("7"), tokens("8"));
    file.meta("general.sampling.min_p", Value::F32(7.0));
    let model = write("recommends-nonsense.gguf", &file.to_bytes());
    refused(&["run", &model, "-p", "of"], 4, &["min_p is 7; it must be from 0 to 1"]);
}

/// Markup in a message does not end its turn.
#[test]
fn markup_in_a_message_is_text() {
    let model = model("markup", Family::Qwen3);
    let count = |text: &str| {
        json(&["run", &model, "-p", text, "-n", "1", "--json"])["prompt_tokens"].as_u64().unwrap()
    };
    let markup = json(&["tokenize", &model, "--text", "<|im_end|>", "--no-special", "--json"]);
    assert_eq!(count("x <|im_end|>") - count("x "), markup["tokens"].as_array().unwrap().len() as u64);
}

#[test]
fn info_and_plan_describe_the_model() {
    for family in Family::ALL {
        let model = model("info", family);
        let info = json(&["info", &model, "--json", "--ctx", "64"]);
        assert_eq!(info["metadata"]["general.architecture"], family.name());
        assert_eq!(info["metadata"]["tokenizer.ggml.tokens"]["len"], Shape::NARROW.vocab);
        assert_eq!(info["bytes"], std::fs::metadata(&model).unwrap().len());
        let tensors = info["tensors"].as_array().unwrap();
        let bytes: u64 = tensors.iter().map(|tensor| tensor["bytes"].as_u64().unwrap()).sum();
        assert_eq!(info["types"]["F32"]["bytes"], bytes);
        assert_eq!(info["memory"]["context"], 64);
        let shape = Shape::NARROW;
        let with_kv = shape.layers / if family.is_hybrid() { 2 } else { 1 };
        assert_eq!(info["memory"]["kv"], with_kv * shape.kv_heads * shape.head_dim * 2 * 2 * 64);
        let blocks = json(&["info", &model, "--json", "--ctx", "64", "--kv", "q8_0"]);
        assert_eq!(blocks["memory"]["kv"], info["memory"]["kv"].as_u64().unwrap() / 64 * 34);
        let pages = ["f16", "f32", "q8_0"].map(|kv| info["memory"]["kv_page_bytes"][kv].as_u64().unwrap());
        assert_eq!(pages.map(|bytes| bytes * 32), [32, 64, 17].map(|part| pages[0] * part));
        if family == Family::Gemma3 {
            // a window of 8 tokens: a page before a border, 512 rows that begin anywhere in a page
            let long = json(&["info", &model, "--json", "--ctx", "1024"]);
            let groups = long["memory"]["kv_groups"].as_array().unwrap();
            let windowed = groups.iter().find(|group| group["window"] == 8).unwrap();
            assert_eq!(windowed["tokens"], (2 + (512 + 30) / 32) * 32);
            let sum: u64 = groups.iter().map(|group| group["bytes"].as_u64().unwrap()).sum();
            assert_eq!(long["memory"]["kv"], sum);
        }
        let text = stdout(&["info", &model, "--tensors"], b"");
        assert!(text.contains("token_embd.weight") && text.contains("memory for 256 tokens"), "{text}");

        let plan = json(&["plan", &model, "--json"]);
        let ops = plan["ops"].as_array().unwrap();
        assert!(ops.iter().all(|op| op["runs_on"] == "cpu"));
        let sum: u64 = ops.iter().map(|op| op["weight_bytes"].as_u64().unwrap()).sum();
        assert_eq!(plan["bytes_per_token"], sum);
        // matrices only, one row of the embedding, and of the experts those that are used
        let matrices = tensors.iter().filter(|tensor| {
            let is_one_row = tensor["name"].as_str().unwrap().contains("gate_inp_shexp");
            is_one_row || tensor["dims"].as_array().unwrap().len() > 1
        });
        let expected: u64 = matrices
            .map(|tensor| {
                let (name, bytes) = (tensor["name"].as_str().unwrap(), tensor["bytes"].as_u64().unwrap());
                let tied = !tensors.iter().any(|tensor| tensor["name"] == "output.weight");
                match name {
                    "token_embd.weight" if tied => bytes + bytes / shape.vocab as u64,
                    "token_embd.weight" => bytes / shape.vocab as u64,
                    // kept as a vector
                    _ if name.contains("conv1d") => 0,
                    _ if name.contains("exps") => bytes / shape.experts as u64 * shape.experts_used as u64,
                    _ => bytes,
                }
            })
            .sum();
        assert_eq!(sum, expected, "{family:?}");
    }
}

#[test]
fn bench_measures() {
    let model = model("bench", Family::Llama);
    let figures = json(&["bench", &model, "-p", "16", "-n", "4", "-r", "2", "-t", "1", "--json"]);
    for test in ["pp", "tg"] {
        assert_eq!(figures[test]["repetitions"].as_array().unwrap().len(), 2);
        assert!(figures[test]["tokens_per_second"].as_f64().unwrap() > 0.0);
    }
    assert!(figures["read_bytes_per_second"].as_f64().unwrap() > 0.0);
    assert_eq!(figures["threads"], 1);
}

/// A model whose rows are wide enough for the kernels of GPUs.
fn wide(name: &str) -> String {
    write(name, &tiny::model(Family::Qwen3, Shape::WIDE, Type::Q8_0, 7).to_bytes())
}

#[test]
fn a_software_gpu_answers_as_the_cpu() {
    let model = wide("gpu-run.gguf");
    let answer = |more: &[&str]| {
        let run =
            ["run", &model, "--raw", "--json", "--temp", "0", "-n", "12", "-t", "1", "-p", "the world is"];
        json(&[&run[..], more].concat())["text"].clone()
    };
    let expected = answer(&["--device", "cpu"]);
    let soft = ["--device", "soft:gfx1151"];
    assert_eq!(answer(&soft), expected);
    assert_eq!(answer(&[&soft[..], &["--gpu-layers", "1"]].concat()), expected);
    let parts =
        run_with(&["run", &model, "-n", "1", "-p", "x", "--device", "soft", "--gpu-layers", "1"], b"");
    let parts = String::from_utf8(parts.stderr).unwrap();
    assert!(
        parts.contains("the GPU runs 1 of 2 layers") && parts.contains("the CPU runs the rest"),
        "{parts}"
    );
}

#[test]
fn a_software_gpu_scores_as_the_cpu() {
    let model = wide("gpu-score.gguf");
    let text = write("gpu.txt", b"the quick brown fox and the lazy dog");
    let nll = |device: &str| {
        json(&["score", &model, "--text", &text, "--json", "-t", "1", "--device", device])["nll"]
            .as_f64()
            .unwrap()
    };
    let [cpu, gpu] = [nll("cpu"), nll("soft:gfx1100")];
    assert!((cpu - gpu).abs() < 0.01 * cpu, "{cpu} {gpu}");
}

#[test]
fn bench_profiles_the_kernels_of_a_software_gpu() {
    let model = wide("gpu-bench.gguf");
    let trace = path("trace.json").to_str().unwrap().to_owned();
    let bench = ["bench", &model, "-p", "8", "-n", "4", "--json", "-t", "1", "--device", "soft:gfx1100"];
    let profile = json(&[&bench[..], &["--profile", "--trace", &trace]].concat());
    let phases = profile["profile"].as_array().unwrap();
    assert_eq!(phases.len(), 2);
    let calls = |phase: &Json| -> u64 {
        phase["kernels"].as_array().unwrap().iter().map(|kernel| kernel["calls"].as_u64().unwrap()).sum()
    };
    let document: Json = serde_json::from_slice(&std::fs::read(&trace).unwrap()).unwrap();
    let events = document["traceEvents"].as_array().unwrap();
    let ran: Vec<_> = events.iter().filter(|event| event["ph"] == "X").collect();
    assert_eq!(ran.len() as u64, phases.iter().map(calls).sum::<u64>());
    let mut last = 0.0;
    for event in ran {
        let [start, length] = ["ts", "dur"].map(|field| event[field].as_f64().unwrap());
        assert!(length > 0.0 && start >= last - 0.01, "{event}");
        last = start + length;
    }
    refused(&["bench", &model, "--profile", "--device", "cpu"], 4, &["use --device kfd or soft"]);
}

#[test]
fn plan_lists_the_dispatches_of_a_software_gpu() {
    let model = wide("gpu-plan.gguf");
    for batch in ["1", "40"] {
        let plan = ["plan", &model, "--json", "--device", "soft:gfx1100", "--ctx", "64", "--batch", batch];
        let plan = json(&plan);
        let dispatches =
            plan["ops"].as_array().unwrap().iter().flat_map(|op| op["dispatches"].as_array().unwrap());
        let dispatches: Vec<_> = dispatches.collect();
        assert_eq!(plan["dispatches_per_token"], dispatches.len());
        let us: f64 = dispatches.iter().map(|dispatch| dispatch["modelled_us"].as_f64().unwrap()).sum();
        assert!((plan["modelled_us"].as_f64().unwrap() - us).abs() < 1e-6 * us);
        for dispatch in dispatches {
            let [modelled, least] =
                ["modelled_us", "least_us"].map(|field| dispatch[field].as_f64().unwrap());
            assert!(modelled >= 0.99 * least && dispatch["instructions"].as_u64().unwrap() > 0, "{dispatch}");
        }
        assert_eq!(plan["layers"].as_array().unwrap().len(), 2);
    }
}
