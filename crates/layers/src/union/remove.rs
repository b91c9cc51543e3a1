//! Taking names away (Unionfs, section 3.5): what is in the way of a branch on the right is hidden by a whiteout.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use vnode::{AccessMode, Attributes, Caller, Errno, FileKind, Name, Result, VnodeRef};

use super::branches::Member;
use super::copy_up::Extent;
use super::lookup::{Found, Search};
use super::node::Node;
use super::whiteout::{self, Meaning};
use super::{Union, work};

/// How often what is to be removed may change before we give up.
const ATTEMPTS: usize = 16;

impl Node {
    /// Takes the name of anything but a directory away.
    pub(super) fn unlink_name(self: &Arc<Self>, caller: &Caller, name: Name<'_>) -> Result<()> {
        self.remove(caller, name, |found, place, stored, shows_more| {
            if found.kind() == FileKind::Directory {
                let (Place::Own(directory) | Place::Left(directory)) = place;
                self.may_remove(caller, directory, &found.attributes)?;
                return Err(Errno::EISDIR);
            }
            match place {
                Place::Own(directory) if !shows_more => directory.unlink(caller, stored),
                Place::Own(directory) => {
                    self.may_remove(caller, directory, &found.attributes)?;
                    whiteout::create(directory, stored)?;
                    directory.unlink(caller, stored).inspect_err(|_| {
                        // It is seen beside its whiteout; which is in nobody's way then.
                        let _ = whiteout::remove(directory, stored);
                    })
                }
                Place::Left(directory) => {
                    self.may_remove(caller, directory, &found.attributes)?;
                    whiteout::create(directory, stored)
                }
            }
        })
    }

    /// Removes a directory in which users see nothing.
    pub(super) fn remove_directory(self: &Arc<Self>, caller: &Caller, name: Name<'_>) -> Result<()> {
        self.remove(caller, name, |found, place, stored, shows_more| {
            let (Place::Own(directory) | Place::Left(directory)) = place;
            self.may_remove(caller, directory, &found.attributes)?;
            if found.kind() != FileKind::Directory {
                return Err(Errno::ENOTDIR);
            }
            let node = self.union.node(found.clone())?;
            let _names = node.alone();
            if !node.shows_nothing()? {
                return Err(Errno::ENOTEMPTY);
            }
            if shows_more {
                whiteout::create(directory, stored)?;
            }
            match place {
                Place::Own(directory) => remove_own_directory(&found.instances[0].member, directory, stored),
                Place::Left(_) => Ok(()),
            }
        })
    }

    /// Finds what has the name and where its removal is to be noted, and removes it.
    fn remove(
        self: &Arc<Self>,
        caller: &Caller,
        name: Name<'_>,
        remove: impl Fn(&Found, &Place, Name<'_>, bool) -> Result<()>,
    ) -> Result<()> {
        self.only_directory()?;
        let stored = whiteout::stored(name)?;
        let stored = Name::new(&stored)?;
        for _ in 0..ATTEMPTS {
            let (before, node) = match self.look(caller, stored)? {
                (Search { found: Some(found), .. }, Some(node)) => (found, node),
                _ => return Err(Errno::ENOENT),
            };
            if before.is_borrowed {
                self.settle(&before, &node, stored)?;
                continue;
            }
            let leftmost = &before.instances[0];
            if self.union.counts_names(&before, &node)? {
                continue;
            }
            let own = self.union.branches.may_change(&leftmost.member);
            let place = if own {
                Place::Own(self.instances()[before.at].vnode.clone())
            } else {
                Place::Left(self.place_of_whiteout(&leftmost.member)?)
            };
            let _names = self.alone();
            let Some(found) = self.search(caller, stored)?.found else { return Err(Errno::ENOENT) };
            if found.is_borrowed || !Arc::ptr_eq(&found.instances[0].member, &leftmost.member) {
                // It has been copied meanwhile.
                continue;
            }
            let instances = self.instances();
            let shows_more = match place {
                Place::Left(_) => true,
                Place::Own(_) => {
                    self.union.search(&instances[found.at + 1..], &Caller::server(), stored)?.found.is_some()
                }
            };
            let node = self.union.node(found.clone())?;
            remove(&found, &place, stored, shows_more)?;
            if let Place::Left(_) = place {
                node.is_hidden.store(true, Ordering::Relaxed);
            }
            node.is_gone_from(self, stored);
            node.has_lost_a_name();
            return Ok(());
        }
        Err(Errno::EAGAIN)
    }

    /// This directory in the branch where whiteouts of what is in `member` go.
    fn place_of_whiteout(self: &Arc<Self>, member: &Member) -> Result<VnodeRef> {
        let position = self.union.branches.position(member).ok_or(Errno::ESTALE)?;
        let target = self.union.branches.writable_at_or_left_of(position).ok_or(Errno::EROFS)?;
        self.directory_in(&target)
    }

    /// Whether the caller may take away a name of an object with these attributes, as the branch would decide.
    pub(super) fn may_remove(&self, caller: &Caller, directory: &VnodeRef, victim: &Attributes) -> Result<()> {
        const STICKY: u32 = 0o1000;
        directory.access(caller, AccessMode::from_bits(AccessMode::WRITE.bits() | AccessMode::EXECUTE.bits()))?;
        let attributes = directory.getattr(caller)?;
        let is_owner = [attributes.uid, victim.uid].contains(&caller.uid);
        if attributes.mode & STICKY != 0 && !is_owner && !caller.is_superuser() {
            return Err(Errno::EPERM);
        }
        Ok(())
    }

    /// Whether users see nothing in this directory. The caller holds its lock.
    pub(super) fn shows_nothing(&self) -> Result<bool> {
        let server = Caller::server();
        let instances = self.instances();
        for instance in instances.iter() {
            for (entry, _) in work::entries(&instance.vnode)? {
                if !matches!(whiteout::meaning(entry.as_bytes()), Meaning::Object(_)) {
                    continue;
                }
                if self.union.search(&instances, &server, entry.as_name())?.found.is_some() {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }
}

/// The directory in the branch that has the leftmost object, or in one on the left of it.
enum Place {
    Own(VnodeRef),
    Left(VnodeRef),
}

/// Removes a directory that has nothing but marks, out of sight at once.
pub(super) fn remove_own_directory(member: &Member, directory: &VnodeRef, stored: Name<'_>) -> Result<()> {
    match directory.rmdir(&Caller::server(), stored) {
        Err(Errno::ENOTEMPTY | Errno::EEXIST) => {
            let name = member.work.take(directory, stored)?;
            member.work.discard(&name);
            Ok(())
        }
        result => result,
    }
}

impl Union {
    /// Has a file with several names copied where its names can be counted, one of which is about to go: whether it was not
    /// there yet.
    pub(super) fn counts_names(&self, found: &Found, node: &Arc<Node>) -> Result<bool> {
        let is_counted = found.kind() == FileKind::Directory || self.branches.may_change(&found.instances[0].member);
        if is_counted || node.shown(found.attributes).nlink < 2 {
            return Ok(false);
        }
        node.writable(Extent::All)?;
        Ok(true)
    }
}
