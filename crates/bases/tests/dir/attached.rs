//! A directory from elsewhere that appears in the root: its objects are those of the tree, and nothing takes its name.

use plyfs_bases::dir::{Attachment, DirectoryFileSystem, OpenError, Options};
use vnode::{Caller, Errno, FileSystem, NameBuf, RenameMode, VnodeRef};

use crate::fixture::{Fixture, content, create_file, entries, name, root};

const NAME: &[u8] = b".state";

fn attachment(fixture: &Fixture, directory: &str) -> Attachment {
    Attachment { name: NameBuf::new(NAME).unwrap(), directory: fixture.path.parent().unwrap().join(directory) }
}

fn open(fixture: &Fixture, attachment: &Attachment) -> Result<DirectoryFileSystem, OpenError> {
    let options = Options { file_handles: fixture.has_handles(), ..Options::default() };
    DirectoryFileSystem::open_with(&fixture.path, options, Some(attachment))
}

/// Opens the fixture's directory with another beside it, and returns both.
fn with_attached(fixture: &Fixture) -> (DirectoryFileSystem, VnodeRef) {
    let attachment = attachment(fixture, "beside");
    std::fs::create_dir_all(attachment.directory.join("below")).unwrap();
    let file_system = open(fixture, &attachment).unwrap();
    let attached = file_system.root().lookup(&root(), name(NAME)).unwrap().vnode;
    (file_system, attached)
}

#[test]
fn objects_move_between_it_and_the_rest_of_the_tree() {
    Fixture::each(|fixture| {
        let (file_system, attached) = with_attached(fixture);
        let top = file_system.root();
        let (file, open) = create_file(&attached, &root(), "f", 0o644, b"data");
        assert_eq!(file.path(), Ok(b".state/f".to_vec()));
        let below = attached.lookup(&root(), name("below")).unwrap().vnode;
        assert_eq!(below.parent(&root()).unwrap().handle(), attached.handle());
        assert_eq!(attached.parent(&root()).unwrap().handle(), top.handle());
        top.link(&root(), &file, name("linked")).unwrap();
        attached.rename(&root(), name("f"), &top, name("g"), RenameMode::NoReplace).unwrap();
        assert_eq!(std::fs::read(fixture.path.join("g")).unwrap(), b"data");
        assert_eq!(file.getattr(&root()).unwrap().nlink, 2);
        top.rename(&root(), name("g"), &below, name("h"), RenameMode::Replace).unwrap();
        assert_eq!(below.lookup(&root(), name("h")).unwrap().vnode.handle(), file.handle());
        below.unlink(&root(), name("h")).unwrap();
        top.unlink(&root(), name("linked")).unwrap();
        assert_eq!((file.getattr(&root()).unwrap().nlink, content(&open)), (0, b"data".to_vec()));
        assert_eq!(entries(&top), []);
    });
}

#[test]
fn handles_lead_to_its_objects_and_to_nothing_else_outside() {
    Fixture::each(|fixture| {
        if !fixture.has_handles() {
            return;
        }
        let (_, attached) = with_attached(fixture);
        let below = attached.lookup(&root(), name("below")).unwrap().vnode;
        std::fs::create_dir_all(fixture.path.parent().unwrap().join("besides/more")).unwrap();
        let outside = DirectoryFileSystem::open(fixture.path.parent().unwrap(), Options::default()).unwrap();
        let other = ["besides", "more"]
            .iter()
            .fold(outside.root(), |above, word| above.lookup(&root(), name(word)).unwrap().vnode);
        let again = open(fixture, &self::attachment(fixture, "beside")).unwrap();
        assert_eq!(again.resolve(&root(), &below.handle()).unwrap().path(), Ok(b".state/below".to_vec()));
        assert_eq!(again.resolve(&root(), &attached.handle()).unwrap().path(), Ok(NAME.to_vec()));
        assert_eq!(again.resolve(&root(), &other.handle()).err(), Some(Errno::ESTALE));
    });
}

#[test]
fn nothing_takes_or_removes_its_name() {
    Fixture::each(|fixture| {
        let (file_system, attached) = with_attached(fixture);
        let (top, caller) = (file_system.root(), Caller::server());
        let (file, _) = create_file(&top, &root(), "f", 0o644, b"");
        assert_eq!(top.mkdir(&caller, name(NAME), 0o755).err(), Some(Errno::EEXIST));
        assert_eq!(top.symlink(&caller, name(NAME), b"x").err(), Some(Errno::EEXIST));
        assert_eq!(top.link(&caller, &file, name(NAME)).err(), Some(Errno::EEXIST));
        assert_eq!(top.rmdir(&caller, name(NAME)), Err(Errno::EBUSY));
        assert_eq!(top.rename(&caller, name("f"), &top, name(NAME), RenameMode::Replace), Err(Errno::EBUSY));
        assert_eq!(top.rename(&caller, name(NAME), &top, name("g"), RenameMode::Replace), Err(Errno::EBUSY));
        // Elsewhere it is a name like any other.
        attached.mkdir(&caller, name(NAME), 0o755).unwrap();
        attached.rmdir(&caller, name(NAME)).unwrap();
    });
}

#[test]
fn what_cannot_be_attached_is_refused() {
    Fixture::each(|fixture| {
        let error = |directory: &str| open(fixture, &attachment(fixture, directory)).err();
        let path = |directory: &str| attachment(fixture, directory).directory;
        assert_eq!(error("nowhere"), Some(OpenError::Missing(path("nowhere"))));
        std::fs::create_dir_all(path("served/in")).unwrap();
        for directory in ["served/in", "served", "."] {
            assert_eq!(error(directory), Some(OpenError::NotBeside(path(directory))), "{directory}");
        }
        fixture.mount_below("../elsewhere", "tmpfs");
        assert_eq!(error("elsewhere"), Some(OpenError::NotBeside(path("elsewhere"))));
        std::fs::create_dir_all(path("beside")).unwrap();
        std::fs::write(fixture.path.join(".state"), "").unwrap();
        assert_eq!(error("beside"), Some(OpenError::NameTaken(NameBuf::new(NAME).unwrap())));
    });
}
