//! Makes the first inputs of the corpus: `seeds DIRECTORY` volumes of FAT, `seeds DIRECTORY IMAGE...` inputs of images.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::{env, fs};

use bases::device::MemoryDevice;
use bases::fat::format::FatWidth;
use bases::fat::{FatFileSystem, MetadataMode, Options};
use image_fuzz::Input;
use vnode::{Caller, Creation, FileKind, FileSystem, Name, OpenFlags, VnodeRef, XattrMode};

fn main() {
    let mut arguments = env::args().skip(1);
    let directory = arguments.next().expect("usage: seeds DIRECTORY [IMAGE...]");
    let images: Vec<String> = arguments.collect();
    let write = |name: &str, input: &Input| fs::write(Path::new(&directory).join(name), input.to_bytes()).unwrap();
    for path in &images {
        let name = Path::new(path).file_stem().unwrap().to_str().unwrap();
        write(name, &Input::of_image(&fs::read(path).unwrap()));
    }
    if images.is_empty() {
        for (width, size) in [(FatWidth::Fat12, 96 << 10), (FatWidth::Fat16, 2200 << 10), (FatWidth::Fat32, 160 << 10)]
        {
            for metadata in [MetadataMode::None, MetadataMode::Sidecar] {
                let device = volume(width, size, metadata);
                let name = format!("{width:?}-{metadata:?}").to_lowercase();
                let choices = [0, u8::from(metadata == MetadataMode::Sidecar) * 2, 0, 0, 0, 0, 0, 0, 0, 0];
                write(&name, &Input::of_image(&device.contents()).with_choices(choices));
            }
        }
    }
}

/// Returns a small volume with objects of all kinds.
fn volume(width: FatWidth, size: u64, metadata: MetadataMode) -> MemoryDevice {
    let device = Arc::new(MemoryDevice::from_bytes(&formatted(width, size)));
    let file_system = FatFileSystem::open(device.clone(), "seed", Options { metadata, ..Options::default() }).unwrap();
    fill(&file_system.root(), metadata == MetadataMode::Sidecar);
    file_system.end().unwrap();
    drop(file_system);
    MemoryDevice::clone(&device)
}

/// Returns an empty volume, by mkfs.fat(8): it makes FAT32 of any size.
fn formatted(width: FatWidth, size: u64) -> Vec<u8> {
    let path = env::temp_dir().join(format!("seed-{}", std::process::id()));
    fs::write(&path, vec![0; size as usize]).unwrap();
    let own: &[&str] = match width {
        FatWidth::Fat12 => &["-F", "12", "-r", "64"],
        FatWidth::Fat16 => &["-F", "16", "-r", "64"],
        FatWidth::Fat32 => &["-F", "32", "-R", "8"],
    };
    let status = Command::new("mkfs.fat").args(own).args(["-s", "1", "-i", "1"]).arg(&path).status().unwrap();
    assert!(status.success(), "mkfs.fat is in dosfstools");
    let image = fs::read(&path).unwrap();
    fs::remove_file(path).unwrap();
    image
}

fn fill(root: &VnodeRef, has_metadata: bool) {
    let (caller, name) = (Caller::server(), |text: &'static str| Name::new(text.as_bytes()).unwrap());
    let how = Creation { mode: 0o644, flags: OpenFlags::WRITE };
    for (text, size) in [("A.TXT", 10), ("empty", 0), ("A long name of a file.text", 3000), ("b", 1024)] {
        let file = root.create(&caller, name(text), &how).unwrap().file;
        if size > 0 {
            file.write_at(&caller, 0, &vec![b'x'; size]).unwrap();
        }
    }
    let directory = root.mkdir(&caller, name("directory"), 0o755).unwrap().vnode;
    let inner = directory.mkdir(&caller, name("inner"), 0o755).unwrap().vnode;
    inner.create(&caller, name("leaf"), &how).unwrap().file.write_at(&caller, 0, b"leaf").unwrap();
    root.unlink(&caller, name("b")).unwrap();
    if has_metadata {
        root.symlink(&caller, name("link"), b"directory/inner").unwrap();
        let fifo = directory.mknod(&caller, name("fifo"), FileKind::Fifo, 0o600, Default::default()).unwrap().vnode;
        fifo.setxattr(&caller, b"trusted.x", b"value", XattrMode::Set).unwrap();
    }
}
