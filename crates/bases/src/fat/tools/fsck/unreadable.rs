//! Clusters of directories that cannot be read.

use super::checker::Checker;
use super::context::DirectoryContext;
use super::problem::Problem;
use crate::fat::tools::chain::Run;
use crate::fat::tools::directory::DirectoryStart;
use crate::fat::tools::error::ToolError;

impl Checker<'_> {
    /// Reports clusters of a directory that cannot be read, and moves what can be read of them to others.
    pub(crate) fn check_unreadable(
        &mut self,
        context: &mut DirectoryContext,
        clusters: &[u32],
    ) -> Result<(), ToolError> {
        let path = context.shown().to_owned();
        for &cluster in clusters {
            let runs = if cluster == 0 { Vec::new() } else { vec![Run { first: cluster, length: 1 }] };
            let repair = &mut |checker: &mut Self| checker.replace_directory_cluster(context, cluster);
            self.found(Problem::DirectoryUnreadable(cluster), Some(&path), runs, repair)?;
        }
        Ok(())
    }

    fn replace_directory_cluster(&mut self, context: &mut DirectoryContext, cluster: u32) -> Result<(), ToolError> {
        let sector = self.volume.geometry.bytes_per_sector() as usize;
        if let (0, Some((offset, length))) = (cluster, self.volume.geometry.root_region()) {
            // It cannot move; a write may make the disk use other sectors.
            let mut buffer = vec![0; length as usize];
            for lost in self.volume.disk.read_entries(offset, &mut buffer, sector) {
                let deleted = buffer.get(lost.clone()).unwrap_or_default();
                self.volume.disk.write(offset + lost.start as u64, deleted)?;
            }
            return self.volume.disk.read(offset, &mut buffer);
        }
        let position = context.owner.as_ref().and_then(|owner| owner.position);
        let DirectoryStart::Cluster(start) = context.range.start else { return Ok(()) };
        let new = self.volume.replace_cluster(start, position, cluster, Some(&self.used), true)?;
        self.used.insert(new);
        self.used.remove(cluster);
        if start == cluster {
            context.range.start = DirectoryStart::Cluster(new);
            if let Some(owner) = &mut context.owner {
                owner.start = new;
            }
        }
        Ok(())
    }
}
