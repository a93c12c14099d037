//! The program as scripts use it: what it prints, what it refuses in which words, and its exit codes.
#![expect(clippy::unwrap_used, reason = "a test stops at what it did not expect")]

use doorbell_core::quant::Type;
use doorbell_tests::gguf_writer::{GgufFile, Value};
use doorbell_tests::tiny::{self, Family, Shape};
use serde_json::Value as Json;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::LazyLock;

/// The program, built as this test is.
static PROGRAM: LazyLock<PathBuf> = LazyLock::new(|| {
    let arguments = ["build", "--quiet", "--package", "doorbell", "--message-format", "json"];
    let run = Command::new(env!("CARGO")).args(arguments).stderr(Stdio::inherit()).output().unwrap();
    assert!(run.status.success(), "the program can't be built");
    let messages = String::from_utf8(run.stdout).unwrap();
    let messages = messages.lines().map(|line| serde_json::from_str::<Json>(line).unwrap());
    let mut executables = messages.filter_map(|message| message["executable"].as_str().map(PathBuf::from));
    executables.next_back().unwrap()
});

/// A file in a folder of this test's own.
fn path(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cli");
    std::fs::create_dir_all(&folder).unwrap();
    folder.join(name)
}

fn write(name: &str, bytes: &[u8]) -> String {
    let path = path(name);
    std::fs::write(&path, bytes).unwrap();
    path.to_str().unwrap().to_owned()
}

fn tiny(family: Family) -> GgufFile {
    tiny::model(family, Shape::NARROW, Type::F32, 7)
}

/// The path of a tiny model. Tests run at the same time, so each has files of its own name.
fn model(test: &str, family: Family) -> String {
    write(&format!("{test}-{}.gguf", family.name()), &tiny(family).to_bytes())
}

fn run_with(arguments: &[&str], stdin: &[u8]) -> Output {
    let mut command = Command::new(&*PROGRAM);
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // a program that refuses early doesn't read
    let _ = child.stdin.take().unwrap().write_all(stdin);
    child.wait_with_output().unwrap()
}

/// What the program prints when it succeeds.
#[track_caller]
fn stdout(arguments: &[&str], stdin: &[u8]) -> String {
    let output = run_with(arguments, stdin);
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {stderr}");
    String::from_utf8(output.stdout).unwrap()
}

#[track_caller]
fn json(arguments: &[&str]) -> Json {
    let text = stdout(arguments, b"");
    assert_eq!(text.lines().count(), 1, "one document, nothing else: {text}");
    serde_json::from_str(&text).unwrap()
}

/// Checks a refusal: the code, nothing on stdout, one line on stderr that has these words in it.
#[track_caller]
fn refused_with(arguments: &[&str], stdin: &[u8], code: i32, words: &[&str]) {
    let output = run_with(arguments, stdin);
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {stderr}");
    assert!(output.stdout.is_empty(), "{arguments:?}");
    let lines: Vec<_> = stderr.lines().filter(|line| !line.starts_with("device cpu: ")).collect();
    assert!(lines.len() == 1 && lines[0].starts_with("doorbell: "), "{arguments:?}: {stderr}");
    for word in words {
        assert!(lines[0].contains(word), "{word:?} isn't in {:?}", lines[0]);
    }
}

#[track_caller]
fn refused(arguments: &[&str], code: i32, words: &[&str]) {
    refused_with(arguments, b"", code, words);
}

fn ids(document: &Json, field: &str) -> Vec<String> {
    document[field].as_array().unwrap().iter().map(Json::to_string).collect()
}

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

/// What `run` picks greedily is what `score` finds likeliest, position by position.
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
        // the text that streams is the text of the document
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

