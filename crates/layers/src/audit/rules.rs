//! Rules of `audit`, which select the operations to report by operation, path, user and result.

use std::ops::RangeInclusive;

use vnode::layer::Operation;
use vnode::{Errno, Result};

use crate::globs::Globs;
use crate::rules::index;

/// Rules in order: the first rule that matches an operation decides whether it is reported.
#[derive(Debug)]
pub(crate) struct AuditRules {
    rules: Vec<AuditRule>,
    /// For each operation, the classes of results that some rule reports.
    reported_classes: [ResultClasses; Operation::NAMES.len()],
}

/// A rule, which matches an operation if all its parts match.
#[derive(Debug)]
pub(crate) struct AuditRule {
    /// Whether matching operations are reported, rather than ignored.
    pub(crate) report: bool,
    /// Bit set of operations, by index.
    pub(crate) operations: u64,
    pub(crate) results: ResultSet,
    /// Paths that match; every path if `None`.
    pub(crate) paths: Option<Globs>,
    /// Users that match; every user if `None`.
    pub(crate) users: Option<UserSet>,
    pub(crate) except_users: UserSet,
    /// Whether the owner of the object is an exception, too.
    pub(crate) except_owner: bool,
}

/// A set of users.
#[derive(Clone, Debug, Default)]
pub(crate) struct UserSet(pub(crate) Vec<RangeInclusive<u32>>);

/// A set of results: classes, and individual errors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ResultSet {
    pub(crate) classes: ResultClasses,
    pub(crate) errors: Vec<Errno>,
}

/// Bit set of classes of results.
pub(crate) type ResultClasses = u8;
/// The operation succeeded.
pub(crate) const OK: ResultClasses = 1;
/// The caller lacks permission: `EACCES`, `EPERM`.
pub(crate) const DENIED: ResultClasses = 2;
/// The object does not exist: `ENOENT`.
pub(crate) const FAILED: ResultClasses = 4;
/// Any other error.
pub(crate) const OTHER: ResultClasses = 8;

/// Facts about an operation that rules query, most of them determined only on demand.
pub(crate) trait OperationFacts {
    fn operation(&self) -> usize;
    fn result(&self) -> Result<()>;
    fn user(&self) -> u32;
    /// Returns whether the caller owns the object.
    fn is_owner(&self) -> bool;
    /// Returns whether any path of the operation matches these patterns.
    fn has_path(&self, globs: &Globs) -> bool;
}

impl AuditRules {
    pub(crate) fn new(rules: Vec<AuditRule>) -> Self {
        let mut reported_classes = [0; Operation::NAMES.len()];
        for rule in rules.iter().filter(|rule| rule.report) {
            for (index, reported_classes) in reported_classes.iter_mut().enumerate() {
                if rule.operations & (1 << index) != 0 {
                    *reported_classes |= rule.results.reported_classes();
                }
            }
        }
        Self { rules, reported_classes }
    }

    /// Returns whether any rule might report this; cheap, since every operation calls it.
    pub(crate) fn may_report(&self, operation: usize, result: Result<()>) -> bool {
        self.reported_classes[operation] & class_of(result) != 0
    }

    /// Returns whether some rule reports results of these classes for the named operation.
    pub(crate) fn reports_classes(&self, operation: &str, classes: ResultClasses) -> bool {
        self.reported_classes[index(operation).unwrap_or_default()] & classes != 0
    }

    /// Returns whether some rule reports results of these classes for any operation.
    pub(crate) fn reports_for_any_operation(&self, classes: ResultClasses) -> bool {
        self.reported_classes.iter().any(|reported_classes| reported_classes & classes != 0)
    }

    /// Returns whether the first matching rule reports the operation.
    pub(crate) fn reports(&self, facts: &impl OperationFacts) -> bool {
        self.rules.iter().find(|rule| rule.matches(facts)).is_some_and(|rule| rule.report)
    }

