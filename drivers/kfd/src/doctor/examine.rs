//! Looks at everything that has to be right before a GPU can be used, in the order in which it would fail.

use super::access::{Access, Identity};
use super::finding::{Finding, Severity};
use super::kernel_log::hints;
use crate::heap::{OutOfMemory, push};
use crate::process::{MINIMUM_MINOR, Version};
use crate::sys::{Errno, Fd, GetVersion, Kernel, call};
use crate::topology::dev_info::scheduler_firmware;
use crate::topology::{
    Budget, Candidate, DeviceInfo, GpuKind, Isa, KernelSupport, MemoryFacts, Node, PciAddress, Topology,
};
use alloc::vec::Vec;
use core::fmt::{self, Write};

/// Inputs of an examination beside the kernel.
#[derive(Clone, Copy, Debug)]
pub struct ExamineInputs<'a> {
    /// The kernel log, where the host could get it.
    pub log: &'a [u8],
    /// Bytes that a model is to take on one device.
    pub model_bytes: Option<u64>,
    /// The GPU kernels that the caller has for an instruction set.
    pub kernel_support: fn(Isa) -> KernelSupport,
}

impl Default for ExamineInputs<'_> {
    /// No log, no model, and kernels for every instruction set.
    fn default() -> Self {
        Self { log: &[], model_bytes: None, kernel_support: |_| KernelSupport::Own }
    }
}

/// The result.
#[derive(Clone, Debug, Default)]
pub struct Examination {
    /// `uname -r`, for display only: features are not detected by it.
    pub release: heapless::String<64>,
    /// The interface's version, when `/dev/kfd` opens.
    pub version: Option<Version>,
    /// The topology of sysfs, if it could be read.
    pub topology: Option<Topology>,
    /// Devices that could be used.
    pub devices: Vec<Candidate>,
    /// Their memory, in the same order.
    pub budgets: Vec<Budget>,
    /// A finding.
    pub findings: Vec<Finding>,
}

impl Examination {
    /// The worst severity; `None` when there is nothing to say.
    pub fn worst(&self) -> Option<Severity> {
        self.findings.iter().map(Finding::severity).max()
    }

    fn add(&mut self, finding: Finding) -> Result<(), OutOfMemory> {
        push(&mut self.findings, finding)
    }
}

/// Looks at everything. Only host memory can fail.
pub fn examine(kernel: &dyn Kernel, seen: ExamineInputs<'_>) -> Result<Examination, OutOfMemory> {
    let mut result = Examination { release: release(kernel), ..Examination::default() };
    let identity = Identity::read(kernel);
    let cards = cards(kernel)?;
    let topology = Topology::scan(kernel).ok();
    let has_node = topology.as_ref().is_some_and(|topology| topology.gpus().next().is_some());
    if let Some(kfd) = open(kernel, &identity, &cards, has_node, &mut result)? {
        let checked = check(kernel, &kfd, topology.as_ref(), &cards, seen, &mut result);
        kernel.close(kfd);
        checked?;
    }
    for hint in hints(seen.log) {
        result.add(Finding::Log(hint))?;
    }
    result.topology = topology;
    Ok(result)
}

fn release(kernel: &dyn Kernel) -> heapless::String<64> {
    let mut buffer = [0; 64];
    let count = kernel.read("/proc/sys/kernel/osrelease", &mut buffer).unwrap_or(0);
    let printable = buffer[..count].iter().filter(|byte| byte.is_ascii_graphic());
    printable.map(|&byte| char::from(byte)).collect()
}

/// An AMD display controller on the bus.
#[derive(Clone, Copy, Debug)]
struct Card {
    pci: PciAddress,
    /// A driver runs it.
    is_running: bool,
}

fn hexadecimal(text: &[u8]) -> Option<u32> {
    let text = core::str::from_utf8(text).ok()?.trim();
    u32::from_str_radix(text.strip_prefix("0x").unwrap_or(text), 16).ok()
}

