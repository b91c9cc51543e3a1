//! The description of a run's stack, as data that can be passed to a server process.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bases::device::{Access, FileDevice};
use bases::{dir, fat, iso, mem};
use layers::{Branch, BranchMode};
use vnode::FileSystemRef;

/// The bottom of a stack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Base {
    /// A file system in memory, with these options.
    Memory(String),
    /// A directory.
    Directory(PathBuf),
    /// A FAT volume in a file, with these options.
    Fat(PathBuf, String),
    /// An ISO 9660 image.
    Image(PathBuf),
    /// Directories, each with its mode. The first layer joins them.
    Branches(Vec<(PathBuf, BranchMode)>),
}

/// The name of a layer, and its options.
pub(crate) type LayerWithOptions = (String, Vec<(String, String)>);

/// A base and the layers on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recipe {
    /// The base.
    pub base: Base,
    /// The tree that read-only subjects are tested on is created in the base first.
    pub is_prepared: bool,
    /// Layers with their options, bottom first; FiST programs of this crate are named by their files.
    pub layers: Vec<LayerWithOptions>,
}

/// The reason, as text, why a stack cannot be built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecipeError(String);

impl fmt::Display for RecipeError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for RecipeError {}

fn problem(error: impl fmt::Display) -> RecipeError {
    RecipeError(error.to_string())
}

impl Recipe {
    /// Returns a base without layers.
    pub fn plain(base: Base) -> Self {
        Self { base, is_prepared: false, layers: Vec::new() }
    }

    /// Returns the recipe with a layer added on top.
    pub fn with_layer(mut self, name: &str, options: &[(&str, &str)]) -> Self {
        let options = options.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        self.layers.push((name.to_owned(), options));
        self
    }

    /// Returns the recipe on the tree that read-only subjects are tested on.
    pub fn prepared(mut self) -> Self {
        self.is_prepared = true;
        self
    }

    /// Builds the stack.
    ///
    /// # Errors
    /// [`RecipeError`].
    pub fn build(&self) -> Result<FileSystemRef, RecipeError> {
        let below = match &self.base {
            Base::Memory(options) => {
                let options = mem::Options::parse(options).map_err(problem)?;
                vec![Arc::new(mem::MemoryFileSystem::new(options)) as FileSystemRef]
            }
            Base::Directory(path) => vec![directory(path)?],
            Base::Fat(path, options) => {
                let device = Arc::new(FileDevice::open(path, Access::Write).map_err(problem)?);
                let options = fat::Options::parse(options).map_err(problem)?;
                let opened = fat::FatFileSystem::open(device, "volume", options).map_err(problem)?;
                vec![Arc::new(opened) as FileSystemRef]
            }
            Base::Image(path) => vec![image(path)?],
            Base::Branches(directories) => {
                directories.iter().map(|(path, _)| directory(path)).collect::<Result<_, _>>()?
            }
        };
        let (base, layers) = self.join(below)?;
        if self.is_prepared {
            let writable = stack_on(base.clone(), layers.iter().filter(is_writable))?;
            conformance::prepare(&conformance::Tree::new(writable)).map_err(problem)?;
        }
        stack_on(base, layers.iter())
    }

    /// Builds the stack on other file systems: one for each branch of the base, or a single one.
    ///
    /// # Errors
    /// [`RecipeError`].
    pub fn build_over(&self, below: Vec<FileSystemRef>) -> Result<FileSystemRef, RecipeError> {
        let (base, layers) = self.join(below)?;
        stack_on(base, layers.iter())
    }

    /// Builds the stack like [`Recipe::build_over`], without the layers that refuse every change.
    ///
    /// # Errors
    /// [`RecipeError`].
    pub fn build_writable_over(&self, below: Vec<FileSystemRef>) -> Result<FileSystemRef, RecipeError> {
        let (base, layers) = self.join(below)?;
        stack_on(base, layers.iter().filter(is_writable))
    }

    /// Returns the file system below the other layers, and these layers.
    fn join(&self, mut below: Vec<FileSystemRef>) -> Result<(FileSystemRef, &[LayerWithOptions]), RecipeError> {
        let Base::Branches(directories) = &self.base else {
            return Ok((below.pop().ok_or_else(|| problem("there is nothing below"))?, &self.layers));
        };
        let ((name, options), layers) =
            self.layers.split_first().ok_or_else(|| problem("nothing joins the branches"))?;
        let branch = |((path, mode), file_system): (&(PathBuf, BranchMode), FileSystemRef)| Branch {
            file_system,
            mode: Some(*mode),
            label: path.display().to_string(),
            minimum_free: None,
        };
        let branches = directories.iter().zip(below).map(branch).collect();
        let joined = kind(name)?.join(options, branches, Some(Arc::new(open_branch))).map_err(problem)?;
        Ok((joined, layers))
    }

    /// Returns the recipe as one line of text.
    pub fn to_text(&self) -> String {
        let mut text = match &self.base {
            Base::Memory(options) => format!("mem\x1f{options}"),
            Base::Directory(path) => format!("dir\x1f{}", path.display()),
            Base::Fat(path, options) => format!("fat\x1f{options}\x1d{}", path.display()),
            Base::Image(path) => format!("iso\x1f{}", path.display()),
            Base::Branches(branches) => {
                let words = branches.iter().map(|(path, mode)| format!("{mode}={}", path.display()));
                format!("branches\x1f{}", words.collect::<Vec<_>>().join("\x1d"))
            }
        };
        if self.is_prepared {
            text.push_str("\x1fprepared");
        }
        for (name, options) in &self.layers {
            text.push('\x1e');
            text.push_str(name);
            for (key, value) in options {
                text.push_str(&format!("\x1f{key}\x1f{value}"));
            }
        }
        text
    }

