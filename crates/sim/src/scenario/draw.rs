//! The parameters of a run, drawn from its seed. Runs differ in character: one table and many
//! clients, or a perfect network and many crashes, or as few changes as possible. A few runs are
//! long, with all faults at once; they find bugs that need several unlikely events in a row.

use crate::options::{Faults, SimOptions};
use crate::plant::Plant;
use crate::world::{Manners, World};
use isomer_design::{
    Backups, Column, ColumnType, Domains, Key, Placement, Schema, SiteId, SiteSet, TableId,
};
use isomer_plan::strategy::Learned;
use isomer_strategy::{OnDemand, Static, Strategy, TwoPhase};

/// See the [module documentation](self).
#[derive(Clone, Debug)]
pub(crate) struct Draw {
    pub(crate) sites: u16,
    pub(crate) tables: u32,
    /// Multiplies the number of transactions in the options.
    pub(crate) times: u64,
    /// Keys are 0 up to this, exclusive, in each table.
    pub(crate) keys: u64,
    pub(crate) clients: u64,
    pub(crate) strategy: Chosen,
    /// The weight of each kind of transaction, in the order of [`super::client::Kind`].
    pub(crate) mix: [u64; 7],
    /// How many of a thousand possible pauses of a procedure happen.
    pub(crate) pause_per_mille: u64,
    /// The longest interval between changes of the operator; 0: there is no operator.
    pub(crate) change_every_ns: u64,
    /// The longest interval between crashes; 0: there are none.
    pub(crate) crash_every_ns: u64,
    /// The only site that crashes, again and again; 0: any site does.
    pub(crate) restless: u16,
    /// How many of a thousand crashes begin with a broken disk.
    pub(crate) break_disk_per_mille: u64,
    /// The longest interval between stalls; 0: there are none.
    pub(crate) stall_every_ns: u64,
    pub(crate) manners: Manners,
    /// The longest interval between disks that stay broken for long; 0: there are none.
    pub(crate) break_every_ns: u64,
    /// The number of clients that send statements.
    pub(crate) statements: u64,
    /// Their transactions are serializable.
    pub(crate) serializable: bool,
    /// How many of a thousand of their row accesses go to the first few rows.
    pub(crate) hot_per_mille: u64,
    /// How many of a thousand of their transactions are cancelled at some moment.
    pub(crate) cancel_per_mille: u64,
    /// The backups of each table.
    pub(crate) backups: Backups,
    /// The longest interval between sites that stay down; 0: there are none.
    pub(crate) lose_every_ns: u64,
    /// The sites of each process, which fail together.
    pub(crate) domains: Domains,
    /// There is a table whose layout changes.
    pub(crate) reshards: bool,
    /// Tables are ordered.
    pub(crate) ordered: Option<Ordered>,
    /// The sites of each node, if there are nodes.
    pub(crate) nodes: Vec<Vec<SiteId>>,
    /// The longest interval between faults of a node or of its brokers; 0: there are none.
    pub(crate) trouble_every_ns: u64,
}

/// The treatment of a transaction that no single site can run.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Chosen {
    /// Refuse it.
    Static,
    /// Commit it over several sites.
    TwoPhase,
    /// Change the design for it.
    OnDemand,
    /// Commit it over several sites, and change the design when that pays.
    Learned,
}

/// A run with ordered tables.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ordered {
    /// The most rows that move to each site; 0: none do.
    pub(crate) fused: usize,
    /// The sites are in the process with the order, and fail with it.
    pub(crate) together: bool,
    /// The longest interval between failures of that process; 0: there are none.
    pub(crate) fail_every_ns: u64,
    /// A planted bug: batches do not wait for the disk of the order.
    pub(crate) is_lax: bool,
}

const MS: u64 = 1_000_000;
/// How many of a thousand runs are long.
const LONG_PER_MILLE: u64 = 40;

