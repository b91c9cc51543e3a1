//! The four listings of the paper (E. Zadok and J. Nieh, "FiST: A Language for Stackable File Systems", section 4), as they are
//! printed: read, checked, laid out, and run.

use vnode::{Caller, Errno, RenameMode, SetAttributes};

use super::{TIERS, command, described, in_both_tiers, logged, name, names_in, read, user, write};

const SNOOPFS: &str = include_str!("../../../fist/tests/paper/snoopfs.fist");
const CRYPTFS: &str = include_str!("../../../fist/tests/paper/cryptfs.fist");
const ACLFS: &str = include_str!("../../../fist/tests/paper/aclfs.fist");
const UNIONFS: &str = include_str!("../../../fist/tests/paper/unionfs.fist");

/// The functions that the paper leaves out of Cryptfs: names are written with hexadecimal digits, in memory that is allocated, as
/// section 2.3.3 has it.
const LEFT_OUT: &str = r#"
int cryptfs_decode_data(const page_t *in, page_t *out)
{
  int n = 0;
  unsigned char iv[8];
  fistMemCpy(iv, global_iv, 8);
  BF_cfb64_encrypt(in, out, %pagesize, &($vfs.key), iv, &n, BF_DECRYPT);
  return %pagesize;
}
static const char digits[] = "0123456789abcdef";
int cryptfs_encode_name(const char *name, int length, char **encoded)
{
  int n = 0;
  unsigned char iv[8], *coded = fistMalloc(length);
  char *made = fistMalloc(2 * length);
  fistMemCpy(iv, global_iv, 8);
  BF_cfb64_encrypt(name, coded, length, &($vfs.key), iv, &n, BF_ENCRYPT);
  for (int i = 0; i < length; i++) {
    made[2 * i] = digits[coded[i] >> 4];
    made[2 * i + 1] = digits[coded[i] & 15];
  }
  *encoded = made;
  return 2 * length;
}
static int digit(int c)
{
  for (int i = 0; i < 16; i++)
    if (digits[i] == c)
      return i;
  return -1;
}
int cryptfs_decode_name(const char *name, int length, char **decoded)
{
  int n = 0;
  unsigned char iv[8], *coded = fistMalloc(length / 2);
  char *made = fistMalloc(length / 2);
  for (int i = 0; i < length / 2; i++) {
    if (digit(name[2 * i]) < 0 || digit(name[2 * i + 1]) < 0)
      return -EINVAL;
    coded[i] = digit(name[2 * i]) << 4 | digit(name[2 * i + 1]);
  }
  fistMemCpy(iv, global_iv, 8);
  BF_cfb64_encrypt(coded, made, length / 2, &($vfs.key), iv, &n, BF_DECRYPT);
  *decoded = made;
  return length / 2;
}
"#;

#[test]
fn the_listings_are_read_checked_and_laid_out() {
    let cryptfs = format!("{CRYPTFS}{LEFT_OUT}");
    for (called, text, warnings) in [
        ("snoopfs.fist", SNOOPFS, &["F0303"][..]),
        ("cryptfs.fist", &cryptfs, &["F0305", "F0305"]),
        ("aclfs.fist", ACLFS, &["F0303"]),
        ("unionfs.fist", UNIONFS, &[]),
    ] {
        let loaded = fist::load::Loaded::of(called, text.to_owned());
        let codes: Vec<_> = loaded.diagnostics.iter().map(|diagnostic| diagnostic.code.name()).collect();
        assert_eq!(codes, warnings, "{called}");
        assert!(loaded.program.is_some(), "{called}");
        let laid_out = fist::fmt::format(text).expect("it can be read");
        assert!(fist::load::Loaded::of(called, laid_out).program.is_some(), "{called}");
    }
}

/// Section 4.1: whoever is neither root nor the owner, and is denied or finds nothing, is told of.
#[test]
fn snoopfs() {
    for tier in TIERS {
        let log = logged(|| {
            let mount = described("snoopfs", SNOOPFS, &[("errno", "EACCES:EPERM"), ("tier", tier)]);
            let root = mount.root();
            root.setattr(&Caller::server(), &SetAttributes { mode: Some(0o777), ..Default::default() }).unwrap();
            let private = root.mkdir(&user(1000), name("private"), 0o700).unwrap().vnode;
            write(&private, &user(1000), "file", b"secret").unwrap();
            write(&root, &user(1000), "open", b"text").unwrap();
            assert_eq!(private.lookup(&user(1001), name("file")).err(), Some(Errno::EACCES), "as it is below");
            assert_eq!(root.lookup(&user(1002), name("nothing")).err(), Some(Errno::ENOENT));
            // Nobody is told of who may.
            assert_eq!(read(&private, &user(1000), "file").unwrap(), b"secret");
            assert_eq!(read(&root, &user(1003), "open").unwrap(), b"text");
            assert_eq!(root.lookup(&Caller::server(), name("nothing")).err(), Some(Errno::ENOENT));
        });
        let told: Vec<_> = log.lines().filter(|line| line.contains("snoopfs detected access")).collect();
        assert_eq!(told.len(), 2, "{log}");
        assert!(told[0].contains("by uid 1001,pid 0, to file file"), "{log}");
        assert!(told[1].contains("by uid 1002,pid 0, to file nothing"), "{log}");
    }
}

