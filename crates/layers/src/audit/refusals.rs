//! Operations that `audit` itself refuses: users making set-ID programs, and changes to protected files.

use vnode::layer::{Layer, LayerVnode, Operation};
use vnode::{Caller, Errno, FileKind, Name, RenameMode, Vnode};

use super::paths::{self, LastLocation};
use crate::globs::Globs;
use crate::ioctl;

const SET_ID: u32 = 0o6000;

/// Settings of what is refused.
#[derive(Debug, Default)]
pub(crate) struct RefusalSettings {
    /// Refuse set-ID bits on anything but directories, to everybody except the superuser.
    pub(crate) refuse_setuid: bool,
    /// Refuse changes to these paths, to everybody.
    pub(crate) protected: Option<ProtectedPaths>,
}

/// Protected paths.
#[derive(Debug)]
pub(crate) struct ProtectedPaths {
    paths: Globs,
    /// Ancestors of the protected paths, as far as the patterns name them: they may be neither moved nor removed.
    ancestors: Option<Globs>,
    /// Last components of both, which show that most names are harmless without their path.
    names: Option<Globs>,
}

impl RefusalSettings {
    pub(crate) fn is_disabled(&self) -> bool {
        !self.refuse_setuid && self.protected.is_none()
    }

    /// Returns the option by which the operation is refused, if it is.
    pub(crate) fn refusing_option<L: Layer<State = LastLocation>>(
        &self,
        node: &LayerVnode<L>,
        caller: &Caller,
        operation: &Operation<'_>,
    ) -> Option<&'static str> {
        if caller.is_server_alone() {
            return None;
        }
        if self.refuse_setuid && caller.uid != 0 && makes_set_id(node, operation) {
            return Some("refuse-setuid");
        }
        self.protected.as_ref().filter(|protected| protected.protects_from(node, operation)).map(|_| "protect")
    }
}

fn makes_set_id(node: &dyn Vnode, operation: &Operation<'_>) -> bool {
    match operation {
        Operation::Create { how, .. } | Operation::TemporaryFile(how) => how.mode & SET_ID != 0,
        Operation::MakeNode { mode, .. } => mode & SET_ID != 0,
        Operation::SetAttributes(changes) => {
            node.kind() != FileKind::Directory && changes.mode.is_some_and(|mode| mode & SET_ID != 0)
        }
        _ => false,
    }
}

impl ProtectedPaths {
    /// Parses `GLOB[:GLOB]`.
    ///
    /// # Errors
    /// Returns a description of what is expected instead.
    pub(crate) fn parse(list: &str) -> Result<Self, String> {
        let paths = Globs::paths(list)?;
        let (mut ancestors, mut names) = (Vec::new(), Some(Vec::new()));
        for pattern in list.split(':').map(|pattern| pattern.strip_prefix('/').unwrap_or(pattern)) {
            // Braces, classes and escapes may contain a slash, and `**` any number of them: nothing is known from there
            // on.
            let simple = |component: &str| !component.contains("**") && !component.contains(['{', '[', '\\']);
            let components: Vec<&str> = pattern.split('/').collect();
            let simple_count = components.iter().take_while(|component| simple(component)).count();
            let ancestor_count = simple_count.min(components.len() - 1);
            ancestors.extend((1..=ancestor_count).map(|count| components[..count].join("/")));
            match &mut names {
                Some(names) if simple_count == components.len() => names.extend_from_slice(&components),
                _ => names = None,
            }
        }
        let compile = |patterns: &[String]| match patterns {
            [] => Ok(None),
            _ => Globs::of(patterns.iter().map(String::as_str)).map(Some),
        };
        Ok(Self { paths, ancestors: compile(&ancestors)?, names: names.map(Globs::of).transpose()? })
    }

    fn protects_from<L: Layer<State = LastLocation>>(&self, node: &LayerVnode<L>, operation: &Operation<'_>) -> bool {
        match operation {
            Operation::Open(flags) if flags.writes() || flags.truncates() => self.protects::<L>(node),
            Operation::Ioctl { command } if ioctl::changes(*command) => self.protects::<L>(node),
            Operation::SetAttributes(_) | Operation::SetXattr { .. } | Operation::RemoveXattr(_) => {
                self.protects::<L>(node)
            }
            Operation::Create { name, .. }
            | Operation::MakeDirectory { name, .. }
            | Operation::MakeNode { name, .. }
            | Operation::MakeSymlink { name, .. }
            | Operation::Unlink(name) => self.protects_name(node, *name, false),
            Operation::RemoveDirectory(name) => self.protects_name(node, *name, true),
            // Another name would be another way to write to the file.
            Operation::Link { name, target } => {
                self.protects_name(node, *name, false) || self.protects::<L>(&***target)
            }
            Operation::Rename { name, to, to_name, mode } => {
                // The contents of a directory get other paths with it.
                let is_move = || *mode == RenameMode::Exchange || may_be_directory(node, *name);
                self.protects_name(node, *name, true)
                    || self.protects_name(&***to, *to_name, false)
                    || (self.protects_name(&***to, *to_name, true) && is_move())
            }
            _ => false,
        }
    }

    /// Returns whether the object is protected. An unlinked object is not; where the path cannot be determined, every
    /// object is.
    fn protects<L: Layer<State = LastLocation>>(&self, node: &dyn Vnode) -> bool {
        match paths::path_of::<L>(node) {
            Ok(path) => self.paths.matches(&path),
            Err(error) => error != Errno::ENOENT,
        }
    }

    /// Returns whether the name in the directory is protected or, with `moves`, leads to a protected path.
    fn protects_name(&self, directory: &dyn Vnode, name: Name<'_>, is_move: bool) -> bool {
        if self.names.as_ref().is_some_and(|names| !names.matches(name.as_bytes())) {
            return false;
        }
        match directory.path() {
            Ok(path) => {
                let path = paths::join(&path, name);
                self.paths.matches(&path)
                    || (is_move && self.ancestors.as_ref().is_some_and(|ancestors| ancestors.matches(&path)))
            }
            Err(error) => error != Errno::ENOENT,
        }
    }
}

/// Returns whether the name is that of a directory, as far as this can be determined.
fn may_be_directory<L: Layer>(directory: &LayerVnode<L>, name: Name<'_>) -> bool {
    match directory.lower().lookup(&Caller::server(), name) {
        Ok(entry) => entry.vnode.kind() == FileKind::Directory,
        Err(error) => error != Errno::ENOENT,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ancestors_are_derived_from_patterns() {
        let protected = ProtectedPaths::parse("/bin/login:usr/*/sbin/**/su").unwrap();
        let ancestors = protected.ancestors.unwrap();
        let are = |path: &str| ancestors.matches(path.as_bytes());
        assert!(are("bin") && are("usr") && are("usr/local") && are("usr/local/sbin"));
        assert!(!are("usr/local/sbin/x") && !are("bin/login") && !are("etc"));
        assert!(protected.names.is_none());
        let names = ProtectedPaths::parse("bin/*.so").unwrap().names.unwrap();
        assert!(names.matches(b"bin") && names.matches(b"x.so") && !names.matches(b"x"));
        assert!(ProtectedPaths::parse("x").unwrap().ancestors.is_none());
    }
}