impl Draw {
    pub(crate) fn of(world: &World, options: &SimOptions) -> Draw {
        let is_long = world.chance(LONG_PER_MILLE);
        let often = |per_mille, range: std::ops::Range<u64>| {
            let per_mille = if is_long && per_mille > 0 { 1000 } else { per_mille };
            if world.chance(per_mille) { world.draw(range) * MS } else { 0 }
        };
        let mut mix = [0; 7];
        mix.fill_with(|| if world.chance(250) { 0 } else { world.draw(1..10) });
        mix[0] = mix[0].max(1);
        let faults = options.faults;
        let sites = world.draw(2..5) as u16;
        let is_restless = world.chance(300);
        let restless = if is_restless { world.draw(1..u64::from(sites) + 1) as u16 } else { 0 };
        let crashes = if is_restless { 5..50 } else { 15..150 };
        let crash_every_ns = often(if faults.crashes { 700 } else { 0 }, crashes);
        let stall_every_ns = often(if faults.stalls { 600 } else { 0 }, 15..120);
        Draw {
            sites,
            times: if is_long { 4 } else { 1 },
            tables: world.draw(1..4) as u32,
            keys: world.draw(4..40),
            clients: world.draw(2..9),
            strategy: match world.draw(0..10) {
                0 => Chosen::Static,
                1..4 => Chosen::TwoPhase,
                4..7 => Chosen::Learned,
                _ => Chosen::OnDemand,
            },
            mix,
            pause_per_mille: [0, 100, 400][world.draw(0..3) as usize],
            change_every_ns: often(850, 2..40),
            crash_every_ns,
            restless,
            break_disk_per_mille: [0, 200][world.draw(0..2) as usize],
            stall_every_ns,
            manners: Manners {
                lose_per_mille: lose_per_mille(world, faults.loss),
                checkpoint_ns: often(600, 5..80),
                ..manners(world, faults.network)
            },
            break_every_ns: often(if faults.disks { 400 } else { 0 }, 50..400),
            statements: if world.chance(700) || options.serializable {
                world.draw(1..7) + u64::from(options.serializable)
            } else {
                0
            },
            serializable: options.serializable,
            hot_per_mille: [0, 700][world.draw(0..2) as usize],
            // The effect of a cancelled commit is unknown, as if its answer were lost.
            cancel_per_mille: if faults.network { 100 } else { 0 },
            backups: if options.backups { backups(world, sites) } else { Backups::NONE },
            lose_every_ns: 0,
            domains: (1..=sites).map(|site| SiteSet::of(SiteId(site))).collect(),
            reshards: options.reshard,
            nodes: Vec::new(),
            ordered: None,
            trouble_every_ns: 0,
        }
        .with_failover(world, options)
        .with_nodes(world, options)
        .with_orders()
        .with_order(world, options)
    }

    /// Clients send statements: procedures read ordered tables, while no row may be fused. When the
    /// process with the order fails, no change of the design is under way, because nothing else
    /// would complete it.
    fn with_order(self, world: &World, options: &SimOptions) -> Draw {
        if !options.ordered {
            return self;
        }
        let fused = if world.chance(600) { world.draw(1..12) as usize } else { 0 };
        let crashes = options.faults.crashes;
        let (together, fails) = (crashes && world.chance(250), crashes && world.chance(400));
        let fail_every_ns = if together || fails { world.draw(40..400) * MS } else { 0 };
        let is_lax = options.plant == Some(Plant::EarlyBatch);
        let mut run = Draw {
            statements: world.draw(2..9),
            clients: if fused > 0 { 0 } else { self.clients.min(2) },
            mix: [0, 0, 0, 0, 0, 1, 1],
            ordered: Some(Ordered { fused, together, fail_every_ns, is_lax }),
            ..self
        };
        if fail_every_ns > 0 {
            (run.strategy, run.change_every_ns) = (Chosen::TwoPhase, 0);
        }
        if together {
            (run.crash_every_ns, run.break_every_ns) = (0, 0);
            let (lose_per_mille, give_up_per_mille) = (0, 0);
            run.manners = Manners { lose_per_mille, give_up_per_mille, ..run.manners };
        }
        run
    }

    /// A writer of two layouts may need two sites. A change of the layout takes time, so other
    /// clients are fewer.
    fn with_orders(self) -> Draw {
        if !self.reshards {
            return self;
        }
        let strategy = match self.strategy {
            Chosen::Static => Chosen::TwoPhase,
            chosen => chosen,
        };
        let (clients, statements) = (self.clients.min(2), self.statements.min(1));
        Draw { strategy, clients, statements, times: 3 * self.times, ..self }
    }

