//! Names that the file system has of a file which the fork has changed through another: each is made a name of the fork's copy,
//! as the fork already shows it, so that the branch of changes has everything that is to be committed.

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::sync::Arc;

use vnode::{Caller, Cookie, FileKind, InodeNumber, Name, NameBuf, Result, SetAttributes, SetTime, VnodeRef};

use crate::union::branch::branches::BranchMember;
use crate::union::branch::identity::{Identity, UNCOUNTED_NAMES};
use crate::union::branch::objects;
use crate::union::branch::whiteout;
use crate::union::state::{Node, Union};

/// Links up all of them.
pub(crate) fn link_up_names(union: &Arc<Union>, upper: &Arc<BranchMember>) -> Result<()> {
    let copied = shared_copies(upper)?;
    if copied.is_empty() {
        return Ok(());
    }
    // The names can only be found by a walk through the whole tree.
    let mut open = vec![union.root_node()];
    while let Some(directory) = open.pop() {
        for (name, kind, ino) in entries(&directory)? {
            vnode::progress::object_done();
            if kind.is_none_or(|kind| kind == FileKind::Directory) {
                let found = directory.look_up(&Caller::server(), name.as_name())?;
                let node = found.vnode.as_any().downcast_ref::<Node>().map(Node::reference);
                open.extend(node.filter(|node| node.kind == FileKind::Directory));
            }
            if copied.contains(&ino) {
                link_up_name(&directory, name.as_name(), upper)?;
            }
        }
    }
    Ok(())
}

/// Inode numbers of files of which the fork has a copy, and to whose originals names of the file system still lead.
fn shared_copies(upper: &BranchMember) -> Result<HashSet<InodeNumber>> {
    let mut copied = HashSet::new();
    let Some(links) = upper.work.existing_links()? else { return Ok(copied) };
    for (name, _) in objects::entries(&links)? {
        let copy = links.lookup(&Caller::server(), name.as_name())?;
        match Identity::stored_origin(&copy.vnode)? {
            Some((identity, names)) if names != 0 && names != UNCOUNTED_NAMES => copied.insert(identity.ino),
            _ => false,
        };
    }
    Ok(copied)
}

/// Makes a name one of the copy, if it leads to the original. Users see nothing of it.
pub(crate) fn link_up_name(directory: &Arc<Node>, name: Name<'_>, upper: &Arc<BranchMember>) -> Result<()> {
    let server = Caller::server();
    let stored = whiteout::stored_name(name)?;
    let stored = Name::new(&stored)?;
    let (search, node) = directory.search_node(&server, stored)?;
    let (Some(found), Some(node)) = (search.found.filter(|found| found.is_copied_under_other_name), node) else {
        return Ok(());
    };
    let before = directory.leftmost().vnode.getattr(&server)?;
    directory.link_up(&server, &found, &node, stored)?;
    let times = SetAttributes {
        atime: Some(SetTime::To(before.atime)),
        mtime: Some(SetTime::To(before.mtime)),
        ..SetAttributes::default()
    };
    match directory.instance_in(upper) {
        Some(located) => located.setattr(&server, &times).map(drop),
        None => Ok(()),
    }
}

fn entries(directory: &Arc<Node>) -> Result<Vec<(NameBuf, Option<FileKind>, InodeNumber)>> {
    let server = Caller::server();
    let vnode = Arc::clone(directory) as VnodeRef;
    let mut entries = Vec::new();
    vnode.open_directory(&server)?.read(&server, Cookie::START, &mut |entry| {
        entries.push((entry.name.to_owned(), entry.kind, entry.ino));
        ControlFlow::Continue(())
    })?;
    Ok(entries)
}
