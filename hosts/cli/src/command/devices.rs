//! `doorbell devices`: the devices of this machine.

use crate::failure::{Failure, Kind};
use crate::output::{print, print_json};
use doorbell_runtime::machine::Machine;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// List the software GPUs, too, which are for tests
    #[arg(long)]
    all: bool,
    /// Print one JSON document of all devices: devices, reason
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let machine = Machine::read(None).map_err(|error| Failure::new(Kind::Memory, error))?;
    let devices = machine.devices();
    if arguments.json {
        return print_json(&devices.json());
    }
    let devices = if arguments.all { devices.whole() } else { devices };
    print(devices.to_string())
}