    /// Parses the output of [`Recipe::to_text`].
    pub fn from_text(text: &str) -> Option<Self> {
        let mut parts = text.split('\x1e');
        let mut words = parts.next()?.split('\x1f');
        let base = match (words.next()?, words.next()?) {
            ("mem", options) => Base::Memory(options.to_owned()),
            ("dir", path) => Base::Directory(Path::new(path).to_owned()),
            ("fat", rest) => {
                let (options, path) = rest.split_once('\x1d')?;
                Base::Fat(Path::new(path).to_owned(), options.to_owned())
            }
            ("iso", path) => Base::Image(Path::new(path).to_owned()),
            ("branches", branches) => {
                Base::Branches(branches.split('\x1d').map(branch_of_text).collect::<Option<_>>()?)
            }
            _ => return None,
        };
        let is_prepared = words.next().is_some();
        let mut layers = Vec::new();
        for part in parts {
            let mut words = part.split('\x1f').map(str::to_owned);
            let name = words.next()?;
            let mut options = Vec::new();
            while let Some(key) = words.next() {
                options.push((key, words.next()?));
            }
            layers.push((name, options));
        }
        Some(Self { base, is_prepared, layers })
    }
}

fn is_writable((name, _): &&LayerWithOptions) -> bool {
    name != "readonly"
}

/// Stacks layers with their options, each on the one before.
fn stack_on<'l>(
    base: FileSystemRef,
    mut layers: impl Iterator<Item = &'l LayerWithOptions>,
) -> Result<FileSystemRef, RecipeError> {
    layers.try_fold(base, |file_system, (name, options)| match name.ends_with(".fist") {
        true => {
            let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("descriptions").join(name);
            stack::build_description(&path, options, vec![file_system]).map_err(problem)
        }
        false => kind(name)?.stack(options, file_system).map_err(problem),
    })
}

fn kind(name: &str) -> Result<&'static layers::Kind, RecipeError> {
    layers::kind(name).or_else(|| samples::kind(name)).ok_or_else(|| RecipeError(format!("no layer {name}")))
}

fn directory(path: &Path) -> Result<FileSystemRef, RecipeError> {
    Ok(Arc::new(dir::DirectoryFileSystem::open(path, dir::Options::default()).map_err(problem)?))
}

fn image(path: &Path) -> Result<FileSystemRef, RecipeError> {
    let device = Arc::new(FileDevice::open(path, Access::Read).map_err(problem)?);
    Ok(Arc::new(iso::IsoFileSystem::open(device, "image", iso::Options::default()).map_err(problem)?))
}

/// Opens a branch that is added later: a directory with a mode.
fn open_branch(text: &str) -> Result<Branch, String> {
    let (path, mode) = text.rsplit_once('=').ok_or("no mode")?;
    let named = branch_of_text(&format!("{mode}={path}")).ok_or("no such mode")?;
    branch(&named).map_err(|error| error.to_string())
}

fn branch((path, mode): &(PathBuf, BranchMode)) -> Result<Branch, RecipeError> {
    Ok(Branch {
        file_system: directory(path)?,
        mode: Some(*mode),
        label: path.display().to_string(),
        minimum_free: None,
    })
}

fn branch_of_text(text: &str) -> Option<(PathBuf, BranchMode)> {
    let (mode, path) = text.split_once('=')?;
    let modes = [BranchMode::ReadWrite, BranchMode::ReadOnly, BranchMode::NoCreate];
    Some((path.into(), modes.into_iter().find(|candidate| candidate.to_string() == mode)?))
}

/// For messages: omits paths, which differ from run to run.
impl fmt::Display for Recipe {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self.base {
            Base::Fat(..) => "fat",
            Base::Memory(_) => "mem",
            Base::Directory(_) => "dir",
            Base::Image(_) => "iso",
            Base::Branches(_) => "branches",
        })?;
        self.layers.iter().try_for_each(|(name, _)| write!(formatter, "|{name}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_recipe_agree() {
        let recipe = Recipe::plain(Base::Memory("size=1m".to_owned()))
            .prepared()
            .with_layer("readonly", &[])
            .with_layer("audit", &[("to", "/x y"), ("queue", "5")]);
        assert_eq!(Recipe::from_text(&recipe.to_text()), Some(recipe));
        let plain = Recipe::plain(Base::Directory("/a/b".into()));
        assert_eq!(Recipe::from_text(&plain.to_text()), Some(plain));
        let image = Recipe::plain(Base::Image("/a/b.iso".into())).with_layer("audit", &[]);
        assert_eq!(Recipe::from_text(&image.to_text()), Some(image));
        let branches = vec![("/a".into(), BranchMode::ReadWrite), ("/b=c".into(), BranchMode::ReadOnly)];
        let union = Recipe::plain(Base::Branches(branches)).with_layer("union", &[("a", "b")]);
        assert_eq!(Recipe::from_text(&union.to_text()), Some(union));
        assert_eq!(Recipe::from_text("nonsense"), None);
    }
}
