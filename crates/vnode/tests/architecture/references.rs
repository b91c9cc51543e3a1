//! Which file uses which: names followed through imports and re-exports to the file that declares them.

use std::collections::{BTreeMap, BTreeSet};

use crate::source::{Import, Module, Names, Source};

/// The uses of one file by another.
#[derive(Clone)]
pub(crate) struct Use {
    pub from: String,
    pub to: String,
    pub names: BTreeSet<String>,
}

/// Longest chain of re-exports that is followed.
const REEXPORTS_MAX: usize = 16;

/// Returns the uses between the files of a crate.
///
/// A re-export of what is declared below a module is a door, not a use: the module that has it need not know what goes through. It
/// is one when the module itself names what it re-exports.
pub(crate) fn uses(source: &Source) -> Vec<Use> {
    let mut found: BTreeMap<(String, String), BTreeSet<String>> = BTreeMap::new();
    for (path, module) in &source.modules {
        let own = module.paths.iter().filter_map(|named| reexported(module, named));
        // A name alone is a variable, or one of the module's own, or imported.
        let direct = module.paths.iter().filter(|named| named.len() > 1);
        for (named, is_door) in imports(module).chain(direct.chain(own).map(|named| (named, false))) {
            let Some(absolute) = absolute(source, path, named) else { continue };
            let Some((declaring, name)) = declaration(source, &absolute, 0) else { continue };
            let to = &source.modules[&declaring].file;
            if *to != module.file && !(is_door && declaring.starts_with(path)) {
                found.entry((module.file.clone(), to.clone())).or_default().insert(name);
            }
        }
    }
    found.into_iter().map(|((from, to), names)| Use { from, to, names }).collect()
}

/// Returns the imports of a module, with whether each may be a door.
fn imports(module: &Module) -> impl Iterator<Item = (&Names, bool)> {
    module.imports.iter().map(|import| (&import.path, import.is_reexport))
}

/// Returns what the first name of a path stands for, if the module re-exports that name.
fn reexported<'a>(module: &'a Module, named: &Names) -> Option<&'a Names> {
    let is_it = |import: &&Import| import.is_reexport && import.name == named[0];
    module.imports.iter().find(is_it).map(|import| &import.path)
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
fn declaration(source: &Source, path: &Names, depth: usize) -> Option<(Names, String)> {
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
    let Some(name) = next else { return Some((module, "mod".to_owned())) };
    if here.items.contains(name) || depth == REEXPORTS_MAX {
        return Some((module, name.clone()));
    }
    match here.imports.iter().find(|import| import.name == *name) {
        // What another crate has is no use of a file of this one.
        Some(import) => declaration(source, &absolute(source, &module, &import.path)?, depth + 1),
        None => Some(among_all(source, &module, name, depth).unwrap_or((module, name.clone()))),
    }
}

/// Follows a name through the imports of all names of a module.
fn among_all(source: &Source, module: &Names, name: &str, depth: usize) -> Option<(Names, String)> {
    source.modules[module].imports.iter().filter(|import| import.name == "*").find_map(|import| {
        let base = absolute(source, module, &import.path)?;
        let found = declaration(source, &below(&base, name), depth + 1)?;
        source.modules[&found.0].items.iter().any(|item| item == name).then_some(found)
    })
}
