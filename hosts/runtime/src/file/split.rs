//! The names of split model files: `NAME-00001-of-00003.gguf`, numbered from 1.

use std::path::{Path, PathBuf};

/// Limit of parts: a name with more is not the name of a split model.
const PARTS_MAX: u32 = 1000;

/// The paths of all parts of the split model that `path` belongs to, in order; `None` if the name has no part number.
pub(super) fn parts(path: &Path) -> Option<Vec<PathBuf>> {
    let name = path.file_name()?.to_str()?.strip_suffix(".gguf")?;
    let (rest, count) = name.rsplit_once("-of-")?;
    let (stem, index) = rest.rsplit_once('-')?;
    let (index, count) = (number(index)?, number(count)?);
    if index == 0 || index > count || count > PARTS_MAX {
        return None;
    }
    Some(
        (1..=count).map(|part| path.with_file_name(format!("{stem}-{part:05}-of-{count:05}.gguf"))).collect(),
    )
}

/// A number of exactly five digits.
fn number(digits: &str) -> Option<u32> {
    (digits.len() == 5 && digits.bytes().all(|digit| digit.is_ascii_digit())).then(|| digits.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_part_finds_all_parts() {
        let expected: Vec<_> =
            ["a-b-00001-of-00002.gguf", "a-b-00002-of-00002.gguf"].map(|n| Path::new("/m").join(n)).into();
        assert_eq!(parts(Path::new("/m/a-b-00001-of-00002.gguf")), Some(expected.clone()));
        assert_eq!(parts(Path::new("/m/a-b-00002-of-00002.gguf")), Some(expected));
        for name in [
            "a.gguf",
            "a-00003-of-00002.gguf",
            "a-00000-of-00002.gguf",
            "a-1-of-2.gguf",
            "a-+0001-of-00002.gguf",
            "00001-of-00002.gguf",
            "a-00001-of-99999.gguf",
            "a-00001-of-00002.bin",
        ] {
            assert_eq!(parts(Path::new(name)), None, "{name}");
        }
    }
}