/// What `score` finds likely with keys and values in blocks is what `run` says with them, and near what it is without.
#[test]
fn keys_and_values_can_be_kept_in_blocks() {
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

/// A message that spells out the end of its turn doesn't end it.
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
        assert_eq!(info["memory"]["kv"], shape.layers * shape.kv_heads * shape.head_dim * 2 * 2 * 64);
        let blocks = json(&["info", &model, "--json", "--ctx", "64", "--kv", "q8_0"]);
        assert_eq!(blocks["memory"]["kv"], info["memory"]["kv"].as_u64().unwrap() / 64 * 34);
        let pages = ["f16", "f32", "q8_0"].map(|kv| info["memory"]["kv_page_bytes"][kv].as_u64().unwrap());
        assert_eq!(pages.map(|bytes| bytes * 32), [32, 64, 17].map(|part| pages[0] * part));
        let text = stdout(&["info", &model, "--tensors"], b"");
        assert!(text.contains("token_embd.weight") && text.contains("memory for 256 tokens"), "{text}");

        let plan = json(&["plan", &model, "--json"]);
        let ops = plan["ops"].as_array().unwrap();
        assert!(ops.iter().all(|op| op["runs_on"] == "cpu"));
        let sum: u64 = ops.iter().map(|op| op["weight_bytes"].as_u64().unwrap()).sum();
        assert_eq!(plan["bytes_per_token"], sum);
        // matrices only, one row of the embedding, and of the experts those that are used
        let matrices = tensors.iter().filter(|tensor| tensor["dims"].as_array().unwrap().len() > 1);
        let expected: u64 = matrices
            .map(|tensor| {
                let (name, bytes) = (tensor["name"].as_str().unwrap(), tensor["bytes"].as_u64().unwrap());
                let tied = !tensors.iter().any(|tensor| tensor["name"] == "output.weight");
                match name {
                    "token_embd.weight" if tied => bytes + bytes / shape.vocab as u64,
                    "token_embd.weight" => bytes / shape.vocab as u64,
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

/// On a software GPU the verbs answer as on the CPU, and tell what the GPU does.
#[test]
fn software_gpus_run_and_tell() {
    let model = write("gpu.gguf", &tiny::model(Family::Qwen3, Shape::WIDE, Type::Q8_0, 7).to_bytes());
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

    let text = write("gpu.txt", b"the quick brown fox and the lazy dog");
    let nll = |device: &str| {
        json(&["score", &model, "--text", &text, "--json", "-t", "1", "--device", device])["nll"]
            .as_f64()
            .unwrap()
    };
    let [cpu, gpu] = [nll("cpu"), nll("soft:gfx1100")];
    assert!((cpu - gpu).abs() < 0.01 * cpu, "{cpu} {gpu}");

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

#[test]
fn bad_files_are_refused() {
    let missing = path("missing.gguf").to_str().unwrap().to_owned();
    refused(&["run", &missing, "-p", "x"], 3, &["missing.gguf: no such file; check the path"]);
    let folder = path("").to_str().unwrap().to_owned();
    refused(&["info", &folder], 3, &["is a directory; name a"]);
    let text = write("text.gguf", b"hello");
    refused(&["info", &text], 3, &["is not a GGUF model"]);
    let bytes = tiny(Family::Llama).to_bytes();
    for len in [5, 24, 200, bytes.len() / 2, bytes.len() - 100] {
        let cut = write("cut.gguf", &bytes[..len]);
        refused(&["run", &cut, "-p", "x"], 3, &["cut.gguf: ", "get the file anew"]);
    }
}

#[test]
fn bad_models_are_refused() {
    let changed = |name: &str, change: &dyn Fn(&mut GgufFile)| {
        let mut file = tiny(Family::Llama);
        change(&mut file);
        write(name, &file.to_bytes())
    };
    let architecture = changed("architecture.gguf", &|file| file.metadata[0].1 = "perceptron".into());
    refused(&["run", &architecture, "-p", "x"], 3, &["architecture.gguf: ", "perceptron", "supported are"]);
    // what the file holds can be looked at all the same
    let info = json(&["info", &architecture, "--json"]);
    assert!(info["memory"].is_null() && info["cannot_run"].as_str().unwrap().contains("perceptron"));

    let tensor = changed("tensor.gguf", &|file| {
        file.tensors.retain(|(info, _)| info.name != b"blk.1.ffn_down.weight");
    });
    refused(&["run", &tensor, "-p", "x"], 3, &["blk.1.ffn_down.weight", "missing"]);

    let shape = changed("shape.gguf", &|file| {
        let (info, _) =
            file.tensors.iter_mut().find(|(info, _)| info.name == b"blk.0.attn_q.weight").unwrap();
        info.dims.reverse();
    });
    refused(&["run", &shape, "-p", "x"], 3, &["blk.0.attn_q.weight", "shape"]);

    let template = |source: &'static str| {
        move |file: &mut GgufFile| {
            let found = file.metadata.iter_mut().find(|(key, _)| key == b"tokenizer.chat_template");
            found.unwrap().1 = source.into();
        }
    };
    let broken = changed("broken.gguf", &template("{% if %}"));
    refused(&["run", &broken, "-p", "x"], 3, &["chat template, line 1: ", "use --raw"]);
    let refusing = changed("refusing.gguf", &template("{{ raise_exception('no users') }}"));
    refused(&["run", &refusing, "-p", "x"], 4, &["no users"]);
    let without =
        changed("without.gguf", &|file| file.metadata.retain(|(key, _)| key != b"tokenizer.chat_template"));
    let plain = stdout(&["run", &without, "-p", "x", "--temp", "0", "-n", "4"], b"");
    assert_eq!(plain, stdout(&["run", &without, "-p", "x", "--temp", "0", "-n", "4", "--raw"], b""));
}

/// A flipped bit is refused or makes another answer; it never ends the program by a panic or a signal.
#[test]
fn flipped_bits_do_not_crash() {
    let bytes = tiny(Family::Qwen3Moe).to_bytes();
    for i in 0..60 {
        let mut bytes = bytes.clone();
        // most in the description, some in the weights
        let place = if i % 6 == 0 { i * 7919 * 13 % bytes.len() } else { i * 331 % 20_000 };
        bytes[place] ^= 1 << (i % 8);
        let model = write("flipped.gguf", &bytes);
        let output = run_with(&["run", &model, "-p", "the way", "-n", "3", "--ctx", "64"], b"");
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        let code = output.status.code();
        assert!(code.is_some_and(|code| [0, 1, 3, 4, 6].contains(&code)), "byte {place}: {code:?} {stderr}");
        assert!(!stderr.contains("panicked"), "byte {place}: {stderr}");
    }
}

#[test]
fn bad_inputs_are_refused() {
    let model = model("inputs", Family::Llama);
    let empty = ["the prompt is empty; give some text with -p"];
    refused(&["run", &model, "-p", ""], 4, &empty);
    refused(&["run", &model, "--raw"], 4, &empty);
    refused_with(&["run", &model], b"ab\xff", 4, &["stdin is not UTF-8 text (byte 2)"]);
    refused_with(&["tokenize", &model], b"\xc3(", 4, &["stdin is not UTF-8 text (byte 0)"]);
    let bad = write("bad.txt", b"abc\xf0\x9f");
    refused(&["run", &model, "--file", &bad], 4, &["bad.txt is not UTF-8 text (byte 3)"]);
    refused(&["score", &model, "--text", &bad], 4, &["bad.txt is not UTF-8 text (byte 3)"]);
    refused(&["run", &model, "--file", "/nowhere"], 4, &["/nowhere: ", "check the path"]);
    let long = "way ".repeat(100);
    let words = ["and the context holds 32", "shorten it or give a larger --ctx"];
    refused(&["run", &model, "-p", &long, "--ctx", "32"], 4, &words);
    let text = write("long.txt", long.as_bytes());
    refused(&["score", &model, "--text", &text, "--ctx", "32"], 4, &words);
    let nothing = write("nothing.txt", b"");
    refused(&["score", &model, "--text", &nothing], 4, &["the text is empty"]);
    refused(
        &["score", &model, "--tokens", "1,512"],
        4,
        &["token 512 is not in the vocabulary; its ids are below 512"],
    );
    refused(&["detokenize", &model, "--ids", "4294967295"], 4, &["not in the vocabulary"]);
    refused(&["run", &model, "-p", "x", "--top-p", "1.5"], 4, &["top_p is 1.5; it must be from 0 to 1"]);
    refused(&["run", &model, "-p", "x", "--temp", "nan"], 4, &["temperature is NaN"]);
    refused(&["run", &model, "-p", "x", "--ctx", "4294967295"], 6, &["use a smaller --ctx"]);
    refused(&["run", &model, "-p", "x", "--device", "kfd:99"], 5, &["device kfd:99 can't be used: "]);
    assert_eq!(run_with(&["run", &model, "-p", "x", "--kv", "q4_0"], b"").status.code(), Some(2));
    let odd = Shape { hidden: 60, head_dim: 20, heads: 3, ..Shape::TINY };
    let odd = write("odd.gguf", &tiny::model(Family::Qwen3, odd, Type::F32, 1).to_bytes());
    refused(&["run", &odd, "-p", "x", "--kv", "q8_0"], 4, &["heads of 20 elements", "use f16"]);
    refused(
        &["run", &model, "-p", "x", "--device", "soft:gfx900"],
        5,
        &["no software GPU is called \"gfx900\""],
    );
}

/// A reader that goes away ends the program quietly.
#[test]
fn a_closed_pipe_is_no_panic() {
    let model = model("pipe", Family::Llama);
    for arguments in [&["run", &model, "-p", "x", "--temp", "0"][..], &["info", &model], &["--help"]] {
        let mut command = Command::new(&*PROGRAM);
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code().is_some_and(|code| [0, 141].contains(&code)), "{arguments:?}: {stderr}");
        assert!(!stderr.contains("panicked") && !stderr.contains("doorbell: "), "{stderr}");
    }
}

/// Ctrl-C stops an answer; what was generated stays, and the closing line comes.
#[test]
fn ctrl_c_stops_the_answer() {
    let mut file = tiny(Family::Llama);
    let context = file.metadata.iter_mut().find(|(key, _)| key == b"llama.context_length").unwrap();
    context.1 = Value::U32(1 << 20);
    // no token ends an answer, so that only the signal does
    file.metadata.retain(|(key, _)| key != b"tokenizer.ggml.eos_token_id");
    let model = write("endless.gguf", &file.to_bytes());
    let arguments = ["run", &model, "-p", "x", "--raw", "--temp", "0", "--ctx", "100000"];
    let mut command = Command::new(&*PROGRAM);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // the first text is there: the signal is caught from now on
    let mut first = [0];
    std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut first).unwrap();
    let kill = format!("kill -INT {}", child.id());
    assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(130), "{stderr}");
    assert!(stderr.contains("; answer ") && stderr.contains("tok/s; device cpu"), "{stderr}");
}

#[test]
fn devices_and_doctor_agree_about_this_machine() {
    let devices: Json = serde_json::from_str(&stdout(&["devices", "--json"], b"")).unwrap();
    let names: Vec<&str> = devices["devices"]
        .as_array()
        .unwrap()
        .iter()
        .map(|device| device["name"].as_str().unwrap())
        .collect();
    assert!(names.contains(&"cpu") && names.contains(&"soft:gfx1100"), "{names:?}");
    let gpus = names.iter().filter(|name| name.starts_with("kfd:")).count();
    let model = model("doctor", Family::Llama);
    for arguments in [&["doctor", "--json"][..], &["doctor", &model, "--ctx", "64", "--json"]] {
        let doctor = run_with(arguments, b"");
        let report: Json = serde_json::from_slice(&doctor.stdout).unwrap();
        assert_eq!(report["gpus"], gpus);
        let code = match report["verdict"].as_str().unwrap() {
            "usable" => 0,
            "warned" => 7,
            _ => 5,
        };
        assert_eq!((doctor.status.code(), doctor.stderr.len()), (Some(code), 0));
        assert_eq!(report["model"]["bytes"].as_u64().is_some(), arguments.len() > 2);
    }
    let people = stdout(&["devices"], b"");
    assert!(names.iter().all(|name| people.contains(name)), "{people}");
}
