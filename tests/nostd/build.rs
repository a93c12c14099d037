//! Writes the model that the program embeds, and links the program without the usual start code.

use std::path::PathBuf;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let folder = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo names the folder"));
    let model = doorbell_tests::tiny::embedded();
    std::fs::write(folder.join("model.gguf"), model).expect("the folder can be written to");
    for argument in ["-nostartfiles", "-nostdlib", "-static", "-no-pie"] {
        println!("cargo::rustc-link-arg-bins={argument}");
    }
    // The least severe level that defmt's macros compile in.
    println!("cargo::rustc-env=DEFMT_LOG=info");
    let script =
        PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo names it")).join("link.x");
    println!("cargo::rerun-if-changed={}", script.display());
    println!("cargo::rustc-link-arg-bins=-Wl,--no-eh-frame-hdr,-T,{}", script.display());
}
