//! Every sample program stacked on every other one, merged into one layer where possible and as two layers: the
//! results of all operations are the same.

use std::fmt::Write;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use stack::syntax;
use vnode::{
    AccessMode, Caller, Control, Cookie, Creation, FileSystemRef, LockOwner, Name, OpenFlags, RenameMode, Result,
    SetAttributes, VnodeRef, XattrMode,
};

/// Returns the FiST programs of the samples and of the suite that are stacked on one file system.
fn descriptions() -> Vec<PathBuf> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut paths = Vec::new();
    for directory in [here.join("../../examples/fist"), here.join("descriptions")] {
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            let has_one_lower = path.extension().is_some_and(|extension| extension == "fist")
                && stack::fan_out(&path).is_ok_and(|branches| branches == 1);
            if has_one_lower {
                paths.push(path.canonicalize().unwrap());
            }
        }
    }
    paths.sort();
    paths
}

fn build(upper: &Path, lower: &Path, options: &str) -> FileSystemRef {
    let text = format!("mem: | {}{options} | {}{options}", lower.display(), upper.display());
    stack::build(&syntax::parse(&text).unwrap()).unwrap()
}

/// Returns whether the two programs are merged into one layer.
fn is_one_layer(file_system: &FileSystemRef) -> bool {
    file_system.describe().last().is_some_and(|topmost| topmost.details.contains("in one layer with"))
}

/// A file system, and a transcript of the operations on it with their results.
struct RecordedSession {
    file_system: FileSystemRef,
    transcript: String,
}

impl RecordedSession {
    fn record<T: std::fmt::Debug>(&mut self, what: &str, caller: &Caller, answer: Result<T>) -> Option<T> {
        match &answer {
            Ok(value) => writeln!(self.transcript, "{} {what}: {value:?}", caller.uid),
            Err(error) => writeln!(self.transcript, "{} {what}: {error}", caller.uid),
        }
        .unwrap();
        answer.ok()
    }

    fn find(&self, caller: &Caller, path: &str) -> Result<VnodeRef> {
        let mut vnode = self.file_system.root();
        for name in path.split('/').filter(|name| !name.is_empty()) {
            vnode = vnode.lookup(caller, Name::new(name.as_bytes())?)?.vnode;
        }
        Ok(vnode)
    }

