//! Debian's kernel packages: fetched with apt's lists and keys into `target/vm`; nothing is installed.

use crate::apt::{self, apt};
use crate::process::{output, root};
use anyhow::Context as _;
use std::path::{Path, PathBuf};

/// Source of a kernel.
pub(super) struct Suite {
    /// Name on the command line.
    pub(super) name: &'static str,
    /// Debian suite.
    suite: &'static str,
}

pub(super) const SUITES: [Suite; 3] = [
    Suite { name: "6.1", suite: "bookworm" },
    Suite { name: "6.12", suite: "trixie" },
    Suite { name: "backports", suite: "trixie-backports" },
];

/// An unpacked kernel.
pub(super) struct Kernel {
    /// `uname -r`.
    pub(super) release: String,
    /// The bootable file.
    pub(super) image: PathBuf,
    /// The folder of its modules; none if amdgpu is built in.
    pub(super) modules: Option<PathBuf>,
}

impl Kernel {
    /// Finds a kernel below a folder of unpacked packages, or takes a bootable file that has amdgpu built in.
    pub(super) fn find(folder: &Path) -> Result<Self, anyhow::Error> {
        if folder.is_file() {
            let release = release(&std::fs::read(folder)?);
            let release = release.with_context(|| format!("{}: not a kernel of x86", folder.display()))?;
            return Ok(Self { release, image: folder.to_path_buf(), modules: None });
        }
        let modules = ["lib/modules", "usr/lib/modules"].map(|path| folder.join(path));
        let modules = modules.iter().filter_map(|path| std::fs::read_dir(path).ok()).flatten().flatten();
        let modules = modules.map(|entry| entry.path()).find(|path| path.join("kernel").is_dir());
        let modules = modules.with_context(|| format!("{}: no kernel modules", folder.display()))?;
        let release = modules.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let candidates = [folder.join(format!("boot/vmlinuz-{release}")), modules.join("vmlinuz")];
        let image = candidates.into_iter().find(|path| path.is_file());
        let image = image.with_context(|| format!("{}: no vmlinuz", folder.display()))?;
        Ok(Self { release, image, modules: Some(modules) })
    }
}

/// The release that a bzImage states: a text that the 16-bit word at 0x20E points to, 0x200 before it
/// (`Documentation/arch/x86/boot.rst`, `kernel_version`).
fn release(image: &[u8]) -> Option<String> {
    const MAGIC: usize = 0x202;
    const POINTER: usize = 0x20e;
    (image.get(MAGIC..MAGIC + 4)? == b"HdrS").then_some(())?;
    let at = 0x200 + usize::from(u16::from_le_bytes(*image.get(POINTER..)?.first_chunk()?));
    let text = image.get(at..)?.split(|byte| matches!(byte, b' ' | 0)).next()?;
    String::from_utf8(text.to_vec()).ok().filter(|text| !text.is_empty())
}

/// The kernel packages that `package` needs, itself included if it has files.
fn needed(folder: &Path, package: &str) -> Result<Vec<String>, anyhow::Error> {
    let text =
        String::from_utf8(output(&mut apt("apt-cache", folder, &["depends", "--important", package]))?)?;
    let mut packages = vec![package.to_owned()];
    for line in text.lines() {
        let Some(name) = line.trim().strip_prefix("Depends: ") else { continue };
        let is_part =
            ["linux-image-", "linux-binary-", "linux-modules-"].iter().any(|part| name.starts_with(part));
        if is_part && !packages.iter().any(|known| known == name) {
            packages.extend(needed(folder, name)?);
        }
    }
    packages.sort();
    packages.dedup();
    Ok(packages)
}

/// The unpacked kernel of a suite, fetched if it is missing. `None` if apt can't fetch it.
pub(super) fn unpacked(suite: &Suite) -> Result<Option<PathBuf>, anyhow::Error> {
    let folder = root().join("target/vm").join(suite.name);
    let unpacked = folder.join("root");
    if Kernel::find(&unpacked).is_ok() {
        return Ok(Some(unpacked));
    }
    let security = format!("{}-security", suite.suite);
    let suites = [("debian", suite.suite), ("debian-security", &security)];
    // Backports have no security suite.
    let suites = if suite.suite.contains('-') { &suites[..1] } else { &suites };
    let packages = || needed(&folder, "linux-image-amd64");
    Ok(apt::unpack(&folder, suites, packages)?.then_some(unpacked))
}

#[cfg(test)]
mod tests {
    use super::release;

    #[test]
    fn a_kernel_states_its_release() {
        let mut image = vec![0; 0x400];
        assert_eq!(release(&image), None);
        image[0x202..0x206].copy_from_slice(b"HdrS");
        image[0x20e..0x210].copy_from_slice(&0x100_u16.to_le_bytes());
        assert_eq!(release(&image), None);
        image[0x300..0x313].copy_from_slice(b"6.1.192-amdgpu (me)");
        assert_eq!(release(&image).as_deref(), Some("6.1.192-amdgpu"));
        image[0x20e..0x210].copy_from_slice(&0xffff_u16.to_le_bytes());
        assert_eq!(release(&image), None);
        assert_eq!(release(&image[..0x20f]), None);
    }
}