/// `0000:03:00.0` as an address.
fn address(name: &str) -> Option<PciAddress> {
    let (rest, function) = name.rsplit_once('.')?;
    let mut parts = rest.split(':');
    let mut next = || u32::from_str_radix(parts.next()?, 16).ok();
    let (domain, bus, device) = (next()?, next()?, next()?);
    let function: u32 = function.parse().ok()?;
    Some(PciAddress { domain, location: bus << 8 | device << 3 | function })
}

fn cards(kernel: &dyn Kernel) -> Result<Vec<Card>, OutOfMemory> {
    const AMD: u32 = 0x1002;
    const DISPLAY: u32 = 0x03;
    const DIRECTORY: &str = "/sys/bus/pci/devices";
    let mut cards = Vec::new();
    let mut result = Ok(());
    let _ = kernel.list(DIRECTORY, &mut |name| {
        let number = |file: &str| {
            let mut path = heapless::String::<96>::new();
            write!(path, "{DIRECTORY}/{name}/{file}").ok()?;
            let mut buffer = [0; 16];
            let count = kernel.read(&path, &mut buffer).ok()?;
            hexadecimal(&buffer[..count])
        };
        let is_gpu =
            number("vendor") == Some(AMD) && number("class").is_some_and(|class| class >> 16 == DISPLAY);
        if let Some(pci) = address(name).filter(|_| is_gpu) {
            let mut path = heapless::String::<96>::new();
            let is_running = write!(path, "{DIRECTORY}/{name}/drm").is_ok() && kernel.stat(&path).is_ok();
            result = result.and_then(|()| push(&mut cards, Card { pci, is_running }));
        }
    });
    result.map(|()| cards)
}

/// Opens `/dev/kfd` or says why not.
fn open(
    kernel: &dyn Kernel,
    identity: &Identity,
    cards: &[Card],
    has_node: bool,
    result: &mut Examination,
) -> Result<Option<Fd>, OutOfMemory> {
    let errno = match kernel.open("/dev/kfd") {
        Ok(kfd) => return Ok(Some(kfd)),
        Err(errno) => errno,
    };
    let is_there = |path: &str| kernel.stat(path).is_ok();
    let in_container = identity.is_container;
    let finding = match errno {
        Errno::ENOENT if is_there("/sys/class/kfd") => Finding::NodeMissing { in_container },
        Errno::ENOENT if is_there("/sys/module/amdgpu") => Finding::KfdNotBuilt,
        Errno::ENOENT if cards.is_empty() => Finding::NoGpu,
        Errno::ENOENT => blacklisted(kernel).map_or(Finding::ModuleNotLoaded, Finding::Blacklisted),
        Errno::EACCES => match Access::read(kernel, identity, "/dev/kfd") {
            Some(access) if access.should_work && identity.is_selinux_enforcing => Finding::Selinux(access),
            Some(access) if !access.should_work => Finding::NotPermitted { access, in_container },
            _ => Finding::Denied { is_32_bit: false },
        },
        Errno::EPERM => Finding::Denied { is_32_bit: cfg!(target_pointer_width = "32") },
        Errno::EINVAL | Errno::EAGAIN if has_node => Finding::Resetting(errno),
        Errno::EINVAL if cards.is_empty() => Finding::NoGpu,
        Errno::EINVAL => Finding::NoUsableGpu(errno),
        errno => Finding::OpenFailed(errno),
    };
    // The kernel reports only "no usable GPU"; the devices on the bus say more.
    if matches!(finding, Finding::NoUsableGpu(_)) {
        unused_cards(cards, &[], result)?;
    }
    result.add(finding)?;
    Ok(None)
}

