//! TPC-C over the wire, in a short form: a server with four sites whose design changes all the time, and a
//! stock PostgreSQL that checks the tables after. Where there is none, the test says so.

mod run;

use run::isomer;

#[test]
fn tpcc_holds_its_conditions_while_the_design_changes() {
    let sizes = ["--warehouses", "2", "--items", "200", "--customers", "60"];
    let ran = isomer(&[&["bench", "tpcc", "--seconds", "3"], &sizes[..]].concat());
    if ran.err.contains("PostgreSQL is missing") {
        eprintln!("SKIPPED: {}", ran.err);
        return;
    }
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.out.contains("the twelve conditions hold"), "{}", ran.out);
}
