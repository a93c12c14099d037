//! The ABI structs and request words against the kernel's own header, compiled by a C compiler.
//!
//! `goldens/abi_probe.c` prints what the header says; its output for the newest header that Debian offers is
//! committed, and the installed header is probed when the tests run.
use doorbell_kfd::sys::{AmdgpuInfo, LAYOUTS, Request, amdgpu_query};
use doorbell_kfd::topology::dev_info;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

fn parse(text: &str) -> BTreeMap<&str, u64> {
    let number = |text: &str| match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16),
        None => text.parse(),
    };
    text.lines()
        .map(|line| {
            let (name, value) = line.split_once(' ').expect("name and value");
            (name, number(value).expect("number"))
        })
        .collect()
}

/// This crate's values under the probe's names.
fn ours() -> BTreeMap<String, u64> {
    let mut facts = BTreeMap::new();
    for (tag, size, fields) in LAYOUTS {
        facts.insert((*tag).to_owned(), *size as u64);
        for (field, offset) in *fields {
            facts.insert(format!("{tag}.{field}"), *offset as u64);
        }
    }
    for (name, word) in Request::all() {
        facts.insert(name.to_owned(), u64::from(word.0));
    }
    facts.insert("drm_amdgpu_info".to_owned(), size_of::<AmdgpuInfo>() as u64);
    facts.insert("drm_amdgpu_info.return_pointer".to_owned(), 0);
    facts.insert("drm_amdgpu_info.return_size".to_owned(), 8);
    facts.insert("drm_amdgpu_info.query".to_owned(), 12);
    facts.insert("drm_amdgpu_memory_info".to_owned(), 96);
    facts.insert("query.DEV_INFO".to_owned(), amdgpu_query::DEV_INFO.into());
    facts.insert("query.MEMORY".to_owned(), amdgpu_query::MEMORY.into());
    facts.insert("query.FW_VERSION".to_owned(), amdgpu_query::FW_VERSION.into());
    facts.insert("query.FW_MES".to_owned(), amdgpu_query::FW_MES.into());
    facts.insert("query.FUSION".to_owned(), dev_info::FUSION.into());
    for (name, offset) in dev_info::OFFSETS {
        facts.insert(format!("drm_amdgpu_info_device.{name}"), *offset as u64);
    }
    facts
}

/// Checks every line of the probe; answers how many there were besides the version.
fn check(text: &str) -> usize {
    let theirs = parse(text);
    let ours = ours();
    for (name, value) in &theirs {
        if *name != "minor" {
            assert_eq!(ours.get(*name), Some(value), "{name}");
        }
    }
    theirs.len() - 1
}

#[test]
fn newest_header_agrees_in_every_field() {
    let text = include_str!("../goldens/abi-7.3.4.txt");
    assert_eq!(parse(text)["minor"], 23);
    assert_eq!(check(text), ours().len(), "the probe must cover all that this crate declares");
}

#[test]
fn installed_header_agrees() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/goldens");
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("abi_probe");
    let compiled = Command::new("cc")
        .arg("-idirafter")
        .arg(here.join("include"))
        .arg("-o")
        .arg(&program)
        .arg(here.join("abi_probe.c"))
        .output();
    let Some(compiled) = compiled.ok().filter(|output| output.status.success()) else {
        println!("skipped: no C compiler or no linux/kfd_ioctl.h here");
        return;
    };
    assert!(compiled.stderr.is_empty(), "{}", String::from_utf8_lossy(&compiled.stderr));
    let output = Command::new(&program).output().expect("run the probe");
    let text = String::from_utf8(output.stdout).expect("ASCII");
    assert!(check(&text) >= 115, "{} facts", check(&text));
}
