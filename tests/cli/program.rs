//! Starts the program as a script does, and checks how it ends.

use doorbell_core::quant::Type;
use doorbell_tests::gguf_writer::GgufFile;
use doorbell_tests::tiny::{self, Family, Shape};
use serde_json::Value as Json;
use std::ffi::OsStr;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::LazyLock;

/// The program, built with the profile of this test.
pub(crate) static PROGRAM: LazyLock<PathBuf> = LazyLock::new(|| {
    // the same features as for the tests, so that nothing is built twice
    let arguments = ["build", "--quiet", "--workspace", "--bin", "doorbell", "--example", "scripted_server"];
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(arguments).args(["--message-format", "json"]).stderr(Stdio::inherit());
    let run = cargo.output().unwrap();
    assert!(run.status.success(), "the program can't be built");
    let messages = String::from_utf8(run.stdout).unwrap();
    let messages = messages.lines().map(|line| serde_json::from_str::<Json>(line).unwrap());
    let mut programs = messages.filter(|message| message["target"]["name"] == "doorbell");
    programs.find_map(|message| message["executable"].as_str().map(PathBuf::from)).unwrap()
});

/// A file in a folder of this test binary.
pub(crate) fn path(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cli");
    std::fs::create_dir_all(&folder).unwrap();
    folder.join(name)
}

pub(crate) fn write(name: &str, bytes: &[u8]) -> String {
    let path = path(name);
    std::fs::write(&path, bytes).unwrap();
    path.to_str().unwrap().to_owned()
}

pub(crate) fn tiny(family: Family) -> GgufFile {
    tiny::model(family, Shape::NARROW, Type::F32, 7)
}

/// The path of a tiny model. Tests run at the same time, so each has files of its own name.
pub(crate) fn model(test: &str, family: Family) -> String {
    write(&format!("{test}-{}.gguf", family.name()), &tiny(family).to_bytes())
}

/// The program with these arguments, not yet started.
pub(crate) fn command<S: AsRef<OsStr>>(arguments: &[S]) -> Command {
    let mut command = Command::new(&*PROGRAM);
    command.args(arguments).env_remove("DOORBELL_API_KEY");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Starts a program, writes its input and waits for its end.
pub(crate) fn finish(command: &mut Command, stdin: &[u8]) -> Output {
    let mut child = command.spawn().unwrap();
    // a program that fails early doesn't read its input
    let _ = child.stdin.take().unwrap().write_all(stdin);
    child.wait_with_output().unwrap()
}

pub(crate) fn run_with(arguments: &[&str], stdin: &[u8]) -> Output {
    finish(&mut command(arguments), stdin)
}

/// The output of a successful run.
#[track_caller]
pub(crate) fn stdout(arguments: &[&str], stdin: &[u8]) -> String {
    let output = run_with(arguments, stdin);
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {stderr}");
    String::from_utf8(output.stdout).unwrap()
}

#[track_caller]
pub(crate) fn json(arguments: &[&str]) -> Json {
    let text = stdout(arguments, b"");
    assert_eq!(text.lines().count(), 1, "one document, nothing else: {text}");
    serde_json::from_str(&text).unwrap()
}

/// Checks a failure: the exit code, an empty stdout, and one line on stderr that contains these texts.
#[track_caller]
pub(crate) fn refused_with(arguments: &[&str], stdin: &[u8], code: i32, words: &[&str]) {
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
pub(crate) fn refused(arguments: &[&str], code: i32, words: &[&str]) {
    refused_with(arguments, b"", code, words);
}

pub(crate) fn ids(document: &Json, field: &str) -> Vec<String> {
    document[field].as_array().unwrap().iter().map(Json::to_string).collect()
}
