//! The modules of one crate, read from their files: what each declares, imports and names.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use syn::visit::Visit;
use syn::{Attribute, Item, UseTree, Visibility};

/// A path of names, from the crate's root or relative to a module.
pub(crate) type Names = Vec<String>;

/// The modules of a crate.
#[derive(Default)]
pub(crate) struct Source {
    /// By their path from the root; the root is the empty path.
    pub modules: BTreeMap<Names, Module>,
}

/// One module, in a file of its own or within another's.
#[derive(Default)]
pub(crate) struct Module {
    pub file: String,
    pub items: Vec<String>,
    pub imports: Vec<Import>,
    /// Paths in signatures and bodies.
    pub paths: Vec<Names>,
}

/// One name that a `use` item brings in.
pub(crate) struct Import {
    /// The name here; `*` for all names of a module.
    pub name: String,
    pub path: Names,
    pub is_reexport: bool,
}

impl Source {
    /// Reads the crate whose root file this is.
    pub(crate) fn read(root: &str) -> Source {
        let mut source = Source::default();
        source.add(Vec::new(), Path::new(root), Path::new(root).parent().unwrap(), &items_of(Path::new(root)));
        source
    }

    /// Adds a module: its files' folder is where the modules that it declares are looked for.
    fn add(&mut self, path: Names, file: &Path, folder: &Path, items: &[Item]) {
        let mut module = Module { file: file.display().to_string(), ..Module::default() };
        for item in items.iter().filter(|item| !is_for_tests(attributes(item))) {
            match item {
                Item::Use(item) => {
                    let is_reexport = !matches!(item.vis, Visibility::Inherited);
                    collect(&item.tree, &mut Vec::new(), is_reexport, &mut module.imports);
                }
                Item::Mod(item) => self.add_declared(&path, file, folder, item),
                item => {
                    module.items.extend(name(item));
                    Paths(&mut module.paths).visit_item(item);
                }
            }
        }
        self.modules.insert(path, module);
    }

    fn add_declared(&mut self, parent: &Names, parent_file: &Path, folder: &Path, declared: &syn::ItemMod) {
        let name = declared.ident.to_string();
        let path: Names = parent.iter().cloned().chain([name.clone()]).collect();
        if let Some((_, items)) = &declared.content {
            return self.add(path, parent_file, &folder.join(&name), items);
        }
        let file = file_of(folder, &name, declared);
        self.add(path, &file, &folder.join(&name), &items_of(&file));
    }
}

fn items_of(file: &Path) -> Vec<Item> {
    let text = fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    syn::parse_file(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display())).items
}

/// Returns the file of a module declared without a body.
fn file_of(folder: &Path, name: &str, declared: &syn::ItemMod) -> PathBuf {
    let attribute = declared.attrs.iter().find(|attribute| attribute.path().is_ident("path"));
    if let Some(syn::Meta::NameValue(pair)) = attribute.map(|attribute| &attribute.meta)
        && let syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(path), .. }) = &pair.value
    {
        return folder.join(path.value());
    }
    let flat = folder.join(format!("{name}.rs"));
    if flat.exists() { flat } else { folder.join(name).join("mod.rs") }
}

/// Collects the names that a `use` item brings in.
fn collect(tree: &UseTree, path: &mut Names, is_reexport: bool, imports: &mut Vec<Import>) {
    match tree {
        UseTree::Path(tree) => {
            path.push(tree.ident.to_string());
            collect(&tree.tree, path, is_reexport, imports);
            path.pop();
        }
        UseTree::Group(group) => group.items.iter().for_each(|item| collect(item, path, is_reexport, imports)),
        UseTree::Glob(_) => imports.push(Import { name: "*".to_owned(), path: path.clone(), is_reexport }),
        UseTree::Name(tree) if tree.ident == "self" => {
            let name = path.last().unwrap().clone();
            imports.push(Import { name, path: path.clone(), is_reexport });
        }
        UseTree::Name(tree) => {
            let name = tree.ident.to_string();
            let path = path.iter().cloned().chain([name.clone()]).collect();
            imports.push(Import { name, path, is_reexport });
        }
        UseTree::Rename(tree) => {
            let path = path.iter().cloned().chain([tree.ident.to_string()]).filter(|name| name != "self").collect();
            imports.push(Import { name: tree.rename.to_string(), path, is_reexport });
        }
    }
}

/// Collects the paths of an item.
struct Paths<'a>(&'a mut Vec<Names>);

impl<'ast> Visit<'ast> for Paths<'_> {
    fn visit_path(&mut self, path: &'ast syn::Path) {
        if path.leading_colon.is_none() {
            self.0.push(path.segments.iter().map(|segment| segment.ident.to_string()).collect());
        }
        syn::visit::visit_path(self, path);
    }

    /// The module that an item is visible in is not used by it.
    fn visit_visibility(&mut self, _: &'ast Visibility) {}
}

fn name(item: &Item) -> Option<String> {
    let ident = match item {
        Item::Const(item) => &item.ident,
        Item::Enum(item) => &item.ident,
        Item::Fn(item) => &item.sig.ident,
        Item::Static(item) => &item.ident,
        Item::Struct(item) => &item.ident,
        Item::Trait(item) => &item.ident,
        Item::Type(item) => &item.ident,
        Item::Macro(item) => item.ident.as_ref()?,
        _ => return None,
    };
    Some(ident.to_string())
}

fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Use(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Const(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        _ => &[],
    }
}

/// Returns whether an item exists in tests only: code of tests may use what it likes.
fn is_for_tests(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("cfg")
            && matches!(&attribute.meta, syn::Meta::List(list) if list.tokens.to_string() == "test")
    })
}
