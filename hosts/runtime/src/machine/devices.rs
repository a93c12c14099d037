//! The list of devices: GPUs, software GPUs, the host's processor; as text and as JSON.

use super::read::Machine;
use super::size::Size;
use core::fmt;
use doorbell_kfd::doctor::Finding;
use doorbell_kfd::topology::{Budget, Candidate, KernelSupport, Node};
use doorbell_soft::kernel::CHIPS;
use serde_json::{Map, Value as Json, json};

/// One device, under its name for `--device`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceDescription {
    /// `kfd:0`, `soft:gfx1100`, `cpu`.
    pub name: String,
    /// Its instruction set.
    pub isa: String,
    /// Its compute units or threads.
    pub compute: String,
    /// Its memory, as text.
    pub memory: String,
    /// Its PCI address and the id that stays the same across boots; empty for software GPUs and the CPU.
    pub identity: String,
    /// True for the device that `auto` chooses.
    pub is_preferred: bool,
    /// True for software GPUs.
    pub is_software: bool,
    json: Map<String, Json>,
}

/// All devices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceList {
    list: Vec<DeviceDescription>,
    /// Reason for the preferred GPU, or for there being none.
    reason: String,
    /// True to print software GPUs, too.
    whole: bool,
}

fn object(json: Json) -> Map<String, Json> {
    match json {
        Json::Object(map) => map,
        _ => Map::new(),
    }
}

impl Machine {
    /// All devices.
    #[must_use]
    pub fn devices(&self) -> DeviceList {
        DeviceList::new(self)
    }
}

impl DeviceList {
    fn new(machine: &Machine) -> Self {
        let mut list = gpus(machine);
        list.push(processor(machine));
        list.extend(software());
        let reason = match (&machine.choice, machine.examination.findings.first()) {
            (Some(choice), _) => format!("* {choice}"),
            (None, Some(finding @ Finding::NoGpu)) => format!("* {finding}, so the CPU runs models"),
            (None, Some(finding)) => format!("* {finding}; `doorbell doctor` shows details"),
            (None, None) => "* no GPU can be used; `doorbell doctor` shows details".into(),
        };
        Self { list, reason, whole: false }
    }

    /// The list with software GPUs in its text.
    #[must_use]
    pub fn whole(self) -> Self {
        Self { whole: true, ..self }
    }

    /// The devices: GPUs, the CPU, software GPUs.
    #[must_use]
    pub fn list(&self) -> &[DeviceDescription] {
        &self.list
    }

    /// One document: `devices`, `reason`.
    #[must_use]
    pub fn json(&self) -> Json {
        let devices: Vec<Json> = self.list.iter().map(|device| Json::Object(device.json.clone())).collect();
        json!({ "devices": devices, "reason": self.reason })
    }
}

impl fmt::Display for DeviceList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:<16}{:<9}{:<26}{:<49}LOCATION", "DEVICE", "ISA", "COMPUTES WITH", "MEMORY")?;
        for device in self.list.iter().filter(|device| self.whole || !device.is_software) {
            let DeviceDescription { name, isa, compute, memory, identity, is_preferred, .. } = device;
            let mark = if *is_preferred { " *" } else { "" };
            let line = format!("{:<16}{isa:<9}{compute:<26}{memory:<49}{identity}", format!("{name}{mark}"));
            writeln!(f, "{}", line.trim_end())?;
        }
        writeln!(f, "\n{}", self.reason)
    }
}

/// GPUs that can be opened, numbered as `--device kfd:N` numbers them.
fn gpus(machine: &Machine) -> Vec<DeviceDescription> {
    let examination = &machine.examination;
    let nodes = examination.topology.iter().flat_map(|topology| topology.devices());
    let found = |node: &Node| {
        let at = examination.devices.iter().position(|candidate| candidate.gpu_id == node.gpu_id)?;
        Some((examination.devices.get(at)?, examination.budgets.get(at)?))
    };
    nodes
        .filter_map(|node| found(node).map(|(candidate, budget)| gpu(machine, node, candidate, budget)))
        .collect()
}

fn gpu(machine: &Machine, node: &Node, candidate: &Candidate, budget: &Budget) -> DeviceDescription {
    let Candidate { isa, kernels, kind, identity, .. } = *candidate;
    let is_preferred = machine.choice.is_some_and(|choice| choice.device == *candidate);
    let limit = budget.first.decisive();
    let (kernels_of, runs) = match kernels {
        KernelSupport::Own => (Some(isa), String::new()),
        KernelSupport::Relative(other) => (Some(other), format!(", code of {other}")),
        KernelSupport::None => (None, ", no kernels".into()),
    };
    let name = machine.name(node.gpu_id);
    let units = node.compute_units();
    let json = object(json!({
        "name": name,
        "kind": kind.to_string(),
        "isa": isa.to_string(),
        "kernels_of": kernels_of.map(|isa| isa.to_string()),
        "compute_units": units,
        "memory_bytes": limit.bytes,
        "memory_placement": budget.first.domain.to_string(),
        "memory_rule": limit.rule.to_string(),
        "pci": identity.pci.to_string(),
        "unique_id": (identity.unique != 0).then(|| format!("{:016x}", identity.unique)),
        "render_node": node.render_minor().map(|minor| format!("/dev/dri/renderD{minor}")),
        "preferred": is_preferred,
    }));
    DeviceDescription {
        name,
        isa: isa.to_string(),
        compute: format!("{units} compute units{runs}"),
        memory: format!("{} {}", Size(limit.bytes), budget.first.domain),
        identity: identity.to_string(),
        is_preferred,
        is_software: false,
        json,
    }
}

/// The software GPUs, one of each instruction set.
fn software() -> Vec<DeviceDescription> {
    let mut names: Vec<&str> = CHIPS.iter().map(|chip| chip.target.name()).collect();
    names.dedup();
    let describe = |isa: &str| DeviceDescription {
        name: format!("soft:{isa}"),
        isa: isa.to_owned(),
        compute: "software, for tests".into(),
        memory: "system memory".into(),
        identity: String::new(),
        is_preferred: false,
        is_software: true,
        json: object(json!({ "name": format!("soft:{isa}"), "kind": "software", "isa": isa })),
    };
    names.into_iter().map(describe).collect()
}

fn processor(machine: &Machine) -> DeviceDescription {
    let host = &machine.host;
    let isa = if cfg!(target_arch = "x86_64") { "x86-64" } else { std::env::consts::ARCH };
    let memory = host.memory.map(|memory| memory.available);
    DeviceDescription {
        name: "cpu".into(),
        isa: isa.into(),
        compute: format!("{} threads, {}", host.threads, host.extensions),
        memory: memory.map_or_else(|| "unknown".into(), |bytes| format!("{} available", Size(bytes))),
        identity: String::new(),
        is_preferred: machine.choice.is_none(),
        is_software: false,
        json: object(json!({
            "name": "cpu",
            "kind": "cpu",
            "isa": isa,
            "threads": host.threads,
            "extensions": host.extensions,
            "memory_bytes": memory,
        })),
    }
}