/// Section 4.2: data and names are enciphered below, with the key that was set.
#[test]
fn cryptfs() {
    let text = format!("{CRYPTFS}{LEFT_OUT}");
    in_both_tiers("cryptfs", &text, |mount| {
        let (root, server) = (mount.root(), Caller::server());
        let set = |key: &[u8; 16]| {
            mount.ioctl(&root, &server, command("cryptfs", &text, "SETKEY"), &mut key.clone()).unwrap()
        };
        set(b"0123456789abcdef");
        let plain = "a text that is longer than a block\n".repeat(300);
        write(&root, &server, "name", plain.as_bytes()).unwrap();
        assert_eq!(names_in(&root), ["name"]);
        assert_eq!(read(&root, &server, "name").unwrap(), plain.as_bytes());
        let below = mount.root_below(0);
        let names = names_in(&below);
        assert!(names.len() == 1 && names[0].len() == 8 && names[0] != "name", "{names:?}");
        let enciphered = read(&below, &server, &names[0]).unwrap();
        assert_eq!(enciphered.len(), plain.len());
        assert!(!enciphered.windows(5).any(|bytes| bytes == b"block"));
        set(b"another key here");
        assert!(!names_in(&root).contains(&"name".to_owned()));
        set(b"0123456789abcdef");
        assert_eq!(read(&root, &server, "name").unwrap(), plain.as_bytes());
    });
}

/// Section 4.3: one more user and group search a directory as its owner and group do.
#[test]
fn aclfs() {
    for tier in TIERS {
        let mount = described("aclfs", ACLFS, &[("errno", "EACCES:EPERM"), ("tier", tier)]);
        let root = mount.root();
        root.setattr(&Caller::server(), &SetAttributes { mode: Some(0o777), ..Default::default() }).unwrap();
        let owner = user(1000);
        let private = root.mkdir(&owner, name("private"), 0o700).unwrap().vnode;
        write(&private, &owner, "file", b"for friends").unwrap();
        let (friend, member, stranger) = (user(1001), Caller::with_groups(1002, 5, &[], 0o022), user(1003));
        assert_eq!(read(&private, &friend, "file"), Err(Errno::EACCES));
        let set = |caller: &Caller| {
            let mut data = [1001_u32.to_le_bytes(), 5_u32.to_le_bytes()].concat();
            mount.ioctl(&private, caller, command("aclfs", ACLFS, "SETACL"), &mut data)
        };
        assert_eq!((set(&friend), set(&owner)), (Err(Errno::EPERM), Ok(0)));
        assert_eq!(read(&private, &friend, "file").unwrap(), b"for friends");
        assert_eq!(read(&private, &member, "file").unwrap(), b"for friends");
        assert_eq!(read(&private, &stranger, "file"), Err(Errno::EACCES));
        // The list is hidden from all but the owner, and nobody sees it listed.
        assert_eq!(read(&private, &friend, ".acl"), Err(Errno::ENOENT));
        assert_eq!(read(&private, &owner, ".acl").unwrap().len(), 8);
        assert_eq!(names_in(&private), ["file"]);
    }
}

/// Section 4.4: two file systems as one, of which the first hides what the second has.
#[test]
fn unionfs() {
    in_both_tiers("unionfs", UNIONFS, |mount| {
        let (root, server) = (mount.root(), Caller::server());
        let (first, second) = (mount.root_below(0), mount.root_below(1));
        write(&first, &server, "both", b"first").unwrap();
        write(&second, &server, "both", b"second").unwrap();
        write(&second, &server, "lower", b"lower").unwrap();
        assert_eq!(names_in(&root), ["both", "lower"]);
        assert_eq!(read(&root, &server, "both").unwrap(), b"first");
        assert_eq!(read(&root, &server, "lower").unwrap(), b"lower");
        root.rename(&server, name("both"), &root, name("moved"), RenameMode::Replace).unwrap();
        assert_eq!((names_in(&first), names_in(&second).len()), (vec!["moved".to_owned()], 2));
        assert_eq!(names_in(&root), ["lower", "moved"]);
        root.unlink(&server, name("moved")).unwrap();
        assert_eq!((names_in(&first).len(), names_in(&second)), (0, vec!["lower".to_owned()]));
        write(&root, &server, "new", b"new").unwrap();
        root.mkdir(&server, name("directory"), 0o755).unwrap();
        assert_eq!(
            (names_in(&first), names_in(&second)),
            (vec!["directory".to_owned(), "new".to_owned()], vec!["lower".to_owned()],)
        );
        root.unlink(&server, name("lower")).unwrap();
        assert_eq!(names_in(&root), ["directory", "new"]);
    });
}
