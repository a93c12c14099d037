//! The preload shim: a small client of ours with all checks, and Debian's rocminfo if it is unpacked.
//!
//! The other foreign clients take longer and have to be fetched: `cargo xtask shim --check` (`run.sh`).
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the tests are in the workspace").to_path_buf()
}

/// Builds the library and the client. Returns their paths.
fn built() -> (PathBuf, PathBuf) {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    // all packages with the features of tests: others would build the software GPU once more
    command.args(["build", "--quiet", "--workspace", "--lib", "--example", "probe"]);
    command.args(["--message-format", "json"]).current_dir(root());
    let output = command.output().expect("cargo starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let messages = String::from_utf8(output.stdout).expect("text");
    let messages = messages.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    let mut files = Vec::new();
    for message in messages.filter(|message| message["reason"] == "compiler-artifact") {
        let names = message["filenames"].as_array().into_iter().flatten();
        files.extend(names.filter_map(|name| name.as_str()).map(PathBuf::from));
    }
    let find = |name: &str| {
        let found = files.iter().find(|file| file.file_name().is_some_and(|found| found == name));
        found.unwrap_or_else(|| panic!("cargo built no {name}: {files:?}")).clone()
    };
    (find("libdoorbell_shim.so"), find("probe"))
}

fn output(command: &mut Command) -> String {
    let output = command.output().expect("the client starts");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}\n{text}{errors}", output.status);
    text
}

#[test]
fn a_clients_calls_reach_the_software_kernel() {
    let (library, probe) = built();
    let text = output(Command::new(probe).env("LD_PRELOAD", library).envs([
        ("DOORBELL_SHIM_CHIP", "gfx1151"),
        // 6.12 also requires a save area.
        ("DOORBELL_SHIM_KERNEL", "6.1"),
    ]));
    let expected = [
        "render nodes [\"renderD128\"]",
        "gfx_target_version 110501",
        "hidden true",
        "version 0 1.11",
        "unknown 25",
        "without a VM 19",
        "acquire 0",
        "own memory 0",
        "holds 42",
        "bad pointer 14",
        "map 0 done 1",
        "queue 0",
        "stored 77 after 5 words",
        "in a child 9",
    ];
    assert_eq!(text.lines().collect::<Vec<_>>(), expected);
}

#[test]
fn rocminfo_lists_the_gpu() {
    let clients = root().join("target/foreign/trixie").join("root").join("usr");
    let libraries = clients.join("lib/x86_64-linux-gnu");
    let rocminfo = clients.join("bin/rocminfo");
    if !rocminfo.is_file() {
        eprintln!("rocminfo is not unpacked: skipped; `cargo xtask shim --check` fetches it");
        return;
    }
    let (library, _) = built();
    for chip in ["gfx1100", "gfx1151", "gfx1100,gfx1151"] {
        let mut command = Command::new(libraries.join("ld-linux-x86-64.so.2"));
        command.arg("--library-path").arg(&libraries).arg("--preload").arg(&library).arg(&rocminfo);
        let text = output(command.env("DOORBELL_SHIM_CHIP", chip));
        for name in chip.split(',') {
            let isa = format!("amdgcn-amd-amdhsa--{name}");
            assert!(text.contains(&isa), "no {isa} in:\n{text}");
        }
        assert!(text.ends_with("*** Done ***             \n"), "{text}");
    }
}