/// The word of the kernel's command line, or the file, that keeps amdgpu from being loaded.
fn blacklisted(kernel: &dyn Kernel) -> Option<heapless::String<64>> {
    const WORDS: [&[u8]; 4] =
        [b"nomodeset", b"modprobe.blacklist=", b"module_blacklist=", b"rd.driver.blacklist="];
    const DIRECTORY: &str = "/etc/modprobe.d";
    let names = |text: &[u8]| text.windows(6).any(|part| part == b"amdgpu");
    let mut buffer = [0; 4096];
    let count = kernel.read("/proc/cmdline", &mut buffer).unwrap_or(0);
    for word in buffer[..count].split(u8::is_ascii_whitespace) {
        if word == WORDS[0] || names(word) && WORDS.iter().any(|start| word.starts_with(start)) {
            return Some(
                word.iter()
                    .filter(|byte| byte.is_ascii_graphic())
                    .take(64)
                    .map(|&byte| char::from(byte))
                    .collect(),
            );
        }
    }
    let mut found = None;
    let _ = kernel.list(DIRECTORY, &mut |name| {
        let mut path = heapless::String::<64>::new();
        let is_read = name.ends_with(".conf") && write!(path, "{DIRECTORY}/{name}").is_ok();
        let count = if is_read { kernel.read(&path, &mut buffer).unwrap_or(0) } else { 0 };
        let mut lines = buffer[..count].split(|&byte| byte == b'\n');
        if lines.any(|line| line.trim_ascii_start().starts_with(b"blacklist") && names(line)) {
            found = Some(path);
        }
    });
    found
}

/// Cards that KFD has no node for.
fn unused_cards(cards: &[Card], nodes: &[PciAddress], result: &mut Examination) -> Result<(), OutOfMemory> {
    for card in cards.iter().filter(|card| !nodes.contains(&card.pci)) {
        let finding =
            if card.is_running { Finding::NoNode(card.pci) } else { Finding::NotInitialized(card.pci) };
        result.add(finding)?;
    }
    Ok(())
}

fn check(
    kernel: &dyn Kernel,
    kfd: &Fd,
    topology: Option<&Topology>,
    cards: &[Card],
    seen: ExamineInputs<'_>,
    result: &mut Examination,
) -> Result<(), OutOfMemory> {
    let mut arg = GetVersion::default();
    if let Err(errno) = call(kernel, kfd, &mut arg) {
        return result.add(Finding::Call("GET_VERSION", errno));
    }
    let version = Version { major: arg.major_version, minor: arg.minor_version };
    result.version = Some(version);
    if version.major != 1 || version.minor < MINIMUM_MINOR {
        return result.add(Finding::TooOld { version, minor: MINIMUM_MINOR });
    }
    parameters(kernel, result)?;
    let mut nodes = Vec::new();
    for node in topology.iter().flat_map(|topology| topology.gpus()) {
        push(&mut nodes, node.identity().pci)?;
        device(kernel, node, version, seen, result)?;
    }
    let denied = topology.map_or(&[][..], |topology| &topology.denied);
    for &index in denied {
        result.add(Finding::Hidden(index))?;
    }
    if denied.is_empty() {
        unused_cards(cards, &nodes, result)?;
    }
    if nodes.is_empty() && denied.is_empty() && cards.is_empty() {
        return result.add(Finding::NoGpu);
    }
    if !version.has_event_age() && !nodes.is_empty() {
        result.add(Finding::Degraded(version))?;
    }
    Ok(())
}

/// Parameters that change how compute works, with their defaults.
const PARAMETERS: &[(&str, &str, i64)] = &[
    ("sched_policy", "/sys/module/amdgpu/parameters/sched_policy", 0),
    ("cwsr_enable", "/sys/module/amdgpu/parameters/cwsr_enable", 1),
    ("noretry", "/sys/module/amdgpu/parameters/noretry", -1),
];

fn parameters(kernel: &dyn Kernel, result: &mut Examination) -> Result<(), OutOfMemory> {
    for &(name, path, default) in PARAMETERS {
        let mut buffer = [0; 16];
        let count = kernel.read(path, &mut buffer).unwrap_or(0);
        let value = core::str::from_utf8(&buffer[..count]).ok().and_then(|text| text.trim().parse().ok());
        if let Some(value) = value.filter(|&value: &i64| value != default) {
            result.add(Finding::Parameter(name, value))?;
        }
    }
    Ok(())
}

