//! Module, `use` and item declarations in Rust source text, read token by token.
//!
//! It is no parser: it reads declarations as rustfmt writes them. Resolving names is in `modules.rs`.

use crate::ci::tokens::tokens;

/// A name that a `use` declaration binds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Use {
    /// Segments as they are written, without the alias.
    pub(super) path: Vec<String>,
    /// The name it has in this file; `None` for a glob.
    pub(super) name: Option<String>,
    /// True for `pub use` and `pub(...) use`.
    pub(super) public: bool,
}

/// Declarations of one file.
#[derive(Debug, Default)]
pub(super) struct Source {
    /// Child modules that have a file of their own.
    pub(super) modules: Vec<String>,
    pub(super) uses: Vec<Use>,
    /// Names of functions, types, constants, traits and macros.
    pub(super) items: Vec<String>,
    /// Pairs of neighbors in paths: `a::b` gives `(a, b)`.
    pub(super) paths: Vec<(String, String)>,
}

const KEYWORDS: [&str; 9] =
    ["fn", "struct", "enum", "trait", "type", "const", "static", "union", "macro_rules"];

impl Source {
    pub(super) fn read(text: &str) -> Self {
        let tokens = tokens(text).into_iter().map(|token| token.text.to_string()).collect();
        let tokens = without_tests(tokens);
        let mut source = Self::default();
        let mut at = 0;
        while let Some(token) = tokens.get(at) {
            let next = tokens.get(at + 1).map(String::as_str).unwrap_or_default();
            match token.as_str() {
                "mod" if tokens.get(at + 2).is_some_and(|token| token == ";") => {
                    source.modules.push(next.to_string());
                }
                "use" if is_declaration(&tokens, at) => {
                    let public = at > 0 && matches!(tokens[at - 1].as_str(), "pub" | ")");
                    let mut prefix = Vec::new();
                    at = tree(&tokens, at + 1, &mut prefix, public, &mut source.uses);
                }
                "::" if at > 0 => source.paths.push((tokens[at - 1].clone(), next.to_string())),
                "macro_rules" => source.items.extend(tokens.get(at + 2).cloned()),
                keyword if KEYWORDS.contains(&keyword) => source.items.push(next.to_string()),
                _ => {}
            }
            at += 1;
        }
        source
    }
}

/// False for `use<..>` in the bounds of `impl Trait`.
fn is_declaration(tokens: &[String], at: usize) -> bool {
    tokens.get(at + 1).is_some_and(|token| token != "<")
}

/// Reads one tree of a `use` declaration; returns the position of the token after it.
fn tree(
    tokens: &[String],
    mut at: usize,
    prefix: &mut Vec<String>,
    public: bool,
    uses: &mut Vec<Use>,
) -> usize {
    let depth = prefix.len();
    while let Some(token) = tokens.get(at) {
        match token.as_str() {
            "::" => at += 1,
            "{" => {
                at += 1;
                while tokens.get(at).is_some_and(|token| token != "}") {
                    at = tree(tokens, at, prefix, public, uses);
                    at += usize::from(tokens.get(at).is_some_and(|token| token == ","));
                }
                prefix.truncate(depth);
                return at + 1;
            }
            "*" => {
                uses.push(Use { path: prefix.clone(), name: None, public });
                prefix.truncate(depth);
                return at + 1;
            }
            "as" | ";" | "," | "}" => break,
            segment => {
                prefix.push(segment.to_string());
                at += 1;
            }
        }
    }
    if prefix.last().is_some_and(|last| last == "self") && prefix.len() > 1 {
        prefix.pop();
    }
    let mut name = prefix.last().cloned();
    if tokens.get(at).is_some_and(|token| token == "as") {
        name = tokens.get(at + 1).cloned();
        at += 2;
    }
    uses.push(Use { path: prefix.clone(), name, public });
    prefix.truncate(depth);
    at
}

/// Leaves out the items under `#[cfg(test)]`.
fn without_tests(tokens: Vec<String>) -> Vec<String> {
    const MARK: [&str; 7] = ["#", "[", "cfg", "(", "test", ")", "]"];
    let mut kept = Vec::with_capacity(tokens.len());
    let mut at = 0;
    while at < tokens.len() {
        if tokens[at..].len() >= MARK.len()
            && tokens[at..].iter().zip(MARK).all(|(token, mark)| token == mark)
        {
            at = end_of_item(&tokens, at + MARK.len());
        } else {
            kept.push(tokens[at].clone());
            at += 1;
        }
    }
    kept
}

/// The position after the item that begins at `at`: after its `;`, or after its block.
fn end_of_item(tokens: &[String], mut at: usize) -> usize {
    let mut depth = 0usize;
    while let Some(token) = tokens.get(at) {
        at += 1;
        match token.as_str() {
            "{" | "(" | "[" => depth += 1,
            "}" | ")" | "]" => {
                depth = depth.saturating_sub(1);
                if depth == 0 && token == "}" {
                    return at;
                }
            }
            ";" if depth == 0 => return at,
            _ => {}
        }
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trees_give_every_name_with_its_path() {
        let source = Source::read("pub(crate) use a::{self, b::{C as D, *}, e};\nuse f;");
        let names: Vec<_> =
            source.uses.iter().map(|u| (u.path.join("::"), u.name.clone(), u.public)).collect();
        let name = |name: &str| Some(name.to_string());
        assert_eq!(names[0], ("a".into(), name("a"), true));
        assert_eq!(names[1], ("a::b::C".into(), name("D"), true));
        assert_eq!(names[2], ("a::b".into(), None, true));
        assert_eq!(names[3], ("a::e".into(), name("e"), true));
        assert_eq!(names[4], ("f".into(), name("f"), false));
    }

    #[test]
    fn declarations_are_found_and_literals_are_not_read() {
        let source = Source::read(
            "mod a; mod inline { }\nfn f<'x>() { let c = ['{', '\\'', '\"']; }\nstruct S;\n\
             const T: &str = r#\"mod b; \" mod c;\"#; macro_rules! m { () => {} }\n\
             #[cfg(test)]\nmod tests;\n#[cfg(test)]\nfn g() { x(); }\nenum E { V }",
        );
        assert_eq!(source.modules, ["a"]);
        assert_eq!(source.items, ["f", "S", "T", "m", "E"]);
    }
}
