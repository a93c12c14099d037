//! Opening model files: what is there, what isn't, and what something else looks like.

use doorbell_runtime::file::{ModelFile, OpenError};
use std::fs;
use std::path::{Path, PathBuf};

/// An empty directory of this name, made anew.
fn directory(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&path);
    fs::create_dir_all(&path).expect("the target directory is writable");
    path
}

fn write(path: &Path, bytes: &[u8]) {
    fs::write(path, bytes).expect("the target directory is writable");
}

fn refused(path: &Path) -> String {
    ModelFile::open(path)
        .err()
        .map(|error| error.to_string().replace(path.to_str().unwrap_or(""), "PATH"))
        .unwrap_or_default()
}

#[test]
fn one_file_is_mapped_and_read_ahead() {
    let path = directory("one").join("m.gguf");
    let bytes: Vec<u8> =
        b"GGUF".iter().copied().chain((0..100_000_u32).map(|i| i.to_le_bytes()[0])).collect();
    write(&path, &bytes);
    let model = ModelFile::open(&path).unwrap();
    assert_eq!((model.len(), model.paths()), (100_004, &[path][..]));
    let mut reports = Vec::new();
    model.populate(|done, all| reports.push((done, all))).unwrap();
    assert_eq!(reports, [(100_004, 100_004)]);
    assert!(model.parts() == [&bytes[..]]);
}

#[test]
fn any_part_opens_the_whole_set() {
    let directory = directory("split");
    let name = |part: u32| directory.join(format!("m-{part:05}-of-00003.gguf"));
    for part in 1..=3 {
        write(&name(part), format!("GGUF{part}").as_bytes());
    }
    let model = ModelFile::open(&name(2)).unwrap();
    assert_eq!(model.parts(), [b"GGUF1", b"GGUF2", b"GGUF3"]);
    fs::remove_file(name(3)).unwrap();
    assert!(
        matches!(ModelFile::open(&name(1)), Err(OpenError::PartMissing { path, count: 3 }) if path == name(3))
    );
    assert!(matches!(ModelFile::open(&name(3)), Err(OpenError::NotFound { .. })));
}

#[test]
fn files_of_other_kinds_are_named() {
    let directory = directory("other");
    let path = directory.join("file.gguf");
    assert_eq!(refused(&path), "PATH: no such file; check the path");
    assert_eq!(refused(&directory), "PATH is a directory without a .gguf file; name a model file");
    let cases: [(&[u8], &str); 8] = [
        (b"", "PATH is empty; download it again"),
        (b"GGU", "PATH is not a GGUF model (it does not begin with \"GGUF\"); name a .gguf file"),
        (
            b"version https://git-lfs.github.com/spec/v1",
            "PATH is not a GGUF model but a Git LFS pointer; fetch the file itself with `git lfs pull`",
        ),
        (b"<!DOCTYPE html>", "PATH is not a GGUF model but a web page; download the file itself"),
        (b"<!doctype html>", "PATH is not a GGUF model but a web page; download the file itself"),
        (b"\x1f\x8b\x08", "PATH is not a GGUF model but compressed; unpack it first with `gunzip`"),
        (
            b"\x10\x27\0\0\0\0\0\0{\"a\"",
            "PATH is not a GGUF model but a safetensors file; convert the model to GGUF first",
        ),
        (
            b"PK\x03\x04",
            "PATH is not a GGUF model but a zip archive or PyTorch checkpoint; convert the model to GGUF first",
        ),
    ];
    for (bytes, expected) in cases {
        write(&path, bytes);
        assert_eq!(refused(&path), expected);
    }
    let expected = format!("PATH is a directory; name a file in it, for instance {}", path.display());
    assert_eq!(refused(&directory), expected.replace(directory.to_str().unwrap(), "PATH"));
    assert_eq!(refused(Path::new("/dev/null")), "PATH is not a regular file; name a .gguf file");
}

/// An error of the system comes with the next step; a name that is not a path comes with what a path is.
#[test]
fn errors_of_the_system_have_a_next_step() {
    use std::io::{Error, ErrorKind};
    let report = |kind: ErrorKind| {
        let error = OpenError::Io { path: "m.gguf".into(), error: Error::from(kind) };
        (error.to_string(), error.is_memory())
    };
    let (denied, is_memory) = report(ErrorKind::PermissionDenied);
    assert!(denied.ends_with("; `ls -lL` shows who may read it") && !is_memory, "{denied}");
    let (addresses, is_memory) = report(ErrorKind::OutOfMemory);
    assert!(addresses.contains("`ulimit -v unlimited`") && is_memory, "{addresses}");
    assert_eq!(
        refused(Path::new("qwen3:8b")),
        "PATH: no such file; name a .gguf file that is on this machine"
    );
    let below = directory("below").join("m.gguf");
    write(&below, b"GGUF");
    assert_eq!(refused(&below.join("x.gguf")), "PATH: no such file; check the path");
}
