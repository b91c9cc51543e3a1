//! Questions of a repair: the cases in which only the user knows what is right.

use super::problem::Problem;

/// A problem that more than one repair solves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// The problem: a loop, or two chains that meet.
    pub problem: Problem,
    /// Path of the file or directory.
    pub path: String,
    /// Path of the file or directory that its chain runs into, if it is another one.
    pub other: Option<String>,
    /// The answers that are possible here. [`RepairChoice::Leave`] always is.
    pub answers: Vec<RepairChoice>,
    /// The answer that loses the least.
    pub suggested: RepairChoice,
}

/// An answer to a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RepairChoice {
    /// Changes nothing.
    Leave,
    /// Ends the chain before it runs into itself or into the other one: [`Question::path`] loses the rest.
    CutThis,
    /// Ends the other chain before they meet: [`Question::other`] loses the rest.
    CutOther,
    /// Copies the clusters that both have, so that each file has its own.
    Copy,
}

impl RepairChoice {
    /// Returns the word for this answer.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Leave => "leave",
            Self::CutThis => "cut-this",
            Self::CutOther => "cut-other",
            Self::Copy => "copy",
        }
    }
}

/// Answers questions.
pub type RepairChoiceCallback<'a> = &'a mut dyn FnMut(&Question) -> RepairChoice;
