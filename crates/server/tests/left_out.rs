//! The features that the crate's documentation leaves out are refused by name. A feature that works
//! does not stay in that list.

mod fixture;

use fixture::Fixture;

/// The statements of the table below *Left out*.
fn left_out() -> Vec<&'static str> {
    let text = include_str!("../src/lib.rs");
    let (_, table) = text.split_once("//! **Left out.**").expect("a paragraph of the head");
    let rows = table.lines().filter_map(|line| line.strip_prefix("//! | `"));
    rows.map(|row| row.split('`').next().expect("a statement")).collect()
}

#[test]
fn statements_that_are_left_out_are_refused() {
    let fixture = Fixture::new();
    let mut client = fixture.client();
    let made = "create table t (a int, b text); create view v as select * from t";
    client.batch_execute(made).expect("a table and a view");
    let all = left_out();
    assert!(all.len() > 20, "the table is there: {all:?}");
    let wrong = |statement: &&str| match client.batch_execute(statement) {
        Ok(()) => Some(format!("works: {statement}")),
        Err(error) => {
            let code = error.code().map(|code| code.code().to_owned());
            (code.as_deref() != Some("0A000")).then(|| format!("{code:?}: {statement}"))
        }
    };
    let wrong: Vec<String> = all.iter().filter_map(wrong).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}
