//! The command `which`: where the branches have the objects of a path.

use std::sync::Arc;

use vnode::{Caller, ControlError, Errno, FileKind, Name, Result};

use super::branch::whiteout;
use super::operations::branch_objects::BranchObject;
use super::state::{Node, Union};

impl Union {
    /// The objects of a path as JSON: its kind, if users see it, and for each object in a branch the branch, the path there and
    /// what it is to users.
    ///
    /// # Errors
    /// `BadArgument` if no branch has anything of that path.
    pub(crate) fn which(self: &Arc<Self>, path: &str) -> std::result::Result<String, ControlError> {
        let located = {
            let _guard = self.operation_guard();
            self.objects_at_path(path.as_bytes())
        };
        let (kind, objects) = match located {
            Ok((_, objects)) if objects.is_empty() => Err(Errno::ENOENT),
            located => located,
        }
        .map_err(|error| ControlError::BadArgument(format!("/{}: {error}", path.trim_start_matches('/'))))?;
        let entry = |object: &BranchObject| {
            let path = String::from_utf8_lossy(&object.path);
            serde_json::json!({ "branch": object.member.base.label, "path": path, "role": object.role.name() })
        };
        let kind = kind.map(|kind| format!("{kind:?}").to_lowercase());
        let objects: Vec<_> = objects.iter().map(entry).collect();
        Ok(serde_json::json!({ "kind": kind, "objects": objects }).to_string())
    }

    fn objects_at_path(self: &Arc<Self>, path: &[u8]) -> Result<(Option<FileKind>, Vec<BranchObject>)> {
        let trimmed = path.strip_suffix(b"/").unwrap_or(path);
        let (above, last) = match trimmed.iter().rposition(|byte| *byte == b'/') {
            Some(slash) => (&trimmed[..slash], &trimmed[slash + 1..]),
            None => (&b""[..], trimmed),
        };
        if last.is_empty() {
            let root = self.root_node();
            root.revalidate()?;
            return Ok((Some(FileKind::Directory), root.branch_objects()?));
        }
        let directory = self.node_at_path(above)?;
        directory.require_directory()?;
        directory.revalidate()?;
        let stored = whiteout::stored_name(Name::new(last)?)?;
        let stored = Name::new(&stored)?;
        let (_, node) = directory.search_node(&Caller::server(), stored)?;
        let instances = node.as_ref().map(|node: &Arc<Node>| node.instances());
        let objects = directory.branch_objects_at(stored, instances.as_deref().unwrap_or_default())?;
        Ok((node.map(|node| node.kind), objects))
    }
}
