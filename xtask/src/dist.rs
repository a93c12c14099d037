//! `cargo xtask dist`: the program as one static file, for machines with another libc or none.

use crate::process;
use anyhow::ensure;

pub(crate) fn run() -> Result<(), anyhow::Error> {
    let program = process::static_program(&["--package", "doorbell", "--bin", "doorbell"], "doorbell")?;
    let bytes = std::fs::read(&program)?;
    ensure!(!has_interpreter(&bytes), "{} asks for a dynamic linker", program.display());
    println!("{}: {} KiB, needs no library", program.display(), bytes.len() / 1024);
    Ok(())
}

/// True if a 64-bit ELF file names a dynamic linker (program header `PT_INTERP`).
fn has_interpreter(file: &[u8]) -> bool {
    const PT_INTERP: u64 = 3;
    let number = |at: usize, len: usize| {
        let bytes = file.get(at..at + len).unwrap_or_default();
        bytes.iter().rev().fold(0, |number: u64, byte| number << 8 | u64::from(*byte))
    };
    let [start, size, count] = [number(0x20, 8), number(0x36, 2), number(0x38, 2)];
    (0..count).any(|index| number((start + index * size) as usize, 4) == PT_INTERP)
}

#[cfg(test)]
mod tests {
    use super::has_interpreter;

    #[test]
    fn a_dynamic_linker_is_found() {
        // Tests are dynamic programs themselves.
        let own = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        assert!(has_interpreter(&own));
        let mut other = own[..4096].to_vec();
        other[0x38..0x3a].fill(0);
        assert!(!has_interpreter(&other));
    }
}
