//! Replacement of a mounted FiST module by another: files stay open, and the state of the mount is kept.

use std::sync::{Arc, PoisonError};

use ::fist::load;
use ::fist::program::{Field, Structure, Type};
use ::fist::report::{Colours, report};
use vnode::{ControlError, Properties};

use super::levels::Levels;
use super::loaded::Loaded;
use super::{Described, collapse};

impl Described {
    /// Rereads a module's program from its file, and runs the new one from then on.
    pub(crate) fn reload(&self, kind: &str, arguments: &[(String, String)]) -> Result<String, ControlError> {
        if let Some((key, _)) = arguments.first() {
            return Err(ControlError::BadArgument(format!("`reload` takes no argument `{key}`; leave it out")));
        }
        let refused = ControlError::Refused;
        let levels = self.levels.load_full();
        let Some(place) = levels.loaded.iter().position(|loaded| loaded.kind == kind) else {
            return Err(refused(format!("there is no {kind}")));
        };
        let old = &levels.loaded[place];
        let read = load::load(&old.path).map_err(|failure| refused(failure.to_string()))?;
        let Some(program) = read.ir else {
            let told = report(&read.file, &read.text, &read.diagnostics, Colours::Never);
            return Err(refused(format!("the description is wrong, and the old one goes on\n{told}")));
        };
        let new = Loaded::new(program, &read.text, &old.path, &old.pairs);
        let mut new = new.map_err(|error| refused(error.to_string()))?;
        self.fits(old, &new)?;
        new.keep(old);
        let (above, below) = (&levels.loaded[..place], &levels.loaded[place + 1..]);
        let barriers = above.iter().map(|upper| collapse::barrier(upper, &new));
        if let Some(barrier) = barriers.chain(below.iter().map(|lower| collapse::barrier(&new, lower))).flatten().next()
        {
            return Err(refused(format!(
                "the new description cannot take over in one layer with others: {barrier}; unmount, and mount it again"
            )));
        }
        let mut loaded = levels.loaded.clone();
        loaded[place] = Arc::new(new);
        let levels = Levels::new(loaded);
        let duties = levels.duties();
        self.levels.store(Arc::new(levels));
        self.duties.set(duties);
        if let Some(notifier) = self.notifier.get() {
            // Anything that the old module showed may be cached above.
            notifier.everything_changed();
        }
        Ok(format!("{kind} is read again"))
    }

    /// Checks whether the decisions made at mount time hold for another module, too.
    fn fits(&self, old: &Loaded, new: &Loaded) -> Result<(), ControlError> {
        let (before, after): (Properties, Properties) = (old.properties, new.properties);
        let what = if old.level().fan_out != new.level().fan_out {
            "it lies on another number of file systems"
        } else if old.level().filters.changes_size != new.level().filters.changes_size
            || old.level().marks_last != new.level().marks_last
            || old.level().filters.data.is_some() != new.level().filters.data.is_some()
        {
            "it handles the data of files in another way"
        } else if after.needs_every_data_operation && !before.needs_every_data_operation {
            "it has rules for reading or writing, which the kernel does by itself now"
        } else if !after.nothing_to_flush && before.nothing_to_flush {
            "it has rules for closing files, of which the kernel does not tell now"
        } else if after.read_only != before.read_only || after.overlay != before.overlay {
            "it is to be mounted in another way"
        } else if new.keeps_state && !self.keeps_state {
            "it keeps data of each object, which the mount does not"
        } else {
            return Ok(());
        };
        Err(ControlError::Refused(format!("the new description cannot take over: {what}; unmount, and mount it again")))
    }
}

impl Loaded {
    /// Takes over the kept state where its layout is the same: shared, so that writes of operations of the old module
    /// that still run are not lost. Fields that another layout of `%per_vfs` has, too, are copied.
    fn keep(&mut self, old: &Loaded) {
        self.below.clone_from(&old.below);
        self.has_lasting_handles = old.has_lasting_handles;
        self.level = old.level;
        (self.heap, self.objects) = (Arc::clone(&old.heap), Arc::clone(&old.objects));
        self.file_data = Arc::clone(&old.file_data);
        let fields =
            |loaded: &Loaded, structure: Option<usize>| structure.map(|index| loaded.alone.structures[index].clone());
        let (level, before) = (self.alone.topmost(), old.alone.topmost());
        match (fields(self, level.vfs), fields(old, before.vfs)) {
            (new, before) if new == before => self.vfs = Arc::clone(&old.vfs),
            (Some(new), Some(before)) => self.copy_fields(&new, old, &before),
            _ => {}
        }
        let same = fields(self, level.vnode) == fields(old, before.vnode);
        self.layout = if same { old.layout } else { old.layout + 1 };
        let first = old.level().data.start;
        for (index, data) in self.alone.data.iter().enumerate().filter(|(_, data)| data.is_written) {
            let known = old.alone.data.iter().position(|other| {
                other.is_written && other.name == data.name && other.r#type == data.r#type && is_plain(&data.r#type)
            });
            if let Some(known) = known {
                self.data[index] = Arc::clone(&old.data[first + known]);
            }
        }
    }

    /// Copies the fields that have the same name and type in both layouts of `%per_vfs`.
    fn copy_fields(&self, new: &Structure, old: &Loaded, before: &Structure) {
        let from = old.vfs.lock().unwrap_or_else(PoisonError::into_inner);
        let mut to = self.vfs.lock().unwrap_or_else(PoisonError::into_inner);
        for field in new.fields.iter().filter(|field| is_plain(&field.r#type)) {
            let same = |other: &&Field| other.name == field.name && other.r#type == field.r#type;
            if let Some(other) = before.fields.iter().find(same) {
                let size = self.alone.size(&field.r#type) as usize;
                let (to_offset, offset) = (field.offset as usize, other.offset as usize);
                to[to_offset..to_offset + size].copy_from_slice(&from[offset..offset + size]);
            }
        }
    }
}

/// Returns whether a type means the same in every module: each module numbers its own structures.
fn is_plain(r#type: &Type) -> bool {
    match r#type {
        Type::Array(of, _) => is_plain(of),
        Type::Pointer { .. } | Type::Structure(_) => false,
        _ => true,
    }
}
