//! Finds the kind of base that presents the contents of a file or block device.

use std::cell::Cell;
use std::path::Path;
use std::sync::Arc;

use bases::device::{Access, DeviceRef, FileDevice, PartitionError, find_volume};

use super::error::BuildProblem;
use crate::kinds::{BaseKind, PARTITION, Probe};
use crate::registry::Registry;
use crate::syntax::Argument;

impl Registry {
    /// Returns the kind of base that opens a file or block device with these options: the first, by name, that recognises the whole;
    /// otherwise the one that recognises a partition, of which it must be the only one, or the one that the options select.
    pub(crate) fn recognise(&self, path: &Path, arguments: &[Argument]) -> Result<&BaseKind, BuildProblem> {
        let device: DeviceRef = Arc::new(FileDevice::open(path, Access::Examine).map_err(BuildProblem::Device)?);
        let recognised = Cell::new(None);
        let mut fits = |device: &DeviceRef| {
            for (kind, probe) in self.probes() {
                if (probe.recognises)(device)? {
                    recognised.set(Some(kind));
                    return Ok(true);
                }
            }
            Ok(false)
        };
        // Of several partitions that are recognised, none is chosen; so the last that was recognised is the one that is chosen.
        match (find_volume(&device, selected_partition(arguments), &mut fits), recognised.get()) {
            (Ok(_), Some(kind)) => Ok(kind),
            (Ok(_) | Err(PartitionError::NoneFits(None)), _) => Err(self.unrecognised(path)),
            (Err(error), _) => Err(BuildProblem::Volume { path: path.to_owned(), error }),
        }
    }

    /// Returns the kinds of bases that recognise contents, sorted by name.
    fn probes(&self) -> impl Iterator<Item = (&BaseKind, Probe)> {
        self.bases().iter().filter_map(|kind| Some((kind, kind.probe?)))
    }

    fn unrecognised(&self, path: &Path) -> BuildProblem {
        let contents = self.probes().map(|(_, probe)| probe.contents).collect();
        let example = self.probes().map(|(kind, _)| kind.name).next();
        BuildProblem::Unrecognised { path: path.to_owned(), contents, example }
    }
}

/// Returns the partition that the options select. The base that is opened reports an invalid value.
fn selected_partition(arguments: &[Argument]) -> Option<u32> {
    let argument = arguments.iter().find(|argument| argument.key.value == PARTITION)?;
    argument.value.value.to_str()?.parse().ok()
}
