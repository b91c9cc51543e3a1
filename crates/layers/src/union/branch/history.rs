//! The history of a branch: its layers, each of which has the changes made since a snapshot froze the one below it.
//!
//! The first layer is the branch itself. Later ones are directories `.wh..wh.plyfs/layers/NUMBER` in it, ordered only by the
//! file `.wh..wh.plyfs/history`: the form's version, a line for each snapshot, oldest first, with the layer that it froze, its time
//! and its name, and a last line with the layer that is written and, after it, one that is being merged. Earlier versions wrote
//! no version.

use std::ops::ControlFlow;

use vnode::{Caller, Cookie, Errno, NameBuf, Result, VnodeRef};

use super::objects;
use super::state_directory::{self, LATER_VERSION};
use super::whiteout::STATE_DIRECTORY;
use super::work::WorkDirectory;

/// First line.
const HEADER: &str = "plyfs history 1";

/// Maximum size of a history in bytes.
const MAX_HISTORY_BYTES: u64 = 1 << 20;

/// The layers of a branch and the snapshots that froze them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct History {
    /// Snapshots, oldest first.
    pub(crate) snapshots: Vec<Snapshot>,
    /// The layer that is written, above all frozen ones.
    pub(crate) current: u32,
    /// The layer that was being merged into the one below it.
    pub(crate) merging: Option<u32>,
}

/// A preserved state of the branch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Snapshot {
    /// The layer that it froze.
    pub(crate) layer: u32,
    /// Time at which it was taken, in seconds since 1970.
    pub(crate) taken: i64,
    pub(crate) name: String,
}

impl History {
    /// Reads the history of the branch with this root.
    ///
    /// # Errors
    /// Errors from reading it; [`LATER_VERSION`] if it has a form of later versions, `EIO` if it is malformed.
    pub(crate) fn of(root: &VnodeRef) -> Result<Self> {
        read(root)?.map_or_else(|| Ok(Self::default()), |text| Self::parse(&text))
    }

    /// All layers, newest first.
    pub(crate) fn layers(&self) -> Vec<u32> {
        let frozen = self.snapshots.iter().rev().map(|snapshot| snapshot.layer);
        std::iter::once(self.current).chain(frozen).collect()
    }

    /// Position of the snapshot of that name.
    pub(crate) fn find(&self, name: &str) -> Option<usize> {
        self.snapshots.iter().position(|snapshot| snapshot.name == name)
    }

    /// An unused layer number.
    pub(crate) fn next_layer(&self) -> u32 {
        self.layers().into_iter().max().map_or(1, |largest| largest + 1)
    }

    /// Writes the history completely or not at all.
    pub(crate) fn write(&self, work: &WorkDirectory) -> Result<()> {
        work.write_state(state_directory::HISTORY, self.to_text().as_bytes())
    }

    fn to_text(&self) -> String {
        let line = |snapshot: &Snapshot| format!("{} {} {}\n", snapshot.layer, snapshot.taken, snapshot.name);
        let lines: String = self.snapshots.iter().map(line).collect();
        let merging = self.merging.map(|layer| format!(" {layer}")).unwrap_or_default();
        format!("{HEADER}\n{lines}{}{merging}\n", self.current)
    }

    /// # Errors
    /// As [`History::of`].
    fn parse(text: &str) -> Result<Self> {
        match text.split_once('\n') {
            Some((HEADER, lines)) => Self::parse_lines(lines).ok_or(Errno::EIO),
            _ if state_directory::is_later_version(text, HEADER) => Err(LATER_VERSION),
            // The form without a version.
            _ => Self::parse_lines(text).ok_or(Errno::EIO),
        }
    }

    fn parse_lines(text: &str) -> Option<Self> {
        let (lines, current) = match text.strip_suffix('\n')?.rsplit_once('\n') {
            Some((lines, current)) => (lines, current),
            None => ("", text.trim_end()),
        };
        let snapshot = |line: &str| {
            let mut words = line.splitn(3, ' ');
            let (layer, taken) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
            Some(Snapshot { layer, taken, name: words.next()?.to_owned() })
        };
        let snapshots = lines.lines().map(snapshot).collect::<Option<Vec<_>>>()?;
        let (current, merging) = match current.split_once(' ') {
            Some((current, merging)) => (current, Some(merging.parse().ok()?)),
            None => (current, None),
        };
        let history = Self { snapshots, current: current.parse().ok()?, merging };
        let mut layers = history.layers();
        layers.sort_unstable();
        layers.dedup();
        (layers.len() == history.snapshots.len() + 1).then_some(history)
    }
}

/// Root of a layer in the branch with this root.
pub(crate) fn layer_root(root: &VnodeRef, layer: u32) -> Result<VnodeRef> {
    if layer == 0 {
        return Ok(root.clone());
    }
    let server = Caller::server();
    let state = state_directory::state_of(root)?.ok_or(Errno::ENOENT)?;
    let layers = state_directory::find_own(&state, state_directory::LAYERS)?.ok_or(Errno::ENOENT)?;
    Ok(layers.vnode.lookup(&server, layer_name(layer).as_name())?.vnode)
}

