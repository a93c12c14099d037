//! Decodes a program's defmt log: `doorbell-nostd-decode PROGRAM < FRAMES` prints a line per message.

use anyhow::Context as _;
use defmt_decoder::{DecodeError, Table};
use std::io::Read as _;

fn main() -> Result<(), anyhow::Error> {
    let program = std::env::args_os().nth(1).context("which program made the frames?")?;
    let table = Table::parse(&std::fs::read(program)?)?.context("the program has no formats")?;
    let mut frames = Vec::new();
    std::io::stdin().lock().read_to_end(&mut frames)?;
    let mut decoder = table.new_stream_decoder();
    decoder.received(&frames);
    loop {
        match decoder.decode() {
            Ok(frame) => {
                let level = frame.level().map_or("", |level| level.as_str());
                println!("{level} {}", frame.display_message());
            }
            Err(DecodeError::UnexpectedEof) => return Ok(()),
            Err(DecodeError::Malformed) => anyhow::bail!("a malformed frame"),
        }
    }
}
