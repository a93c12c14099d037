//! The modules of one crate and what their `use` declarations resolve to.

use super::uses::{Source, Use};

/// An import: the file that takes, the file that gives, the name.
pub(super) struct Import {
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) name: String,
}

/// One module, which is one file.
struct Module {
    parent: Option<usize>,
    name: String,
    children: Vec<usize>,
    source: Source,
}

/// A crate's modules; numbers are positions in this list and in [`Modules::files`].
pub(super) struct Modules {
    modules: Vec<Module>,
    files: Vec<String>,
}

/// Rule by which imports count and are resolved.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Rule {
    /// To the module that the path names. Names that it re-exports count as its own, and a file may import its child
    /// modules.
    Written,
    /// Through re-exports to the file that defines the name.
    Defined,
}

impl Rule {
    fn counts(self, declared: &Use) -> bool {
        let first = declared.path.first().map(String::as_str);
        let child = !matches!(first, Some("crate" | "self" | "super"));
        !declared.public && (self == Self::Defined || !child)
    }
}

/// Result of following a path.
enum Target {
    /// An item of this file.
    Item(usize),
    /// The module itself.
    Module(usize),
}

impl Modules {
    /// Reads the module tree from its root file. `read` returns a file's text by its path in the source folder.
    pub(super) fn read(root: &str, read: &dyn Fn(&str) -> Option<String>) -> Self {
        let mut all = Self { modules: Vec::new(), files: Vec::new() };
        if let Some(text) = read(root) {
            all.add(None, "crate", root, "", Source::read(&text), read);
        }
        all
    }

    /// Paths of all files in the source folder.
    pub(super) fn files(&self) -> &[String] {
        &self.files
    }

    fn add(
        &mut self,
        parent: Option<usize>,
        name: &str,
        path: &str,
        folder: &str,
        source: Source,
        read: &dyn Fn(&str) -> Option<String>,
    ) -> usize {
        let number = self.modules.len();
        let children = source.modules.clone();
        self.modules.push(Module { parent, name: name.into(), children: Vec::new(), source });
        self.files.push(path.into());
        for child in children {
            let below = format!("{folder}{child}/");
            for path in [format!("{folder}{child}.rs"), format!("{below}mod.rs")] {
                if let Some(text) = read(&path) {
                    let added = self.add(Some(number), &child, &path, &below, Source::read(&text), read);
                    self.modules[number].children.push(added);
                }
            }
        }
        number
    }

    /// The imports between different files.
    pub(super) fn imports(&self, rule: Rule) -> Vec<Import> {
        let mut imports = Vec::new();
        for (from, module) in self.modules.iter().enumerate() {
            for declared in module.source.uses.iter().filter(|declared| rule.counts(declared)) {
                for (to, name) in self.targets(rule, from, declared) {
                    imports.push(Import { from, to, name });
                }
            }
        }
        imports.retain(|import| import.from != import.to);
        imports
    }

    /// The files that a declaration takes names from, with the names.
    fn targets(&self, rule: Rule, from: usize, declared: &Use) -> Vec<(usize, String)> {
        let label = declared.path.last().cloned().unwrap_or_default();
        match self.follow(rule, from, &declared.path, 0) {
            Some(Target::Item(file)) => vec![(file, label)],
            Some(Target::Module(module)) => {
                let local = declared.name.as_deref();
                let paths = self.modules[from].source.paths.iter();
                let used = paths.filter(|(first, _)| Some(first.as_str()) == local).filter_map(
                    |(_, name)| match self.follow(rule, module, core::slice::from_ref(name), 0) {
                        Some(Target::Item(file) | Target::Module(file)) => Some((file, name.clone())),
                        None => None,
                    },
                );
                let mut used: Vec<_> = used.collect();
                used.sort();
                used.dedup();
                if used.is_empty() { vec![(module, label)] } else { used }
            }
            None => Vec::new(),
        }
    }

    /// Follows a path from a module; `None` if it leads out of the crate. `depth` ends loops of re-exports.
    fn follow(&self, rule: Rule, from: usize, path: &[String], depth: usize) -> Option<Target> {
        const DEEPEST: usize = 16;
        let Some((first, rest)) = path.split_first() else { return Some(Target::Module(from)) };
        if depth > DEEPEST {
            return None;
        }
        let module = &self.modules[from];
        match first.as_str() {
            "crate" => return self.follow(rule, 0, rest, depth),
            "self" => return self.follow(rule, from, rest, depth),
            "super" => return self.follow(rule, module.parent?, rest, depth),
            _ => {}
        }
        if let Some(child) = module.children.iter().find(|child| self.modules[**child].name == *first) {
            return self.follow(rule, *child, rest, depth);
        }
        let bound = module.source.uses.iter().find(|declared| declared.name.as_deref() == Some(first));
        if let Some(bound) = bound.filter(|bound| bound.path != path) {
            if rule == Rule::Written {
                return Some(Target::Item(from));
            }
            let longer: Vec<String> = bound.path.iter().chain(rest).cloned().collect();
            return self.follow(rule, from, &longer, depth + 1);
        }
        if module.source.items.contains(first) {
            return Some(Target::Item(from));
        }
        if rule == Rule::Written {
            return Some(Target::Item(from));
        }
        for glob in module.source.uses.iter().filter(|declared| declared.name.is_none()) {
            let longer: Vec<String> = glob.path.iter().chain(path).cloned().collect();
            if glob.path.first() != Some(first)
                && let Some(target) = self.follow(rule, from, &longer, depth + 1)
            {
                return Some(target);
            }
        }
        None
    }
}