    /// Draws more only if the option is set, which leaves the draws of other runs as they were.
    fn with_failover(self, world: &World, options: &SimOptions) -> Draw {
        if !options.failover {
            return self;
        }
        let count = if self.sites > 2 && world.chance(200) { 2 } else { 1 };
        let backups = Backups { count, on_disk: world.chance(500) };
        let lose_every_ms = world.draw(20..200);
        // In one run of three, processes have two sites.
        let sites: Vec<SiteId> = (1..=self.sites).map(SiteId).collect();
        let in_pairs = lose_every_ms.is_multiple_of(3);
        let processes = sites.chunks(if in_pairs { 2 } else { 1 });
        let domains = processes.map(|sites| sites.iter().copied().collect()).collect();
        Draw { backups, lose_every_ns: lose_every_ms * MS, domains, ..self }
    }

    /// Draws more only if the option is set. Kafka takes the place of disks.
    fn with_nodes(self, world: &World, options: &SimOptions) -> Draw {
        if !options.cluster {
            return self;
        }
        let mut nodes = vec![Vec::new(); world.draw(1..u64::from(self.sites) + 1) as usize];
        let count = nodes.len();
        (1..=self.sites).for_each(|site| nodes[usize::from(site) % count].push(SiteId(site)));
        let Faults { crashes, network, stalls, .. } = options.faults;
        let trouble = if crashes || network || stalls { world.draw(20..200) * MS } else { 0 };
        let (break_disk_per_mille, break_every_ns) = (0, 0);
        Draw { nodes, trouble_every_ns: trouble, break_disk_per_mille, break_every_ns, ..self }
    }

    pub(crate) fn strategy(&self) -> Box<dyn Strategy> {
        match self.strategy {
            Chosen::Static => Box::new(Static),
            Chosen::TwoPhase => Box::new(TwoPhase),
            Chosen::OnDemand => Box::new(OnDemand::default()),
            Chosen::Learned => Box::new(Learned::default()),
        }
    }

    pub(crate) fn table_ids(&self) -> impl Iterator<Item = TableId> + use<> {
        (1..=self.tables).map(TableId)
    }

    /// A table's schema, and the first keys and placements of its partitions.
    pub(crate) fn table(&self, world: &World, id: TableId) -> (Schema, Vec<(Key, Placement)>) {
        let columns =
            vec![Column::new("id", ColumnType::Int64), Column::new("value", ColumnType::Int64)];
        let name = format!("t{}", id.0);
        let schema = Schema::new(name, columns, &["id"]).expect("two columns and a key");
        let site = || SiteId(world.draw(1..u64::from(self.sites) + 1) as u16);
        let mut partitions = vec![(Key::min(), Placement::at(site()))];
        for key in 1..self.keys as i64 {
            if world.chance(200) {
                partitions.push((Key::int(key), Placement::at(site())));
            }
        }
        (schema, partitions)
    }
}

/// One run in five has none; most of the others have one, on disk.
fn backups(world: &World, sites: u16) -> Backups {
    if world.chance(200) {
        return Backups::NONE;
    }
    let most = u64::from(sites - 1).min(2);
    let count = if world.chance(700) { 1 } else { world.draw(1..most + 1) };
    Backups { count: count as u8, on_disk: world.chance(800) }
}

/// Half of the runs lose nothing; most of the others little.
fn lose_per_mille(world: &World, lossy: bool) -> u64 {
    if !lossy || world.chance(500) {
        return 0;
    }
    if world.chance(200) { world.draw(20..100) } else { world.draw(1..20) }
}

fn manners(world: &World, unruly: bool) -> Manners {
    let unruly = unruly && world.chance(800);
    let least = world.draw(20_000..500_000);
    Manners {
        delay_ns: (least, least + world.draw(1..2 * MS)),
        straggle_per_mille: if unruly { world.draw(0..100) } else { 0 },
        straggle_ns: world.draw(1..40) * MS,
        lose_per_mille: 0,
        double_per_mille: if unruly { world.draw(0..200) } else { 0 },
        give_up_per_mille: if unruly && world.chance(500) { world.draw(0..60) } else { 0 },
        sync_ns: (50_000, world.draw(51_000..3 * MS)),
        tick_ns: world.draw(2..8) * MS,
        checkpoint_ns: 0,
        shuffle: true,
    }
}
