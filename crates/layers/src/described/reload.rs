//! Replacement of a mounted FiST module by another: files stay open, and the state of the mount is kept.

use std::sync::{Arc, PoisonError};

use ::fist::load;
use ::fist::program::{Field, Structure, Type};
use ::fist::report::{Colours, report};
use vnode::{ControlError, Properties};

use super::collapse;
use super::layer::FistLayer;
use super::members::CollapsedMembers;
use super::module::LoadedModule;

impl FistLayer {
    /// Rereads a module's program from its file, and runs the new one from then on.
    pub(crate) fn reload(&self, kind: &str) -> Result<String, ControlError> {
        let refused = ControlError::Refused;
        let members = self.members.load_full();
        let Some(index) = members.modules.iter().position(|module| module.kind == kind) else {
            return Err(refused(format!("there is no {kind}")));
        };
        let old = &members.modules[index];
        let read = load::load(&old.path).map_err(|failure| refused(failure.to_string()))?;
        let Some(program) = read.ir else {
            let errors = report(&read.file, &read.text, &read.diagnostics, Colours::Never);
            return Err(refused(format!("the description is wrong, and the old one goes on\n{errors}")));
        };
        let new = LoadedModule::new(program, &read.text, &old.path, &old.pairs);
        let mut new = new.map_err(|error| refused(error.to_string()))?;
        self.check_compatible(old, &new)?;
        new.adopt_state(old);
        let (above, below) = (&members.modules[..index], &members.modules[index + 1..]);
        let barriers = above.iter().map(|upper| collapse::barrier(upper, &new));
        if let Some(barrier) = barriers.chain(below.iter().map(|lower| collapse::barrier(&new, lower))).flatten().next()
        {
            return Err(refused(format!(
                "the new description cannot take over in one layer with others: {barrier}; unmount, and mount it again"
            )));
        }
        let mut modules = members.modules.clone();
        modules[index] = Arc::new(new);
        let members = CollapsedMembers::new(modules);
        let hooks = members.hook_mask();
        self.members.store(Arc::new(members));
        self.hooks.set(hooks);
        if let Some(notifier) = self.notifier.get() {
            // Anything that the old module showed may be cached above.
            notifier.everything_changed();
        }
        Ok(format!("{kind} is read again"))
    }

    /// Checks whether the decisions made at mount time hold for another module, too.
    fn check_compatible(&self, old: &LoadedModule, new: &LoadedModule) -> Result<(), ControlError> {
        let (before, after): (Properties, Properties) = (old.properties, new.properties);
        let obstacle = if old.level().fan_out != new.level().fan_out {
            "it lies on another number of file systems"
        } else if old.level().filters.changes_size != new.level().filters.changes_size
            || old.level().marks_last != new.level().marks_last
            || old.level().filters.data.is_some() != new.level().filters.data.is_some()
        {
            "it handles the data of files in another way"
        } else if after.needs.every_data_operation && !before.needs.every_data_operation {
            "it has rules for reading or writing, which the kernel does by itself now"
        } else if after.needs.every_close && !before.needs.every_close {
            "it has rules for closing files, of which the kernel does not tell now"
        } else if after.needs.every_poll && !before.needs.every_poll {
            "it has rules for polling files, of which the kernel does not tell now"
        } else if after.needs.read_only != before.needs.read_only || after.needs.overlay != before.needs.overlay {
            "it is to be mounted in another way"
        } else if new.keeps_state && !self.keeps_state {
            "it keeps data of each object, which the mount does not"
        } else {
            return Ok(());
        };
        Err(ControlError::Refused(format!(
            "the new description cannot take over: {obstacle}; unmount, and mount it again"
        )))
    }
}

impl LoadedModule {
    /// Takes over the kept state where its layout is the same: shared, so that writes of operations of the old module
    /// that still run are not lost. Fields that another layout of `%per_vfs` has, too, are copied.
    fn adopt_state(&mut self, old: &LoadedModule) {
        self.lower_kinds.clone_from(&old.lower_kinds);
        self.has_persistent_handles = old.has_persistent_handles;
        self.modules_below = old.modules_below;
        (self.heap_budget, self.object_budget) = (Arc::clone(&old.heap_budget), Arc::clone(&old.object_budget));
        self.file_data = Arc::clone(&old.file_data);
        let fields = |module: &LoadedModule, structure: Option<usize>| {
            structure.map(|index| module.own_program.structures[index].clone())
        };
        let (level, before) = (self.own_program.topmost(), old.own_program.topmost());
        match (fields(self, level.vfs), fields(old, before.vfs)) {
            (new, before) if new == before => self.vfs = Arc::clone(&old.vfs),
            (Some(new), Some(before)) => self.copy_fields(&new, old, &before),
            _ => {}
        }
        let same = fields(self, level.vnode) == fields(old, before.vnode);
        self.layout = if same { old.layout } else { old.layout + 1 };
        let first = old.level().data.start;
        for (index, data) in self.own_program.data.iter().enumerate().filter(|(_, data)| data.is_written) {
            let old_index = old.own_program.data.iter().position(|other| {
                other.is_written && other.name == data.name && other.r#type == data.r#type && is_plain(&data.r#type)
            });
            if let Some(old_index) = old_index {
                self.data[index] = Arc::clone(&old.data[first + old_index]);
            }
        }
    }

    /// Copies the fields that have the same name and type in both layouts of `%per_vfs`.
    fn copy_fields(&self, new: &Structure, old: &LoadedModule, before: &Structure) {
        let from = old.vfs.lock().unwrap_or_else(PoisonError::into_inner);
        let mut to = self.vfs.lock().unwrap_or_else(PoisonError::into_inner);
        for field in new.fields.iter().filter(|field| is_plain(&field.r#type)) {
            let same = |other: &&Field| other.name == field.name && other.r#type == field.r#type;
            if let Some(other) = before.fields.iter().find(same) {
                let size = self.own_program.size(&field.r#type) as usize;
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
