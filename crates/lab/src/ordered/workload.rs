//! The requests of clients: transactions that read records and add one to those that they write.
//!
//! ```text
//!   generator ──▶ touches ──▶ request: procedure "add", its parameters, its footprint
//!                                       answers with the sum of the records that it read
//! ```
//!
//! A record without a row counts as 0, so hundreds of millions of records need not be loaded. The
//! final rows and all answers are a function of the order, which [`serial`](super::serial) checks.

use super::spec::{Experiment, GoogleSpec, Initial, TenantsSpec, TpccSpec, WorkloadSpec};
use super::tpcc::TpccRows;
use isomer_batch::{Abort, Answer, ClientId, Homes, Procedures, Request, Txn};
use isomer_design::{
    Column, ColumnType, Design, Footprint, Key, Placement, Schema, SiteId, TableId,
};
use isomer_plan::generate::{
    GenerateError, Google, LoadTrace, MultiTenant, Random, Touch, Workload,
};

/// The name of the only procedure.
const ADD: &str = "add";
/// The number of tenants per site.
const TENANTS: u64 = 4;

/// A workload, and the initial placement of its records. See the module documentation.
pub struct Demand {
    generator: Box<dyn Workload + Send>,
    touches: Vec<Touch>,
    /// The number of records per site and table.
    pub(super) keys_per_site: u64,
    tables: u32,
    /// The initial number of sites.
    pub(super) sites: u16,
}

impl Demand {
    /// The workload of an experiment. `load` is the load of real machines.
    ///
    /// # Errors
    /// A message if the workload's options are invalid.
    pub(super) fn new(experiment: &Experiment, load: &LoadTrace) -> Result<Demand, String> {
        let until_s = experiment.warm_up_s + experiment.seconds;
        let added = u16::from(experiment.scale_out.is_some());
        let sites = experiment.cluster.sites - added;
        let count = u64::from(sites);
        let (generator, keys_per_site): (Box<dyn Workload + Send>, u64) = match &experiment.workload
        {
            WorkloadSpec::Google(google) => return Demand::google(google, load, sites, until_s),
            WorkloadSpec::Tpcc(TpccSpec { warehouses_per_site, hot }) => {
                let tpcc = TpccRows::new(*warehouses_per_site, count, *hot);
                let keys = tpcc.keys_per_site();
                (Box::new(tpcc), keys)
            }
            WorkloadSpec::Tenants(TenantsSpec { keys_per_site, change_s, tenant }) => {
                let change_s = change_s.unwrap_or(1e9);
                let tenants = MultiTenant::new(count, *keys_per_site, change_s);
                let mut tenants = tenants.map_err(in_words)?.as_in_the_paper();
                if let Some(share) = *tenant {
                    tenants = tenants.with_hot_tenant(share).map_err(in_words)?;
                }
                (Box::new(tenants), *keys_per_site)
            }
        };
        Ok(Demand::of(generator, keys_per_site, sites))
    }

    /// The Google workload over `until_s` seconds.
    ///
    /// # Errors
    /// A message if an option is invalid.
    pub fn google(
        spec: &GoogleSpec,
        load: &LoadTrace,
        sites: u16,
        until_s: f64,
    ) -> Result<Demand, String> {
        let GoogleSpec { keys_per_site, theta, length, .. } = *spec;
        let load = load.first(usize::from(sites)).map_err(in_words)?;
        // As in the paper, the load changes every second.
        let steps = (until_s as u32).max(1);
        let google = Google::new(load, keys_per_site, until_s, theta);
        let mut google = google.and_then(|google| google.in_steps(steps)).map_err(in_words)?;
        if let Some((mean, share)) = length {
            google = google.with_length(mean, mean * share).map_err(in_words)?;
        }
        Ok(Demand::of(Box::new(google), keys_per_site, sites))
    }

    fn of(generator: Box<dyn Workload + Send>, keys_per_site: u64, sites: u16) -> Demand {
        let tables = generator.tables().len() as u32;
        Demand { generator, touches: Vec::new(), keys_per_site, tables, sites }
    }

