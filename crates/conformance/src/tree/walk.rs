//! Path resolution on vnodes: components, dot names, symbolic links, trailing slashes.

use vnode::{AccessMode, Caller, Errno, FileKind, Name, Result, VnodeRef};

/// Maximum number of symbolic links followed in one path, as in Linux.
const MAX_SYMLINKS: usize = 40;

/// One resolution of a path.
pub(crate) struct PathWalk<'a> {
    caller: &'a Caller,
    root: VnodeRef,
    links: usize,
}

/// The directory that contains a path's last component, and that component.
pub(crate) struct ParentAndName {
    pub(crate) directory: VnodeRef,
    pub(crate) last: LastComponent,
    /// The path ends with a slash: only a directory is valid.
    pub(crate) slash: bool,
}

/// The last component of a path.
pub(crate) enum LastComponent {
    Name(Vec<u8>),
    Dot,
    DotDot,
}

impl ParentAndName {
    /// Returns the name, or this error for dot names.
    pub(crate) fn name(&self, otherwise: Errno) -> Result<Name<'_>> {
        match &self.last {
            LastComponent::Name(name) => Name::new(name),
            _ => Err(otherwise),
        }
    }
}

impl<'a> PathWalk<'a> {
    pub(crate) fn new(caller: &'a Caller, root: VnodeRef) -> Self {
        Self { caller, root, links: 0 }
    }

    /// Resolves a path to an object.
    pub(crate) fn resolve(&mut self, start: &VnodeRef, path: &[u8], follow: bool) -> Result<VnodeRef> {
        let parent = self.resolve_parent(start, path)?;
        let found = self.step(&parent.directory, &parent.last, follow || parent.slash)?;
        if parent.slash && found.kind() != FileKind::Directory {
            return Err(Errno::ENOTDIR);
        }
        Ok(found)
    }

    /// Resolves all components of a path except the last.
    pub(crate) fn resolve_parent(&mut self, start: &VnodeRef, path: &[u8]) -> Result<ParentAndName> {
        if path.is_empty() {
            return Err(Errno::ENOENT);
        }
        let mut directory = if path[0] == b'/' { self.root.clone() } else { start.clone() };
        let mut components = path.split(|byte| *byte == b'/').filter(|component| !component.is_empty()).peekable();
        let slash = path.ends_with(b"/");
        while let Some(component) = components.next() {
            let last = match component {
                b"." => LastComponent::Dot,
                b".." => LastComponent::DotDot,
                name => LastComponent::Name(name.to_vec()),
            };
            if components.peek().is_none() {
                return Ok(ParentAndName { directory, last, slash });
            }
            directory = self.step(&directory, &last, true)?;
            if directory.kind() != FileKind::Directory {
                return Err(Errno::ENOTDIR);
            }
        }
        Ok(ParentAndName { directory, last: LastComponent::Dot, slash })
    }

    /// Resolves one component in a directory.
    fn step(&mut self, directory: &VnodeRef, component: &LastComponent, follow: bool) -> Result<VnodeRef> {
        match component {
            LastComponent::Name(name) => {
                let found = directory.lookup(self.caller, Name::new(name)?)?.vnode;
                match found.kind() {
                    FileKind::Symlink if follow => self.follow(directory, &found),
                    _ => Ok(found),
                }
            }
            dot => {
                directory.access(self.caller, AccessMode::EXECUTE)?;
                match dot {
                    LastComponent::DotDot => directory.parent(self.caller),
                    _ => Ok(directory.clone()),
                }
            }
        }
    }

    fn follow(&mut self, directory: &VnodeRef, link: &VnodeRef) -> Result<VnodeRef> {
        let target = self.target(link)?;
        self.resolve(directory, &target, true)
    }

    /// Returns the target of a symbolic link that is about to be followed.
    pub(crate) fn target(&mut self, link: &VnodeRef) -> Result<Vec<u8>> {
        self.links += 1;
        if self.links > MAX_SYMLINKS {
            return Err(Errno::ELOOP);
        }
        link.readlink(self.caller)
    }
}
