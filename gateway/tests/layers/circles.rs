//! Circles of modules: modules that import each other, straight or through others.
//!
//! A module may import from its own parent and from the parents above it: what stands there is shared. Such imports do
//! not count. A name that a module only passes on (`use`) is followed to the module that defines it.

use std::collections::{BTreeMap, BTreeSet};

use crate::rust_source::Source;

type Path = Vec<String>;

/// Re-exports that are followed at most; more of them would be a circle of their own.
const MAX_REEXPORTS: usize = 8;

/// Returns the modules of each circle in a crate.
pub(crate) fn circles(sources: &[Source]) -> Vec<Vec<String>> {
    let modules: BTreeMap<&Path, &Source> = sources.iter().map(|one| (&one.module, one)).collect();
    let reached: BTreeMap<&Path, BTreeSet<Path>> = modules
        .keys()
        .map(|module| (*module, reachable(&modules, module)))
        .collect();
    let mut found = BTreeSet::new();
    for (module, reached_here) in &reached {
        let back = |other: &&Path| reached[*other].contains(*module);
        let circle: Vec<String> = modules
            .keys()
            .copied()
            .filter(|other| reached_here.contains(*other))
            .filter(back)
            .map(|path| path.join("::"))
            .collect();
        if circle.len() > 1 {
            found.insert(circle);
        }
    }
    found.into_iter().collect()
}

/// Returns every module that a module imports from, straight or through others.
fn reachable(modules: &BTreeMap<&Path, &Source>, from: &Path) -> BTreeSet<Path> {
    let mut found = BTreeSet::new();
    let mut left = vec![from.clone()];
    while let Some(module) = left.pop() {
        for next in imports(modules, &module) {
            if found.insert(next.clone()) {
                left.push(next);
            }
        }
    }
    found
}

/// Returns the modules that a module names, itself and those above it apart.
fn imports(modules: &BTreeMap<&Path, &Source>, module: &Path) -> BTreeSet<Path> {
    let named = modules[module].paths.iter();
    let named = named.filter_map(|path| defined_in(modules, module, path, 0));
    named.filter(|other| !module.starts_with(other)).collect()
}

/// Returns the module of this crate that defines what `path` names in `module`.
fn defined_in(
    modules: &BTreeMap<&Path, &Source>,
    module: &Path,
    path: &[String],
    depth: usize,
) -> Option<Path> {
    let (mut place, mut rest) = start(modules, module, path)?;
    while let Some(name) = rest.first() {
        let child: Path = place.iter().chain([name]).cloned().collect();
        if !modules.contains_key(&child) {
            break;
        }
        place = child;
        rest = &rest[1..];
    }
    let Some(name) = rest.first() else {
        return Some(place);
    };
    let passed_on = modules[&place].uses.iter();
    let passed_on = passed_on.filter(|used| used.last() == Some(name) && used.as_slice() != path);
    let mut deeper = passed_on
        .filter(|_| depth < MAX_REEXPORTS)
        .filter_map(|used| defined_in(modules, &place, used, depth + 1));
    Some(deeper.next().unwrap_or(place))
}

/// Returns the module at which a path starts, and the names behind it. `None`: it starts in another crate, or at a local
/// name.
fn start<'a>(
    modules: &BTreeMap<&Path, &Source>,
    module: &Path,
    path: &'a [String],
) -> Option<(Path, &'a [String])> {
    let head = path.first()?;
    let ups = path.iter().take_while(|name| *name == "super").count();
    match head.as_str() {
        "crate" => Some((vec![], &path[1..])),
        "self" => Some((module.clone(), &path[1..])),
        "super" => {
            let depth = module.len().checked_sub(ups)?;
            Some((module[..depth].to_vec(), &path[ups..]))
        }
        _ => {
            let child: Path = module.iter().chain([head]).cloned().collect();
            let is_own = modules.contains_key(&child);
            is_own.then(|| (module.clone(), path))
        }
    }
}

#[test]
fn siblings_that_import_each_other_are_seen_also_through_their_parent() {
    let source = |module: &str, text: &str| {
        let names = module.split("::").filter(|name| !name.is_empty());
        Source::new(names.map(str::to_owned).collect(), text)
    };
    let sources = [
        source("", "mod a; mod b; mod c; pub use b::B; pub struct Shared;"),
        source("a", "use super::{B, Shared}; pub struct A;"),
        source(
            "b",
            "mod d; use crate::Shared; pub struct B; fn f() { d::g() }",
        ),
        source(
            "b::d",
            "use super::super::c::C; use super::B; pub fn g() {}",
        ),
        source("c", "fn f() -> crate::a::A { self::g() } pub struct C;"),
    ];
    // a takes B from b by way of the root; b calls d, which takes C from c; c takes A from a.
    assert_eq!(circles(&sources), [["a", "b", "b::d", "c"]]);
    let straight = &sources[..4];
    assert!(circles(straight).is_empty(), "parents do not count");
}