    /// Returns the directory that contains a path's last component, and that component.
    fn parent_and_name<'p>(&self, caller: &Caller, path: &'p str) -> Result<(VnodeRef, Name<'p>)> {
        let (directory, name) = path.rsplit_once('/').unwrap_or(("", path));
        Ok((self.find(caller, directory)?, Name::new(name.as_bytes())?))
    }

    /// Sets keys and other settings by every ioctl that a program declares.
    fn set_up(&mut self) {
        let kinds: Vec<_> = self.file_system.describe().into_iter().map(|member| member.kind).collect();
        for target in kinds.into_iter().filter(|kind| kind.ends_with(".fist")) {
            let control = Control { target, command: "ioctls".to_owned(), arguments: Vec::new() };
            let declared: serde_json::Value =
                serde_json::from_str(&self.file_system.control(&control).unwrap()).unwrap();
            for ioctl in declared.as_array().unwrap() {
                let command = ioctl["command"].as_u64().unwrap() as u32;
                let input: Vec<u8> = (1..=ioctl["bytes"].as_u64().unwrap() as u8).collect();
                let mut output = vec![0; input.len()];
                let answer = self.file_system.root().ioctl(&Caller::server(), command, &input, &mut output);
                self.record("ioctl", &Caller::server(), answer.map(|number| (number, output)));
            }
        }
    }

    fn make(&mut self, caller: &Caller, path: &str, data: &[u8]) {
        let how = Creation { mode: 0o644, flags: OpenFlags::READ_WRITE };
        let created =
            self.parent_and_name(caller, path).and_then(|(directory, name)| directory.create(caller, name, &how));
        let created = created.map(|created| created.file);
        let written = created.and_then(|file| {
            let written = file.write_at(caller, 0, data)?;
            file.flush(caller, &LockOwner::Number(1))?;
            Ok(written)
        });
        self.record(&format!("make {path}"), caller, written);
    }

    fn write(&mut self, caller: &Caller, path: &str, offset: u64, data: &[u8]) {
        let written = self.find(caller, path).and_then(|vnode| {
            let file = vnode.open(caller, OpenFlags::READ_WRITE)?;
            file.write_at(caller, offset, data)
        });
        self.record(&format!("write {path} at {offset}"), caller, written);
    }

    fn inspect(&mut self, caller: &Caller, path: &str) {
        let attributes = self.find(caller, path).and_then(|vnode| vnode.getattr(caller));
        let attributes = attributes.map(|all| (all.kind, all.mode, all.uid, all.gid, all.size, all.nlink));
        self.record(&format!("see {path}"), caller, attributes);
        let read = self.find(caller, path).and_then(|vnode| vnode.open(caller, OpenFlags::READ)).and_then(|file| {
            let mut data = vec![0; 300_000];
            let read = file.read_at(caller, 0, &mut data)?;
            let sum = data[..read].iter().fold(7_u64, |sum, byte| sum.wrapping_mul(31).wrapping_add(u64::from(*byte)));
            Ok((read, sum))
        });
        self.record(&format!("read {path}"), caller, read);
    }

    fn list(&mut self, caller: &Caller, path: &str) {
        let listed = self.find(caller, path).and_then(|vnode| vnode.open_directory(caller)).and_then(|directory| {
            let mut names = Vec::new();
            directory.read(caller, Cookie::START, &mut |entry| {
                names.push(String::from_utf8_lossy(entry.name.as_bytes()).into_owned());
                ControlFlow::Continue(())
            })?;
            names.sort();
            Ok(names)
        });
        self.record(&format!("list {path}"), caller, listed);
    }

    fn rename(&mut self, caller: &Caller, from: &str, to: &str) {
        let renamed = self.parent_and_name(caller, from).and_then(|(directory, name)| {
            let (to_directory, to_name) = self.parent_and_name(caller, to)?;
            directory.rename(caller, name, &to_directory, to_name, RenameMode::Replace)
        });
        self.record(&format!("rename {from} {to}"), caller, renamed);
    }

    fn remove(&mut self, caller: &Caller, path: &str) {
        let removed = self.parent_and_name(caller, path).and_then(|(directory, name)| directory.unlink(caller, name));
        self.record(&format!("remove {path}"), caller, removed);
    }

    fn change(&mut self, caller: &Caller, path: &str, changes: &SetAttributes) {
        let changed = self.find(caller, path).and_then(|vnode| vnode.setattr(caller, changes));
        self.record(&format!("change {path}"), caller, changed.map(|all| (all.mode, all.uid, all.size)));
    }

    /// Runs each operation once.
    fn run_all_operations(&mut self, caller: &Caller, directory: &str) {
        let at = |name: &str| format!("{directory}/{name}");
        let created =
            self.parent_and_name(caller, directory).and_then(|(upper, name)| upper.mkdir(caller, name, 0o755));
        self.record("mkdir", caller, created.map(drop));
        let long: Vec<u8> = (0..200_000_u32).map(|byte| (byte % 251 % 90 + 32) as u8).collect();
        for (name, data) in
            [("a", &b"some data"[..]), ("1007", &long), (".hidden", b"dot"), ("b.txt", b""), ("c", &long[..5000])]
        {
            self.make(caller, &at(name), data);
        }
        self.write(caller, &at("1007"), 70_000, b"in the middle");
        self.write(caller, &at("b.txt"), 20_000, b"behind a hole");
        self.change(caller, &at("c"), &SetAttributes { size: Some(100), ..Default::default() });
        self.change(caller, &at("c"), &SetAttributes { size: Some(9000), ..Default::default() });
        self.change(caller, &at("a"), &SetAttributes { mode: Some(0o600), ..Default::default() });
        self.list(caller, directory);
        self.rename(caller, &at("a"), &at("renamed"));
        self.rename(caller, &at("b.txt"), "/b.txt");
        let other = Caller::with_groups(77, 77, &[], 0o022);
        for caller in [caller, &other, &Caller::server()] {
            for name in ["a", "renamed", "1007", ".hidden", "c", "../b.txt", "nothing"] {
                self.inspect(caller, &at(name));
            }
            let accessed = self.find(caller, &at("renamed")).and_then(|vnode| vnode.access(caller, AccessMode::READ));
            self.record("access", caller, accessed);
            self.remove(caller, &at("c"));
        }
        let linked = self
            .parent_and_name(caller, &at("link"))
            .and_then(|(parent, name)| parent.symlink(caller, name, b"renamed"));
        self.record("symlink", caller, linked.map(drop));
        let target = self.find(caller, &at("link")).and_then(|vnode| vnode.readlink(caller));
        self.record("readlink", caller, target);
        let names = self.find(caller, &at("renamed")).and_then(|vnode| {
            vnode.setxattr(caller, b"user.note", b"value", XattrMode::Set)?;
            vnode.listxattr(caller)
        });
        self.record("xattr", caller, names);
        self.remove(caller, &at("1007"));
        self.list(caller, directory);
        self.list(caller, "/");
        let removed = self.parent_and_name(caller, directory).and_then(|(upper, name)| upper.rmdir(caller, name));
        self.record("rmdir", caller, removed);
    }
}

fn session(upper: &Path, lower: &Path, options: &str) -> (String, bool) {
    let file_system = build(upper, lower, options);
    let is_one = is_one_layer(&file_system);
    let mut session = RecordedSession { file_system, transcript: String::new() };
    session.set_up();
    let root = SetAttributes { mode: Some(0o777), ..Default::default() };
    session.change(&Caller::server(), "", &root);
    for user in [0, 77, 1000] {
        session.run_all_operations(&Caller::with_groups(user, user, &[], 0o022), &format!("/of{user}"));
    }
    (session.transcript, is_one)
}

#[test]
fn descriptions_behave_the_same_as_one_layer() {
    let descriptions = descriptions();
    let (mut pairs, mut collapsed) = (0, 0);
    for upper in &descriptions {
        for lower in &descriptions {
            pairs += 1;
            // Programs that cannot be merged give the same stack in both cases.
            if !is_one_layer(&build(upper, lower, "")) {
                continue;
            }
            collapsed += 1;
            let (stacked, is_one) = session(upper, lower, "(collapse=no)");
            assert!(!is_one);
            let (merged, _) = session(upper, lower, "");
            for (one, other) in stacked.lines().zip(merged.lines()) {
                assert_eq!(one, other, "{} on {}", upper.display(), lower.display());
            }
            assert_eq!(stacked.len(), merged.len());
        }
    }
    println!("{collapsed} of {pairs} pairs of descriptions are one layer");
    assert!(collapsed * 4 > pairs, "hardly any can be one: {collapsed} of {pairs}");
}