    /// Returns whether any rule depends on paths.
    pub(crate) fn depend_on_paths(&self) -> bool {
        self.rules.iter().any(|rule| rule.paths.is_some())
    }
}

impl AuditRule {
    /// Returns whether all parts match, with the cheap tests first.
    fn matches(&self, facts: &impl OperationFacts) -> bool {
        self.operations & (1 << facts.operation()) != 0
            && self.results.contains(facts.result())
            && self.users.as_ref().is_none_or(|users| users.contains(facts.user()))
            && !self.except_users.contains(facts.user())
            && !(self.except_owner && facts.is_owner())
            && self.paths.as_ref().is_none_or(|globs| facts.has_path(globs))
    }
}

impl UserSet {
    fn contains(&self, user: u32) -> bool {
        self.0.iter().any(|range| range.contains(&user))
    }
}

impl ResultSet {
    fn contains(&self, result: Result<()>) -> bool {
        self.classes & class_of(result) != 0 || result.is_err_and(|error| self.errors.contains(&error))
    }

    fn reported_classes(&self) -> ResultClasses {
        self.errors.iter().fold(self.classes, |classes, error| classes | class_of(Err(*error)))
    }
}

fn class_of(result: Result<()>) -> ResultClasses {
    match result {
        Ok(()) => OK,
        Err(Errno::EACCES | Errno::EPERM) => DENIED,
        Err(Errno::ENOENT) => FAILED,
        Err(_) => OTHER,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::parse;

    struct Case {
        operation: &'static str,
        result: Result<()>,
        user: u32,
        owner: u32,
        path: &'static str,
    }

    impl OperationFacts for Case {
        fn operation(&self) -> usize {
            index(self.operation).unwrap()
        }
        fn result(&self) -> Result<()> {
            self.result
        }
        fn user(&self) -> u32 {
            self.user
        }
        fn is_owner(&self) -> bool {
            self.user == self.owner
        }
        fn has_path(&self, globs: &Globs) -> bool {
            globs.matches(self.path.as_bytes())
        }
    }

    fn reports(rules: &AuditRules, case: &Case) -> bool {
        let reported = rules.reports(case);
        assert!(!reported || rules.may_report(case.operation(), case.result));
        reported
    }

    #[test]
    fn default_rules_report_strangers_but_not_owners() {
        let rules = AuditRules::new(parse::default_rules());
        let case = Case { operation: "lookup", result: Err(Errno::ENOENT), user: 7, owner: 8, path: "" };
        assert!(reports(&rules, &case));
        assert!(reports(&rules, &Case { result: Err(Errno::EACCES), ..case }));
        assert!(!reports(&rules, &Case { result: Ok(()), ..case }));
        assert!(!reports(&rules, &Case { owner: 7, ..case }));
        assert!(!reports(&rules, &Case { user: 0, ..case }));
        assert!(!reports(&rules, &Case { operation: "open", ..case }));
        assert!(reports(&rules, &Case { operation: "open", result: Err(Errno::EACCES), ..case }));
        assert!(
            !rules.reports_classes("lookup", OK)
                && !rules.reports_classes("read", OK | DENIED)
                && rules.reports_classes("lookup", FAILED)
        );
    }

    #[test]
    fn the_first_rule_that_matches_decides() {
        let text = "ignore path=**/.cache/**\n# a comment\n\nreport operations=unlink:rename result=ok uid=5-6\n";
        let rules = AuditRules::new(crate::rules::lines("rules", text, parse::rule).unwrap());
        let case = Case { operation: "unlink", result: Ok(()), user: 5, owner: 5, path: "a/b" };
        assert!(reports(&rules, &case));
        assert!(!reports(&rules, &Case { path: "a/.cache/b", ..case }));
        assert!(!reports(&rules, &Case { user: 7, ..case }));
        assert!(!reports(&rules, &Case { result: Err(Errno::EACCES), ..case }));
        assert!(rules.depend_on_paths());
    }
}
