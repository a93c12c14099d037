//! The only process of a virtual machine: loads amdgpu, prints what KFD answers, powers the machine off.
//!
//! `cargo xtask vm` builds it, boots it and compares the transcript with the committed one.

#[path = "../tests/driver/transcript.rs"]
#[expect(unreachable_pub, reason = "shared with the tests")]
mod transcript;

use doorbell_kfd::sys::Linux;
use rustix::mount::{MountFlags, mount};
use rustix::system::{RebootCommand, init_module, reboot};
use std::fs;

fn main() {
    for (kind, directory) in [("proc", "/proc"), ("sysfs", "/sys"), ("devtmpfs", "/dev")] {
        if let Err(error) = mount(kind, directory, kind, MountFlags::empty(), None) {
            println!("mount {directory}: {error}");
        }
    }
    // Lines of `/modules`, in the order in which they have to be loaded.
    let list = fs::read_to_string("/modules").unwrap_or_default();
    for name in list.lines() {
        let loaded = fs::read(format!("/{name}")).map(|image| init_module(&image, c""));
        if !matches!(loaded, Ok(Ok(()))) {
            println!("module {name}: {loaded:?}");
        }
    }
    println!("== begin");
    print!("{}", transcript::transcript(&Linux));
    println!("== end");
    if let Err(error) = reboot(RebootCommand::PowerOff) {
        println!("power off: {error}");
    }
}
