//! The lines that `doorbell serve` begins with: the model, where it runs, and who can reach it.

use crate::output::size;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use doorbell_core::plan::PAGE_TOKENS;
use doorbell_core::scheduler::Config;
use doorbell_server::ModelHandle;

/// Facts of a server before it listens.
pub(crate) struct Banner {
    lines: Vec<(&'static str, String)>,
    keys: usize,
}

impl Banner {
    /// The banner of a model whose engine takes `buffers` bytes besides the weights, for clients with one of `keys` keys.
    pub(crate) fn new(model: &ModelHandle, config: &Config, buffers: u64, keys: usize) -> Self {
        let info = &model.info;
        let weights = format!(
            "{} ({}, {}, {:.1} billion weights, {})",
            model.name,
            info.architecture,
            info.quantization,
            info.parameters as f64 / 1e9,
            size(info.bytes)
        );
        let mut context =
            format!("{} tokens a request, {} requests at a time", config.context, config.sequences);
        let shared = u64::from(config.pages) * PAGE_TOKENS as u64;
        if config.pages < config.full_pages() {
            context.push_str(&format!(", which share room for {shared}"));
        }
        let lines = vec![
            ("model", weights),
            ("device", info.device.clone()),
            ("context", context),
            ("memory", format!("{} besides the weights", size(buffers))),
        ];
        Self { lines, keys }
    }

    /// The text, for a server that listens on `address`.
    pub(crate) fn text(&self, address: SocketAddr) -> String {
        let access = match (self.keys, address.ip().is_loopback()) {
            (0, true) => "no key: every program of this machine".to_owned(),
            (0, false) => format!("no key: everybody who reaches {address}"),
            _ => "with a key".to_owned(),
        };
        let lines = self.lines.iter().map(|(name, text)| (*name, text.as_str()));
        let page = format!("http://{}/", host(address));
        let lines = lines.chain([("access", access.as_str()), ("page", page.as_str())]);
        lines.map(|(name, text)| format!("{name:8} {text}")).collect::<Vec<_>>().join("\n")
    }
}

/// The host and port for a browser of this machine.
fn host(address: SocketAddr) -> String {
    match address.ip() {
        IpAddr::V4(Ipv4Addr::UNSPECIFIED) | IpAddr::V6(Ipv6Addr::UNSPECIFIED) => {
            format!("localhost:{}", address.port())
        }
        _ => address.to_string(),
    }
}
