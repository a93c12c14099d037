//! Circles of files: inside a crate no file may import another one that imports it, not even through a chain.
//!
//! Only `use` declarations count. Paths that are written out in code, and unit tests, are not looked at. Two figures are
//! made of them, see [`Rule`]: circles by written paths, and circles through re-exports.

mod components;
mod modules;
mod uses;

use super::crates;
use crate::process::root;
use anyhow::bail;
use core::fmt::Write as _;
use modules::{Import, Modules, Rule};
use std::fs;

/// Crates that still have circles: how many files stand in one by written paths, and how many through re-exports. The
/// numbers may only fall.
const LEFT: [(&str, usize, usize); 0] = [];

pub(super) fn run() -> Result<(), anyhow::Error> {
    let mut faults = String::new();
    for member in crates::members()? {
        let folder = root().join(&member.folder).join("src");
        let Some(start) = ["lib.rs", "main.rs"].into_iter().find(|name| folder.join(name).exists()) else {
            continue;
        };
        let modules = Modules::read(start, &|path| fs::read_to_string(folder.join(path)).ok());
        let left = LEFT.iter().find(|(name, ..)| *name == member.name);
        let (written, defined) = left.map_or((0, 0), |(_, written, defined)| (*written, *defined));
        for (rule, allowed) in [(Rule::Written, written), (Rule::Defined, defined)] {
            judge(&mut faults, &member, &modules, rule, allowed);
        }
    }
    if !faults.is_empty() {
        bail!("files that import each other\n{}", faults.trim_end());
    }
    Ok(())
}

/// Prints the circles of a crate, and adds them to the faults if more files than allowed stand in one.
fn judge(faults: &mut String, member: &crates::Member, modules: &Modules, rule: Rule, allowed: usize) {
    let imports = modules.imports(rule);
    let edges: Vec<_> = imports.iter().map(|import| (import.from, import.to)).collect();
    let circles = components::circles(modules.files().len(), &edges);
    let files: usize = circles.iter().map(Vec::len).sum();
    let way = match rule {
        Rule::Written => "by written paths",
        Rule::Defined => "through re-exports",
    };
    eprintln!("{}: {} circles {way} ({files} files)", member.name, circles.len());
    if files > allowed {
        _ = writeln!(faults, "{}: {files} files stand in circles {way}, at most {allowed} may", member.name);
        for circle in &circles {
            describe(faults, &member.folder, modules, &imports, circle);
        }
    }
}

/// Writes the files of a circle and the names that tie them.
fn describe(text: &mut String, folder: &str, modules: &Modules, imports: &[Import], circle: &[usize]) {
    let path = |file: &usize| format!("{folder}/src/{}", modules.files()[*file]);
    _ = writeln!(text, "a circle of {} files:", circle.len());
    for from in circle {
        for to in circle {
            let names: Vec<&str> = imports
                .iter()
                .filter(|import| import.from == *from && import.to == *to)
                .map(|import| import.name.as_str())
                .collect();
            if !names.is_empty() {
                _ = writeln!(text, "  {} -> {}: {}", path(from), path(to), names.join(", "));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The circles of a crate whose files are given.
    fn circles(rule: Rule, files: &[(&str, &str)]) -> Vec<Vec<String>> {
        let read = |path: &str| files.iter().find(|file| file.0 == path).map(|file| file.1.to_string());
        let modules = Modules::read("lib.rs", &read);
        let edges: Vec<_> = modules.imports(rule).iter().map(|import| (import.from, import.to)).collect();
        let circles = components::circles(modules.files().len(), &edges);
        let name = |file: &usize| modules.files()[*file].clone();
        circles.iter().map(|circle| circle.iter().map(name).collect()).collect()
    }

    #[test]
    fn files_that_import_each_other_are_a_circle() {
        let found = circles(
            Rule::Written,
            &[
                ("lib.rs", "mod a; mod b; mod c;"),
                ("a.rs", "use crate::b::{B, other as _};\npub struct A;"),
                ("b.rs", "use super::a::A;\npub struct B; pub fn other() {}"),
                ("c.rs", "use crate::{a::A, b::B};"),
            ],
        );
        assert_eq!(found, [["a.rs", "b.rs"]]);
    }

    #[test]
    fn chains_and_reexports_are_followed() {
        let files = [
            ("lib.rs", "pub mod a; mod b;"),
            ("a/mod.rs", "mod x;\nmod y;\npub use x::X;\npub(crate) use self::y::*;"),
            ("a/x.rs", "use crate::b::B;\npub struct X;"),
            ("a/y.rs", "use super::X;\npub struct Y;"),
            ("b.rs", "use crate::a::Y;\npub enum B { C }"),
        ];
        assert_eq!(circles(Rule::Defined, &files), [["a/x.rs", "a/y.rs", "b.rs"]]);
        assert_eq!(circles(Rule::Written, &files), Vec::<Vec<String>>::new());
    }

    #[test]
    fn a_parent_and_its_child_are_a_circle_through_definitions() {
        let files = [
            ("lib.rs", "mod a;"),
            ("a.rs", "mod b;\nuse b::B;\npub struct A;"),
            ("a/b.rs", "use super::A;\npub struct B;"),
        ];
        assert_eq!(circles(Rule::Defined, &files), [["a.rs", "a/b.rs"]]);
        assert_eq!(circles(Rule::Written, &files), Vec::<Vec<String>>::new());
    }

    #[test]
    fn a_module_that_is_imported_whole_is_followed_to_what_is_used_of_it() {
        let found = circles(
            Rule::Defined,
            &[
                ("lib.rs", "mod a; mod b;"),
                ("a.rs", "use crate::b;\npub struct A; fn f() { b::make() }"),
                ("b/mod.rs", "mod c;\npub use c::make;"),
                ("b/c.rs", "use crate::a::A;\npub fn make() {}"),
            ],
        );
        assert_eq!(found, [["a.rs", "b/c.rs"]]);
    }

    #[test]
    fn tests_comments_texts_and_paths_in_code_do_not_count() {
        let found = circles(
            Rule::Written,
            &[
                ("lib.rs", "mod a; mod b;"),
                ("a.rs", "use crate::b::B;\npub struct A;"),
                (
                    "b.rs",
                    "// use crate::a::A;\npub struct B;\nconst S: &str = \"; use crate::a::A;\";\n\
                 fn f<'a>(x: &'a str) -> crate::a::A { let quote = '\"'; todo }\n\
                 #[cfg(test)]\nmod tests { use crate::a::A; }\n",
                ),
            ],
        );
        assert_eq!(found, Vec::<Vec<String>>::new());
    }
}
