//! Preparing: from the intermediate form to code for a target, in which each size, place and constant is a number.

mod code;
mod data;
mod layout;

use std::fmt;

use crate::ir;
use crate::limits::OBJECT_BYTES_MAX;
use crate::program::{Data, Ioctl, Program};
use crate::target::Target;
pub(crate) use code::function;
pub(crate) use layout::Layout;

/// Why a program cannot be prepared for a target. A checked one always can be for this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unfit {
    /// The target has no such error or flag.
    Missing(&'static str),
    /// There are more errors of the description's own than numbers that are free.
    TooManyErrors,
    /// A constant divides by zero, or is no length.
    BadConstant(String),
    /// What is called so is too large.
    TooLarge(String),
    /// Two labels of a switch in this function have the same value.
    SameLabels(String),
}

impl fmt::Display for Unfit {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unfit::Missing(name) => write!(formatter, "the target has no `{name}`"),
            Unfit::TooManyErrors => formatter.write_str("the target has too few numbers of errors that are free"),
            Unfit::BadConstant(name) => write!(formatter, "`{name}` has no value on the target"),
            Unfit::TooLarge(name) => write!(formatter, "`{name}` is too large on the target"),
            Unfit::SameLabels(name) => {
                write!(formatter, "two labels of a switch in `{name}` are the same on the target")
            }
        }
    }
}

impl std::error::Error for Unfit {}

impl ir::Program {
    /// Makes code of it that can be run on a target.
    ///
    /// # Errors
    /// Why it does not fit the target.
    pub fn prepare(&self, target: &Target) -> Result<Program, Unfit> {
        let layout = Layout::of(self, target)?;
        let functions = self.functions.iter().map(|one| code::function(one, &layout));
        let sites = self.sites.iter().map(|site| code::site(site, &layout));
        Ok(Program {
            name: self.name.clone(),
            access: self.access,
            traces: self.traces,
            errors: self.errors.iter().map(|error| error.name.clone()).zip(layout.errors.iter().copied()).collect(),
            fan_out: self.fan_out,
            is_overlay: self.is_overlay,
            filters: self.filters.clone(),
            formats: self.formats.clone(),
            ioctls: self.ioctls.iter().map(|ioctl| command(ioctl, &layout)).collect::<Result<_, _>>()?,
            mount: self.mount,
            mount_fields: self.mount_fields.clone(),
            vfs: self.vfs,
            vnode: self.vnode,
            data: self.data.iter().map(|data| prepared_data(data, &layout)).collect::<Result<_, _>>()?,
            functions: functions.collect::<Result<_, _>>()?,
            sites: sites.collect::<Result<_, _>>()?,
            rules: self.rules.clone(),
            is_serial: self.is_serial,
            structures: layout.structures,
            target: layout.target,
        })
    }
}

fn command(ioctl: &ir::Ioctl, layout: &Layout) -> Result<Ioctl, Unfit> {
    let ir::Ioctl { name, direction, structure, number } = ioctl;
    let size = layout.structures[*structure].size;
    if size > layout.target.ioctls.bytes_max() {
        return Err(Unfit::TooLarge(name.clone()));
    }
    let command = layout.target.ioctls.command(*direction, size, *number);
    Ok(Ioctl { name: name.clone(), direction: *direction, structure: *structure, command })
}

fn prepared_data(data: &ir::Data, layout: &Layout) -> Result<Data, Unfit> {
    let too_large = || Unfit::TooLarge(data.name.clone());
    let size = layout.size(&data.r#type).filter(|size| *size <= OBJECT_BYTES_MAX).ok_or_else(too_large)?;
    let mut bytes = vec![0; size as usize];
    data::write(&data.r#type, &data.value, layout, &mut bytes).ok_or_else(|| Unfit::BadConstant(data.name.clone()))?;
    let r#type = layout.r#type(&data.r#type).ok_or_else(too_large)?;
    Ok(Data { name: data.name.clone(), r#type, bytes, is_written: data.is_written })
}
