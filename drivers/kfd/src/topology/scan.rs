//! Reads the KFD topology from sysfs. What follows from it is in the other files.
//!
//! Source: `amdkfd/kfd_topology.c` (`kfd_build_sysfs_node_entry`, `node_show`, `mem_show`, `kfd_cache_show`,
//! `iolink_show`). Reading a node is `EPERM` when the device cgroup denies its render node.

use super::node::{Bank, Cache, Heap, Link, LinkKind, Node, NodeIndex};
use super::properties::{Properties, field, number};
use crate::heap::{OutOfMemory, push};
use crate::sys::{Errno, Kernel};
use alloc::vec::Vec;
use core::fmt::{self, Write};

/// The folder of the topology.
pub const ROOT: &str = "/sys/class/kfd/kfd/topology";

/// Each `show` function returns at most a page.
const FILE: usize = 4096;

/// Changes of the topology while it is read before giving up.
const ATTEMPTS: u32 = 8;

/// Why the topology could not be read.
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TopologyError {
    /// There is no KFD topology, with the reason of the failed read.
    Absent(Errno),
    /// It changed each time while being read.
    Unstable,
    /// No host memory for its tables.
    OutOfMemory,
}

impl From<OutOfMemory> for TopologyError {
    fn from(_: OutOfMemory) -> Self {
        Self::OutOfMemory
    }
}

impl fmt::Display for TopologyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Absent(errno) => write!(f, "no KFD topology at {ROOT}: {errno}; is amdgpu loaded?"),
            Self::Unstable => f.write_str("the KFD topology keeps changing while it is read; try again"),
            Self::OutOfMemory => write!(f, "{OutOfMemory}"),
        }
    }
}

impl core::error::Error for TopologyError {}

/// All nodes in numeric order.
#[derive(Clone, Debug)]
pub struct Topology {
    /// Changes with every hot-plug.
    pub generation: u64,
    /// The nodes that could be read.
    pub nodes: Vec<Node>,
    /// Nodes that the device cgroup hides.
    pub denied: Vec<NodeIndex>,
}

type Path = heapless::String<160>;

/// Formats a path; one that does not fit is cut and will not be found.
fn path(args: fmt::Arguments<'_>) -> Path {
    let mut path = Path::new();
    let _ = path.write_fmt(args);
    path
}

impl Topology {
    /// Reads the topology, again when it changed meanwhile.
    pub fn scan(kernel: &(impl Kernel + ?Sized)) -> Result<Self, TopologyError> {
        for _ in 0..ATTEMPTS {
            let generation = generation(kernel).map_err(TopologyError::Absent)?;
            let topology = Self::read(kernel, generation)?;
            if self::generation(kernel).map_err(TopologyError::Absent)? == generation {
                return Ok(topology);
            }
        }
        Err(TopologyError::Unstable)
    }

    fn read(kernel: &(impl Kernel + ?Sized), generation: u64) -> Result<Self, TopologyError> {
        let mut topology = Self { generation, nodes: Vec::new(), denied: Vec::new() };
        for index in numbered(kernel, format_args!("{ROOT}/nodes"))? {
            let index = NodeIndex(index);
            match read_node(kernel, index)? {
                Some(node) => push(&mut topology.nodes, node)?,
                None => push(&mut topology.denied, index)?,
            }
        }
        Ok(topology)
    }

    /// The GPUs that can be opened, in the order of [`crate::process::DeviceIndex`]: with 64-bit doorbells and a
    /// render node.
    pub fn devices(&self) -> impl Iterator<Item = &Node> {
        self.gpus().filter(|node| node.doorbell_type() == 2 && node.render_minor().is_some())
    }

    /// The nodes that are GPUs.
    pub fn gpus(&self) -> impl Iterator<Item = &Node> {
        self.nodes.iter().filter(|node| node.is_gpu())
    }
}

fn generation(kernel: &(impl Kernel + ?Sized)) -> Result<u64, Errno> {
    let mut buffer = [0; 32];
    let count = kernel.read(&path(format_args!("{ROOT}/generation_id")), &mut buffer)?;
    Ok(number(&buffer[..count]).unwrap_or(0))
}

