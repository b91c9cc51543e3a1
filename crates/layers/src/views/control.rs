//! Definition of views, when the union is created and while programs run.

use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError};

use vnode::{ControlError, FileSystem};

use crate::union::branch::branches::{Branches, open_branch};
use crate::union::branch::claim;
use crate::union::branch::register::{BranchLocation, BranchRegister};
use crate::union::change::with_shared;
use crate::union::control_arguments::{ArgumentValues, cannot_be_used, refused};
use crate::union::settings::UnionSettings;
use crate::union::state::Union;
use crate::union::state::{View, ViewState};
use crate::view_rules::{RULE_SUBJECTS, ViewRule};
use crate::{Branch, BranchMode};

type CommandResult = Result<String, ControlError>;

/// A view as defined by an option: its rule, and its private branch, as in a stack expression.
pub(crate) struct ViewDefinition {
    pub(crate) rule: ViewRule,
    pub(crate) branch: String,
}

impl Union {
    /// Executes a command on views; `None` if it is not one.
    pub(crate) fn view_command(self: &Arc<Self>, arguments: &ArgumentValues<'_>) -> Option<CommandResult> {
        let answer = match arguments.0.command.as_str() {
            "views" => Ok(self.list_views()),
            "view-add" => self.add_view_of(arguments),
            "view-remove" => arguments.required("branch").and_then(|branch| self.remove_view(branch)),
            _ => return None,
        };
        Some(answer)
    }

    /// The views, one a line, in the order in which they are tried: the rules of each, and its private branch.
    fn list_views(&self) -> String {
        let views = self.mount_state.views();
        let line = |view: &Arc<View>| format!("{} = {}\n", view.rules(), view.label());
        views.iter().map(line).collect()
    }

    fn add_view_of(self: &Arc<Self>, arguments: &ArgumentValues<'_>) -> CommandResult {
        let given: Vec<(&str, &str)> =
            RULE_SUBJECTS.iter().filter_map(|subject| Some((*subject, arguments.get(subject)?))).collect();
        let [(subject, value)] = given[..] else {
            return Err(ControlError::BadArgument(format!("one of {} is needed", RULE_SUBJECTS.join("=, ") + "=")));
        };
        let rule = ViewRule::new(subject, value)
            .map_err(|expected| ControlError::BadArgument(format!("{subject}={value} is not {expected}")))?;
        self.add_view(rule, arguments.required("branch")?)
    }

    /// Adds a view with that private branch, or adds the rule to the view that already has it.
    pub(crate) fn add_view(self: &Arc<Self>, rule: ViewRule, text: &str) -> CommandResult {
        let opener = self.opener.as_ref().ok_or_else(|| refused("this union cannot open branches"))?;
        let branch = opener.open(text).map_err(ControlError::BadArgument)?;
        let label = branch.label.clone();
        if self.branches.slots().iter().any(|slot| slot.member.base.label == label) {
            return Err(refused(&format!("{label} is a branch already, which all see")));
        }
        if self.mount_state.find(&label).is_none() {
            let view = self.make_view(branch)?;
            let change = self.begin_change()?;
            view.adopt_branches(self, &change.register);
            if self.mount_state.find(&label).is_some() {
                return Err(refused(&format!("{label} is being added already")));
            }
            let root = view.root_node();
            let mut views = self.mount_state.views();
            views.push(Arc::new(View { rules: vec![Arc::new(rule)], union: view, root }));
            self.mount_state.set_views(views);
            change.finish();
        } else {
            let change = self.begin_change()?;
            let rule = Arc::new(rule);
            let extended = |view: Arc<View>| {
                if view.label() != label {
                    return view;
                }
                let rules = view.rules.iter().chain([&rule]).cloned().collect();
                Arc::new(View { rules, union: Arc::clone(&view.union), root: Arc::clone(&view.root) })
            };
            self.mount_state.set_views(self.mount_state.views().into_iter().map(extended).collect());
            change.finish();
        }
        Ok(self.list_views())
    }