    /// The initial homes of the records.
    pub fn homes(&self, initial: Initial) -> Homes {
        let sites = (1..=self.sites).map(SiteId);
        let mut design = Design::new(sites).expect("at least one site");
        for table in 1..=self.tables {
            let columns = vec![Column::new("id", ColumnType::Int64)];
            let schema = Schema::new(format!("t{table}"), columns, &["id"]).expect("a schema");
            let starts = self.starts(initial).into_iter().map(|(key, site)| {
                let start = if key == 0 { Key::min() } else { Key::int(key as i64) };
                (start, Placement::at(SiteId(site + 1)))
            });
            design.create_table(TableId(table), schema, starts).expect("ranges in order");
        }
        Homes::of(&design)
    }

    /// The first keys of the initial ranges, each with the index of its site.
    fn starts(&self, initial: Initial) -> Vec<(u64, u16)> {
        let sites = u64::from(self.sites);
        match initial {
            Initial::Range => (0..sites).map(|at| (at * self.keys_per_site, at as u16)).collect(),
            Initial::Hash => {
                let site = |key: u64| (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) % sites;
                (0..sites * self.keys_per_site).map(|key| (key, site(key) as u16)).collect()
            }
            Initial::Skewed => {
                let tenants = sites * TENANTS;
                let first = tenants * 7 / 16;
                let others = (tenants - first).div_ceil(sites - 1);
                let site = |tenant: u64| match tenant.checked_sub(first) {
                    None => 0,
                    Some(other) => 1 + other / others,
                };
                let width = self.keys_per_site / TENANTS;
                (0..tenants).map(|tenant| (tenant * width, site(tenant) as u16)).collect()
            }
        }
    }

    /// The number of records.
    pub(super) fn records(&self) -> u64 {
        self.keys_per_site * u64::from(self.sites) * u64::from(self.tables)
    }

    /// The next request of a client, at `at_s` seconds since the clients began.
    pub fn next(
        &mut self,
        (client, sequence): (ClientId, u64),
        at_s: f64,
        random: &mut Random,
    ) -> Request {
        self.touches.clear();
        self.generator.transaction((at_s * 1e6) as i64, random, &mut self.touches);
        let mut footprint = Footprint::new();
        let mut params = Vec::with_capacity(self.touches.len() * 13);
        for touch in &self.touches {
            let (table, key) = (TableId(u32::from(touch.table) + 1), Key::int(touch.key));
            footprint = match touch.write {
                true => footprint.write(table, key),
                false => footprint.read(table, key),
            };
            params.extend_from_slice(&touch.key.to_be_bytes());
            params.extend_from_slice(&[touch.table, u8::from(touch.write)]);
        }
        Request { client, sequence, attempt: 0, procedure: ADD.to_owned(), params, footprint }
    }
}

/// The procedure that all requests call.
pub fn procedures() -> Procedures {
    Procedures::new().with(ADD, add)
}

fn add(params: &[u8], txn: &mut Txn<'_>) -> Answer {
    let mut sum = 0u64;
    for touch in params.chunks_exact(10) {
        let (key, [table, write]) = (&touch[..8], [touch[8], touch[9]]);
        let key = Key::int(i64::from_be_bytes(key.try_into().expect("eight bytes")));
        let table = TableId(u32::from(table) + 1);
        let count = count(txn.get(table, &key)?.as_deref())?;
        sum = sum.wrapping_add(count);
        if write == 1 {
            txn.put(table, &key, &(count + 1).to_be_bytes())?;
        }
    }
    Ok(sum.to_be_bytes().to_vec())
}

fn in_words(error: GenerateError) -> String {
    error.to_string()
}

/// The count in a row.
fn count(row: Option<&[u8]>) -> Result<u64, Abort> {
    let Some(row) = row else { return Ok(0) };
    let bytes = row.try_into().map_err(|_| Abort::Logic(format!("a row of {} bytes", row.len())));
    bytes.map(u64::from_be_bytes)
}
