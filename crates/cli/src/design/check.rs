//! `isomer design check`.

use super::{CheckArgs, open};
use crate::checks::{copies, invariants};
use crate::failure::Failure;
use crate::out;
use crate::work::inspect;
use serde_json::json;

pub(super) fn run(args: &CheckArgs) -> Result<(), Failure> {
    let db = open(&args.folder)?;
    let found = inspect(&db, &db.session())?;
    let checks = [invariants(&db.design()), copies(&found)];
    let is_ok = checks.iter().all(|check| check.ok);
    if args.json {
        let notes = db.notes();
        out::line(json!({ "ok": is_ok, "checks": checks, "notes": notes }));
    } else {
        checks.iter().for_each(|check| out::line(check.line()));
    }
    if is_ok { Ok(()) } else { Err(Failure::Told) }
}
