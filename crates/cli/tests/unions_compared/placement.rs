//! Where new files go, and what becomes of those that outgrow their branch.

use std::fs::{self, File};
use std::io::{Seek, SeekFrom, Write};

use crate::scene::{Scene, rw};
use crate::subject::Wish;
use crate::{Outcome, expect, expect_equal};

/// A small and a large file system, both empty.
fn two_sizes(scene: &Scene) {
    scene.file_system("tmpfs", "small", "size=4m");
    scene.file_system("tmpfs", "large", "size=16m");
}

/// A new file in a union whose leftmost branch is the small one.
fn goes_to_the_large_one(scene: &Scene, wish: Wish) -> Outcome {
    two_sizes(scene);
    let union = scene.try_mount(&[rw("small/b"), rw("large/b")], Some(wish))?;
    union.write("new", "new")?;
    expect_equal(union.read("new")?, "new".into(), "the new file")?;
    expect(scene.has("large/b/new") && !scene.has("small/b/new"), "it is in the small branch")
}

pub(crate) fn new_files_go_where_most_is_free(scene: &Scene) -> Outcome {
    goes_to_the_large_one(scene, Wish::MostFree)
}

pub(crate) fn branches_with_little_room_get_no_new_files(scene: &Scene) -> Outcome {
    goes_to_the_large_one(scene, Wish::MinimumFree)
}

pub(crate) fn files_move_when_their_branch_is_full(scene: &Scene) -> Outcome {
    two_sizes(scene);
    scene.files(&["small/b/f"]);
    let union = scene.try_mount(&[rw("large/b"), rw("small/b")], Some(Wish::MoveWhenFull))?;
    let mut file = File::options().write(true).open(union.path("f"))?;
    file.seek(SeekFrom::End(0))?;
    for _ in 0..6 {
        file.write_all(&vec![b'x'; 1 << 20])?;
    }
    drop(file);
    let data = fs::read(union.path("f"))?;
    let head = b"small/b/f";
    expect(data.starts_with(head) && data.len() == head.len() + (6 << 20), format!("{} bytes are there", data.len()))?;
    expect(scene.has("large/b/f"), "it is not in the large branch")
}
