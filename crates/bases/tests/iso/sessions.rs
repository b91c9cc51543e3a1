//! Images of several sessions.

use std::fs;
use std::path::Path;

use vnode::FileSystem;

use crate::compare::{Compared, assert_same};
use crate::image::{Workshop, find, names, open, read};
use crate::source;
use crate::tools::{genisoimage, run, xorriso};

const SECTOR: u64 = 2048;

fn sources(workshop: &Workshop) -> [std::path::PathBuf; 3] {
    let paths = ["one", "two", "three"].map(|name| workshop.path(name));
    for (index, path) in paths.iter().enumerate() {
        fs::create_dir(path).unwrap();
        source::file(&path.join(format!("in {index}")), 5000 + index);
        source::file(&path.join("in all"), 100 + index);
    }
    paths
}

#[test]
fn sessions_that_are_written_one_after_another() {
    let workshop = Workshop::new();
    let sources = sources(&workshop);
    let image = workshop.path("image");
    genisoimage(&["-R"], &image, &sources[0]);
    let mut last = 0;
    for source in &sources[1..] {
        let next = fs::metadata(&image).unwrap().len().div_ceil(SECTOR * 32) * 32;
        let part = workshop.path("part");
        let (position, image_text) = (format!("{last},{next}"), image.to_str().unwrap());
        genisoimage(&["-R", "-C", &position, "-M", image_text], &part, source);
        append(&image, &part, next * SECTOR);
        last = next;
    }
    let file_system = open(&image, "");
    assert_eq!(file_system.information().sessions.len(), 3);
    assert_eq!(names(&file_system.root()), ["in 0", "in 1", "in 2", "in all"]);
    let contents = |options: &str, name: &str| read(&find(&open(&image, options), name).unwrap()).unwrap();
    for (index, source) in sources.iter().enumerate() {
        let options = format!("session={}", index + 1);
        assert_eq!(contents(&options, "in all"), fs::read(source.join("in all")).unwrap());
        let by_start = format!("start={}", file_system.information().sessions[index].start);
        assert_eq!(contents(&by_start, "in all"), fs::read(source.join("in all")).unwrap());
        let name = format!("in {index}");
        assert_eq!(contents("", &name), fs::read(source.join(&name)).unwrap());
    }
    assert_same(&open(&image, "session=1"), &sources[0], Compared::All);
}

#[test]
fn sessions_that_xorriso_adds() {
    let workshop = Workshop::new();
    let sources = sources(&workshop);
    let image = workshop.path("image");
    for (index, source) in sources.iter().enumerate() {
        let target = format!("/dir {index}");
        let arguments = ["-dev", image.to_str().unwrap(), "-map", source.to_str().unwrap(), &target, "-commit", "-end"];
        run("xorriso", &arguments, &[]);
    }
    let file_system = open(&image, "");
    assert_eq!(names(&file_system.root()), ["dir 0", "dir 1", "dir 2"]);
    assert_eq!(file_system.information().sessions.len(), 3);
    assert_eq!(names(&open(&image, "session=2").root()), ["dir 0", "dir 1"]);
    assert_eq!(names(&open(&image, "session=1").root()), ["dir 0"]);
    let file = find(&file_system, "dir 1/in 1").unwrap();
    assert_eq!(read(&file).unwrap(), fs::read(sources[1].join("in 1")).unwrap());
}

#[test]
fn a_session_that_is_added_to_an_image_of_one() {
    let workshop = Workshop::new();
    let sources = sources(&workshop);
    let image = workshop.path("image");
    xorriso(&["-R"], &image, &sources[0]);
    let arguments =
        ["-dev", image.to_str().unwrap(), "-map", sources[1].to_str().unwrap(), "/added", "-commit", "-end"];
    run("xorriso", &arguments, &[]);
    let file_system = open(&image, "");
    assert_eq!(names(&file_system.root()), ["added", "in 0", "in all"]);
    assert_eq!(file_system.information().sessions.len(), 1, "the descriptors of the first are overwritten");
}

/// Writes a part at this offset of an image.
fn append(image: &Path, part: &Path, offset: u64) {
    let mut bytes = fs::read(image).unwrap();
    bytes.resize(offset as usize, 0);
    bytes.extend(fs::read(part).unwrap());
    fs::write(image, bytes).unwrap();
}
