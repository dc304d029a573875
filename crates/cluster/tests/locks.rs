//! The lock table, as scripts: holders, waiters and refusals.

use goldenscript::{Command, Context, Runner};
use isomer_cluster::{Asked, LockMode, Owner, RowLocks};
use isomer_design::{Key, TableId};
use std::collections::BTreeMap;
use std::error::Error;
use std::path::Path;

#[derive(Default)]
struct Locks {
    locks: RowLocks,
    held: BTreeMap<Owner, Vec<(TableId, Key)>>,
    wanted: BTreeMap<Owner, (TableId, Key)>,
}

impl Locks {
    fn go_on(&mut self, woken: Vec<Owner>) -> String {
        let names: Vec<String> = woken.iter().map(|owner| format!("T{owner}")).collect();
        for owner in woken {
            // An owner that only waited for the holders to end holds nothing.
            if let Some(place) = self.wanted.remove(&owner) {
                self.held.entry(owner).or_default().push(place);
            }
        }
        if names.is_empty() {
            "nobody goes on\n".to_owned()
        } else {
            format!("{} goes on\n", names.join(", "))
        }
    }
}

fn list(owners: &[Owner]) -> String {
    owners.iter().map(|owner| format!("T{owner}")).collect::<Vec<_>>().join(", ")
}

impl Runner for Locks {
    type Command = Command;

    fn run(&mut self, command: &Command, _: &Context) -> Result<String, Box<dyn Error>> {
        let mut args = command.consume_args();
        let owner: Owner = args.next_pos().ok_or("whose?")?.trim_start_matches('T').parse()?;
        match command.name.as_str() {
            "lock" | "share" => {
                let row: i64 = args.next_pos().ok_or("which row?")?.parse()?;
                let waits = args.take_key("wait") != Some("false");
                args.reject_next()?;
                let place = (TableId(1), Key::int(row));
                let mode =
                    if command.name == "lock" { LockMode::Exclusive } else { LockMode::Shared };
                Ok(match self.locks.ask(owner, place.clone(), mode, waits) {
                    Asked::Granted(true) => {
                        self.held.entry(owner).or_default().push(place);
                        "granted\n".to_owned()
                    }
                    Asked::Granted(false) => "held already\n".to_owned(),
                    Asked::Waits(before) if waits => {
                        self.wanted.insert(owner, place);
                        format!("waits for {}\n", list(&before))
                    }
                    Asked::Waits(before) => format!("busy: {}\n", list(&before)),
                    Asked::Deadlock(circle) => format!("refused: {}\n", list(&circle)),
                })
            }
            "wait_for_holders" => {
                let row: i64 = args.next_pos().ok_or("which row?")?.parse()?;
                args.reject_next()?;
                Ok(match self.locks.wait_for_holders(owner, (TableId(1), Key::int(row))) {
                    Asked::Granted(_) => "nobody to wait for\n".to_owned(),
                    Asked::Waits(before) => format!("waits until {} ends\n", list(&before)),
                    Asked::Deadlock(circle) => format!("refused: {}\n", list(&circle)),
                })
            }
            "hand_over" => {
                let to = args.next_pos().ok_or("to whom?")?.trim_start_matches('T').parse()?;
                args.reject_next()?;
                let places = self.held.remove(&owner).unwrap_or_default();
                self.locks.hand_over(owner, to, &places);
                self.held.entry(to).or_default().extend(places);
                Ok("done\n".to_owned())
            }
            "end" => {
                let woken = match self.locks.is_waiting(owner) {
                    true => self.locks.give_up(owner),
                    false => Vec::new(),
                };
                self.wanted.remove(&owner);
                let mut shown = String::new();
                if !woken.is_empty() {
                    shown = self.go_on(woken);
                }
                let places = self.held.remove(&owner).unwrap_or_default();
                let woken = self.locks.release(owner, &places);
                Ok(shown + &self.go_on(woken))
            }
            other => Err(format!("there is no command {other}").into()),
        }
    }
}

#[test]
fn scripts() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts");
    for entry in std::fs::read_dir(folder).expect("the folder of scripts") {
        let path = entry.expect("a file").path();
        goldenscript::run(&mut Locks::default(), &path).expect("the script holds");
    }
}
