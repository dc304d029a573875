//! The processes of a cluster, as the layer above a server knows them.

/// Asks a process to restart; `None`: this one.
type Ask = Box<dyn Fn(Option<&str>) -> Result<(), String> + Send + Sync>;

/// The processes, as the layer above knows them.
pub struct Restarts {
    /// The name of this process in the cluster; `None` if it is the only one.
    pub name: Option<String>,
    /// The names of the other processes.
    pub others: Box<dyn Fn() -> Vec<String> + Send + Sync>,
    /// Asks a process to restart.
    pub ask: Ask,
}
