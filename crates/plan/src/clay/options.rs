//! The parameters of Clay.

use crate::problem::PlanError;

/// The effort of the search, and its limits.
#[derive(Clone, PartialEq, Debug)]
pub struct Options {
    /// Expansions without a better candidate before it is moved (A of Algorithm 1).
    pub look_ahead: usize,
    /// The most keys of a clump.
    pub clump_keys_max: usize,
    /// Hot keys tried per overloaded site without success before the site is left as it is.
    pub failures_max: usize,
    /// The most sites that may be added.
    pub sites_added_max: usize,
    /// Sites that are added at once: a server.
    pub sites_per_server: usize,
    /// The load above which a site is overloaded, in counts of the graph; by default the mean load
    /// times 1 + imbalance.
    pub threshold: Option<f64>,
    /// The most passes over all sites: moves lower the mean, and receivers may become overloaded.
    pub rounds_max: usize,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            look_ahead: 5,
            clump_keys_max: 2_000,
            failures_max: 20,
            sites_added_max: 0,
            sites_per_server: 1,
            threshold: None,
            rounds_max: 4,
        }
    }
}

impl Options {
    /// Refuses thresholds that are no loads, and parameters with which no search can succeed.
    pub fn validate(&self) -> Result<(), PlanError> {
        let number = |what, value, right| Err(PlanError::Number { what, value, right });
        if let Some(value) = self.threshold
            && !(value.is_finite() && value > 0.0)
        {
            return number("threshold", value, "a finite load above 0");
        }
        for (what, value) in [
            ("look-ahead", self.look_ahead),
            ("keys of a clump", self.clump_keys_max),
            ("sites of a server", self.sites_per_server),
        ] {
            if value == 0 {
                return number(what, 0.0, "at least 1");
            }
        }
        Ok(())
    }
}