/// The numeric names in a directory, ascending; none when the directory is not there.
fn numbered(kernel: &(impl Kernel + ?Sized), directory: fmt::Arguments<'_>) -> Result<Vec<u32>, OutOfMemory> {
    let mut numbers = Vec::new();
    let mut result = Ok(());
    let _ = kernel.list(&path(directory), &mut |name| {
        if let Ok(number) = name.parse() {
            result = result.and_then(|()| push(&mut numbers, number));
        }
    });
    result?;
    numbers.sort_unstable();
    Ok(numbers)
}

/// `None` when the cgroup hides the node. A file that is gone (hot-plug) reads as empty; the generation number then
/// changes.
fn read_node(kernel: &(impl Kernel + ?Sized), index: NodeIndex) -> Result<Option<Node>, OutOfMemory> {
    let mut buffer = [0; FILE];
    let mut denied = false;
    let mut read = |name: &str, buffer: &mut [u8]| {
        let result = kernel.read(&path(format_args!("{ROOT}/nodes/{}/{name}", index.0)), buffer);
        denied |= result == Err(Errno::EPERM);
        result.unwrap_or(0)
    };
    let count = read("gpu_id", &mut buffer);
    let gpu_id = number(&buffer[..count]).and_then(|id| u32::try_from(id).ok()).unwrap_or(0);
    let count = read("name", &mut buffer);
    let printable = buffer[..count].iter().filter(|byte| byte.is_ascii_graphic() || **byte == b' ');
    let name = printable.take(32).map(|&byte| char::from(byte)).collect();
    let count = read("properties", &mut buffer);
    let properties = Properties::parse(&buffer[..count]);
    if denied {
        return Ok(None);
    }
    let banks = read_banks(kernel, index)?;
    let caches = read_caches(kernel, index)?;
    let links = read_links(kernel, index)?;
    Ok(Some(Node { index, gpu_id, name, properties, banks, caches, links }))
}

/// Calls `each` with the text of every `<node>/<kind>/<i>/properties`.
fn each_entry(
    kernel: &(impl Kernel + ?Sized),
    index: NodeIndex,
    kind: &str,
    mut each: impl FnMut(&[u8]) -> Result<(), OutOfMemory>,
) -> Result<(), OutOfMemory> {
    let mut buffer = [0; FILE];
    for entry in numbered(kernel, format_args!("{ROOT}/nodes/{}/{kind}", index.0))? {
        let file = path(format_args!("{ROOT}/nodes/{}/{kind}/{entry}/properties", index.0));
        if let Ok(count) = kernel.read(&file, &mut buffer) {
            each(&buffer[..count])?;
        }
    }
    Ok(())
}

fn small(text: &[u8], name: &str) -> u32 {
    field(text, name).and_then(|value| u32::try_from(value).ok()).unwrap_or(0)
}

fn read_banks(kernel: &(impl Kernel + ?Sized), index: NodeIndex) -> Result<Vec<Bank>, OutOfMemory> {
    let mut banks = Vec::new();
    each_entry(kernel, index, "mem_banks", |text| {
        let heap = match small(text, "heap_type") {
            0 => Heap::System,
            1 => Heap::Public,
            2 => Heap::Private,
            other => Heap::Other(other),
        };
        let bytes = field(text, "size_in_bytes").unwrap_or(0);
        let bank = Bank { heap, bytes, width: small(text, "width"), clock: small(text, "mem_clk_max") };
        push(&mut banks, bank)
    })?;
    Ok(banks)
}

fn read_caches(kernel: &(impl Kernel + ?Sized), index: NodeIndex) -> Result<Vec<Cache>, OutOfMemory> {
    let mut caches = Vec::new();
    each_entry(kernel, index, "caches", |text| {
        let cache = Cache {
            level: small(text, "level"),
            kib: small(text, "size"),
            line: small(text, "cache_line_size"),
            kind: small(text, "type"),
        };
        if caches.contains(&cache) { Ok(()) } else { push(&mut caches, cache) }
    })?;
    Ok(caches)
}

fn read_links(kernel: &(impl Kernel + ?Sized), index: NodeIndex) -> Result<Vec<Link>, OutOfMemory> {
    let mut links = Vec::new();
    for (directory, peer) in [("io_links", false), ("p2p_links", true)] {
        each_entry(kernel, index, directory, |text| {
            let kind = match small(text, "type") {
                2 => LinkKind::Pcie,
                11 => LinkKind::Xgmi,
                other => LinkKind::Other(other),
            };
            let to = NodeIndex(small(text, "node_to"));
            push(&mut links, Link { to, kind, flags: small(text, "flags"), peer })
        })?;
    }
    Ok(links)
}