/// The first minor version recommended for a chip: gfx115x needs the save-area fix of 6.12 stable, gfx12 is known
/// from 6.12 on.
fn recommended(isa: Isa) -> u32 {
    match (isa.major(), isa.minor()) {
        (11, 5..) | (12.., _) => 17,
        _ => 14,
    }
}

/// MES firmware versions that hang under load, by chip.
const BAD_SCHEDULERS: &[(Isa, u32)] =
    &[(Isa::GFX1103, 0x83), (Isa::GFX1150, 0x83), (Isa::GFX1151, 0x83), (Isa(110_502), 0x83)];

fn device(
    kernel: &dyn Kernel,
    node: &Node,
    version: Version,
    seen: ExamineInputs<'_>,
    result: &mut Examination,
) -> Result<(), OutOfMemory> {
    let isa = node.isa();
    if node.doorbell_type() != 2 {
        return result.add(Finding::Doorbells(node.index));
    }
    let kernels = (seen.kernel_support)(isa);
    match kernels {
        KernelSupport::None => result.add(Finding::NoKernels(isa))?,
        KernelSupport::Relative(other) => result.add(Finding::Relative(isa, other))?,
        KernelSupport::Own => {}
    }
    let minor = recommended(isa);
    if version.minor < minor && version.has_event_age() {
        result.add(Finding::OldForChip { isa, version, minor })?;
    }
    let Some(render_minor) = node.render_minor() else {
        return result.add(Finding::RenderFailed(0, Errno::ENODEV));
    };
    let mut path = heapless::String::<40>::new();
    let _ = write!(path, "/dev/dri/renderD{render_minor}");
    let render = match kernel.open(&path) {
        Ok(render) => render,
        Err(Errno::EACCES) => {
            let identity = Identity::read(kernel);
            let finding = match Access::read(kernel, &identity, &path) {
                Some(access) => Finding::NotPermitted { access, in_container: identity.is_container },
                None => Finding::RenderFailed(render_minor, Errno::EACCES),
            };
            return result.add(finding);
        }
        Err(errno) => return result.add(Finding::RenderFailed(render_minor, errno)),
    };
    let info = DeviceInfo::query(kernel, &render).ok();
    let facts = MemoryFacts::read(kernel, node, Some(&render));
    let scheduler = scheduler_firmware(kernel, &render).ok();
    kernel.close(render);
    if let Some(mes) = scheduler.filter(|&mes| mes != 0).or_else(|| scheduler_version(kernel, node))
        && BAD_SCHEDULERS.contains(&(isa, mes & 0xfff))
    {
        result.add(Finding::BadScheduler(node.index, mes & 0xfff))?;
    }
    let kind = GpuKind::of(isa, info.as_ref());
    let budget = facts.budget(kind, version.minor);
    let bytes = budget.first.bytes();
    if !node.is_vram_mappable() {
        result.add(Finding::SmallBar(node.index))?;
    }
    if let Some(wanted) = seen.model_bytes.filter(|&wanted| wanted > bytes) {
        result.add(Finding::TooSmall { wanted, budget: budget.clone() })?;
    }
    push(&mut result.budgets, budget)?;
    push(
        &mut result.devices,
        Candidate { gpu_id: node.gpu_id, isa, kernels, kind, bytes, identity: node.identity() },
    )
}

/// `MES feature version: .., firmware version: 0x..` of debugfs, which only root reads, for kernels whose render
/// node does not report it.
fn scheduler_version(kernel: &dyn Kernel, node: &Node) -> Option<u32> {
    let mut path = heapless::String::<64>::new();
    fmt::write(
        &mut path,
        format_args!("/sys/kernel/debug/dri/{}/amdgpu_firmware_info", node.render_minor()?),
    )
    .ok()?;
    let mut buffer = [0; 8192];
    let count = kernel.read(&path, &mut buffer).ok()?;
    let line = buffer[..count].split(|&byte| byte == b'\n').find(|line| line.starts_with(b"MES feature"))?;
    let at = line.windows(2).position(|pair| pair == b"0x")?;
    let digits = &line[at + 2..];
    let len = digits.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
    hexadecimal(&digits[..len])
}