/// Prefix of the paths of a layer's objects in the file system of its branch.
pub(crate) fn layer_path(layer: u32) -> Vec<u8> {
    if layer == 0 {
        return Vec::new();
    }
    [STATE_DIRECTORY, b"/", state_directory::LAYERS, b"/", layer_name(layer).as_bytes()].concat()
}

/// Creates the root of a new layer. Remains of an unfinished one are removed.
pub(crate) fn make_layer(work: &WorkDirectory, layer: u32) -> Result<VnodeRef> {
    let (layers, name) = (layers_directory(work)?, layer_name(layer));
    match objects::remove_tree(&layers, name.as_name()) {
        Ok(()) | Err(Errno::ENOENT) => {}
        Err(error) => return Err(error),
    }
    Ok(layers.mkdir(&Caller::server(), name.as_name(), 0o700)?.vnode)
}

/// Removes a layer that is no longer used.
pub(crate) fn discard_layer(work: &WorkDirectory, layer: u32) -> Result<()> {
    let taken = work.stash(&layers_directory(work)?, layer_name(layer).as_name())?;
    work.discard(&taken);
    Ok(())
}

/// Removes layers that are missing from the history: they were unfinished, or being removed.
pub(crate) fn discard_unknown(work: &WorkDirectory, history: &History) -> Result<()> {
    let layers = layers_directory(work)?;
    let known: Vec<NameBuf> = history.layers().into_iter().map(layer_name).collect();
    let mut unknown = Vec::new();
    let server = Caller::server();
    layers.open_directory(&server)?.read(&server, Cookie::START, &mut |entry| {
        if !known.iter().any(|name| name.as_name() == entry.name) {
            unknown.push(entry.name.to_owned());
        }
        ControlFlow::Continue(())
    })?;
    unknown.iter().try_for_each(|name| objects::remove_tree(&layers, name.as_name()))
}

/// Present time.
pub(crate) fn current_time() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs() as i64)
}

fn layers_directory(work: &WorkDirectory) -> Result<VnodeRef> {
    work.state_directory(state_directory::LAYERS)
}

fn layer_name(layer: u32) -> NameBuf {
    NameBuf::new(layer.to_string().into_bytes()).expect("a number is a name")
}

fn read(root: &VnodeRef) -> Result<Option<String>> {
    match state_directory::state_of(root)? {
        Some(state) => state_directory::read_state_file(&state, state_directory::HISTORY, MAX_HISTORY_BYTES),
        None => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn history_round_trips() {
        let snapshot = |layer, name: &str| Snapshot { layer, taken: 7, name: name.to_owned() };
        for snapshots in [vec![], vec![snapshot(0, "a b")], vec![snapshot(0, "x"), snapshot(5, "y"), snapshot(2, "z")]]
        {
            let history = History { snapshots, current: 9, merging: None };
            assert_eq!(History::parse(&history.to_text()), Ok(history.clone()));
            let merging = History { merging: Some(5), ..history.clone() };
            assert_eq!(History::parse(&merging.to_text()), Ok(merging));
            assert_eq!((history.layers()[0], history.next_layer()), (9, 10));
        }
        for wrong in ["", "x\n", "0 7 a\n", "0 7 a\n0\n", "0 a\n1\n", "plyfs history x\n1\n", "plyfs history 0\n1\n"] {
            assert_eq!(History::parse(wrong), Err(Errno::EIO), "{wrong:?}");
            assert_eq!(History::parse(&format!("{HEADER}\n{wrong}")), Err(Errno::EIO), "{wrong:?} after the version");
        }
        assert_eq!(History::parse(HEADER), Err(Errno::EIO));
    }

    #[test]
    fn history_without_a_version_is_read() {
        let text = "0 7 a b\n3 8 c\n9 5\n";
        let history = History::parse(text).unwrap();
        assert_eq!((history.layers(), history.merging, history.find("a b")), (vec![9, 3, 0], Some(5), Some(0)));
        assert_eq!(history.to_text(), format!("{HEADER}\n{text}"));
    }

    #[test]
    fn history_of_a_later_version_is_reported() {
        for text in ["plyfs history 2\n1\n", "plyfs history 10", "plyfs history 2\nanything"] {
            assert_eq!(History::parse(text), Err(LATER_VERSION), "{text:?}");
        }
    }

    /// As documented in docs/formats/union-branch.md.
    #[test]
    fn documented_history_round_trips() {
        const FORMAT_DOCUMENTATION: &str =
            include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/formats/union-branch.md"));
        let text = FORMAT_DOCUMENTATION.split_once("```\nplyfs history 1\n0 ").unwrap().1.split_once("```").unwrap().0;
        let text = format!("{HEADER}\n0 {text}");
        let history = History::parse(&text).unwrap();
        assert_eq!((history.layers(), text.len(), history.to_text()), (vec![1, 0], 37, text));
    }
}
