//! Stacks on file systems with injected faults, and the visible state of a stack.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use vnode::{
    Caller, Control, Cookie, Creation, FileKind, FileSystemRef, InodeNumber, Name, OpenFlags, VnodeRef, XattrMode,
    read_fully, write_fully,
};

use super::stack::Stack;

/// Size in bytes of the file that operations work on: three blocks of a page and a partial one.
pub(crate) const FILE_BYTES: usize = 3 * 4096 + 100;

/// The lower file systems, which fail on command.
pub struct Below(Vec<FileSystemRef>);

impl Below {
    /// Takes the lower file systems, each with the layer `faulty` on top.
    pub fn of(below: Vec<FileSystemRef>) -> Self {
        Self(below)
    }

    /// Sets one rule or none for one of them, and restarts its call counters.
    pub fn set(&self, branch: usize, rule: &[(&str, &str)]) {
        send_command(&self.0[branch], "set", rule);
        send_command(&self.0[branch], "on", &[]);
    }

    /// Sets one rule for each of them.
    pub fn set_all(&self, rule: &[(&str, &str)]) {
        (0..self.0.len()).for_each(|branch| self.set(branch, rule));
    }

    /// Disables all rules.
    pub fn off(&self) {
        self.0.iter().for_each(|below| drop(send_command(below, "off", &[])));
    }

    /// Returns the value of a counter of one of them since its rules were set.
    pub fn count(&self, branch: usize, counted: &str) -> u64 {
        let stats = send_command(&self.0[branch], "stats", &[]);
        let count = stats.split(' ').find_map(|word| word.strip_prefix(counted)?.strip_prefix('='));
        count.and_then(|number| number.parse().ok()).unwrap_or_else(|| panic!("{stats}"))
    }
}

fn send_command(below: &FileSystemRef, command: &str, arguments: &[(&str, &str)]) -> String {
    let arguments = arguments.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    let control = Control { target: "faulty".to_owned(), command: command.to_owned(), arguments };
    below.control(&control).unwrap_or_else(|error| panic!("{command}: {error}"))
}

/// A stack on a tree.
pub(crate) struct FaultFixture<'s> {
    stack: &'s dyn Stack,
    pub below: Below,
    pub root: VnodeRef,
    /// Keeps the stack alive as long as the fixture.
    top: FileSystemRef,
}

impl<'s> FaultFixture<'s> {
    /// Builds the stack on a new tree.
    pub(crate) fn new(stack: &'s dyn Stack) -> Self {
        let new = || (0..stack.width()).map(|_| stack.below()).collect::<Vec<_>>();
        let below = Below::of(new());
        below.off();
        if stack.spreads() {
            fill(&stack.build_writable(below.0.clone()).root());
        } else {
            // All of it is in the last file system, as seen through the stack.
            let last = below.0.last().cloned();
            let others = new().into_iter().skip(1);
            fill(&stack.build_writable(last.into_iter().chain(others).collect()).root());
        }
        let top = stack.build(below.0.clone());
        Self { stack, below, root: top.root(), top }
    }

    /// Returns the visible state.
    pub(crate) fn state(&self) -> State {
        state_of(&self.root)
    }

    /// Ends the stack, and returns the visible state after a restart.
    pub(crate) fn state_of_new_stack(self) -> State {
        let Self { stack, below, root, top } = self;
        drop((root, top));
        state_of(&stack.build(below.0).root())
    }
}

/// Returns a name.
pub(crate) fn name(text: &str) -> Name<'_> {
    Name::new(text.as_bytes()).expect("the names of scenes can be names")
}

/// Creates the tree that operations work on.
fn fill(root: &VnodeRef) {
    let server = Caller::server();
    let file = |directory: &VnodeRef, text: &str, bytes: usize| {
        let how = Creation { mode: 0o644, flags: OpenFlags::READ_WRITE };
        let created = directory.create(&server, name(text), &how).unwrap();
        write_fully(&*created.file, &server, 0, &pattern(bytes, text.len() as u8)).unwrap();
        created.entry.vnode
    };
    let target = file(root, "file", FILE_BYTES);
    target.setxattr(&server, b"user.kept", b"value", XattrMode::Set).unwrap();
    file(root, "other", 5_000);
    let directory = root.mkdir(&server, name("directory"), 0o755).unwrap().vnode;
    let inner = file(&directory, "inner", 700);
    root.link(&server, &inner, name("second name")).unwrap();
    directory.mkdir(&server, name("below"), 0o755).unwrap();
    root.mkdir(&server, name("empty"), 0o755).unwrap();
    root.symlink(&server, name("symlink"), b"file").unwrap();
}

/// Returns bytes that differ by position.
pub fn pattern(bytes: usize, salt: u8) -> Vec<u8> {
    (0..bytes)
        .map(|index| (index as u8).wrapping_mul(31).wrapping_add((index >> 8) as u8).wrapping_add(salt) | 1)
        .collect()
}

/// The attributes and data of an object, except for its times.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Object {
    attributes: String,
    /// Data of a file, unless its size differs from the reported one or it cannot be read.
    data: Option<Vec<u8>>,
}

