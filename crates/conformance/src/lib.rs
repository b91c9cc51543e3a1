//! Named tests of file-system behaviour, run over any vnode tree and over any mounted path.
