//! The hardware: the KFD topology in sysfs, the answers of render nodes, memory and its limits.
//!
//! Reading only: nothing here opens `/dev/kfd` or changes anything.

mod budget;
mod choice;
pub mod dev_info;
mod isa;
mod node;
mod properties;
mod scan;

pub use budget::{Budget, Limit, MemoryDomain, MemoryFacts, MemoryPool, Rule};
pub use choice::{Candidate, Choice, KernelSupport, Skipped, choose};
pub use dev_info::{DeviceInfo, MemoryInfo};
pub use isa::{Generation, Isa};
pub use node::{Bank, Cache, GpuKind, Heap, Identity, Link, LinkKind, Node, NodeIndex, PciAddress};
pub use properties::{Properties, Property};
pub use scan::{ROOT, Topology, TopologyError};
