//! mtools: a program for each operation on a volume.
use std::ffi::OsString;
use std::path::Path;
use std::process::Command;

use anyhow::Result;

use super::loop_image::LoopImage;
use crate::programs::run_logged;
use crate::slices::SubjectTurn;

/// mtools on the volume of an image.
pub(crate) struct Mtools<'a> {
    image: &'a LoopImage,
    turn: SubjectTurn,
}

impl<'a> Mtools<'a> {
    /// Returns the tools for that image.
    pub(crate) fn new(image: &'a LoopImage) -> Self {
        Self { image, turn: SubjectTurn::unshared() }
    }

    /// Copies a file to the root directory of the volume; a file of that name is overwritten.
    pub(crate) fn copy_to(&self, file: &Path, name: &str) -> Result<()> {
        self.run("mcopy", &["-o".into(), file.into(), volume_path(name)])
    }

    /// Copies a file of the root directory of the volume; a file of that name is overwritten.
    pub(crate) fn copy_from(&self, name: &str, file: &Path) -> Result<()> {
        self.run("mcopy", &["-n".into(), volume_path(name), file.into()])
    }

    /// Deletes a file of the root directory.
    pub(crate) fn delete(&self, name: &str) -> Result<()> {
        self.run("mdel", &[volume_path(name)])
    }

    fn run(&self, program: &str, arguments: &[OsString]) -> Result<()> {
        let mut command = Command::new(program);
        // The check refuses geometries that floppies did not have.
        command.env("MTOOLS_SKIP_CHECK", "1").arg("-i").arg(self.image.device()).args(arguments);
        run_logged(&self.turn, &mut command, &self.image.root().join("output"))
    }
}

fn volume_path(name: &str) -> OsString {
    format!("::/{name}").into()
}
