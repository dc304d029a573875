//! The location of a site, as its process reports it.

/// The location of a site, and whether it can be reached.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Reach {
    /// The name of its node.
    pub node: String,
    /// Its zone, if it has one.
    pub zone: Option<String>,
    /// The reason why it cannot be reached now, if it cannot.
    pub trouble: Option<String>,
}
