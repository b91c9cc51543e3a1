//! Policies of a union: which branch receives a new object, and which of several objects with one name a change applies to.

/// Policy that selects the branch for a new object among those in which objects may be created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum CreatePolicy {
    /// The branch of the directory's leftmost instance, or the nearest higher one.
    #[default]
    First,
    /// As [`CreatePolicy::First`], but rather a branch that already has the directory.
    ExistingPath,
    /// The best of all branches.
    Anywhere(BranchOrder),
    /// The best of the branches that have the directory. If no object may be created in these, as [`CreatePolicy::First`].
    WithinExistingPath(BranchOrder),
    /// The best of the branches that have the longest part of the path to the directory.
    WithinSharedPath(BranchOrder),
}

/// Order in which branches are preferred.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BranchOrder {
    /// From the left.
    Leftmost,
    /// By free space, most first.
    MostFree,
    /// By free space, least first.
    LeastFree,
    /// By the amount of data, least first.
    LeastUsed,
    /// Random.
    Random,
    /// Random, with probabilities in proportion to the free space.
    WeightedRandom,
    /// One after the other.
    RoundRobin,
    /// By the modification time of the directory in each, the latest first.
    Newest,
}

/// Objects to which a change of a name or of attributes applies, of those that have one name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum ActionPolicy {
    /// The visible one.
    #[default]
    First,
    /// The visible one, and those that it hides in branches that may be changed.
    All,
}

impl CreatePolicy {
    /// Returns whether objects of one directory are spread over branches.
    pub(crate) fn spreads(self) -> bool {
        !matches!(self, Self::First | Self::ExistingPath)
    }

    /// Parses the name of a policy: that of Plyfs or that of mergerfs.
    ///
    /// # Errors
    /// What is expected instead.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        if matches!(text, "all" | "epall") {
            return Err("a policy that places an object in one branch, such as leftmost: copies of one file in several branches \
                        would differ from its first change on"
                .to_owned());
        }
        let name = full_name(text);
        let policy = match name {
            "first" => Some(Self::First),
            "existing-path" => Some(Self::ExistingPath),
            _ => match (name.strip_prefix("existing-path-"), name.strip_prefix("shared-path-")) {
                (Some(order), _) => BranchOrder::parse(order).map(Self::WithinExistingPath),
                (None, Some(order)) => BranchOrder::parse(order).map(Self::WithinSharedPath),
                (None, None) => BranchOrder::parse(name).map(Self::Anywhere),
            },
        };
        policy.ok_or_else(|| {
            let orders: Vec<&str> = ORDERS.iter().map(|(name, _)| *name).collect();
            format!("first, existing-path, or one of {}, also after existing-path- or shared-path-", orders.join(", "))
        })
    }
}

/// Orders by their names.
const ORDERS: [(&str, BranchOrder); 8] = [
    ("leftmost", BranchOrder::Leftmost),
    ("most-free", BranchOrder::MostFree),
    ("least-free", BranchOrder::LeastFree),
    ("least-used", BranchOrder::LeastUsed),
    ("random", BranchOrder::Random),
    ("weighted-random", BranchOrder::WeightedRandom),
    ("round-robin", BranchOrder::RoundRobin),
    ("newest", BranchOrder::Newest),
];

impl BranchOrder {
    /// Parses the name of an order.
    pub(crate) fn parse(name: &str) -> Option<Self> {
        ORDERS.iter().find(|(known, _)| *known == name).map(|(_, order)| *order)
    }
}

impl ActionPolicy {
    /// Parses the name of a policy: that of Plyfs or that of mergerfs.
    ///
    /// # Errors
    /// What is expected instead.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        match text {
            "first" | "ff" | "epff" => Ok(Self::First),
            "all" | "epall" => Ok(Self::All),
            _ => {
                Err("first or all: a change of any other object than the leftmost alone would not be visible"
                    .to_owned())
            }
        }
    }
}

/// Checks the name of the policy that selects the visible object of a name: that of Plyfs or that of mergerfs.
///
/// # Errors
/// What is expected instead.
pub(crate) fn check_search_policy(text: &str) -> Result<(), String> {
    match text {
        // The first of all is the leftmost.
        "first" | "ff" | "epff" | "all" | "epall" => Ok(()),
        _ => Err("first: whiteouts, copies and inode numbers refer to the leftmost object of a name; to prefer those of another \
                  branch, move it to the left"
            .to_owned()),
    }
}

/// The full name of a create policy that mergerfs abbreviates.
fn full_name(name: &str) -> &str {
    match name {
        "ff" => "leftmost",
        "mfs" => "most-free",
        "lfs" => "least-free",
        "lus" => "least-used",
        "rand" => "random",
        "pfrd" => "weighted-random",
        "epff" => "existing-path-leftmost",
        "epmfs" => "existing-path-most-free",
        "eplfs" => "existing-path-least-free",
        "eplus" => "existing-path-least-used",
        "eprand" => "existing-path-random",
        "eppfrd" => "existing-path-weighted-random",
        "mspmfs" => "shared-path-most-free",
        "msplfs" => "shared-path-least-free",
        "msplus" => "shared-path-least-used",
        "msppfrd" | "mspfrd" => "shared-path-weighted-random",
        name => name,
    }
}
