//! Files, models and texts that can't be used: messages and exit codes.

use crate::program::{
    command, finish, json, model, path, refused, refused_with, run_with, stdout, tiny, write,
};
use doorbell_core::quant::Type;
use doorbell_tests::gguf_writer::GgufFile;
use doorbell_tests::tiny::{self, Family, Shape};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;

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
        refused(&["run", &cut, "-p", "x"], 3, &["cut.gguf: ", "download the file again"]);
    }
}

/// All parts of a split model must be in one folder, under their own names.
#[test]
fn incomplete_split_models_are_refused() {
    let parts = tiny(Family::Llama).to_parts(3);
    let names: Vec<_> = (1..=3).map(|part| format!("set-{part:05}-of-00003.gguf")).collect();
    let paths: Vec<_> = names.iter().zip(&parts).map(|(name, part)| write(name, part)).collect();
    stdout(&["run", &paths[1], "-p", "x", "-n", "1"], b"");
    let renamed = write("renamed.gguf", &parts[0]);
    refused(&["run", &renamed, "-p", "x"], 3, &["split.count is 3", "keep the parts' own names"]);
    std::fs::remove_file(&paths[2]).unwrap();
    refused(&["run", &paths[0], "-p", "x"], 3, &["set-00003-of-00003.gguf is missing", "all 3 parts"]);
    refused(&["run", &paths[2], "-p", "x"], 3, &["set-00003-of-00003.gguf: no such file"]);
}

/// File names may have blanks, letters of any alphabet, and bytes that are not UTF-8.
#[test]
fn models_may_have_any_name() {
    let bytes = tiny(Family::Llama).to_bytes();
    for name in [&b"a model.gguf"[..], "Modèle 北京.gguf".as_bytes(), b"bad\xff\xfe.gguf", b"-n.gguf"] {
        let path = path("").join(OsStr::from_bytes(name));
        std::fs::write(&path, &bytes).unwrap();
        for verb in ["info", "plan"] {
            let output = finish(command(&[verb, "--json"]).arg(&path), b"");
            let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
            assert_eq!(output.status.code(), Some(0), "{name:?}: {stderr}");
            serde_json::from_slice::<serde_json::Value>(&output.stdout).unwrap();
        }
    }
}

/// A file that is not a model is refused before the prompt is read.
#[test]
fn the_model_is_checked_before_the_prompt_is_read() {
    let model = write("no-model.gguf", b"hello");
    refused(&["run", &model, "-p", ""], 3, &["is not a GGUF model"]);
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
    // `info` shows the contents all the same
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

/// A flipped bit is refused or changes the answer; it never causes a panic or a signal.
#[test]
fn flipped_bits_do_not_crash() {
    let bytes = tiny(Family::Qwen3Moe).to_bytes();
    for i in 0..60 {
        let mut bytes = bytes.clone();
        // most in the metadata, some in the weights
        let position = if i % 6 == 0 { i * 7919 * 13 % bytes.len() } else { i * 331 % 20_000 };
        bytes[position] ^= 1 << (i % 8);
        let model = write("flipped.gguf", &bytes);
        let output = run_with(&["run", &model, "-p", "the way", "-n", "3", "--ctx", "64"], b"");
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        let code = output.status.code();
        assert!(
            code.is_some_and(|code| [0, 1, 3, 4, 6].contains(&code)),
            "byte {position}: {code:?} {stderr}"
        );
        assert!(!stderr.contains("panicked"), "byte {position}: {stderr}");
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
    // a byte order mark is no text
    let marked = write("marked.txt", b"\xef\xbb\xbf");
    refused(&["run", &model, "--file", &marked], 4, &empty);
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
