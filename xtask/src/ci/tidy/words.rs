//! Names and openings that this code base has given up, each with its replacement.

use super::Entry;
use crate::ci::tokens::tokens;

/// Words that no identifier may have among its parts: metaphors, and words with several meanings.
#[rustfmt::skip]
const WORDS: [(&str, &str); 13] = [
    ("doorman", "acceptor"),
    ("linger", "lingering_close"),
    ("sip", "DRAIN_CHUNK"),
    ("breath", "pause"),
    ("glance", "the verb of what is read"),
    ("errand", "engine task"),
    ("seat", "slot, admit"),
    ("vacate", "preempt, release"),
    ("told", "reported"),
    ("board", "shared state"),
    ("wish", "request kind"),
    ("place", "slot, position, index, location"),
    ("places", "slots, positions, locations"),
];

/// Names of types, functions and modules, by the folder in which they may not be used.
#[rustfmt::skip]
const NAMES: [(&str, &str, &str); 39] = [
    ("core/src/", "Masks", "TokenConstraints"),
    ("core/src/", "Reading", "PoolingRequest"),
    ("core/src/", "ReadingPlans", "PoolingPlans"),
    ("core/src/", "Breakers", "DryBreakers"),
    ("core/src/", "Pool", "BlockPool"),
    ("core/src/", "admit", "admission"),
    ("core/src/", "attend", "attention"),
    ("hosts/", "Visit", "RunTask"),
    ("hosts/", "Errand", "EngineTask"),
    ("hosts/", "Board", "SharedState"),
    ("hosts/", "Wish", "RequestKind"),
    ("hosts/", "Door", "Acceptor"),
    ("hosts/", "Manner", "ConnectionConfig"),
    ("hosts/", "let_in", "authorize"),
    ("hosts/", "Facts", "ModelInfo"),
    ("hosts/server/", "Order", "GenerationRequest"),
    ("hosts/server/", "Part", "Event"),
    ("hosts/server/", "Prompted", "PromptProgress"),
    ("hosts/runtime/", "Compute", "DeviceArgs"),
    ("hosts/runtime/", "Computer", "ResolvedDevice"),
    ("hosts/runtime/", "Computing", "AnyBackend"),
    ("hosts/runtime/", "rehearsal", "op_profile"),
    ("hosts/runtime/", "verdicts", "kernel_check_cache"),
    ("hosts/runtime/", "notices", "gpu_events"),
    ("hosts/runtime/", "offload", "cpu_fallback"),
    ("drivers/gpu/src/", "Card", "GpuDevice"),
    ("drivers/gpu/src/", "card", "device"),
    ("drivers/gpu/src/", "known", "kernel_check"),
    ("drivers/gpu/src/", "listed", "pm4_check"),
    ("drivers/gpu/src/", "room", "memory"),
    ("drivers/cpu/src/", "alone", "single_thread"),
    ("drivers/cpu/src/", "panel", "activations"),
    ("drivers/cpu/src/", "Strange", "GenericFormat"),
    ("drivers/cpu/src/", "mixture", "moe"),
    ("kernels/library/src/", "nowhere", "dry_run"),
    ("kernels/library/src/", "Bend", "GluSpec"),
    ("kernels/library/src/", "Recipe", "KernelSpec"),
    ("kernels/library/src/", "idiom", "builder_ext"),
    ("kernels/compiler/src/", "tickets", "outstanding"),
];

/// Faults of all files, as lines of a report.
pub(super) fn faults(entries: &[Entry]) -> Vec<String> {
    let rules: [Rule; 3] = [words, names, openings];
    let rust = entries.iter().filter(|entry| entry.path.ends_with(".rs"));
    let found = rust.flat_map(|entry| {
        let faults = rules.into_iter().flat_map(|rule| rule(entry));
        faults.map(|(line, fault)| format!("{}:{line}: {fault}", entry.path))
    });
    found.collect()
}

/// Lines and faults of one file.
type Rule = fn(&Entry) -> Vec<(usize, String)>;

/// The parts of an identifier in lower case: `OldPlace` and `old_place` give "old" and "place".
fn parts(identifier: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut before = '_';
    for letter in identifier.chars() {
        if letter == '_' || (letter.is_uppercase() && before.is_lowercase()) {
            parts.push(String::new());
        }
        if letter != '_'
            && let Some(part) = parts.last_mut()
        {
            part.extend(letter.to_lowercase());
        }
        before = letter;
    }
    parts
}

fn words(entry: &Entry) -> Vec<(usize, String)> {
    let mut faults = Vec::new();
    for token in tokens(&entry.text) {
        // "In place" is the usual word for work without a second buffer.
        let identifier = token.text.replace("in_place", "");
        for part in parts(&identifier) {
            if let Some((word, instead)) = WORDS.iter().find(|(word, _)| *word == part) {
                faults.push((token.line, format!("{}: {word} is now {instead}", token.text)));
            }
        }
    }
    faults
}

fn names(entry: &Entry) -> Vec<(usize, String)> {
    let banned: Vec<_> = NAMES.iter().filter(|(folder, ..)| entry.path.starts_with(folder)).collect();
    if banned.is_empty() {
        return Vec::new();
    }
    let found = tokens(&entry.text).into_iter().filter_map(|token| {
        let (_, name, instead) = banned.iter().find(|(_, name, _)| *name == token.text)?;
        Some((token.line, format!("{name} is now {instead}")))
    });
    found.collect()
}

/// First lines of doc comments.
fn openings(entry: &Entry) -> Vec<(usize, String)> {
    let mut inside = false;
    let mut faults = Vec::new();
    for (index, line) in entry.text.lines().enumerate() {
        let text = line.trim_start();
        let doc = text.strip_prefix("/// ").or_else(|| text.strip_prefix("//! "));
        let opens =
            doc.filter(|doc| !inside && ["Whether ", "What "].iter().any(|word| doc.starts_with(word)));
        if opens.is_some() {
            faults.push((
                index + 1,
                "a doc comment is a statement: \"True if ...\", \"Bytes that ...\"".into(),
            ));
        }
        inside = text.starts_with("///") || text.starts_with("//!");
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::super::check;
    use super::*;

    #[test]
    fn each_rule_finds_its_fault_and_nothing_else() {
        check(words, "a.rs", "fn find_place() { /* place */ \"place\"; sort_in_place(); replace() }", 1);
        check(words, "a.rs", "struct OldSeat; const PLACE: u8 = 0;", 2);
        check(names, "core/src/a.rs", "struct Masks;", 1);
        check(names, "drivers/cpu/src/a.rs", "struct Masks;", 0);
        check(openings, "a.rs", "/// Whether it is so.\n/// What it is.\nfn f() {}\n    //! What a.\n", 2);
        check(openings, "a.rs", "/// True if so.\n/// Whether or not.\n// What else\n", 0);
    }
}
