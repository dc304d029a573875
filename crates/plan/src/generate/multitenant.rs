//! Tenants with a hot spot that moves (Hermes, section 5.3.2).
//!
//! In the paper every transaction writes both of its keys, drawn by Zipf 0.9. In its public code
//! half of the transactions only read, and keys follow Zipf 0.99. [`MultiTenant::as_in_the_paper`]
//! is the first, [`MultiTenant::new`] the second.

use super::{GenerateError, KEYS_MAX, Random, Touch, Workload, Zipf, sized};
use rand::RngExt;

/// Tenants per site.
const TENANTS: u64 = 4;

/// Four tenants per site, each with a range of keys. Nine tenths of the transactions go to the
/// tenants of one hot site, which changes after a while. Both keys of a transaction belong to one
/// tenant, by Zipf 0.99.
#[derive(Clone, Debug)]
pub struct MultiTenant {
    sites: u64,
    keys_per_tenant: u64,
    change_us: i64,
    zipf: Zipf,
    /// The share of transactions that write.
    writes: f64,
    /// The share of the first tenant, if a tenant is hot instead of a site.
    hot_tenant: Option<f64>,
}

impl MultiTenant {
    /// `keys_per_site` keys each; the hot spot moves on every `change_seconds` (500 in the paper).
    pub fn new(
        sites: u64,
        keys_per_site: u64,
        change_seconds: f64,
    ) -> Result<MultiTenant, GenerateError> {
        sized("sites", sites, 1_000_000, "at most a million")?;
        sized("keys per site", keys_per_site, KEYS_MAX / sites, "at most 2^40 keys in all")?;
        if keys_per_site < TENANTS {
            let (value, right) = (keys_per_site as f64, "at least 4, one for each tenant");
            return Err(GenerateError { what: "keys per site", value, right });
        }
        if !(change_seconds.is_finite() && change_seconds >= 1e-6) {
            let (value, right) = (change_seconds, "a finite time above 0");
            return Err(GenerateError { what: "seconds between changes", value, right });
        }
        let keys_per_tenant = keys_per_site / TENANTS;
        let zipf = Zipf::new(keys_per_tenant, 0.99)?;
        let (change_us, writes, hot_tenant) = ((change_seconds * 1e6) as i64, 0.5, None);
        Ok(MultiTenant { sites, keys_per_tenant, change_us, zipf, writes, hot_tenant })
    }

    /// As in the paper, where its public code differs: all transactions write, by Zipf 0.9.
    #[must_use]
    pub fn as_in_the_paper(self) -> MultiTenant {
        let zipf = Zipf::new(self.keys_per_tenant, 0.9).expect("there are keys");
        MultiTenant { zipf, writes: 1.0, ..self }
    }

    /// With `share` of the transactions for the first tenant, and the rest spread evenly over the
    /// others (section 5.4: 0.25).
    pub fn with_hot_tenant(self, share: f64) -> Result<MultiTenant, GenerateError> {
        if !(0.0..=1.0).contains(&share) {
            let (what, right) = ("the share of a tenant", "a number from 0 to 1");
            return Err(GenerateError { what, value: share, right });
        }
        Ok(MultiTenant { hot_tenant: Some(share), ..self })
    }

    fn tenant(&self, at_us: i64, random: &mut Random) -> u64 {
        let tenants = self.sites * TENANTS;
        if let Some(share) = self.hot_tenant {
            return match random.random_bool(share) {
                true => 0,
                false => random.random_range(1..tenants),
            };
        }
        let hot = (at_us / self.change_us) as u64 % self.sites;
        let site = match random.random_bool(0.9) || self.sites == 1 {
            true => hot,
            false => (hot + random.random_range(1..self.sites)) % self.sites,
        };
        site * TENANTS + random.random_range(0..TENANTS)
    }
}

impl Workload for MultiTenant {
    fn tables(&self) -> &'static [&'static str] {
        &["usertable"]
    }

    fn transaction(&mut self, at_us: i64, random: &mut Random, touches: &mut Vec<Touch>) {
        let tenant = self.tenant(at_us, random);
        let write = random.random_bool(self.writes);
        for _ in 0..2 {
            let key = tenant * self.keys_per_tenant + self.zipf.draw(random);
            touches.push(Touch { table: 0, key: key as i64, write });
        }
    }
}