    /// Ends a view: its open files become stale, its private branch is left as it is.
    fn remove_view(self: &Arc<Self>, label: &str) -> CommandResult {
        let by_number = || self.mount_state.views().get(label.parse::<usize>().ok()?).cloned();
        let view = self.mount_state.find(label).or_else(by_number).ok_or_else(|| {
            let known: Vec<String> = self.mount_state.views().iter().map(|view| view.label().to_owned()).collect();
            ControlError::BadArgument(format!("there is no view {label}; there are: {}", known.join(", ")))
        })?;
        let change = self.begin_change()?;
        view.private().is_removed.store(true, Ordering::Relaxed);
        let left: Vec<Arc<View>> =
            self.mount_state.views().into_iter().filter(|other| !Arc::ptr_eq(&other.union, &view.union)).collect();
        self.mount_state.set_views(left);
        for union in self.mount_state.views().iter().map(|view| view.union()).chain([self]) {
            union.directories().iter().for_each(|directory| directory.forget_represented(&view.union));
        }
        view.union.branches.bump_generation();
        view.union.release_own_claims();
        self.mount_state.clear_detached();
        change.finish();
        Ok(self.list_views())
    }

    /// The union of a view with that private branch.
    fn make_view(self: &Arc<Self>, branch: Branch) -> Result<Arc<Union>, ControlError> {
        let (label, file_system) = (branch.label.clone(), branch.file_system.clone());
        let root = file_system.root();
        let cannot = |error: &dyn std::fmt::Display| refused(&format!("{label} cannot be used: {error}"));
        let (mut register, shared) = {
            let register = self.register.lock().unwrap_or_else(PoisonError::into_inner);
            (register.clone(), self.branches.slots().to_vec())
        };
        let known = BranchRegister::of(&root).map_err(|error| cannot(&error))?.unwrap_or_default();
        register.prefer_tag_from(&known, &label, &BranchLocation::of(&file_system));
        let claim = claim::claim_branch(&branch, BranchMode::ReadWrite, claim::CLAIM_TIMEOUT)
            .map_err(|bad| cannot_be_used(&bad))?;
        let own = open_branch(branch, BranchMode::ReadWrite, &mut register).map_err(|bad| cannot_be_used(&bad))?;
        claim::store(&own, claim, claim::CLAIM_TIMEOUT).map_err(|bad| cannot_be_used(&bad))?;
        let base = Arc::clone(&own[0].member.base);
        let mut slots = with_shared(own, &shared);
        let view_state = ViewState { base, is_removed: AtomicBool::new(false) };
        self.notifications.forward_from(&*file_system);
        if let Some(directory) = self.mount_point.get() {
            file_system.set_mount_point(directory.as_fd());
        }
        file_system.keep_access_times(self.kept_access_times());
        // A metadata-only copy would have its data in a file that others keep writing.
        let settings = UnionSettings { metacopy: false, ..self.settings.clone() };
        let mut union = Union::new(Branches::from_slots(Vec::new(), Arc::default()), register.clone(), settings, None);
        union.mount_state = Arc::clone(&self.mount_state);
        union.view_state = Some(view_state);
        union.notifications = self.notifications.clone();
        union.assign_modes(&mut slots);
        let union = Arc::new(union);
        union.replace_branches(slots, &register);
        union.recover();
        union.finish_merges()?;
        Ok(union)
    }

    /// Releases its claims on its branch, so that others can use it.
    fn release_own_claims(&self) {
        for slot in self.branches.slots().iter().filter(|slot| self.is_own(&slot.member.base)) {
            slot.member.work.close();
            slot.member.base.release_claim();
        }
    }
}

impl View {
    /// File system of the private branch.
    pub(crate) fn file_system(&self) -> &dyn FileSystem {
        &*self.private().base.file_system
    }
}
