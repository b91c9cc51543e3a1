//! Position of a walk through a tree. A path shares its ancestors with those of all its siblings, so that a walk takes as long
//! for each object of a deep tree as for one of a flat tree, and no more memory.

use std::sync::Arc;

use vnode::Name;

/// A path from the root of a walk.
#[derive(Clone, Default)]
pub(crate) struct TreePath(Option<Arc<PathComponent>>);

struct PathComponent {
    above: TreePath,
    name: Box<[u8]>,
    /// Length of the whole path in bytes, with slashes between the names.
    length: usize,
}

impl TreePath {
    /// Path of the root.
    pub(crate) fn root() -> Self {
        Self::default()
    }

    pub(crate) fn is_root(&self) -> bool {
        self.0.is_none()
    }

    /// Path of the object of this name in the directory here.
    pub(crate) fn join(&self, name: Name<'_>) -> Self {
        let above = if self.is_root() { 0 } else { self.length() + 1 };
        let name: Box<[u8]> = name.as_bytes().into();
        Self(Some(Arc::new(PathComponent { length: above + name.len(), above: self.clone(), name })))
    }

    /// The last path on the way here that is no longer than that many bytes.
    pub(crate) fn start(&self, length_max: usize) -> &Self {
        let mut path = self;
        while let Some(part) = path.0.as_ref().filter(|part| part.length > length_max) {
            path = &part.above;
        }
        path
    }

    /// Length in bytes, with slashes between the names.
    pub(crate) fn length(&self) -> usize {
        self.0.as_ref().map_or(0, |part| part.length)
    }

    /// Names from the root on, with slashes between them.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = vec![b'/'; self.length()];
        let mut path = self;
        while let Some(part) = &path.0 {
            bytes[part.length - part.name.len()..part.length].copy_from_slice(&part.name);
            path = &part.above;
        }
        bytes
    }

    /// Names from the root on, with a slash before each.
    pub(crate) fn slashed(&self) -> Vec<u8> {
        if self.is_root() { Vec::new() } else { [b"/", &*self.to_bytes()].concat() }
    }

    /// Returns whether it is the path in these bytes, with a slash before each name.
    pub(crate) fn is(&self, slashed: &[u8]) -> bool {
        match slashed.split_first() {
            None => self.is_root(),
            Some((slash, names)) => *slash == b'/' && names.len() == self.length() && self.to_bytes() == names,
        }
    }
}

impl Drop for TreePath {
    fn drop(&mut self) {
        // Iterative: each may hold the last reference to its parent, and the chain of parents may be longer than the stack.
        let mut above = self.0.take();
        while let Some(part) = above {
            above = Arc::into_inner(part).and_then(|mut part| part.above.0.take());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Name<'_> {
        Name::new(text.as_bytes()).unwrap()
    }

    #[test]
    fn paths_are_their_names_with_slashes_between_them() {
        let root = TreePath::root();
        let below = root.join(name("a")).join(name("bc"));
        assert_eq!((root.to_bytes(), below.to_bytes()), (Vec::new(), b"a/bc".to_vec()));
        assert_eq!((root.slashed(), below.slashed()), (Vec::new(), b"/a/bc".to_vec()));
        assert_eq!([0, 1, 3, 4].map(|max| below.start(max).to_bytes()), [&b""[..], b"a", b"a", b"a/bc"]);
        assert!(root.is(b"") && below.is(b"/a/bc"));
        assert!(!root.is(b"/a") && !below.is(b"a/bc") && !below.is(b"/a/bd") && !below.is(b"/a/b"));
    }

    #[test]
    fn path_depth_is_not_limited_by_the_stack() {
        let mut path = TreePath::root();
        for _ in 0..1_000_000 {
            path = path.join(name("d"));
        }
        assert_eq!(path.length(), 1_999_999);
    }
}
