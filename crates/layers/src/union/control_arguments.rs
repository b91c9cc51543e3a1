//! Arguments of commands to a union, and their refusals.

use vnode::{Control, ControlError};

use super::branch::branches::{UnusableBranch, UnusableReason};
use crate::{BranchMode, Refusal};

/// Values of the arguments of a command.
pub(crate) struct ArgumentValues<'a>(pub(crate) &'a Control);

impl ArgumentValues<'_> {
    pub(crate) fn get(&self, key: &str) -> Option<&str> {
        self.0.arguments.iter().find(|(known, _)| known == key).map(|(_, value)| value.as_str())
    }

    pub(crate) fn required(&self, key: &str) -> Result<&str, ControlError> {
        self.get(key).ok_or_else(|| missing_argument(key))
    }

    pub(crate) fn position(&self) -> Result<Option<usize>, ControlError> {
        let parse = |text: &str| text.parse().map_err(|_| ControlError::BadArgument(format!("at={text} is no place")));
        self.get("at").map(parse).transpose()
    }

    pub(crate) fn percentage(&self, key: &str) -> Result<Option<u8>, ControlError> {
        let parse = |text: &str| match text.parse() {
            Ok(percentage @ 1..=100) => Ok(percentage),
            _ => Err(ControlError::BadArgument(format!("{key}={text} is not a percentage from 1 to 100"))),
        };
        self.get(key).map(parse).transpose()
    }

    pub(crate) fn mode(&self) -> Result<BranchMode, ControlError> {
        let text = self.required("mode")?;
        let modes = [BranchMode::ReadWrite, BranchMode::ReadOnly, BranchMode::NoCreate];
        let found = modes.into_iter().find(|mode| mode.to_string() == text);
        found.ok_or_else(|| ControlError::BadArgument(format!("mode={text}: a branch is rw, ro or nc")))
    }
}

pub(crate) fn missing_argument(key: &str) -> ControlError {
    ControlError::BadArgument(format!("{key}= is missing"))
}

/// Error for an unusable branch.
pub(crate) fn cannot_be_used(UnusableBranch { label, reason }: &UnusableBranch) -> ControlError {
    let remedy = match reason {
        UnusableReason::Refused(Refusal::InUse) => "; unmount the other, or use it here as `ro`",
        UnusableReason::Refused(Refusal::OtherSnapshots) => "; remove it and add it again",
        _ => "",
    };
    refused(&format!("{label} cannot be used: {reason}{remedy}"))
}

pub(crate) fn refused(reason: &str) -> ControlError {
    ControlError::Refused(reason.to_owned())
}
