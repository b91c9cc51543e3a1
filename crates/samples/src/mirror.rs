//! The layer `mirror`: keeps the same tree in several branches, so that one can be lost.
//!
//! Reads go to the branch that answers fastest, changes to all. A branch that does not take a change that another has made is
//! used no more; the others record its name, and refuse to be mounted again until it is a copy of them once more.

use std::borrow::Cow;
use std::sync::atomic::{AtomicU32, Ordering};

use layers::options::{OptionError, OptionProblem, Options};
use layers::{Branch, BranchMode, BranchOpener, Kind};
use vnode::fan_out::{BranchHealth, Changes, MAX_BRANCHES, Routing, join};
use vnode::layer::{Layer, LayerVnode, stack};
use vnode::{Caller, Errno, FileSystemRef, Promises, Result, VnodeRef, XattrMode};

/// Registration of this layer.
pub const KIND: Kind = Kind::joining("mirror", "keeps the same tree in several branches", &[], create);

/// Attribute of a branch's root that names the branches which lack changes that it has, one for each line. Whoever could set it
/// through the mirror could keep it from being mounted, or have it read what is old.
const BEHIND: &[u8] = b"user.plyfs.mirror.behind";
/// One of so many reads goes to a slower branch, so that its latency stays known.
const PROBE_INTERVAL: u32 = 64;

/// What joins the branches.
struct Mirror {
    labels: Vec<String>,
    roots: Vec<VnodeRef>,
    reads: AtomicU32,
}

impl Routing for Mirror {
    fn changes(&self) -> Changes {
        Changes::InAll
    }

    fn reads_from(&self, candidates: &[usize], health: &BranchHealth) -> usize {
        let read = self.reads.fetch_add(1, Ordering::Relaxed);
        if read.is_multiple_of(PROBE_INTERVAL) {
            return candidates[(read / PROBE_INTERVAL) as usize % candidates.len()];
        }
        *candidates.iter().min_by_key(|branch| health.latency(**branch)).unwrap_or(&candidates[0])
    }

    fn branch_failed(&self, failed: usize, error: Errno, health: &BranchHealth) {
        let label = &self.labels[failed];
        tracing::warn!("mirror: {label} did not take a change and is used no more ({error}): make it a copy again");
        for other in health.healthy().filter(|other| *other != failed) {
            if let Err(error) = add_behind(&self.roots[other], label) {
                let other = &self.labels[other];
                tracing::error!(
                    "mirror: {other} cannot record that {label} is behind ({error}): do not mount that one"
                );
            }
        }
    }
}

/// The name of the layer, on the joined branches, whose record of what they lack is neither shown nor changed from above.
struct Shown;

impl Layer for Shown {
    type State = ();

    fn kind(&self) -> &'static str {
        KIND.name
    }

    fn promises(&self) -> Promises {
        Promises::TRANSPARENT
    }

    fn encodes_xattrs(&self) -> bool {
        true
    }

    fn encode_xattr_name<'a>(&self, _: &LayerVnode<Self>, _: &Caller, name: &'a [u8]) -> Result<Cow<'a, [u8]>> {
        if name == BEHIND { Err(Errno::EPERM) } else { Ok(Cow::Borrowed(name)) }
    }

    fn decode_xattr_name<'a>(&self, _: &LayerVnode<Self>, _: &Caller, name: &'a [u8]) -> Result<Option<Cow<'a, [u8]>>> {
        Ok(Some(Cow::Borrowed(name)).filter(|_| name != BEHIND))
    }

    fn getxattr(&self, node: &LayerVnode<Self>, caller: &Caller, name: &[u8]) -> Result<Vec<u8>> {
        match name == BEHIND {
            // Another mirror, which asks, could not record in this one what its branches lack.
            true if caller.is_server_alone() => Err(Errno::EPERM),
            true => Err(Errno::ENODATA),
            false => node.forward_getxattr(caller, name),
        }
    }
}

fn create(
    pairs: &[(String, String)],
    branches: Vec<Branch>,
    _: Vec<String>,
    _: Option<BranchOpener>,
) -> std::result::Result<FileSystemRef, OptionError> {
    let options = Options::new(KIND.name, KIND.options, pairs)?;
    let labels: Vec<String> = branches.iter().map(|branch| branch.label.clone()).collect();
    if branches.len() > MAX_BRANCHES
        || branches.iter().any(|branch| branch.mode.unwrap_or(BranchMode::ReadWrite) != BranchMode::ReadWrite)
    {
        let message = format!("all branches of a mirror are written, and there are at most {MAX_BRANCHES}");
        return Err(options.error("", OptionProblem::Unjoinable { message }));
    }
    let roots: Vec<VnodeRef> = branches.iter().map(|branch| branch.file_system.root()).collect();
    for (root, label) in roots.iter().zip(&labels) {
        let behind = behind(root).map_err(|error| options.error(label, OptionProblem::Branch { error }))?;
        // Whatever the others are called today.
        if let Some(stale) = behind.lines().next() {
            let message = format!(
                "{stale} lacks changes that {label} has: make it a copy of {label}, then remove the attribute {} of {label}",
                String::from_utf8_lossy(BEHIND)
            );
            return Err(options.error(label, OptionProblem::Unjoinable { message }));
        }
    }
    let file_systems = branches.into_iter().map(|branch| branch.file_system).collect();
    Ok(stack(Shown, join(file_systems, Mirror { labels, roots, reads: AtomicU32::new(1) })))
}

/// Returns the labels of the branches that lack changes which this one has.
fn behind(root: &VnodeRef) -> Result<String> {
    match root.getxattr(&Caller::server(), BEHIND) {
        Ok(labels) => Ok(String::from_utf8_lossy(&labels).into_owned()),
        Err(Errno::ENODATA | Errno::EOPNOTSUPP) => Ok(String::new()),
        Err(error) => Err(error),
    }
}

fn add_behind(root: &VnodeRef, label: &str) -> Result<()> {
    let labels = format!("{}{label}\n", behind(root)?);
    root.setxattr(&Caller::server(), BEHIND, labels.as_bytes(), XattrMode::Set)?;
    root.open_directory(&Caller::server())?.fsync(&Caller::server(), false)
}