impl Object {
    fn from_text(text: String) -> Self {
        Self { attributes: text, data: None }
    }

    /// Returns whether it equals one or the other, except for data that are partly from one and partly from the other.
    fn is_between(&self, before: &Self, after: &Self) -> bool {
        let (Some(data), Some(old), Some(new)) = (&self.data, &before.data, &after.data) else {
            return self == before || self == after;
        };
        let is_of_one = |(place, byte): (usize, &u8)| [old, new].iter().any(|one| one.get(place) == Some(byte));
        [before, after].iter().any(|one| one.attributes == self.attributes)
            && [old, new].iter().any(|one| one.len() == data.len())
            && data.iter().enumerate().all(is_of_one)
    }
}

/// Objects by path.
pub type State = BTreeMap<String, Object>;

/// Returns whether a state equals one or the other, except for data of files: storage writes byte by byte.
pub(crate) fn is_between(state: &State, before: &State, after: &State) -> bool {
    if state.keys().ne(before.keys()) || state.keys().ne(after.keys()) {
        return state == before || state == after;
    }
    state.iter().all(|(path, object)| object.is_between(&before[path], &after[path]))
}

/// Returns the state visible from a root.
pub fn state_of(root: &VnodeRef) -> State {
    let mut state = State::new();
    let mut names = BTreeMap::new();
    describe(root, "/", &mut state, &mut names);
    for paths in names.into_values().filter(|paths: &Vec<String>| paths.len() > 1) {
        state.insert(format!("names {}", paths.join(" ")), Object::from_text("of one object".to_owned()));
    }
    state
}

/// Adds an object and everything below it to the state, and the paths of each object other than a directory by its inode
/// number.
fn describe(node: &VnodeRef, path: &str, state: &mut State, names: &mut BTreeMap<InodeNumber, Vec<String>>) {
    let server = Caller::server();
    let attributes = node.getattr(&server).unwrap_or_else(|error| panic!("{path}: {error}"));
    let links = if attributes.is_directory() { 0 } else { attributes.nlink };
    let (what, data) = match node.kind() {
        FileKind::Regular => (String::new(), data_of(node)),
        FileKind::Symlink => (format!("to {:?}", String::from_utf8_lossy(&node.readlink(&server).unwrap())), None),
        _ => Default::default(),
    };
    let listed = node.listxattr(&server).unwrap();
    let mut xattrs: Vec<_> = listed
        .split(|byte| *byte == 0)
        .filter(|listed| !listed.is_empty())
        .map(|listed| (String::from_utf8_lossy(listed).into_owned(), node.getxattr(&server, listed)))
        .collect();
    xattrs.sort_by(|(first, _), (second, _)| first.cmp(second));
    let (mode, uid, gid) = (attributes.full_mode(), attributes.uid, attributes.gid);
    let attributes_text = format!("{mode:o} {uid}:{gid} {links} names {xattrs:?} {what}");
    state.insert(path.to_owned(), Object { attributes: attributes_text, data });
    if node.kind() != FileKind::Directory {
        names.entry(attributes.ino).or_default().push(path.to_owned());
        return;
    }
    let mut entries = Vec::new();
    let open = node.open_directory(&server).unwrap();
    open.read(&server, Cookie::START, &mut |entry| {
        entries.push(String::from_utf8_lossy(entry.name.as_bytes()).into_owned());
        ControlFlow::Continue(())
    })
    .unwrap();
    entries.sort();
    for entry in entries {
        let path = format!("{}/{entry}", path.trim_end_matches('/'));
        let found = node.lookup(&server, name(&entry)).unwrap_or_else(|error| panic!("{path} is listed: {error}"));
        describe(&found.vnode, &path, state, names);
    }
}

/// Returns all data of a file whose length matches the reported size.
fn data_of(node: &VnodeRef) -> Option<Vec<u8>> {
    let server = Caller::server();
    let size = node.getattr(&server).unwrap().size as usize;
    let mut data = vec![0; size + 1];
    let file = node.open(&server, OpenFlags::READ).unwrap();
    let length = read_fully(&*file, &server, 0, &mut data).ok()?;
    data.truncate(length);
    (length == size).then_some(data)
}

/// Describes an object in one line.
fn describe_object(object: Option<&Object>) -> String {
    let Some(Object { attributes, data }) = object else { return "nothing".to_owned() };
    let digest = |data: &Vec<u8>| {
        let sum = data.iter().fold(7_u64, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3));
        format!("{} bytes, {sum:x}", data.len())
    };
    format!("{attributes}{}", data.as_ref().map_or_else(String::new, digest))
}

/// Returns the differences, one per line.
pub fn difference(expected: &State, found: &State) -> String {
    let paths: std::collections::BTreeSet<_> = expected.keys().chain(found.keys()).collect();
    let lines = paths.into_iter().filter(|path| expected.get(*path) != found.get(*path));
    let line = |path: &String| {
        let [expected, found] = [expected, found].map(|state| describe_object(state.get(path)));
        format!("    {path}: {found}, not {expected}")
    };
    lines.map(line).collect::<Vec<_>>().join("\n")
}
