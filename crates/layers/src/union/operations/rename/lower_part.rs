//! Location of the lower part of a directory that moves in one of its branches.

use std::sync::Arc;

use vnode::{Caller, Errno, Name, Result};

use crate::union::branch::branches::BranchMember;
use crate::union::branch::whiteout;
use crate::union::state::instance::Instance;
use crate::union::state::{Node, NodeLocation, Union};

impl Node {
    /// Stores in a directory of several branches a redirect to its lower part, so that a whiteout of its name hides nothing of
    /// it. A branch without extended attributes cannot.
    pub(crate) fn keep_lower_part(self: &Arc<Self>, caller: &Caller, member: &BranchMember) -> Result<()> {
        if self.instances().len() < 2 {
            return Ok(());
        }
        let own = self.instance_in(member).ok_or(Errno::ESTALE)?;
        match whiteout::set_redirect(&Caller::server().at_expense_of(caller), &own, &self.lower_path(member)?) {
            Err(Errno::EXDEV) => Ok(()),
            result => result,
        }
    }

    /// Path of this directory in the branches below `member`: of names as they are there.
    pub(crate) fn lower_path(self: &Arc<Self>, member: &BranchMember) -> Result<Vec<u8>> {
        let mut names: Vec<Vec<u8>> = Vec::new();
        let mut node = Arc::clone(self);
        while let NodeLocation::At(above) = node.location() {
            names.push(above.stored.as_bytes().to_vec());
            node = above.directory;
        }
        names.reverse();
        let position = self.union.branches.position(member).ok_or(Errno::ESTALE)?;
        self.union.path_below(self.union.roots(), &names.join(&b'/'), position)
    }
}

impl Union {
    /// Path, in the branches below a position, of the directory that is at a path from these roots.
    fn path_below(&self, roots: Vec<Instance>, path: &[u8], position: usize) -> Result<Vec<u8>> {
        let mut places = roots;
        let mut behind = Vec::new();
        for name in path.split(|&byte| byte == b'/').filter(|name| !name.is_empty()) {
            let found = self.search(&places, &Caller::server(), Name::new(name)?)?.found.ok_or(Errno::ESTALE)?;
            match self.last_redirect(&found.instances, position)? {
                Some((instance, path)) if path.starts_with(b"/") => {
                    behind = self.path_below(self.roots_right_of(&instance.member), &path, position)?;
                }
                Some((_, name)) => behind.extend([b"/", &name[..]].concat()),
                None => behind.extend([b"/", name].concat()),
            }
            places = found.instances;
        }
        Ok(behind)
    }

    /// The lowest of the instances, down to a position, that has a redirect.
    fn last_redirect<'a>(&self, instances: &'a [Instance], position: usize) -> Result<Option<(&'a Instance, Vec<u8>)>> {
        for instance in instances.iter().rev() {
            if self.branches.position(&instance.member).is_some_and(|own| own <= position)
                && let Some(path) = whiteout::redirect(&instance.vnode)?
            {
                return Ok(Some((instance, path)));
            }
        }
        Ok(None)
    }
}
