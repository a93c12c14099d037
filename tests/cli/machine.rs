//! The program and its machine: devices, ports and address space.

use crate::program::{PROGRAM, finish, model, refused, run_with, stdout};
use doorbell_tests::tiny::Family;
use serde_json::Value as Json;
use std::process::{Command, Stdio};

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
    let people = stdout(&["devices", "--all"], b"");
    assert!(names.iter().all(|name| people.contains(name)), "{people}");
    let people = stdout(&["devices"], b"");
    assert!(people.contains("cpu") && !people.contains("soft:"), "{people}");
}

/// A port in use is reported before the model is loaded: here there is no model at all.
#[test]
fn a_port_in_use_is_reported_first() {
    let other = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = other.local_addr().unwrap().port().to_string();
    refused(&["serve", "nowhere.gguf", "--port", &port], 1, &["cannot listen on 127.0.0.1:", "--port"]);
}

/// A limit of the address space ends in a message about memory, not in an abort.
#[test]
fn too_little_address_space_is_reported() {
    let model = model("room", Family::Llama);
    for limit in ["80000", "120000", "200000", "400000"] {
        let script = format!("ulimit -v {limit} && exec \"$0\" \"$@\"");
        let mut shell = Command::new("sh");
        shell.args(["-c", &script]).arg(&*PROGRAM).args(["run", &model, "-p", "x", "-n", "2", "-t", "2"]);
        shell.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let output = finish(&mut shell, b"");
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        let code = output.status.code();
        assert!(code.is_some_and(|code| [0, 5, 6].contains(&code)), "{limit}: {code:?} {stderr}");
    }
}
