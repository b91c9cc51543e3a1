//! Which file uses which: names followed through imports and re-exports to the file that declares them.

use std::collections::{BTreeMap, BTreeSet};

use crate::source::{Module, Names, Source};

/// The uses of one file by another.
pub struct Use {
    pub from: String,
    pub to: String,
    pub names: BTreeSet<String>,
}

/// Longest chain of re-exports that is followed.
const REEXPORTS_MAX: usize = 16;

/// Returns the uses between the files of a crate.
///
/// A re-export of what lies below a module is a door, not a use: the module that has it need not know what goes through.
pub fn uses(source: &Source) -> Vec<Use> {
    let mut found: BTreeMap<(String, String), BTreeSet<String>> = BTreeMap::new();
    for (path, module) in &source.modules {
        let imports = module.imports.iter().filter(|import| !import.is_reexport).map(|import| &import.path);
        for named in imports.chain(&module.paths) {
            let Some(absolute) = absolute(source, path, named) else { continue };
            let Some((to, name)) = declaration(source, &absolute, 0) else { continue };
            if to.file != module.file {
                found.entry((module.file.clone(), to.file.clone())).or_default().insert(name);
            }
        }
    }
    found.into_iter().map(|((from, to), names)| Use { from, to, names }).collect()
}

/// Returns a path from the root of the crate, or `None` for names of other crates.
fn absolute(source: &Source, module: &Names, path: &Names) -> Option<Names> {
    let first = path.first()?.as_str();
    let rest = &path[1..];
    let joined = |base: &[String], rest: &[String]| Some(base.iter().chain(rest).cloned().collect());
    match first {
        "crate" => joined(&[], rest),
        "self" => joined(module, rest),
        "super" => above(module, path),
        _ if source.modules.contains_key(&below(module, first)) => joined(module, path),
        _ => None,
    }
}

/// Returns a path that begins with `super`, once or more, from the root of the crate.
fn above(module: &Names, path: &Names) -> Option<Names> {
    let levels = path.iter().take_while(|name| *name == "super").count();
    let base = module.get(..module.len().checked_sub(levels)?)?;
    Some(base.iter().chain(&path[levels..]).cloned().collect())
}

fn below(module: &[String], name: &str) -> Names {
    module.iter().cloned().chain([name.to_owned()]).collect()
}

/// Returns the module that declares what a path from the root names, and the name there.
fn declaration<'a>(source: &'a Source, path: &Names, depth: usize) -> Option<(&'a Module, String)> {
    let mut module = Names::new();
    let mut rest = path.iter();
    let mut next = rest.next();
    while let Some(name) = next
        && source.modules.contains_key(&below(&module, name))
    {
        module.push(name.clone());
        next = rest.next();
    }
    let here = source.modules.get(&module)?;
    let Some(name) = next else { return Some((here, "mod".to_owned())) };
    if here.items.contains(name) || depth == REEXPORTS_MAX {
        return Some((here, name.clone()));
    }
    match here.imports.iter().find(|import| import.name == *name) {
        // What another crate has is no use of a file of this one.
        Some(import) => declaration(source, &absolute(source, &module, &import.path)?, depth + 1),
        None => Some(among_all(source, &module, here, name, depth).unwrap_or((here, name.clone()))),
    }
}

/// Follows a name through the imports of all names of a module.
fn among_all<'a>(
    source: &'a Source,
    path: &Names,
    module: &Module,
    name: &str,
    depth: usize,
) -> Option<(&'a Module, String)> {
    module.imports.iter().filter(|import| import.name == "*").find_map(|import| {
        let base = absolute(source, path, &import.path)?;
        let found = declaration(source, &below(&base, name), depth + 1)?;
        found.0.items.iter().any(|item| item == name).then_some(found)
    })
}
