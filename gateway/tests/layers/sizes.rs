//! The sizes of the house: the lines of a file, and the files beside each other in a folder of source.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use crate::{collect, root};

/// The lines that a file may have.
const MAX_LINES: usize = 450;

/// The source files that a folder may have beside each other.
const MAX_FILES: usize = 16;

/// The folders that may have more source files, and the reason of each.
const WIDE_FOLDERS: &[(&str, &str)] = &[
    (
        "loadtest/src",
        "a toolbox: each file is an instrument of its own, which any scenario may take",
    ),
    (
        "loadtest/src/scenario",
        "a scenario is one file, entered in its table",
    ),
];

/// A source file, by its path from the root of the repository, and its number of lines.
type SourceFile = (String, usize);

#[test]
fn no_file_is_too_long() {
    let wide: Vec<_> = WIDE_FOLDERS.iter().map(|(folder, _)| *folder).collect();
    let found = oversized(&source_files(), &wide);
    assert!(found.is_empty(), "\n{}\n", found.join("\n"));
}

/// Returns what is longer or wider than it may be, and each folder that needs no exception.
fn oversized(files: &[SourceFile], wide: &[&str]) -> Vec<String> {
    let mut found = vec![];
    let mut folders: BTreeMap<&str, usize> = BTreeMap::new();
    for (path, lines) in files {
        if *lines > MAX_LINES {
            found.push(format!("{path} has {lines} lines"));
        }
        let (folder, _) = path.rsplit_once('/').expect("a file in a folder");
        if folder.split('/').any(|part| part == "src") {
            *folders.entry(folder).or_default() += 1;
        }
    }
    for (folder, count) in &folders {
        if *count > MAX_FILES && !wide.contains(folder) {
            found.push(format!("{folder} has {count} files beside each other"));
        }
    }
    let is_wide = |folder: &&&str| folders.get(**folder).is_some_and(|n| *n > MAX_FILES);
    let narrow = wide.iter().filter(|folder| !is_wide(folder));
    found.extend(narrow.map(|folder| format!("{folder} needs no exception")));
    found
}

fn source_files() -> Vec<SourceFile> {
    let repository = root().parent().expect("the repository").to_owned();
    let mut paths = vec![];
    for part in ["gateway", "loadtest"] {
        collect(&repository.join(part), &mut paths);
    }
    assert!(paths.len() > 500, "{} files were read", paths.len());
    paths
        .iter()
        .map(|path| measured(&repository, path))
        .collect()
}

fn measured(repository: &Path, path: &Path) -> SourceFile {
    let text = fs::read_to_string(path).expect("a readable source");
    let relative = path.strip_prefix(repository).expect("found below it");
    (
        relative.to_string_lossy().into_owned(),
        text.lines().count(),
    )
}

#[test]
fn a_file_too_long_and_a_folder_too_wide_are_seen() {
    let folder = |folder: &str, count: usize| -> Vec<SourceFile> {
        let path = |n| (format!("{folder}/{n}.rs"), 1);
        (0..count).map(path).collect()
    };
    let said = |files: &[SourceFile], wide: &[&str]| oversized(files, wide).join(", ");

    let long = |lines| [("gateway/tests/long.rs".to_owned(), lines)];
    assert_eq!(said(&long(450), &[]), "");
    assert_eq!(said(&long(451), &[]), "gateway/tests/long.rs has 451 lines");

    assert_eq!(said(&folder("x/src", 16), &[]), "");
    assert_eq!(
        said(&folder("x/src/y", 17), &[]),
        "x/src/y has 17 files beside each other"
    );
    // Files of a folder below are not beside those of the folder; tests may be many.
    let nested = [folder("x/src", 16), folder("x/src/y", 16)].concat();
    assert_eq!(said(&nested, &[]), "");
    assert_eq!(said(&folder("x/tests", 17), &[]), "");

    assert_eq!(said(&folder("x/src", 17), &["x/src"]), "");
    assert_eq!(
        said(&folder("x/src", 16), &["x/src"]),
        "x/src needs no exception"
    );
    assert_eq!(said(&[], &["x/src"]), "x/src needs no exception");
}
