//! Preparing: from the intermediate form to code for a target, in which each size, offset and constant is a number.

mod code;
mod data;
mod error;
mod layout;

use crate::ir;
use crate::limits::MAX_OBJECT_BYTES;
use crate::program::{Data, Filters, Ioctl, Level, Program};
use crate::target::Target;
pub(crate) use code::function;
pub use error::PrepareError;
pub(crate) use layout::Layout;

impl ir::Program {
    /// Lowers the program to code that can run on a target.
    ///
    /// # Errors
    /// The reason why the program does not fit the target.
    pub fn prepare(&self, target: &Target) -> Result<Program, PrepareError> {
        let layout = Layout::of(self, target)?;
        let functions = self.functions.iter().map(|one| code::function(one, &layout));
        let sites = self.sites.iter().map(|site| code::site(site, &layout));
        Ok(Program {
            levels: self.levels.iter().map(|level| self.level(level, &layout)).collect::<Result<_, _>>()?,
            data: self.data.iter().map(|data| prepared_data(data, &layout)).collect::<Result<_, _>>()?,
            functions: functions.collect::<Result<_, _>>()?,
            sites: sites.collect::<Result<_, _>>()?,
            structures: layout.structures,
            target: layout.target,
        })
    }

    fn level(&self, level: &ir::Level, layout: &Layout) -> Result<Level, PrepareError> {
        let errors = self.errors[level.own.errors.clone()].iter().map(|error| error.name.clone());
        Ok(Level {
            name: level.name.clone(),
            access: level.access,
            traces: level.traces,
            errors: errors.zip(layout.errors[level.own.errors.clone()].iter().copied()).collect(),
            fan_out: level.fan_out,
            is_overlay: level.is_overlay,
            filters: level.filters.clone(),
            formats: level.formats.clone(),
            ioctls: level.ioctls.iter().map(|ioctl| command(ioctl, layout)).collect::<Result<_, _>>()?,
            mount: level.mount,
            mount_fields: level.mount_fields.clone(),
            vfs: level.vfs,
            vnode: level.vnode,
            rules: level.rules.clone(),
            is_serial: level.is_serial,
            marks_last: self.marks_last(&level.filters),
            data: level.own.data.clone(),
            functions: level.own.functions.clone(),
        })
    }

    /// Returns whether a filter of data takes the parameter that says which page or chunk is the last of its file.
    fn marks_last(&self, filters: &Filters) -> bool {
        let parameters_with_last_flag = if filters.changes_size { 6 } else { 5 };
        let takes_last_flag = |function: usize| self.functions[function].parameters >= parameters_with_last_flag;
        filters.data.is_some_and(|(encode, decode)| takes_last_flag(encode) || takes_last_flag(decode))
    }
}

fn command(ioctl: &ir::Ioctl, layout: &Layout) -> Result<Ioctl, PrepareError> {
    let ir::Ioctl { name, direction, structure, number } = ioctl;
    let size = layout.structures[*structure].size;
    if size > layout.target.ioctls.bytes_max() {
        return Err(PrepareError::TooLarge(name.clone()));
    }
    let command = layout.target.ioctls.command(*direction, size, *number);
    Ok(Ioctl { name: name.clone(), direction: *direction, structure: *structure, command })
}

fn prepared_data(data: &ir::Data, layout: &Layout) -> Result<Data, PrepareError> {
    let too_large = || PrepareError::TooLarge(data.name.clone());
    let size = layout.size(&data.r#type).filter(|size| *size <= MAX_OBJECT_BYTES).ok_or_else(too_large)?;
    let mut bytes = vec![0; size as usize];
    data::write(&data.r#type, &data.value, layout, &mut bytes)
        .ok_or_else(|| PrepareError::BadConstant(data.name.clone()))?;
    let r#type = layout.r#type(&data.r#type).ok_or_else(too_large)?;
    Ok(Data { name: data.name.clone(), r#type, bytes, is_written: data.is_written })
}
