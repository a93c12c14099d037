//! Command lines: negative numbers, texts that begin like flags, common mistakes, and settings that contradict each other.

use crate::program::{command, finish, json, model, refused, run_with, stdout, write};
use doorbell_tests::tiny::Family;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;

/// Checks a refusal of the command line itself.
#[track_caller]
fn unknown(arguments: &[&str], words: &str) {
    let output = run_with(arguments, b"");
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {stderr}");
    assert!(output.stdout.is_empty() && stderr.contains(words), "{arguments:?}: {stderr}");
}

/// A negative number is reported as out of range, not as an unknown flag.
#[test]
fn numbers_below_zero_are_numbers() {
    let model = model("below", Family::Llama);
    let run = ["run", &model, "-p", "x", "-n", "2"];
    let flags = [("run", "--ctx"), ("run", "--seed"), ("bench", "--threads"), ("plan", "--batch")];
    for (verb, flag) in flags {
        unknown(&[verb, &model, flag, "-5"], &format!("invalid value '-5' for '{flag}"));
    }
    unknown(&["run", &model, "-p", "x", "-n", "-3"], "invalid value '-3' for '--n-predict <N>'");
    unknown(&["detokenize", &model, "--ids", "-1"], "invalid value '-1' for '--ids");
    refused(&[&run[..], &["--temp", "-1"]].concat(), 4, &["temperature is -1; it must be from 0 to 1000"]);
    stdout(&[&run[..], &["--presence-penalty", "-1.5", "--frequency-penalty", "-0.5"]].concat(), b"");
    unknown(&["run", &model, "-x"], "unexpected argument '-x'");
}

#[test]
fn texts_may_begin_like_flags() {
    let model = model("hyphen", Family::Qwen3);
    for text in ["-5 + 3", "- one\n- two", "--json", "-"] {
        let asked = json(&["run", &model, "--raw", "-n", "1", "--json", "-p", text]);
        let tokens = json(&["tokenize", &model, "--json", "--text", text]);
        assert_eq!(asked["prompt_tokens"], tokens["tokens"].as_array().unwrap().len(), "{text}");
    }
    stdout(&["run", &model, "-n", "1", "-p", "x", "--system", "-v", "--dry-sequence-breaker", "-"], b"");
}

/// Flags for a GPU are an error without one; they are not ignored.
#[test]
fn a_gpu_that_is_asked_for_must_be_there() {
    let model = model("layers", Family::Llama);
    for flag in ["--gpu-layers", "--gpu-experts"] {
        let run = ["run", &model, "-p", "x", "-n", "1", "--device", "cpu", flag];
        refused(&[&run[..], &["1"]].concat(), 5, &["need a GPU: --device cpu has none"]);
        stdout(&[&run[..], &["0"]].concat(), b"");
    }
}

#[test]
fn a_bench_without_tests_is_refused() {
    let model = model("nothing", Family::Llama);
    refused(&["bench", &model, "-p", "0", "-n", "0"], 4, &["nothing to measure"]);
}

/// An empty key would leave a server open although its owner set one.
#[test]
fn keys_are_never_empty() {
    let serve = ["serve", "nowhere.gguf", "--port", "0"];
    let empty = ["a key of --api-key or DOORBELL_API_KEY is empty"];
    refused(&[&serve[..], &["--api-key", ""]].concat(), 4, &empty);
    refused(&[&serve[..], &["--api-key", "a", "--api-key", " \t"]].concat(), 4, &empty);
    for (key, words) in [(&b" "[..], empty[0]), (b"a\xff", "DOORBELL_API_KEY is not UTF-8 text")] {
        let output = finish(command(&serve).env("DOORBELL_API_KEY", OsStr::from_bytes(key)), b"");
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(4) && stderr.contains(words), "{stderr}");
    }
    // an empty variable is none: only the model is missing
    let output = finish(command(&serve).env("DOORBELL_API_KEY", ""), b"");
    assert_eq!(output.status.code(), Some(3));
}

#[test]
fn addresses_and_origins_are_checked() {
    let serve = ["serve", "nowhere.gguf", "--port", "0"];
    for (flag, value) in [("--host", "example.org"), ("--origin", "localhost:3000")] {
        unknown(&[&serve[..], &[flag, value]].concat(), &format!("invalid value '{value}' for '{flag}"));
    }
    // these are valid: only the model is missing
    for (flag, value) in [
        ("--host", "localhost"),
        ("--host", "0.0.0.0"),
        ("--origin", "http://localhost:3000/"),
        ("--origin", "moz-extension://*"),
    ] {
        refused(&[&serve[..], &[flag, value]].concat(), 3, &["nowhere.gguf: no such file"]);
    }
}

/// A wrong template or folder is an error that names the next step: a server does not start without them.
#[test]
fn templates_and_folders_of_a_server_are_named() {
    let model = model("template", Family::Llama);
    let template = write("wrong.jinja", b"{% if %}");
    let serve = ["serve", &model, "--port", "0", "--device", "cpu"];
    let arguments = [&serve[..], &["--chat-template-file", &template]].concat();
    refused(&arguments, 4, &["wrong.jinja: chat template, line 1: ", "; fix it"]);
    let arguments = [&serve[..], &["--slot-save-path", &template]].concat();
    refused(&arguments, 4, &["wrong.jinja: ", "not a directory; it must be a folder"]);
    unknown(&[&serve[..], &["--name", ""]].concat(), "for '--name <NAME>'");
}
